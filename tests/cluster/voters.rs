//! Voters are lost, and replaced.

use std::process::Command;
use std::time::Duration;

use forebay_testkit::PatternSet;
use forebay_tests::{BUCKET, ClusterSetup, ClusterWorld, forebay_binary};

#[tokio::test(flavor = "multi_thread")]
async fn a_majority_lost_for_good_is_recovered_by_one_command() {
    let set = PatternSet::new(BUCKET, "k-", 20, 200_000);
    let mut world = ClusterWorld::start(ClusterSetup::default(), &[&set]).await.unwrap();
    world.read_all(&set).await.unwrap();
    let before = epoch(&world).await;
    for voter in &mut world.cluster.voters {
        voter.kill_9().unwrap();
    }
    for lost in &world.cluster.voters[1..] {
        std::fs::remove_dir_all(&lost.dir).unwrap();
    }
    let survivor = &mut world.cluster.voters[0];
    let dead = survivor.dir.with_extension("dead");
    std::fs::rename(&survivor.dir, &dead).unwrap();
    let restored = Command::new(forebay_binary().unwrap())
        .args(["meta", "restore", "--yes", "--id", "4", "--advertise", &survivor.control_addr()])
        .arg("--from-dir")
        .arg(&dead)
        .arg("--dir")
        .arg(&survivor.dir)
        .output()
        .unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let config = std::fs::read_to_string(&survivor.config).unwrap();
    let lines = config.lines().filter(|line| !line.starts_with("initial_voters"));
    let lines: Vec<_> = lines.map(|line| if line == "id = 1" { "id = 4" } else { line }).collect();
    std::fs::write(&survivor.config, lines.join("\n")).unwrap();
    survivor.start().await.unwrap();
    let newer = |seen: &serde_json::Value| seen["epoch"].as_u64() > Some(before);
    world.cluster.until("workers follow the new group", LIMIT, newer).await.unwrap();
    world.cluster.until_active(3).await.unwrap();
    world.origin.log().reset();
    world.read_all(&set).await.unwrap();
    assert_eq!(world.origin.log().counts().bytes_sent, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_and_change_the_ring_from_the_command_line() {
    let set = PatternSet::new(BUCKET, "k-", 20, 200_000);
    let world = ClusterWorld::start(ClusterSetup::default(), &[&set]).await.unwrap();
    world.read_all(&set).await.unwrap();
    let shown = forebay(&world, &["ring", "show"]);
    for worker in &world.cluster.workers {
        assert!(shown.contains(&worker.data_addr()), "{shown}");
    }
    let drained = world.cluster.workers[1].data_addr();
    forebay(&world, &["ring", "drain", &drained]);
    world.cluster.until("two active workers", LIMIT, |seen| active(seen) == 2).await.unwrap();
    world.origin.log().reset();
    world.read_all(&set).await.unwrap();
    forebay(&world, &["ring", "undrain", &drained]);
    world.cluster.until_active(3).await.unwrap();
    world.read_all(&set).await.unwrap();
    assert_eq!(world.origin.log().counts().bytes_sent, 0, "nothing was lost on the way");
    let members = forebay(&world, &["meta", "members"]);
    for voter in &world.cluster.voters {
        assert!(members.contains(&voter.control_addr()), "{members}");
    }
}

const LIMIT: Duration = Duration::from_secs(30);

async fn epoch(world: &ClusterWorld) -> u64 {
    let status = world.cluster.workers[0].status().await.unwrap();
    status["cluster"]["epoch"].as_u64().unwrap()
}

fn active(seen: &serde_json::Value) -> usize {
    let workers = seen["workers"].as_array().into_iter().flatten();
    workers.filter(|worker| worker["state"] == "active").count()
}

fn forebay(world: &ClusterWorld, args: &[&str]) -> String {
    let output = Command::new(forebay_binary().unwrap())
        .args(args)
        .args(world.cluster.control_args())
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
