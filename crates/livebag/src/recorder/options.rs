//! How to record.

use std::time::Duration;

use livebag_format::container::MetadataEntry;
use livebag_format::mcap::Compression;
use regex::Regex;

use crate::clock::Clock;
use crate::limits::{
    CACHE_BYTES_DEFAULT, CHUNK_AGE_MAX, COMPRESSION_LEVEL_DEFAULT, COMPRESSION_THREADS_MAX,
};
use crate::queue::{Overflow, Priority, QueueOptions};
use crate::scheduler::Schedule;

/// How to record. Use `..RecorderOptions::default()` for the others.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    /// Most memory for messages that wait for the disk, in bytes.
    pub cache_bytes_max: u64,
    /// Which message a full queue drops, for messages written in this process.
    pub overflow: Overflow,
    /// Settings of single topics.
    pub topics: TopicRules,
    /// Longest time until a small message can be read. `None` closes chunks by size only, which suits
    /// conversions.
    pub chunk_age_max: Option<Duration>,
    /// MCAP's profile: `ros2`, `ros1` or empty.
    pub profile: String,
    /// Whether gaps in the sequence of messages written in this process are transport losses.
    pub count_gaps: bool,
    /// Names and values to store in the recording.
    pub metadata: Vec<MetadataEntry>,
    /// Whether the container has an `attachments.mcap`, which the caller writes.
    pub has_attachments: bool,
    /// When a new split starts.
    pub split: SplitRules,
    /// Which old splits are removed.
    pub retention: Retention,
    /// Record into a ring in memory, which [`Recorder::snapshot`](crate::Recorder::snapshot) writes to the disk.
    pub snapshot: Option<SnapshotRing>,
    /// Start paused, until [`Recorder::resume`](crate::Recorder::resume).
    pub start_paused: bool,
    /// How often data is synced to the disk while recording; `None`: at the end of each split.
    pub sync_interval: Option<Duration>,
    /// Name of the one MCAP file that takes all topics of a split, as rosbag2 has it; the split's
    /// number is put behind it. `None`: a brick for every topic, which is read faster.
    pub one_file: Option<String>,
    /// How chunks are compressed.
    pub compression: ChunkCompression,
    /// Whether the chunks of large frames have a checksum as well, which takes a pass over their bytes; those of small
    /// messages always have one.
    pub checksum: bool,
    /// When waiting bytes go to the disk.
    pub schedule: Schedule,
    /// The cycle board to watch; `None`: the user's.
    pub cycle_board: Option<String>,
    /// Source of all times.
    pub clock: Clock,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        Self {
            cache_bytes_max: CACHE_BYTES_DEFAULT,
            overflow: Overflow::DropNewest,
            topics: TopicRules::default(),
            chunk_age_max: Some(CHUNK_AGE_MAX),
            profile: "ros2".into(),
            count_gaps: true,
            metadata: Vec::new(),
            has_attachments: false,
            split: SplitRules::default(),
            retention: Retention::default(),
            snapshot: None,
            start_paused: false,
            sync_interval: None,
            one_file: None,
            compression: ChunkCompression::default(),
            checksum: false,
            schedule: Schedule::Immediate,
            cycle_board: None,
            clock: Clock::system(),
        }
    }
}

impl RecorderOptions {
    pub(super) fn queue_options(&self, topic: &str, count_gaps: bool) -> QueueOptions {
        let rule = self.topics.rule(topic);
        QueueOptions {
            overflow: rule.overflow.unwrap_or(self.overflow),
            priority: rule.priority.unwrap_or_default(),
            bytes_max: rule.bytes_max,
            rate_max_hz: rule.rate_max_hz,
            count_gaps,
            is_ring: self.snapshot.is_some(),
        }
    }
}

