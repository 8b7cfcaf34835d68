//! A topic's time index, summed up.

use std::path::PathBuf;

use livebag_format::index::IndexEntry;

use super::losses::{self, Gap, Place, Steps};
use super::{ContainerError, ContainerTopic, TopicProgress};
use crate::limits::{SILENCE_NANOS_MIN, SILENCE_PERIODS, TIMELINE_SILENCES_MAX};

/// Messages of one cell of the grid.
pub(super) struct Cell {
    /// Log time, shifted.
    pub number: u64,
    pub count: u32,
    pub bytes: u64,
}

/// A split's part of the topic.
pub(super) struct Part {
    path: PathBuf,
    /// Entries that have been summed up.
    entries: u64,
    /// The last message that does not repeat one of an earlier split.
    pub last: Option<Place>,
}

/// The sums of a topic's entries.
#[derive(Default)]
pub(super) struct Summary {
    pub parts: Vec<Part>,
    /// A cell is 2^shift nanoseconds.
    pub shift: u32,
    /// In order of time; those without messages are left out.
    pub cells: Vec<Cell>,
    /// Gaps in the sequence, in order of time; those that begin in one cell and one split are one.
    pub lost: Vec<Gap>,
    pub intervals: Intervals,
    /// The longest, in order of time.
    pub silences: Vec<(u64, u64)>,
    /// The last message.
    pub last: Option<Place>,
    /// Entries that are damaged.
    pub damaged: u64,
    /// Messages that are not, and their bytes.
    message_count: u64,
    message_bytes: u64,
    cells_max: usize,
}

impl Summary {
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.cells.capacity() * size_of::<Cell>()
            + self.lost.capacity() * size_of::<Gap>()
            + self.silences.capacity() * size_of::<(u64, u64)>()
            + self
                .parts
                .iter()
                .map(|part| size_of::<Part>() + part.path.as_os_str().len())
                .sum::<usize>()
    }

    pub fn progress(&self) -> TopicProgress {
        TopicProgress {
            message_count: self.message_count,
            message_bytes: self.message_bytes,
            newest_nanos: self.last.map(|last| last.log_time_nanos),
            silence_nanos: self.intervals.silence_nanos().filter(|_| self.intervals.is_even()),
        }
    }

    /// How many entries have been added since the last time.
    ///
    /// # Errors
    /// If an index cannot be read.
    pub fn new_entries(&self, topic: &ContainerTopic) -> Result<u64, ContainerError> {
        let counts = topic.segments.iter().map(|segment| segment.index.count());
        let known: u64 = self.parts.iter().map(|part| part.entries).sum();
        Ok(counts.sum::<Result<u64, _>>()?.saturating_sub(known))
    }

    /// Sums up entries added since the last time.
    ///
    /// # Errors
    /// If an index cannot be read.
    pub fn refresh(
        &mut self,
        topic: &ContainerTopic,
        cells_max: usize,
    ) -> Result<(), ContainerError> {
        self.cells_max = cells_max;
        let mut counts = Vec::with_capacity(topic.segments.len());
        for segment in &topic.segments {
            counts.push(segment.index.count()?);
        }
        if !self.goes_on(topic, &counts) {
            *self = Self { cells_max, ..Self::default() };
        }
        let mut bytes = Vec::new();
        for (at, (segment, count)) in topic.segments.iter().zip(counts).enumerate() {
            if at == self.parts.len() {
                let path = segment.index.path().to_owned();
                self.parts.push(Part { path, entries: 0, last: None });
            }
            let known = self.parts[at].entries;
            if known < count {
                let mut steps = Steps::after(self.last);
                let added =
                    segment.index.each(known..count, &mut bytes, &mut |entry| match entry {
                        Some(entry) => self.add(at, &entry, &mut steps),
                        None => self.damaged += 1,
                    });
                if let Err(error) = added {
                    // Half of it has been added: from the beginning next time.
                    *self = Self::default();
                    return Err(error);
                }
                self.last = steps.last();
                self.parts[at].last = self.last;
                self.parts[at].entries = count;
            }
        }
        Ok(())
    }

    /// Whether all entries summed up so far still exist, and new ones follow them.
    fn goes_on(&self, topic: &ContainerTopic, counts: &[u64]) -> bool {
        let mut parts = self.parts.iter().zip(&topic.segments).zip(counts).enumerate();
        self.parts.len() <= topic.segments.len()
            && parts.all(|(at, ((part, segment), count))| {
                let is_last = at + 1 == self.parts.len();
                part.path == segment.index.path()
                    && (part.entries == *count || is_last && part.entries < *count)
            })
    }

    fn add(&mut self, segment: usize, entry: &IndexEntry, steps: &mut Steps) {
        self.count(entry);
        let Some(step) = steps.to(entry) else { return };
        let nanos = step.to.log_time_nanos.saturating_sub(step.from.log_time_nanos);
        self.intervals.add(nanos);
        if nanos >= SILENCE_NANOS_MIN {
            self.silences.push((step.from.log_time_nanos, step.to.log_time_nanos));
            if self.silences.len() >= 2 * TIMELINE_SILENCES_MAX {
                let by_length = |(from, to): &(u64, u64)| std::cmp::Reverse(to - from);
                self.silences.select_nth_unstable_by_key(TIMELINE_SILENCES_MAX, by_length);
                self.silences.truncate(TIMELINE_SILENCES_MAX);
                self.silences.sort_unstable();
            }
        }
        losses::push(&mut self.lost, step.gap(segment), self.shift);
    }

    fn count(&mut self, entry: &IndexEntry) {
        let number = entry.log_time_nanos >> self.shift;
        let bytes = u64::from(entry.data_bytes);
        self.message_count += 1;
        self.message_bytes += bytes;
        match self.cells.last_mut() {
            Some(last) if last.number == number && last.count < u32::MAX => {
                last.count += 1;
                last.bytes += bytes;
            }
            // A clock that was set back between two splits.
            Some(last) if last.number > number => {
                match self.cells.binary_search_by_key(&number, |cell| cell.number) {
                    Ok(at) => {
                        self.cells[at].count = self.cells[at].count.saturating_add(1);
                        self.cells[at].bytes += bytes;
                    }
                    Err(at) => self.cells.insert(at, Cell { number, count: 1, bytes }),
                }
            }
            _ => self.cells.push(Cell { number, count: 1, bytes }),
        }
        while self.cells.len() > self.cells_max && self.shift < u64::BITS - 1 {
            self.coarsen();
        }
    }

    /// Makes one cell of two.
    fn coarsen(&mut self) {
        self.shift += 1;
        self.cells.iter_mut().for_each(|cell| cell.number >>= 1);
        self.cells.dedup_by(|cell, kept| {
            let sum = kept.count.checked_add(cell.count).filter(|_| kept.number == cell.number);
            if let Some(sum) = sum {
                kept.count = sum;
                kept.bytes += cell.bytes;
            }
            sum.is_some()
        });
        losses::join(&mut self.lost, self.shift);
    }
}

