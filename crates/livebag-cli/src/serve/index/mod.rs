//! Recordings of other makes, made readable for the server: each is copied into a container, which has the
//! index that questions need. Containers are served while they grow, and so are these.

use std::collections::HashSet;
use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use livebag::{Clock, Disk, KernelDisk};
use livebag_bags::{ConvertError, GlanceState, RecordingKind};
use livebag_net::Catalog;
use serde::{Deserialize, Serialize};

use crate::below;
use crate::guarded::Guarded;
use crate::outcome::CliError;
use crate::{files, text};

mod folder;

use folder::Folder;

/// Maximum bytes copied without `--index-dir`.
const BYTES_MAX: u64 = 4_000_000_000;
/// What copies leave free on their filesystem, in bytes.
const FREE_BYTES_MIN: u64 = 1 << 30;
/// Bytes between two checks of the free space.
const LOOK_BYTES: u64 = 64 << 20;
/// Small recordings are whole when the server says that it serves.
const PATIENCE: Duration = Duration::from_secs(2);
/// Identifies the source, beside a copy.
const STAMP_FILE: &str = "source.json";
/// Time between two looks for recordings that have come, or have changed.
const LOOK_INTERVAL: Duration = Duration::from_secs(3);
/// Recordings that come are copied when nobody has written them for so long.
const QUIET_NANOS: u64 = 3_000_000_000;
/// A recording that has changed is copied anew when that takes a tenth of the time since the last copy.
const REST: u64 = 10;

/// The thread that makes the copies; they go with it if they are temporary.
pub struct Index {
    is_over: Arc<AtomicBool>,
    /// Wakes the thread when it goes.
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A recording to be copied.
struct Job {
    source: PathBuf,
    bytes: u64,
    /// The folder that is served: it has the container, once there is one.
    root: PathBuf,
    container: PathBuf,
    /// What was copied, or was found as a copy.
    made_of: Option<Stamp>,
    copied_bytes: u64,
    /// When it may be copied again: of the process, in nanoseconds.
    rests_until: u64,
}

/// A recording as it was when it was copied.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Stamp {
    path: PathBuf,
    /// Length and modification time of each file.
    files: Vec<(String, u64, i64, i64)>,
}

/// What to serve: the folders for the catalog, and the recordings that are copied before.
pub struct Plan {
    /// Containers, and folders that have some.
    pub roots: Vec<PathBuf>,
    /// Containers found.
    containers: usize,
    copies: Copies,
}

/// The copies that there are, and will be.
struct Copies {
    /// What is looked through.
    directories: Vec<PathBuf>,
    /// Recordings that have been found there.
    known: HashSet<PathBuf>,
    jobs: Vec<Job>,
    folder: Folder,
    /// Bytes that may still be copied.
    left: u64,
    clock: Clock,
}

/// Searches the served folders for bags in other formats.
///
/// # Errors
/// If a folder is not there, or the one for copies cannot be made.
pub fn plan(directories: &[PathBuf], index_dir: Option<&Path>) -> Result<Plan, CliError> {
    let folder = Folder::new(index_dir);
    let left = if folder.is_temporary() { BYTES_MAX } else { u64::MAX };
    let copies = Copies {
        directories: directories.to_vec(),
        known: HashSet::new(),
        jobs: Vec::new(),
        folder,
        left,
        clock: Clock::system(),
    };
    let mut plan = Plan { roots: Vec::new(), containers: 0, copies };
    let mut left = left;
    for directory in directories {
        let found = below::found(directory)?;
        if directory.is_dir() && !found.iter().any(|(path, _)| path == directory) {
            plan.roots.push(directory.clone());
        }
        for (path, glance) in found {
            plan.copies.known.insert(path.clone());
            if glance.kind == RecordingKind::Container {
                plan.containers += 1;
                if path == *directory {
                    plan.roots.push(path);
                }
            } else if let Some(bytes) = plan.copies.may_take(&path, left) {
                left = left.saturating_sub(bytes);
                plan.roots.push(plan.copies.add(directory, path, bytes)?);
            }
        }
    }
    if plan.roots.is_empty() {
        return Err(CliError::failed("nothing to serve"));
    }
    Ok(plan)
}

impl Plan {
    /// Recordings.
    pub fn count(&self) -> usize {
        self.containers + self.copies.jobs.len()
    }

