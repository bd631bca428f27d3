//! A client's body on its way to the origin: of a known length, and seen to move.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::{BoxError, ForwardBody};

/// Bytes of a request's body that have been taken for sending.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress(Arc<AtomicU64>);

impl Progress {
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The SDK's body type must be `Sync`, a client's body is only `Send`: hence the mutex, which is
/// only ever reached through `&mut` and never locked.
pub(super) struct Upload {
    body: Mutex<ForwardBody>,
    left: u64,
    progress: Progress,
}

impl Upload {
    pub(super) fn new(body: ForwardBody, size: u64, progress: Progress) -> Self {
        Self { body: Mutex::new(body), left: size, progress }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let body = self.body.get_mut().unwrap_or_else(PoisonError::into_inner);
        let polled = Pin::new(body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            let bytes = data.len() as u64;
            self.left = self.left.saturating_sub(bytes);
            self.progress.0.fetch_add(bytes, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