/// When a new split begins: when one of the limits is reached. Splits can also be asked for, with
/// [`Recorder::split`](crate::Recorder::split).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitRules {
    /// Bytes on the disk.
    pub bytes_max: Option<u64>,
    /// Time since it began.
    pub duration_max: Option<Duration>,
}

/// Which old splits are removed while recording: the oldest ones, while one of the limits is exceeded. The split being
/// written is never removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Splits on the disk at most, the one being written included.
    pub splits_max: Option<u32>,
    /// Bytes on the disk at most, the split being written included.
    pub bytes_max: Option<u64>,
    /// Time since a split ended.
    pub age_max: Option<Duration>,
    /// Bytes that must stay free on the filesystem; 0 for no matter.
    pub free_bytes_min: u64,
    /// The action when less is free.
    pub low_space: LowSpace,
    /// Whether a split is removed only after [`Recorder::release_splits`](crate::Recorder::release_splits) has allowed
    /// it, whatever the limits: there is a copy of it elsewhere then.
    pub released_only: bool,
}

/// The action when the filesystem runs low on space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LowSpace {
    /// The recording ends, closed in order.
    #[default]
    Stop,
    /// The oldest splits are removed; when none is left, the recording ends.
    DeleteOldest,
}

/// How chunks are compressed. With compression, frames are copied into the cache; without room there
/// they are lost and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkCompression {
    /// Into which of MCAP's formats.
    pub compression: Compression,
    /// Of zstd: -7 (fast) to 22 (small).
    pub level: i32,
    /// Threads that compress; 0: one for every two processors.
    pub threads: usize,
}

impl Default for ChunkCompression {
    fn default() -> Self {
        Self { compression: Compression::None, level: COMPRESSION_LEVEL_DEFAULT, threads: 0 }
    }
}

impl ChunkCompression {
    pub(super) fn threads_or_default(self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2)),
            threads => threads.min(COMPRESSION_THREADS_MAX),
        }
    }
}

/// A ring in memory, as large as the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotRing {
    /// Older messages are dropped.
    pub duration_max: Option<Duration>,
}

/// Settings of single topics, in order: a later rule overrides an earlier one.
#[derive(Clone, Debug, Default)]
pub struct TopicRules(pub Vec<TopicRule>);

/// Settings for the topics that a pattern matches. `None` leaves a setting as it is.
#[derive(Clone, Debug)]
pub struct TopicRule {
    /// Names of the topics.
    pub pattern: Regex,
    /// The settings of the rule.
    pub settings: TopicSettings,
}

/// See [`TopicRule`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TopicSettings {
    /// Which message a full queue drops.
    pub overflow: Option<Overflow>,
    /// Which topics lose messages first.
    pub priority: Option<Priority>,
    /// Bytes that the topic's queue holds at most.
    pub bytes_max: Option<u64>,
    /// Most messages per second; more are left out and counted as skipped.
    pub rate_max_hz: Option<f64>,
    /// Whether the newest message is repeated at the head of every split.
    pub latched: bool,
}

impl TopicRules {
    /// What holds for a topic.
    pub fn rule(&self, topic: &str) -> TopicSettings {
        let mut sum = TopicSettings::default();
        for rule in self.0.iter().filter(|rule| rule.pattern.is_match(topic)) {
            let settings = rule.settings;
            sum.overflow = settings.overflow.or(sum.overflow);
            sum.priority = settings.priority.or(sum.priority);
            sum.bytes_max = settings.bytes_max.or(sum.bytes_max);
            sum.rate_max_hz = settings.rate_max_hz.or(sum.rate_max_hz);
            sum.latched |= settings.latched;
        }
        sum
    }
}

impl TopicRule {
    /// A rule for the topic of this very name.
    ///
    /// # Panics
    /// Never: an escaped name is a pattern.
    pub fn named(topic: &str, settings: TopicSettings) -> Self {
        let pattern = Regex::new(&format!("^{}$", regex::escape(topic))).expect("escaped");
        Self { pattern, settings }
    }
}
