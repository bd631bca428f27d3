//! Reads go on while workers die, move and lose each other.

use std::time::Duration;

use forebay_cache::{Answer, Found, LocalBlocks};
use forebay_types::{BLOCK_BYTES, Freshness, RangeAsk};
use futures_util::StreamExt;
use futures_util::future::join_all;

use crate::fakes::cluster::net::Node;
use crate::fakes::cluster::voters::{QUARANTINE, View};
use crate::fakes::cluster::{Garble, Got, head};
use crate::fakes::{ask, ctx, head_of, name, pattern};
use crate::{BOUND, MIB, bytes, in_cluster, key_apart, put, version, whole};

#[test]
fn no_page_is_fetched_more_than_twice_when_a_worker_is_killed_meanwhile() {
    in_cluster(3, |cluster| async move {
        put(&cluster, "k", 64 * MIB);
        // Slow enough that the worker dies in the middle of it.
        for worker in 0..3 {
            let delay = Duration::from_millis(40);
            cluster.shared.net.slow(Node::Origin, Node::Worker(worker), delay);
        }
        let kill = async {
            cluster.pass(Duration::from_millis(60)).await;
            cluster.kill(2);
        };
        let readers = join_all((0..48).map(|reader| cluster.read(reader % 3, whole("k", BOUND))));
        let (got, ()) = futures_util::join!(readers, kill);
        for (reader, got) in got.into_iter().enumerate() {
            match got {
                Got::Died if reader % 3 == 2 => {}
                got => assert_eq!(version(got), 1),
            }
        }
        assert!(cluster.shared.origin.most_fetches() <= 2);
    });
}

#[test]
fn a_body_goes_on_where_it_was_when_the_owner_dies_under_it() {
    in_cluster(3, |cluster| async move {
        let key = cluster.key_of(1, 0);
        put(&cluster, &key, 7 * MIB);
        let opened = cluster.cache(0).open(&ctx(), whole(&key, BOUND)).await.unwrap();
        let Answer::Whole(Some(mut reader)) = opened.answer else { panic!("a body") };
        let mut at = 0;
        while let Some(chunk) = reader.next().await {
            let chunk = chunk.unwrap();
            assert!(pattern::is_of(1, at, &chunk));
            at += chunk.len() as u64;
            if at > 3 * MIB {
                cluster.kill(1);
            }
        }
        assert_eq!(at, 7 * MIB);
    });
}

#[test]
fn a_body_that_is_not_what_was_asked_for_is_not_handed_out() {
    for garble in [Garble::Short, Garble::Long, Garble::Elsewhere] {
        in_cluster(4, |cluster| async move {
            put(&cluster, "k", 3 * BLOCK_BYTES);
            version(cluster.read(1, whole("k", BOUND)).await);
            *cluster.shared.garble.lock() = Some(garble);
            for reader in 0..3 {
                assert_eq!(version(cluster.read(reader, whole("k", BOUND)).await), 1, "{garble:?}");
            }
            // And what is looked for at earlier owners.
            cluster.change_ring(vec![3]);
            cluster.pass(2 * QUARANTINE).await;
            assert_eq!(version(cluster.read(3, whole("k", BOUND)).await), 1, "{garble:?}");
        });
    }
}

#[test]
fn a_worker_cut_off_from_the_origin_leaves_its_blocks_to_the_next() {
    in_cluster(4, |cluster| async move {
        let key = cluster.key_of(1, 0);
        put(&cluster, &key, 6 * MIB);
        cluster.cut_from(1, Node::Origin);
        let readers = [0, 2, 3].map(|reader| cluster.read(reader, whole(&key, BOUND)));
        for got in join_all(readers).await {
            assert_eq!(version(got), 1);
        }
        assert_eq!(cluster.shared.origin.most_fetches(), 1, "one of them filled it for all");
    });
}

#[test]
fn workers_that_take_each_other_for_the_owner_do_not_ask_in_circles() {
    in_cluster(2, |cluster| async move {
        put(&cluster, "k", BLOCK_BYTES + MIB);
        for (worker, owner) in [(0, 1), (1, 0)] {
            let view = View { epoch: 7, rings: vec![vec![owner]] };
            cluster.shared.worker(worker).unwrap().0.hear(&view);
        }
        for reader in [0, 1] {
            assert_eq!(version(cluster.read(reader, whole("k", BOUND)).await), 1);
        }
    });
}

