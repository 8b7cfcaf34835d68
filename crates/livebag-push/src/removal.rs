//! Removing a recording from this disk after it was pushed.
//!
//! It goes whole or stays whole: first it gets a hidden name, then its files are removed. What a kill leaves behind has
//! that name, and [`finish_removals`] removes it.

use std::collections::{HashMap, HashSet};
use std::fs::{read_dir, symlink_metadata};
use std::io;
use std::path::{Path, PathBuf};

use livebag::internal::is_open_for_writing;
use livebag::{Access, Clock, Disk, KernelDisk, Lock, ReadDisk};
use livebag_format::container::{CONTAINER_FILE, LOCK_FILE};
use object_store::{Error, ObjectStoreExt};
use rustix::fs::{CWD, renameat};

use crate::error::{PushError, of_store};
use crate::journal::{is_journal, journals_beside, places};
use crate::limits::REMOVAL_DEPTH_MAX;
use crate::recording::{LOCAL_FILES, Recording, SourceFile, files_of_push};
use crate::target::Target;

/// What the hidden name of a recording ends with while it is removed.
const REMOVING: &str = ".livebag-removing";

/// Removes the files of a recording that was pushed whole, just before, from this disk.
///
/// # Errors
/// [`PushError::Kept`] if something is there that was not pushed, or another process uses the recording.
pub fn remove(recording: &Recording, target: &Target) -> Result<(), PushError> {
    let kept = |why: String| PushError::Kept { path: recording.path.clone(), why };
    let failed = |source| PushError::Removal { path: recording.path.clone(), source };
    if symlink_metadata(&recording.path).map_err(failed)?.is_symlink() {
        return Err(kept("it is a symbolic link".to_owned()));
    }
    let real = recording.path.canonicalize().map_err(failed)?;
    let disk = KernelDisk::for_reading();
    let _locks = lock_all(&disk, &real).map_err(failed)?.ok_or_else(|| {
        kept("another process records, pushes or changes it; it can be removed afterwards".into())
    })?;
    // A drive that was unmounted meanwhile has left a folder of this disk.
    target.check_folder()?;
    if shows(target, &disk, &real, recording)? {
        return Err(kept("the target is the recording's own place, by another way".to_owned()));
    }
    if let Some(why) = why_not(&disk, &real, recording).map_err(failed)? {
        return Err(kept(why));
    }
    if real.is_dir() {
        // Of a recording that had this name before.
        finish_removal(&real).map_err(failed)?;
        let hidden = hidden_name(&real);
        renameat(CWD, &real, CWD, &hidden).map_err(|error| failed(error.into()))?;
        disk.sync_dir(hidden.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
        remove_folder(&disk, &hidden, 0).map_err(failed)
    } else {
        disk.remove_in_steps(&real, &|| false).map_err(failed)?;
        let journals = journals_beside(&real).map_err(failed)?;
        journals.iter().try_for_each(|journal| disk.remove(journal)).map_err(failed)
    }
}

/// Whether the target shows what is made in the recording's place: a gateway or a mount of the same disk, and no copy.
fn shows(
    target: &Target,
    disk: &KernelDisk,
    real: &Path,
    recording: &Recording,
) -> Result<bool, PushError> {
    let failed = |source| PushError::Removal { path: recording.path.clone(), source };
    let (probe, _) = places(real, &format!("probe {}", Clock::system().wall_nanos()), "")?;
    let name = probe.file_name().unwrap_or_default().to_string_lossy();
    let key = if real.is_dir() { format!("{}/{name}", recording.name) } else { name.into_owned() };
    disk.create(&probe, Access::Buffered).map_err(failed)?;
    let path = target.path(&key)?;
    let asked = target.runtime.block_on(target.store.head(&path));
    disk.remove(&probe).map_err(failed)?;
    match asked {
        Ok(_) => Ok(true),
        Err(Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(of_store(target.address_of(&key), &error)),
    }
}

/// Removes what a removal that was killed has left of the recording at `path`; `false` if there is nothing.
///
/// # Errors
/// If it cannot be removed.
pub fn finish_removal(path: &Path) -> io::Result<bool> {
    let hidden = hidden_name(path);
    let is_there = symlink_metadata(&hidden).is_ok_and(|left| left.is_dir());
    if is_there {
        remove_folder(&KernelDisk::for_reading(), &hidden, 0)?;
    }
    Ok(is_there)
}

fn hidden_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}{REMOVING}"))
}

