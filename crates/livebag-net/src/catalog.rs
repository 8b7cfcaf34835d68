//! The served containers, and their present state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::Metadata;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use livebag::{
    Buffer, Clock, Container, ContainerError, ContainerState, KernelDisk, Query, Timeline,
    TimelineCache, TimelineQuery, TopicProgress, VirtualFile, VirtualFileError,
};
use livebag_format::container::CONTAINER_FILE;
use livebag_format::event::EVENTS_FILE;

use crate::answer::{AnswerError, RecorderStatus, StatusSource};
use crate::limits::{
    CATALOG_BAGS_MAX, CATALOG_DEPTH_MAX, CATALOG_INTERVAL, CONNECTIONS_MAX, LIVE_INTERVAL,
    OPEN_BAGS_MAX, STORE_INTERVAL, TIMELINES_KEPT_MAX, VIRTUAL_FILE_GROWTH, VIRTUAL_FILE_PATIENCE,
    VIRTUAL_FILES_BYTES_MAX, VIRTUAL_FILES_FORGOTTEN_MAX, VIRTUAL_FILES_MAX,
};
use crate::store::RecordingStore;
use crate::tell::BagRow;

/// Is notified when a live container is read, so that its recorder commits sooner.
pub trait KeepFresh: Send + Sync {
    /// `container` is being read.
    fn is_read(&self, container: &Path);

    /// The status from the recorder of `container`, if it can be reached.
    fn status(&self, _container: &Path) -> Option<RecorderStatus> {
        None
    }
}

/// Why nothing can be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// Not there, or not to be read.
    #[error("{} cannot be served: {source} (give a container, or a folder that has some)", path.display())]
    Io {
        /// The given path.
        path: PathBuf,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// A file.
    #[error(
        "{} is not a folder: `livebag convert` makes a container of other recordings", .0.display()
    )]
    NotAFolder(PathBuf),
}

/// The containers below some folders.
pub struct Catalog {
    roots: Mutex<Vec<PathBuf>>,
    stores: Mutex<Vec<Arc<dyn RecordingStore>>>,
    clock: Clock,
    fresh: Option<Arc<dyn KeepFresh>>,
    bags: Mutex<Bags>,
}

#[derive(Default)]
struct Bags {
    by_name: BTreeMap<String, Arc<ServedRecording>>,
    looked_nanos: Option<u64>,
}

/// A container that is served.
pub struct ServedRecording {
    name: String,
    path: PathBuf,
    /// If it is not in a folder: `path` is its address there.
    store: Option<Arc<dyn RecordingStore>>,
    /// Its row in lists, of a recording in a store since it was opened last.
    row: Mutex<Option<BagRow>>,
    clock: Clock,
    fresh: Option<Arc<dyn KeepFresh>>,
    open: Mutex<Option<Open>>,
    files: Mutex<Files>,
    /// The known part of its timeline; `None` until the first request.
    timeline: Mutex<Option<TimelineCache>>,
    used_nanos: AtomicU64,
}

struct Open {
    container: Arc<Container>,
    stamps: Vec<Stamp>,
    opened_nanos: u64,
}

/// Tells a file from its successors.
type Stamp = Option<(u64, i64, i64, u64)>;

/// The virtual files of a recording.
#[derive(Default)]
struct Files {
    known: Vec<Arc<ServedFile>>,
    /// Live ones that are not known any more: laid out anew, they are others.
    forgotten: VecDeque<Query>,
    /// Whether even some of those are forgotten.
    has_more: bool,
}

/// The action of a virtual file's reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Asks for its length, its beginning or all of it.
    Opens,
    /// Asks for its end, wherever that is.
    End,
    /// Requests a place found in bytes it has read.
    GoesOn {
        /// And says of which state of the file (`If-Range`).
        knows_state: bool,
    },
}

/// A virtual file in use.
pub struct ServedFile {
    query: Query,
    file: RwLock<VirtualFile>,
    in_use: Mutex<FileUse>,
    /// When it was made: distinguishes it from others of the same query.
    made_nanos: u64,
    /// When its recording began: distinguishes it from another of the same name.
    started_nanos: u64,
    /// Clients that opened this generation; `None` for the first. A client not listed may still hold offsets
    /// of the previous one and gets 410.
    openers: Option<Mutex<BTreeSet<IpAddr>>>,
    /// Whether it was live when it was built: a finished one is always built the same way.
    was_live: bool,
}

