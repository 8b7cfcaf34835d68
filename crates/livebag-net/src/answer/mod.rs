//! Answers on their way from the query engine to the network, piece by piece.
//!
//! A separate thread builds each answer; it blocks on the disk and on the client. Its output waits in a channel of
//! [`PIECES_WAITING_MAX`] pieces. No other answer waits for it, and the memory of all answers has one bound ([`Pool`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use livebag::{
    Buffer, Clock, Container, ContainerError, Cursor, FilePart, Laid, McapAnswer, Query,
    damaged_topics,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::ask::Form;
use crate::limits::{BETWEEN_BYTES_MAX, PARCEL_BYTES, PIECE_BYTES, PIECES_WAITING_MAX};
use crate::pool::{Piece, Pool};
use crate::tell::{DamagedLine, MessageLine};

mod auto;
mod decimation;
mod error;
mod follow;
mod json;
mod message;
mod patience;
mod series;
mod status;
mod timeline;

pub use auto::Auto;
pub use decimation::Decimation;
pub use error::AnswerError;
pub use follow::send_follow;
pub use json::{JsonOut, send_info};
use message::Decoders;
pub use message::{MessageHead, MessageQuery, send_message, send_points};
pub use patience::wait_within;
pub use series::{SeriesQuery, send_fields, send_series, span_of};
pub use status::{RecorderStatus, RecorderTopic, StatusSource, send_status};
pub use timeline::send_timeline;

/// The receiving end of an answer.
pub struct Pieces {
    receiver: mpsc::Receiver<Result<Parcel, AnswerError>>,
    is_whole: Arc<AtomicBool>,
}

impl Pieces {
    /// The next of them; `None` after the last. An answer that stopped before its end, even because its thread died,
    /// ends in an error, so that no client mistakes a part for the whole.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Parcel, AnswerError>>> {
        match ready!(self.receiver.poll_recv(cx)) {
            None if !self.is_whole.load(Ordering::Acquire) => {
                Poll::Ready(Some(Err(AnswerError::Gone)))
            }
            next => Poll::Ready(next),
        }
    }

    /// The same.
    pub async fn recv(&mut self) -> Option<Result<Parcel, AnswerError>> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }
}

/// The unit of sending: a piece, or many parts of files and the bytes between them. In order.
pub type Parcel = VecDeque<Bytes>;

/// Bytes of a parcel.
pub fn bytes_of(parcel: &Parcel) -> usize {
    parcel.iter().map(Bytes::len).sum()
}

/// A part of a file for the kernel, as a piece of an answer.
struct ForTheKernel(FilePart);

impl AsRef<[u8]> for ForTheKernel {
    #[expect(unsafe_code, reason = "`Bytes` knows memory as slices only")]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: only the address and the length are used. Only the kernel reads these bytes
        // (`Outlet::take_references`), and bytes that change meanwhile are sent with their new values.
        unsafe { self.0.look() }
    }
}

/// Where an answer goes.
pub struct Outlet {
    sender: mpsc::Sender<Result<Parcel, AnswerError>>,
    pool: Pool,
    runtime: Handle,
    clock: Clock,
    progress_timeout: Duration,
    /// Bytes of the largest piece so far: the next one may be as large.
    piece_bytes: usize,
    /// Whether it accepts parts of mapped files, which only the kernel may read.
    takes_references: bool,
    /// Bytes laid out but not sent yet: they hold no memory of the pool.
    parcel: Parcel,
    bytes: u64,
    began_nanos: u64,
    waited_nanos: u64,
    /// Set once everything has been sent; [`Pieces`] acquires it.
    is_whole: Arc<AtomicBool>,
}

impl Outlet {
    /// An outlet, and its receiving end. Must be used outside of the runtime's own threads. A client that takes no
    /// piece for `progress_timeout` is considered gone.
    pub fn new(
        pool: &Pool,
        clock: &Clock,
        runtime: &Handle,
        progress_timeout: Duration,
    ) -> (Self, Pieces) {
        let (sender, receiver) = mpsc::channel(PIECES_WAITING_MAX);
        let pieces = Pieces { receiver, is_whole: Arc::default() };
        let this = Self {
            sender,
            pool: pool.clone(),
            runtime: runtime.clone(),
            clock: clock.clone(),
            progress_timeout,
            piece_bytes: 0,
            takes_references: false,
            parcel: Parcel::new(),
            bytes: 0,
            began_nanos: clock.monotonic_nanos(),
            waited_nanos: 0,
            is_whole: pieces.is_whole.clone(),
        };
        (this, pieces)
    }

