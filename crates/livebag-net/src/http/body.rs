//! Bodies of responses that are still being laid out.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::app::{Answer, Turn};
use crate::answer::{AnswerError, Parcel};

/// Pieces, some of which are here.
struct PiecesBody {
    here: Parcel,
    rest: Answer,
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
            match self.rest.pieces.poll_recv(cx) {
                Poll::Ready(Some(Ok(parcel))) => self.here = parcel,
                Poll::Ready(Some(Err(error))) => break Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => break Poll::Ready(None),
                Poll::Pending => break Poll::Pending,
            }
        };
        if let (Poll::Ready(Some(Ok(piece))), Some(bytes)) = (&next, &mut self.bytes) {
            *bytes = bytes.saturating_sub(piece.len() as u64);
        }
        let turn = self.rest.turn.clone();
        next.map(|next| next.map(|piece| piece.map(|piece| Frame::data(with_turn(piece, turn)))))
    }

    fn size_hint(&self) -> SizeHint {
        self.bytes.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Bytes that keep their answer's turn until the network has them: hyper drops a body once it has taken its last piece,
/// and the piece once it is written or the connection has ended.
struct Sent {
    bytes: Bytes,
    _turn: Arc<Turn>,
}

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn with_turn(bytes: Bytes, turn: Arc<Turn>) -> Bytes {
    Bytes::from_owner(Sent { bytes, _turn: turn })
}

/// A body of unknown length.
pub fn stream(first: Parcel, rest: Answer) -> Body {
    Body::new(PiecesBody { here: first, rest, bytes: None })
}

/// A body of `bytes`.
pub fn stream_of(bytes: u64, first: Parcel, rest: Answer) -> Body {
    Body::new(PiecesBody { here: first, rest, bytes: Some(bytes) })
}
