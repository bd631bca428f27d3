//! Reading through several workers as if they were one.

use std::time::Duration;

use forebay_cache::{Conditions, OpenAsk, Source, TagList};
use forebay_types::{Freshness, PAGE_BYTES, RangeAsk};
use futures_util::future::join_all;

use crate::fakes::cluster::head;
use crate::fakes::cluster::net::Node;
use crate::fakes::{ask, ctx, version_of};
use crate::{BOUND, MIB, in_cluster, put, source, version, whole};

#[test]
fn each_page_is_fetched_once_whichever_worker_is_read() {
    in_cluster(3, |cluster| async move {
        put(&cluster, "k", 40 * MIB + 5);
        let readers = (0..48).map(|reader| cluster.read(reader % 3, whole("k", BOUND)));
        for got in join_all(readers).await {
            version(got);
        }
        let origin = &cluster.shared.origin;
        assert_eq!(origin.most_fetches(), 1);
        assert_eq!(u64::from(origin.pages_fetched()), (40 * MIB + 5).div_ceil(PAGE_BYTES));
        let asked = origin.requests();
        for worker in 0..3 {
            version(cluster.read(worker, whole("k", BOUND)).await);
        }
        assert_eq!(origin.requests(), asked, "a second epoch asks the origin nothing");
    });
}

#[test]
fn a_cold_read_from_the_beginning_costs_one_origin_request_through_any_worker() {
    in_cluster(3, |cluster| async move {
        for owner in 0..3 {
            let key = cluster.key_of(owner, 0);
            put(&cluster, &key, MIB);
            let before = cluster.shared.origin.requests();
            version(cluster.read(0, whole(&key, BOUND)).await);
            assert_eq!(cluster.shared.origin.requests(), before + 1, "owned by {owner}");
        }
    });
}

#[test]
fn hits_say_whose_they_are() {
    in_cluster(3, |cluster| async move {
        let (here, there) = (cluster.key_of(0, 0), cluster.key_of(1, 0));
        for key in [&here, &there] {
            put(&cluster, key, MIB);
            assert_eq!(source(cluster.read(0, whole(key, BOUND)).await), Source::Miss);
        }
        assert_eq!(source(cluster.read(0, whole(&here, BOUND)).await), Source::Hit);
        assert_eq!(source(cluster.read(0, whole(&there, BOUND)).await), Source::Peer);
        assert_eq!(source(cluster.read(1, whole(&there, BOUND)).await), Source::Hit);
    });
}

#[test]
fn a_large_body_is_asked_of_several_owners_at_once() {
    in_cluster(4, |cluster| async move {
        put(&cluster, "k", 64 * MIB);
        version(cluster.read(1, whole("k", BOUND)).await);
        let slow = Duration::from_millis(100);
        for owner in 1..4 {
            cluster.shared.net.slow(Node::Worker(owner), Node::Worker(0), slow);
        }
        let start = cluster.clock.passed();
        version(cluster.read(0, whole("k", BOUND)).await);
        let took = cluster.clock.passed().saturating_sub(start);
        let blocks = (0..8).filter(|block| cluster.owners("k", *block)[0] != 0).count() as u32;
        assert!(blocks >= 4 && took < slow * blocks / 2, "{blocks} blocks in {took:?}");
    });
}

#[test]
fn a_version_that_stands_for_ever_is_remembered_by_every_gateway() {
    in_cluster(3, |cluster| async move {
        let key = cluster.key_of(1, 0);
        put(&cluster, &key, MIB);
        version(cluster.read(0, whole(&key, Freshness::Immutable)).await);
        cluster.kill(1);
        cluster.cut_from(0, Node::Origin);
        let opened = cluster.cache(0).open(&ctx(), head(&key, Freshness::Immutable)).await;
        assert_eq!(version_of(&opened.unwrap().head), 1);
        cluster.cache(0).open(&ctx(), head(&key, BOUND)).await.unwrap_err();
    });
}

#[test]
fn a_question_that_was_asked_too_long_ago_is_not_joined() {
    in_cluster(1, |cluster| async move {
        put(&cluster, "k", MIB);
        cluster.shared.net.slow(Node::Origin, Node::Worker(0), Duration::from_secs(8));
        let read = || cluster.read(0, whole("k", Freshness::Bounded(Duration::from_secs(3))));
        let later = async {
            cluster.pass(Duration::from_secs(1)).await;
            put(&cluster, "k", MIB);
            cluster.pass(Duration::from_secs(4)).await;
            version(read().await)
        };
        let (early, later) = futures_util::join!(read(), later);
        assert_eq!((version(early), later), (1, 2));
    });
}

#[test]
fn a_precondition_is_never_failed_by_what_another_worker_remembers() {
    in_cluster(2, |cluster| async move {
        let key = cluster.key_of(1, 0);
        put(&cluster, &key, MIB);
        version(cluster.read(0, whole(&key, BOUND)).await);
        put(&cluster, &key, MIB);
        let if_match = Some(TagList::Tags(vec!["\"v2\"".into()]));
        let conditions = Conditions { if_match, ..Conditions::default() };
        let newer = OpenAsk { conditions, ..whole(&key, BOUND) };
        assert_eq!(version(cluster.read(0, newer).await), 2);
    });
}

#[test]
fn a_sequential_reader_finds_the_next_bytes_at_their_owners() {
    in_cluster(3, |cluster| async move {
        put(&cluster, "k", 64 * MIB);
        let step = |n: u64| RangeAsk::FromTo { first: 4 * n * MIB, last: 4 * (n + 1) * MIB - 1 };
        for n in 0..4 {
            version(cluster.read(0, ask("k", Freshness::Immutable, step(n))).await);
        }
        cluster.pass(Duration::from_secs(1)).await;
        let asked = cluster.shared.origin.pages_fetched();
        assert!(u64::from(asked) * PAGE_BYTES >= 20 * MIB, "{asked} pages");
        let next = cluster.read(0, ask("k", Freshness::Immutable, step(4))).await;
        assert!(source(next) < Source::Miss);
        assert_eq!(cluster.shared.origin.most_fetches(), 1);
    });
}
