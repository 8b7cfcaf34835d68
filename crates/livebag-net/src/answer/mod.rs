//! Answers on their way from the query engine to the network, piece by piece.
//!
//! An answer is laid out by a thread of its own, which blocks on the disk and on the asker; what it
//! has laid out waits in a channel of [`PIECES_WAITING_MAX`] pieces. Nobody else waits for it, and the
//! memory of all answers has one bound ([`Pool`]).

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use livebag::storage::FilePart;
use livebag::{Bag, BagError, Buffer, Clock, Cursor, Laid, McapAnswer, Query};
use livebag_format::decode::{DecodeOptions, Decoder};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::ask::Form;
use crate::limits::{BETWEEN_BYTES_MAX, PARCEL_BYTES, PIECE_BYTES, PIECES_WAITING_MAX};
use crate::pool::{Piece, Pool};
use crate::tell::MessageLine;

mod auto;
mod decimation;
mod error;

pub use auto::Auto;
pub use decimation::Decimation;
pub use error::AnswerError;

/// The receiving end of an answer.
pub type Pieces = mpsc::Receiver<Result<Parcel, AnswerError>>;

/// What is handed over at once: a piece, or many parts of files and what lies between them. In order.
pub type Parcel = VecDeque<Bytes>;

/// Bytes of a parcel.
pub fn bytes_of(parcel: &Parcel) -> usize {
    parcel.iter().map(Bytes::len).sum()
}

/// Where an answer goes.
pub struct Outlet {
    sender: mpsc::Sender<Result<Parcel, AnswerError>>,
    pool: Pool,
    runtime: Handle,
    clock: Clock,
    progress_timeout: Duration,
    /// Bytes of the largest piece so far: the next one may be like it.
    piece_bytes: usize,
    /// Whether it takes parts of mapped files, which nobody may look at but the kernel.
    takes_references: bool,
    /// What has been laid out and not been handed over: nothing that holds memory of the pool.
    parcel: Parcel,
    bytes: u64,
    began_nanos: u64,
    waited_nanos: u64,
}

impl Outlet {
    /// An outlet, and what comes out of it. Must be used outside of the runtime's own threads.
    /// An asker who takes no piece for `progress_timeout` has gone.
    pub fn new(
        pool: &Pool,
        clock: &Clock,
        runtime: &Handle,
        progress_timeout: Duration,
    ) -> (Self, Pieces) {
        let (sender, pieces) = mpsc::channel(PIECES_WAITING_MAX);
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
        };
        (this, pieces)
    }

    /// Says that what comes out of it is handed to the kernel, and that nobody looks at it before.
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

    /// Sends a piece; waits while the asker takes none.
    ///
    /// # Errors
    /// If the asker has gone, or takes nothing.
    pub fn send(&mut self, mut piece: Piece) -> Result<(), AnswerError> {
        if piece.buffer().is_empty() {
            return self.hand_over();
        }
        let bytes = piece.buffer().len();
        self.bytes += bytes as u64;
        self.piece_bytes = self.piece_bytes.max(bytes);
        let began = self.clock.monotonic_nanos();
        self.runtime.block_on(piece.settle());
        self.waited_nanos += self.clock.monotonic_nanos() - began;
        self.parcel.push_back(piece.into_bytes());
        self.hand_over()
    }

    /// Sends a piece and what follows it in a file, by reference; gives the next piece. Parts are handed
    /// over together: who takes them need not be woken for each.
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
        self.parcel.push_back(Bytes::from_owner(part));
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
        let sending = self.sender.send(piece);
        let patience = self.progress_timeout;
        let sent = self.runtime.block_on(async { tokio::time::timeout(patience, sending).await });
        self.waited_nanos += self.clock.monotonic_nanos() - began;
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(AnswerError::Gone),
        }
    }

    /// How long an asker may take nothing.
    pub fn progress_timeout(&self) -> Duration {
        self.progress_timeout
    }

    /// Whether nobody takes what is sent any more.
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
            // Nobody is there to be told.
            Ok(()) | Err(AnswerError::Gone) => {}
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
    bag: &Bag,
    query: &Query,
    form: Form,
    outlet: &mut Outlet,
) -> Result<(), AnswerError> {
    let mut cursor = bag.query(query)?;
    match form {
        Form::Mcap => send_mcap(bag, &mut cursor, outlet),
        Form::Lines => send_lines(bag, &mut cursor, outlet, &mut line),
        Form::Decoded { array_items_max } => {
            let mut decoders = Decoders::new(bag, array_items_max);
            send_lines(bag, &mut cursor, outlet, &mut |bag, cursor, out| {
                decoders.line(bag, cursor, out)
            })
        }
    }
}

