//! After a write, nobody answers with what was there before.

use std::time::Duration;

use forebay_cache::ReadError;
use http_body_util::{BodyExt, Empty};

use crate::fakes::cluster::net::Node;
use crate::fakes::cluster::voters::{LEASE, QUARANTINE};
use crate::fakes::cluster::{Got, WriteFault, Wrote};
use crate::fakes::{ctx, name};
use crate::{BOUND, MIB, in_cluster, put, version, whole, write};

#[test]
fn after_a_write_through_any_worker_all_workers_answer_with_it() {
    in_cluster(3, |cluster| async move {
        put(&cluster, "k", MIB);
        for writer in 0..3 {
            for reader in 0..3 {
                version(cluster.read(reader, whole("k", BOUND)).await);
            }
            let Wrote::Acknowledged(written) = write(&cluster, writer, "k").await else {
                panic!("not acknowledged")
            };
            for reader in 0..3 {
                assert_eq!(version(cluster.read(reader, whole("k", BOUND)).await), written);
            }
        }
    });
}

#[test]
fn a_missing_key_that_is_written_is_found_through_all_workers() {
    in_cluster(3, |cluster| async move {
        for reader in 0..3 {
            assert_eq!(cluster.read(reader, whole("k", BOUND)).await, Got::Absent);
        }
        let asked = cluster.shared.origin.requests();
        assert_eq!(cluster.read(0, whole("k", BOUND)).await, Got::Absent);
        assert_eq!(cluster.shared.origin.requests(), asked, "remembered for a moment");
        assert_eq!(write(&cluster, 0, "k").await, Wrote::Acknowledged(1));
        for reader in 0..3 {
            assert_eq!(version(cluster.read(reader, whole("k", BOUND)).await), 1);
        }
    });
}

#[test]
fn an_open_in_flight_at_the_authority_is_not_remembered_after_a_write_elsewhere() {
    in_cluster(3, |cluster| async move {
        let key = cluster.key_of(1, 0);
        put(&cluster, &key, MIB);
        // The origin's answer, of the old version, is on its way for a second.
        cluster.shared.net.slow(Node::Origin, Node::Worker(1), Duration::from_secs(1));
        let early = cluster.read(2, whole(&key, BOUND));
        let write_and_read = async {
            cluster.pass(Duration::from_millis(100)).await;
            assert_eq!(write(&cluster, 0, &key).await, Wrote::Acknowledged(2));
            assert!(cluster.clock.passed() < Duration::from_secs(1), "still in flight");
            version(cluster.read(0, whole(&key, BOUND)).await)
        };
        let (early, late) = futures_util::join!(early, write_and_read);
        assert_eq!((version(early), late), (1, 2), "begun before the write: the older one");
        assert_eq!(version(cluster.read(2, whole(&key, BOUND)).await), 2);
    });
}

#[test]
fn a_question_from_before_a_worker_vouched_is_joined_by_nobody_after() {
    in_cluster(3, |cluster| async move {
        let key = cluster.key_of(1, 0);
        put(&cluster, &key, MIB);
        let late = Duration::from_secs(30);
        cluster.shared.net.slow(Node::Origin, Node::Worker(1), late);
        let early = cluster.read(1, whole(&key, BOUND));
        let change_and_read = async {
            cluster.pass(Duration::from_secs(1)).await;
            cluster.change_ring(vec![0, 2]);
            cluster.pass(Duration::from_secs(2)).await;
            assert_eq!(write(&cluster, 0, &key).await, Wrote::Acknowledged(2));
            cluster.change_ring(vec![0, 1, 2]);
            cluster.pass(QUARANTINE + Duration::from_secs(3)).await;
            assert!(cluster.clock.passed() < late, "the early question is still in flight");
            version(cluster.read(0, whole(&key, BOUND)).await)
        };
        let (early, after) = futures_util::join!(early, change_and_read);
        assert_eq!((version(early), after), (1, 2));
    });
}

#[test]
fn a_client_that_hangs_up_in_mid_write_changes_nothing() {
    in_cluster(3, |cluster| async move {
        let key = cluster.key_of(1, 0);
        put(&cluster, &key, MIB);
        version(cluster.read(2, whole(&key, BOUND)).await);
        let writing = std::pin::pin!(write(&cluster, 0, &key));
        let patience = std::pin::pin!(cluster.pass(Duration::from_micros(10)));
        futures_util::future::select(writing, patience).await;
        cluster.pass(Duration::from_secs(1)).await;
        assert_eq!(version(cluster.read(2, whole(&key, BOUND)).await), 2);
    });
}

