//! What a read from a peer costs. Not a test: prints figures.
//!
//! The file lies in memory in pages of 4 KiB, which makes large bodies half as dear again as a
//! file on a disk does, whose pages the kernel keeps in larger pieces.
//!
//! `cargo test --release -p forebay-peer -- --ignored --nocapture cost`

use std::time::Instant;

use forebay_rt::{Clock, SystemClock, spawn};
use futures_util::StreamExt;
use futures_util::future::try_join_all;

use super::world::{Asker, Owner, range};

/// User and system time of this process, in seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum();
    ticks / 100.0
}

fn now() -> Instant {
    SystemClock.now()
}

async fn measure(asker: &'static Asker, key: &'static str, size: u64, readers: u64, reads: u64) {
    let (cpu, begun) = (cpu_seconds(), now());
    let all = (0..readers).map(|_| {
        spawn(async move {
            for nth in 0..reads / readers {
                let start = nth * size % (8 << 20);
                let mut body = asker.read(key, range(start, start + size)).await.unwrap();
                while let Some(bytes) = body.next().await {
                    std::hint::black_box(bytes.unwrap());
                }
            }
        })
    });
    try_join_all(all).await.unwrap();
    let (cpu, took) = (cpu_seconds() - cpu, begun.elapsed().as_secs_f64());
    let bytes = (size * reads) as f64;
    println!(
        "{key} {:>5} KiB x{readers}: {:.3} CPU-s/GB, {:.2} GB/s, {:.1} us CPU and {:.1} us a read",
        size >> 10,
        cpu / (bytes / 1e9),
        bytes / 1e9 / took,
        cpu / reads as f64 * 1e6,
        took / reads as f64 * 1e6 * readers as f64,
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures"]
async fn cost_of_reads() {
    let owner = Owner::start();
    let asker: &'static Asker = Box::leak(Box::new(Asker::of(owner.addr)));
    for _ in 0..3 {
        for readers in [1, 4] {
            measure(asker, "file", 8 << 20, readers, 500).await;
            measure(asker, "file", 1 << 20, readers, 3000).await;
            measure(asker, "mem", 4 << 10, readers, 60_000).await;
        }
    }
}
