//! Threads for slow work without a deadline: one closes splits and syncs data while recording, one removes old
//! splits.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;

use livebag_format::container::{CONTAINER_FILE, LOCK_FILE, SYNCED_FILE, SyncMark};
use livebag_format::index::entry_count;

use super::error::{hint, is_passing};
use super::split::Split;
use super::{PanicLatch, RecordError, Shared};
use crate::limits::{JOBS_MAX, REMOVE_AGAIN_INTERVAL};
use crate::storage::{DiskFile, if_there};

/// Removals in progress or waiting at which all are done without pauses.
const HURRY: usize = 2;

enum Job {
    Close(Box<Split>),
    /// After the earlier jobs are done.
    Remove(Removal),
    /// First the bricks, then the indexes that point into them, then the mark that records it.
    Sync {
        bricks: Vec<Arc<dyn DiskFile>>,
        indexes: Vec<(String, Arc<dyn DiskFile>)>,
        directory: PathBuf,
    },
}

/// Files that go, and then their directory if one is given.
struct Removal {
    files: Vec<PathBuf>,
    directory: Option<PathBuf>,
    /// It has failed for a reason that may pass.
    is_late: bool,
}

impl Removal {
    fn path(&self) -> PathBuf {
        self.directory.as_ref().or(self.files.first()).cloned().unwrap_or_default()
    }
}

/// The threads' handle.
pub(super) struct Keeper {
    jobs: Option<SyncSender<Job>>,
    /// Removals that are not done.
    removing: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Keeper {
    pub fn start(shared: &Arc<Shared>) -> Result<Self, RecordError> {
        let mut keeper = Self { jobs: None, removing: Arc::default(), threads: Vec::new() };
        let (removals, to_remove) = sync_channel(JOBS_MAX);
        let (ours, removing) = (shared.clone(), keeper.removing.clone());
        keeper
            .spawn(shared, "livebag-remover", move || remove_all(&ours, &to_remove, &removing))?;
        let (jobs, todo) = sync_channel(JOBS_MAX);
        let ours = shared.clone();
        keeper.spawn(shared, "livebag-keeper", move || work(&ours, &todo, &removals))?;
        keeper.jobs = Some(jobs);
        Ok(keeper)
    }

    fn spawn(
        &mut self,
        shared: &Arc<Shared>,
        name: &'static str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), RecordError> {
        let ours = shared.clone();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            let _latch = PanicLatch(&ours, name);
            work();
        });
        self.threads.push(thread.map_err(|source| RecordError::Io {
            doing: "starting a thread to record into",
            path: shared.directory.clone(),
            source,
        })?);
        Ok(())
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
        self.removing.fetch_add(1, Relaxed);
        self.send(Job::Remove(Removal { files, directory, is_late: false }));
    }

    /// Syncs the present contents of a split.
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
        // Recording has ended.
        self.removing.fetch_add(HURRY, Relaxed);
        for thread in self.threads.drain(..) {
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

fn work(shared: &Shared, todo: &Receiver<Job>, removals: &SyncSender<Removal>) {
    for job in todo {
        match job {
            Job::Close(split) => close(shared, *split),
            Job::Remove(removal) => {
                // That thread lives until this one has dropped the sender.
                let _ = removals.send(removal);
            }
            Job::Sync { bricks, indexes, directory } => {
                if let Err(source) = sync(shared, &bricks, &indexes, &directory) {
                    if is_passing(&source) {
                        // The mark still tells what was synced last.
                        log::warn!("nothing was synced this time: {source}{}", hint(&source));
                        continue;
                    }
                    shared.fail(RecordError::Io { doing: "syncing", path: directory, source });
                }
            }
        }
    }
}

fn close(shared: &Shared, mut split: Split) {
    if let Err(error) = split.close(shared) {
        shared.fail(error);
    }
}

fn remove_all(shared: &Shared, todo: &Receiver<Removal>, removing: &AtomicUsize) {
    let mut waiting: Vec<Removal> = Vec::new();
    let mut is_over = false;
    while !is_over {
        let next = match waiting.is_empty() {
            true => todo.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => todo.recv_timeout(REMOVE_AGAIN_INTERVAL),
        };
        is_over = matches!(next, Err(RecvTimeoutError::Disconnected));
        waiting.extend(next);
        waiting.retain_mut(|removal| {
            let is_left = try_removal(shared, removal, removing);
            removing.fetch_sub(usize::from(!is_left), Relaxed);
            is_left
        });
    }
    for removal in waiting {
        let path = removal.path();
        log::warn!(
            "{} could not be removed, and is not in the recording: remove it",
            path.display()
        );
    }
}

/// Whether it has to be tried again.
fn try_removal(shared: &Shared, removal: &mut Removal, removing: &AtomicUsize) -> bool {
    let Err(source) = remove(shared, removal, removing) else { return false };
    let path = removal.path();
    let is_passing = is_passing(&source);
    if !is_passing {
        shared.fail(RecordError::Io { doing: "removing an old split in", path, source });
    } else if !std::mem::replace(&mut removal.is_late, true) {
        log::warn!("{} is removed later: {source}{}", path.display(), hint(&source));
    }
    is_passing
}

/// A file that is not there was removed by the user, or by an earlier attempt.
fn remove(shared: &Shared, removal: &Removal, removing: &AtomicUsize) -> io::Result<()> {
    let disk = &shared.disk;
    let is_hurried = || removing.load(Relaxed) >= HURRY;
    let remove = |file: &PathBuf| if_there(disk.remove_in_steps(file, &is_hurried)).map(drop);
    removal.files.iter().try_for_each(remove)?;
    let Some(directory) = &removal.directory else { return Ok(()) };
    if_there(disk.list(directory))?.unwrap_or_default().iter().try_for_each(remove)?;
    if_there(disk.remove_dir(directory)).map(drop)
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
    // Counted first: messages committed from now on are not included.
    let entries = indexes.iter().map(count).collect::<io::Result<_>>()?;
    shared.disk.sync_files(&bricks.iter().collect::<Vec<_>>())?;
    shared.disk.sync_files(&indexes.iter().map(|(_, index)| index).collect::<Vec<_>>())?;
    shared.disk.sync_file_at(&directory.join(CONTAINER_FILE))?;
    shared.disk.sync_file_at(&directory.join(LOCK_FILE))?;
    let mark = SyncMark { entries };
    shared.disk.replace(&directory.join(SYNCED_FILE), mark.to_text().as_bytes(), true)
}
