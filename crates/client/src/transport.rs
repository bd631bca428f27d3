//! One request to one server: written, signed, sent, and waited for no longer than its limit.

use std::error::Error;
use std::fmt::Write;

use bytes::Bytes;
use forebay_rt::{SharedClock, timeout};
use http::header::{HOST, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::ask::Ask;
use crate::config::ClientConfig;
use crate::error::{ConnectError, Failure};
use crate::limits::{CONNECT_TIMEOUT, IDLE_CONNECTIONS, IDLE_TIMEOUT};
use crate::servers::{Role, Server};
use crate::sign::Signer;

const OUR_NAME: HeaderValue =
    HeaderValue::from_static(concat!("forebay-client/", env!("CARGO_PKG_VERSION")));

type Sent = Request<Empty<Bytes>>;

/// Connections to all servers, kept for the next request.
#[derive(Debug)]
pub(crate) struct Transport {
    http: Http,
    at_workers: Option<Signer>,
    at_origin: Option<Signer>,
    clock: SharedClock,
}

/// The machine's root certificates are read only where TLS is spoken: many have none.
#[derive(Debug)]
enum Http {
    Plain(Client<HttpConnector, Empty<Bytes>>),
    Tls(Client<HttpsConnector<HttpConnector>, Empty<Bytes>>),
}

impl Transport {
    pub(crate) fn new(config: &ClientConfig) -> Result<Self, ConnectError> {
        let origin = config.origin.as_ref();
        let uris = config.endpoints.iter().chain(origin.map(|origin| &origin.endpoint));
        let speaks_tls = uris.filter_map(Uri::scheme).any(|scheme| *scheme == Scheme::HTTPS);
        let at_workers = config.credentials.as_ref();
        let at_origin = origin.and_then(|origin| Some((origin.credentials.as_ref()?, origin)));
        Ok(Self {
            http: if speaks_tls { Http::tls()? } else { Http::plain() },
            at_workers: at_workers.map(|key| Signer::new(key, &config.region)),
            at_origin: at_origin.map(|(key, origin)| Signer::new(key, &origin.region)),
            clock: config.clock.clone(),
        })
    }

    /// The head of the server's answer, whatever its status.
    pub(crate) async fn send(
        &self,
        server: &Server,
        ask: &Ask,
    ) -> Result<Response<Incoming>, Failure> {
        let request = self.write(server, ask)?;
        match timeout(&*self.clock, server.patience(), self.http.send(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(Failure::Silent(format!("{server}: {}", whole_story(&error)))),
            Err(_) => {
                let patience = server.patience();
                Err(Failure::Silent(format!("{server}: no answer within {patience:?}")))
            }
        }
    }

    fn write(&self, server: &Server, ask: &Ask) -> Result<Sent, Failure> {
        let unwritable = |why: &dyn Error| Failure::Unfit(format!("{server}: {why}"));
        let host = HeaderValue::from_str(server.authority.as_str());
        let uri = Uri::builder()
            .scheme(server.scheme.clone())
            .authority(server.authority.clone())
            .path_and_query(ask.path.clone())
            .build();
        let mut request = Request::new(Empty::new());
        *request.method_mut() = ask.method.clone();
        *request.uri_mut() = uri.map_err(|error| unwritable(&error))?;
        request.headers_mut().clone_from(&ask.headers);
        request.headers_mut().insert(HOST, host.map_err(|error| unwritable(&error))?);
        request.headers_mut().insert(USER_AGENT, OUR_NAME);
        let signer = match server.role {
            Role::Worker => &self.at_workers,
            Role::Origin => &self.at_origin,
        };
        if let Some(signer) = signer {
            let signed = signer.sign(&mut request, self.clock.wall());
            signed.map_err(|error| unwritable(&error))?;
        }
        Ok(request)
    }
}

impl Http {
    fn plain() -> Self {
        Self::Plain(builder().build(tcp()))
    }

    fn tls() -> Result<Self, ConnectError> {
        let roots = HttpsConnectorBuilder::new().with_native_roots().map_err(|error| {
            ConnectError::Config(format!("https needs root certificates on this machine: {error}"))
        })?;
        let mut tcp = tcp();
        tcp.enforce_http(false);
        let connector = roots.https_or_http().enable_http1().wrap_connector(tcp);
        Ok(Self::Tls(builder().build(connector)))
    }

    async fn send(
        &self,
        request: Sent,
    ) -> Result<Response<Incoming>, hyper_util::client::legacy::Error> {
        match self {
            Self::Plain(client) => client.request(request).await,
            Self::Tls(client) => client.request(request).await,
        }
    }
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_nodelay(true);
    tcp
}

fn builder() -> hyper_util::client::legacy::Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .pool_timer(TokioTimer::new())
        .set_host(false);
    builder
}

/// An error with its causes: the outermost says little ("client error (Connect)").
fn whole_story(error: &dyn Error) -> String {
    let mut story = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing into a String cannot fail.
        let _ = write!(story, ": {error}");
        cause = error.source();
    }
    story
}
