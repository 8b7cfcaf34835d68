//! One split being written: a container with its bricks, indexes and manifest.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use livebag_format::Topic;
use livebag_format::container::{
    CONTAINER_FILE, CONTAINER_VERSION, ClockJumps, LOCK_FILE, Losses, Manifest, MetadataEntry,
    State, TopicManifest,
};

use super::RecordError;
use super::brick::{Brick, LIBRARY};
use super::topic::{SplitTopic, TopicFiles};
use crate::container::FileNames;
use crate::limits::{
    CLOSE_RESERVE_BYTES, CLOSE_RESERVE_FILES, OWN_GATHERED_BRICKS_MAX, SPARE_FILES_MIN,
};
use crate::storage::{Access, Disk, Lock, ReadFile, is_out_of_files};

/// File that keeps some space, so that a full disk does not prevent an orderly end.
pub(super) const RESERVE_FILE: &str = "container.reserve";

/// A topic's brick and index.
pub(super) const TOPIC_FILES: usize = 2;

/// A split being written, or waiting for its last writes.
pub(super) struct Split {
    pub number: u32,
    pub directory: PathBuf,
    pub disk: Arc<dyn Disk>,
    pub bricks: Vec<Brick>,
    /// By the topic's number in the recorder.
    pub topics: Vec<SplitTopic>,
    pub started_nanos: u64,
    pub began_monotonic_nanos: u64,
    /// Writes in flight.
    pub in_flight: usize,
    /// Topics that the manifest does not tell of yet.
    pub new_topics: bool,
    /// Bricks that the manifest does not tell of yet.
    pub new_bricks: bool,
    pub profile: String,
    /// Name of the one brick of all topics, if there is only one.
    pub one_file: Option<String>,
    pub metadata: Vec<MetadataEntry>,
    written_losses: Losses,
    written_repeated: u64,
    file_names: FileNames,
    shared_brick: Option<usize>,
    gathered_bricks: usize,
    /// The file that reserves space, opened as often as closing opens files at a time.
    reserve: Vec<Arc<dyn ReadFile>>,
    lock: Option<Box<dyn Lock>>,
}

/// Directory of a later split.
pub(super) fn split_name(number: u32) -> String {
    format!("split_{number:04}")
}

