//! JSON that is sent while it is written: a list of recordings or topics may be longer than memory.

use std::io;

use livebag::Container;
use serde::Serialize;

use super::{AnswerError, Outlet};
use crate::limits::PIECE_BYTES;
use crate::pool::Piece;
use crate::tell::{RecordingInfo, TopicRows};

/// Where JSON is written to.
pub struct JsonOut<'a> {
    outlet: &'a mut Outlet,
    piece: Option<Piece>,
    failed: Option<AnswerError>,
}

impl<'a> JsonOut<'a> {
    /// Writes into `outlet`.
    pub fn new(outlet: &'a mut Outlet) -> Self {
        Self { outlet, piece: None, failed: None }
    }

    /// Appends a value, or a part of one.
    ///
    /// # Errors
    /// If the asker has gone, or the value cannot be written.
    pub fn put(&mut self, value: &impl Serialize) -> Result<(), AnswerError> {
        serde_json::to_writer(&mut *self, value).map_err(|error| self.why(error.into()))
    }

    /// Appends text as it is.
    ///
    /// # Errors
    /// If the asker has gone.
    pub fn text(&mut self, text: &str) -> Result<(), AnswerError> {
        io::Write::write_all(self, text.as_bytes()).map_err(|error| self.why(error))
    }

    /// Sends the buffered bytes.
    ///
    /// # Errors
    /// If the asker has gone.
    pub fn finish(mut self) -> Result<(), AnswerError> {
        self.piece.take().map_or(Ok(()), |piece| self.outlet.send(piece))
    }

    fn why(&mut self, error: io::Error) -> AnswerError {
        self.failed.take().unwrap_or_else(|| AnswerError::Written(error.to_string()))
    }
}

impl io::Write for JsonOut<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = self.piece.get_or_insert_with(|| self.outlet.piece(PIECE_BYTES));
        let taken = bytes.len().min(PIECE_BYTES.saturating_sub(piece.buffer().len()));
        piece.buffer().put(&bytes[..taken]);
        if piece.buffer().len() >= PIECE_BYTES
            && let Some(full) = self.piece.take()
            && let Err(error) = self.outlet.send(full)
        {
            self.failed = Some(error);
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends all of a recording but its messages.
///
/// # Errors
/// If its indexes cannot be read, or the asker has gone.
pub fn send_info(
    name: &str,
    container: &Container,
    with_definitions: bool,
    outlet: &mut Outlet,
) -> Result<(), AnswerError> {
    let info =
        RecordingInfo::with_rows(name, container, TopicRows::new(container, with_definitions))?;
    let mut out = JsonOut::new(outlet);
    out.put(&info).map_err(|error| info.topics.failure().map_or(error, AnswerError::Container))?;
    out.finish()
}
