//! TLS on the S3 port: the certificate that is shown, which may change while connections are
//! open, and the handshake.
//!
//! rustls with ring, TLS 1.2 and 1.3, HTTP/1.1 alone. Where certificates come from, and when
//! they change, is not known here. Tokens of segment files mean nothing to an encrypted
//! connection: its bodies are copied (`body`).

use std::sync::Arc;

use forebay_telemetry::Secret;
use forebay_zerocopy::Transport;
use hyper_util::rt::TokioIo;
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// An encrypted connection, as hyper reads and writes it.
pub(crate) type TlsTransport = TokioIo<TlsStream<TokioIo<Transport>>>;

/// A certificate chain and the key that belongs to it.
#[derive(Debug, Clone)]
pub struct Certificate(Arc<CertifiedKey>);

/// Why a certificate cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The chain is no PEM, or none at all.
    #[error("no certificate in PEM form: {0}")]
    Chain(pem::Error),
    /// The key is no PEM.
    #[error("no private key in PEM form")]
    Key,
    /// The two do not belong together, or are of a kind that is not known.
    #[error("certificate and key cannot be used: {0}")]
    Pair(rustls::Error),
}

impl Certificate {
    /// Reads a chain, the server's own certificate first, and the key of that.
    pub fn parse(chain_pem: &[u8], key_pem: &Secret) -> Result<Self, CertificateError> {
        let chain = CertificateDer::pem_slice_iter(chain_pem)
            .collect::<Result<Vec<_>, _>>()
            .map_err(CertificateError::Chain)?;
        if chain.is_empty() {
            return Err(CertificateError::Chain(pem::Error::NoItemsFound));
        }
        // What the parser says of a bad key could quote it.
        let key = PrivateKeyDer::from_pem_slice(key_pem.reveal().as_bytes())
            .map_err(|_| CertificateError::Key)?;
        let pair = CertifiedKey::from_der(chain, key, &provider());
        pair.map(|pair| Self(Arc::new(pair))).map_err(CertificateError::Pair)
    }
}

/// The server's side of TLS. Clones share the certificate.
#[derive(Clone)]
pub struct TlsServer {
    shown: Arc<Shown>,
    acceptor: TlsAcceptor,
}

impl TlsServer {
    /// A server that shows `certificate`.
    pub fn new(certificate: Certificate) -> Result<Self, CertificateError> {
        let shown = Arc::new(Shown(RwLock::new(certificate.0)));
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_safe_default_protocol_versions()
            .map_err(CertificateError::Pair)?
            .with_no_client_auth()
            .with_cert_resolver(shown.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Many clients open a connection per request: a ticket saves them, and us, a signature.
        config.ticketer = ring::Ticketer::new().map_err(CertificateError::Pair)?;
        Ok(Self { shown, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    /// Shows another certificate from the next handshake on.
    pub fn replace(&self, certificate: Certificate) {
        *self.shown.0.write() = certificate.0;
    }

    /// The handshake. Sending and its time limits stay the transport's.
    pub(crate) async fn accept(&self, transport: Transport) -> std::io::Result<TlsTransport> {
        Ok(TokioIo::new(self.acceptor.accept(TokioIo::new(transport)).await?))
    }
}

impl std::fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsServer").field("shown", &self.shown).finish_non_exhaustive()
    }
}

/// The certificate of the moment, whatever name the client asks for.
#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().clone())
    }
}

/// Named, because a process-wide default would have to be set by whoever comes first.
fn provider() -> CryptoProvider {
    ring::default_provider()
}
