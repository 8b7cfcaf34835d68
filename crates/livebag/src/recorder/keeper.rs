//! A second thread for what takes long and hurries nobody: closing splits, removing old ones,
//! making data durable while recording.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use livebag_format::container::{CONTAINER_FILE, LOCK_FILE, SYNCED_FILE, SyncMark};
use livebag_format::index::entry_count;

use super::split::Split;
use super::{RecordError, Shared};
use crate::limits::JOBS_MAX;
use crate::storage::DiskFile;

enum Job {
    Close(Box<Split>),
    Remove {
        files: Vec<PathBuf>,
        directory: Option<PathBuf>,
    },
    /// First the bricks, then the indexes that point into them, then the mark that says so.
    Sync {
        bricks: Vec<Arc<dyn DiskFile>>,
        indexes: Vec<(String, Arc<dyn DiskFile>)>,
        directory: PathBuf,
    },
}

/// The thread's handle.
pub(super) struct Keeper {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub fn start(shared: Arc<Shared>) -> Result<Self, RecordError> {
        let (jobs, todo) = sync_channel(JOBS_MAX);
        let path = shared.directory.clone();
        let thread = std::thread::Builder::new()
            .name("livebag-keeper".into())
            .spawn(move || work(&shared, &todo))
            .map_err(|source| RecordError::Io {
                doing: "starting a thread to record into",
                path,
                source,
            })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    fn send(&self, job: Job) {
        // The thread lives until `finish` has taken the sender away.
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
    }

    /// Closes a split whose writes have all ended.
    pub fn close(&self, split: Split) {
        self.send(Job::Close(Box::new(split)));
    }

    /// Removes files, then their directory if one is given.
    pub fn remove(&self, files: Vec<PathBuf>, directory: Option<PathBuf>) {
        self.send(Job::Remove { files, directory });
    }

    /// Makes durable what a split has now.
    pub fn sync(&self, split: &Split) {
        let bricks = split.bricks.iter().map(|brick| brick.file.clone()).collect();
        let indexes = split.topics.iter().filter_map(|topic| topic.files.as_ref());
        let indexes =
            indexes.map(|files| (files.index_name.clone(), files.index().clone())).collect();
        self.send(Job::Sync { bricks, indexes, directory: split.directory.clone() });
    }

    /// Waits until everything is done.
    pub fn finish(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by the thread itself.
            let _ = thread.join();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.finish();
    }
}

fn work(shared: &Shared, todo: &Receiver<Job>) {
    for job in todo {
        match job {
            Job::Close(split) => close(shared, *split),
            Job::Remove { files, directory } => remove(shared, &files, directory),
            Job::Sync { bricks, indexes, directory } => {
                if let Err(source) = sync(shared, &bricks, &indexes, &directory) {
                    let error = RecordError::Io { doing: "syncing", path: directory, source };
                    shared.fail(error.to_string());
                }
            }
        }
    }
}

fn close(shared: &Shared, mut split: Split) {
    if let Err(error) = split.close(shared) {
        shared.fail(error.to_string());
    }
}

fn remove(shared: &Shared, files: &[PathBuf], directory: Option<PathBuf>) {
    let removed = files.iter().try_for_each(|file| shared.disk.remove(file));
    let removed = removed.and_then(|()| match &directory {
        Some(directory) => shared.disk.remove_dir(directory),
        None => Ok(()),
    });
    if let Err(source) = removed {
        let path = directory.or_else(|| files.first().cloned()).unwrap_or_default();
        let error = RecordError::Io { doing: "removing an old split in", path, source };
        shared.fail(error.to_string());
    }
}

fn sync(
    shared: &Shared,
    bricks: &[Arc<dyn DiskFile>],
    indexes: &[(String, Arc<dyn DiskFile>)],
    directory: &Path,
) -> io::Result<()> {
    let count = |(name, index): &(String, Arc<dyn DiskFile>)| {
        Ok((name.clone(), entry_count(index.length()?)))
    };
    // Counted first: what is committed from now on is not promised.
    let entries = indexes.iter().map(count).collect::<io::Result<_>>()?;
    shared.disk.sync_files(&bricks.iter().collect::<Vec<_>>())?;
    shared.disk.sync_files(&indexes.iter().map(|(_, index)| index).collect::<Vec<_>>())?;
    shared.disk.sync_file_at(&directory.join(CONTAINER_FILE))?;
    shared.disk.sync_file_at(&directory.join(LOCK_FILE))?;
    let mark = SyncMark { entries };
    shared.disk.replace(&directory.join(SYNCED_FILE), mark.to_text().as_bytes(), true)
}