    /// Declares that the receiver passes the bytes to the kernel without reading them.
    pub fn take_references(&mut self, yes: bool) {
        self.takes_references = yes;
    }

    /// Memory for the next piece.
    pub fn piece(&mut self, bytes: usize) -> Piece {
        let began = self.clock.monotonic_nanos();
        let piece = self.runtime.block_on(self.pool.take(bytes.max(self.piece_bytes)));
        self.waited_nanos += self.clock.monotonic_nanos() - began;
        piece
    }

    /// The same, but does not wait longer than that.
    ///
    /// # Errors
    /// [`AnswerError::Memory`] if others hold all of it for that long.
    pub fn piece_within(&mut self, bytes: usize, patience: Duration) -> Result<Piece, AnswerError> {
        let began = self.clock.monotonic_nanos();
        let taken = wait_within(self.pool.take(bytes), patience);
        self.waited_nanos += self.clock.monotonic_nanos() - began;
        taken.ok_or(AnswerError::Memory)
    }

    /// Where its memory comes from.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Sends a piece; waits while the asker takes none.
    ///
    /// # Errors
    /// If the asker has gone, or takes nothing.
    pub fn send(&mut self, mut piece: Piece) -> Result<(), AnswerError> {
        if piece.buffer().is_empty() {
            return self.hand_over();
        }
        self.bytes += piece.buffer().len() as u64;
        // Its memory, including its growth.
        self.piece_bytes = self.piece_bytes.max(piece.buffer().capacity());
        let began = self.clock.monotonic_nanos();
        self.runtime.block_on(piece.settle());
        self.waited_nanos += self.clock.monotonic_nanos() - began;
        self.parcel.push_back(piece.into_bytes());
        self.hand_over()
    }

    /// Sends a piece and what follows it in a file, by reference; gives the next piece. Parts are sent together, so
    /// that the receiver need not be woken for each.
    ///
    /// # Errors
    /// As [`Outlet::send`].
    fn send_with(&mut self, mut piece: Piece, part: FilePart) -> Result<Piece, AnswerError> {
        if piece.buffer().len() <= BETWEEN_BYTES_MAX {
            self.bytes += piece.buffer().len() as u64;
            self.parcel.push_back(Bytes::copy_from_slice(piece.buffer()));
            piece.buffer().clear();
        } else {
            self.send(piece)?;
            piece = self.piece(PIECE_BYTES);
        }
        self.bytes += part.len() as u64;
        self.parcel.push_back(Bytes::from_owner(ForTheKernel(part)));
        if bytes_of(&self.parcel) >= PARCEL_BYTES {
            self.hand_over()?;
        }
        Ok(piece)
    }

    fn hand_over(&mut self) -> Result<(), AnswerError> {
        if self.parcel.is_empty() {
            return Ok(());
        }
        let parcel = std::mem::take(&mut self.parcel);
        self.give(Ok(parcel))
    }

    fn give(&mut self, piece: Result<Parcel, AnswerError>) -> Result<(), AnswerError> {
        let began = self.clock.monotonic_nanos();
        let sent = wait_within(self.sender.send(piece), self.progress_timeout);
        self.waited_nanos += self.clock.monotonic_nanos() - began;
        match sent {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => Err(AnswerError::Gone),
        }
    }

    /// How long an asker may take nothing.
    pub fn progress_timeout(&self) -> Duration {
        self.progress_timeout
    }

    /// Whether the receiver is gone.
    pub fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }

    /// Time since it was made, without that spent waiting for memory and for the asker.
    pub fn busy_nanos(&self) -> u64 {
        (self.clock.monotonic_nanos() - self.began_nanos).saturating_sub(self.waited_nanos)
    }

    /// Bytes sent.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends the answer, in order or by an error that cuts it off.
    pub fn end(mut self, result: Result<(), AnswerError>) {
        match result {
            Ok(()) => self.is_whole.store(true, Ordering::Release),
            // A receiver that is still there sees that the answer is incomplete.
            Err(AnswerError::Gone) => {}
            Err(error) => {
                let _ = self.give(Err(error));
            }
        }
    }
}