/// Removes what removals that were killed have left below a folder.
///
/// # Errors
/// If something cannot be listed or removed.
pub fn finish_removals(folder: &Path) -> io::Result<()> {
    finish_below(&KernelDisk::for_reading(), folder, 0)
}

fn finish_below(disk: &KernelDisk, folder: &Path, depth: usize) -> io::Result<()> {
    for entry in read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') && name.ends_with(REMOVING) {
            remove_folder(disk, &entry.path(), 0)?;
        } else if depth < REMOVAL_DEPTH_MAX {
            finish_below(disk, &entry.path(), depth + 1)?;
        }
    }
    Ok(())
}

/// Keeps others from adding events, recovering and pushing; `None` if one of them is at it.
fn lock_all(disk: &KernelDisk, real: &Path) -> io::Result<Option<Vec<Box<dyn Lock>>>> {
    let mut places = journals_beside(real)?;
    if real.join(CONTAINER_FILE).exists() {
        places.push(real.join(LOCK_FILE));
    }
    places.iter().map(|place| disk.lock(place)).collect()
}

/// Why the recording must stay: something in its place is not in the target, as far as this machine knows, or is still
/// being written.
fn why_not(disk: &KernelDisk, real: &Path, recording: &Recording) -> io::Result<Option<String>> {
    if let Some(path) = first_unpushed(disk, real, recording)? {
        return Ok(Some(format!("{} was not pushed, or has changed since", path.display())));
    }
    for file in recording.all_files() {
        if unless_gone(is_open_for_writing(&file.path))? {
            let file = file.path.display();
            return Ok(Some(format!("another program has {file} open for writing")));
        }
    }
    Ok(None)
}

/// Something that is not in the target.
fn first_unpushed(
    disk: &KernelDisk,
    real: &Path,
    recording: &Recording,
) -> io::Result<Option<PathBuf>> {
    let pushed: HashMap<&Path, &SourceFile> =
        recording.all_files().map(|file| (&*file.path, file)).collect();
    let is_pushed = |path: &Path| pushed.get(path).is_some_and(|file| file.is_unchanged());
    if !real.is_dir() {
        return Ok((!is_pushed(real)).then(|| real.to_owned()));
    }
    let folders: HashSet<_> = pushed.keys().filter_map(|path| path.parent()).collect();
    let manifest = recording.manifest.as_ref();
    let manifest_name = manifest.and_then(|manifest| manifest.key.rsplit('/').next());
    let of_push = manifest_name.map_or_else(Vec::new, |name| files_of_push(disk, real, name));
    let mut to_list = vec![real.to_owned()];
    while let Some(folder) = to_list.pop() {
        for entry in read_dir(&folder)? {
            let entry = entry?;
            let (path, kind, name) = (entry.path(), entry.file_type()?, entry.file_name());
            let name = name.to_string_lossy();
            if kind.is_dir() && folder == real && folders.contains(&*path) {
                to_list.push(path);
                continue;
            }
            let is_known = if folder == real && Some(&*name) == manifest_name {
                kind.is_file()
                    && manifest.is_some_and(|manifest| {
                        disk.read(&path).is_ok_and(|bytes| bytes == manifest.bytes)
                    })
            } else {
                let stays = LOCAL_FILES.contains(&&*name) || is_journal(&name);
                let stays = stays || of_push.contains(&path);
                !kind.is_dir() && (stays || kind.is_file() && is_pushed(&path))
            };
            if !is_known {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}

/// Removes a folder with its files, and one level of folders with theirs: the splits. Another process may be at the
/// same.
fn remove_folder(disk: &KernelDisk, folder: &Path, depth: usize) -> io::Result<()> {
    let entries = match read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        match depth == 0 && symlink_metadata(&path).is_ok_and(|there| there.is_dir()) {
            true => remove_folder(disk, &path, 1)?,
            false => unless_gone(disk.remove_in_steps(&path, &|| false))?,
        }
    }
    unless_gone(std::fs::remove_dir(folder))
}

fn unless_gone<T: Default>(done: io::Result<T>) -> io::Result<T> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        done => done,
    }
}
