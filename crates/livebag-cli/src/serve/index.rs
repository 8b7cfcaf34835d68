//! Recordings of other makes, made readable for the server: each is copied into a container, which has the
//! index that questions need. Containers are served while they grow, and so are these.

use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use livebag::{Clock, Disk, KernelDisk};
use livebag_bags::{ConvertError, GlanceState, RecordingKind};
use serde::{Deserialize, Serialize};

use crate::below;
use crate::guarded::Guarded;
use crate::outcome::CliError;
use crate::{files, text};

/// What is copied without `--index-dir`, in bytes.
const BYTES_MAX: u64 = 4_000_000_000;
/// What copies leave free on their filesystem, in bytes.
const FREE_BYTES_MIN: u64 = 1 << 30;
/// Bytes between two looks at the free space.
const LOOK_BYTES: u64 = 64 << 20;
/// Small recordings are whole when the server says that it serves.
const PATIENCE: Duration = Duration::from_secs(2);
/// Beside a copy: what it was made of.
const STAMP_FILE: &str = "source.json";

/// The copies, and the thread that makes them. A temporary folder goes with it.
pub struct Index {
    folder: PathBuf,
    is_temporary: bool,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A recording to be copied.
struct Job {
    source: PathBuf,
    bytes: u64,
    /// The folder that is served: it has the container, once there is one.
    root: PathBuf,
    container: PathBuf,
}

/// A recording as it was when it was copied.
#[derive(PartialEq, Serialize, Deserialize)]
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
    jobs: Vec<Job>,
    folder: PathBuf,
    is_temporary: bool,
}

/// Looks for recordings of other makes in what is to be served.
///
/// # Errors
/// If a folder is not there, or the one for copies cannot be made.
pub fn plan(directories: &[PathBuf], index_dir: Option<&Path>) -> Result<Plan, CliError> {
    let is_temporary = index_dir.is_none();
    let folder = index_dir.map_or_else(
        || std::env::temp_dir().join(format!("livebag-index-{}", std::process::id())),
        Path::to_owned,
    );
    let mut plan =
        Plan { roots: Vec::new(), containers: 0, jobs: Vec::new(), folder, is_temporary };
    let mut left = BYTES_MAX;
    for directory in directories {
        let found = below::found(directory)?;
        if directory.is_dir() && !found.iter().any(|(path, _)| path == directory) {
            plan.roots.push(directory.clone());
        }
        for (path, glance) in found {
            if glance.kind == RecordingKind::Container {
                plan.containers += 1;
                if path == *directory {
                    plan.roots.push(path);
                }
                continue;
            }
            let bytes = below::size_bytes(&path, 0);
            if is_temporary && bytes > left {
                say!(
                    "livebag: warning: {} ({}) is not served: it is no container, and serving it takes a copy; \
                     --index-dir DIR says where one of that size may lie",
                    path.display(),
                    text::bytes(bytes as f64)
                );
                continue;
            }
            left = left.saturating_sub(bytes);
            plan.add(directory, path, bytes)?;
        }
    }
    if plan.roots.is_empty() && plan.jobs.is_empty() {
        return Err(CliError::failed("nothing to serve"));
    }
    Ok(plan)
}

impl Plan {
    /// Recordings.
    pub fn count(&self) -> usize {
        self.containers + self.jobs.len()
    }

    fn add(&mut self, directory: &Path, source: PathBuf, bytes: u64) -> Result<(), CliError> {
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
        let mut root = self.folder.join(id);
        while self.jobs.iter().any(|job| job.root == root) {
            root.as_mut_os_string().push("~");
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&root)
            .map_err(|source| CliError::file("making", &root, source))?;
        self.roots.push(root.clone());
        let container = root.join(name);
        self.jobs.push(Job { source: whole, bytes, root, container });
        Ok(())
    }

