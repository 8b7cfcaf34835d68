//! What to record and how: the same keys on the command line and in a profile.

use std::path::Path;
use std::time::Duration;

use clap_complete::ArgValueCompleter;
use livebag::{
    ChunkCompression, Compression, MetadataEntry, RecorderOptions, Retention, Selector,
    SnapshotRing, SplitRules, Status, TopicRule, TopicRules, TopicSettings,
};
use livebag_bags::{Sqlite3Options, Sqlite3Preset};
use livebag_format::rosbag2::MetadataVersion;
use livebag_shm::Owners;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::graph::{self, GraphSettings};
use super::values::{
    Storage, compression, compression_level, compression_threads, count, low_space,
    metadata_version, overflow, pair, parsed, preset_of, rate, rule, schedule, storage, wrong,
};
use crate::complete;
use crate::outcome::CliError;
use crate::ros2::NetworkArgs;
use crate::select::similar;
use crate::{absent, files, parse, serve};

/// Every setting of a recording. In a profile each has its flag's long name as key.
#[derive(clap::Args, Clone, Debug, Default, Serialize, Deserialize)]
#[command(group = clap::ArgGroup::new("robot_users").args(["zenoh", "push"]).multiple(true))]
#[serde(rename_all = "kebab-case", default)]
pub struct Settings {
    /// Names of streams, or topics they carry (/camera_front).
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete::streams_or_topics))]
    pub names: Vec<String>,
    /// The same, with `ros2 bag record`'s name.
    #[arg(short, long = "topic", visible_alias = "topics", value_name = "NAME", num_args = 1..)]
    #[arg(add = ArgValueCompleter::new(complete::streams_or_topics))]
    pub topics: Vec<String>,
    /// Record every stream, also those that appear later.
    #[arg(short, long)]
    pub all: bool,
    /// Record streams of other users, too. Any of them can end this recording by truncating a stream. Without this,
    /// only streams of this user, of root, and of this user's groups are recorded.
    #[arg(long)]
    #[arg(hide_short_help = true)]
    pub all_users: bool,
    /// Record streams whose name or topic matches this regular expression.
    #[arg(short = 'e', long, value_name = "RE")]
    pub regex: Option<String>,
    /// Record streams of these types (sensor_msgs/msg/Image).
    #[arg(long, value_name = "TYPE", num_args = 1..)]
    #[arg(hide_short_help = true)]
    pub topic_types: Vec<String>,
    /// Leave out streams whose name or topic matches this regular expression.
    #[arg(short = 'x', long, value_name = "RE")]
    pub exclude_regex: Option<String>,
    /// Leave out these streams or topics.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    #[arg(hide_short_help = true)]
    pub exclude_topics: Vec<String>,
    /// The container to create [default: livebag_%Y_%m_%d-%H_%M_%S]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<String>,
    /// Stop after this time: 60, 1.5s, 2m30s.
    #[arg(long, value_name = "TIME", alias = "max-record-duration")]
    pub duration: Option<String>,
    /// Maximum memory for messages that wait for the disk: bytes, 100MiB, 1GB [default: a quarter of the memory
    /// available at the start, at least 200MiB]
    #[arg(long, value_name = "BYTES")]
    #[arg(help_heading = "Memory and rates")]
    pub max_cache_size: Option<String>,
    /// Which message a full queue drops: drop-newest, drop-oldest [default: drop-newest]
    #[arg(long, value_name = "HOW")]
    #[arg(help_heading = "Memory and rates", hide_short_help = true)]
    pub overflow: Option<String>,
    /// Settings for topics whose whole name matches a regular expression:
    /// '/lidar.*:priority=critical,queue=64MiB,overflow=drop-oldest,latched', or throttle=10.
    #[arg(long, value_name = "RE:KEY=VALUE,…")]
    #[arg(help_heading = "Memory and rates", hide_short_help = true)]
    pub rule: Vec<String>,
    /// Record at most HZ messages per second of a topic; others are counted as skipped.
    #[arg(long, value_name = "TOPIC=HZ", alias = "topic-throttle-frequency")]
    #[arg(help_heading = "Memory and rates")]
    pub throttle: Vec<String>,
    /// Repeat the newest message of this topic at the head of every split.
    #[arg(long, value_name = "TOPIC", num_args = 1..)]
    #[arg(help_heading = "Memory and rates", hide_short_help = true)]
    pub repeat_latched: Vec<String>,
    /// Start a new split at this size: 1GiB.
    #[arg(short = 'b', long, value_name = "BYTES")]
    #[arg(help_heading = "Splits")]
    pub max_bag_size: Option<String>,
    /// Start a new split after this time: 60, 10m.
    #[arg(short = 'd', long, value_name = "TIME")]
    #[arg(help_heading = "Splits")]
    pub max_bag_duration: Option<String>,
    /// Keep at most N splits; the oldest are removed.
    #[arg(long, value_name = "N")]
    #[arg(help_heading = "Splits", hide_short_help = true)]
    pub max_bag_files: Option<String>,
    /// Keep at most this many bytes in total; the oldest splits are removed.
    #[arg(long, value_name = "BYTES")]
    #[arg(help_heading = "Splits")]
    pub max_total_size: Option<String>,
    /// Remove splits older than this.
    #[arg(long, value_name = "TIME")]
    #[arg(help_heading = "Splits", hide_short_help = true)]
    pub max_age: Option<String>,
    /// Space that must stay free on the disk.
    #[arg(long, value_name = "BYTES")]
    #[arg(help_heading = "Splits", hide_short_help = true)]
    pub min_free_space: Option<String>,
    /// Action when less is free: stop, delete-oldest [default: stop]
    #[arg(long, value_name = "WHAT")]
    #[arg(help_heading = "Splits", hide_short_help = true)]
    pub low_free_space_action: Option<String>,
    /// Push the recording to s3://BUCKET/PREFIX, gs://…, az://… or a folder (`livebag push`): closed splits while the
    /// next is recorded, the rest at the end.
    #[arg(long, value_name = "TARGET")]
    #[arg(help_heading = "Splits")]
    pub push: Option<String>,
    /// Push no faster: 10Mbit/s, 2MB/s.
    #[arg(long, value_name = "RATE")]
    #[arg(help_heading = "Splits", hide_short_help = true)]
    pub push_max_rate: Option<String>,
    /// Push these topics before the others, in this order: /imu,/gps.
    #[arg(long, value_name = "TOPICS")]
    #[arg(help_heading = "Splits", hide_short_help = true)]
    pub push_first: Option<String>,
    /// With --push: remove old splits only once they are pushed, and the recording once all of it is.
    #[arg(long, requires = "push")]
    #[arg(help_heading = "Splits", hide_short_help = true)]
    pub delete_pushed: bool,
    /// Record into a ring in memory, as large as the cache. `livebag ctl DIR snapshot`, key t or signal USR2 writes it
    /// to the disk.
    #[arg(long)]
    #[arg(help_heading = "Snapshots")]
    pub snapshot_mode: bool,
    /// Drop messages from the ring that are older than this.
    #[arg(long, value_name = "TIME")]
    #[arg(help_heading = "Snapshots", hide_short_help = true)]
    pub snapshot_duration: Option<String>,
    /// Start paused; `livebag ctl DIR resume` or the space bar resumes.
    #[arg(short = 'p', long)]
    pub start_paused: bool,
    /// Sync written data to the disk at this interval, not only at the end of each split.
    #[arg(long, value_name = "TIME")]
    #[arg(help_heading = "Storage", hide_short_help = true)]
    pub sync_interval: Option<String>,
    /// The format to write: container, mcap (a container with one MCAP file for each split, and metadata.yaml, so that
    /// it is also a rosbag2 bag), sqlite3 (a rosbag2 bag, no container) [default: container]
    #[arg(short, long, value_name = "WHAT")]
    #[arg(help_heading = "Storage")]
    pub storage: Option<String>,
    /// Version of metadata.yaml with --storage mcap or sqlite3: 5 (Humble), 7 (Iron), 9 (Jazzy)
    /// [default: 7]
    #[arg(long, value_name = "V")]
    #[arg(help_heading = "Storage", hide_short_help = true)]
    pub metadata_version: Option<String>,
    /// When to write: immediate, cycle-aware (while applications on the cycle board are idle) [default: immediate]
    #[arg(long, value_name = "HOW")]
    #[arg(help_heading = "Storage", hide_short_help = true)]
    pub schedule: Option<String>,
    /// Compress chunks: none, lz4, zstd [default: none]
    #[arg(long, value_name = "FORMAT")]
    #[arg(help_heading = "Storage")]
    pub compression: Option<String>,
    /// Level of zstd: -7 (fast) to 22 (small) [default: 1]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    #[arg(help_heading = "Storage", hide_short_help = true)]
    pub compression_level: Option<String>,
    /// Threads that compress [default: 0, half of the processors]
    #[arg(long, value_name = "N")]
    #[arg(help_heading = "Storage", hide_short_help = true)]
    pub compression_threads: Option<String>,
    /// Write checksums for large frames, too; small messages always have them.
    #[arg(long)]
    #[arg(help_heading = "Storage", hide_short_help = true)]
    pub checksum: bool,
    /// Settings with rosbag2's names: none, fastwrite, resilient, zstd_fast, zstd_small. Options beside the preset
    /// override it.
    #[arg(long, value_name = "NAME", visible_alias = "storage-preset-profile")]
    #[arg(help_heading = "Storage", hide_short_help = true)]
    pub preset: Option<String>,
    /// Names and values to store in the recording.
    #[arg(long, value_name = "KEY=VALUE", num_args = 1..)]
    #[arg(help_heading = "Storage", hide_short_help = true)]
    pub custom_data: Vec<String>,
    /// Answer queries over HTTP while recording, at this address [default: 127.0.0.1:8767]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = serve::LISTEN)]
    #[arg(help_heading = "Serving")]
    pub serve: Option<String>,
    /// With --serve: certificate chain, PEM.
    #[arg(long, value_name = "FILE", requires = "serve")]
    #[arg(help_heading = "Serving", hide_short_help = true)]
    pub tls_cert: Option<String>,
    /// With --serve: the certificate's key, PEM.
    #[arg(long, value_name = "FILE", requires = "serve")]
    #[arg(help_heading = "Serving", hide_short_help = true)]
    pub tls_key: Option<String>,
    /// With --serve: a file with the token that every request must have.
    #[arg(long, value_name = "FILE", requires = "serve")]
    #[arg(help_heading = "Serving", hide_short_help = true)]
    pub token_file: Option<String>,
    /// With --serve: also answer over Zenoh, as livebag/ROBOT/NAME/TOPIC.
    #[arg(long, requires = "serve")]
    #[arg(help_heading = "Serving", hide_short_help = true)]
    pub zenoh: bool,
    /// This robot's name on Zenoh and in the catalogue of --push [default: the machine's name]
    #[arg(long, value_name = "NAME", requires = "robot_users")]
    #[arg(help_heading = "Serving", hide_short_help = true)]
    pub robot: Option<String>,
    /// Do not listen to the keyboard.
    #[arg(long)]
    #[arg(hide_short_help = true)]
    pub disable_keyboard_controls: bool,
    /// The ROS 2 network.
    #[command(flatten)]
    #[serde(flatten)]
    pub network: NetworkArgs,
    /// Which of its topics are recorded.
    #[command(flatten)]
    #[serde(flatten)]
    pub graph: GraphSettings,
}

