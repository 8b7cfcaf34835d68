//! Bodies of responses that are still being laid out.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::answer::{AnswerError, Pieces};

/// Pieces, the first of which are here.
struct PiecesBody {
    first: VecDeque<Bytes>,
    rest: Pieces,
    /// Bytes that are still to come, where that is known.
    bytes: Option<u64>,
}

impl HttpBody for PiecesBody {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        let next = match self.first.pop_front() {
            Some(first) => Poll::Ready(Some(Ok(first))),
            None => self.rest.poll_recv(cx),
        };
        if let (Poll::Ready(Some(Ok(piece))), Some(bytes)) = (&next, &mut self.bytes) {
            *bytes = bytes.saturating_sub(piece.len() as u64);
        }
        next.map(|next| next.map(|piece| piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        self.bytes.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// A body of unknown length.
pub fn stream<const N: usize>(first: [Bytes; N], rest: Pieces) -> Body {
    Body::new(PiecesBody { first: first.into(), rest, bytes: None })
}

/// A body of `bytes`.
pub fn stream_of(bytes: u64, first: Option<Bytes>, rest: Pieces) -> Body {
    Body::new(PiecesBody { first: first.into_iter().collect(), rest, bytes: Some(bytes) })
}
