//! A running server: started, waited for, asked, and ended with all its processes.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use forebay_bench::{NamedEndpoint, Target, machine};
use forebay_testkit::process::Launch;
use forebay_testkit::{AccessKey, Process};
use rustix::process::{Pid, Signal, kill_process};

use crate::set::BUCKET;

const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// A server on a loopback port.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    target: Target,
    pids: Vec<u32>,
}

impl Server {
    /// Starts a server that will listen on `port`.
    pub(crate) async fn start(name: &str, launch: &Launch, port: u16) -> Result<Self> {
        let mut process = Process::start(launch)?;
        for _ in 0..START_LIMIT.as_millis() / POLL.as_millis() {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Self::running(name, process, port);
            }
            if let Ok(status) = process.wait(POLL).await {
                bail!("{name} ended ({status}):\n{}", process.tail());
            }
        }
        bail!("{name} does not listen:\n{}", process.tail())
    }

    fn running(name: &str, process: Process, port: u16) -> Result<Self> {
        let endpoint: NamedEndpoint = format!("{name}=http://127.0.0.1:{port}").parse()?;
        let mut pids = machine::process_tree(process.pid()).context("find a server's processes")?;
        pids.retain(|pid| !is_passing(*pid));
        let target = Target::new(&endpoint, BUCKET).with_pids(pids.clone());
        Ok(Self { process, target, pids })
    }

    /// Changes how it is asked.
    pub(crate) fn asked(mut self, how: impl FnOnce(Target) -> Target) -> Self {
        self.target = how(self.target.clone());
        self
    }

    /// Signs what it is asked.
    pub(crate) fn signed_by(self, key: AccessKey) -> Self {
        self.asked(|target| target.signed_by(key, "us-east-1"))
    }

    pub(crate) fn target(&self) -> Target {
        self.target.clone()
    }
}

/// nginx starts a process that looks for what is cached already, and ends within a minute.
fn is_passing(pid: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    name.contains("cache loader")
}

/// nginx and Varnish leave their children behind when they are killed; asked to end, they take
/// them along.
impl Drop for Server {
    fn drop(&mut self) {
        let pid = i32::try_from(self.process.pid()).ok().and_then(Pid::from_raw);
        // An error means that it has ended already.
        let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        let children = &self.pids[1..];
        for _ in 0..STOP_LIMIT.as_millis() / POLL.as_millis() {
            if !children.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
                return;
            }
            std::thread::sleep(POLL);
        }
        eprintln!("{:?} left processes behind: {children:?}", self.target.name());
    }
}

/// A port that nobody has at the moment. A server that finds it taken does not start, and that
/// is said.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
    Ok(listener.local_addr().context("find a free port")?.port())
}

/// A program in PATH or where Debian has servers.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let folders = std::env::split_paths(&path).chain(usual);
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}
