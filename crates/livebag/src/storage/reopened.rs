//! Files open for reading, of which a process has a limited number open at a time.
//!
//! A recording may have more files than a process may open. Beyond the limit the file that was opened first is closed,
//! and opened again when it is next read.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::process::{Resource, getrlimit};

use super::kernel::KernelFile;
use super::{KernelDisk, Mapping, ReadFile, is_out_of_files};
use crate::limits::READ_FILES_MAX;

/// Files of all readers of this process, in the order in which they were opened. Some may be closed.
static OPEN: Mutex<VecDeque<Weak<ReopenedFile>>> = Mutex::new(VecDeque::new());

/// See the module's text.
pub(super) struct ReopenedFile {
    disk: KernelDisk,
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    open: Mutex<Option<Arc<KernelFile>>>,
}

impl ReopenedFile {
    pub fn open(disk: &KernelDisk, path: &Path) -> io::Result<Arc<Self>> {
        let (file, identity) = open_now(disk, path)?;
        let file = Arc::new(Self {
            disk: disk.clone(),
            // The process may change its directory.
            path: std::path::absolute(path)?,
            identity,
            open: Mutex::new(Some(file)),
        });
        note(&file);
        Ok(file)
    }

    fn file(self: &Arc<Self>) -> io::Result<Arc<KernelFile>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &*open {
            return Ok(file.clone());
        }
        let (file, identity) = open_now(&self.disk, &self.path)?;
        if identity != self.identity {
            let what = "it was replaced while it was read: open the recording again";
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        *open = Some(file.clone());
        drop(open);
        note(self);
        Ok(file)
    }

    fn close(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn open_now(disk: &KernelDisk, path: &Path) -> io::Result<(Arc<KernelFile>, (u64, u64))> {
    let file = match disk.open_file(path) {
        Err(error) if is_out_of_files(&error) => {
            close_beyond(0);
            disk.open_file(path)?
        }
        file => file?,
    };
    let meta = file.metadata()?;
    Ok((Arc::new(KernelFile::new(file)), (meta.dev(), meta.ino())))
}

/// Counts a file that was opened, and closes the oldest if there are too many.
fn note(file: &Arc<ReopenedFile>) {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).push_back(Arc::downgrade(file));
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    close_beyond(READ_FILES_MAX.min((limit / 4) as usize));
}

fn close_beyond(count: usize) {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if open.len() <= count {
        return;
    }
    // Most readers have closed theirs.
    open.retain(|file| file.strong_count() > 0);
    let surplus = open.len().saturating_sub(count);
    let oldest: Vec<_> = open.drain(..surplus).collect();
    // A reader that opens a file holds that file's lock, and not this one.
    drop(open);
    oldest.iter().filter_map(Weak::upgrade).for_each(|file| file.close());
}

/// The same as a file to be read.
pub(super) struct Reopened(pub Arc<ReopenedFile>);

impl ReadFile for Reopened {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.file()?.read_at(bytes, offset)
    }

    fn length(&self) -> io::Result<u64> {
        self.0.file()?.length()
    }

    fn sync(&self) -> io::Result<()> {
        self.0.file()?.sync()
    }

    fn has_hole(&self, offset: u64, bytes: u64) -> io::Result<bool> {
        self.0.file()?.has_hole(offset, bytes)
    }

    fn map(&self, bytes: u64) -> io::Result<Option<Mapping>> {
        self.0.file()?.map(bytes)
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        if let Ok(file) = self.0.file() {
            file.will_need(offset, bytes);
        }
    }
}