    /// Begins to copy, and waits a moment: small recordings are done then. What comes later is copied and
    /// added to `catalog`.
    ///
    /// # Errors
    /// If there is no thread for it.
    pub fn start(self, catalog: Arc<Catalog>) -> Result<Index, CliError> {
        let mut copies = self.copies;
        let has_jobs = !copies.jobs.is_empty();
        if has_jobs {
            let bytes: u64 = copies.jobs.iter().map(|job| job.bytes).sum();
            say!(
                "livebag: {} of other makes ({}): making an index, a copy as a container in {}{}",
                text::plural(copies.jobs.len(), "recording"),
                text::bytes(bytes as f64),
                copies.folder.path().display(),
                if copies.folder.is_temporary() { ", removed at the end" } else { "" },
            );
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let (done, is_done): (_, Receiver<()>) = sync_channel(1);
        let (wake, is_woken) = sync_channel::<()>(0);
        let flag = is_over.clone();
        let work = move || {
            copies.make(&flag, Some(PATIENCE));
            // The receiver may have stopped waiting.
            let _ = done.try_send(());
            while is_woken.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                copies.look(&catalog);
                copies.make(&flag, None);
            }
        };
        let thread = std::thread::Builder::new().name("livebag-index".into()).spawn(work);
        let thread = thread
            .map_err(|error| CliError::failed(format!("starting a thread failed: {error}")))?;
        if has_jobs && is_done.recv_timeout(PATIENCE).is_err() {
            say!(
                "livebag: the index is still being made: until it is done, its beginning is served"
            );
        }
        Ok(Index { is_over, wake: Some(wake), thread: Some(thread) })
    }
}

impl Copies {
    /// Bytes of a recording, if there is room for its copy; else says that there is none.
    fn may_take(&self, path: &Path, left: u64) -> Option<u64> {
        let bytes = below::size_bytes(path, 0);
        if bytes <= left {
            return Some(bytes);
        }
        say!(
            "livebag: warning: {} ({}) is not served: it is no container, and serving it takes a copy; \
             --index-dir DIR says where one of that size may lie",
            path.display(),
            text::bytes(bytes as f64)
        );
        None
    }

    /// Adds a recording that was found in `directory`; the folder in which its copy will be.
    fn add(&mut self, directory: &Path, source: PathBuf, bytes: u64) -> Result<PathBuf, CliError> {
        let failed = |source| CliError::file("looking at", directory, source);
        let whole = source.canonicalize().map_err(failed)?;
        // As containers are named: by the way from the folder that is served.
        let way = source.strip_prefix(directory).ok().filter(|way| !way.as_os_str().is_empty());
        let way = way.unwrap_or_else(|| Path::new(whole.file_name().unwrap_or_default()));
        let way = if whole.is_file() { way.with_extension("") } else { way.to_owned() };
        let name = way.to_string_lossy().replace('/', ".");
        let id: Vec<char> = whole.to_string_lossy().trim_start_matches('/').chars().collect();
        let plain = |c: &char| if c.is_ascii() && *c != '/' { *c } else { '.' };
        // Names of files have an end.
        let id = id[id.len().saturating_sub(150)..].iter().map(plain).collect::<String>();
        self.folder.make()?;
        let mut root = self.folder.path().join(id);
        while self.jobs.iter().any(|job| job.root == root) {
            root.as_mut_os_string().push("~");
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&root)
            .map_err(|source| CliError::file("making", &root, source))?;
        let container = root.join(name);
        self.jobs.push(Job {
            source: whole,
            bytes,
            root: root.clone(),
            container,
            made_of: None,
            copied_bytes: 0,
            rests_until: 0,
        });
        Ok(root)
    }

    /// Looks for recordings that nobody is writing any more and that are not known yet.
    fn look(&mut self, catalog: &Catalog) {
        let now_nanos = self.clock.wall_nanos();
        for directory in self.directories.clone() {
            // What cannot be looked at just now is looked at again.
            let Ok(found) = below::found_beside(&directory, &self.known) else { continue };
            for (path, glance) in found {
                let is_foreign = glance.kind != RecordingKind::Container;
                let is_quiet = || stamp(&path).is_ok_and(|stamp| stamp.is_quiet(now_nanos));
                if is_foreign && !is_quiet() {
                    continue;
                }
                self.known.insert(path.clone());
                if let Some(bytes) = is_foreign.then(|| self.may_take(&path, self.left)).flatten()
                    && let Err(error) = self.add_late(&directory, path.clone(), bytes, catalog)
                {
                    complain!("livebag: {} is not served: {error}", path.display());
                }
            }
        }
    }

    fn add_late(
        &mut self,
        directory: &Path,
        source: PathBuf,
        bytes: u64,
        catalog: &Catalog,
    ) -> Result<(), CliError> {
        let root = self.add(directory, source, bytes)?;
        catalog.add(&root)?;
        // A rosbag2 folder has its metadata last: until then its files seemed to be recordings of their own.
        if let Some(added) = self.jobs.pop() {
            let is_part = |job: &Job| job.source.starts_with(&added.source);
            self.jobs.extract_if(.., |job| is_part(job)).for_each(|job| job.remove());
            self.jobs.push(added);
        }
        Ok(())
    }

    /// Copies what has not been copied, or has changed. `quick`: how long a copy takes of which nothing is said.
    fn make(&mut self, is_over: &AtomicBool, quick: Option<Duration>) {
        for job in &mut self.jobs {
            job.run(&self.clock, is_over, &mut self.left, quick);
        }
    }
}

