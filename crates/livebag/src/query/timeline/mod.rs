//! The contents of a container over time, from its time indexes: messages, bytes, losses and silences by bin.
//!
//! Bins are 2^n nanoseconds wide and lie on the grid of their multiples: a view that moves asks for the same
//! bins, and wide ones are sums of narrow ones. So each topic is summed up once ([`Summary`]) as finely as memory
//! allows; wider bins are computed from that, narrower ones from the entries of the requested time, of which there are
//! few.

mod bins;
mod losses;
mod summary;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

use livebag_format::container::Losses;
use livebag_format::index::IndexEntry;

use super::{Container, ContainerError, ContainerState, ContainerTopic};
use crate::limits::{
    TIMELINE_CELLS_MAX, TIMELINE_ENTRIES_ALONE_MAX, TIMELINE_THREADS_MAX, TIMELINE_TOPIC_CELLS_MAX,
    TIMELINE_TOPIC_CELLS_MIN,
};

pub use bins::TimeBins;
pub use losses::{LossCause, LossSpan};
use losses::{Placing, Steps};
use summary::Summary;

/// Which part of a container, and how finely.
#[derive(Clone, Debug, Default)]
pub struct TimelineQuery {
    /// Topic names; empty for all.
    pub topics: Vec<String>,
    /// First log time; default: the container's first.
    pub from_nanos: Option<u64>,
    /// Last log time; default: the container's last.
    pub to_nanos: Option<u64>,
    /// Maximum number of bins; there are at least half as many. At least two.
    pub bins_max: usize,
}

/// The contents of a container over time.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The first begins at or before the requested start.
    pub bins: TimeBins,
    /// The chosen topics.
    pub topics: Vec<TopicTimeline>,
    /// Where splits after the first begin: name and log time of the first message.
    pub splits: Vec<(String, u64)>,
}

/// The contents of a topic over time.
#[derive(Clone, Debug)]
pub struct TopicTimeline {
    /// Its place in [`Container::topics`].
    pub topic: usize,
    /// Messages by bin.
    pub message_counts: Vec<u64>,
    /// Bytes of encoded messages by bin.
    pub message_bytes: Vec<u64>,
    /// Messages whose index entry is damaged, so that their times are unknown.
    pub damaged: u64,
    /// Losses that a gap in the source's sequence places, within the time that was asked for. Those that begin in
    /// one bin are one.
    pub lost: Vec<LossSpan>,
    /// Losses of the whole recording that no gap places, by cause. Where a gap's cause is not known, its
    /// losses are among these too, and not in `unplaced_total`.
    pub unplaced: Losses,
    /// How many those are.
    pub unplaced_total: u64,
    /// Without a message for more than three usual periods and half a second: from the last message before to
    /// the first one after, or to the recording's end.
    pub silences: Vec<(u64, u64)>,
}

/// Progress of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicProgress {
    /// Messages that can be read.
    pub message_count: u64,
    /// Bytes of those.
    pub message_bytes: u64,
    /// Log time of the newest.
    pub newest_nanos: Option<u64>,
    /// From this time without a message on it is silent, if its messages come evenly.
    pub silence_nanos: Option<u64>,
}

/// Results of earlier queries of one container. A second query reads only new entries.
#[derive(Default)]
pub struct TimelineCache {
    /// Of which container: when it was begun, and whether it had been recovered.
    of: Option<(u64, bool)>,
    topics: HashMap<usize, Summary>,
    /// First log time of each split's directory.
    splits: BTreeMap<PathBuf, u64>,
}

impl TimelineCache {
    /// Memory that it takes, about.
    pub fn bytes(&self) -> usize {
        self.topics.values().map(Summary::bytes).sum()
    }
}

