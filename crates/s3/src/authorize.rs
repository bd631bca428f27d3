//! Whether a caller may do what it asks. The only place that makes an [`Authorized`].
//!
//! What the cache holds is not known here, so a hit cannot be checked less than a miss.

use std::sync::Arc;

use forebay_types::BucketName;

use crate::code::Code;
use crate::error::S3Error;
use crate::keys::{AccessKey, Effect, Grant};
use crate::route::{Call, Operation, ReadObject};
use crate::xml::DeleteEntry;

/// Who asks, as far as a signature has proved it.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// The endpoint is open: everybody may do everything.
    Anybody,
    /// The holder of this key.
    Holder(Arc<AccessKey>),
    /// Somebody who does not sign, and what such callers may do.
    Anonymous(Arc<[Grant]>),
}

impl Caller {
    /// Refuses callers of whom nothing is known: for what has no bucket to grant it in.
    pub(crate) fn require_known(&self) -> Result<(), S3Error> {
        match self {
            Self::Anybody | Self::Holder(_) => Ok(()),
            Self::Anonymous(_) => Err(not_signed()),
        }
    }
}

/// The refusal of whoever would have had to sign.
pub(crate) fn not_signed() -> S3Error {
    S3Error::new(Code::AccessDenied, "Access Denied: the request is not signed.")
}

/// Something that its caller may do. Whoever holds one need not ask again.
#[derive(Debug)]
pub(crate) struct Authorized<Op> {
    op: Op,
}

impl<Op> Authorized<Op> {
    /// What is allowed.
    pub(crate) fn op(&self) -> &Op {
        &self.op
    }

    /// Lets go of the proof, where the operation is carried out.
    pub(crate) fn into_op(self) -> Op {
        self.op
    }
}

/// Checks every need of an operation.
pub(crate) fn authorize<Op: Needs>(caller: &Caller, op: Op) -> Result<Authorized<Op>, S3Error> {
    let may = |grants: &[Grant]| op.all_needs(&mut |need| need.is_met_by(grants));
    match caller {
        Caller::Holder(key) if !may(&key.grants) => {
            Err(S3Error::new(Code::AccessDenied, "Access Denied"))
        }
        Caller::Anonymous(grants) if !may(grants) => Err(not_signed()),
        Caller::Anybody | Caller::Holder(_) | Caller::Anonymous(_) => Ok(Authorized { op }),
    }
}

/// One permission that an operation needs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Need<'a> {
    /// The bytes or attributes of an object.
    Read(&'a BucketName, &'a str),
    /// To change an object; with an empty key, the bucket itself.
    Write(&'a BucketName, &'a str),
    /// The names that begin so.
    List(&'a BucketName, &'a str),
    /// Any right at all in a bucket: clients ask whether it exists before they use it.
    Enter(&'a BucketName),
    /// The names of all buckets.
    ListBuckets,
}

impl Need<'_> {
    fn is_met_by(self, grants: &[Grant]) -> bool {
        let any = |effect| {
            grants.iter().any(|grant| grant.effect == effect && self.concerns(grant, effect))
        };
        any(Effect::Allow) && !any(Effect::Deny)
    }

    /// Whether a grant speaks of this need: to permit it, it has to cover all of it; to deny
    /// it, some of it is enough.
    fn concerns(self, grant: &Grant, effect: Effect) -> bool {
        let covers = |bucket: &BucketName, name: &str| {
            grant.bucket.matches(bucket) && name.starts_with(&grant.prefix)
        };
        match self {
            Self::Read(bucket, key) => grant.read && covers(bucket, key),
            Self::Write(bucket, key) => grant.write && covers(bucket, key),
            Self::List(bucket, prefix) => {
                let touches = grant.bucket.matches(bucket) && grant.prefix.starts_with(prefix);
                grant.list && (covers(bucket, prefix) || (effect == Effect::Deny && touches))
            }
            Self::Enter(bucket) => match effect {
                Effect::Allow => {
                    grant.bucket.matches(bucket) && (grant.read || grant.write || grant.list)
                }
                Effect::Deny => grant.list && covers(bucket, ""),
            },
            Self::ListBuckets => {
                let all = grant.bucket == crate::keys::BucketPattern::Any;
                grant.list && grant.prefix.is_empty() && (all || effect == Effect::Deny)
            }
        }
    }
}