#[test]
fn what_moves_with_the_ring_is_looked_for_at_its_earlier_owner() {
    in_cluster(4, |cluster| async move {
        cluster.change_ring(vec![0, 1, 2]);
        cluster.pass(2 * QUARANTINE).await;
        let keys: Vec<String> = (0..20).map(|n| format!("object-{n}")).collect();
        for key in &keys {
            put(&cluster, key, BLOCK_BYTES + MIB);
            version(cluster.read(0, whole(key, Freshness::Immutable)).await);
        }
        let origin = &cluster.shared.origin;
        let fetched = origin.pages_fetched();
        for members in [vec![0, 1, 2, 3], vec![1, 2, 3]] {
            cluster.change_ring(members);
            cluster.pass(2 * QUARANTINE).await;
            for key in &keys {
                version(cluster.read(3, whole(key, Freshness::Immutable)).await);
            }
            assert_eq!(origin.pages_fetched(), fetched, "neither a join nor a drain costs bytes");
        }
        let stored = |key: &String| {
            let range = bytes(0, BLOCK_BYTES);
            cluster.cache(3).owner().holds(&name(key), &head_of(1, BLOCK_BYTES + MIB).stamp, range)
        };
        let moved = keys.iter().filter(|key| cluster.owners(key, 0)[0] == 3);
        assert!(moved.clone().count() > 0 && moved.clone().all(stored), "what moved is kept");
    });
}

#[test]
fn an_object_that_moves_under_an_owner_is_opened_anew_at_the_authority() {
    in_cluster(3, |cluster| async move {
        let key = key_apart(&cluster, "two");
        put(&cluster, &key, 2 * BLOCK_BYTES);
        let first = RangeAsk::FromTo { first: 0, last: 9 };
        assert_eq!(version(cluster.read(0, ask(&key, BOUND, first)).await), 1);
        put(&cluster, &key, 2 * BLOCK_BYTES);
        let second = RangeAsk::From { first: BLOCK_BYTES };
        assert_eq!(version(cluster.read(0, ask(&key, BOUND, second)).await), 2);
        assert_eq!(version(cluster.read(0, whole(&key, BOUND)).await), 2);
    });
}

#[test]
fn a_body_that_has_to_be_cut_is_the_last_one_of_the_old_version() {
    in_cluster(3, |cluster| async move {
        for freshness in [BOUND, Freshness::Immutable] {
            let key = key_apart(&cluster, &format!("{freshness:?}"));
            let first = RangeAsk::FromTo { first: 0, last: BLOCK_BYTES - 1 };
            put(&cluster, &key, 2 * BLOCK_BYTES);
            assert_eq!(version(cluster.read(0, ask(&key, freshness, first)).await), 1);
            put(&cluster, &key, 2 * BLOCK_BYTES);
            assert_eq!(cluster.read(0, whole(&key, freshness)).await, Got::Moved);
            cluster.pass(Duration::from_secs(1)).await;
            for reader in [0, 1] {
                let got = cluster.read(reader, whole(&key, freshness)).await;
                assert_eq!(version(got), 2, "{freshness:?} through {reader}");
            }
        }
    });
}

#[test]
fn what_is_on_the_disks_of_the_asked_worker_is_read_there_whatever_the_ring_says() {
    in_cluster(3, |cluster| async move {
        let key = cluster.key_of(1, 0);
        put(&cluster, &key, MIB);
        let (range, version_1) = (bytes(0, MIB), head_of(1, MIB).stamp);
        cluster.cache(0).owner().bring(&ctx(), &name(&key), &version_1, range).await.unwrap();
        let id = name(&key).at(version_1.clone());
        let process = cluster.shared.worker(0).unwrap().0;
        assert!(matches!(process.read_now(&id, range), Found::Hit(..)));
        cluster.cache(0).open(&ctx(), head(&key, Freshness::Immutable)).await.unwrap();
        let part = RangeAsk::FromTo { first: MIB / 2, last: MIB - 1 };
        cluster.cut(0, 1);
        assert_eq!(version(cluster.read(0, ask(&key, Freshness::Immutable, part)).await), 1);
        assert_eq!(cluster.shared.origin.most_fetches(), 1);
    });
}