impl Split {
    /// Makes the directory of a split and takes its lock.
    pub fn create(
        disk: Arc<dyn Disk>,
        directory: PathBuf,
        number: u32,
        started_nanos: u64,
        began_monotonic_nanos: u64,
    ) -> Result<Self, RecordError> {
        disk.create_dir(&directory).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => RecordError::Exists(directory.clone()),
            _ => RecordError::Io { doing: "making", path: directory.clone(), source },
        })?;
        let lock_path = directory.join(LOCK_FILE);
        let lock = disk.lock(&lock_path).map_err(|source| RecordError::Io {
            doing: "locking",
            path: lock_path,
            source,
        })?;
        let reserve = reserve_space(&*disk, &directory.join(RESERVE_FILE))?;
        Ok(Self {
            number,
            directory,
            disk,
            bricks: Vec::new(),
            topics: Vec::new(),
            started_nanos,
            began_monotonic_nanos,
            in_flight: 0,
            new_topics: false,
            new_bricks: false,
            profile: String::new(),
            one_file: None,
            metadata: Vec::new(),
            written_losses: Losses::default(),
            written_repeated: 0,
            file_names: FileNames::of_container(),
            shared_brick: None,
            gathered_bricks: 0,
            reserve,
            lock,
        })
    }

    /// Bytes of all bricks.
    pub fn bytes(&self) -> u64 {
        self.bricks.iter().map(|brick| brick.tail).sum()
    }

    pub fn add_topic(&mut self, topic: SplitTopic) {
        self.topics.push(topic);
        self.new_topics = true;
    }

    /// The brick that takes the topic's messages, made when there is something to write.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn brick_of(&mut self, topic: usize, access: Access) -> io::Result<usize> {
        let state = &mut self.topics[topic];
        if let Some(files) = &state.files {
            return Ok(files.brick);
        }
        let names = &mut self.file_names;
        let given = state.file_stem.get_or_insert_with(|| names.give(&state.topic.name)).clone();
        self.require_spare_files()?;
        let is_own = self.one_file.is_none() && self.gathered_bricks < OWN_GATHERED_BRICKS_MAX;
        let gathered = access == Access::Buffered;
        let brick = if let Some(stem) = self.one_file.clone() {
            self.join_one_file(&stem, topic)?
        } else if gathered && !is_own {
            self.join_shared_brick(topic)?
        } else {
            self.make_brick(format!("{given}.mcap"), access, topic)?
        };
        let index_name = format!("{given}.idx");
        let created = TopicFiles::create(&*self.disk, &self.directory, index_name.clone(), brick);
        let files = match created {
            Ok(files) => files,
            Err(error) => {
                self.remove_made(&index_name, &error);
                self.forget_unused(brick, &error);
                return Err(error);
            }
        };
        self.gathered_bricks += usize::from(gathered && is_own);
        self.topics[topic].files = Some(files);
        self.bricks[brick].topics.push(topic);
        self.new_bricks = true;
        Ok(brick)
    }

    /// Checks that the process may open the files of one more topic, and some more: manifests are replaced and data is
    /// synced while recording.
    fn require_spare_files(&self) -> io::Result<()> {
        self.require_files(TOPIC_FILES + SPARE_FILES_MIN)
    }

    /// The same for a new split: its lock and its reserve.
    ///
    /// # Errors
    /// If it may not.
    pub fn require_files_of_split(&self) -> io::Result<()> {
        match self.require_files(1 + CLOSE_RESERVE_FILES + SPARE_FILES_MIN) {
            Err(error) if is_out_of_files(&error) => Err(error),
            // The split itself will say what is wrong with the disk.
            _ => Ok(()),
        }
    }

    fn require_files(&self, count: usize) -> io::Result<()> {
        require_files(&*self.disk, &self.directory.join(RESERVE_FILE), count)
    }

    /// A topic is announced when it has something to write: the data section and the summary must have the same topics.
    fn join_one_file(&mut self, stem: &str, topic: usize) -> io::Result<usize> {
        if self.shared_brick.is_some() {
            return self.join_shared_brick(topic);
        }
        let brick =
            self.make_brick(format!("{stem}_{}.mcap", self.number), Access::Direct, topic)?;
        self.shared_brick = Some(brick);
        Ok(brick)
    }

    fn make_brick(&mut self, file_name: String, access: Access, topic: usize) -> io::Result<usize> {
        let state = &self.topics[topic];
        let topics: [(u16, &Topic); 1] = [(state.channel_id, &state.topic)];
        let (directory, profile) = (&self.directory, &self.profile);
        let created =
            Brick::create(&*self.disk, directory, file_name.clone(), access, profile, &topics);
        let brick = created.inspect_err(|error| self.remove_made(&file_name, error))?;
        self.bricks.push(brick);
        Ok(self.bricks.len() - 1)
    }

    /// Removes the last brick again if no topic uses it.
    fn forget_unused(&mut self, brick: usize, why: &io::Error) {
        let is_last = brick + 1 == self.bricks.len() && self.shared_brick != Some(brick);
        if is_last && self.bricks[brick].topics.is_empty() {
            let file_name = self.bricks.remove(brick).file_name;
            self.remove_made(&file_name, why);
        }
    }

    /// Removes what there may be of a file that could not be made; not one that was there before.
    fn remove_made(&self, file_name: &str, why: &io::Error) {
        if why.kind() != io::ErrorKind::AlreadyExists {
            // If it cannot be removed, it is a file without a topic, which `verify` reports.
            let _ = self.disk.remove(&self.directory.join(file_name));
        }
    }

    fn join_shared_brick(&mut self, topic: usize) -> io::Result<usize> {
        if let Some(brick) = self.shared_brick {
            let state = &self.topics[topic];
            self.bricks[brick].announce(state.channel_id, &state.topic)?;
            return Ok(brick);
        }
        let file_name = format!("{}.mcap", self.file_names.give("shared"));
        let brick = self.make_brick(file_name, Access::Buffered, topic)?;
        self.shared_brick = Some(brick);
        Ok(brick)
    }

    /// Frees the reserved space and files, so that the split can be closed on a full disk and at the limit of open
    /// files.
    pub fn drop_reserve(&mut self) {
        if !std::mem::take(&mut self.reserve).is_empty() {
            // A reserve that cannot be removed is only an empty file more in the container.
            let _ = self.disk.remove(&self.directory.join(RESERVE_FILE));
        }
    }

    /// Losses or repeated messages since the manifest was written, or topics that it does not tell of.
    pub fn has_news(&self) -> bool {
        self.new_topics
            || self.losses() != self.written_losses
            || self.repeated() != self.written_repeated
    }

    fn repeated(&self) -> u64 {
        self.topics.iter().map(SplitTopic::repeated).sum()
    }

    fn losses(&self) -> Losses {
        let mut losses = Losses::default();
        self.topics.iter().for_each(|topic| losses.add(topic.lost()));
        losses
    }

    /// The topics for the manifest.
    pub fn describe_topics(&self) -> Vec<TopicManifest> {
        let describe = |topic: &SplitTopic| {
            let brick = topic.files.as_ref().map(|files| &self.bricks[files.brick]);
            topic.describe(brick.map(|brick| brick.file_name.clone()))
        };
        self.topics.iter().map(describe).collect()
    }

    /// The manifest of only this split.
    pub fn manifest(
        &self,
        state: State,
        (ended_nanos, written_nanos): (u64, u64),
        failure: String,
    ) -> Manifest {
        Manifest {
            livebag_container: CONTAINER_VERSION,
            library: LIBRARY.into(),
            profile: self.profile.clone(),
            state,
            started_nanos: self.started_nanos,
            ended_nanos,
            written_nanos,
            unknown_since_nanos: 0,
            failure,
            metadata: self.metadata.clone(),
            attachments: String::new(),
            splits: Vec::new(),
            one_file: self.one_file.is_some(),
            clock_jumps: ClockJumps::default(),
            removed: livebag_format::container::Removed::default(),
            topics: self.describe_topics(),
        }
    }

    /// The manifest tells everything now.
    pub fn note_written(&mut self) {
        self.written_losses = self.losses();
        self.written_repeated = self.repeated();
        self.new_topics = false;
        self.new_bricks = false;
    }

    /// The lock, for an owner that outlives the split; otherwise it is released when the split is closed.
    pub fn take_lock(&mut self) -> Option<Box<dyn Lock>> {
        self.lock.take()
    }
}

