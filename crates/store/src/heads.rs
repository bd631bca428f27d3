//! Heads on disk: which version of a name was current when last asked, and its headers.
//!
//! Owns their binary form. A head goes with the segment that was open when it was remembered,
//! unless bytes of its version are still in the index: so there are never more heads than fit
//! to the data, without a second bookkeeping. The name is stored in full and compared.

use std::sync::Arc;

use forebay_types::{
    BLOCK_BYTES, BlockIndex, BucketName, ETag, ObjectHead, ObjectKey, ObjectName, RuleId, Stamp,
};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use crate::disk::Disk;
use crate::limits::MAX_HEAD_BLOCKS;
use crate::persist::{IndexError, StoredHead};
use crate::place::{NameHash, PageMask, SegmentId};

impl Disk {
    /// The head remembered under `name`. Waits for the disk.
    pub(crate) fn recall(&self, name: &ObjectName) -> Option<ObjectHead> {
        if !self.health.can_read() || !self.heads_trusted() {
            return None;
        }
        let hash = self.hash_key.name(&name.canonical());
        let stored = self.noting_index("recall", self.persist.head(&hash))??;
        let (found, head) = decode(&stored.bytes)?;
        (found == *name).then_some(head)
    }

    /// Remembers a head. Waits for the disk; a failure is a head that is not remembered.
    pub(crate) fn remember(&self, name: &ObjectName, head: &ObjectHead) {
        let _alone = self.heads_change.lock();
        let Some(owner) = self.segments.newest() else { return };
        if self.health.can_write() && self.heads_trusted() {
            let hash = self.hash_key.name(&name.canonical());
            let head = StoredHead { owner, bytes: encode(name, head) };
            let _ = self.noting_index("remember", self.persist.put_head(&hash, &head));
        }
    }

    /// Forgets a head, for good. A disk that cannot do so now is trusted with heads again only
    /// after it has lost all of them.
    pub(crate) fn forget(&self, name: &ObjectName) {
        let hash = self.hash_key.name(&name.canonical());
        let _alone = self.heads_change.lock();
        if self.noting_index("forget", self.persist.remove_head(&hash)).is_none() {
            self.distrust_heads();
        }
    }

    /// Lets go of the heads of a segment that is being retired: those whose bytes are still
    /// here go over to the newest segment, the others are removed.
    pub(crate) fn release_heads(&self, retired: SegmentId) -> Result<(), IndexError> {
        for name in self.heads_of(retired)? {
            self.release_head(retired, &name)?;
        }
        Ok(())
    }

    fn heads_of(&self, segment: SegmentId) -> Result<Vec<NameHash>, IndexError> {
        let _alone = self.heads_change.lock();
        self.persist.heads_of(segment)
    }

    fn release_head(&self, retired: SegmentId, name: &NameHash) -> Result<(), IndexError> {
        // Read only now: the name may have been forgotten or remembered anew since it was listed.
        let _alone = self.heads_change.lock();
        let stored = self.persist.head(name)?.filter(|stored| stored.owner == retired);
        let mut is_orphan = false;
        if let Some(stored) = stored {
            match self.segments.newest().filter(|_| self.has_bytes_of(&stored.bytes)) {
                Some(owner) => self.persist.put_head(name, &StoredHead { owner, ..stored })?,
                None => is_orphan = true,
            }
        }
        self.persist.release_head(retired, name, is_orphan)
    }

    fn has_bytes_of(&self, stored: &[u8]) -> bool {
        let Some((name, head)) = decode(stored) else { return false };
        let blocks = head.stamp.size.div_ceil(BLOCK_BYTES).min(MAX_HEAD_BLOCKS);
        let id = name.at(head.stamp);
        let mut hashes = (0..blocks).map(|block| self.hash_key.block(&id, BlockIndex(block)));
        hashes.any(|hash| self.index.stored(hash) != PageMask::default())
    }
}

fn encode(name: &ObjectName, head: &ObjectHead) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let ObjectHead { stamp, headers } = head;
    out.extend_from_slice(&name.rule.0.to_le_bytes());
    out.extend_from_slice(&stamp.size.to_le_bytes());
    push(&mut out, name.bucket.as_str().as_bytes());
    push(&mut out, name.key.as_str().as_bytes());
    push_option(&mut out, name.version_id.as_deref());
    push(&mut out, stamp.etag.as_str().as_bytes());
    push(&mut out, stamp.last_modified.as_bytes());
    push_option(&mut out, stamp.version_id.as_deref());
    for (name, value) in headers {
        push(&mut out, name.as_str().as_bytes());
        push(&mut out, value.as_bytes());
    }
    out
}

