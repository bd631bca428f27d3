//! A run of bytes of one version, read from one server after another until it is complete.

use std::sync::Arc;

use bytes::Bytes;
use forebay_rt::timeout;
use forebay_types::{BlockIndex, ByteRange, RangeAsk, Stamp};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::answer::{Answer, is_pinnable};
use crate::ask::Name;
use crate::error::ReadError;
use crate::route::Route;
use crate::servers::{Server, Servers};

/// The version that is being read, and whom it can be had from.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) servers: Arc<Servers>,
    pub(crate) name: Name,
    pub(crate) stamp: Stamp,
}

/// What is left of a run of bytes.
#[derive(Debug)]
pub(crate) struct Part {
    version: Arc<Version>,
    left: Option<ByteRange>,
    route: Route,
    /// The body that begins where `left` does, and who sends it.
    source: Option<(Server, Incoming)>,
}

impl Part {
    /// Bytes that nobody was asked for yet.
    pub(crate) fn new(version: Arc<Version>, range: ByteRange) -> Self {
        let route = Route::new(BlockIndex::of(range.start()));
        Self { version, left: Some(range), route, source: None }
    }

    /// Bytes of an answer that came by `route`.
    pub(crate) fn answered(version: Arc<Version>, route: Route, answer: Answer) -> Self {
        let Answer { server, range, body, .. } = answer;
        Self { version, left: range, route, source: Some((server, body)) }
    }

    pub(crate) fn version(&self) -> &Arc<Version> {
        &self.version
    }

    /// The next bytes; `None` after the last. Nothing is lost where the caller stops waiting.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, ReadError> {
        while let Some(left) = self.left {
            let Some((server, body)) = &mut self.source else {
                self.source = Some(self.go_on(left).await?);
                continue;
            };
            let patience = server.patience();
            let frame = timeout(&*self.version.servers.clock, patience, body.frame()).await;
            let broke = match frame {
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if data.len() as u64 <= left.len() => {
                        return Ok(Some(self.take(left, data)));
                    }
                    Ok(_) => "more bytes than it said".to_owned(),
                    // Trailers.
                    Err(_) => continue,
                },
                Ok(Some(Err(error))) => error.to_string(),
                Ok(None) => "fewer bytes than it said".to_owned(),
                Err(_) => format!("no bytes within {patience:?}"),
            };
            self.broke_off(&broke)?;
        }
        self.source = None;
        Ok(None)
    }

    fn take(&mut self, left: ByteRange, data: Bytes) -> Bytes {
        self.left = ByteRange::new(left.start() + data.len() as u64, left.end());
        self.route.made_progress();
        data
    }

    /// Asks for what is left, and only of this version.
    async fn go_on(&mut self, left: ByteRange) -> Result<(Server, Incoming), ReadError> {
        let Version { servers, name, stamp } = &*self.version;
        let range = RangeAsk::FromTo { first: left.start(), last: left.end() - 1 };
        let ask = name.get().range(range).if_match(&stamp.etag);
        let answer = servers.ask_in_turn(&mut self.route, name, &ask, Some(stamp)).await?;
        Ok((answer.server, answer.body))
    }

    fn broke_off(&mut self, why: &str) -> Result<(), ReadError> {
        let Some((server, _)) = self.source.take() else { return Ok(()) };
        let why = format!("{server}: {why}");
        if !is_pinnable(&self.version.stamp) {
            return Err(ReadError::Broken(why));
        }
        self.version.servers.fell_silent(&server);
        self.route.failed(why);
        Ok(())
    }
}
