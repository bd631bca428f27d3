//! Who is asked: an endpoint, how its objects are named, who signs, and whose CPU time counts.

use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use forebay_testkit::AccessKey;
use forebay_testkit::sign::encode_path;

use crate::error::BenchError;

/// Signatures name a region; Forebay, and an origin that has none, take any.
const DEFAULT_REGION: &str = "us-east-1";

/// A server that answers path-style S3 reads, or something near enough.
#[derive(Debug, Clone)]
pub struct Target {
    name: String,
    authority: String,
    address: SocketAddr,
    bucket: String,
    path_prefix: String,
    is_always_ranged: bool,
    key: Option<AccessKey>,
    region: String,
    pids: Vec<u32>,
}

impl Target {
    /// An S3 endpoint, with path-style names, unsigned.
    pub fn new(endpoint: &NamedEndpoint, bucket: &str) -> Self {
        Self {
            name: endpoint.name.clone(),
            authority: endpoint.authority.clone(),
            address: endpoint.address,
            bucket: bucket.to_owned(),
            path_prefix: format!("/{bucket}/"),
            is_always_ranged: false,
            key: None,
            region: DEFAULT_REGION.to_owned(),
            pids: Vec::new(),
        }
    }

    /// Signs with this key for this region.
    pub fn signed_by(mut self, key: AccessKey, region: &str) -> Self {
        self.key = Some(key);
        region.clone_into(&mut self.region);
        self
    }

    /// Counts the CPU time of these processes.
    pub fn with_pids(mut self, pids: Vec<u32>) -> Self {
        self.pids = pids;
        self
    }

    /// For servers that name objects otherwise: what comes before the key in the path.
    pub fn with_path_prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.path_prefix);
        self
    }

    /// For servers that answer ranges only: whole objects are asked for as one.
    pub fn always_ranged(mut self) -> Self {
        self.is_always_ranged = true;
        self
    }

    /// What reports call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn bucket(&self) -> &str {
        &self.bucket
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn key(&self) -> Option<&AccessKey> {
        self.key.as_ref()
    }

    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    /// Host and port, as the endpoint names them.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    pub(crate) fn pids(&self) -> &[u32] {
        &self.pids
    }

    pub(crate) fn is_always_ranged(&self) -> bool {
        self.is_always_ranged
    }

    pub(crate) fn path(&self, key: &str) -> String {
        encode_path(&format!("{}{key}", self.path_prefix))
    }
}

/// `name=http://host:port`; without a name, the endpoint is its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedEndpoint {
    /// What reports call it.
    pub name: String,
    authority: String,
    address: SocketAddr,
}

impl NamedEndpoint {
    /// Gives it this name unless it has one.
    pub fn or_named(mut self, name: &str) -> Self {
        if self.name == self.authority {
            name.clone_into(&mut self.name);
        }
        self
    }
}

impl FromStr for NamedEndpoint {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let invalid = |reason: String| BenchError::argument("endpoint", text, reason);
        let (name, url) = match text.split_once('=') {
            Some((name, url)) if !name.contains(':') => (Some(name), url),
            _ => (None, text),
        };
        let authority = url.strip_prefix("http://").ok_or_else(|| {
            invalid("write [NAME=]http://HOST:PORT; TLS is not measured here".into())
        })?;
        let authority = authority.trim_end_matches('/');
        if name == Some("") || authority.is_empty() || authority.contains('/') {
            return Err(invalid("write [NAME=]http://HOST:PORT, with no path".into()));
        }
        let address = resolve(authority).map_err(|error| invalid(error.to_string()))?;
        let name = name.unwrap_or(authority).to_owned();
        Ok(Self { name, authority: authority.to_owned(), address })
    }
}

/// The first address of `host:port`, or of `host` at port 80.
fn resolve(authority: &str) -> std::io::Result<SocketAddr> {
    let mut addresses = match authority.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => authority.to_socket_addrs()?,
        _ => (authority.trim_matches(['[', ']']), 80).to_socket_addrs()?,
    };
    addresses.next().ok_or_else(|| std::io::Error::other("the name has no address"))
}

/// `name=pid[,pid]`: the processes behind an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPids {
    /// The endpoint's name.
    pub name: String,
    /// Its processes on this machine.
    pub pids: Vec<u32>,
}

impl FromStr for NamedPids {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let invalid = || {
            let reason = "write NAME=PID[,PID], with the name of an --endpoint";
            BenchError::argument("pid", text, reason)
        };
        let (name, pids) = text.split_once('=').ok_or_else(invalid)?;
        let pids = pids.split(',').map(|pid| pid.trim().parse().map_err(|_| invalid()));
        Ok(Self { name: name.to_owned(), pids: pids.collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> NamedEndpoint {
        text.parse().unwrap()
    }

    #[test]
    fn an_endpoint_has_a_name_and_an_address() {
        let named = endpoint("mine=http://127.0.0.1:9000/");
        assert_eq!((named.name.as_str(), named.authority.as_str()), ("mine", "127.0.0.1:9000"));
        let bare = endpoint("http://127.0.0.1:9000");
        assert_eq!(bare.name, "127.0.0.1:9000");
        assert_eq!(bare.or_named("forebay").name, "forebay");
        assert_eq!(named.or_named("forebay").name, "mine");
        assert_eq!(endpoint("http://[::1]:1").address.to_string(), "[::1]:1");
        assert_eq!(endpoint("http://127.0.0.1").address.port(), 80);
    }

    #[test]
    fn what_is_no_endpoint_is_refused_with_the_way_to_write_it() {
        for (text, hint) in [
            ("https://127.0.0.1:9000", "TLS is not measured here"),
            ("127.0.0.1:9000", "http://HOST:PORT"),
            ("a=http://127.0.0.1:9000/bucket", "with no path"),
            ("=http://127.0.0.1:9000", "with no path"),
            ("http://127.0.0.1:port", "invalid port"),
        ] {
            let error = text.parse::<NamedEndpoint>().unwrap_err();
            assert!(error.is_misuse() && error.to_string().contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn processes_are_named_with_their_endpoint() {
        let pids: NamedPids = "mine=17, 4".parse().unwrap();
        assert_eq!((pids.name.as_str(), pids.pids), ("mine", vec![17, 4]));
        for text in ["17", "mine=", "mine=x", "mine=1,,2"] {
            assert!(text.parse::<NamedPids>().is_err(), "{text}");
        }
    }
}
