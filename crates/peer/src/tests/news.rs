//! Hearing of newer epochs from peers.

use forebay_rt::{SystemClock, timeout};

use super::world::{Asker, OWNER, Owner, metric, ms, pause, view};

#[tokio::test]
async fn a_peer_that_knows_a_newer_epoch_is_named_but_not_over_and_over() {
    let owner = Owner::start();
    let mut asker = Asker::of(owner.addr);
    let mismatches = metric("forebay_ring_epoch_mismatch_total");
    asker.peers.ping(OWNER).await.unwrap();
    assert!(timeout(&SystemClock, ms(50), asker.news.next()).await.is_err(), "the same epoch");

    *owner.stub.epoch.lock() = 5;
    for _ in 0..20 {
        asker.peers.ping(OWNER).await.unwrap();
    }
    assert!(metric("forebay_ring_epoch_mismatch_total") >= mismatches + 20.0);
    assert_eq!(timeout(&SystemClock, ms(50), asker.news.next()).await, Ok(Some(OWNER)));
    assert!(timeout(&SystemClock, ms(50), asker.news.next()).await.is_err(), "once is enough");

    pause(250).await;
    asker.peers.ping(OWNER).await.unwrap();
    let again = timeout(&SystemClock, ms(50), asker.news.next()).await;
    assert_eq!(again, Ok(Some(OWNER)), "nobody has learnt");

    asker.views.send_replace(view(6, owner.addr));
    pause(250).await;
    asker.peers.ping(OWNER).await.unwrap();
    assert!(timeout(&SystemClock, ms(50), asker.news.next()).await.is_err(), "theirs is older");
}
