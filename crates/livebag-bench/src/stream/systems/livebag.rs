//! livebag's streams.

use std::time::Duration;

use livebag_shm::{FrameLayout, FrameMeta, Reader, StreamOptions, Wait, Writer};

use super::{Arrival, Publisher, SlowSubscriber, Subscriber};
use crate::clock;
use crate::error::{BenchError, Result};
use crate::frame;
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
        let stream = StreamOptions::bytes(options.payload_bytes).slots(options.slots);
        let writer = Writer::create(&options.name, &stream).map_err(failed("creating a stream"))?;
        Ok(Self { writer, payload_bytes: options.payload_bytes })
    }
}

fn meta(publish_time_nanos: u64) -> FrameMeta {
    FrameMeta { publish_time_nanos, layout: FrameLayout::Bytes, ..FrameMeta::default() }
}

impl Publisher for StreamPublisher {
    fn publish_copy(&mut self, frame: &[u8]) -> Result<()> {
        self.writer.publish(&meta(0), frame).map(drop).map_err(failed("publishing"))
    }

    fn publish_loan(&mut self, fill: &mut dyn FnMut(&mut [u8])) -> Result<u64> {
        let mut loan = self.writer.loan();
        let memory = &mut loan[..self.payload_bytes];
        fill(memory);
        let sent_nanos = clock::monotonic_nanos();
        frame::stamp(memory, sent_nanos);
        loan.publish(&meta(0), self.payload_bytes).map_err(failed("publishing"))?;
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

    fn copy(&mut self) -> Result<Option<Arrival>> {
        let read = self.reader.copy_latest(&mut self.buffer);
        let arrived_nanos = clock::monotonic_nanos();
        match read {
            Ok(Some(header)) => {
                self.seen = header.sequence;
                let content = frame::inspect(&self.buffer);
                Ok(Some(Arrival { content, arrived_nanos, valid: true }))
            }
            Ok(None) => Ok(None),
            Err(e) => Err(failed("copying a frame")(e)),
        }
    }

    fn borrow(&mut self) -> Option<Arrival> {
        let borrowed = self.reader.borrow_latest()?;
        let arrived_nanos = clock::monotonic_nanos();
        self.seen = borrowed.header().sequence;
        let content = frame::inspect(borrowed.bytes());
        Some(Arrival { content, arrived_nanos, valid: borrowed.validate() })
    }
}

impl Subscriber for StreamSubscriber {
    fn receive(&mut self, timeout_nanos: u64) -> Result<Option<Arrival>> {
        if !self.reader.wait(self.wait, self.seen, Duration::from_nanos(timeout_nanos)) {
            return Ok(None);
        }
        match self.way {
            Way::Copy => self.copy(),
            Way::Loan => Ok(self.borrow()),
        }
    }
}

impl SlowSubscriber for StreamSubscriber {
    fn receive_by(
        &mut self,
        timeout_nanos: u64,
        copy: &mut dyn FnMut(&[u8], &mut [u8]),
    ) -> Result<Option<Arrival>> {
        if !self.reader.wait(self.wait, self.seen, Duration::from_nanos(timeout_nanos)) {
            return Ok(None);
        }
        let Some(borrowed) = self.reader.borrow_latest() else { return Ok(None) };
        self.seen = borrowed.header().sequence;
        copy(borrowed.bytes(), &mut self.buffer);
        let arrived_nanos = clock::monotonic_nanos();
        let content = frame::inspect(&self.buffer);
        Ok(Some(Arrival { content, arrived_nanos, valid: borrowed.validate() }))
    }
}
