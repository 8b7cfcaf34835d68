//! The thread that writes: from queues into transactions.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use livebag_format::container::LOCK_FILE;
use livebag_format::rosbag2::BagMetadata;
use livebag_format::{Message, Topic};

use super::{BagFileWriter, BagWriteError, BagWriter, add};
use crate::limits::{COMMIT_BYTES_MAX, POLL_MAX, SPACE_LOOK_INTERVAL, SPARE_FILES_MIN};
use crate::queue::{Queued, TopicQueue};
use crate::recorder::error::{hint, is_passing};
use crate::recorder::queues::Latched;
use crate::recorder::split::{RESERVE_FILE, require_files, reserve_space};
use crate::recorder::{Counters, LowSpace, RecordError, Shared};
use crate::storage::{Lock, ReadFile, if_there, is_out_of_files};

/// A command of the recorder's thread to this one.
pub(super) enum Order {
    /// One more topic.
    Topic(Arc<Topic>, Arc<TopicQueue>, Arc<Counters>),
    /// A new file.
    Split,
    /// Write the ring's messages.
    Snapshot,
    /// The queues are closed: write their messages, and end.
    Finish,
}

/// What there is at the end.
pub(super) struct Written {
    /// Of each file that is still there.
    pub files: Vec<BagMetadata>,
    /// What wrote them.
    pub writer: Box<dyn BagWriter>,
    /// Held until `metadata.yaml` is there.
    pub lock: Option<Box<dyn Lock>>,
    /// Whether every file was closed in order.
    pub is_whole: bool,
    /// Files that retention has removed.
    pub removed: u64,
}

struct Recorded {
    topic: Arc<Topic>,
    queue: Arc<TopicQueue>,
    counters: Arc<Counters>,
    latched: Option<Latched>,
    open: Open,
}

/// A topic's messages in the open transaction.
#[derive(Default)]
struct Open {
    messages: u64,
    bytes: u64,
    repeated: u64,
}

impl Open {
    fn add(&mut self, data: &[u8]) {
        self.messages += 1;
        self.bytes += data.len() as u64;
    }
}

/// A file that takes no more messages.
struct Past {
    metadata: BagMetadata,
    bytes: u64,
    ended_nanos: u64,
}

pub(super) struct Writing {
    shared: Arc<Shared>,
    writer: Box<dyn BagWriter>,
    /// Names and values that every file carries.
    custom: BTreeMap<String, String>,
    /// By the topic's number in every file.
    topics: Vec<Recorded>,
    /// `None` after a failure: later messages are counted as lost.
    file: Option<Box<dyn BagFileWriter>>,
    /// Whether every file was closed in order.
    is_whole: bool,
    number: u32,
    began_nanos: u64,
    past: VecDeque<Past>,
    removed: u64,
    next_look_nanos: u64,
    flush_ring: bool,
    /// A file was to begin, and too many were open.
    is_split_postponed: bool,
    drained: VecDeque<Queued>,
    /// Keeps some space, so that a full disk does not prevent an orderly end.
    reserve: Vec<Arc<dyn ReadFile>>,
    /// Tells others that the recording is in progress.
    lock: Option<Box<dyn Lock>>,
}

/// `run1_0.db3`, as rosbag2 names its files.
fn path_of(directory: &Path, number: u32, extension: &str) -> PathBuf {
    let stem = directory.file_name().unwrap_or(directory.as_os_str()).to_string_lossy();
    directory.join(format!("{stem}_{number}.{extension}"))
}

