//! Values of settings, as texts on the command line and in profiles.

use std::time::Duration;

use livebag::{
    COMPRESSION_THREADS_MAX, ChunkCompression, Compression, LowSpace, Overflow, Priority, Schedule,
    TopicRule, TopicSettings,
};
use livebag_format::rosbag2::MetadataVersion;

use crate::outcome::CliError;
use crate::parse;

/// How often the preset `resilient` makes data durable: rosbag2's own comes with every
/// transaction, a second of data at most.
const RESILIENT_SYNC_INTERVAL: Duration = Duration::from_secs(1);

pub fn wrong(key: &str, why: impl std::fmt::Display) -> CliError {
    CliError::usage(format!("{key}: {why}"))
}

pub fn parsed<T>(
    key: &str,
    text: Option<&String>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, CliError> {
    text.map(|text| parse(text).map_err(|why| wrong(key, why))).transpose()
}

/// The value of the choice with this name.
fn one_of<T: Copy, const N: usize>(text: &str, choices: [(&str, T); N]) -> Result<T, String> {
    match choices.iter().find(|(name, _)| *name == text) {
        Some((_, value)) => Ok(*value),
        None => Err(format!("`{text}` is not one of {}", choices.map(|(name, _)| name).join(", "))),
    }
}

pub fn count(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(format!("`{text}` is not a number from 1 on")),
    }
}

pub fn overflow(text: &str) -> Result<Overflow, String> {
    one_of(text, [("drop-newest", Overflow::DropNewest), ("drop-oldest", Overflow::DropOldest)])
}

fn priority(text: &str) -> Result<Priority, String> {
    let choices =
        [("critical", Priority::Critical), ("normal", Priority::Normal), ("low", Priority::Low)];
    one_of(text, choices)
}

pub fn low_space(text: &str) -> Result<LowSpace, String> {
    // rosbag2's name of it.
    let text = if text == "delete_oldest_files" { "delete-oldest" } else { text };
    one_of(text, [("stop", LowSpace::Stop), ("delete-oldest", LowSpace::DeleteOldest)])
}

/// Format of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    #[default]
    Container,
    Mcap,
    Sqlite3,
}

pub fn storage(text: &str) -> Result<Storage, String> {
    let choices =
        [("container", Storage::Container), ("mcap", Storage::Mcap), ("sqlite3", Storage::Sqlite3)];
    one_of(text, choices)
}

pub fn metadata_version(text: &str) -> Result<MetadataVersion, String> {
    let number = text.parse().ok();
    let version = number.and_then(MetadataVersion::from_number);
    version.ok_or_else(|| format!("`{text}` is not one of 5, 7, 9"))
}

pub fn schedule(text: &str) -> Result<Schedule, String> {
    one_of(text, [("immediate", Schedule::Immediate), ("cycle-aware", Schedule::CycleAware)])
}

pub fn compression(text: &str) -> Result<Compression, String> {
    let choices =
        [("none", Compression::None), ("lz4", Compression::Lz4), ("zstd", Compression::Zstd)];
    one_of(text, choices)
}

pub fn compression_level(text: &str) -> Result<i32, String> {
    let level = text.parse().ok().filter(|level| (-7..=22).contains(level));
    level.ok_or_else(|| format!("`{text}` is not a level from -7 to 22"))
}

pub fn compression_threads(text: &str) -> Result<usize, String> {
    let threads =
        text.parse().ok().filter(|threads| (0..=COMPRESSION_THREADS_MAX).contains(threads));
    threads.ok_or_else(|| format!("`{text}` is not a number from 0 to {COMPRESSION_THREADS_MAX}"))
}

/// Meaning of a preset of rosbag2's MCAP or SQLite storage.
#[derive(Clone, Copy)]
pub struct Preset {
    pub compression: ChunkCompression,
    pub checksum: bool,
    pub sync_interval: Option<Duration>,
}

pub fn preset_of(text: &str) -> Result<Preset, String> {
    let plain =
        Preset { compression: ChunkCompression::default(), checksum: false, sync_interval: None };
    let zstd = |level| ChunkCompression {
        compression: Compression::Zstd,
        level,
        ..ChunkCompression::default()
    };
    let resilient =
        Preset { checksum: true, sync_interval: Some(RESILIENT_SYNC_INTERVAL), ..plain };
    // The levels of rosbag2's MCAP storage: mcap-cpp's `fastest` is -5 of zstd, its `slowest` 19 of 22.
    let choices = [
        ("none", plain),
        ("fastwrite", plain),
        ("resilient", resilient),
        ("zstd_fast", Preset { compression: zstd(-5), ..plain }),
        ("zstd_small", Preset { compression: zstd(19), checksum: true, ..plain }),
    ];
    one_of(text, choices)
}

pub fn rate(text: &str) -> Result<f64, String> {
    match text.trim_end_matches("Hz").trim().parse() {
        Ok(hz) if hz > 0.0 && f64::is_finite(hz) => Ok(hz),
        _ => Err(format!("`{text}` is not a rate above zero in Hz")),
    }
}

pub fn pair<'a>(key: &str, text: &'a str) -> Result<(&'a str, &'a str), CliError> {
    text.split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| wrong(key, format!("`{text}` is not of the form NAME=VALUE")))
}

/// `PATTERN:key=value,…`. The last colon counts: patterns may have some.
pub fn rule(text: &str) -> Result<TopicRule, String> {
    let (pattern, settings) = text
        .rsplit_once(':')
        .ok_or_else(|| format!("`{text}` is not of the form PATTERN:KEY=VALUE,…"))?;
    let whole = format!("^(?:{pattern})$");
    let pattern = livebag::pattern(&whole).map_err(|error| error.to_string())?;
    let mut sum = TopicSettings::default();
    for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        match key {
            "overflow" => sum.overflow = Some(overflow(value)?),
            "priority" => sum.priority = Some(priority(value)?),
            "queue" => sum.bytes_max = Some(parse::size_bytes(value)?),
            "throttle" => sum.rate_max_hz = Some(rate(value)?),
            "latched" if value.is_empty() || value == "true" => sum.latched = true,
            _ => {
                return Err(format!(
                    "`{setting}` is not one of overflow=, priority=, queue=, throttle=, latched"
                ));
            }
        }
    }
    Ok(TopicRule { pattern, settings: sum })
}