/// Checks that the process may open so many more files, by opening one as often.
///
/// # Errors
/// If it may not.
pub(super) fn require_files(disk: &dyn Disk, path: &Path, count: usize) -> io::Result<()> {
    (0..count).map(|_| disk.open(path)).collect::<io::Result<Vec<_>>>().map(drop)
}

/// Writes a manifest.
///
/// # Errors
/// If the disk refuses.
pub(super) fn write_manifest(
    disk: &dyn Disk,
    directory: &Path,
    manifest: &Manifest,
    durable: bool,
) -> Result<(), RecordError> {
    let path = directory.join(CONTAINER_FILE);
    let text = manifest.to_yaml().map_err(io::Error::other);
    let written = text.and_then(|text| disk.replace(&path, text.as_bytes(), durable));
    written.map_err(|source| RecordError::Io { doing: "writing", path, source })
}

pub(super) fn reserve_space(
    disk: &dyn Disk,
    path: &Path,
) -> Result<Vec<Arc<dyn ReadFile>>, RecordError> {
    let make = || {
        let file = disk.create(path, Access::Buffered)?;
        file.reserve(0, CLOSE_RESERVE_BYTES)?;
        let file: Arc<dyn ReadFile> = file;
        let more = (1..CLOSE_RESERVE_FILES).map(|_| disk.open(path));
        [Ok(file)].into_iter().chain(more).collect::<io::Result<Vec<_>>>()
    };
    make().map_err(|source| RecordError::Io {
        doing: "setting space aside in",
        path: path.to_owned(),
        source,
    })
}