impl Writing {
    /// Makes the directory and the first file.
    ///
    /// # Errors
    /// If the directory exists, or the disk refuses.
    pub fn create(
        shared: Arc<Shared>,
        mut writer: Box<dyn BagWriter>,
    ) -> Result<Self, RecordError> {
        let directory = shared.directory.clone();
        shared.disk.create_dir(&directory).map_err(|source| match source.kind() {
            std::io::ErrorKind::AlreadyExists => RecordError::Exists(directory.clone()),
            _ => RecordError::Io { doing: "making", path: directory.clone(), source },
        })?;
        let lock_path = directory.join(LOCK_FILE);
        let lock = shared.disk.lock(&lock_path).map_err(|source| RecordError::Io {
            doing: "locking",
            path: lock_path,
            source,
        })?;
        let reserve = reserve_space(&*shared.disk, &directory.join(RESERVE_FILE))?;
        let custom = shared.options.metadata.iter().filter(|entry| entry.name == "custom_data");
        let custom: BTreeMap<_, _> = custom.flat_map(|entry| entry.values.clone()).collect();
        let file = writer.create(&path_of(&directory, 0, writer.extension()), &custom)?;
        let began_nanos = shared.options.clock.monotonic_nanos();
        Ok(Self {
            shared,
            writer,
            custom,
            topics: Vec::new(),
            file: Some(file),
            is_whole: true,
            number: 0,
            began_nanos,
            past: VecDeque::new(),
            removed: 0,
            next_look_nanos: 0,
            flush_ring: false,
            is_split_postponed: false,
            drained: VecDeque::new(),
            reserve,
            lock,
        })
    }

    /// Writes until a command ends it.
    pub fn run(mut self, orders: &Receiver<Order>) -> Written {
        while self.take_orders(orders) {
            self.take_queues(false);
            self.commit();
            self.split_if_due();
            self.keep_retention();
        }
        self.take_queues(true);
        self.commit();
        self.finish()
    }

    fn fail(&mut self, error: RecordError) {
        self.shared.fail(error);
        // Uncommitted messages are lost.
        self.file = None;
        self.is_whole = false;
        for topic in &mut self.topics {
            let Open { messages, repeated, .. } = std::mem::take(&mut topic.open);
            add(&topic.counters.disk, messages - repeated);
        }
        if !std::mem::take(&mut self.reserve).is_empty() {
            // A reserve that cannot be removed is only an empty file more.
            let _ = self.shared.disk.remove(&self.shared.directory.join(RESERVE_FILE));
        }
    }

    /// Does something with the file; its first failure is the last.
    fn with_file<T>(
        &mut self,
        work: impl FnOnce(&mut dyn BagFileWriter) -> Result<T, BagWriteError>,
    ) -> Option<T> {
        let done = work(&mut **self.file.as_mut()?);
        done.map_err(|error| self.fail(error.into())).ok()
    }

    /// Waits a little for orders and follows them; `false` at the end.
    fn take_orders(&mut self, orders: &Receiver<Order>) -> bool {
        let mut wait = POLL_MAX;
        loop {
            match orders.recv_timeout(wait) {
                Ok(Order::Topic(topic, queue, counters)) => self.add_topic(topic, queue, counters),
                Ok(Order::Split) => self.begin_split(),
                Ok(Order::Snapshot) => self.flush_ring = true,
                Ok(Order::Finish) | Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => return true,
            }
            wait = Duration::ZERO;
        }
    }

    fn add_topic(&mut self, topic: Arc<Topic>, queue: Arc<TopicQueue>, counters: Arc<Counters>) {
        self.with_file(|file| file.add_topic(&topic));
        let is_latched = self.shared.options.topics.rule(&topic.name).latched;
        let latched = is_latched.then(Latched::default);
        self.topics.push(Recorded { topic, queue, counters, latched, open: Open::default() });
    }

    /// Writes ready or old messages, or everything; most important topics first.
    fn take_queues(&mut self, takes_all: bool) {
        let options = &self.shared.options;
        let now = options.clock.monotonic_nanos();
        let old = options.chunk_age_max.map_or(0, |age| now.saturating_sub(age.as_nanos() as u64));
        let flushes = std::mem::take(&mut self.flush_ring);
        if options.snapshot.is_some() && !flushes {
            if takes_all {
                self.let_ring_go();
            }
            return;
        }
        let before = if takes_all || flushes { u64::MAX } else { old };
        let mut order: Vec<usize> = (0..self.topics.len()).collect();
        order.sort_by_key(|at| self.topics[*at].queue.options().priority);
        for at in order {
            let mut left = u64::MAX;
            let mut drained = std::mem::take(&mut self.drained);
            self.topics[at].queue.drain(before, &mut left, &mut drained);
            for queued in drained.drain(..) {
                self.write(at, queued);
            }
            self.drained = drained;
        }
    }