#[test]
fn a_writer_that_cannot_reach_the_authority_fences_it_off() {
    in_cluster(3, |cluster| async move {
        let key = cluster.key_of(1, 0);
        put(&cluster, &key, MIB);
        version(cluster.read(1, whole(&key, BOUND)).await);
        cluster.cut(0, 1);
        let leases_end = cluster.clock.passed() + LEASE;
        assert_eq!(write(&cluster, 0, &key).await, Wrote::Acknowledged(2));
        assert!(cluster.clock.passed() >= leases_end);
        for reader in 0..3 {
            assert_eq!(version(cluster.read(reader, whole(&key, BOUND)).await), 2);
        }
        assert_eq!(cluster.shared.voters.view().epoch, 2);
    });
}

#[test]
fn a_writer_waits_until_the_new_authority_of_a_key_vouches_for_it() {
    in_cluster(3, |cluster| async move {
        let key = cluster.key_of(2, 0);
        put(&cluster, &key, MIB);
        version(cluster.read(2, whole(&key, BOUND)).await);
        // Worker 2 leaves the ring and does not hear of it: it goes on vouching for a while.
        cluster.cut_from(2, Node::Voters);
        cluster.cut(2, 0);
        cluster.cut(2, 1);
        cluster.change_ring(vec![0, 1]);
        let vouched_for = cluster.clock.passed() + QUARANTINE;
        cluster.pass(Duration::from_secs(2)).await;
        assert_eq!(write(&cluster, 0, &key).await, Wrote::Acknowledged(2));
        assert!(cluster.clock.passed() >= vouched_for);
        for reader in 0..3 {
            assert_eq!(version(cluster.read(reader, whole(&key, BOUND)).await), 2);
        }
    });
}

#[test]
fn a_writer_does_not_take_a_worker_that_has_ended_for_the_authority() {
    in_cluster(3, |cluster| async move {
        let key = cluster.key_of(1, 0);
        put(&cluster, &key, MIB);
        cluster.kill(1);
        cluster.cut_from(0, Node::Voters);
        // The ring goes on without worker 1, and worker 0 does not hear of it.
        cluster.change_ring(vec![2]);
        cluster.pass(2 * QUARANTINE).await;
        version(cluster.read(2, whole(&key, BOUND)).await);
        assert_eq!(write(&cluster, 0, &key).await, Wrote::Acknowledged(2));
        assert_eq!(version(cluster.read(2, whole(&key, BOUND)).await), 2);
    });
}

#[test]
fn a_writer_without_voters_tells_everybody_and_fails_where_it_cannot() {
    in_cluster(3, |cluster| async move {
        let key = cluster.key_of(1, 0);
        put(&cluster, &key, MIB);
        for worker in 0..3 {
            cluster.cut_from(worker, Node::Voters);
        }
        cluster.pass(Duration::from_secs(10)).await;
        assert_eq!(write(&cluster, 0, &key).await, Wrote::Acknowledged(2), "everybody was told");
        cluster.cut(0, 1);
        let Wrote::NotAcknowledged(why) = write(&cluster, 0, &key).await else {
            panic!("acknowledged, though worker 1 may remember the old version")
        };
        assert_eq!(why, ReadError::Unannounced.to_string());
        cluster.kill(1);
        cluster.mend(0, 1);
        let wrote = write(&cluster, 0, &key).await;
        assert_eq!(wrote, Wrote::Acknowledged(4), "who has ended remembers nothing");
    });
}

#[test]
fn what_a_worker_without_voters_says_costs_an_origin_request_each_time() {
    in_cluster(3, |cluster| async move {
        let key = cluster.key_of(1, 0);
        put(&cluster, &key, MIB);
        version(cluster.read(0, whole(&key, BOUND)).await);
        cluster.cut_from(1, Node::Voters);
        cluster.pass(Duration::from_secs(6)).await;
        let before = cluster.shared.origin.requests();
        for reader in [0, 1, 2] {
            version(cluster.read(reader, whole(&key, BOUND)).await);
        }
        assert_eq!(cluster.shared.origin.requests(), before + 3);
        assert_eq!(cluster.shared.origin.most_fetches(), 1, "for the version alone");
    });
}

#[test]
fn names_are_told_in_messages_of_bounded_size() {
    in_cluster(2, |cluster| async move {
        let names: Vec<_> = (0..5_000).map(|n| name(&format!("k-{n}"))).collect();
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let mut request = http::Request::delete("/k-0").body(body).unwrap();
        request.extensions_mut().insert(WriteFault::None);
        cluster.cache(0).forward(&ctx(), None, request, names.clone()).await.unwrap();
        let told = cluster.shared.told.lock().clone();
        let theirs = names.iter().filter(|name| cluster.owners(name.key.as_str(), 0)[0] == 1);
        assert_eq!(told.iter().sum::<usize>(), theirs.count());
        assert!(told.len() > 1 && told.iter().all(|names| *names <= 1_000), "{told:?}");
    });
}
