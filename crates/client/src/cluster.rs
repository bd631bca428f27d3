//! What a worker tells of the cluster, and whom that names for a block.

use std::collections::{BTreeMap, HashMap};

use forebay_ring::Ring;
use forebay_types::{
    BlockIndex, BucketName, Epoch, ObjectName, RingConfig, RingMember, RingSpec, RuleId, WorkerId,
};
use http::uri::{Authority, Scheme};
use serde::Deserialize;

use crate::ask::Name;
use crate::limits::RING_VIRTUAL_NODES;
use crate::servers::Server;

/// The name under which the answer gives the rule of all buckets that it does not name.
const ANY_BUCKET: &str = "*";

/// The answer to `GET /-/ring`. Fields that are not known here are left to newer clients.
#[derive(Debug, Deserialize)]
pub(crate) struct RingAnswer {
    epoch: u64,
    revision: u64,
    virtual_nodes: u32,
    seed: u64,
    members: Vec<Member>,
    buckets: Vec<Bucket>,
}

#[derive(Debug, Deserialize)]
struct Member {
    id: String,
    weight: u32,
    s3: String,
}

#[derive(Debug, Deserialize)]
struct Bucket {
    name: String,
    rule: String,
}

/// An answer that names no ring.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the ring cannot be read: {0}")]
pub(crate) struct BadRing(String);

/// The workers and who of them owns what, ready to be asked.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// `None` before any worker has answered.
    revision: Option<u64>,
    ring: Ring,
    workers: BTreeMap<WorkerId, Server>,
    rules: HashMap<BucketName, RuleId>,
    rule_of_others: Option<RuleId>,
}

impl RingAnswer {
    pub(crate) fn parse(json: &[u8]) -> Result<Self, BadRing> {
        let answer: Self =
            serde_json::from_slice(json).map_err(|error| BadRing(error.to_string()))?;
        let weights = answer.members.iter().map(|member| u64::from(member.weight.max(1)));
        let nodes = u64::from(answer.virtual_nodes).saturating_mul(weights.sum());
        if nodes / u64::from(RingConfig::UNIT_WEIGHT) > RING_VIRTUAL_NODES {
            return Err(BadRing(format!("more than {RING_VIRTUAL_NODES} virtual nodes")));
        }
        Ok(answer)
    }

    /// Builds the ring: up to a second of work for thousands of workers.
    pub(crate) fn build(self, scheme: &Scheme) -> Result<Cluster, BadRing> {
        let members: Vec<_> = self.members.iter().map(Member::parse).collect::<Result<_, _>>()?;
        let rules: Vec<_> = self.buckets.iter().map(Bucket::parse).collect::<Result<_, _>>()?;
        let spec = RingSpec {
            epoch: Epoch(self.epoch),
            config: RingConfig { virtual_nodes: self.virtual_nodes, seed: self.seed },
            members: members.iter().map(|(member, _)| *member).collect(),
        };
        let worker = |(member, authority): (RingMember, Authority)| {
            (member.id, Server::worker(scheme.clone(), authority))
        };
        Ok(Cluster {
            revision: Some(self.revision),
            ring: Ring::build(&spec),
            workers: members.into_iter().map(worker).collect(),
            rule_of_others: rules.iter().find(|(name, _)| name.is_none()).map(|(_, rule)| *rule),
            rules: rules.into_iter().filter_map(|(name, rule)| Some((name?, rule))).collect(),
        })
    }
}

impl Member {
    fn parse(&self) -> Result<(RingMember, Authority), BadRing> {
        let id = WorkerId::parse(&self.id)
            .ok_or_else(|| BadRing(format!("worker {:?} is not 16 hex digits", self.id)))?;
        let authority = self.s3.parse();
        let authority =
            authority.map_err(|_| BadRing(format!("worker {id} has the address {:?}", self.s3)))?;
        Ok((RingMember { id, weight: self.weight }, authority))
    }
}

