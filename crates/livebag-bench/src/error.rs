//! Errors of a benchmark.

use std::path::PathBuf;

/// A benchmark that could not be run or finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A file, directory or pipe could not be used.
    #[error("{what} failed: {source}")]
    Io {
        /// The operation, with the path.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A measured system refused to be set up or to take part.
    #[error("{system} failed while {doing}: {cause}")]
    System {
        /// The system's name in the rows.
        system: &'static str,
        /// The step that failed.
        doing: &'static str,
        /// Its own words.
        cause: String,
    },
    /// A process of the benchmark died, hung or spoke out of turn.
    #[error("the {role} process {problem}")]
    Child {
        /// Which process.
        role: String,
        /// The expected and the actual result.
        problem: String,
    },
    /// The directory for recordings cannot show anything about a disk.
    #[error(
        "{path} is on {filesystem}, which is memory and not a disk; give a directory on a disk \
         with --dir"
    )]
    NotADisk {
        /// The directory.
        path: PathBuf,
        /// Its filesystem's type.
        filesystem: String,
    },
    /// Too little space for the workload.
    #[error(
        "{path} has {free_bytes} bytes free and the workload writes {needed_bytes}; free some \
         space or give another directory with --dir"
    )]
    NoSpace {
        /// The directory.
        path: PathBuf,
        /// Free bytes there.
        free_bytes: u64,
        /// Bytes that would be written.
        needed_bytes: u64,
    },
    /// Options that do not fit together.
    #[error("{0}")]
    Usage(String),
}

/// The result of everything here.
pub type Result<T> = std::result::Result<T, BenchError>;

impl BenchError {
    /// Wraps the answer of the operating system.
    pub fn io(what: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }

    /// Wraps the words of a measured system.
    pub fn system(
        system: &'static str,
        doing: &'static str,
    ) -> impl Fn(&dyn std::fmt::Display) -> Self {
        move |cause| Self::System { system, doing, cause: cause.to_string() }
    }

    /// The exit code: 1 failed, 2 usage.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::NotADisk { .. } => 2,
            _ => 1,
        }
    }
}
