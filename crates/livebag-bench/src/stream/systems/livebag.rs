//! livebag's streams.

use std::time::Duration;

use livebag_shm::{FrameMeta, ReadError, Reader, StreamOptions, Wait, Writer};

use super::{Arrival, Publisher, SlowSubscriber, Subscriber};
use crate::clock;
use crate::error::{BenchError, Result};
use crate::frame::{self, Content};
use crate::stream::{RunOptions, WaitWay, Way};

const SYSTEM: &str = "livebag";

fn failed<E: std::fmt::Display>(doing: &'static str) -> impl Fn(E) -> BenchError {
    move |e| BenchError::system(SYSTEM, doing)(&e)
}

/// Publishes into a stream.
pub struct StreamPublisher {
    writer: Writer,
    payload_bytes: usize,
}

impl StreamPublisher {
    /// Creates the stream.
    pub fn create(options: &RunOptions) -> Result<Self> {
        let stream =
            StreamOptions::bytes(options.payload_bytes).slots(options.slots).remove_on_drop(true);
        let writer = Writer::create(&options.name, &stream).map_err(failed("creating a stream"))?;
        Ok(Self { writer, payload_bytes: options.payload_bytes })
    }
}

impl Publisher for StreamPublisher {
    fn publish_copy(&mut self, frame: &[u8]) -> Result<()> {
        self.writer.publish(&FrameMeta::bytes(), frame).map(drop).map_err(failed("publishing"))
    }

    fn publish_loan(&mut self, fill: &mut dyn FnMut(&mut [u8])) -> Result<u64> {
        let mut loan = self.writer.loan();
        let memory = &mut loan.payload_mut()[..self.payload_bytes];
        fill(memory);
        let sent_nanos = clock::monotonic_nanos();
        frame::stamp(memory, sent_nanos);
        loan.publish(&FrameMeta::bytes(), self.payload_bytes).map_err(failed("publishing"))?;
        Ok(sent_nanos)
    }
}

/// Reads the newest frame of a stream.
pub struct StreamSubscriber {
    reader: Reader,
    seen: u64,
    way: Way,
    wait: Wait,
    buffer: Vec<u8>,
}

impl StreamSubscriber {
    /// Opens the stream.
    pub fn open(options: &RunOptions) -> Result<Self> {
        let reader = Reader::open(&options.name).map_err(failed("opening a stream"))?;
        let wait = match options.wait {
            WaitWay::Futex => Wait::Futex,
            WaitWay::Spin => Wait::Spin,
        };
        let buffer = vec![1; options.payload_bytes];
        Ok(Self { seen: reader.latest_sequence(), reader, way: options.way, wait, buffer })
    }

    fn copy(&mut self, timeout: Duration) -> Result<Option<Arrival>> {
        let received = self.reader.receive(&mut self.buffer, self.wait, timeout);
        let arrived_nanos = clock::monotonic_nanos();
        match received {
            Ok(Some(header)) => {
                self.seen = header.sequence;
                let content = frame::inspect(&self.buffer);
                Ok(Some(Arrival { content, arrived_nanos, valid: true }))
            }
            Ok(None) => Ok(None),
            Err(ReadError::Overtaken { .. }) => {
                let content = Content { sequence: 0, sent_nanos: 0, torn: false };
                Ok(Some(Arrival { content, arrived_nanos, valid: false }))
            }
            Err(e) => Err(failed("receiving a frame")(e)),
        }
    }

    #[expect(
        unsafe_code,
        reason = "a view that the writer may overwrite is read by volatile reads"
    )]
    fn borrow(&mut self, timeout: Duration) -> Option<Arrival> {
        if !self.reader.wait(self.wait, self.seen, timeout) {
            return None;
        }
        let borrowed = self.reader.borrow_latest()?;
        let start = borrowed.as_ptr();
        let arrived_nanos = clock::monotonic_nanos();
        self.seen = borrowed.header().sequence;
        let word = |index: usize| {
            assert!((index + 1) * frame::WORD_BYTES <= borrowed.len(), "a word of the frame");
            // SAFETY: inside the payload (above), page-aligned at its start, mapped as long as
            // `borrowed`; what a race makes of the value is discarded by `validate`.
            u64::from_le(unsafe { start.cast::<u64>().add(index).read_volatile() })
        };
        let content = frame::inspect_by(borrowed.len(), word);
        Some(Arrival { content, arrived_nanos, valid: borrowed.validate() })
    }
}

impl Subscriber for StreamSubscriber {
    fn receive(&mut self, timeout_nanos: u64) -> Result<Option<Arrival>> {
        let timeout = Duration::from_nanos(timeout_nanos);
        match self.way {
            Way::Copy => self.copy(timeout),
            Way::Loan => Ok(self.borrow(timeout)),
        }
    }
}

impl SlowSubscriber for StreamSubscriber {
    fn receive_in_pieces(
        &mut self,
        timeout_nanos: u64,
        piece_bytes: usize,
        after_piece: &mut dyn FnMut(usize),
    ) -> Result<Option<Arrival>> {
        if !self.reader.wait(self.wait, self.seen, Duration::from_nanos(timeout_nanos)) {
            return Ok(None);
        }
        self.reader.seek(self.reader.latest_sequence());
        let Some(frame) = self.reader.next().frame else { return Ok(None) };
        self.seen = frame.sequence();
        for (index, piece) in self.buffer.chunks_mut(piece_bytes).enumerate() {
            frame.copy_range_to(index * piece_bytes, piece);
            after_piece(index + 1);
        }
        let arrived_nanos = clock::monotonic_nanos();
        let content = frame::inspect(&self.buffer);
        Ok(Some(Arrival { content, arrived_nanos, valid: frame.is_intact() }))
    }
}