struct FileUse {
    grown_nanos: u64,
    used_nanos: u64,
    is_live: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Catalog {
    /// Serves each of `roots` that is a container, and the containers below the others.
    ///
    /// # Errors
    /// If one of them is not there or is not a folder.
    pub fn new(
        roots: &[PathBuf],
        clock: Clock,
        fresh: Option<Arc<dyn KeepFresh>>,
    ) -> Result<Self, CatalogError> {
        let this = Self {
            roots: Mutex::default(),
            stores: Mutex::default(),
            clock,
            fresh,
            bags: Mutex::default(),
        };
        roots.iter().try_for_each(|root| this.add(root))?;
        drop(this.look());
        Ok(this)
    }

    /// Serves one folder more.
    ///
    /// # Errors
    /// As of [`Catalog::new`].
    pub fn add(&self, root: &Path) -> Result<(), CatalogError> {
        let io = |source| CatalogError::Io { path: root.to_owned(), source };
        let path = root.canonicalize().map_err(io)?;
        if !path.is_dir() {
            return Err(CatalogError::NotAFolder(root.to_owned()));
        }
        path.read_dir().map_err(io)?;
        lock(&self.roots).push(path);
        Ok(())
    }

    /// Serves the recordings of a store, too.
    pub fn add_store(&self, store: Arc<dyn RecordingStore>) {
        lock(&self.stores).push(store);
        // The first list after this has its recordings.
        lock(&self.bags).looked_nanos = None;
    }

    /// Searches for new and removed containers, unless it has just done so.
    fn look(&self) -> MutexGuard<'_, Bags> {
        let mut bags = lock(&self.bags);
        let now = self.clock.monotonic_nanos();
        let is_due = bags
            .looked_nanos
            .is_none_or(|last| now.saturating_sub(last) >= CATALOG_INTERVAL.as_nanos() as u64);
        if is_due {
            let mut found = Vec::new();
            for root in &*lock(&self.roots) {
                if is_container(root) {
                    found.push((file_name(root), root.clone()));
                } else {
                    walk(root, root, 0, &mut found);
                }
            }
            let mut found: Vec<_> =
                found.into_iter().map(|(name, path)| (name, path, None)).collect();
            for store in &*lock(&self.stores) {
                let recordings = store.recordings().into_iter().take(CATALOG_BAGS_MAX);
                found.extend(recordings.map(|(name, address)| {
                    (address_name(&name.replace('/', ".")), address, Some(store.clone()))
                }));
            }
            let known = std::mem::take(&mut bags.by_name);
            let mut by_path: BTreeMap<PathBuf, Arc<ServedRecording>> =
                known.into_values().map(|container| (container.path.clone(), container)).collect();
            // A name once given stays with its container.
            for (_, path, _) in &found {
                if let Some(container) = by_path.remove(path) {
                    bags.by_name.insert(container.name.clone(), container);
                }
            }
            for (name, path, store) in found {
                if bags.by_name.values().all(|container| container.path != path) {
                    let name = unused_name(&bags.by_name, &name);
                    let container = self.served(name.clone(), path, store);
                    bags.by_name.insert(name, Arc::new(container));
                }
            }
            bags.looked_nanos = Some(now);
        }
        bags
    }

    fn served(
        &self,
        name: String,
        path: PathBuf,
        store: Option<Arc<dyn RecordingStore>>,
    ) -> ServedRecording {
        ServedRecording {
            name,
            path,
            store,
            row: Mutex::default(),
            clock: self.clock.clone(),
            fresh: self.fresh.clone(),
            open: Mutex::default(),
            files: Mutex::default(),
            timeline: Mutex::default(),
            used_nanos: AtomicU64::new(0),
        }
    }

    /// All containers, by name.
    pub fn bags(&self) -> Vec<Arc<ServedRecording>> {
        self.look().by_name.values().cloned().collect()
    }

    /// Closes the least recently used ones, while too many are open. Answers under way keep theirs.
    pub fn close_unused(&self) {
        let mut open: Vec<Arc<ServedRecording>> =
            lock(&self.bags).by_name.values().cloned().collect();
        // One that is locked is in use just now.
        open.retain(|container| container.open.try_lock().is_ok_and(|open| open.is_some()));
        let Some(too_many) = open.len().checked_sub(OPEN_BAGS_MAX + 1) else { return };
        open.sort_by_key(|container| container.used_nanos.load(Ordering::Relaxed));
        for container in &open[..=too_many] {
            *lock(&container.open) = None;
            lock(&container.files).clear();
        }
    }

