//! State of a directory as a container: live, closed, or left by a recorder that died.
//!
//! Only this module decides on opening and repairing; `query` then reads what there is.

use std::io;
use std::path::Path;

use livebag_format::container::{CONTAINER_FILE, LOCK_FILE, Manifest, State};

use crate::storage::{Disk, ReadDisk};

pub(crate) mod events;
mod names;
mod recovery;
mod state;
mod summary;
pub(crate) mod unpack;

pub use events::{EventError, add_event};
pub(crate) use names::FileNames;
use recovery::manifest;
pub(crate) use recovery::read_owner;
pub use recovery::says_the_same;
pub use state::{ContainerError, ContainerState};
pub(crate) use summary::write_summary;

pub(crate) fn read_manifest(disk: &dyn ReadDisk, path: &Path) -> Result<Manifest, ContainerError> {
    let file = path.join(CONTAINER_FILE);
    let bytes = disk.read(&file).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound if !is_there(disk, path) => {
            ContainerError::NotFound(path.to_owned())
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            ContainerError::NotAContainer(path.to_owned())
        }
        _ => ContainerError::Io { path: file.clone(), source },
    })?;
    let text = String::from_utf8_lossy(&bytes);
    Manifest::parse(&text)
        .map_err(|source| ContainerError::Manifest { path: path.to_owned(), source })
}

/// Whether there is a directory, perhaps one that must not be listed.
fn is_there(disk: &dyn ReadDisk, path: &Path) -> bool {
    !matches!(disk.list(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

/// One split, opened.
pub(crate) struct Opened {
    pub state: ContainerState,
    pub manifest: Manifest,
    /// Whether its files have been repaired for this.
    pub is_mended: bool,
}

impl Opened {
    fn unchanged(state: ContainerState, manifest: Manifest) -> Self {
        Self { state, manifest, is_mended: false }
    }
}

/// One split; recovers it if its recorder died.
pub(crate) fn settled(disk: &dyn Disk, path: &Path) -> Result<Opened, ContainerError> {
    match read_manifest(disk, path) {
        Ok(manifest) => match manifest.state {
            State::Closed => Ok(Opened::unchanged(ContainerState::Closed, manifest)),
            State::Recovered => Ok(Opened::unchanged(ContainerState::Recovered, manifest)),
            State::Recording => recovery::settle(disk, path, false),
        },
        // Only a power cut leaves a damaged manifest.
        Err(error)
            if !recovery::kernel_survived(disk, path) && manifest::can_help(disk, path, &error) =>
        {
            recovery::settle(disk, path, false)
        }
        Err(error) => Err(error),
    }
}

/// One split, of which every brick is read from front to back, closed or not, and repaired where
/// anything has damaged it. A sound one is left as it is.
pub(crate) fn settled_thoroughly(disk: &dyn Disk, path: &Path) -> Result<Opened, ContainerError> {
    match read_manifest(disk, path) {
        Err(error) if !manifest::can_help(disk, path, &error) => Err(error),
        _ => recovery::settle(disk, path, true),
    }
}

/// The state of a split at the moment, without recovering it.
pub(crate) fn as_it_is(disk: &dyn ReadDisk, path: &Path) -> Result<Opened, ContainerError> {
    let manifest = read_manifest(disk, path)?;
    let live = is_being_written(disk, path);
    let live = live.map_err(|source| ContainerError::Io { path: path.to_owned(), source })?;
    let state = match manifest.state {
        State::Closed => ContainerState::Closed,
        State::Recovered => ContainerState::Recovered,
        State::Recording if live => ContainerState::Live,
        State::Recording => ContainerState::Unrecovered,
    };
    Ok(Opened::unchanged(state, manifest))
}

/// Whether a recorder holds the container's lock.
pub fn is_being_written(disk: &dyn ReadDisk, path: &Path) -> io::Result<bool> {
    disk.is_locked(&path.join(LOCK_FILE))
}
