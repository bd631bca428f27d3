//! What a worker answers another, and what it does not.

use forebay_cache::PeerOpenAsk;
use forebay_types::{BLOCK_BYTES, PAGE_BYTES, RangeAsk};
use futures_util::StreamExt;

use crate::fakes::{ctx, head_of, name, pattern};
use crate::{BOUND, MIB, bytes, in_cluster, put};

#[test]
fn bytes_that_are_brought_are_stored_when_that_is_said() {
    in_cluster(2, |cluster| async move {
        put(&cluster, "k", BLOCK_BYTES + MIB);
        let (cache, head) = (cluster.cache(0), head_of(1, BLOCK_BYTES + MIB));
        let range = bytes(BLOCK_BYTES, BLOCK_BYTES + MIB);
        cache.owner().bring(&ctx(), &name("k"), &head.stamp, range).await.unwrap();
        assert!(cache.owner().holds(&name("k"), &head.stamp, range));
        let outside = bytes(BLOCK_BYTES - 1, BLOCK_BYTES + 1);
        cache.owner().bring(&ctx(), &name("k"), &head.stamp, outside).await.unwrap_err();
    });
}

#[test]
fn the_shelf_gives_what_is_stored_and_asks_nobody() {
    in_cluster(2, |cluster| async move {
        put(&cluster, "k", MIB);
        let (cache, head) = (cluster.cache(0), head_of(1, MIB));
        let (id, all) = (name("k").at(head.stamp.clone()), bytes(0, MIB));
        assert!(cache.shelf().peek(&id, all).await.is_none());
        let stored = bytes(0, 4 * PAGE_BYTES);
        cache.owner().bring(&ctx(), &name("k"), &head.stamp, stored).await.unwrap();
        let asked = cluster.shared.origin.requests();
        let (range, frames) = cache.shelf().peek(&id, all).await.unwrap();
        assert_eq!(range, stored);
        let frames: Vec<_> = frames.map(Result::unwrap).collect().await;
        assert!(pattern::is_of(1, 0, &frames.concat()));
        assert_eq!(frames.concat().len() as u64, stored.len());
        assert!(cache.shelf().peek(&id, bytes(5 * PAGE_BYTES, MIB)).await.is_none());
        assert_eq!(cluster.shared.origin.requests(), asked);
    });
}

#[test]
fn an_authority_sends_bytes_along_only_of_blocks_that_are_its_own() {
    in_cluster(3, |cluster| async move {
        put(&cluster, "k", 4 * BLOCK_BYTES);
        for block in 0..4 {
            let range = Some(RangeAsk::From { first: block * BLOCK_BYTES + 7 });
            let (name, freshness) = (name("k"), BOUND);
            let authority = cluster.owners("k", 0)[0];
            let ask = PeerOpenAsk { name, freshness, anew: false, range };
            let opened = cluster.cache(authority).owner().open(&ctx(), ask).await.unwrap();
            let is_own = block == 0 || cluster.owners("k", block)[0] == authority;
            let sent = opened.body.map(|body| body.range);
            let first_block = bytes(block * BLOCK_BYTES + 7, (block + 1) * BLOCK_BYTES);
            assert_eq!(sent, is_own.then_some(first_block));
        }
    });
}