    /// Forgets the timelines that were used longest ago, while too many are kept.
    pub fn forget_timelines(&self) {
        let mut kept: Vec<Arc<ServedRecording>> =
            lock(&self.bags).by_name.values().cloned().collect();
        // One that is locked is in use just now.
        kept.retain(|bag| bag.timeline.try_lock().is_ok_and(|timeline| timeline.is_some()));
        let Some(too_many) = kept.len().checked_sub(TIMELINES_KEPT_MAX) else { return };
        kept.sort_by_key(|bag| bag.used_nanos.load(Ordering::Relaxed));
        for bag in &kept[..too_many] {
            *lock(&bag.timeline) = None;
        }
    }

    /// The container of that name.
    pub fn container(&self, name: &str) -> Option<Arc<ServedRecording>> {
        if let Some(container) = lock(&self.bags).by_name.get(name) {
            return Some(container.clone());
        }
        self.look().by_name.get(name).cloned()
    }
}

fn is_container(path: &Path) -> bool {
    path.join(CONTAINER_FILE).symlink_metadata().is_ok_and(|metadata| metadata.is_file())
}

/// Characters that are not UTF-8 or have a special meaning in addresses become `_`.
fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    address_name(&name)
}

fn address_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if name.is_empty() || name.starts_with('.') { format!("_{name}") } else { name }
}

fn unused_name(known: &BTreeMap<String, Arc<ServedRecording>>, name: &str) -> String {
    let mut unused = name.to_owned();
    for number in 2.. {
        if !known.contains_key(&unused) {
            break;
        }
        unused = format!("{name}~{number}");
    }
    unused
}

/// Adds the containers below `folder`, named by their way from `root`. Symbolic links are not
/// followed.
fn walk(root: &Path, folder: &Path, depth: usize, found: &mut Vec<(String, PathBuf)>) {
    let Ok(entries) = folder.read_dir() else { return };
    // An entry that disappears meanwhile is skipped.
    let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        if found.len() >= CATALOG_BAGS_MAX || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        if is_container(&path) {
            let way = path.strip_prefix(root).unwrap_or(&path).to_string_lossy();
            found.push((address_name(&way.replace('/', ".")), path));
        } else if depth < CATALOG_DEPTH_MAX {
            walk(root, &path, depth + 1, found);
        }
    }
}

fn stamp(file: &Path) -> Stamp {
    let of = |file: Metadata| (file.ino(), file.mtime(), file.mtime_nsec(), file.size());
    file.symlink_metadata().ok().map(of)
}