impl Bucket {
    fn parse(&self) -> Result<(Option<BucketName>, RuleId), BadRing> {
        // The same form, sixteen digits, as that of a worker's id.
        let WorkerId(rule) = WorkerId::parse(&self.rule)
            .ok_or_else(|| BadRing(format!("rule {:?} is not 16 hex digits", self.rule)))?;
        let name = match self.name.as_str() {
            ANY_BUCKET => None,
            name => Some(BucketName::new(name).map_err(|error| BadRing(error.to_string()))?),
        };
        Ok((name, RuleId(rule)))
    }
}

impl Cluster {
    /// Nobody is known.
    pub(crate) fn unknown() -> Self {
        Self {
            revision: None,
            ring: Ring::build(&RingSpec::default()),
            workers: BTreeMap::new(),
            rules: HashMap::new(),
            rule_of_others: None,
        }
    }

    /// Whether `answer` tells of a later state than this.
    pub(crate) fn is_older_than(&self, answer: &RingAnswer) -> bool {
        self.revision < Some(answer.revision)
    }

    /// The owners of a block, best first. Empty where no rule names the bucket.
    pub(crate) fn owners(&self, name: &Name, block: BlockIndex) -> Vec<&Server> {
        let rule = self.rules.get(&name.bucket).copied().or(self.rule_of_others);
        let Some(rule) = rule else { return Vec::new() };
        let (bucket, key) = (name.bucket.clone(), name.key.clone());
        let name = ObjectName { rule, bucket, key, version_id: None };
        let owners = self.ring.owners(&name, block).into_iter();
        owners.filter_map(|owner| self.workers.get(&owner)).collect()
    }

    /// All workers of the ring, by id.
    pub(crate) fn workers(&self) -> impl Iterator<Item = &Server> {
        self.workers.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: &str = r#"{"epoch":7,"revision":12,"virtual_nodes":500,"seed":0,"later":true,
        "members":[{"id":"00000000000000ab","weight":100,"s3":"10.0.0.5:9000","zone":"a"}],
        "buckets":[{"name":"train","rule":"0123456789abcdef"},{"name":"*","rule":"00000000000000ff"}]}"#;

    fn parse(json: &str) -> Result<Cluster, BadRing> {
        RingAnswer::parse(json.as_bytes())?.build(&Scheme::HTTP)
    }

    fn owners(cluster: &Cluster, bucket: &str) -> usize {
        cluster.owners(&Name::new(bucket, "k").unwrap(), BlockIndex(0)).len()
    }

    #[test]
    fn a_bucket_without_a_rule_of_its_own_has_that_of_the_others() {
        let cluster = parse(RING).unwrap();
        assert_eq!(cluster.rules.len(), 1);
        assert_eq!(cluster.rule_of_others, Some(RuleId(255)));
        assert_eq!((owners(&cluster, "train"), owners(&cluster, "else")), (1, 1));
        let cluster = parse(&RING.replace('*', "other")).unwrap();
        assert_eq!((owners(&cluster, "train"), owners(&cluster, "else")), (1, 0));
    }

    #[test]
    fn only_a_later_revision_replaces_what_is_known() {
        let answer = RingAnswer::parse(RING.as_bytes()).unwrap();
        assert!(Cluster::unknown().is_older_than(&answer));
        assert!(!parse(RING).unwrap().is_older_than(&answer));
        assert!(parse(&RING.replace("12", "11")).unwrap().is_older_than(&answer));
    }

    #[test]
    fn an_answer_that_cannot_be_meant_is_no_ring() {
        for (from, to, why) in [
            ("00000000000000ab", "ab", "worker \"ab\" is not 16 hex digits"),
            ("0123456789abcdef", "xyz", "rule \"xyz\" is not 16 hex digits"),
            ("10.0.0.5:9000", "not an address", "has the address \"not an address\""),
            ("\"train\"", "\"a/b\"", "bucket name \"a/b\""),
            ("\"weight\":100", "\"weight\":4000000000", "virtual nodes"),
            ("\"virtual_nodes\":500", "\"virtual_nodes\":4000000000", "virtual nodes"),
            ("\"members\"", "\"none\"", "missing field"),
        ] {
            let error = parse(&RING.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
