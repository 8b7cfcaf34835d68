//! Messages of a file in order of time, holding only the blocks whose times overlap.
//!
//! A block is the unit of reading a file: a chunk, or a run of messages outside of chunks. Memory is bounded by the
//! blocks that overlap at one instant. Messages of equal time keep the file's order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::path::Path;

use super::{ConvertError, SourceMessage};

/// Where a block begins in time. Its number is its place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BlockPlace {
    pub(super) start_time_nanos: u64,
    pub(super) number: usize,
}

/// Something that can read its blocks by number.
pub(super) trait Blocks {
    fn load(&mut self, number: usize) -> Result<Vec<SourceMessage>, ConvertError>;
    /// Where they are, for errors.
    fn path(&self) -> &Path;
}

/// Bytes of messages that wait for their turn, at most, unless they are of one block: blocks that overlap by
/// more are not a recorder's.
pub(super) const OVERLAP_BYTES_MAX: usize = 512 << 20;

/// A message waiting for its turn. The place in the file decides among equal times.
struct Waiting {
    place: (u64, usize, usize),
    message: SourceMessage,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}
impl Eq for Waiting {}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place.cmp(&other.place)
    }
}

fn too_much_overlap() -> String {
    format!(
        "its chunks overlap in time so far that more than {} MiB of messages would have to be held in memory \
         to put them in order: sort the file first (`mcap sort`)",
        OVERLAP_BYTES_MAX >> 20
    )
}

/// The blocks of one file, merged by time.
pub(super) struct TimeMerge {
    blocks: VecDeque<BlockPlace>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// Memory of those.
    waiting_bytes: usize,
}

/// Memory that a message takes.
fn memory(message: &SourceMessage) -> usize {
    size_of::<Waiting>() + message.data.len()
}

impl TimeMerge {
    pub(super) fn new(mut blocks: Vec<BlockPlace>) -> Self {
        blocks.sort_unstable();
        TimeMerge { blocks: blocks.into(), waiting: BinaryHeap::new(), waiting_bytes: 0 }
    }

    /// Leaves out blocks, by number, that have not been read yet.
    pub(super) fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        self.blocks.retain(|block| keep(block.number));
    }

    /// Earliest time of any block not yet read or message not yet given.
    pub(super) fn start_time_nanos(&self) -> Option<u64> {
        let block = self.blocks.front().map(|block| block.start_time_nanos);
        let message = self.waiting.peek().map(|Reverse(waiting)| waiting.place.0);
        block.into_iter().chain(message).min()
    }

    /// The next message.
    pub(super) fn next(
        &mut self,
        from: &mut impl Blocks,
    ) -> Result<Option<SourceMessage>, ConvertError> {
        while let Some(block) = self.blocks.front() {
            let first = self.waiting.peek().map(|Reverse(waiting)| waiting.place.0);
            if first.is_some_and(|first| first < block.start_time_nanos) {
                break;
            }
            let number = block.number;
            self.blocks.pop_front();
            let messages = from.load(number)?;
            let bytes = messages.iter().map(memory).sum::<usize>();
            if !self.waiting.is_empty() && self.waiting_bytes + bytes > OVERLAP_BYTES_MAX {
                return Err(ConvertError::unsupported(from.path(), too_much_overlap()));
            }
            self.waiting_bytes += bytes;
            self.waiting.extend(messages.into_iter().enumerate().map(|(index, message)| {
                Reverse(Waiting { place: (message.log_time_nanos, number, index), message })
            }));
        }
        let next = self.waiting.pop().map(|Reverse(waiting)| waiting.message);
        self.waiting_bytes -= next.as_ref().map_or(0, memory);
        Ok(next)
    }
}
