//! Checks that a recording is as it was written: every structure and every checksum.
//!
//! Nothing is changed, and no damage ends the check: it is reported, and the check continues where possible. A frame
//! from a stream has a checksum only if the recorder was asked for it: without one, the headers are checked, and the
//! frames are counted.

use std::io;
use std::path::{Path, PathBuf};

use livebag_format::container::CONTAINER_FILE;
use livebag_format::mcap::MAGIC as MCAP_MAGIC;

pub use glance::{Glance, GlanceState, glance};

use crate::ConvertError;
use livebag::{ContainerError, ContainerState};
use livebag::{KernelDisk, ReadDisk};

mod container;
mod foreign;
mod glance;
mod index;
mod mcap_file;
mod mcap_summary;

/// Damages that are listed; the others are only counted.
const DAMAGES_MAX: usize = 1000;

/// The format of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingKind {
    /// A directory of livebag's.
    Container,
    /// An MCAP file.
    Mcap,
    /// A directory of rosbag2's.
    Rosbag2,
    /// A database of rosbag2's.
    Sqlite3,
    /// A ROS 1 bag.
    Ros1Bag,
}

impl RecordingKind {
    /// The kind of a file by its name, with or without compression of the whole file (`.zstd`).
    pub fn of_file(path: &Path) -> Self {
        let plain = crate::plain_name(path);
        match plain.extension().and_then(|extension| extension.to_str()) {
            Some("db3") => Self::Sqlite3,
            Some("bag") => Self::Ros1Bag,
            _ => Self::Mcap,
        }
    }
}

impl std::fmt::Display for RecordingKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Container => "container",
            Self::Mcap => "MCAP file",
            Self::Rosbag2 => "rosbag2 bag",
            Self::Sqlite3 => "rosbag2 database",
            Self::Ros1Bag => "ROS 1 bag",
        })
    }
}

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// Where in the file, if it is at one place.
    pub offset: Option<u64>,
    /// The expected and the found value.
    pub what: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "{} at byte {offset}: {}", self.file.display(), self.what),
            None => write!(f, "{}: {}", self.file.display(), self.what),
        }
    }
}

/// Checks made, and damage found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Its kind.
    pub kind: RecordingKind,
    /// How a container was left.
    pub state: Option<ContainerState>,
    /// Files checked.
    pub files: u64,
    /// Length of those.
    pub bytes: u64,
    /// Messages found.
    pub messages: u64,
    /// Checksums compared.
    pub checksums: u64,
    /// Messages without a checksum: their headers fit, their bytes cannot be proven.
    pub unproven_messages: u64,
    /// Damage, at most a thousand items.
    pub damage: Vec<Damage>,
    /// How much is damaged.
    pub damage_count: u64,
    /// Unusual, but not damaged; at most a thousand items.
    pub warnings: Vec<Damage>,
}

impl Verified {
    fn new(kind: RecordingKind) -> Self {
        Self {
            kind,
            state: None,
            files: 0,
            bytes: 0,
            messages: 0,
            checksums: 0,
            unproven_messages: 0,
            damage: Vec::new(),
            damage_count: 0,
            warnings: Vec::new(),
        }
    }

    /// Whether nothing is damaged.
    pub fn is_whole(&self) -> bool {
        self.damage_count == 0
    }
}

/// Why a recording cannot be checked at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// It is no container, or cannot be opened.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// It is no recording, or cannot be opened.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// The disk refused.
    #[error("reading {} failed: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Progress of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Bytes of files checked.
    pub bytes: u64,
    /// Bytes of all files.
    pub bytes_total: u64,
}

/// A check under way.
struct Check<'a> {
    disk: &'a dyn ReadDisk,
    verified: Verified,
    progress: VerifyProgress,
    on_progress: &'a mut dyn FnMut(&VerifyProgress),
}

impl<'a> Check<'a> {
    fn new(
        disk: &'a dyn ReadDisk,
        kind: RecordingKind,
        bytes_total: u64,
        on_progress: &'a mut dyn FnMut(&VerifyProgress),
    ) -> Self {
        let progress = VerifyProgress { bytes: 0, bytes_total };
        Self { disk, verified: Verified::new(kind), progress, on_progress }
    }

    fn damage(&mut self, file: &Path, offset: impl Into<Option<u64>>, what: impl Into<String>) {
        self.verified.damage_count += 1;
        if self.verified.damage.len() < DAMAGES_MAX {
            let damage = Damage { file: file.to_owned(), offset: offset.into(), what: what.into() };
            self.verified.damage.push(damage);
        }
    }

    /// Notes something unusual in a sound file.
    fn warn(&mut self, file: &Path, offset: impl Into<Option<u64>>, what: impl Into<String>) {
        if self.verified.warnings.len() < DAMAGES_MAX {
            let warning =
                Damage { file: file.to_owned(), offset: offset.into(), what: what.into() };
            self.verified.warnings.push(warning);
        }
    }

    fn begin_file(&mut self, bytes: u64) {
        self.verified.files += 1;
        self.verified.bytes += bytes;
    }

    /// `bytes` more have been checked.
    fn advance(&mut self, bytes: u64) {
        self.progress.bytes += bytes;
        (self.on_progress)(&self.progress);
    }
}

/// Checks a container, an MCAP file, a rosbag2 directory or database, or a ROS 1 bag.
///
/// # Errors
/// If there is nothing that can be checked, or the disk refuses to read. Damage is no error: see
/// [`Verified::damage`].
pub fn verify(
    path: &Path,
    on_progress: &mut dyn FnMut(&VerifyProgress),
) -> Result<Verified, VerifyError> {
    let disk = KernelDisk::for_reading();
    if path.is_dir() && is_container(&disk, path) {
        return container::check(&disk, path, on_progress);
    }
    if path.is_dir() {
        return foreign::check_directory(&disk, path, on_progress);
    }
    foreign::check_file(&disk, path, &crate::open_foreign, on_progress)
}

/// Checks a container, an MCAP file or a ROS 1 bag on any disk.
///
/// # Errors
/// As [`verify`].
pub fn verify_on(
    disk: &dyn ReadDisk,
    path: &Path,
    on_progress: &mut dyn FnMut(&VerifyProgress),
) -> Result<Verified, VerifyError> {
    if is_container(disk, path) {
        return container::check(disk, path, on_progress);
    }
    let open = |path: &Path| crate::open_foreign_on(disk, path);
    // Some kinds of files cannot be checked there, which this says.
    match open(path) {
        Err(error @ ConvertError::Unsupported { .. }) => Err(error.into()),
        _ => foreign::check_file(disk, path, &open, on_progress),
    }
}

/// Whether a directory has what only a container has.
fn is_container(disk: &dyn ReadDisk, path: &Path) -> bool {
    let is_ours = |file: &PathBuf| {
        file.file_name().is_some_and(|name| name == CONTAINER_FILE)
            || file.extension().is_some_and(|extension| extension == "idx")
    };
    disk.list(path).is_ok_and(|files| files.iter().any(is_ours))
}

/// Whether a file begins as an MCAP does, or is called one.
fn is_mcap(path: &Path, head: &[u8]) -> bool {
    head.starts_with(&MCAP_MAGIC) || path.extension().is_some_and(|extension| extension == "mcap")
}
