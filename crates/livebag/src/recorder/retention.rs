//! When a new split begins, and which old ones go.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use livebag_format::container::{Removed, State, TopicManifest};

use super::close::ended_state;
use super::engine::Engine;
use super::split::{Split, split_name, write_manifest};
use super::{LowSpace, RecordError};
use crate::limits::SPACE_LOOK_INTERVAL;
use crate::queue::NewMessage;

/// A split that takes no more messages.
struct ClosedSplit {
    number: u32,
    bytes: u64,
    ended_nanos: u64,
    topics: Vec<TopicManifest>,
}

/// What the recorder remembers of its splits, beside those being written.
#[derive(Default)]
pub(super) struct History {
    past: VecDeque<ClosedSplit>,
    /// The topics of the first split, once it is closed: they are told in the recording's own
    /// manifest, which goes on changing.
    first: Option<Vec<TopicManifest>>,
    removed: Removed,
    next_look_nanos: u64,
}

/// A topic's counts, without its definition.
fn counts_of(topic: &TopicManifest) -> TopicManifest {
    TopicManifest {
        name: topic.name.clone(),
        message_count: topic.message_count,
        message_bytes: topic.message_bytes,
        repeated: topic.repeated,
        lost: topic.lost,
        skipped: topic.skipped,
        ..TopicManifest::default()
    }
}

impl Engine {
    /// Begins a new split when the present one is large or old enough.
    pub fn split_if_due(&mut self, now: u64) {
        let rules = self.shared.options.split;
        let current = self.current();
        let is_large = rules.bytes_max.is_some_and(|most| current.bytes() >= most);
        let age = Duration::from_nanos(now.saturating_sub(current.began_monotonic_nanos));
        let is_old = rules.duration_max.is_some_and(|most| age >= most);
        if (is_large || is_old) && self.shared.failure().is_none() {
            self.begin_split();
        }
    }

    /// Begins a new split. The old one ends with the last of its writes, and the new one is there
    /// before: nothing waits, nothing falls between them.
    pub fn begin_split(&mut self) {
        if let Err(error) = self.try_begin_split() {
            self.fail_with(&error);
        }
    }

    fn try_begin_split(&mut self) -> Result<(), RecordError> {
        let clock = &self.shared.options.clock;
        let (wall, now) = (clock.wall_nanos(), clock.monotonic_nanos());
        let disk = self.shared.disk.clone();
        let number = self.current().number + 1;
        let directory = self.shared.directory.join(split_name(number));
        let mut split = Split::create(disk, directory, number, wall, now)?;
        split.profile = self.shared.options.profile.clone();
        split.one_file = self.shared.options.one_file.clone();
        split.metadata = self.shared.options.metadata.clone();
        for topic in &self.current().topics {
            split.add_topic(topic.anew());
        }
        self.splits.push_back(split);
        self.shared.splits.store(number + 1, Ordering::Relaxed);
        self.write_manifest(number)?;
        self.write_manifest(0)?;
        self.repeat_latched();
        Ok(())
    }

    /// Puts the newest message of latched topics at the head of a split.
    fn repeat_latched(&mut self) {
        for topic in &self.topics {
            let Some(message) = topic.latched.as_ref().and_then(|latched| latched.message(0))
            else {
                continue;
            };
            topic.queue.repeat(&NewMessage::from(&message));
        }
    }

    /// Hands splits whose writes have all ended to the keeper.
    pub fn retire(&mut self) {
        while self.splits.len() > 1 && self.splits[0].in_flight == 0 {
            let Some(split) = self.splits.pop_front() else { break };
            let topics = split.describe_topics();
            self.history.past.push_back(ClosedSplit {
                number: split.number,
                bytes: split.bytes(),
                ended_nanos: self.shared.options.clock.wall_nanos(),
                topics: topics.iter().map(counts_of).collect(),
            });
            if split.number == 0 {
                self.history.first = Some(topics);
            }
            self.keeper.close(split);
        }
    }

