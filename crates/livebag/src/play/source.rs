//! A source for the player that is not a container.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use livebag_format::{Message, Topic};

use crate::query::Container;

/// One message of a recording of another make. Times are nanoseconds since the Unix epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceMessage {
    /// Index into the recording's topics.
    pub topic: usize,
    /// When the recorder took it.
    pub log_time_nanos: u64,
    /// When the source stamped it; `log_time_nanos` where the recording does not say.
    pub publish_time_nanos: u64,
    /// The source's count; 0 where there is none.
    pub sequence: u64,
    /// The encoded message.
    pub data: Vec<u8>,
}

impl SourceMessage {
    /// The same, as formats take it.
    pub fn as_message(&self) -> Message<'_> {
        Message {
            log_time_nanos: self.log_time_nanos,
            publish_time_nanos: self.publish_time_nanos,
            sequence: self.sequence,
            data: &self.data,
        }
    }
}

/// Totals from a recording's own tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceTotals {
    /// Messages by topic.
    pub counts: Vec<u64>,
    /// Log times of the first and the last message; `None` without messages.
    pub times_nanos: Option<(u64, u64)>,
}

impl SourceTotals {
    /// Takes in the log times of more messages.
    pub fn add_times(&mut self, first: u64, last: u64) {
        let (from, until) = self.times_nanos.unwrap_or((first, last));
        self.times_nanos = Some((from.min(first), until.max(last)));
    }
}

/// Why a recording of another make cannot be read.
pub type SourceError = Box<dyn Error + Send + Sync>;

/// A recording of another make, read front to back. `livebag-bags` has those of rosbag2, MCAP and ROS 1.
pub trait PlaySource: Send {
    /// The topics, also those without messages.
    fn topics(&self) -> &[Topic];
    /// The next message in order of log time; `None` after the last.
    ///
    /// # Errors
    /// If it cannot be read on.
    fn next_message(&mut self) -> Result<Option<SourceMessage>, SourceError>;
    /// Messages before this log time are not needed; the source may still return them. Called before the first message
    /// is taken.
    fn skip_before(&mut self, log_time_nanos: u64);
    /// Totals of the recording, without reading its messages; `None` if it does not.
    fn totals(&self) -> Option<SourceTotals>;
    /// Messages that could not be read so far.
    fn lost_count(&self) -> u64;
    /// Warnings, as sentences.
    fn warnings(&self) -> &[String];
}

/// A recording that is no container in a folder, opened.
pub enum Playable {
    /// A container on another disk.
    Container(Container),
    /// A recording of another make, which is opened again for every reading.
    Source(Box<dyn PlaySource>),
}

/// Opens recordings that are no containers in folders.
pub(super) type Opener = Arc<dyn Fn(&Path) -> Result<Playable, SourceError> + Send + Sync>;