/// An operation that knows what it needs.
pub(crate) trait Needs {
    /// Whether all needs are met, by the judgement of `met`.
    fn all_needs(&self, met: &mut dyn FnMut(Need<'_>) -> bool) -> bool;
}

impl Needs for ReadObject {
    fn all_needs(&self, met: &mut dyn FnMut(Need<'_>) -> bool) -> bool {
        met(Need::Read(&self.bucket, self.key.as_str()))
    }
}

impl Needs for Call {
    fn all_needs(&self, met: &mut dyn FnMut(Need<'_>) -> bool) -> bool {
        self.operation.all_needs(met)
    }
}

impl Needs for Operation {
    fn all_needs(&self, met: &mut dyn FnMut(Need<'_>) -> bool) -> bool {
        match self {
            Self::ReadObject(read) => read.all_needs(met),
            Self::AskObject(bucket, key) => met(Need::Read(bucket, key.as_str())),
            Self::ListBucket { bucket, prefix } => met(Need::List(bucket, prefix)),
            Self::ListBuckets => met(Need::ListBuckets),
            Self::WriteObject(write) => {
                let source = write.source.as_ref();
                met(Need::Write(&write.bucket, write.key.as_str()))
                    && source.is_none_or(|from| met(Need::Read(&from.bucket, from.key.as_str())))
            }
            // Which objects to delete only the body says: each is asked for when it is read.
            Self::ProbeBucket(bucket) | Self::DeleteObjects(bucket) => met(Need::Enter(bucket)),
            Self::WriteBucket(bucket) => met(Need::Write(bucket, "")),
        }
    }
}

/// The objects of a DeleteObjects call.
#[derive(Debug)]
pub(crate) struct Deletions {
    pub(crate) bucket: BucketName,
    pub(crate) entries: Vec<DeleteEntry>,
}

impl Needs for Deletions {
    fn all_needs(&self, met: &mut dyn FnMut(Need<'_>) -> bool) -> bool {
        self.entries.iter().all(|entry| met(Need::Write(&self.bucket, &entry.key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy_source::CopySource;
    use crate::route::WriteObject;
    use crate::testing::grant;
    use forebay_telemetry::Secret;
    use forebay_types::ObjectKey;

    fn holder(grants: &[(Effect, &str, &str, &str)]) -> Caller {
        let grants = grants.iter().map(|(e, b, p, r)| grant(*e, b, p, r)).collect();
        Caller::Holder(Arc::new(AccessKey { id: "k".into(), secret: Secret::new("s"), grants }))
    }

    fn anonymous(grants: &[(Effect, &str, &str, &str)]) -> Caller {
        Caller::Anonymous(grants.iter().map(|(e, b, p, r)| grant(*e, b, p, r)).collect())
    }

    fn bucket(name: &str) -> BucketName {
        BucketName::new(name).unwrap()
    }

    fn may(caller: &Caller, op: Operation) -> bool {
        authorize(caller, op).is_ok()
    }

    fn read(of: &str, key: &str) -> Operation {
        Operation::AskObject(bucket(of), ObjectKey::new(key).unwrap())
    }

    fn list(of: &str, prefix: &str) -> Operation {
        Operation::ListBucket { bucket: bucket(of), prefix: prefix.into() }
    }

    fn write(of: &str, key: &str, source: Option<&str>) -> Operation {
        Operation::WriteObject(WriteObject {
            bucket: bucket(of),
            key: ObjectKey::new(key).unwrap(),
            version_id: None,
            source: source.map(|source| CopySource::parse(source).unwrap()),
            visible: true,
        })
    }

    #[test]
    fn a_grant_reaches_as_far_as_its_bucket_and_prefix() {
        let caller = holder(&[(Effect::Allow, "b", "team/", "rl")]);
        assert!(may(&caller, read("b", "team/x")));
        assert!(!may(&caller, read("b", "tea")));
        assert!(!may(&caller, read("c", "team/x")));
        assert!(!may(&caller, write("b", "team/x", None)));
        assert!(may(&caller, list("b", "team/sub")));
        assert!(!may(&caller, list("b", "")));
        assert!(may(&caller, Operation::ProbeBucket(bucket("b"))));
        assert!(!may(&caller, Operation::ProbeBucket(bucket("c"))));
        assert!(!may(&caller, Operation::ListBuckets));
    }

    #[test]
    fn a_denial_beats_every_permission() {
        let caller =
            holder(&[(Effect::Allow, "*", "", "rwl"), (Effect::Deny, "b", "secret/", "rl")]);
        assert!(may(&caller, read("b", "open")));
        assert!(!may(&caller, read("b", "secret/x")));
        assert!(may(&caller, write("b", "secret/x", None)));
        assert!(!may(&caller, list("b", "secret/x")));
        assert!(!may(&caller, list("b", "")), "it would show the names below secret/");
        assert!(may(&caller, list("b", "open")));
        assert!(may(&caller, Operation::ListBuckets));
    }

    #[test]
    fn who_does_not_sign_may_do_what_a_key_with_these_grants_may_do() {
        let grants = [(Effect::Allow, "b", "team/", "rl"), (Effect::Deny, "b", "team/x", "r")];
        for caller in [holder(&grants), anonymous(&grants)] {
            assert!(may(&caller, read("b", "team/k")) && may(&caller, list("b", "team/")));
            assert!(may(&caller, Operation::ProbeBucket(bucket("b"))));
            assert!(!may(&caller, read("b", "team/x/k")), "a denial beats every permission");
            assert!(!may(&caller, read("c", "team/k")) && !may(&caller, list("b", "")));
            assert!(!may(&caller, write("b", "team/k", None)));
            assert!(!may(&caller, Operation::ListBuckets));
        }
        let refused = authorize(&anonymous(&grants), read("c", "k")).unwrap_err();
        assert_eq!(
            (refused.code(), refused.message()),
            (not_signed().code(), not_signed().message())
        );
        assert!(anonymous(&grants).require_known().is_err());
        assert!(holder(&grants).require_known().is_ok());
    }

    #[test]
    fn a_copy_needs_the_right_to_read_its_source() {
        let caller = holder(&[(Effect::Allow, "mine", "", "rw"), (Effect::Allow, "open", "", "r")]);
        assert!(may(&caller, write("mine", "k", Some("open/k"))));
        assert!(!may(&caller, write("mine", "k", Some("theirs/k"))));
        assert!(!may(&caller, write("open", "k", Some("mine/k"))));
    }

    #[test]
    fn a_bucket_is_changed_only_with_a_grant_on_all_of_it() {
        let part = holder(&[(Effect::Allow, "b", "p/", "w")]);
        assert!(!may(&part, Operation::WriteBucket(bucket("b"))));
        assert!(may(
            &holder(&[(Effect::Allow, "b", "", "w")]),
            Operation::WriteBucket(bucket("b"))
        ));
    }

    #[test]
    fn every_object_of_a_deletion_is_checked() {
        let caller = holder(&[(Effect::Allow, "b", "p/", "w")]);
        let deletions = |keys: &[&str]| Deletions {
            bucket: bucket("b"),
            entries: keys
                .iter()
                .map(|key| DeleteEntry { key: (*key).into(), version_id: None })
                .collect(),
        };
        assert!(authorize(&caller, deletions(&["p/1", "p/2"])).is_ok());
        assert!(authorize(&caller, deletions(&["p/1", "q/2"])).is_err());
    }

    #[test]
    fn without_grants_nothing_is_allowed_and_an_open_endpoint_allows_all() {
        assert!(!may(&holder(&[]), read("b", "k")));
        assert!(may(&Caller::Anybody, Operation::ListBuckets));
        assert!(may(&Caller::Anybody, write("b", "k", Some("c/k"))));
    }
}
