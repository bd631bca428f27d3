//! Where the processes of a cluster run: on loopback addresses of their own, or each in a
//! network namespace, where links can be cut.
//!
//! Namespaces want root and `ip`. They are joined by a bridge in the namespace of the calling
//! process, which should be a private one too: [`Namespaces::in_private_network`].

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use forebay_rt::{Rng, SystemRng};

use crate::process::Launch;

/// The network of one cluster.
#[derive(Debug, Clone)]
pub enum Network {
    /// A /24 below 127.0.0.0/8, drawn at random.
    Loopback([u8; 3]),
    /// A namespace a host.
    Namespaces(Arc<Namespaces>),
}

/// Where a process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its address.
    pub ip: IpAddr,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
}

/// `ip` refused.
#[derive(Debug, thiserror::Error)]
#[error("ip {args}: {reason}")]
pub struct NetworkError {
    args: String,
    reason: String,
}

impl Network {
    /// Loopback addresses that no other cluster of this machine has, as far as chance goes.
    pub fn loopback() -> Self {
        let drawn = SystemRng.next_u64().to_le_bytes();
        // 127.0.0.0/16 is everybody else's.
        Self::Loopback([127, drawn[0].max(1), drawn[1]])
    }

    /// The host of this number, 1 to 254.
    pub fn host(&self, number: u8) -> Host {
        match self {
            Self::Loopback([a, b, c]) => {
                Host { ip: Ipv4Addr::new(*a, *b, *c, number).into(), namespace: None }
            }
            Self::Namespaces(namespaces) => namespaces.host(number),
        }
    }
}

impl Host {
    pub(super) fn launch(&self, binary: &Path) -> Launch {
        match &self.namespace {
            None => Launch::new(binary),
            // `ip` replaces itself by the program, so signals reach the program.
            Some(name) => Launch::new("ip").args(["netns", "exec", name]).arg(binary),
        }
    }
}

/// Namespaces named after this process, joined by a bridge. Gone when dropped.
#[derive(Debug)]
pub struct Namespaces {
    prefix: String,
    numbers: Vec<u8>,
}

const BRIDGE: &str = "fbridge";
const SUBNET: [u8; 3] = [10, 213, 77];
/// The address of the calling process on the bridge.
const OWN_NUMBER: u8 = 254;
/// Set for a process in a private network.
const PRIVATE: &str = "FOREBAY_PRIVATE_NETWORK";
/// An Ethernet address that nobody has.
const NOBODY: &str = "02:00:00:00:de:ad";

impl Namespaces {
    /// Whether the calling process was started by [`Namespaces::in_private_network`].
    pub fn are_private() -> bool {
        std::env::var_os(PRIVATE).is_some()
    }

    /// The command that runs `program` again in a network namespace of its own.
    pub fn in_private_network(program: &Path) -> Command {
        let mut command = Command::new("unshare");
        command.arg("--net").arg(program).env(PRIVATE, "1");
        command
    }

    /// Makes a namespace for each number, joined by a bridge in the caller's namespace.
    pub fn make(numbers: impl IntoIterator<Item = u8>) -> Result<Self, NetworkError> {
        let mut made = Self { prefix: format!("fb{}-", std::process::id()), numbers: Vec::new() };
        ip("link set lo up")?;
        ip(&format!("link add {BRIDGE} type bridge"))?;
        ip(&format!("addr add {}/24 dev {BRIDGE}", Self::own_ip()))?;
        ip(&format!("link set {BRIDGE} up"))?;
        for number in numbers {
            made.add(number)?;
        }
        Ok(made)
    }

    /// The address under which the calling process is reached from the namespaces.
    pub fn own_ip() -> IpAddr {
        address(OWN_NUMBER)
    }

    fn add(&mut self, number: u8) -> Result<(), NetworkError> {
        let name = self.name(number);
        ip(&format!("netns add {name}"))?;
        self.numbers.push(number);
        ip(&format!("link add fv{number} type veth peer name eth0 netns {name}"))?;
        ip(&format!("link set fv{number} master {BRIDGE} up"))?;
        ip(&format!("-n {name} addr add {}/24 dev eth0", address(number)))?;
        ip(&format!("-n {name} link set eth0 up"))?;
        ip(&format!("-n {name} link set lo up"))
    }

    fn host(&self, number: u8) -> Host {
        Host { ip: address(number), namespace: Some(self.name(number)) }
    }

    fn name(&self, number: u8) -> String {
        format!("{}{number}", self.prefix)
    }

    /// Silently drops what `one` sends to `other` and the other way round.
    pub fn cut(&self, one: &Host, other: IpAddr) -> Result<(), NetworkError> {
        misdirect(one, other)?;
        match self.numbers.iter().find(|number| address(**number) == other) {
            Some(number) => misdirect(&self.host(*number), one.ip),
            None => {
                ip(&format!("neigh replace {} lladdr {NOBODY} nud permanent dev {BRIDGE}", one.ip))
            }
        }
    }

    /// Undoes [`Namespaces::cut`].
    pub fn heal(&self, one: &Host, other: IpAddr) -> Result<(), NetworkError> {
        if let Some(name) = &one.namespace {
            ip(&format!("-n {name} neigh del {other} dev eth0"))?;
        }
        match self.numbers.iter().find(|number| address(**number) == other) {
            Some(number) => ip(&format!("-n {} neigh del {} dev eth0", self.name(*number), one.ip)),
            None => ip(&format!("neigh del {} dev {BRIDGE}", one.ip)),
        }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for number in &self.numbers {
            // The bridge goes with the private namespace; names would stay.
            let _ = ip(&format!("netns del {}", self.name(*number)));
        }
    }
}

/// Has `from` send what is for `to` to nobody.
fn misdirect(from: &Host, to: IpAddr) -> Result<(), NetworkError> {
    let Some(name) = &from.namespace else { return Ok(()) };
    ip(&format!("-n {name} neigh replace {to} lladdr {NOBODY} nud permanent dev eth0"))
}

fn address(number: u8) -> IpAddr {
    let [a, b, c] = SUBNET;
    Ipv4Addr::new(a, b, c, number).into()
}

fn ip(args: &str) -> Result<(), NetworkError> {
    let failed = |reason: String| NetworkError { args: args.to_owned(), reason };
    let output = Command::new("ip").args(args.split(' ')).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_on_loopback_have_networks_of_their_own() {
        let (one, two) = (Network::loopback(), Network::loopback());
        assert_ne!(one.host(1).ip, two.host(1).ip);
        assert!(one.host(1).ip.is_loopback() && one.host(254).ip.is_loopback());
    }
}
