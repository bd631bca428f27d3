//! The bytes of a read, in order, while the next blocks are already on their way.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use forebay_rt::{Task, spawn};
use forebay_types::{BlockIndex, ByteRange};
use futures_util::Stream;
use futures_util::stream::try_unfold;
use tokio::sync::OwnedSemaphorePermit;

use crate::error::ReadError;
use crate::limits::BLOCKS_AHEAD;
use crate::part::{Part, Version};

/// The bytes of a read. Dropped before its end, it stops asking.
#[derive(Debug)]
pub struct Body {
    version: Arc<Version>,
    now: Now,
    ahead: VecDeque<Ahead>,
    /// What nobody was asked for yet.
    rest: Option<ByteRange>,
    failed: Option<ReadError>,
}

/// What is being handed out.
#[derive(Debug)]
enum Now {
    Arriving(Part),
    Arrived(Block),
}

/// A block in memory, with the room that it takes there.
#[derive(Debug)]
struct Block {
    chunks: VecDeque<Bytes>,
    _room: OwnedSemaphorePermit,
}

/// A block that is fetched before it is wanted. Dropped, it is no longer fetched.
#[derive(Debug)]
struct Ahead(Task<Result<Block, ReadError>>);

impl Body {
    /// First `part`, then `rest` block by block.
    pub(crate) fn new(part: Part, rest: Option<ByteRange>) -> Self {
        let version = Arc::clone(part.version());
        let (now, ahead) = (Now::Arriving(part), VecDeque::new());
        let mut body = Self { version, now, ahead, rest, failed: None };
        body.run_ahead();
        body
    }

    /// The next bytes; `None` at the end. Nothing is lost where the caller stops waiting. An
    /// error stays: there are no bytes after it.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ReadError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let chunk = self.next_chunk().await;
        if let Err(error) = &chunk {
            self.failed = Some(error.clone());
            self.ahead.clear();
        }
        chunk
    }

    /// All that is left, in memory.
    pub async fn bytes(mut self) -> Result<Bytes, ReadError> {
        let mut whole = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// The same bytes as a stream, which ends with the first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, ReadError>> + Send + 'static {
        try_unfold(
            self,
            |mut body| async move { Ok(body.chunk().await?.map(|chunk| (chunk, body))) },
        )
    }

    async fn next_chunk(&mut self) -> Result<Option<Bytes>, ReadError> {
        loop {
            let chunk = match &mut self.now {
                Now::Arriving(part) => part.chunk().await?,
                Now::Arrived(block) => block.chunks.pop_front(),
            };
            if chunk.is_some() {
                return Ok(chunk);
            }
            let Some(now) = self.next_block().await? else { return Ok(None) };
            self.now = now;
            self.run_ahead();
        }
    }

    async fn next_block(&mut self) -> Result<Option<Now>, ReadError> {
        if let Some(Ahead(task)) = self.ahead.front_mut() {
            let block = task.await.map_err(|error| ReadError::Unavailable(error.to_string()))??;
            self.ahead.pop_front();
            return Ok(Some(Now::Arrived(block)));
        }
        Ok(self.begin_block().map(Now::Arriving))
    }

    /// Begins as many of the next blocks as there is room for. Never waits: readers that wait
    /// for each other's room while one caller reads them in turns would wait for ever.
    fn run_ahead(&mut self) {
        while self.ahead.len() < BLOCKS_AHEAD && self.rest.is_some() {
            let room = Arc::clone(&self.version.servers.room_ahead).try_acquire_owned();
            let Ok(room) = room else { return };
            let Some(part) = self.begin_block() else { return };
            self.ahead.push_back(Ahead(spawn(fetch(part, room))));
        }
    }

    fn begin_block(&mut self) -> Option<Part> {
        let rest = self.rest?;
        let cut = rest.end().min(BlockIndex::of(rest.start()).end());
        self.rest = ByteRange::new(cut, rest.end());
        Some(Part::new(Arc::clone(&self.version), ByteRange::new(rest.start(), cut)?))
    }
}

async fn fetch(mut part: Part, room: OwnedSemaphorePermit) -> Result<Block, ReadError> {
    let mut chunks = VecDeque::new();
    while let Some(chunk) = part.chunk().await? {
        chunks.push_back(chunk);
    }
    Ok(Block { chunks, _room: room })
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.abort();
    }
}
