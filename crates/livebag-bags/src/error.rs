//! Errors while reading foreign recordings or writing a rosbag2 bag.

use std::io;
use std::path::{Path, PathBuf};

/// Why a recording cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The operation: `open`, `read`, …
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The refusal.
        source: io::Error,
    },
    /// Not a recording of a kind that is read.
    #[error(
        "{} is no recording that can be read: expected a ROS 1 bag (.bag), an MCAP file (.mcap), a \
         rosbag2 database (.db3) or a rosbag2 directory, found {found}",
        path.display()
    )]
    Foreign {
        /// The file or directory.
        path: PathBuf,
        /// Its apparent format.
        found: String,
    },
    /// A recording of a kind that is read, but too damaged to begin with.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The expected and the found value.
        reason: String,
    },
    /// A recording that uses something that is not read.
    #[error("{} cannot be read: {reason}", path.display())]
    Unsupported {
        /// The file or directory.
        path: PathBuf,
        /// The unsupported feature, and a remedy.
        reason: String,
    },
    /// SQLite is an optional feature, which this build has not.
    #[error("{} is a database of SQLite, and this livebag was built without SQLite", path.display())]
    NotBuilt {
        /// The file.
        path: PathBuf,
    },
    /// The bag that was to be written cannot hold this.
    #[error("cannot write {}: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// The container that was to be read cannot be.
    #[error(transparent)]
    Container(#[from] livebag::ContainerError),
    /// The container that was to be written cannot be.
    #[error(transparent)]
    Record(#[from] livebag::RecordError),
    /// A write failed before; the file ends there.
    #[error("{} was given up after an earlier write failed", path.display())]
    GivenUp {
        /// The file.
        path: PathBuf,
    },
}

impl ConvertError {
    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        ConvertError::Io { action, path: path.to_owned(), source }
    }

    pub(super) fn damaged(path: &Path, reason: impl ToString) -> Self {
        ConvertError::Damaged { path: path.to_owned(), reason: reason.to_string() }
    }

    pub(super) fn unsupported(path: &Path, reason: impl ToString) -> Self {
        ConvertError::Unsupported { path: path.to_owned(), reason: reason.to_string() }
    }
}