impl ServedRecording {
    /// Its name in addresses.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The container as it is now. Nothing is changed, also if its recorder died.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn container(&self) -> Result<Arc<Container>, ContainerError> {
        let mut open = lock(&self.open);
        let now = self.clock.monotonic_nanos();
        self.used_nanos.store(now, Ordering::Relaxed);
        if let Some(open) = &*open {
            let is_live = open.container.state() == ContainerState::Live;
            let age = now.saturating_sub(open.opened_nanos);
            let is_old = is_live && age >= LIVE_INTERVAL.as_nanos() as u64
                || self.store.is_some() && age >= STORE_INTERVAL.as_nanos() as u64;
            if !is_old && self.stamps(&open.container) == open.stamps {
                if is_live {
                    self.is_read();
                }
                return Ok(open.container.clone());
            }
        }
        let opened = match &self.store {
            Some(store) => store.open(&self.path),
            // The targets of a folder's links were not given to be served.
            None => Container::peek_on(Arc::new(KernelDisk::for_serving()), &self.path),
        };
        let container = match (opened, &*open) {
            (Ok(container), _) => Arc::new(container),
            // Retention may be removing a split just now: the next look succeeds.
            (Err(_), Some(known))
                if known.container.state() == ContainerState::Live && is_container(&self.path) =>
            {
                return Ok(known.container.clone());
            }
            (Err(error), _) => return Err(error),
        };
        if container.state() == ContainerState::Live {
            self.is_read();
        }
        // Made anew under the same name: files of the one before are not its files.
        if open
            .as_ref()
            .is_some_and(|known| known.container.started_nanos() != container.started_nanos())
        {
            lock(&self.files).clear();
        }
        // Taken after opening, a change in between would be missed until the next second.
        let stamps = self.stamps(&container);
        *lock(&self.row) = None;
        *open = Some(Open { container: container.clone(), stamps, opened_nanos: now });
        Ok(container)
    }

    /// What a list says of it. In a store that is not asked for again: it would open every recording for every list.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn row(&self) -> Result<BagRow, ContainerError> {
        if self.store.is_some()
            && let Some(row) = &*lock(&self.row)
        {
            return Ok(row.clone());
        }
        let row = BagRow::new(&self.name, &*self.container()?)?;
        *lock(&self.row) = Some(row.clone());
        Ok(row)
    }

    /// Its contents over time.
    ///
    /// # Errors
    /// If a topic is not there, or an index cannot be read.
    pub fn timeline(
        &self,
        container: &Container,
        query: &TimelineQuery,
    ) -> Result<Timeline, ContainerError> {
        container.timeline(query, lock(&self.timeline).get_or_insert_default())
    }

    /// Whether its files are open, or just being opened.
    pub fn is_open(&self) -> bool {
        self.open.try_lock().map_or(true, |open| open.is_some())
    }

    fn is_read(&self) {
        if let Some(fresh) = &self.fresh {
            fresh.is_read(&self.path);
        }
    }

    /// Of what may change in place: the container's manifest, its last split's, and its events.
    fn stamps(&self, container: &Container) -> Vec<Stamp> {
        let last = container.splits().last().map(|split| self.path.join(split));
        let manifests = std::iter::once(self.path.clone()).chain(last);
        let files = manifests.map(|folder| folder.join(CONTAINER_FILE));
        files.chain([self.path.join(EVENTS_FILE)]).map(|file| stamp(&file)).collect()
    }

    /// The virtual file of a query; with `anew` a client opens it, else it reads on.
    ///
    /// # Errors
    /// As [`VirtualFile::new`]; or that a reader would be given another file than the one that it has read from.
    pub fn file(
        &self,
        query: &Query,
        reading: Reading,
        peer: IpAddr,
    ) -> Result<Arc<ServedFile>, AnswerError> {
        let now = self.clock.monotonic_nanos();
        let anew = reading == Reading::Opens;
        let goes_on = reading == Reading::GoesOn { knows_state: false };
        let known = lock(&self.files).known.iter().find(|file| file.query == *query).cloned();
        if let Some(file) = known {
            file.check_opener(peer, goes_on)?;
            let mut in_use = lock(&file.in_use);
            in_use.used_nanos = now;
            let age = now.saturating_sub(in_use.grown_nanos);
            // A finished recording may have got an event.
            if anew && age >= VIRTUAL_FILE_GROWTH.as_nanos() as u64 {
                let container = self.container()?;
                in_use.is_live = container.state() == ContainerState::Live;
                file.file.write().unwrap_or_else(PoisonError::into_inner).grow(&container)?;
                in_use.grown_nanos = now;
            }
            drop(in_use);
            return Ok(file);
        }
        let container = self.container()?;
        let is_live = container.state() == ContainerState::Live;
        let was_there = lock(&self.files).was_there(query);
        if goes_on && (is_live || was_there) {
            return Err(AnswerError::LaidOutAnew);
        }
        let file = Arc::new(ServedFile {
            query: query.clone(),
            file: RwLock::new(VirtualFile::new(&container, query)?),
            in_use: Mutex::new(FileUse { grown_nanos: now, used_nanos: now, is_live }),
            made_nanos: self.clock.wall_nanos(),
            started_nanos: container.started_nanos(),
            was_live: is_live,
            openers: was_there.then(|| Mutex::new(BTreeSet::from([peer]))),
        });
        let mut files = lock(&self.files);
        files.known.push(file.clone());
        match files.make_room(now) {
            true => Ok(file),
            false => {
                // No client knows it yet.
                files.known.pop();
                Err(AnswerError::FilesInUse)
            }
        }
    }
}

impl StatusSource for ServedRecording {
    fn container(&self) -> Result<Arc<Container>, ContainerError> {
        self.container()
    }

    fn progress(&self, container: &Container) -> Result<Vec<TopicProgress>, ContainerError> {
        container.progress(lock(&self.timeline).get_or_insert_default())
    }

    fn recorder_status(&self) -> Option<RecorderStatus> {
        self.fresh.as_ref()?.status(&self.path)
    }
}