impl Settings {
    /// Options of the server during recording; `None` if they are not.
    pub fn server_options(&self) -> Result<Option<serve::Options>, CliError> {
        let Some(address) = &self.serve else { return Ok(None) };
        if self.zenoh && !cfg!(feature = "zenoh") {
            return Err(absent::error("zenoh"));
        }
        let address = serve::address(address).map_err(|why| {
            let hint = format!("{why}; it takes the next word: write --serve={}", serve::LISTEN);
            wrong("--serve", hint)
        })?;
        let path = |file: &Option<String>| file.as_ref().map(std::path::PathBuf::from);
        let access = serve::Access {
            tls_cert: path(&self.tls_cert),
            tls_key: path(&self.tls_key),
            token_file: path(&self.token_file),
            allow_origin: Vec::new(),
        };
        access.options(vec![address]).map(Some)
    }

    /// Whether and how Zenoh is answered too.
    pub fn zenoh(&self) -> serve::ZenohServe {
        serve::ZenohServe {
            zenoh: self.zenoh,
            robot: self.robot.clone(),
            session: serve::ZenohArgs {
                zenoh_config: self.network.zenoh_config(),
                zenoh_listen: self.network.zenoh_listen.clone(),
                zenoh_connect: self.network.zenoh_connect.clone(),
            },
        }
    }