    /// Counts the ring's messages when the recording ends without a snapshot.
    fn let_ring_go(&mut self) {
        for Recorded { queue, counters, .. } in &self.topics {
            let mut left = u64::MAX;
            queue.drain(u64::MAX, &mut left, &mut self.drained);
            for queued in self.drained.drain(..) {
                add(&counters.skipped, queued.messages());
                queue.release(queued.held_bytes());
            }
        }
    }

    fn write(&mut self, at: usize, queued: Queued) {
        let count = queued.messages();
        let is_abandoned = self.shared.is_abandoned();
        let mut written = 0;
        while !is_abandoned && let Some((entry, data)) = queued.message(written as usize) {
            let message = Message {
                log_time_nanos: entry.log_time_nanos,
                publish_time_nanos: entry.publish_time_nanos,
                sequence: entry.sequence,
                data,
            };
            if self.with_file(|file| file.write(at, &message)).is_none() {
                break;
            }
            self.topics[at].open.add(data);
            written += 1;
        }
        let topic = &mut self.topics[at];
        let counters = &topic.counters;
        add(if is_abandoned { &counters.abandoned } else { &counters.disk }, count - written);
        if let (Some(latched), Some((entry, data))) = (&mut topic.latched, queued.newest()) {
            latched.keep(entry, data);
        }
        topic.queue.release(queued.held_bytes());
        topic.queue.recycle(queued);
        if self.open_bytes() >= COMMIT_BYTES_MAX {
            self.commit();
        }
    }

    fn open_bytes(&self) -> u64 {
        self.topics.iter().map(|topic| topic.open.bytes).sum()
    }

    /// Ends the transaction: its messages are recorded.
    fn commit(&mut self) {
        if self.with_file(|file| file.commit()).is_none() {
            return;
        }
        for Recorded { counters, open, .. } in &mut self.topics {
            let Open { messages, bytes, repeated } = std::mem::take(open);
            add(&counters.bytes, bytes);
            add(&counters.repeated, repeated);
            // Release: pairs with the Acquire in `Recorder::status`.
            counters.messages.fetch_add(messages, Ordering::Release);
        }
    }

    fn split_if_due(&mut self) {
        let rules = self.shared.options.split;
        let bytes = match rules.bytes_max {
            Some(_) => self.with_file(|file| file.file_bytes()).unwrap_or(0),
            None => 0,
        };
        let now = self.shared.options.clock.monotonic_nanos();
        let age = Duration::from_nanos(now.saturating_sub(self.began_nanos));
        if self.is_split_postponed
            || rules.bytes_max.is_some_and(|most| bytes >= most)
            || rules.duration_max.is_some_and(|most| age >= most)
        {
            self.begin_split();
        }
    }

    /// Whether the next file has to wait for others to be closed.
    fn is_out_of_files(&self) -> bool {
        let path = self.shared.directory.join(RESERVE_FILE);
        let error = match require_files(&*self.shared.disk, &path, SPARE_FILES_MIN) {
            Err(error) if is_out_of_files(&error) => error,
            _ => return false,
        };
        if !self.is_split_postponed {
            log::warn!("the next file begins when there are files for it: {error}{}", hint(&error));
        }
        true
    }

    /// Closes the file and begins the next. Meanwhile new messages wait in the queues.
    fn begin_split(&mut self) {
        self.is_split_postponed = self.is_out_of_files();
        if self.is_split_postponed {
            return;
        }
        self.commit();
        if self.close_file().is_none() {
            return;
        }
        self.number += 1;
        self.began_nanos = self.shared.options.clock.monotonic_nanos();
        let path = path_of(&self.shared.directory, self.number, self.writer.extension());
        match self.writer.create(&path, &self.custom) {
            Ok(file) => self.file = Some(file),
            Err(error) => return self.fail(error.into()),
        }
        for at in 0..self.topics.len() {
            let topic = self.topics[at].topic.clone();
            self.with_file(|file| file.add_topic(&topic));
            self.repeat_latched(at);
        }
        self.shared.splits.store(self.number + 1, Ordering::Relaxed);
    }

    /// Puts the newest message of a latched topic at the head of a file.
    fn repeat_latched(&mut self, at: usize) {
        let log_time_nanos = self.topics[at].queue.stamp();
        let Some(latched) = self.topics[at].latched.take() else { return };
        if let Some(message) = latched.message(log_time_nanos)
            && self.with_file(|file| file.write(at, &message)).is_some()
        {
            self.topics[at].open.add(message.data);
            self.topics[at].open.repeated += 1;
        }
        self.topics[at].latched = Some(latched);
    }