/// Sends the messages of a query, oldest first.
///
/// # Errors
/// If the recording cannot be read, or the asker has gone.
pub fn send_all(
    container: &Container,
    query: &Query,
    form: Form,
    outlet: &mut Outlet,
) -> Result<(), AnswerError> {
    let mut cursor = container.query(query)?;
    match form {
        Form::Mcap => send_mcap(container, &mut cursor, outlet),
        Form::Lines => send_lines(container, &mut cursor, outlet, &mut line),
        Form::Decoded { array_items_max } => {
            let mut decoders = Decoders::new(container, array_items_max, outlet.pool());
            send_lines(container, &mut cursor, outlet, &mut |container, cursor, out| {
                let Some((at, message)) = cursor.next()? else { return Ok(false) };
                decoders.put(at, container.topics()[at].topic(), &message, out);
                Ok(true)
            })
        }
    }
}

fn send_mcap(
    container: &Container,
    cursor: &mut Cursor<'_>,
    outlet: &mut Outlet,
) -> Result<(), AnswerError> {
    let mut piece = outlet.piece(PIECE_BYTES);
    let mut answer = McapAnswer::new(container, piece.buffer());
    loop {
        // A message that is larger than a piece gets one of its size.
        let next = cursor.next_data_bytes().unwrap_or(0) as usize + BETWEEN_BYTES_MAX;
        if !outlet.takes_references && next > piece.room() {
            outlet.send(piece)?;
            piece = outlet.piece(next + PIECE_BYTES);
        }
        let laid = match outlet.takes_references {
            true => answer.chunk_in_parts(cursor, piece.buffer())?,
            false if answer.chunk(cursor, piece.buffer())? => Laid::Whole,
            false => Laid::Nothing,
        };
        match laid {
            Laid::Nothing => break,
            Laid::Whole if piece.buffer().len() < PIECE_BYTES => continue,
            Laid::Whole => {
                outlet.send(piece)?;
                piece = outlet.piece(PIECE_BYTES);
            }
            Laid::UpTo(part) => piece = outlet.send_with(piece, part)?,
        }
    }
    answer.finish(piece.buffer());
    outlet.send(piece)
}

/// Appends the next line; false if there is none.
type NextLine<'a> =
    dyn FnMut(&Container, &mut Cursor<'_>, &mut Buffer) -> Result<bool, ContainerError> + 'a;

fn send_lines(
    container: &Container,
    cursor: &mut Cursor<'_>,
    outlet: &mut Outlet,
    next: &mut NextLine<'_>,
) -> Result<(), AnswerError> {
    let mut piece = outlet.piece(PIECE_BYTES);
    while next(container, cursor, piece.buffer())? {
        if piece.buffer().len() >= PIECE_BYTES {
            outlet.send(piece)?;
            piece = outlet.piece(PIECE_BYTES);
        }
    }
    let damaged = damaged_topics(container, cursor.damaged_by_topic());
    if !damaged.is_empty() {
        message::put(&DamagedLine { damaged }, piece.buffer());
        piece.buffer().put(b"\n");
    }
    outlet.send(piece)
}

/// Times and size of the next message, straight from the time index.
fn line(
    container: &Container,
    cursor: &mut Cursor<'_>,
    out: &mut Buffer,
) -> Result<bool, ContainerError> {
    let Some((topic, entry)) = cursor.next_entry()? else { return Ok(false) };
    let line = MessageLine {
        topic: container.topics()[topic].topic().name.clone(),
        log_time: entry.log_time_nanos,
        publish_time: entry.publish_time_nanos,
        sequence: entry.sequence,
        bytes: entry.data_bytes as usize,
        value: None,
        error: None,
    };
    message::put(&line, out);
    out.put(b"\n");
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_was_given_up_does_not_look_whole() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let pool = Pool::new(1 << 20);
        for (count, is_whole) in [(PIECES_WAITING_MAX, true), (PIECES_WAITING_MAX + 1, false)] {
            let patience = Duration::from_millis(1);
            let (mut outlet, mut pieces) =
                Outlet::new(&pool, &Clock::system(), runtime.handle(), patience);
            // No receiver takes any of them.
            let sent = (0..count).try_for_each(|_| {
                let mut piece = outlet.piece(10);
                piece.buffer().put(b"a part");
                outlet.send(piece)
            });
            assert_eq!(sent.is_ok(), is_whole);
            outlet.end(sent);
            for _ in 0..PIECES_WAITING_MAX {
                assert!(matches!(runtime.block_on(pieces.recv()), Some(Ok(_))));
            }
            assert_eq!(runtime.block_on(pieces.recv()).is_none(), is_whole);
        }
    }
}