    /// Adds settings of the profile that the command line does not set.
    ///
    /// # Errors
    /// If the file cannot be read, or has a key that is no setting.
    pub fn over_profile(self, path: &Path) -> Result<Self, CliError> {
        let text = files::text("reading the profile", path)?;
        let refused = |why: String| wrong(&format!("profile {}", path.display()), why);
        let profile: Map<String, Value> =
            serde_saphyr::from_str(&text).map_err(|error| refused(error.to_string()))?;
        let mut merged: Map<String, Value> =
            profile.into_iter().map(|(key, value)| (key, as_typed(value))).collect();
        let given = serde_json::to_value(&self)?;
        if let Some(unknown) = merged.keys().find(|key| given.get(key.as_str()).is_none()) {
            return Err(refused(format!(
                "`{unknown}` is no setting; `livebag record --print-profile` lists them"
            )));
        }
        if let Value::Object(given) = given {
            merged.extend(given.into_iter().filter(|(_, value)| is_given(value)));
        }
        serde_json::from_value(Value::Object(merged)).map_err(|error| refused(error.to_string()))
    }

    /// The profile that says the same.
    ///
    /// # Errors
    /// If the YAML library refuses, which it has no known cause for.
    pub fn to_profile(&self) -> Result<String, CliError> {
        serde_saphyr::to_string(self).map_err(|error| CliError::failed(error.to_string()))
    }

