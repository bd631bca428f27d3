//! The S3 port over TLS. Its certificate is read from files at start, and again when they change.
//!
//! Files are looked at every few seconds and compared by what they hold: a Kubernetes secret is
//! swapped by a link, which no watch on the file itself would see.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{SharedClock, Shutdown, Task, spawn, spawn_blocking};
use forebay_s3::{Certificate, CertificateError, Edge, TlsServer};
use forebay_telemetry::Secret;
use forebay_zerocopy::ListenOptions;

use crate::config::TlsConfig;
use crate::error::StartError;
use crate::port::Port;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("read {}: {source}: name files that Forebay's user can read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The files hold no certificate and key.
    #[error(
        "certificate {}, key {}: {source}: write the chain, the server's own certificate first, \
         into the one and its key into the other, both as PEM",
        certificate_file.display(), key_file.display()
    )]
    Certificate {
        /// The chain.
        certificate_file: PathBuf,
        /// The key.
        key_file: PathBuf,
        /// Why.
        source: CertificateError,
    },
}

/// A port that is listened at, and what is shown there.
pub(crate) struct TlsPort {
    port: Port,
    server: TlsServer,
    config: TlsConfig,
}

impl TlsPort {
    /// Takes the port and reads the files for the first time.
    pub(crate) fn take(config: &TlsConfig, options: &ListenOptions) -> Result<Self, StartError> {
        let port = Port::take(config.listen, options)?;
        let certificate = Pem::read(config)?.parse(config)?;
        let server = TlsServer::new(certificate).map_err(|source| refused(config, source))?;
        Ok(Self { port, server, config: config.clone() })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.port.addr
    }

    /// Serves clients and follows the files.
    pub(crate) fn serve(self, edge: Arc<Edge>, shutdown: Shutdown, clock: SharedClock) -> Served {
        let Self { port, server, config } = self;
        let clients = forebay_s3::serve_tls(port.listener, server.clone(), edge, shutdown);
        Served { clients: spawn(clients), certificate: spawn(follow(config, server, clock)) }
    }
}

/// What serving over TLS takes.
pub(crate) struct Served {
    /// Ends like [`forebay_s3::serve`].
    pub(crate) clients: Task<()>,
    /// Does not end by itself.
    pub(crate) certificate: Task<()>,
}

/// Looks for other files for as long as the task lives. Those that cannot be used are named, and
/// the last certificate that could be stays.
async fn follow(config: TlsConfig, server: TlsServer, clock: SharedClock) {
    let mut last: Option<Result<Pem, String>> = None;
    loop {
        let files = config.clone();
        let read = spawn_blocking(move || Pem::read(&files).map_err(|e| e.to_string())).await;
        let Ok(found) = read else { return };
        if last.as_ref() != Some(&found) {
            show(&found, &config, &server);
            last = Some(found);
        }
        clock.sleep(LOOK_EVERY).await;
    }
}

fn show(found: &Result<Pem, String>, config: &TlsConfig, server: &TlsServer) {
    let parsed = match found {
        Ok(pem) => pem.parse(config).map_err(|error| error.to_string()),
        Err(error) => Err(error.clone()),
    };
    match parsed {
        Ok(certificate) => {
            server.replace(certificate);
            tracing::info!(file = %config.certificate_file.display(), "certificate in use");
        }
        Err(error) => tracing::error!(error, "the certificate before stays in use"),
    }
}

/// What the two files hold.
#[derive(PartialEq, Eq)]
struct Pem {
    chain: Vec<u8>,
    key: Secret,
}

impl Pem {
    fn read(config: &TlsConfig) -> Result<Self, TlsError> {
        let TlsConfig { certificate_file, key_file, .. } = config;
        let unreadable = |path: &Path, source| TlsError::Read { path: path.into(), source };
        let chain = std::fs::read(certificate_file)
            .map_err(|source| unreadable(certificate_file, source))?;
        let key =
            std::fs::read_to_string(key_file).map_err(|source| unreadable(key_file, source))?;
        Ok(Self { chain, key: Secret::new(&key) })
    }

    fn parse(&self, config: &TlsConfig) -> Result<Certificate, TlsError> {
        Certificate::parse(&self.chain, &self.key).map_err(|source| refused(config, source))
    }
}

fn refused(config: &TlsConfig, source: CertificateError) -> TlsError {
    let TlsConfig { certificate_file, key_file, .. } = config.clone();
    TlsError::Certificate { certificate_file, key_file, source }
}
