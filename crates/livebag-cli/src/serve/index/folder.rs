//! Where copies lie: a folder that the user names, or a temporary one that goes with its process.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;

use crate::outcome::CliError;

/// Temporary folders are called so, and then by the number of their process.
const PREFIX: &str = "livebag-index-";
/// Folders that processes with one number may have: each container has a process 1.
const NAMES_MAX: u32 = 100;

/// The folder. A temporary one is removed with it.
pub struct Folder {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    /// The user's: it stays.
    Kept,
    /// A temporary one that is made when it is needed.
    Unmade,
    /// A temporary one, and its lock: nobody holds that of a server that was killed.
    Made { _lock: Option<File> },
}

impl Folder {
    /// The one that the user names, or a temporary one; then what killed servers left is removed first.
    pub fn new(named: Option<&Path>) -> Self {
        if let Some(path) = named {
            return Self { path: path.to_owned(), kind: Kind::Kept };
        }
        let parent = std::env::temp_dir();
        remove_leftovers(&parent);
        let name = format!("{PREFIX}{}", std::process::id());
        Self { path: parent.join(name), kind: Kind::Unmade }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it goes at the end.
    pub fn is_temporary(&self) -> bool {
        !matches!(self.kind, Kind::Kept)
    }

    /// Makes it, unless it is there.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make(&mut self) -> Result<(), CliError> {
        match self.kind {
            Kind::Made { .. } => Ok(()),
            Kind::Kept => DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&self.path)
                .map_err(|source| CliError::file("making", &self.path, source)),
            Kind::Unmade => {
                let name = self.path.clone();
                for number in 0..NAMES_MAX {
                    if number > 0 {
                        self.path.clone_from(&name);
                        self.path.as_mut_os_string().push(format!("-{number}"));
                    }
                    match make_locked(&self.path) {
                        Ok(None) => {}
                        Ok(Some(lock)) => {
                            self.kind = Kind::Made { _lock: lock };
                            return Ok(());
                        }
                        Err(source) => return Err(CliError::file("making", &self.path, source)),
                    }
                }
                Err(CliError::failed(format!("{} and {NAMES_MAX} more are taken", name.display())))
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if matches!(self.kind, Kind::Made { .. })
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            say!("livebag: warning: removing {} failed: {error}", self.path.display());
        }
    }
}

/// A new folder and its lock, if the filesystem has locks; `None` if somebody else has that name.
fn make_locked(path: &Path) -> io::Result<Option<Option<File>>> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        Err(error) => return Err(error),
    }
    let Ok(folder) = opened(path) else { return Ok(None) };
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        // Another server took the folder for a leftover.
        Err(Errno::WOULDBLOCK) => Ok(None),
        Ok(()) if !path.exists() => Ok(None),
        locked => Ok(Some(locked.is_ok().then_some(folder))),
    }
}

fn opened(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(open(path, flags, Mode::empty())?))
}

/// Removes temporary folders of this user whose servers are no more.
fn remove_leftovers(parent: &Path) {
    let entries = parent.read_dir().into_iter().flatten().filter_map(Result::ok);
    for entry in entries {
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let Ok(folder) = opened(&entry.path()) else { continue };
        let user = rustix::process::geteuid().as_raw();
        let is_own = folder.metadata().is_ok_and(|metadata| metadata.uid() == user);
        if is_own && flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            match std::fs::remove_dir_all(entry.path()) {
                Ok(()) => say!(
                    "livebag: removed {}, the copies of a server that was killed",
                    entry.path().display()
                ),
                Err(error) => {
                    say!("livebag: warning: removing {} failed: {error}", entry.path().display());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_servers_left_is_removed_and_what_is_in_kindstays() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(name);
        let used = make_locked(&path("livebag-index-1")).unwrap();
        assert!(used.is_some() && make_locked(&path("livebag-index-1")).unwrap().is_none());
        std::fs::create_dir_all(path("livebag-index-2/run1")).unwrap();
        std::fs::create_dir(path("livebag-data")).unwrap();
        std::os::unix::fs::symlink(path("livebag-data"), path("livebag-index-3")).unwrap();
        remove_leftovers(parent.path());
        let left = ["livebag-index-1", "livebag-index-2", "livebag-index-3", "livebag-data"];
        assert_eq!(left.map(|name| path(name).exists()), [true, false, true, true]);
        drop(used);
        remove_leftovers(parent.path());
        assert!(!path("livebag-index-1").exists());
    }

    #[test]
    fn a_temporary_folder_goes_with_its_use() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("livebag-index-7");
        std::fs::create_dir(&path).unwrap();
        let mut folder = Folder { path: path.clone(), kind: Kind::Unmade };
        folder.make().unwrap();
        let other = parent.path().join("livebag-index-7-1");
        assert_eq!(folder.path(), other);
        assert!(folder.is_temporary() && other.is_dir());
        drop(folder);
        assert!(path.is_dir() && !other.exists());
    }
}
