//! Generates the messages and services of proto/ without a protoc.

use std::error::Error;
use std::path::Path;

const PROTOS: [&str; 3] = ["view.proto", "meta.proto", "peer.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    println!("cargo:rerun-if-changed={}", dir.display());
    let files = protox::compile(PROTOS, [dir])?;
    // Frames of Raft and pieces of snapshots are handed on, not copied.
    let builder = tonic_prost_build::configure().bytes(".").include_file("forebay.rs");
    builder.compile_fds(files)?;
    Ok(())
}