    /// Removes the oldest splits as far as the rules want it, and sees to the free space.
    pub fn keep_retention(&mut self, now: u64) {
        if now < self.history.next_look_nanos {
            return;
        }
        self.history.next_look_nanos = now + SPACE_LOOK_INTERVAL.as_nanos() as u64;
        while self.holds_too_much() {
            if self.remove_oldest().is_none() {
                break;
            }
        }
        if self.shared.failure().is_some() {
            return;
        }
        let rules = self.shared.options.retention;
        let directory = self.shared.directory.clone();
        let mut free = match self.shared.disk.free_bytes(&directory) {
            Ok(free) => free,
            // Somebody has removed or renamed the folder: open files go on, and nobody will find them.
            Err(error) => return self.fail("looking at", &directory, error),
        };
        while free < rules.free_bytes_min {
            let may_delete = rules.low_space == LowSpace::DeleteOldest;
            // The keeper removes them meanwhile: their space is counted as free already.
            match may_delete.then(|| self.remove_oldest()).flatten() {
                Some(bytes) => free = free.saturating_add(bytes),
                None => {
                    return self.fail_with(&RecordError::LowSpace {
                        path: self.shared.directory.clone(),
                        free_bytes: free,
                        least_bytes: rules.free_bytes_min,
                    });
                }
            }
        }
    }

    fn holds_too_much(&self) -> bool {
        let rules = self.shared.options.retention;
        let past = &self.history.past;
        let Some(oldest) = past.front() else { return false };
        let count = past.len() + self.splits.len();
        let bytes = past.iter().map(|split| split.bytes).sum::<u64>()
            + self.splits.iter().map(Split::bytes).sum::<u64>();
        let age = self.shared.options.clock.wall_nanos().saturating_sub(oldest.ended_nanos);
        rules.splits_max.is_some_and(|most| count > most as usize)
            || rules.bytes_max.is_some_and(|most| bytes > most)
            || rules.age_max.is_some_and(|most| Duration::from_nanos(age) > most)
    }

    /// Takes the oldest split out of the manifest, then off the disk, and gives its length; `None` if
    /// there is none.
    fn remove_oldest(&mut self) -> Option<u64> {
        let oldest = self.history.past.pop_front()?;
        self.history.removed.add_split(&oldest.topics);
        for (topic, removed) in self.current().topics.iter().zip(&oldest.topics) {
            topic.counters.removed.fetch_add(removed.message_count, Ordering::Relaxed);
        }
        let directory = &self.shared.directory;
        let (files, directory) = if oldest.number == 0 {
            let topics = self.history.first.replace(Vec::new()).unwrap_or_default();
            let mut files: Vec<PathBuf> = Vec::new();
            for topic in &topics {
                let names = topic.bricks.iter().chain([&topic.index]);
                files.extend(names.filter(|name| !name.is_empty()).map(|n| directory.join(n)));
            }
            files.sort_unstable();
            files.dedup();
            (files, None)
        } else {
            (Vec::new(), Some(directory.join(split_name(oldest.number))))
        };
        if let Err(error) = self.write_manifest(0) {
            self.fail_with(&error);
        }
        self.keeper.remove(files, directory);
        Some(oldest.bytes)
    }

    /// Writes the manifest of a split; that of the first tells of all.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn write_manifest(&mut self, number: u32) -> Result<(), RecordError> {
        if number == 0 {
            return self.write_root(State::Recording);
        }
        let failure = self.shared.failure().unwrap_or_default();
        let now = self.shared.options.clock.wall_nanos();
        let split = self.split(number);
        let manifest = split.manifest(State::Recording, (0, now), failure);
        write_manifest(&*split.disk, &split.directory, &manifest, false)?;
        split.note_written();
        Ok(())
    }

    fn write_root(&mut self, state: State) -> Result<(), RecordError> {
        let is_over = state != State::Recording;
        let clock = &self.shared.options.clock;
        let now = clock.wall_nanos();
        let ended_nanos = if is_over { now } else { 0 };
        let failure = self.shared.failure().unwrap_or_default();
        let known = self.history.past.iter().map(|split| split.number);
        let numbers = known.chain(self.splits.iter().map(|split| split.number));
        let splits = numbers.filter(|number| *number > 0).map(split_name).collect();
        let mut manifest = self.splits[0].manifest(state, (ended_nanos, now), failure);
        if let Some(topics) = &self.history.first {
            manifest.topics.clone_from(topics);
            manifest.started_nanos = self.started_nanos;
        }
        manifest.splits = splits;
        manifest.clock_jumps = self.shared.clock_jumps();
        manifest.removed = self.history.removed.clone();
        write_manifest(&*self.shared.disk, &self.shared.directory, &manifest, is_over)?;
        if self.splits[0].number == 0 {
            self.splits[0].note_written();
        }
        Ok(())
    }

    /// Closes what is still open, and then the whole.
    pub fn finish_splits(mut self) -> Result<(), RecordError> {
        self.retire();
        let shared = self.shared.clone();
        let closed = self.current().close(&shared);
        if let Err(error) = &closed {
            shared.fail(error.to_string());
        }
        self.keeper.finish();
        let written = self.write_root(ended_state(&closed));
        drop(self.lock.take());
        written.and(closed)
    }
}
