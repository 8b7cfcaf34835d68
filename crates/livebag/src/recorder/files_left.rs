//! How many more files the process may open.

use std::path::Path;

use rustix::process::{Resource, getrlimit};

use super::RecordError;
use crate::limits::STREAM_SPARE_FILES_MIN;
use crate::storage::{Disk, is_out_of_files};

/// Files that the process may still open, counted when the first are asked for.
pub(super) struct FilesLeft<'a> {
    disk: &'a dyn Disk,
    /// Files of one stream.
    each: u64,
    /// Files that topics will open.
    promised: u64,
    left: Option<u64>,
}

impl<'a> FilesLeft<'a> {
    pub fn new(disk: &'a dyn Disk, each: u64, promised: u64) -> Self {
        Self { disk, each, promised, left: None }
    }

    /// Whether there are enough for one more stream.
    pub fn has_room(&mut self) -> bool {
        self.left() >= self.each
    }

    /// Takes the files of one more stream, if there are enough.
    pub fn take_stream(&mut self) -> bool {
        self.take(self.each)
    }

    /// Takes so many, if there are enough.
    pub fn take(&mut self, count: u64) -> bool {
        let left = self.left().checked_sub(count);
        self.left = left.or(self.left);
        left.is_some()
    }

    fn left(&mut self) -> u64 {
        let (disk, promised) = (self.disk, self.promised);
        *self.left.get_or_insert_with(|| {
            let open = match disk.list(Path::new("/proc/self/fd")) {
                Ok(files) => files.len() as u64,
                Err(error) if is_out_of_files(&error) => return 0,
                // Without the list of open files (no /proc) every file that cannot be opened refuses its topic.
                Err(_) => 0,
            };
            let used = open.saturating_add(promised).saturating_add(STREAM_SPARE_FILES_MIN);
            limit().saturating_sub(used)
        })
    }

    /// Why a stream is refused.
    pub fn refusal(&self) -> RecordError {
        RecordError::TooManyFiles { limit: limit(), each: self.each }
    }
}

/// Files that the process may have open.
fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
