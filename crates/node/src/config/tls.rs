//! Whether S3 clients are served over TLS as well, and with which certificate.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::address;
use super::error::{ConfigError, missing};
use super::layers::Setting;
use super::raw::RawWorker;

const DEFAULT_LISTEN: &str = "0.0.0.0:9443";

/// The S3 port over TLS. The files are read at start, and again whenever they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// Where clients are served.
    pub listen: SocketAddr,
    /// The certificate chain, the worker's own first, as PEM.
    pub certificate_file: PathBuf,
    /// Its key, as PEM.
    pub key_file: PathBuf,
}

/// `None` where none of the three settings is given.
pub(super) fn resolve(raw: &RawWorker) -> Result<Option<TlsConfig>, ConfigError> {
    let RawWorker { tls_listen, tls_certificate_file, tls_key_file, .. } = raw;
    if tls_listen.is_none() && tls_certificate_file.is_none() && tls_key_file.is_none() {
        return Ok(None);
    }
    let file = |at: &str, path: &Option<PathBuf>, what: &str| {
        let given = path.clone().filter(|path| !path.as_os_str().is_empty());
        given.ok_or_else(|| missing(at, format!("name the PEM file that holds the {what}")))
    };
    let listen = tls_listen.clone().map(|listen| Setting::new("worker.tls_listen", listen));
    Ok(Some(TlsConfig {
        listen: address::listen(listen, DEFAULT_LISTEN)?,
        certificate_file: file(
            "worker.tls_certificate_file",
            tls_certificate_file,
            "certificate chain",
        )?,
        key_file: file("worker.tls_key_file", tls_key_file, "certificate's key")?,
    }))
}