impl Container {
    /// The contents of the container over time. No message is read.
    ///
    /// # Errors
    /// If a topic is not there, or an index cannot be read.
    pub fn timeline(
        &self,
        query: &TimelineQuery,
        cache: &mut TimelineCache,
    ) -> Result<Timeline, ContainerError> {
        let chosen = self.choose(&query.topics)?;
        self.refresh(&chosen, cache)?;
        let (start, end) =
            self.time_range()?.unwrap_or_else(|| (self.started_nanos(), self.started_nanos()));
        let from = query.from_nanos.unwrap_or(start);
        let bins = TimeBins::new(from, query.to_nanos.unwrap_or(end.max(from)), query.bins_max);
        let accounts = self.accounts()?;
        let mut topics = Vec::with_capacity(chosen.len());
        for number in chosen {
            let Some(summary) = cache.topics.get(&number) else { continue };
            let topic = Topic {
                topic: &self.topics[number],
                summary,
                lost: accounts[number].lost,
                is_live: self.state() == ContainerState::Live,
                end_nanos: end,
            };
            topics.push(topic.timeline(number, bins)?);
        }
        Ok(Timeline { bins, topics, splits: self.split_starts(&mut cache.splits)? })
    }

    /// Progress of each topic, in the order of [`Container::topics`]. Entries of earlier queries are not read again.
    ///
    /// # Errors
    /// If an index cannot be read.
    pub fn progress(
        &self,
        cache: &mut TimelineCache,
    ) -> Result<Vec<TopicProgress>, ContainerError> {
        let all: Vec<usize> = (0..self.topics.len()).collect();
        self.refresh(&all, cache)?;
        let of = |number: &usize| cache.topics.get(number).map(Summary::progress);
        Ok(all.iter().map(|number| of(number).unwrap_or_default()).collect())
    }

    /// Sums up new entries of these topics.
    fn refresh(&self, chosen: &[usize], cache: &mut TimelineCache) -> Result<(), ContainerError> {
        let of = (self.started_nanos(), self.state() == ContainerState::Recovered);
        if cache.of != Some(of) {
            *cache = TimelineCache { of: Some(of), ..TimelineCache::default() };
        }
        let cells_max = (TIMELINE_CELLS_MAX / self.topics.len().max(1))
            .clamp(TIMELINE_TOPIC_CELLS_MIN, TIMELINE_TOPIC_CELLS_MAX);
        let chosen: BTreeSet<usize> = chosen.iter().copied().collect();
        for &number in &chosen {
            cache.topics.entry(number).or_default();
        }
        let of_chosen = cache.topics.iter_mut().filter(|(number, _)| chosen.contains(*number));
        let mut work = Vec::with_capacity(chosen.len());
        for (number, summary) in of_chosen {
            let topic = &self.topics[*number];
            work.push((summary.new_entries(topic)?, topic, summary));
        }
        let entries: u64 = work.iter().map(|(entries, ..)| entries).sum();
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let is_much = entries >= TIMELINE_ENTRIES_ALONE_MAX;
        sum_up(work, cells_max, if is_much { cores.min(TIMELINE_THREADS_MAX) } else { 1 })
    }

    /// When splits after the first begin.
    fn split_starts(
        &self,
        known: &mut BTreeMap<PathBuf, u64>,
    ) -> Result<Vec<(String, u64)>, ContainerError> {
        let is_there: BTreeSet<PathBuf> =
            self.manifest.splits.iter().map(|name| self.path.join(name)).collect();
        known.retain(|directory, _| is_there.contains(directory));
        let mut new: BTreeMap<PathBuf, u64> = BTreeMap::new();
        for segment in self.topics.iter().flat_map(|topic| &topic.segments) {
            let Some(directory) = segment.index.path().parent() else { continue };
            if known.contains_key(directory) || !is_there.contains(directory) {
                continue;
            }
            if let Some((_, first)) = segment.index.first_whole(0..segment.index.count()?)? {
                let start = new.entry(directory.to_owned()).or_insert(u64::MAX);
                *start = (*start).min(first.log_time_nanos);
            }
        }
        known.extend(new);
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into();
        let mut starts: Vec<_> = known.iter().map(|(path, start)| (name(path), *start)).collect();
        starts.sort_by_key(|(_, start)| *start);
        Ok(starts)
    }
}

