//! Any moment of a recording, finished or running.
//!
//! A query is planned per topic (two binary searches in its time index), read by one cursor per
//! topic, and merged by log time. Nothing is scanned, and opening costs the same for a recording of
//! a gigabyte and of a terabyte.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use livebag_format::container::{ClockJumps, Losses, Manifest, MetadataEntry, Removed};
use livebag_format::event::{EVENTS_FILE, Event};

use crate::container::events;
pub use crate::container::{ContainerError, ContainerState};
use crate::container::{Opened, as_it_is, read_owner, settled, settled_thoroughly};
use crate::storage::{Disk, KernelDisk, ReadDisk, ReadFile};

mod account;
mod answer;
mod brick;
mod buffer;
mod cursor;
mod follow;
mod index;
mod newest_first;
mod open;
mod ranges;
mod timeline;
mod topic;
mod virtual_file;

pub use answer::{DAMAGED_RECORD, Laid, McapAnswer, Messages, Verdict, damaged_topics};
pub use buffer::Buffer;
pub use cursor::Cursor;
pub use follow::{Follow, Followed};
pub use livebag_format::index::IndexEntry;
pub use newest_first::NewestFirst;
pub use ranges::TopicRange;
pub use timeline::{
    LossCause, LossSpan, TimeBins, Timeline, TimelineCache, TimelineQuery, TopicProgress,
    TopicTimeline,
};
pub use topic::{ContainerTopic, warning_of_missing};
pub use virtual_file::{VirtualFile, VirtualFileError};

use brick::Brick;
use open::add_topics;
use topic::Segment;

/// Which messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Topic names; empty for all.
    pub topics: Vec<String>,
    /// Which time.
    pub span: Span,
}

/// Which time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Span {
    /// Everything.
    #[default]
    All,
    /// This long before the newest message of the chosen topics, until then.
    Latest(Duration),
    /// From the first to the second log time, both included; nanoseconds since the Unix epoch.
    History(u64, u64),
}

/// The contents of a container in one of its MCAP files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerFile {
    /// Relative to the container's directory.
    pub path: PathBuf,
    /// First log time.
    pub start_nanos: u64,
    /// Last log time.
    pub end_nanos: u64,
    /// Messages of all topics.
    pub message_count: u64,
}

/// A container, open for reading.
pub struct Container {
    disk: Arc<dyn ReadDisk>,
    path: PathBuf,
    state: ContainerState,
    manifest: Manifest,
    topics: Vec<ContainerTopic>,
    /// The file that `attachments_path` names, if it is there.
    attachments: Option<Arc<dyn ReadFile>>,
    /// The file of its events, if it was there when the container was opened.
    events: Option<Arc<dyn ReadFile>>,
    recorder_pid: Option<u32>,
    in_place: bool,
    is_mended: bool,
}

/// How a directory's state and manifest are found: with or without recovering it.
type Look<'a> = dyn Fn(&Path) -> Result<Opened, ContainerError> + 'a;

impl Container {
    /// Opens a container, whether a recorder is writing it or not. One whose recorder died is
    /// recovered first.
    ///
    /// # Errors
    /// See [`ContainerError`].
    pub fn open(path: &Path) -> Result<Self, ContainerError> {
        Self::open_on(&KernelDisk::for_reading(), path)
    }

