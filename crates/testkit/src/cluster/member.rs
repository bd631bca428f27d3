//! One process of a cluster.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::network::Host;
use crate::process::{Launch, Process, ProcessError};

/// Ports, the same on every host.
pub(super) const S3_PORT: u16 = 9000;
pub(super) const DATA_PORT: u16 = 9100;
pub(super) const ADMIN_PORT: u16 = 9600;
pub(super) const CONTROL_PORT: u16 = 9701;

const START_LIMIT: Duration = Duration::from_secs(20);
const STATUS_LIMIT: Duration = Duration::from_secs(5);
const LISTENING: &str = "forebay listening ";

/// A voter or a worker: its files, and its process while it runs.
#[derive(Debug)]
pub struct Member {
    /// Where it runs.
    pub host: Host,
    /// Its cache folder or its voter's directory.
    pub dir: PathBuf,
    /// Its config file.
    pub config: PathBuf,
    pub(super) launch: Launch,
    process: Option<Process>,
}

/// A member did not do what was expected.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// Its process.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// It was to be stopped and does not run.
    #[error("{0} does not run")]
    NotRunning(IpAddr),
    /// Its admin port.
    #[error("admin port of {addr}: {reason}")]
    Admin {
        /// Who.
        addr: SocketAddr,
        /// Why.
        reason: String,
    },
}

impl Member {
    pub(super) fn new(host: Host, dir: PathBuf, config: PathBuf, launch: Launch) -> Self {
        Self { host, dir, config, launch, process: None }
    }

    /// The S3 endpoint of a worker.
    pub fn endpoint(&self) -> String {
        format!("http://{}:{S3_PORT}", self.host.ip)
    }

    /// The admin endpoint.
    pub fn admin(&self) -> String {
        format!("http://{}", self.admin_addr())
    }

    /// `host:port` of the data port of a worker.
    pub fn data_addr(&self) -> String {
        format!("{}:{DATA_PORT}", self.host.ip)
    }

    /// `host:port` of the control port of a voter.
    pub fn control_addr(&self) -> String {
        format!("{}:{CONTROL_PORT}", self.host.ip)
    }

    /// Starts it, and waits until it listens.
    pub async fn start(&mut self) -> Result<(), MemberError> {
        self.launch()?;
        self.listening().await
    }

    pub(super) fn launch(&mut self) -> Result<(), MemberError> {
        self.process = Some(Process::start(&self.launch)?);
        Ok(())
    }

    pub(super) async fn listening(&mut self) -> Result<(), MemberError> {
        let process = self.process.as_mut().ok_or(MemberError::NotRunning(self.host.ip))?;
        process.announced(LISTENING, START_LIMIT).await?;
        Ok(())
    }

    /// Whether it has been started and not ended since by this harness.
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// Its process.
    pub fn process(&mut self) -> Result<&mut Process, MemberError> {
        self.process.as_mut().ok_or(MemberError::NotRunning(self.host.ip))
    }

    /// Kills it without warning.
    pub fn kill_9(&mut self) -> Result<(), MemberError> {
        self.process()?.kill_9()?;
        self.process = None;
        Ok(())
    }

    /// Asks it to end, and waits.
    pub async fn terminate(&mut self, limit: Duration) -> Result<(), MemberError> {
        self.process()?.terminate(limit).await?;
        self.process = None;
        Ok(())
    }

    /// What it says of itself.
    pub async fn status(&self) -> Result<Value, MemberError> {
        let page = self.admin_page("/status").await?;
        serde_json::from_str(&page).map_err(|error| self.admin_error(error.to_string()))
    }

    /// The sum of a metric over those of its series whose labels contain `labels`.
    pub async fn metric(&self, name: &str, labels: &str) -> Result<f64, MemberError> {
        let page = self.admin_page("/metrics").await?;
        let of_name = |line: &&str| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with([' ', '{']) && rest.contains(labels))
        };
        let values = page.lines().filter(of_name).filter_map(|line| line.rsplit_once(' '));
        Ok(values.filter_map(|(_, value)| value.parse::<f64>().ok()).sum())
    }

    /// A page of its admin port.
    pub async fn admin_page(&self, path: &str) -> Result<String, MemberError> {
        let asked = async {
            let mut socket = TcpStream::connect(self.admin_addr()).await?;
            let ask = format!("GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n");
            socket.write_all(ask.as_bytes()).await?;
            let mut answer = String::new();
            socket.read_to_string(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let late = |_| self.admin_error(format!("no answer within {STATUS_LIMIT:?}"));
        let answer = forebay_rt::timeout(&forebay_rt::SystemClock, STATUS_LIMIT, asked)
            .await
            .map_err(late)?
            .map_err(|error| self.admin_error(error.to_string()))?;
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok(body.to_owned()),
            _ => Err(self.admin_error(answer)),
        }
    }

    fn admin_addr(&self) -> SocketAddr {
        SocketAddr::new(self.host.ip, ADMIN_PORT)
    }

    fn admin_error(&self, reason: String) -> MemberError {
        MemberError::Admin { addr: self.admin_addr(), reason }
    }
}