impl Files {
    /// Forgets the files that were used longest ago, while there are too many; `false` if all of them are
    /// being read.
    fn make_room(&mut self, now: u64) -> bool {
        loop {
            let sizes = self.known.iter().map(|file| file.look(VirtualFile::memory_bytes));
            let bytes: usize = sizes.sum();
            let too_many = self.known.len() > VIRTUAL_FILES_MAX || bytes > VIRTUAL_FILES_BYTES_MAX;
            if !too_many || self.known.len() < 2 {
                return true;
            }
            let used = self.known.iter().map(|file| lock(&file.in_use).used_nanos);
            let Some((oldest, used)) = used.enumerate().min_by_key(|(_, used)| *used) else {
                return true;
            };
            let patience = VIRTUAL_FILE_PATIENCE.as_nanos() as u64;
            if self.known[oldest].is_live() && now.saturating_sub(used) < patience {
                return false;
            }
            let file = self.known.remove(oldest);
            self.forget(&file);
        }
    }

    /// Forgets all of them.
    fn clear(&mut self) {
        for file in std::mem::take(&mut self.known) {
            self.forget(&file);
        }
    }

    fn forget(&mut self, file: &ServedFile) {
        if (file.was_live) && !self.forgotten.contains(&file.query) {
            self.forgotten.push_back(file.query.clone());
            if self.forgotten.len() > VIRTUAL_FILES_FORGOTTEN_MAX {
                self.forgotten.pop_front();
                self.has_more = true;
            }
        }
    }

    /// Whether a client may still hold offsets of an earlier file of this query.
    fn was_there(&self, query: &Query) -> bool {
        self.has_more || self.forgotten.contains(query)
    }
}

impl ServedFile {
    /// Refuses a range from a client that has not opened this generation.
    fn check_opener(&self, peer: IpAddr, goes_on: bool) -> Result<(), AnswerError> {
        let Some(openers) = &self.openers else { return Ok(()) };
        let mut openers = lock(openers);
        if !openers.contains(&peer) {
            if goes_on {
                return Err(AnswerError::LaidOutAnew);
            }
            // Those beyond the bound open it for each question.
            if openers.len() < CONNECTIONS_MAX {
                openers.insert(peer);
            }
        }
        Ok(())
    }

    fn look<T>(&self, at: impl FnOnce(&VirtualFile) -> T) -> T {
        at(&self.file.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Its length now.
    pub fn bytes(&self) -> u64 {
        self.look(VirtualFile::len)
    }

    /// Whether it may grow.
    pub fn is_live(&self) -> bool {
        lock(&self.in_use).is_live
    }

    /// Tells this file at this length from every other.
    pub fn tag(&self, bytes: u64) -> String {
        match self.is_live() {
            true => format!("\"live-{:x}-{bytes:x}\"", self.made_nanos),
            false => {
                let messages = self.look(VirtualFile::messages);
                format!("\"{:x}-{bytes:x}-{messages:x}\"", self.started_nanos)
            }
        }
    }

    /// A part of it.
    ///
    /// # Errors
    /// If the recording cannot be read there.
    pub fn read(
        &self,
        offset: u64,
        count: usize,
        out: &mut Buffer,
    ) -> Result<(), VirtualFileError> {
        self.look(|file| file.read(offset, count, out))
    }
}

#[cfg(test)]
mod tests {
    use livebag::{Recorder, RecorderOptions};

    use super::*;

    #[test]
    fn who_has_not_opened_a_file_that_was_laid_out_anew_may_mean_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run1");
        let recorder = Recorder::create(&path, RecorderOptions::default()).unwrap();
        let catalog = Catalog::new(&[path], Clock::simulated(1), None).unwrap();
        let served = catalog.container("run1").unwrap();
        let (query, old, new) = (Query::default(), [10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let goes_on = Reading::GoesOn { knows_state: false };
        let file = |reading, peer: IpAddr| served.file(&query, reading, peer).map(drop);
        let is_refused = |result| matches!(result, Err(AnswerError::LaidOutAnew));
        assert!(is_refused(file(goes_on, old)), "nobody has opened it");
        file(Reading::Opens, old).unwrap();
        file(goes_on, new).unwrap();
        lock(&served.files).clear();
        assert!(is_refused(file(goes_on, old)));
        file(Reading::Opens, new).unwrap();
        file(goes_on, new).unwrap();
        assert!(is_refused(file(goes_on, old)), "it read the one before");
        file(Reading::End, old).unwrap();
        file(goes_on, old).unwrap();
        // Finished meanwhile, it still differs from its live state.
        recorder.finish().unwrap();
        lock(&served.files).clear();
        assert!(is_refused(file(goes_on, old)));
        lock(&served.files).forgotten.clear();
        file(goes_on, old).unwrap();
        // Of more than can be remembered, each may have been there.
        let files = Files { has_more: true, ..Files::default() };
        assert!(files.was_there(&query) && !Files::default().was_there(&query));
    }
}