    /// The same on any disk.
    ///
    /// # Errors
    /// See [`ContainerError`].
    pub fn open_on(
        disk: &(impl Disk + Clone + 'static),
        path: &Path,
    ) -> Result<Self, ContainerError> {
        Self::assemble(Arc::new(disk.clone()), path, &|path| settled(disk, path))
    }

    /// Opens a container after reading every brick of it from front to back, and repairing whatever
    /// is damaged: `container.yaml` and indexes are rebuilt from the provable contents of the bricks, and damaged
    /// stretches of a brick are left out. The original bytes are kept beside it. A sound container is left as it is.
    ///
    /// # Errors
    /// See [`ContainerError`].
    pub fn recover(path: &Path) -> Result<Self, ContainerError> {
        Self::recover_on(&KernelDisk::for_reading(), path)
    }

    /// The same on any disk.
    ///
    /// # Errors
    /// See [`ContainerError`].
    pub fn recover_on(
        disk: &(impl Disk + Clone + 'static),
        path: &Path,
    ) -> Result<Self, ContainerError> {
        Self::assemble(Arc::new(disk.clone()), path, &|path| settled_thoroughly(disk, path))
    }

    /// Opens a container and changes nothing: one whose recorder died is read as it is.
    ///
    /// # Errors
    /// See [`ContainerError`].
    pub fn peek(path: &Path) -> Result<Self, ContainerError> {
        Self::peek_on(Arc::new(KernelDisk::for_reading()), path)
    }

    /// The same on any disk, also on one that cannot be written.
    ///
    /// # Errors
    /// See [`ContainerError`].
    pub fn peek_on(disk: Arc<dyn ReadDisk>, path: &Path) -> Result<Self, ContainerError> {
        let on = disk.clone();
        Self::assemble(disk, path, &|path| as_it_is(&*on, path))
    }

    fn assemble(
        kept: Arc<dyn ReadDisk>,
        path: &Path,
        look: &Look<'_>,
    ) -> Result<Self, ContainerError> {
        let disk = &*kept;
        let Opened { state, manifest, mut is_mended } = look(path)?;
        let mut topics = Vec::new();
        add_topics(disk, path, "", &manifest, state, &mut topics)?;
        for name in &manifest.splits {
            let directory = path.join(name);
            match look(&directory) {
                Ok(split) => {
                    is_mended |= split.is_mended;
                    add_topics(disk, &directory, name, &split.manifest, split.state, &mut topics)?;
                }
                // Retention may have removed it meanwhile, or it is still being created.
                Err(ContainerError::NotFound(_) | ContainerError::NotAContainer(_))
                    if state != ContainerState::Closed => {}
                Err(error) => return Err(error),
            }
        }
        if state == ContainerState::Live {
            // Retention is removing them, and counts them.
            topics.iter_mut().for_each(|topic| topic.missing = 0);
        }
        let recorder_pid = read_owner(disk, path).map(|owner| owner.pid);
        let path = path.to_owned();
        // If they are gone, the messages can still be read.
        let attachments = attachments_path(&path, &manifest).and_then(|path| disk.open(&path).ok());
        let events = disk.open(&path.join(EVENTS_FILE)).ok();
        Ok(Self {
            disk: kept,
            path,
            state,
            manifest,
            topics,
            attachments,
            events,
            recorder_pid,
            in_place: false,
            is_mended,
        })
    }

    /// The same, but cursors return messages in place in the page cache ([`Cursor::next`]) instead of copying them.
    /// They do so only if much of a topic is requested (2 MiB), the messages are not compressed, and their brick can be
    /// mapped.
    ///
    /// A brick that is too short when it is opened, or whose medium fails, is an error.
    ///
    /// # Safety
    /// No program writes or truncates the bricks while the container and its messages are used: bytes that change
    /// behind a reference are undefined behaviour, and a truncation kills the process (SIGBUS). livebag itself never
    /// changes committed data. So this is for programs that read their own files, and for no recorder and no server.
    ///
    /// ```no_run
    /// // SAFETY: nobody else may write in this folder.
    /// let container = unsafe { livebag::Container::open("run1".as_ref())?.in_place() };
    /// let mut cursor = container.query(&livebag::Query::default())?;
    /// while let Some((_, message)) = cursor.next()? {
    ///     println!("{} {}", message.log_time_nanos, message.data[0]);
    /// }
    /// # Ok::<(), livebag::ContainerError>(())
    /// ```
    #[must_use]
    #[expect(unsafe_code, reason = "a promise about files, kept by `storage/mapping.rs`")]
    pub unsafe fn in_place(mut self) -> Self {
        self.in_place = true;
        self
    }

    /// Whether all topics of a split are in one MCAP file (`livebag record --storage mcap`).
    pub fn is_one_file(&self) -> bool {
        self.manifest.one_file
    }

    /// Its MCAP files with messages, in order of time.
    ///
    /// # Errors
    /// If an index cannot be read.
    pub fn files(&self) -> Result<Vec<ContainerFile>, ContainerError> {
        let mut files: BTreeMap<&Path, ContainerFile> = BTreeMap::new();
        for segment in self.topics.iter().flat_map(|topic| &topic.segments) {
            let Some((start_nanos, end_nanos)) = segment.time_range()? else { continue };
            // A topic's messages of one split are all in one file.
            let Some(Brick { path, .. }) = segment.bricks.first() else { continue };
            let file = files.entry(path).or_insert_with(|| ContainerFile {
                path: path.strip_prefix(&self.path).unwrap_or(path).to_owned(),
                start_nanos,
                end_nanos,
                message_count: 0,
            });
            file.start_nanos = file.start_nanos.min(start_nanos);
            file.end_nanos = file.end_nanos.max(end_nanos);
            file.message_count += segment.index.count()?;
        }
        let mut files: Vec<_> = files.into_values().collect();
        files.sort_by_key(|file| file.start_nanos);
        Ok(files)
    }

    /// The disk that it is read from.
    pub fn disk(&self) -> &Arc<dyn ReadDisk> {
        &self.disk
    }

    /// The container's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Live, closed, recovered.
    pub fn state(&self) -> ContainerState {
        self.state
    }

    /// Whether opening it repaired files of it.
    pub fn is_mended(&self) -> bool {
        self.is_mended
    }

    /// MCAP's profile of the messages.
    pub fn profile(&self) -> &str {
        &self.manifest.profile
    }

    /// Program and version that wrote it.
    pub fn library(&self) -> &str {
        &self.manifest.library
    }

    /// When recording began; nanoseconds since the Unix epoch.
    pub fn started_nanos(&self) -> u64 {
        self.manifest.started_nanos
    }

    /// Process id of the recorder that made it, if it says; of a live container the one at work.
    pub fn recorder_pid(&self) -> Option<u32> {
        self.recorder_pid
    }

    /// What ended the recording early, if anything.
    pub fn failure(&self) -> Option<&str> {
        Some(self.manifest.failure.as_str()).filter(|failure| !failure.is_empty())
    }

    /// Messages of all topics that cannot be reached, see [`ContainerTopic::missing`].
    ///
    /// # Errors
    /// If an index cannot be read.
    pub fn missing(&self) -> Result<u64, ContainerError> {
        self.topics.iter().map(ContainerTopic::missing).sum()
    }

    /// Names and values stored in the recording.
    pub fn metadata(&self) -> &[MetadataEntry] {
        &self.manifest.metadata
    }

    /// The MCAP file with the files that the recording carries along (MCAP's attachments), if it has
    /// any; `livebag_bags::attachments` reads it.
    pub fn attachments_path(&self) -> Option<PathBuf> {
        attachments_path(&self.path, &self.manifest)
    }

    /// Named moments and time ranges, in order of time, as they are now. Damaged lines of their file are left
    /// out.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn events(&self) -> Result<Vec<Event>, ContainerError> {
        Ok(events::read(&*self.disk, &self.path)?.events)
    }

    /// Directories of the later splits; the first split is in the container's own directory.
    pub fn splits(&self) -> &[String] {
        &self.manifest.splits
    }

    /// How often the wall clock was set while it was recorded.
    pub fn clock_jumps(&self) -> ClockJumps {
        self.manifest.clock_jumps
    }

    /// The time from which losses are unknown, nanoseconds since the Unix epoch: the recorder died then at the
    /// earliest, or a copy of a recording that lacks messages was begun.
    pub fn unknown_since_nanos(&self) -> Option<u64> {
        match self.state {
            ContainerState::Live => None,
            ContainerState::Closed => {
                Some(self.manifest.unknown_since_nanos).filter(|since| *since > 0)
            }
            ContainerState::Recovered => {
                // An older livebag that recovered it did not say.
                Some(self.manifest.unknown_since_nanos.max(self.manifest.started_nanos))
            }
            ContainerState::Unrecovered => {
                Some(self.manifest.written_nanos.max(self.manifest.started_nanos))
            }
        }
    }

    /// What retention has removed from the recording.
    pub fn removed(&self) -> &Removed {
        &self.manifest.removed
    }

    /// The topics, in the order of appearance.
    pub fn topics(&self) -> &[ContainerTopic] {
        &self.topics
    }

    /// Losses of all topics, removed splits included.
    pub fn lost(&self) -> Losses {
        let mut lost = self.manifest.removed.lost;
        self.topics.iter().for_each(|topic| lost.add(&topic.lost));
        lost
    }

    /// First and last log time over all topics; `None` without messages.
    ///
    /// # Errors
    /// If an index cannot be read.
    pub fn time_range(&self) -> Result<Option<(u64, u64)>, ContainerError> {
        self.range_of(&(0..self.topics.len()).collect::<Vec<_>>())
    }

    fn range_of(&self, chosen: &[usize]) -> Result<Option<(u64, u64)>, ContainerError> {
        let mut range: Option<(u64, u64)> = None;
        self.will_be_read(chosen);
        for &topic in chosen {
            if let Some((first, last)) = self.topics[topic].time_range()? {
                let (a, b) = range.unwrap_or((first, last));
                range = Some((a.min(first), b.max(last)));
            }
        }
        Ok(range)
    }

    /// Hints that the indexes of these topics will be read: those that are not in memory are fetched together.
    fn will_be_read(&self, chosen: &[usize]) {
        chosen.iter().for_each(|&topic| self.topics[topic].will_be_read());
    }

    fn choose(&self, names: &[String]) -> Result<Vec<usize>, ContainerError> {
        if names.is_empty() {
            return Ok((0..self.topics.len()).collect());
        }
        let mut chosen = Vec::new();
        for name in names {
            let before = chosen.len();
            let all = self.topics.iter().enumerate();
            chosen.extend(all.filter(|(_, t)| t.topic.name == *name).map(|(at, _)| at));
            if chosen.len() == before {
                let known = self.topics.iter().map(|topic| topic.topic.name.clone()).collect();
                return Err(ContainerError::NoTopic { topic: name.clone(), known });
            }
        }
        chosen.sort_unstable();
        chosen.dedup();
        Ok(chosen)
    }

    /// Plans a query. Messages that a live recording commits afterwards are not part of the answer.
    ///
    /// # Errors
    /// If a topic is not there, or an index cannot be read.
    pub fn query(&self, query: &Query) -> Result<Cursor<'_>, ContainerError> {
        let (chosen, from, to) = self.resolve(query)?;
        Cursor::plan(self, &chosen, from, to)
    }

    /// Plans the same query from its newest message to its oldest.
    ///
    /// # Errors
    /// If a topic is not there, or an index cannot be read.
    pub fn newest_first(&self, query: &Query) -> Result<NewestFirst<'_>, ContainerError> {
        let (chosen, from, to) = self.resolve(query)?;
        NewestFirst::plan(self, &chosen, from, to)
    }

    /// Topics, first and last log time.
    fn resolve(&self, query: &Query) -> Result<(Vec<usize>, u64, u64), ContainerError> {
        let chosen = self.choose(&query.topics)?;
        self.will_be_read(&chosen);
        let (from, to) = match query.span {
            Span::All => (0, u64::MAX),
            Span::History(from, to) => (from, to),
            Span::Latest(last) => match self.range_of(&chosen)? {
                Some((_, newest)) => (newest.saturating_sub(last.as_nanos() as u64), newest),
                None => (0, u64::MAX),
            },
        };
        Ok((chosen, from, to))
    }
}

fn attachments_path(container: &Path, manifest: &Manifest) -> Option<PathBuf> {
    let name = Some(&manifest.attachments).filter(|name| !name.is_empty());
    name.map(|name| container.join(name))
}

#[cfg(test)]
mod tests;