    /// Whether streams or topics are chosen by name, pattern or type.
    pub fn chooses_streams(&self) -> bool {
        self.all
            || self.regex.is_some()
            || !self.topic_types.is_empty()
            || !self.wanted_names().is_empty()
    }

    /// Which streams, and topics of a network.
    ///
    /// # Errors
    /// If nothing is chosen, or a pattern is no regular expression.
    pub fn selectors(&self) -> Result<Vec<Selector>, CliError> {
        let refused = |error: livebag::SelectorError| CliError::usage(error.to_string());
        let mut selectors = Vec::new();
        if self.all {
            selectors.push(Selector::all());
        }
        let names = self.wanted_names();
        if !names.is_empty() {
            selectors.push(Selector::names(names));
        }
        if let Some(pattern) = &self.regex {
            selectors.push(Selector::regex(pattern).map_err(refused)?);
        }
        if !self.topic_types.is_empty() {
            selectors.push(Selector::types(&self.topic_types));
        }
        if selectors.is_empty() {
            return Err(CliError::usage(
                "nothing to record: give names of streams or topics, a pattern (-e RE), types \
                 (--topic-types), or --all; `livebag streams` lists what there is",
            ));
        }
        let exclude = |selector: Selector| {
            let selector = selector.without(&self.exclude_topics);
            let selector = if self.all_users { selector.of_all_users() } else { selector };
            match &self.exclude_regex {
                Some(pattern) => selector.excluding(pattern).map_err(refused),
                None => Ok(selector),
            }
        };
        selectors.into_iter().map(exclude).collect()
    }

    /// Whose streams are taken.
    pub fn owners(&self) -> Owners {
        if self.all_users { Owners::All } else { Owners::Trusted }
    }

    /// Streams and topics asked for by name.
    /// Whether streams are chosen by more than their names.
    pub fn has_patterns(&self) -> bool {
        self.regex.is_some() || !self.topic_types.is_empty()
    }

    /// Names of streams and topics that were asked for.
    pub fn wanted_names(&self) -> Vec<String> {
        let names: Vec<_> = self.names.iter().chain(&self.topics).cloned().collect();
        match self.network.ros2.is_some() && !self.graph.with_streams {
            true => graph::absolute(&names),
            false => names,
        }
    }

    /// The version of `metadata.yaml` beside an MCAP file; `None`: no such file.
    ///
    /// # Errors
    /// If storage or version are not known.
    pub fn metadata_version(&self) -> Result<Option<MetadataVersion>, CliError> {
        let version = self.metadata_version.as_ref();
        let version = parsed("metadata-version", version, metadata_version)?;
        match (self.storage()?, version) {
            (Storage::Mcap, version) => Ok(Some(version.unwrap_or(MetadataVersion::Iron))),
            (Storage::Container | Storage::Sqlite3, None) | (Storage::Sqlite3, Some(_)) => Ok(None),
            (Storage::Container, Some(_)) => {
                Err(wrong("metadata-version", "needs --storage mcap or sqlite3"))
            }
        }
    }

