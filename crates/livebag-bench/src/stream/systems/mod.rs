//! The systems that carry frames, behind one pair of traits.

mod floor;
mod iceoryx;
mod livebag;
mod zenoh;

use serde::{Deserialize, Serialize};

use super::{RunOptions, WaitWay, Way};
use crate::clock;
use crate::error::{BenchError, Result};
use crate::frame::{self, Content};

/// The system that carries the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// livebag's streams.
    Livebag,
    /// iceoryx2: publish-subscribe and, where readers sleep, its event service.
    Iceoryx2,
    /// Zenoh peers over loopback with shared-memory payloads.
    Zenoh,
    /// memcpy in, flag, memcpy out; nothing is checked.
    Floor,
}

/// The side that sends.
pub trait Publisher {
    /// Sends a frame whose source is elsewhere: one copy into the system's memory.
    fn publish_copy(&mut self, frame: &[u8]) -> Result<()>;

    /// Sends a frame made in the system's own memory: `fill` makes it, `stamp` is called last,
    /// just before it goes. Returns when `stamp` had been called.
    fn publish_loan(&mut self, fill: &mut dyn FnMut(&mut [u8])) -> Result<u64>;
}

/// A frame that has reached a reader.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// Its contents.
    pub content: Content,
    /// When the reader had it: its own copy complete, or the pointer to it.
    pub arrived_nanos: u64,
    /// Whether the system says, after the reader is done with it, that it was whole. A reader discards it otherwise.
    pub valid: bool,
}

/// The side that receives.
pub trait Subscriber {
    /// The next frame, or none for `timeout_nanos`.
    fn receive(&mut self, timeout_nanos: u64) -> Result<Option<Arrival>>;
}

/// A receiving side whose copy can be slowed down, to see what slow readers get.
pub trait SlowSubscriber: Subscriber {
    /// As [`Subscriber::receive`] by copy, in pieces of `piece_bytes`; `after_piece` gets the number of finished ones.
    fn receive_in_pieces(
        &mut self,
        timeout_nanos: u64,
        piece_bytes: usize,
        after_piece: &mut dyn FnMut(usize),
    ) -> Result<Option<Arrival>>;
}

impl System {
    /// All of them, livebag first.
    pub const ALL: [Self; 4] = [Self::Livebag, Self::Iceoryx2, Self::Zenoh, Self::Floor];

    /// Whether the system has a way to wait without sleeping. Zenoh's callbacks come from its own
    /// threads, which sleep.
    pub fn can(self, wait: WaitWay) -> bool {
        self != Self::Zenoh || wait == WaitWay::Futex
    }

    /// Opens the sending side, to which the rest of a run connects.
    pub fn publisher(self, options: &RunOptions) -> Result<Box<dyn Publisher>> {
        Ok(match self {
            Self::Livebag => Box::new(livebag::StreamPublisher::create(options)?),
            Self::Iceoryx2 => Box::new(iceoryx::IceoryxPublisher::create(options)?),
            Self::Zenoh => Box::new(zenoh::ZenohPublisher::create(options)?),
            Self::Floor => Box::new(floor::FloorPublisher::create(options)?),
        })
    }

    /// Connects a receiving side.
    pub fn subscriber(self, options: &RunOptions) -> Result<Box<dyn Subscriber>> {
        Ok(match self {
            Self::Livebag => Box::new(livebag::StreamSubscriber::open(options)?),
            Self::Iceoryx2 => Box::new(iceoryx::IceoryxSubscriber::open(options)?),
            Self::Zenoh => Box::new(zenoh::ZenohSubscriber::open(options)?),
            Self::Floor => Box::new(floor::FloorSubscriber::open(options)?),
        })
    }

    /// Connects a receiving side whose copy can be slowed down.
    pub fn slow_subscriber(self, options: &RunOptions) -> Result<Box<dyn SlowSubscriber>> {
        match self {
            Self::Livebag => Ok(Box::new(livebag::StreamSubscriber::open(options)?)),
            Self::Floor => Ok(Box::new(floor::FloorSubscriber::open(options)?)),
            other => Err(BenchError::Usage(format!(
                "--torn compares livebag with the unchecked protocol; {other:?} takes no part"
            ))),
        }
    }
}

/// Takes a frame from a system's memory in the measured way: copies it into the reader's own buffer, or reads it in
/// place.
fn take(way: Way, frame: &[u8], buffer: &mut Vec<u8>) -> (Content, u64) {
    match way {
        Way::Copy => {
            buffer.resize(frame.len(), 0);
            buffer.copy_from_slice(frame);
            let arrived_nanos = clock::monotonic_nanos();
            (frame::inspect(buffer), arrived_nanos)
        }
        Way::Loan => {
            let arrived_nanos = clock::monotonic_nanos();
            (frame::inspect(frame), arrived_nanos)
        }
    }
}
