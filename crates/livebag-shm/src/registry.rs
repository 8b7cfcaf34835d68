//! The streams of this machine.

use std::os::unix::fs::DirEntryExt as _;

use crate::error::{ListError, RemoveError};
use crate::name::{FOLDER, Name};
use crate::object::{self, LockHolder};

/// Names of all streams of this machine, in order. Some may be without a writer, damaged, or not
/// readable for this process: opening tells.
///
/// # Errors
/// When `/dev/shm` cannot be read.
pub fn list() -> Result<Vec<String>, ListError> {
    Ok(list_regions()?.into_iter().map(|(name, _)| name).collect())
}

/// The same with a number that distinguishes a region from a later one with the same name: a program that polls need
/// not open regions again.
///
/// # Errors
/// When `/dev/shm` cannot be read.
pub fn list_regions() -> Result<Vec<(String, u64)>, ListError> {
    let entries = std::fs::read_dir(FOLDER).map_err(|source| ListError { source })?;
    let mut regions = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| ListError { source })?;
        let name = entry.file_name().to_str().and_then(Name::of_file);
        regions.extend(name.map(|name| (name.as_str().to_owned(), entry.ino())));
    }
    regions.sort_unstable();
    Ok(regions)
}

/// Removes a stream that has no live writer. Readers that have it open keep it.
///
/// # Errors
/// When there is no such stream, when its writer lives, or when the right is missing.
pub fn remove(name: &str) -> Result<(), RemoveError> {
    let name = Name::new(name)?;
    let owned_name = || name.as_str().to_owned();
    let system = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => RemoveError::NotFound { name: owned_name() },
        _ => RemoveError::System { name: owned_name(), source },
    };
    let path = name.main_path();
    let fd = object::open(&path, true).map_err(|error| system(error.into()))?;
    // The lock keeps a writer from re-attaching to a region that is being removed. A reader that holds a lock, against
    // the rules, does not keep the region alive.
    if !object::lock_as_writer(&fd).map_err(system)?
        && object::lock_holder(&fd, true).map_err(system)? == LockHolder::Writer
    {
        return Err(RemoveError::LiveWriter { name: owned_name() });
    }
    if object::is_named(&fd, &path) {
        object::unlink(&name.wake_path()).map_err(|error| system(error.into()))?;
        object::unlink(&path).map_err(|error| system(error.into()))?;
    }
    Ok(())
}