    fn storage(&self) -> Result<Storage, CliError> {
        Ok(parsed("storage", self.storage.as_ref(), storage)?.unwrap_or_default())
    }

    /// How databases are written, if they are; `None`: a container is.
    pub fn database(&self) -> Result<Option<Sqlite3Options>, CliError> {
        if self.storage()? != Storage::Sqlite3 {
            return Ok(None);
        }
        if !cfg!(feature = "sqlite3") {
            return Err(absent::error("sqlite3"));
        }
        let preset = self.preset.as_deref().unwrap_or_default();
        let preset = Sqlite3Preset::from_name(preset)
            .ok_or_else(|| wrong("preset", format!("`{preset}` is not one of none, resilient")))?;
        let unfit = [
            ("compression", self.compression.is_some()),
            ("checksum", self.checksum),
            ("sync-interval", self.sync_interval.is_some()),
            ("schedule", self.schedule.is_some()),
        ];
        if let Some((key, _)) = unfit.iter().find(|(_, is_given)| *is_given) {
            return Err(wrong(
                key,
                "means nothing with --storage sqlite3: SQLite writes as it does",
            ));
        }
        let version = self.metadata_version.as_ref();
        let version = parsed("metadata-version", version, metadata_version)?;
        Ok(Some(Sqlite3Options {
            preset,
            metadata_version: version.unwrap_or(MetadataVersion::Iron),
            ..Sqlite3Options::default()
        }))
    }

    /// Warnings about options for topics that have not appeared.
    pub fn without_effect(&self, status: &Status) -> Vec<String> {
        let throttled = self.throttle.iter().filter_map(|text| text.split_once('='));
        let throttled = throttled.map(|(topic, _)| ("--throttle", topic));
        let latched = self.repeat_latched.iter().map(|topic| ("--repeat-latched", topic.as_str()));
        let known = || status.topics.iter().map(|topic| topic.name.as_str());
        let absent =
            throttled.chain(latched).filter(|(_, topic)| !known().any(|name| name == *topic));
        let sentence = |(option, topic): (&str, &str)| {
            let meant = similar(topic, known());
            let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
            format!("{option} {topic} had no effect: no such topic was recorded{meant}")
        };
        absent.map(sentence).collect()
    }

    /// Selections that have no effect because everything is recorded.
    pub fn all_wins(&self) -> Option<String> {
        let besides = [
            ("names", !self.names.is_empty() || !self.topics.is_empty()),
            ("--regex", self.regex.is_some()),
            ("--topic-types", !self.topic_types.is_empty()),
        ];
        let given: Vec<_> = besides.iter().filter(|(_, is)| *is).map(|(what, _)| *what).collect();
        let given = given.join(" and ");
        (self.all && !given.is_empty())
            .then(|| format!("--all records everything: {given} beside it change nothing"))
    }

    /// When to stop.
    ///
    /// # Errors
    /// If it is no duration above zero.
    pub fn stop_after(&self) -> Result<Option<Duration>, CliError> {
        parsed("duration", self.duration.as_ref(), parse::duration_above_zero)
    }

