//! The findings in a brick.

use std::collections::BTreeMap;
use std::ops::Range;

use livebag_format::Topic;
use livebag_format::index::IndexEntry;
use livebag_format::mcap::ChunkExtent;

/// A topic whose messages are in the brick.
pub(super) struct Member {
    pub channel_id: u16,
    pub topic: Topic,
    /// Number of the brick in the topic's entries.
    pub brick: u16,
}

/// Bytes that are to be written to the brick.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// A stretch without anything that could be proven.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub range: Range<u64>,
    /// Records that belong there and are known: they are written to its start.
    pub records: Vec<u8>,
}

/// The findings.
#[derive(Default)]
pub(super) struct Survey {
    /// Proven chunks, in the order of the file.
    pub chunks: Vec<ChunkExtent>,
    pub stretches: Vec<Stretch>,
    /// Incorrect message indexes and headers, with their corrections.
    pub changes: Vec<Change>,
    /// The chunk that the end of the file truncates, with its complete messages. Written before anything else: behind
    /// its old length nothing must be added while it claims to be longer.
    pub shortened: Option<Change>,
    /// Messages without an entry, by member.
    pub found: Vec<Vec<IndexEntry>>,
    /// Messages that no index claims, of chunks that could not be proven, as the message indexes behind
    /// them tell; by member.
    pub lost: Vec<u64>,
    /// Where the summary goes: behind the last thing that is kept.
    pub tail: u64,
    /// Where channels are first announced, or will be.
    pub announced: BTreeMap<u16, u64>,
}

impl Survey {
    /// Where the brick first announces a channel once it is mended; `None` if it does not.
    pub fn announced_at(&self, channel_id: u16) -> Option<u64> {
        self.announced.get(&channel_id).copied()
    }

    pub fn announce(&mut self, at: u64, channel_id: u16) {
        let first = self.announced.entry(channel_id).or_insert(at);
        *first = at.min(*first);
    }
}
