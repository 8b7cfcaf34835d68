//! Which old splits go.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use livebag_format::container::{Removed, TopicManifest};

use super::options::Retention as Rules;
use super::split::{Split, split_name};
use crate::limits::SPACE_LOOK_INTERVAL;

/// A split that takes no more messages.
pub(super) struct ClosedSplit {
    pub number: u32,
    pub bytes: u64,
    ended_nanos: u64,
    /// Its contents by topic, without definitions.
    pub topics: Vec<TopicManifest>,
}

impl ClosedSplit {
    /// Its directory, or the files that go if it shares the recording's own.
    pub fn files(
        &self,
        recording: &Path,
        topics: &[TopicManifest],
    ) -> (Vec<PathBuf>, Option<PathBuf>) {
        if self.number > 0 {
            return (Vec::new(), Some(recording.join(split_name(self.number))));
        }
        let mut files: Vec<PathBuf> = Vec::new();
        for topic in topics {
            let names = topic.bricks.iter().chain([&topic.index]);
            files.extend(names.filter(|name| !name.is_empty()).map(|name| recording.join(name)));
        }
        files.sort_unstable();
        files.dedup();
        (files, None)
    }
}

/// The splits that are closed or being closed, and those that are gone.
#[derive(Default)]
pub(super) struct Retention {
    rules: Rules,
    closed: VecDeque<ClosedSplit>,
    /// The topics of the first split, once it is closed: they are in the recording's own manifest, which continues to
    /// change.
    pub first: Option<Vec<TopicManifest>>,
    pub removed: Removed,
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

impl Retention {
    pub fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Keeps in mind a split whose writes have all ended.
    pub fn add(&mut self, split: &Split, ended_nanos: u64) {
        let topics = split.describe_topics();
        self.closed.push_back(ClosedSplit {
            number: split.number,
            bytes: split.bytes(),
            ended_nanos,
            topics: topics.iter().map(counts_of).collect(),
        });
        if split.number == 0 {
            self.first = Some(topics);
        }
    }

    /// Whether it is time to check the old splits and the free space again.
    pub fn is_due(&mut self, now_nanos: u64) -> bool {
        let is_due = now_nanos >= self.next_look_nanos;
        if is_due {
            self.next_look_nanos = now_nanos + SPACE_LOOK_INTERVAL.as_nanos() as u64;
        }
        is_due
    }

    /// Whether the rules require removing the oldest closed split, given `open_count` splits of `open_bytes` that are
    /// still being written.
    pub fn holds_too_much(&self, open_count: usize, open_bytes: u64, wall_nanos: u64) -> bool {
        let Some(oldest) = self.closed.front() else { return false };
        let count = self.closed.len() + open_count;
        let bytes = self.closed.iter().map(|split| split.bytes).sum::<u64>() + open_bytes;
        let age = Duration::from_nanos(wall_nanos.saturating_sub(oldest.ended_nanos));
        self.rules.splits_max.is_some_and(|most| count > most as usize)
            || self.rules.bytes_max.is_some_and(|most| bytes > most)
            || self.rules.age_max.is_some_and(|most| age > most)
    }

    /// Removes the oldest closed split from the list, and counts its contents. `None` if there is none, or if it has to be
    /// one of the first `released_count` and is not.
    pub fn take_oldest(&mut self, released_count: u32) -> Option<ClosedSplit> {
        let may_go =
            |oldest: &mut ClosedSplit| !self.rules.released_only || oldest.number < released_count;
        let oldest = self.closed.pop_front_if(may_go)?;
        self.removed.add_split(&oldest.topics);
        if oldest.number < released_count {
            let is_first = oldest.number == 0;
            let directory = if is_first { String::new() } else { split_name(oldest.number) };
            self.removed.released.push(directory);
            if is_first {
                self.removed.first_split = self.first.clone().unwrap_or_default();
            }
        }
        Some(oldest)
    }

    /// Numbers of the closed splits that are still there.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.closed.iter().map(|split| split.number)
    }
}