    /// How to record.
    ///
    /// # Errors
    /// If a value makes no sense; the message names its key.
    pub fn options(&self) -> Result<RecorderOptions, CliError> {
        let size = |key, text: &Option<String>| parsed(key, text.as_ref(), parse::size_bytes);
        let time =
            |key, text: &Option<String>| parsed(key, text.as_ref(), parse::duration_above_zero);
        let defaults = RecorderOptions::default();
        let none = "none".to_owned();
        let preset = self.preset.as_ref().unwrap_or(&none);
        let preset = preset_of(preset).map_err(|why| wrong("preset", why))?;
        if self.delete_pushed && self.push.is_none() {
            return Err(wrong("delete-pushed", "needs --push"));
        }
        let files = parsed("max-bag-files", self.max_bag_files.as_ref(), count)?;
        let action = self.low_free_space_action.as_ref();
        self.database()?;
        Ok(RecorderOptions {
            cache_bytes_max: size("max-cache-size", &self.max_cache_size)?
                .unwrap_or_else(livebag::cache_bytes_available),
            overflow: parsed("overflow", self.overflow.as_ref(), overflow)?.unwrap_or_default(),
            topics: self.rules()?,
            metadata: self.metadata()?,
            split: SplitRules {
                bytes_max: size("max-bag-size", &self.max_bag_size)?.filter(|bytes| *bytes > 0),
                duration_max: time("max-bag-duration", &self.max_bag_duration)?,
            },
            retention: Retention {
                splits_max: files,
                bytes_max: size("max-total-size", &self.max_total_size)?,
                age_max: time("max-age", &self.max_age)?,
                free_bytes_min: size("min-free-space", &self.min_free_space)?.unwrap_or_default(),
                low_space: parsed("low-free-space-action", action, low_space)?.unwrap_or_default(),
                released_only: self.delete_pushed,
            },
            snapshot: match (self.snapshot_mode, &self.snapshot_duration) {
                (true, duration) => {
                    Some(SnapshotRing { duration_max: time("snapshot-duration", duration)? })
                }
                (false, None) => None,
                (false, Some(_)) => {
                    return Err(wrong("snapshot-duration", "needs --snapshot-mode"));
                }
            },
            start_paused: self.start_paused,
            sync_interval: time("sync-interval", &self.sync_interval)?.or(preset.sync_interval),
            compression: self.compression(preset.compression)?,
            checksum: self.checksum || preset.checksum,
            schedule: parsed("schedule", self.schedule.as_ref(), schedule)?.unwrap_or_default(),
            ..defaults
        })
    }

    fn compression(&self, preset: ChunkCompression) -> Result<ChunkCompression, CliError> {
        let level = self.compression_level.as_ref();
        let threads = self.compression_threads.as_ref();
        let chosen = ChunkCompression {
            compression: parsed("compression", self.compression.as_ref(), compression)?
                .unwrap_or(preset.compression),
            level: parsed("compression-level", level, compression_level)?.unwrap_or(preset.level),
            threads: parsed("compression-threads", threads, compression_threads)?.unwrap_or(0),
        };
        if level.is_some() && chosen.compression != Compression::Zstd {
            return Err(wrong("compression-level", "needs --compression zstd"));
        }
        if threads.is_some() && chosen.compression == Compression::None {
            return Err(wrong("compression-threads", "needs --compression lz4 or zstd"));
        }
        Ok(chosen)
    }

    fn rules(&self) -> Result<TopicRules, CliError> {
        let mut rules = Vec::new();
        for text in &self.rule {
            rules.push(rule(text).map_err(|why| wrong("rule", why))?);
        }
        for text in &self.throttle {
            let (topic, hz) = pair("throttle", text)?;
            let rate_max_hz = Some(rate(hz).map_err(|why| wrong("throttle", why))?);
            rules
                .push(TopicRule::named(topic, TopicSettings { rate_max_hz, ..Default::default() }));
        }
        let latched = TopicSettings { latched: true, ..Default::default() };
        rules.extend(self.repeat_latched.iter().map(|topic| TopicRule::named(topic, latched)));
        Ok(TopicRules(rules))
    }

    fn metadata(&self) -> Result<Vec<MetadataEntry>, CliError> {
        let mut entries = Vec::new();
        let distro = std::env::var("ROS_DISTRO").ok().filter(|name| !name.is_empty());
        if let Some(distro) = distro.filter(|_| self.network.ros2.is_some()) {
            let values = [("ros_distro".to_owned(), distro)].into();
            entries.push(MetadataEntry { name: "rosbag2".to_owned(), values });
        }
        if self.custom_data.is_empty() {
            return Ok(entries);
        }
        let mut entry = MetadataEntry { name: "custom_data".into(), ..MetadataEntry::default() };
        for text in &self.custom_data {
            let (key, value) = pair("custom-data", text)?;
            entry.values.insert(key.to_owned(), value.to_owned());
        }
        entries.push(entry);
        Ok(entries)
    }
}

/// Whether the command line sets this option.
fn is_given(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

/// Sizes, times and counts may be without quotes in a profile.
fn as_typed(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::String(number.to_string()),
        Value::Array(items) => Value::Array(items.into_iter().map(as_typed).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