/// Times between messages, by their magnitude: for each power of two how many, and their sum.
pub(super) struct Intervals([(u64, u64); 64]);

impl Default for Intervals {
    fn default() -> Self {
        Self([(0, 0); 64])
    }
}

impl Intervals {
    fn add(&mut self, nanos: u64) {
        let (count, sum) = &mut self.0[nanos.max(1).ilog2() as usize];
        *count += 1;
        *sum = sum.saturating_add(nanos);
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|(count, _)| count).sum()
    }

    /// The magnitude of the median.
    fn usual(&self) -> Option<usize> {
        let mut before = 0;
        self.0.iter().position(|(count, _)| {
            before += count;
            before > self.total() / 2
        })
    }

    /// The time between two messages as it usually is: of the magnitude of the median.
    fn usual_nanos(&self) -> Option<u64> {
        let (count, sum) = self.0[self.usual()?];
        Some(sum / count)
    }

    /// Whether most periods are alike, as a sensor's are; those of occasional messages are not.
    pub fn is_even(&self) -> bool {
        let Some(usual) = self.usual() else { return false };
        let near = usual.saturating_sub(1)..=(usual + 1).min(self.0.len() - 1);
        let alike: u64 = self.0[near].iter().map(|(count, _)| count).sum();
        alike >= self.total() / 10 * 9
    }

    /// The time without a message that counts as silence; unknown for few messages.
    pub fn silence_nanos(&self) -> Option<u64> {
        const INTERVALS_MIN: u64 = 4;
        let usual = self.usual_nanos().filter(|_| self.total() >= INTERVALS_MIN)?;
        Some(usual.saturating_mul(SILENCE_PERIODS).max(SILENCE_NANOS_MIN))
    }
}
