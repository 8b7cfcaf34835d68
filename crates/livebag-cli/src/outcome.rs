//! How a verb ends, and its exit code.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use livebag_format::container::ManifestError;

/// The exit codes of every verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it.
    Done = 0,
    /// Not done, or ended early.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// Done, but messages were lost on the way.
    Loss = 3,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome as u8)
    }
}

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CliError {
    /// The command line makes no sense, in a way that clap cannot see.
    #[error("{0}")]
    Usage(String),
    /// Anything else, in words: what, why, what to do.
    #[error("{0}")]
    Failed(String),
    /// A container could not be read.
    #[error("{0}{hint}", hint = bag_hint(.0))]
    Container(#[from] livebag::ContainerError),
    /// A recording could not be checked.
    #[error("{0}{hint}", hint = verify_hint(.0))]
    Verify(#[from] livebag_bags::VerifyError),
    /// A container could not be written.
    #[error(transparent)]
    Record(#[from] livebag::RecordError),
    /// A recording of another make could not be read, or written.
    #[error("{0}{hint}", hint = convert_hint(.0))]
    Convert(#[from] livebag_bags::ConvertError),
    /// Nothing can be served.
    #[cfg(feature = "http")]
    #[error(transparent)]
    Catalog(#[from] livebag_net::CatalogError),
    /// A server did not answer as was asked.
    #[error("{0}{hint}", hint = remote_hint(.0))]
    Remote(#[from] livebag_net::remote::RemoteError),
    /// Zenoh does not serve or answer.
    #[error("{0}{hint}", hint = zenoh_hint(.0))]
    Zenoh(#[from] livebag_net::zenoh::ZenohError),
    /// There is no server.
    #[cfg(feature = "http")]
    #[error(transparent)]
    Serve(#[from] livebag_net::ServeError),
    /// A stream could not be listed.
    #[error(transparent)]
    Streams(#[from] livebag_shm::ListError),
    /// A file refused something.
    #[error("{doing} {} failed: {source}{}", path.display(), hint(doing, source))]
    File {
        /// The operation.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The reader of standard output has gone (`livebag query … | head`).
    #[error("standard output is closed")]
    OutputClosed,
    /// Standard output does not take more.
    #[error("writing to standard output failed: {0}")]
    Output(io::Error),
}

fn hint(doing: &str, error: &io::Error) -> &'static str {
    match error.kind() {
        // These cures are for writing.
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied if doing == "reading" => "",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " (the disk is full: free some space, or write elsewhere)"
        }
        io::ErrorKind::PermissionDenied => {
            " (no right to write there: choose another folder, or change its owner)"
        }
        io::ErrorKind::ReadOnlyFilesystem => " (mounted read-only: write elsewhere)",
        io::ErrorKind::NotFound => " (make the folder first: mkdir -p)",
        _ => "",
    }
}

fn bag_hint(error: &livebag::ContainerError) -> &'static str {
    match error {
        livebag::ContainerError::Manifest { source: ManifestError::Yaml(_), .. } => {
            "\nlivebag: `livebag recover` makes it anew from the recording's other files"
        }
        _ => "",
    }
}

fn verify_hint(error: &livebag_bags::VerifyError) -> String {
    match error {
        livebag_bags::VerifyError::Convert(error @ livebag_bags::ConvertError::NotBuilt { .. }) => {
            convert_hint(error)
        }
        _ => String::new(),
    }
}

fn remote_hint(error: &livebag_net::remote::RemoteError) -> String {
    match error {
        livebag_net::remote::RemoteError::NotBuilt => crate::features::cure("http"),
        _ => String::new(),
    }
}

fn zenoh_hint(error: &livebag_net::zenoh::ZenohError) -> String {
    match error {
        livebag_net::zenoh::ZenohError::NotBuilt => crate::features::cure("zenoh"),
        _ => String::new(),
    }
}

fn convert_hint(error: &livebag_bags::ConvertError) -> String {
    match error {
        // Reading fails for other reasons, which need no cure of the disk's.
        livebag_bags::ConvertError::Io { action, source, .. } if *action != "open" => {
            hint("writing", source).to_owned()
        }
        livebag_bags::ConvertError::NotBuilt { .. } => crate::features::cure("sqlite3"),
        _ => String::new(),
    }
}

impl CliError {
    /// A file refused something.
    pub fn file(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File { doing, path: path.to_owned(), source }
    }

    /// A failure in words.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// A wrong usage in words.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// Prints the error on standard error, and returns its exit code.
    pub fn report(&self) -> Outcome {
        match self {
            Self::OutputClosed => return Outcome::Done,
            Self::Usage(text) => {
                complain!("livebag: {text}");
                complain!("livebag: `livebag help` lists the verbs, and every verb has --help");
                return Outcome::Usage;
            }
            _ => complain!("livebag: {self}"),
        }
        Outcome::Failed
    }
}

/// Only standard output is written with `?`; everything else names its file.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Output(error),
        }
    }
}

impl From<serde_json::Error> for CliError {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}
