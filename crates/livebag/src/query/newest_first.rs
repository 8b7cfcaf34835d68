//! The messages of a query from the newest to the oldest, for clients with little time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use livebag_format::index::IndexEntry;

use super::{Buffer, Container, ContainerError, Segment};
use crate::container::unpack::Unpacked;
use crate::limits::READ_STRAIGHT_BYTES_MIN;

/// Index entries read at once: a client whose time runs out needs few.
const ENTRIES_AT_ONCE: u64 = 64;

/// The messages of a query, newest first. Those of equal time come in the order of their topics.
pub struct NewestFirst<'container> {
    topics: Vec<TopicBackward<'container>>,
    /// (log time, place in `topics`), latest first.
    heap: BinaryHeap<(u64, Reverse<usize>)>,
    /// By place in [`Container::topics`].
    damaged: Vec<u64>,
    /// What [`NewestFirst::next_entry`] gave last.
    last: Option<(usize, IndexEntry)>,
}

/// One topic's part, walked backward.
struct TopicBackward<'container> {
    /// Place in the container's list.
    number: usize,
    from: u64,
    to: u64,
    /// Segments that have not been read; the newest is the last.
    segments: &'container [Arc<Segment>],
    /// The one being walked, and its entries that have not been read.
    current: Option<(&'container Segment, Range<u64>)>,
    /// Entries of it that have been read and not given, the newest the last.
    entries: Vec<IndexEntry>,
    unpacked: Unpacked,
    /// Whose chunk is unpacked.
    unpacked_segment: Option<&'container Segment>,
    /// Of the last given entry: `current` may be a segment further.
    last_segment: Option<&'container Segment>,
}

impl<'container> NewestFirst<'container> {
    pub(super) fn plan(
        container: &'container Container,
        chosen: &[usize],
        from: u64,
        to: u64,
    ) -> Result<Self, ContainerError> {
        let damaged = vec![0; container.topics.len()];
        let mut this = Self { topics: Vec::new(), heap: BinaryHeap::new(), damaged, last: None };
        for &number in chosen {
            let mut topic = TopicBackward {
                number,
                from,
                to,
                segments: &container.topics[number].segments,
                current: None,
                entries: Vec::new(),
                unpacked: Unpacked::default(),
                unpacked_segment: None,
                last_segment: None,
            };
            this.damaged[number] += topic.feed()?;
            if let Some(newest) = topic.entries.last() {
                this.heap.push((newest.log_time_nanos, Reverse(this.topics.len())));
                this.topics.push(topic);
            }
        }
        Ok(this)
    }

    /// Messages left out so far because they, or their index entries, are damaged.
    pub fn damaged(&self) -> u64 {
        self.damaged.iter().sum()
    }

    /// The same by topic, in the order of [`Container::topics`].
    pub fn damaged_by_topic(&self) -> &[u64] {
        &self.damaged
    }

    /// The next older message's topic (its place in [`Container::topics`]) and index entry.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn next_entry(&mut self) -> Result<Option<(usize, IndexEntry)>, ContainerError> {
        let Some((_, Reverse(at))) = self.heap.pop() else { return Ok(None) };
        let topic = &mut self.topics[at];
        topic.last_segment = topic.current.as_ref().map(|(segment, _)| *segment);
        let Some(entry) = topic.entries.pop() else { return Ok(None) };
        self.damaged[topic.number] += topic.feed()?;
        if let Some(next) = topic.entries.last() {
            self.heap.push((next.log_time_nanos, Reverse(at)));
        }
        self.last = Some((at, entry));
        Ok(Some((topic.number, entry)))
    }

    /// Bytes of the message that [`NewestFirst::next_entry`] will come to.
    pub fn next_data_bytes(&self) -> Option<u32> {
        let (_, Reverse(at)) = self.heap.peek()?;
        self.topics[*at].entries.last().map(|entry| entry.data_bytes)
    }

    /// Appends the message whose entry [`NewestFirst::next_entry`] gave last; whether it could be. A damaged one is
    /// skipped and counted; `out` stays as it was.
    ///
    /// # Errors
    /// If the brick cannot be read.
    pub fn append_to(&mut self, out: &mut Buffer) -> Result<bool, ContainerError> {
        let Some((at, entry)) = self.last else { return Ok(false) };
        let filled = out.len();
        match self.topics[at].read_into(&entry, out) {
            Ok(()) => Ok(true),
            Err(ContainerError::Damaged { .. }) => {
                out.truncate(filled);
                self.damaged[self.topics[at].number] += 1;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

impl TopicBackward<'_> {
    /// Makes sure that there is an entry, if any are left; returns how many damaged ones were skipped.
    fn feed(&mut self) -> Result<u64, ContainerError> {
        let mut damaged = 0;
        while self.entries.is_empty() {
            let Some((segment, range)) = self.current.as_mut().filter(|(_, r)| !r.is_empty())
            else {
                let Some((segment, older)) = self.segments.split_last() else { break };
                self.segments = older;
                self.current = Some((segment, segment.between(self.from, self.to)?));
                continue;
            };
            let start = range.start.max(range.end.saturating_sub(ENTRIES_AT_ONCE));
            let looked = segment.index.entries(
                start..range.end,
                ENTRIES_AT_ONCE as usize,
                &mut self.entries,
            )?;
            range.end = start;
            damaged += looked - self.entries.len() as u64;
        }
        Ok(damaged)
    }

    fn read_into(&mut self, entry: &IndexEntry, out: &mut Buffer) -> Result<(), ContainerError> {
        let Some(segment) = self.last_segment else { return Ok(()) };
        // A chunk of small messages is read and checked whole, once for all of them.
        if entry.compressed || (entry.data_bytes as usize) < READ_STRAIGHT_BYTES_MIN {
            if !self.unpacked_segment.is_some_and(|known| std::ptr::eq(known, segment)) {
                self.unpacked = Unpacked::default();
                self.unpacked_segment = Some(segment);
            }
            out.put(segment.unpack(entry, &mut self.unpacked)?);
            return Ok(());
        }
        segment.holds(entry)?;
        segment.brick(entry)?.read_checked(entry, out.room(entry.data_bytes as usize))
    }
}
