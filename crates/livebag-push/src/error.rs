//! What can go wrong, in words.

use std::io;
use std::path::PathBuf;

use livebag_bucket::BucketError;

/// Why a recording was not pushed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The target's address makes no sense, or the store refused something or did not answer.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// The recording is complete in the target, and its rows are not in the catalogue there: pushing again adds them.
    #[error("{0}; the recording is in the target, and pushing it again adds it to the catalogue")]
    Catalogue(#[from] livebag_catalog::CatalogueError),
    /// The source is not a recording that can be pushed.
    #[error("{} cannot be pushed: {why}", path.display())]
    Source {
        /// The source.
        path: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// The caller ended it.
    #[error("pushing {} was interrupted: the same push goes on with it", path.display())]
    Interrupted {
        /// The recording.
        path: PathBuf,
    },
    /// A file of the recording could not be read.
    #[error("reading {} failed: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file of the recording changed while it was pushed.
    #[error("{} changed while it was pushed: push the recording again when nothing writes it", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The journal could not be written.
    #[error("the journal {} of this push cannot be written: {source}", path.display())]
    Journal {
        /// The journal.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another process pushes the same recording to the same target.
    #[error("{} is being pushed to the same target by another process: wait for it, or end it", path.display())]
    AlreadyRunning {
        /// The recording.
        path: PathBuf,
    },
    /// The target has another recording of this name, whole or begun.
    #[error(
        "{address} belongs to another recording ({why}): push this one under another name, with --name"
    )]
    Another {
        /// Where.
        address: String,
        /// What was found.
        why: String,
    },
    /// What is stored differs from the recording, although its manifest is the same.
    #[error(
        "{address} differs from {}, and the recording there is complete: nothing was replaced. \
         `livebag verify` finds out which of the two is damaged",
        path.display()
    )]
    Differs {
        /// The object.
        address: String,
        /// The file.
        path: PathBuf,
    },
    /// It is in the target, and was not removed from this disk.
    #[error("{} is pushed, and was not removed from this disk: {why}", path.display())]
    Kept {
        /// The recording.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// It is in the target, and could not be removed from this disk, or not all of it.
    #[error("{} is pushed; removing it from this disk failed: {source}", path.display())]
    Removal {
        /// The recording.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// What is stored is not what was sent.
    #[error(
        "{address} is not what was sent, after {sends} attempts: {found}. The recording does not count as pushed"
    )]
    NotVerified {
        /// The object.
        address: String,
        /// How often it was sent.
        sends: usize,
        /// What the store has.
        found: String,
    },
}

/// What a store's error means for `address`.
pub fn of_store(address: impl Into<String>, error: &object_store::Error) -> PushError {
    BucketError::of_store(address, error).into()
}
