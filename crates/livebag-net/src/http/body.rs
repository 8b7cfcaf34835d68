//! Bodies of responses that are still being laid out.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::answer::{AnswerError, Parcel, Pieces};

/// Pieces, some of which are here.
struct PiecesBody {
    here: Parcel,
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
        let next = loop {
            if let Some(here) = self.here.pop_front() {
                break Poll::Ready(Some(Ok(here)));
            }
            match self.rest.poll_recv(cx) {
                Poll::Ready(Some(Ok(parcel))) => self.here = parcel,
                Poll::Ready(Some(Err(error))) => break Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => break Poll::Ready(None),
                Poll::Pending => break Poll::Pending,
            }
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
pub fn stream(first: Parcel, rest: Pieces) -> Body {
    Body::new(PiecesBody { here: first, rest, bytes: None })
}

/// A body of `bytes`.
pub fn stream_of(bytes: u64, first: Parcel, rest: Pieces) -> Body {
    Body::new(PiecesBody { here: first, rest, bytes: Some(bytes) })
}
