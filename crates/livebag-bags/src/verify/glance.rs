//! The kind of a folder or file, without reading all of it.

use std::path::Path;

use livebag_format::container::CONTAINER_FILE;
use livebag_format::mcap::MAGIC as MCAP_MAGIC;

use super::{RecordingKind, is_container};
use crate::{ConvertError, METADATA_FILE};
use livebag::internal::{is_being_written, warning_of_missing};
use livebag::{Container, ContainerError, ContainerState, ContainerTopic};
use livebag::{KernelDisk, ReadDisk};

/// How a recording ended, as far as visible without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlanceState {
    /// A recorder is writing it.
    Live,
    /// Closed in order.
    Closed,
    /// Its recorder died, and it has been recovered since.
    Recovered,
    /// Not closed: its recorder died. One of another make may also be at work still.
    Crashed,
    /// Something is wrong that a crash does not explain.
    Damaged,
}

impl std::fmt::Display for GlanceState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Live => "live",
            Self::Closed => "closed",
            Self::Recovered => "recovered",
            Self::Crashed => "crashed",
            Self::Damaged => "damaged",
        })
    }
}

/// Properties of a recording, known without reading it. Times are nanoseconds since the Unix epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Its kind.
    pub kind: RecordingKind,
    /// How it was left.
    pub state: GlanceState,
    /// The damage, if there is any.
    pub problem: Option<String>,
    /// Unusual, but not wrong.
    pub note: Option<String>,
    /// Log time of the first message; of an empty container when recording began.
    pub start_nanos: Option<u64>,
    /// From the first message to the last.
    pub duration_nanos: Option<u64>,
    /// Messages.
    pub message_count: Option<u64>,
    /// Events; `None` where the recording would have to be read for them.
    pub event_count: Option<u64>,
}

impl Glance {
    fn new(kind: RecordingKind, state: GlanceState) -> Self {
        Self {
            kind,
            state,
            problem: None,
            note: None,
            start_nanos: None,
            duration_nanos: None,
            message_count: None,
            event_count: None,
        }
    }

    fn troubled(kind: RecordingKind, state: GlanceState, problem: impl ToString) -> Self {
        // The first line: YAML errors go on with an excerpt.
        let problem = problem.to_string().lines().next().map(str::to_owned);
        Self { problem, ..Self::new(kind, state) }
    }

    fn with_times(mut self, times: Option<(u64, u64)>) -> Self {
        self.start_nanos = times.map(|(start, _)| start);
        self.duration_nanos = times.map(|(start, end)| end.saturating_sub(start));
        self
    }
}

/// Examines a file or folder; `None` if it is no recording. Nothing is changed, and the cost does not grow with the
/// recording, but for ROS 1 bags that were not closed.
pub fn glance(path: &Path) -> Option<Glance> {
    if path.is_dir() { glance_at_directory(path) } else { glance_at_file(path) }
}

fn glance_at_directory(path: &Path) -> Option<Glance> {
    if is_container(&KernelDisk::for_reading(), path) {
        return Some(glance_at_container(path));
    }
    let kind = RecordingKind::Rosbag2;
    if !is_rosbag2(path) {
        return None;
    }
    Some(match crate::read_metadata(path) {
        Ok(Some(told)) => {
            let times = (told.message_count > 0).then_some(told.starting_time_nanos);
            let times = times.map(|start| (start, start.saturating_add(told.duration_nanos)));
            let glance = Glance::new(kind, GlanceState::Closed).with_times(times);
            let message_count = Some(told.message_count);
            let is_missing = |file: &&String| crate::standing_for(&path.join(file)).is_none();
            let missing = told.relative_file_paths.iter().find(is_missing);
            match missing {
                None => Glance { message_count, ..glance },
                Some(file) => Glance {
                    state: GlanceState::Damaged,
                    problem: Some(format!("{file} is missing")),
                    message_count,
                    ..glance
                },
            }
        }
        Ok(None) if is_being_written(&KernelDisk::for_reading(), path).unwrap_or(false) => {
            Glance::new(kind, GlanceState::Live)
        }
        Ok(None) => Glance::troubled(kind, GlanceState::Crashed, "it has no metadata.yaml"),
        Err(error) => Glance::troubled(kind, GlanceState::Damaged, error),
    })
}