    fn close_file(&mut self) -> Option<()> {
        match self.file.take()?.finish() {
            Ok((metadata, bytes)) => {
                self.past.push_back(Past {
                    metadata,
                    bytes,
                    ended_nanos: self.shared.options.clock.wall_nanos(),
                });
                Some(())
            }
            Err(error) => {
                self.fail(error.into());
                None
            }
        }
    }

    /// Removes the oldest files according to the rules, and checks the free space.
    fn keep_retention(&mut self) {
        let now = self.shared.options.clock.monotonic_nanos();
        if now < self.next_look_nanos {
            return;
        }
        self.next_look_nanos = now + SPACE_LOOK_INTERVAL.as_nanos() as u64;
        while self.holds_too_much() && self.may_remove_oldest() && self.remove_oldest() {}
        let rules = self.shared.options.retention;
        while self.file.is_some() {
            let path = self.shared.directory.clone();
            let free_bytes = match self.shared.disk.free_bytes(&path) {
                Ok(free_bytes) => free_bytes,
                Err(error) if is_passing(&error) => return,
                // Another process has removed or renamed the folder: the open file continues, but cannot be found.
                Err(source) => {
                    return self.fail(RecordError::Io { doing: "looking at", path, source });
                }
            };
            if free_bytes >= rules.free_bytes_min {
                return;
            }
            if rules.low_space == LowSpace::Stop || !self.may_remove_oldest() {
                let least_bytes = rules.free_bytes_min;
                let low = RecordError::LowSpace { path, free_bytes, least_bytes };
                // There is room enough to close what there is.
                self.commit();
                self.close_file();
                return self.shared.fail(low);
            }
            if !self.remove_oldest() {
                return;
            }
        }
    }

    fn holds_too_much(&mut self) -> bool {
        let rules = self.shared.options.retention;
        let Some(oldest) = self.past.front() else { return false };
        let wall = self.shared.options.clock.wall_nanos();
        let age = Duration::from_nanos(wall.saturating_sub(oldest.ended_nanos));
        if rules.age_max.is_some_and(|most| age > most)
            || rules.splits_max.is_some_and(|most| self.past.len() + 1 > most as usize)
        {
            return true;
        }
        let Some(most) = rules.bytes_max else { return false };
        let open = self.with_file(|file| file.file_bytes()).unwrap_or(0);
        open + self.past.iter().map(|past| past.bytes).sum::<u64>() > most
    }

    fn may_remove_oldest(&self) -> bool {
        let released = u64::from(self.shared.released_splits.load(Ordering::Relaxed));
        let must_wait = self.shared.options.retention.released_only && self.removed >= released;
        !self.past.is_empty() && !must_wait
    }

    /// Removes the oldest file and counts its messages. `false` if that has to be tried again.
    fn remove_oldest(&mut self) -> bool {
        let Some(oldest) = self.past.pop_front() else { return false };
        for file in &oldest.metadata.relative_file_paths {
            let path = self.shared.directory.join(file);
            match if_there(self.shared.disk.remove(&path)) {
                Err(error) if is_passing(&error) => {
                    log::warn!("{} is removed later: {error}{}", path.display(), hint(&error));
                    self.past.push_front(oldest);
                    return false;
                }
                Err(source) => {
                    let doing = "removing the old file";
                    self.fail(RecordError::Io { doing, path, source });
                }
                Ok(_) => {}
            }
        }
        self.removed += 1;
        for topic in &oldest.metadata.topics {
            let recorded = self.topics.iter().find(|known| known.topic.name == topic.name);
            if let Some(recorded) = recorded {
                add(&recorded.counters.removed, topic.message_count);
            }
        }
        true
    }

    fn finish(mut self) -> Written {
        self.close_file();
        if !std::mem::take(&mut self.reserve).is_empty() {
            let _ = self.shared.disk.remove(&self.shared.directory.join(RESERVE_FILE));
        }
        let files = self.past.into_iter().map(|past| past.metadata).collect();
        let Self { is_whole, lock, writer, removed, .. } = self;
        Written { files, writer, lock, is_whole, removed }
    }
}
