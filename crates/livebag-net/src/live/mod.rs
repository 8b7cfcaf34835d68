//! Live viewers: recordings and streams over a WebSocket that speaks Foxglove's protocol, the manifest of
//! Foxglove's remote data loader, and the files of a viewer that the user brings.
//!
//! A [`Feed`] gives the messages, one implementation for recordings and one for streams. A [`Session`] asks it for new
//! messages whenever the link is free; for a slow link, [`choice`] selects the newest. Clients cannot change anything:
//! they subscribe, and say which moment is shown to them.

mod choice;
mod manifest;
mod playhead;
mod protocol;
mod recorded;
mod seats;
mod session;
mod streams;
mod viewer;

use std::time::Duration;

use bytes::Bytes;
use livebag::{ContainerError, Topic};

use crate::pool::Pool;

pub use manifest::manifest;
#[cfg(any(test, fuzzing))]
pub use protocol::{Asked, parse_binary, parse_text};
pub use protocol::{SUBPROTOCOLS, TOKEN_SUBPROTOCOL};
pub use recorded::Recorded;
pub use seats::{Seat, Seats};
pub use session::{Session, SessionLimits};
pub use streams::Streams;
pub use viewer::Viewer;

/// Changes of the channels.
#[derive(Debug, Default)]
pub struct Changes {
    /// Channels that are there from now on, by id.
    pub come: Vec<(u64, Topic)>,
    /// Removed channels.
    pub gone: Vec<u64>,
}

/// The playable range, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Playable {
    /// First and last log time.
    pub range: (u64, u64),
    /// Whether the end moves on.
    pub is_live: bool,
}

/// Messages for one turn.
#[derive(Default)]
pub struct Batch {
    /// Log time and message with its head, in order of time.
    pub messages: Vec<(u64, Bytes)>,
    /// Bytes of those.
    pub bytes: usize,
    /// Messages skipped since the last turn: subscription, topic, count.
    pub left_out: Vec<(u32, String, u64)>,
}

/// Where messages come from. Every implementation promises:
///
/// - A channel keeps its id while it exists, and no other gets it afterwards.
/// - A subscription gets the newest message from before it, then each later one once, in order; or it counts as left
///   out.
/// - `collect` gives at most `budget` bytes, or one message.
pub trait Feed: Send {
    /// Its name.
    fn name(&self) -> &str;
    /// Searches for new and removed channels.
    ///
    /// # Errors
    /// If they cannot be read.
    fn refresh(&mut self) -> Result<Changes, ContainerError>;
    /// The playable range; `None` where there is nothing but the present.
    ///
    /// # Errors
    /// If it cannot be read.
    fn playable(&mut self) -> Result<Option<Playable>, ContainerError>;
    /// Begins a subscription; whether there is such a channel.
    fn subscribe(&mut self, id: u32, channel: u64) -> bool;
    /// Ends a subscription; whether there was one.
    fn unsubscribe(&mut self, id: u32) -> bool;
    /// Restarts all subscriptions at this log time.
    fn seek(&mut self, nanos: u64);
    /// Messages up to the log time `until`.
    ///
    /// # Errors
    /// If they cannot be read.
    fn collect(
        &mut self,
        until: u64,
        budget: usize,
        pool: &Pool,
        patience: Duration,
    ) -> Result<Batch, ContainerError>;
}