/// Sums topics up, those with the most new entries first.
fn sum_up(
    mut work: Vec<(u64, &ContainerTopic, &mut Summary)>,
    cells_max: usize,
    threads: usize,
) -> Result<(), ContainerError> {
    let threads = threads.min(work.len());
    work.sort_unstable_by_key(|(entries, ..)| Reverse(*entries));
    let queue = Mutex::new(work.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || -> Result<(), ContainerError> {
        while let Some((_, topic, summary)) = next() {
            summary.refresh(topic, cells_max)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let start = || std::thread::Builder::new().name("livebag-sums".into());
        // Without the others, this one does all.
        let others = (1..threads).filter_map(|_| start().spawn_scoped(scope, run).ok());
        let others: Vec<_> = others.collect();
        let join = |other: ScopedJoinHandle<'_, Result<(), ContainerError>>| {
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let own = run();
        others.into_iter().map(join).fold(own, Result::and)
    })
}

/// A topic, as it is asked for.
struct Topic<'a> {
    topic: &'a ContainerTopic,
    summary: &'a Summary,
    /// Losses according to the account.
    lost: Losses,
    is_live: bool,
    /// The recording's end.
    end_nanos: u64,
}

impl Topic<'_> {
    fn timeline(&self, number: usize, bins: TimeBins) -> Result<TopicTimeline, ContainerError> {
        let placing = Placing::new(self.topic, self.summary, self.is_live);
        let placed = placing.placed(&self.summary.lost);
        let unplaced_total = self.lost.total().saturating_sub(placed.total);
        let mut this = TopicTimeline {
            topic: number,
            message_counts: vec![0; bins.count()],
            message_bytes: vec![0; bins.count()],
            damaged: self.summary.damaged,
            lost: Vec::new(),
            unplaced: placed.rest_of(&self.lost),
            unplaced_total,
            silences: self.silences(bins),
        };
        match bins.shift.checked_sub(self.summary.shift) {
            Some(finer) => {
                for cell in &self.summary.cells {
                    if let Some(bin) = bins.bin_of_cell(cell.number, finer) {
                        this.message_counts[bin] += u64::from(cell.count);
                        this.message_bytes[bin] += cell.bytes;
                    }
                }
                placing.spans(&self.summary.lost, bins, &mut this.lost);
            }
            None => self.add_entries(bins, &placing, &mut this)?,
        }
        Ok(this)
    }

    /// Bins that are narrower than the summary's cells.
    fn add_entries(
        &self,
        bins: TimeBins,
        placing: &Placing,
        this: &mut TopicTimeline,
    ) -> Result<(), ContainerError> {
        let mut gaps = Vec::new();
        let mut bytes = Vec::new();
        for (at, segment) in self.topic.segments.iter().enumerate() {
            let mut range = segment.between(bins.start_nanos(), bins.last_nanos())?;
            if range.is_empty() && range.start == segment.index.count()? {
                continue;
            }
            // The gaps before the first of them and after the last are checked, too.
            let before = at.checked_sub(1).and_then(|before| self.summary.parts.get(before)?.last);
            let mut steps = Steps::after(if range.start == 0 { before } else { None });
            range.start = range.start.saturating_sub(1);
            range.end = (range.end + 1).min(segment.index.count()?);
            segment.index.each(range, &mut bytes, &mut |entry: Option<IndexEntry>| {
                let Some(entry) = entry else { return };
                if let Some(bin) = bins.bin_of(entry.log_time_nanos) {
                    this.message_counts[bin] += 1;
                    this.message_bytes[bin] += u64::from(entry.data_bytes);
                }
                if let Some(step) = steps.to(&entry) {
                    losses::push(&mut gaps, step.gap(at), bins.shift);
                }
            })?;
        }
        placing.spans(&gaps, bins, &mut this.lost);
        Ok(())
    }

    /// Within the time of the bins.
    fn silences(&self, bins: TimeBins) -> Vec<(u64, u64)> {
        let Some(shortest) = self.summary.intervals.silence_nanos() else { return Vec::new() };
        let last = self.summary.last.map(|last| (last.log_time_nanos, self.end_nanos));
        let all = self.summary.silences.iter().copied().chain(last);
        all.filter(|(from, to)| to.saturating_sub(*from) > shortest)
            .filter(|(from, to)| *to >= bins.start_nanos() && *from <= bins.last_nanos())
            .collect()
    }
}