fn send_mcap(bag: &Bag, cursor: &mut Cursor<'_>, outlet: &mut Outlet) -> Result<(), AnswerError> {
    let mut piece = outlet.piece(PIECE_BYTES);
    let mut answer = McapAnswer::new(bag, piece.buffer());
    loop {
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
type NextLine<'a> = dyn FnMut(&Bag, &mut Cursor<'_>, &mut Buffer) -> Result<bool, BagError> + 'a;

fn send_lines(
    bag: &Bag,
    cursor: &mut Cursor<'_>,
    outlet: &mut Outlet,
    next: &mut NextLine<'_>,
) -> Result<(), AnswerError> {
    let mut piece = outlet.piece(PIECE_BYTES);
    while next(bag, cursor, piece.buffer())? {
        if piece.buffer().len() >= PIECE_BYTES {
            outlet.send(piece)?;
            piece = outlet.piece(PIECE_BYTES);
        }
    }
    outlet.send(piece)
}

/// Times and size of the next message, straight from the time index.
fn line(bag: &Bag, cursor: &mut Cursor<'_>, out: &mut Buffer) -> Result<bool, BagError> {
    let Some((topic, entry)) = cursor.next_entry()? else { return Ok(false) };
    let line = MessageLine {
        topic: bag.topics()[topic].topic().name.clone(),
        log_time: entry.log_time_nanos,
        publish_time: entry.publish_time_nanos,
        sequence: entry.sequence,
        bytes: entry.data_bytes as usize,
        value: None,
        error: None,
    };
    put_line(&line, out);
    Ok(true)
}

fn put_line(line: &MessageLine, out: &mut Buffer) {
    // Names and numbers can always be written.
    out.put(&serde_json::to_vec(line).unwrap_or_default());
    out.put(b"\n");
}

/// A decoder for each topic, made when its first message comes.
struct Decoders {
    options: DecodeOptions,
    by_topic: Vec<Option<Result<Decoder, String>>>,
}

impl Decoders {
    fn new(bag: &Bag, array_items_max: usize) -> Self {
        let by_topic = bag.topics().iter().map(|_| None).collect();
        Self { options: DecodeOptions { array_items_max }, by_topic }
    }

    fn line(
        &mut self,
        bag: &Bag,
        cursor: &mut Cursor<'_>,
        out: &mut Buffer,
    ) -> Result<bool, BagError> {
        let Some((at, message)) = cursor.next()? else { return Ok(false) };
        let topic = bag.topics()[at].topic();
        let decoder = self.by_topic[at]
            .get_or_insert_with(|| Decoder::new(topic).map_err(|error| error.to_string()));
        let decoded = match decoder {
            Ok(decoder) => {
                decoder.decode(message.data, &self.options).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.clone()),
        };
        let (value, error) = match decoded {
            Ok(value) => (Some(value), None),
            Err(error) => (None, Some(error)),
        };
        let line = MessageLine {
            topic: topic.name.clone(),
            log_time: message.log_time_nanos,
            publish_time: message.publish_time_nanos,
            sequence: message.sequence,
            bytes: message.data.len(),
            value,
            error,
        };
        put_line(&line, out);
        Ok(true)
    }
}

/// The newest message of a topic, not after a time.
pub struct OneMessage {
    /// Place of its topic in [`Bag::topics`].
    pub topic: usize,
    /// What a line tells of it, without values.
    pub line: MessageLine,
    /// As it was encoded.
    pub data: Buffer,
}

/// Finds it.
///
/// # Errors
/// If the recording cannot be read or has none.
pub fn one_message(bag: &Bag, query: &Query) -> Result<OneMessage, AnswerError> {
    let mut messages = bag.newest_first(query)?;
    while let Some((topic, entry)) = messages.next_entry()? {
        let mut data = Buffer::default();
        // A damaged one is passed over for the one before.
        if messages.append_to(&mut data)? {
            let line = MessageLine {
                topic: bag.topics()[topic].topic().name.clone(),
                log_time: entry.log_time_nanos,
                publish_time: entry.publish_time_nanos,
                sequence: entry.sequence,
                bytes: data.len(),
                value: None,
                error: None,
            };
            return Ok(OneMessage { topic, line, data });
        }
    }
    Err(AnswerError::NoMessage)
}

/// The values of one message.
///
/// # Errors
/// If its schema or itself cannot be understood.
pub fn decode_one(
    bag: &Bag,
    message: &OneMessage,
    array_items_max: usize,
) -> Result<serde_json::Value, AnswerError> {
    let topic = bag.topics()[message.topic].topic();
    let failed = |error: String| AnswerError::Decode { topic: topic.name.clone(), error };
    let decoder = Decoder::new(topic).map_err(|error| failed(error.to_string()))?;
    let decoded = decoder.decode(&message.data, &DecodeOptions { array_items_max });
    decoded.map_err(|error| failed(error.to_string()))
}