fn decode(bytes: &[u8]) -> Option<(ObjectName, ObjectHead)> {
    let mut rest = bytes;
    let rule = RuleId(take_u64(&mut rest)?);
    let size = take_u64(&mut rest)?;
    let name = ObjectName {
        rule,
        bucket: BucketName::new(take_text(&mut rest)?).ok()?,
        key: ObjectKey::new(take_text(&mut rest)?).ok()?,
        version_id: take_option(&mut rest)?,
    };
    let stamp = Stamp {
        etag: ETag::new(take_text(&mut rest)?),
        size,
        last_modified: take_text(&mut rest)?.into(),
        version_id: take_option(&mut rest)?,
    };
    let mut headers = HeaderMap::new();
    while !rest.is_empty() {
        let name = HeaderName::from_bytes(take(&mut rest)?).ok()?;
        headers.append(name, HeaderValue::from_bytes(take(&mut rest)?).ok()?);
    }
    Some((name, ObjectHead { stamp, headers }))
}

fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn push_option(out: &mut Vec<u8>, text: Option<&str>) {
    out.push(u8::from(text.is_some()));
    push(out, text.unwrap_or_default().as_bytes());
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, tail) = rest.split_first_chunk()?;
    let (bytes, tail) = tail.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *rest = tail;
    Some(bytes)
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(take(rest)?).ok()
}

/// The outer `None` is a broken record, the inner one an absent text.
#[expect(clippy::option_option, reason = "two kinds of absence, said above")]
fn take_option(rest: &mut &[u8]) -> Option<Option<Arc<str>>> {
    let (present, tail) = rest.split_first()?;
    *rest = tail;
    let text = take_text(rest)?;
    Some((*present == 1).then(|| text.into()))
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    let (number, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(u64::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use forebay_rt::{SharedClock, SystemClock};
    use forebay_types::ByteRange;

    use super::*;
    use crate::config::DiskConfig;
    use crate::recover;

    fn sample() -> (ObjectName, ObjectHead) {
        let name = ObjectName {
            rule: RuleId(7),
            bucket: BucketName::new("train").unwrap(),
            key: ObjectKey::new("a/../b\0\u{1f600}").unwrap(),
            version_id: Some("v1".into()),
        };
        let stamp = Stamp {
            etag: ETag::new("\"abc-2\""),
            size: 1 << 40,
            last_modified: "Wed, 21 Oct 2015 07:28:00 GMT".into(),
            version_id: None,
        };
        let mut headers = HeaderMap::new();
        headers.append("x-amz-meta-a", HeaderValue::from_static("1"));
        headers.append("x-amz-meta-a", HeaderValue::from_static("2"));
        headers.append("content-type", HeaderValue::from_bytes(b"\xe9").unwrap());
        (name, ObjectHead { stamp, headers })
    }

    #[test]
    fn a_head_comes_back_as_it_was_written() {
        let (name, head) = sample();
        let (name_back, head_back) = decode(&encode(&name, &head)).unwrap();
        assert_eq!((name_back, head_back.stamp), (name, head.stamp));
        assert_eq!(head_back.headers, head.headers);
    }

    #[test]
    fn a_record_cut_short_is_no_head() {
        let (name, head) = sample();
        let bytes = encode(&name, &ObjectHead { headers: HeaderMap::new(), ..head });
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_none(), "{len} of {} bytes", bytes.len());
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_forgotten_head_is_not_brought_back_by_the_eviction_of_its_segment() {
        let dir = tempfile::tempdir().unwrap();
        let config = DiskConfig { path: dir.path().to_owned(), capacity_bytes: Some(64 << 20) };
        let clock: SharedClock = Arc::new(SystemClock);
        let disk = recover::open(&config, None, &clock).unwrap();
        let (name, head) = sample();
        let head = ObjectHead { stamp: Stamp { size: 4096, ..head.stamp }, ..head };
        let id = name.at(head.stamp.clone());
        let ask = disk.ask(&id, BlockIndex(0), ByteRange::new(0, 4096).unwrap());
        disk.put(ask, [bytes::Bytes::from(vec![7; 4096])].into()).await.unwrap();
        let owner = disk.segments.newest().unwrap();
        let hash = disk.hash_key.name(&name.canonical());
        std::thread::scope(|scope| {
            let evicting = scope.spawn(|| {
                for _ in 0..20_000 {
                    disk.release_head(owner, &hash).unwrap();
                }
            });
            while !evicting.is_finished() {
                disk.remember(&name, &head);
                disk.forget(&name);
                assert!(disk.recall(&name).is_none());
            }
        });
        disk.close().await;
    }
}
