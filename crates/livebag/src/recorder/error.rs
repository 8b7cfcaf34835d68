//! Why recording could not begin, or did not end well.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::bag::BagWriteError;
use crate::container::EventError;
use crate::storage::is_out_of_files;

/// Why recording could not begin, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The container's directory is there already.
    #[error(
        "{} exists already: choose another name, or remove it; livebag never overwrites a \
         recording", .0.display()
    )]
    Exists(PathBuf),
    /// The folder in which the container should be is not there.
    #[error("the folder {} does not exist: make it first (mkdir -p)", .0.display())]
    NoParent(PathBuf),
    /// The disk refused something.
    #[error("{doing} {} failed: {source}{}", path.display(), hint(source))]
    Io {
        /// The operation.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A bag of another make could not be written.
    #[error("{source}{}", source.hint())]
    Container {
        /// The operation and its error.
        source: BagWriteError,
    },
    /// The recording was closed in order, but ended early.
    #[error("the recording ended early: {0}; everything written before it is kept and readable")]
    Failed(#[source] Arc<RecordError>),
    /// The recording could not be closed: it is recovered when it is next opened.
    #[error("{closing}")]
    NotClosed {
        /// Why.
        #[source]
        closing: Arc<RecordError>,
    },
    /// The recording ended early, and could not be closed either.
    #[error("{first}; closing it failed too: {closing}")]
    FailedTwice {
        /// What ended it.
        #[source]
        first: Arc<RecordError>,
        /// Why it could not be closed.
        closing: Arc<RecordError>,
    },
    /// A thread of the recorder has panicked.
    #[error("{0} has stopped by a fault in livebag: please report it")]
    Fault(&'static str),
    /// MCAP cannot number more topics.
    #[error("a container holds at most {max} topics: record some of them elsewhere")]
    TooManyTopics {
        /// The limit.
        max: usize,
    },
    /// The process may not open the files that recording one more stream takes.
    #[error(
        "this process may have {limit} files open, too few for one more stream (each takes about {each}): raise the \
         limit, `ulimit -n` or LimitNOFILE= in systemd"
    )]
    TooManyFiles {
        /// The limit (`RLIMIT_NOFILE`).
        limit: u64,
        /// Files of one stream.
        each: u64,
    },
    /// The filesystem has less free space than was asked for.
    #[error(
        "{} has {free_bytes} B free, less than the {least_bytes} B that must stay free: free some \
         space, record elsewhere, or let old splits go (--low-free-space-action delete-oldest)",
        path.display()
    )]
    LowSpace {
        /// The recording.
        path: PathBuf,
        /// Free space.
        free_bytes: u64,
        /// Requested minimum.
        least_bytes: u64,
    },
    /// A schedule that uses the applications' cycles cannot read them.
    #[error(
        "the cycle board cannot be watched: {0}; use --schedule immediate, or fix the cause above"
    )]
    CycleBoard(#[source] livebag_shm::CycleError),
    /// An event could not be added.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The recorder's thread is gone.
    #[error("the recorder has stopped")]
    Stopped,
}

impl RecordError {
    /// The system's refusal that caused it: tells a full disk (`StorageFull`) from one that is gone (`EIO`).
    pub fn io_error(&self) -> Option<&io::Error> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Container { source } => source.io_error(),
            Self::Failed(first) | Self::FailedTwice { first, .. } => first.io_error(),
            Self::NotClosed { closing } => closing.io_error(),
            _ => None,
        }
    }
}

/// The error itself if it is not shared.
pub(super) fn not_closed(closing: Arc<RecordError>) -> RecordError {
    Arc::try_unwrap(closing).unwrap_or_else(|closing| RecordError::NotClosed { closing })
}

/// Whether the same may succeed a moment later: the error says nothing of the disk.
pub(super) fn is_passing(error: &io::Error) -> bool {
    let numbers = [libc::ENOMEM, libc::EAGAIN, libc::EINTR, libc::EBUSY];
    is_out_of_files(error) || error.raw_os_error().is_some_and(|number| numbers.contains(&number))
}

pub(super) fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " (the disk is full, or has all the files that it can have (`df -i`): free some, or record \
             elsewhere)"
        }
        io::ErrorKind::PermissionDenied => {
            " (no right to write there: choose another folder, or change its owner)"
        }
        io::ErrorKind::ReadOnlyFilesystem => " (mounted read-only: record elsewhere)",
        _ => match error.raw_os_error() {
            Some(libc::EMFILE) => {
                " (too many open files, of which every topic has some: raise the limit, `ulimit -n` or \
                 LimitNOFILE= in systemd)"
            }
            _ => "",
        },
    }
}