/// A recording as it is.
fn stamp(source: &Path) -> Result<Stamp, CliError> {
    let failed = |error| CliError::file("looking at", source, error);
    let names = match source.is_dir() {
        true => files::list(source)?.into_iter().map(|(name, _)| name).collect(),
        false => vec![String::new()],
    };
    let mut files = Vec::new();
    for name in names {
        let path = match &*name {
            "" => source.to_owned(),
            name => source.join(name),
        };
        let metadata = path.metadata().map_err(failed)?;
        files.push((name, metadata.len(), metadata.mtime(), metadata.mtime_nsec()));
    }
    Ok(Stamp { path: source.to_owned(), files })
}

impl Stamp {
    /// Whether nobody has written it for a while.
    fn is_quiet(&self, now_nanos: u64) -> bool {
        let written = |(_, _, seconds, nanos): &(String, u64, i64, i64)| {
            (*seconds as u64).saturating_mul(1_000_000_000).saturating_add(*nanos as u64)
        };
        let newest = self.files.iter().map(written).max().unwrap_or(0);
        newest.saturating_add(QUIET_NANOS) <= now_nanos
    }
}

impl Job {
    /// Copies it, unless the copy is what is there now.
    fn run(
        &mut self,
        clock: &Clock,
        is_over: &AtomicBool,
        left: &mut u64,
        quick: Option<Duration>,
    ) {
        let began_nanos = clock.monotonic_nanos();
        if is_over.load(Ordering::Relaxed) || began_nanos < self.rests_until {
            return;
        }
        // Taken before it is read: what changes meanwhile is copied anew.
        let Ok(stamp) = stamp(&self.source) else { return };
        let has_changed = self.made_of.as_ref().is_some_and(|then| *then != stamp);
        if self.made_of.as_ref() == Some(&stamp)
            || has_changed && !stamp.is_quiet(clock.wall_nanos())
        {
            return;
        }
        // What cannot be copied is tried again when it has changed.
        let is_made = self.is_made(&stamp);
        self.made_of = Some(stamp.clone());
        if is_made {
            return;
        }
        self.remove();
        *left = left.saturating_add(std::mem::take(&mut self.copied_bytes));
        let copied = self.copy(&stamp, is_over, *left).map(|bytes| {
            *left = left.saturating_sub(bytes);
            self.copied_bytes = bytes;
        });
        let now_nanos = clock.monotonic_nanos();
        let took_nanos = now_nanos - began_nanos;
        self.rests_until = now_nanos.saturating_add(took_nanos.saturating_mul(REST));
        match copied {
            Ok(()) if quick.is_none_or(|quick| took_nanos > quick.as_nanos() as u64) => say!(
                "livebag: {} is served whole now (index made in {})",
                self.source.display(),
                text::duration(took_nanos)
            ),
            Ok(()) => {}
            Err(_) if is_over.load(Ordering::Relaxed) => {}
            Err(error) => complain!("livebag: {} is not served: {error}", self.source.display()),
        }
    }

    /// Whether a copy of the current source exists, or another livebag is making it.
    fn is_made(&self, now: &Stamp) -> bool {
        let state = livebag_bags::glance(&self.container).map(|glance| glance.state);
        let stamp = files::text("reading", &self.root.join(STAMP_FILE)).ok();
        let stamp: Option<Stamp> = stamp.and_then(|text| serde_json::from_str(&text).ok());
        state == Some(GlanceState::Live) || (state.is_some() && stamp.as_ref() == Some(now))
    }

    /// Copies it, up to `left` bytes; how many there were.
    fn copy(&self, stamp: &Stamp, is_over: &AtomicBool, left: u64) -> Result<u64, CliError> {
        let source = livebag_bags::open_foreign(&self.source)?;
        let mut looked = 0;
        let mut taken = 0;
        let may_go_on = |bytes: u64| {
            taken += bytes;
            let refused = |reason: &str| {
                Err(ConvertError::Write { path: self.container.clone(), reason: reason.into() })
            };
            if is_over.load(Ordering::Relaxed) {
                return refused("interrupted");
            }
            if taken > left {
                return refused(
                    "it is larger than what may be copied: --index-dir DIR says where there is room",
                );
            }
            if taken >= looked {
                looked = taken + LOOK_BYTES;
                let free = KernelDisk::for_reading().free_bytes(&self.root).unwrap_or(u64::MAX);
                if free < FREE_BYTES_MIN + LOOK_BYTES {
                    return refused("the disk is nearly full (--index-dir names another)");
                }
            }
            Ok(())
        };
        let mut source = Guarded::new(source, may_go_on);
        let copied = livebag_bags::to_container(&mut source, &self.container, &mut |_| {});
        drop(source);
        let copied = copied.inspect_err(|_| self.remove())?;
        for warning in &copied.warnings {
            say!("livebag: warning: {warning}");
        }
        let file = files::NewFile::create(&self.root.join(STAMP_FILE), true)?;
        let text = serde_json::to_string(stamp)?;
        let written = file.file().write_all(text.as_bytes());
        written.map_err(|source| CliError::file("writing", &self.root, source))?;
        file.publish()?;
        Ok(copied.bytes)
    }

    fn remove(&self) {
        if let Err(error) = std::fs::remove_dir_all(&self.container)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            say!("livebag: warning: removing {} failed: {error}", self.container.display());
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.wake = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            say!("livebag: warning: making the index ended early");
        }
    }
}