    /// Begins to copy, and waits a moment: small recordings are done then.
    ///
    /// # Errors
    /// If there is no thread for it.
    pub fn start(self) -> Result<Option<Index>, CliError> {
        let Self { jobs, folder, is_temporary, .. } = self;
        if jobs.is_empty() {
            return Ok(None);
        }
        let bytes: u64 = jobs.iter().map(|job| job.bytes).sum();
        say!(
            "livebag: {} of other makes ({}): making an index, a copy as a container in {}{}",
            text::plural(jobs.len(), "recording"),
            text::bytes(bytes as f64),
            folder.display(),
            if is_temporary { ", removed at the end" } else { "" },
        );
        let is_over = Arc::new(AtomicBool::new(false));
        let (done, is_done): (_, Receiver<()>) = sync_channel(1);
        let flag = is_over.clone();
        let work = move || {
            let mut left = if is_temporary { BYTES_MAX } else { u64::MAX };
            for job in jobs {
                job.run(&flag, &mut left);
            }
            // Nobody may wait any more.
            let _ = done.try_send(());
        };
        let thread = std::thread::Builder::new().name("livebag-index".into()).spawn(work);
        let thread = thread
            .map_err(|error| CliError::failed(format!("starting a thread failed: {error}")))?;
        if is_done.recv_timeout(PATIENCE).is_err() {
            say!(
                "livebag: the index is still being made: until it is done, its beginning is served"
            );
        }
        Ok(Some(Index { folder, is_temporary, is_over, thread: Some(thread) }))
    }
}

impl Job {
    /// Copies it, unless that has been done before.
    fn run(&self, is_over: &AtomicBool, left: &mut u64) {
        if is_over.load(Ordering::Relaxed) || self.is_made() {
            return;
        }
        let clock = Clock::system();
        match self.copy(is_over, left) {
            Ok(()) if clock.monotonic_nanos() > PATIENCE.as_nanos() as u64 => {
                let took = text::duration(clock.monotonic_nanos());
                say!(
                    "livebag: {} is served whole now (index made in {took})",
                    self.source.display()
                );
            }
            Ok(()) => {}
            Err(_) if is_over.load(Ordering::Relaxed) => {}
            Err(error) => complain!("livebag: {} is not served: {error}", self.source.display()),
        }
    }

    /// Whether a copy of what is there now lies there, or another livebag is making it.
    fn is_made(&self) -> bool {
        let state = livebag_bags::glance(&self.container).map(|glance| glance.state);
        let stamp = files::text("reading", &self.root.join(STAMP_FILE)).ok();
        let stamp: Option<Stamp> = stamp.and_then(|text| serde_json::from_str(&text).ok());
        state == Some(GlanceState::Live) || (state.is_some() && stamp == self.stamp().ok())
    }

    fn stamp(&self) -> Result<Stamp, CliError> {
        let failed = |source| CliError::file("looking at", &self.source, source);
        let names = match self.source.is_dir() {
            true => files::list(&self.source)?.into_iter().map(|(name, _)| name).collect(),
            false => vec![String::new()],
        };
        let mut files = Vec::new();
        for name in names {
            let path = match &*name {
                "" => self.source.clone(),
                name => self.source.join(name),
            };
            let metadata = path.metadata().map_err(failed)?;
            files.push((name, metadata.len(), metadata.mtime(), metadata.mtime_nsec()));
        }
        Ok(Stamp { path: self.source.clone(), files })
    }

    fn copy(&self, is_over: &AtomicBool, left: &mut u64) -> Result<(), CliError> {
        // Before it is read: what changes meanwhile is copied anew the next time.
        let stamp = self.stamp()?;
        self.remove();
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
            if taken > *left {
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
        *left = left.saturating_sub(copied.bytes);
        for warning in &copied.warnings {
            say!("livebag: warning: {warning}");
        }
        let file = files::NewFile::create(&self.root.join(STAMP_FILE), true)?;
        let text = serde_json::to_string(&stamp)?;
        let written = file.file().write_all(text.as_bytes());
        written.map_err(|source| CliError::file("writing", &self.root, source))?;
        file.publish()
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
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            say!("livebag: warning: making the index ended early");
        }
        if self.is_temporary
            && let Err(error) = std::fs::remove_dir_all(&self.folder)
        {
            say!("livebag: warning: removing {} failed: {error}", self.folder.display());
        }
    }
}
