//! One queue per topic, bounded in bytes, under one budget for all.
//!
//! A message is put where it will be written from: small ones into the chunk that will hold them, large ones into
//! an aligned block that is their chunk. Both wait under the topic's lock (`waiting`). The recorder's
//! thread takes whole batches and writes the headers around the messages.

use std::sync::Arc;

use livebag_format::Message;
use livebag_format::index::IndexEntry;
use livebag_format::mcap::{CHUNK_HEADER_BYTES, MESSAGE_HEADER_BYTES};

mod topic_queue;

pub use topic_queue::TopicQueue;

mod waiting;

mod extent;

pub use extent::{Extent, OwnedExtent};

mod block_pool;

mod budget;

pub use budget::Budget;

/// Which message a full queue drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Drops it, and counts it as lost in the queue.
    #[default]
    DropNewest,
    /// Drops the oldest messages that are not on their way to the disk yet, and counts those.
    DropOldest,
    /// Makes its writer wait.
    Block,
}

/// Which topic loses first when memory runs out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// May take all of the common cache, and is written first.
    Critical,
    /// May take nearly all of it.
    #[default]
    Normal,
    /// May take half of it, and is written last.
    Low,
}

/// How one topic is queued.
#[derive(Clone, Debug, Default)]
pub struct QueueOptions {
    /// Which message a full queue drops.
    pub overflow: Overflow,
    /// Which topic loses first.
    pub priority: Priority,
    /// Bytes that the topic holds at most; `None`: limited only by its share and the common cache.
    pub bytes_max: Option<u64>,
    /// Messages per second at most; more are left out on purpose.
    pub rate_max_hz: Option<f64>,
    /// Whether gaps in the sequence of messages written in this process are transport losses.
    pub count_gaps: bool,
    /// Whether the queue is a ring whose oldest messages are replaced by new ones without being lost.
    pub is_ring: bool,
}

/// Small messages on their way into one chunk.
#[derive(Debug, Default)]
pub struct Batch {
    /// Room for the chunk's header, then the message records.
    pub records: Vec<u8>,
    /// One entry per message; `offset` is not known yet.
    pub entries: Vec<IndexEntry>,
    /// Monotonic time of the first message.
    pub opened_nanos: u64,
}

impl Batch {
    /// Length of the message records.
    pub fn records_bytes(&self) -> usize {
        self.records.len().saturating_sub(CHUNK_HEADER_BYTES)
    }
}

/// How many of these messages were published, and are not repeated.
pub fn published(entries: &[IndexEntry]) -> u64 {
    entries.iter().filter(|entry| !entry.repeated).count() as u64
}

/// An item that the recorder takes out of a queue.
pub enum Queued {
    /// Messages for one chunk.
    Batch(Batch),
    /// A message in its own chunk.
    Own(OwnedExtent),
}

impl Queued {
    /// Messages in it.
    pub fn messages(&self) -> u64 {
        match self {
            Self::Batch(batch) => batch.entries.len() as u64,
            Self::Own(_) => 1,
        }
    }

    /// Those of them that were published, and are not repeated.
    pub fn published(&self) -> u64 {
        match self {
            Self::Batch(batch) => published(&batch.entries),
            Self::Own(extent) => published(std::slice::from_ref(&extent.entry)),
        }
    }

    /// Bytes that its topic holds for it.
    pub fn held_bytes(&self) -> u64 {
        match self {
            Self::Batch(batch) => batch.records_bytes() as u64,
            Self::Own(extent) => extent.block.len() as u64,
        }
    }

    /// A message by its place: its index entry and its bytes.
    pub fn message(&self, at: usize) -> Option<(&IndexEntry, &[u8])> {
        match self {
            Self::Batch(batch) => {
                let entry = batch.entries.get(at)?;
                let start = CHUNK_HEADER_BYTES + entry.inner as usize + MESSAGE_HEADER_BYTES;
                Some((entry, batch.records.get(start..start + entry.data_bytes as usize)?))
            }
            Self::Own(extent) => (at == 0).then(|| (&extent.entry, extent.data())),
        }
    }

    /// The newest message.
    pub fn newest(&self) -> Option<(&IndexEntry, &[u8])> {
        self.message((self.messages() as usize).checked_sub(1)?)
    }
}

/// A message to be recorded. Times are nanoseconds since the Unix epoch, and 0 is one of them.
#[derive(Clone, Copy, Debug)]
pub struct NewMessage<'a> {
    /// When the recorder took it; `None`: now.
    pub log_time_nanos: Option<u64>,
    /// When the source stamped it; `None`: when the recorder took it.
    pub publish_time_nanos: Option<u64>,
    /// The source's count; 0 if it keeps none.
    pub sequence: u64,
    /// The encoded message.
    pub data: &'a [u8],
}

impl<'a> From<&Message<'a>> for NewMessage<'a> {
    fn from(message: &Message<'a>) -> Self {
        Self {
            log_time_nanos: Some(message.log_time_nanos),
            publish_time_nanos: Some(message.publish_time_nanos),
            sequence: message.sequence,
            data: message.data,
        }
    }
}

/// Why a message did not enter its queue.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// The queue was full: the message is counted as lost in the queue.
    #[error("the queue of topic {topic} is full: the message was dropped and counted")]
    Full {
        /// The topic.
        topic: Arc<str>,
    },
    /// The recorder has stopped taking messages.
    #[error("the recorder has stopped; topic {topic} takes no more messages")]
    Closed {
        /// The topic.
        topic: Arc<str>,
    },
    /// No format here can hold it.
    #[error("a message of {bytes} B on topic {topic} is larger than the limit of {max} B")]
    TooLarge {
        /// The topic.
        topic: Arc<str>,
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod thread_tests;
