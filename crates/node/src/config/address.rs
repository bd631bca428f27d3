//! Addresses: where we listen, and what others are told to call.

use std::net::{SocketAddr, ToSocketAddrs};

use http::Uri;
use http::uri::Authority;

use super::error::{ConfigError, Refusal, missing};
use super::layers::Setting;

/// What others are told to call a port of ours by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advertise {
    /// `host:port`, as the operator wrote it.
    Written(String),
    /// The address that is listened at, with the port that was really taken.
    Taken,
}

impl Advertise {
    /// `host:port` of a port that was taken at `taken`.
    pub fn given(&self, taken: SocketAddr) -> String {
        match self {
            Self::Written(address) => address.clone(),
            Self::Taken => taken.to_string(),
        }
    }
}

/// Where to listen. A name is looked up now.
pub(super) fn listen(given: Option<Setting>, default: &str) -> Result<SocketAddr, ConfigError> {
    given.unwrap_or_else(|| Setting::new("default", default)).parse(|text| {
        let refusal =
            |reason: String| Refusal::new(reason, format!("write HOST:PORT, such as {default}"));
        let mut found = text.to_socket_addrs().map_err(|error| refusal(error.to_string()))?;
        found.next().ok_or_else(|| refusal("names no address".into()))
    })
}

/// What to call a port that listens at `listen`. `key` names the setting.
pub(super) fn advertise(
    given: Option<Setting>,
    key: &str,
    listen: SocketAddr,
) -> Result<Advertise, ConfigError> {
    match given {
        Some(given) => given.parse(host_port).map(Advertise::Written),
        None if listen.ip().is_unspecified() => Err(missing(
            key,
            format!("{listen} names no address to call: write HOST:PORT, as others reach it"),
        )),
        None => Ok(Advertise::Taken),
    }
}

/// An address to call. A name is not looked up: it may be that of a pod that is yet to start.
pub(super) fn host_port(text: &str) -> Result<String, Refusal> {
    let authority = text.parse::<Authority>().ok().filter(|found| {
        found.port_u16().is_some_and(|port| port != 0)
            && !found.host().is_empty()
            && !text.contains('@')
    });
    match authority {
        Some(_) => Ok(text.into()),
        None => Err(Refusal::new(
            "is not a host and a port",
            "write HOST:PORT, such as 10.0.0.5:9100, without a scheme",
        )),
    }
}

/// The URL of a server to ask. `fix` says how to write one.
pub(super) fn http_url(text: &str, fix: &str) -> Result<Uri, Refusal> {
    let uri: Uri = text.parse().map_err(|_| Refusal::new("not a URL", fix))?;
    let Some(authority) = uri.authority() else {
        return Err(Refusal::new("has no scheme and host", fix));
    };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(Refusal::new("is neither http nor https", fix));
    }
    if authority.as_str().contains('@') {
        return Err(Refusal::new("holds a user name", "leave it out and use credentials instead"));
    }
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_called_is_told_from_what_cannot() {
        for good in ["10.0.0.5:9100", "meta-0:9701", "[::1]:9000", "w.forebay.svc:1"] {
            assert_eq!(host_port(good).unwrap(), good);
        }
        for bad in [
            "",
            "meta-0",
            ":9701",
            "meta-0:0",
            "http://meta-0:9701",
            "a b:1",
            "u@h:1",
            "h:99999",
            "h:1/x",
        ] {
            assert!(host_port(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_port_that_the_system_chose_is_the_one_that_others_are_told() {
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let taken: SocketAddr = "127.0.0.1:40001".parse().unwrap();
        let own = advertise(None, "cluster.data_advertise", listen).unwrap();
        assert_eq!(own.given(taken), "127.0.0.1:40001");
        let written = Some(Setting::new("--data-advertise", "worker-3:9100"));
        let written = advertise(written, "cluster.data_advertise", listen).unwrap();
        assert_eq!(written.given(taken), "worker-3:9100");
    }
}
