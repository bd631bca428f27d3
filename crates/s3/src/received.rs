//! A request as the edge holds it: its head, its decoded query, its body if it has one.

use bytes::{Bytes, BytesMut};
use forebay_cache::{BoxError, ForwardBody};
use forebay_zerocopy::PipePass;
use http::request::Parts;
use http_body::Body;
use http_body_util::{BodyExt, Empty};

use crate::error::S3Error;
use crate::query::Query;

/// A request on its way through the edge.
pub(crate) struct Received {
    pub(crate) parts: Parts,
    /// The URI's query, decoded. Once the caller is known, without its signature.
    pub(crate) query: Query,
    /// `None` where there is nothing to read, as on nearly every GET.
    pub(crate) body: Option<ForwardBody>,
    /// That of the connection, where what is sent over it is not read on its way; `None` over
    /// TLS.
    pub(crate) pass: Option<PipePass>,
}

impl Received {
    /// Takes over what came off a connection.
    pub(crate) fn new<B>(request: http::Request<B>, pass: Option<PipePass>) -> Result<Self, S3Error>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query())?;
        let body = (!body.is_end_stream()).then(|| body.map_err(Into::into).boxed_unsync());
        Ok(Self { parts, query, body, pass })
    }

    /// The body, empty where there is none.
    pub(crate) fn take_body(&mut self) -> ForwardBody {
        self.body.take().unwrap_or_else(empty)
    }
}

/// A body without a byte.
pub(crate) fn empty() -> ForwardBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// Reads a body to its end, or `None` where it has more than `max_bytes`.
pub(crate) async fn read_all(
    mut body: ForwardBody,
    max_bytes: usize,
) -> Result<Option<Bytes>, BoxError> {
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if data.len() > max_bytes - all.len() {
            return Ok(None);
        }
        all.extend_from_slice(&data);
    }
    Ok(Some(all.freeze()))
}
