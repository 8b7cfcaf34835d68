//! The writes that the device has: submitted, and not completed.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use livebag_format::index::IndexEntry;
use livebag_format::mcap::{Compression, RECORD_HEADER_BYTES};

use super::frame_tracker::FrameNumber;
use super::series::Place;
use super::topic::Ticket;
use crate::clock::Clock;
use crate::limits::DEVICE_BYTES_MAX;
use crate::scheduler::WriteSpeed;
use crate::storage::{Completion, DiskFile, Part, Write, WriteQueue};

/// One topic's messages in an extent.
pub(super) struct Piece {
    pub topic: usize,
    pub ticket: Ticket,
    pub entries: Vec<IndexEntry>,
    /// Bytes of the topic's queue that the extent holds.
    pub held_bytes: u64,
}

/// Contents of a write.
pub(super) enum Content {
    /// A chunk of gathered messages, of one topic or of several.
    Chunk {
        pieces: Vec<Piece>,
        /// If it is compressed: how, and to what length.
        stored: Option<(Compression, u64)>,
    },
    /// A frame fetched from its slot.
    Slot { piece: Piece, number: FrameNumber, lead: [u8; RECORD_HEADER_BYTES] },
    /// The header that commits a frame fetched from its slot.
    Commit { piece: Piece },
}

/// Where an extent lies.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub place: Place,
    pub offset: u64,
    pub bytes: u64,
}

/// A write that has ended, and its memory.
pub(super) struct Ended {
    pub target: Target,
    pub content: Content,
    pub parts: Vec<Part>,
    pub result: io::Result<()>,
}

/// See the module's text.
pub(super) struct WritesInFlight {
    clock: Clock,
    queue: Box<dyn WriteQueue>,
    flights: HashMap<u64, (Target, Content)>,
    /// Bytes of memory in flight; frames in their slots do not count.
    memory_bytes: u64,
    next_token: u64,
    speed: WriteSpeed,
    /// Submitted bytes that keep the device busy. With more work than it can finish within a stream's lap, it would
    /// read frames after they have been overwritten.
    pub device_bytes_max: u64,
    /// Completions that were not collected yet.
    done: VecDeque<Completion>,
}

fn bytes_of(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.bytes() as u64).sum()
}

fn memory_of(parts: &[Part]) -> u64 {
    let blocks = parts.iter().filter(|part| matches!(part, Part::Block(_)));
    blocks.map(|part| part.bytes() as u64).sum()
}

impl WritesInFlight {
    pub fn new(queue: Box<dyn WriteQueue>, clock: Clock) -> Self {
        Self {
            clock,
            queue,
            flights: HashMap::new(),
            memory_bytes: 0,
            next_token: 0,
            speed: WriteSpeed::default(),
            device_bytes_max: DEVICE_BYTES_MAX,
            done: VecDeque::new(),
        }
    }

    /// Hands a write to the device.
    pub fn submit(
        &mut self,
        file: Arc<dyn DiskFile>,
        target: Target,
        parts: Vec<Part>,
        content: Content,
    ) {
        let token = self.next_token;
        self.next_token += 1;
        self.memory_bytes += memory_of(&parts);
        self.speed.submitted(self.clock.monotonic_nanos(), bytes_of(&parts));
        self.flights.insert(token, (target, content));
        self.queue.submit(Write { token, file, offset: target.offset, parts });
    }

    /// Waits up to `wait` for completions, which [`WritesInFlight::next_ended`] then gives.
    ///
    /// # Errors
    /// If the kernel refuses the queue as such. Every write still ends.
    pub fn reap(&mut self, wait: Duration) -> io::Result<()> {
        let mut done = Vec::new();
        let reaped = self.queue.reap(wait, &mut done);
        self.done.extend(done);
        reaped
    }

    /// The next write that has ended.
    pub fn next_ended(&mut self) -> Option<Ended> {
        loop {
            let Completion { token, result, parts } = self.done.pop_front()?;
            let Some((target, content)) = self.flights.remove(&token) else { continue };
            self.memory_bytes -= memory_of(&parts);
            self.speed.completed(self.clock.monotonic_nanos(), bytes_of(&parts));
            return Some(Ended { target, content, parts, result });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Whether the device has enough to be busy.
    pub fn is_full(&self) -> bool {
        self.speed.in_flight_bytes() >= self.device_bytes_max
    }

    /// Bytes of memory in flight; frames in their slots do not count.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// How fast the device is.
    pub fn speed(&self) -> &WriteSpeed {
        &self.speed
    }
}