/// Whether rosbag2 made the folder: it has `metadata.yaml`, or files named after it.
fn is_rosbag2(path: &Path) -> bool {
    if path.join(METADATA_FILE).is_file() {
        return true;
    }
    let own = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    crate::files_in(path).is_ok_and(|files| {
        files.iter().any(|file| {
            let plain = crate::plain_name(file);
            let stem = plain.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            // rosbags leaves the number out.
            let number = stem.strip_prefix(&own).and_then(|rest| rest.strip_prefix('_'));
            stem == own || number.is_some_and(|number| number.parse::<u32>().is_ok())
        })
    })
}

fn glance_at_container(path: &Path) -> Glance {
    let kind = RecordingKind::Container;
    let bag = match Container::peek(path) {
        Ok(bag) => bag,
        Err(ContainerError::NotAContainer(_)) => {
            let problem = format!("{CONTAINER_FILE} is missing");
            return Glance::troubled(kind, GlanceState::Damaged, problem);
        }
        Err(error) => return Glance::troubled(kind, GlanceState::Damaged, error),
    };
    let state = match bag.state() {
        ContainerState::Live => GlanceState::Live,
        ContainerState::Closed => GlanceState::Closed,
        ContainerState::Recovered => GlanceState::Recovered,
        ContainerState::Unrecovered => GlanceState::Crashed,
    };
    let counts = bag.topics().iter().map(ContainerTopic::message_count);
    let look = || Ok((counts.sum::<Result<u64, _>>()?, bag.time_range()?, bag.missing()?));
    let looked: Result<_, ContainerError> = look();
    match looked {
        Ok((count, times, missing)) => Glance {
            message_count: Some(count),
            event_count: bag.events().ok().map(|events| events.len() as u64),
            problem: warning_of_missing(missing)
                .or_else(|| bag.failure().map(|failure| format!("ended early: {failure}"))),
            ..Glance::new(kind, if missing > 0 { GlanceState::Damaged } else { state })
                .with_times(times.or(Some((bag.started_nanos(), 0))))
        },
        Err(error) => Glance::troubled(kind, GlanceState::Damaged, error),
    }
}

fn glance_at_file(path: &Path) -> Option<Glance> {
    let mut head = [0; 16];
    let file = KernelDisk::for_reading().open(path).ok()?;
    let count = file.read_at(&mut head, 0).ok()?;
    let extension = path.extension().unwrap_or_default();
    if head[..count].starts_with(&MCAP_MAGIC) || extension == "mcap" {
        return Some(glance_at_mcap(path));
    }
    if crate::is_compressed(path) {
        // Counting would mean to unpack it.
        let plain = crate::plain_name(path);
        let is_bag = plain.extension().is_some_and(|e| e == "mcap" || e == "db3");
        let is_whole = head[..count].starts_with(&crate::ZSTD_MAGIC);
        let kind = RecordingKind::of_file(path);
        return is_bag.then(|| match is_whole {
            true => Glance::new(kind, GlanceState::Closed),
            false => Glance::troubled(kind, GlanceState::Damaged, "it is not compressed with zstd"),
        });
    }
    let kind = if head.starts_with(b"SQLite format 3\0") && extension == "db3" {
        RecordingKind::Sqlite3
    } else if head.starts_with(b"#ROSBAG") {
        RecordingKind::Ros1Bag
    } else {
        return None;
    };
    let source = match crate::open_foreign(path) {
        Ok(source) => source,
        Err(error) => return Some(Glance::troubled(kind, GlanceState::Damaged, error)),
    };
    let problem = source.warnings().iter().find(|warning| !source.notes().contains(warning));
    let state = if problem.is_none() { GlanceState::Closed } else { GlanceState::Crashed };
    Some(Glance {
        problem: problem.cloned(),
        note: source.notes().first().cloned(),
        start_nanos: source.start_time_nanos(),
        message_count: source.message_count(),
        ..Glance::new(kind, state)
    })
}

fn glance_at_mcap(path: &Path) -> Glance {
    let kind = RecordingKind::Mcap;
    match crate::mcap_summary(path) {
        Ok(crate::McapSummary { count, times, problem: None, note }) => {
            Glance { message_count: count, note, ..Glance::new(kind, GlanceState::Closed) }
                .with_times(times)
        }
        Ok(crate::McapSummary { problem: Some((is_cut, problem)), .. }) => {
            let state = if is_cut { GlanceState::Crashed } else { GlanceState::Damaged };
            Glance::troubled(kind, state, problem)
        }
        Err(ConvertError::Damaged { reason, .. }) => {
            Glance::troubled(kind, GlanceState::Damaged, reason)
        }
        Err(error) => Glance::troubled(kind, GlanceState::Damaged, error),
    }
}
