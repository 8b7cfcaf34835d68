//! A recording is a series of splits: the current one, those with writes in flight, and the manifests that name them
//! all.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use livebag_format::container::{ATTACHMENTS_FILE, State};

use super::brick::Brick;
use super::close::ended_state;
use super::error::{hint, is_passing};
use super::keeper::Keeper;
use super::retention::Retention;
use super::split::{Split, TOPIC_FILES, split_name, write_manifest};
use super::topic::{Outcome, SplitTopic, Ticket};
use super::{LowSpace, RecordError, Shared};
use crate::limits::STREAM_FILES;
use crate::storage::{Access, Lock};

/// A brick of a split.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub split: u32,
    brick: usize,
}

/// See the module's text.
pub(super) struct SplitSeries {
    shared: Arc<Shared>,
    /// Oldest first; the last one is the current one, the others have writes in flight.
    open: VecDeque<Split>,
    retention: Retention,
    keeper: Keeper,
    started_nanos: u64,
    /// The recording's lock.
    lock: Option<Box<dyn Lock>>,
    /// A split was to begin, and there were too few files for it.
    is_split_postponed: bool,
    /// The recording's own manifest could not be written, and tells of the splits as they were before.
    is_root_old: bool,
}

impl SplitSeries {
    /// Makes the recording's directory, which is its first split's, too.
    ///
    /// # Errors
    /// If it exists, or the disk refuses.
    pub fn create(shared: Arc<Shared>) -> Result<Self, RecordError> {
        let mut first = make_split(&shared, 0, &shared.directory)?;
        let mut this = Self {
            started_nanos: first.started_nanos,
            lock: first.take_lock(),
            open: VecDeque::from([first]),
            retention: Retention::new(shared.options.retention),
            keeper: Keeper::start(&shared)?,
            shared,
            is_split_postponed: false,
            is_root_old: false,
        };
        this.write_manifest(0)?;
        Ok(this)
    }

    /// The split that receives new messages.
    pub fn current(&mut self) -> &mut Split {
        self.open.back_mut().expect("there is always one")
    }

    /// A split that has not been closed yet.
    pub fn split(&mut self, number: u32) -> &mut Split {
        let first = self.open.front().expect("there is always one").number;
        &mut self.open[(number - first) as usize]
    }

    pub fn brick(&mut self, place: Place) -> &mut Brick {
        &mut self.split(place.split).bricks[place.brick]
    }

    /// Adds a topic to every open split.
    pub fn add_topic(&mut self, topic: &SplitTopic) {
        self.open.iter_mut().for_each(|split| split.add_topic(topic.anew()));
    }

    /// The brick that takes the topic's messages now. `None` if it cannot be made: the topic is refused for a
    /// second, or the disk has failed.
    pub fn place_of(&mut self, topic: usize, access: Access) -> Option<Place> {
        let current = self.current();
        if current.topics[topic].is_refused {
            return None;
        }
        let number = current.number;
        let source = match current.brick_of(topic, access) {
            Ok(brick) => return Some(Place { split: number, brick }),
            Err(source) => source,
        };
        let name = current.topics[topic].topic.name.trim_start_matches('/');
        let path = current.directory.join(name);
        let doing = "making the files of a topic at";
        if is_of_one_topic(&source) {
            current.topics[topic].refuse(RecordError::Io { doing, path, source });
        } else {
            self.fail(doing, &path, source);
        }
        None
    }

    /// Files of a stream, and those that the topics will still open. A topic has its files twice while an old split is
    /// being closed.
    pub fn stream_files(&mut self) -> (u64, u64) {
        let of_topic = if self.shared.options.one_file.is_some() { 1 } else { TOPIC_FILES as u64 };
        let (mut open, mut topics) = (0, 0);
        for split in &self.open {
            let files = split.topics.iter().filter(|topic| topic.files.is_some()).count();
            open += split.bricks.len() + files;
            topics = split.topics.iter().filter(|topic| topic.needs_files()).count();
        }
        let promised = (2 * of_topic * topics as u64).saturating_sub(open as u64);
        (STREAM_FILES + 2 * of_topic, promised)
    }

    /// Topics whose files could not be made may try again.
    pub fn retry_refused(&mut self) {
        self.current().topics.iter_mut().for_each(|topic| topic.is_refused = false);
    }

    /// The next number in the topic's order.
    pub fn issue(&mut self, place: Place, topic: usize) -> Ticket {
        let files = self.split(place.split).topics[topic].files.as_mut();
        files.expect("made with the brick").issue()
    }

    /// Completes an extent of a topic, and commits the next ones in the topic's order.
    pub fn settle(&mut self, place: Place, topic: usize, ticket: Ticket, outcome: Outcome) {
        // A brick is named before the first entry points into it, also while closing.
        if matches!(outcome, Outcome::Readable(_)) && self.split(place.split).new_bricks {
            self.update_manifest(place.split);
        }
        let split = self.split(place.split);
        if let Err(error) = split.topics[topic].settle(ticket, outcome) {
            let files = split.topics[topic].files.as_ref();
            let name = files.map_or("", |files| files.index_name.as_str());
            let path = split.directory.join(name);
            self.fail("writing", &path, error);
        }
    }

    /// Latches a failure of the disk. Reserved space stays reserved until the splits are closed: writes in
    /// flight would take it now.
    pub fn fail(&mut self, doing: &'static str, path: &Path, source: io::Error) {
        self.fail_with(RecordError::Io { doing, path: path.to_owned(), source });
    }

    pub fn fail_with(&mut self, error: RecordError) {
        self.shared.fail(error);
        for split in &mut self.open {
            split.bricks.iter_mut().for_each(Brick::doubt_chunks);
        }
    }

    /// Whether the present split is large or old enough.
    pub fn is_split_due(&mut self, now_nanos: u64) -> bool {
        let rules = self.shared.options.split;
        let current = self.current();
        let is_large = rules.bytes_max.is_some_and(|most| current.bytes() >= most);
        let age = Duration::from_nanos(now_nanos.saturating_sub(current.began_monotonic_nanos));
        let is_old = rules.duration_max.is_some_and(|most| age >= most);
        (is_large || is_old || self.is_split_postponed) && self.shared.failure().is_none()
    }

    /// Begins a new split. The old one ends with the last of its writes, and the new one is there before:
    /// nothing waits, nothing falls between them. `false` if the disk has refused, or if there are too few files: then
    /// it is tried again.
    pub fn begin_split(&mut self) -> bool {
        if let Err(error) = self.current().require_files_of_split() {
            if !std::mem::replace(&mut self.is_split_postponed, true) {
                log::warn!(
                    "the next split begins when there are files for it: {error}{}",
                    hint(&error)
                );
            }
            return false;
        }
        self.is_split_postponed = false;
        let begun = self.try_begin_split();
        begun.map_err(|error| self.fail_with(error)).is_ok() && self.shared.failure().is_none()
    }

    fn try_begin_split(&mut self) -> Result<(), RecordError> {
        let number = self.current().number + 1;
        let directory = self.shared.directory.join(split_name(number));
        let mut split = make_split(&self.shared, number, &directory)?;
        for topic in &self.current().topics {
            split.add_topic(topic.anew());
        }
        self.open.push_back(split);
        self.shared.splits.store(number + 1, Ordering::Relaxed);
        self.update_manifest(number);
        self.update_manifest(0);
        Ok(())
    }

    /// Hands splits whose writes have all ended to the keeper.
    pub fn retire(&mut self) {
        while self.open.len() > 1 && self.open[0].in_flight == 0 {
            let Some(split) = self.open.pop_front() else { break };
            self.retention.add(&split, self.shared.options.clock.wall_nanos());
            self.keeper.close(split);
        }
    }

    /// Removes the oldest splits according to the rules, and checks the free space.
    pub fn keep_retention(&mut self, now_nanos: u64) {
        if !self.retention.is_due(now_nanos) {
            return;
        }
        while self.holds_too_much() && self.remove_oldest().is_some() {}
        if self.shared.failure().is_some() {
            return;
        }
        let rules = self.shared.options.retention;
        let directory = self.shared.directory.clone();
        let mut free = match self.shared.disk.free_bytes(&directory) {
            Ok(free) => free,
            Err(error) if is_passing(&error) => return,
            // Another process has removed or renamed the folder: open files continue, but cannot be found.
            Err(error) => return self.fail("looking at", &directory, error),
        };
        while free < rules.free_bytes_min {
            let may_delete = rules.low_space == LowSpace::DeleteOldest;
            // Meanwhile the keeper removes them: their space already counts as free.
            match may_delete.then(|| self.remove_oldest()).flatten() {
                Some(bytes) => free = free.saturating_add(bytes),
                None => {
                    return self.fail_with(RecordError::LowSpace {
                        path: directory,
                        free_bytes: free,
                        least_bytes: rules.free_bytes_min,
                    });
                }
            }
        }
    }

    fn holds_too_much(&self) -> bool {
        let bytes = self.open.iter().map(Split::bytes).sum();
        let wall_nanos = self.shared.options.clock.wall_nanos();
        self.retention.holds_too_much(self.open.len(), bytes, wall_nanos)
    }

    /// Takes the oldest split out of the manifest, then off the disk, and gives its length; `None` if
    /// there is none.
    fn remove_oldest(&mut self) -> Option<u64> {
        let released_count = self.shared.released_splits.load(Ordering::Relaxed);
        let oldest = self.retention.take_oldest(released_count)?;
        for (topic, removed) in self.current().topics.iter().zip(&oldest.topics) {
            topic.counters.removed.fetch_add(removed.message_count, Ordering::Relaxed);
        }
        let topics = match oldest.number {
            0 => self.retention.first.replace(Vec::new()).unwrap_or_default(),
            _ => Vec::new(),
        };
        let (files, directory) = oldest.files(&self.shared.directory, &topics);
        self.update_manifest(0);
        self.keeper.remove(files, directory);
        Some(oldest.bytes)
    }

    /// Syncs the present contents of the current split.
    pub fn sync(&self) {
        if let Some(current) = self.open.back() {
            self.keeper.sync(current);
        }
    }

    /// Writes the present split's manifest if there is something new to say.
    pub fn write_news(&mut self) {
        let current = self.current();
        let number = current.number;
        if current.has_news() {
            self.update_manifest(number);
        }
        if self.is_root_old {
            self.update_manifest(0);
        }
    }

    /// Writes the manifest of a split. If there are too few files for that, it is written with the next news: until
    /// then the older one is true.
    fn update_manifest(&mut self, number: u32) {
        match self.write_manifest(number) {
            Err(RecordError::Io { source, .. }) if is_passing(&source) => {
                self.is_root_old |= number == 0;
            }
            Err(error) => self.fail_with(error),
            Ok(()) => self.is_root_old &= number != 0,
        }
    }

    /// Writes the manifest of a split; that of the first tells of all.
    fn write_manifest(&mut self, number: u32) -> Result<(), RecordError> {
        if number == 0 {
            return self.write_root(State::Recording);
        }
        let failure = self.shared.failure_text();
        let now = self.shared.options.clock.wall_nanos();
        let split = self.split(number);
        let manifest = split.manifest(State::Recording, (0, now), failure);
        write_manifest(&*split.disk, &split.directory, &manifest, false)?;
        split.note_written();
        Ok(())
    }

    fn write_root(&mut self, state: State) -> Result<(), RecordError> {
        let is_over = state != State::Recording;
        let now = self.shared.options.clock.wall_nanos();
        let ended_nanos = if is_over { now } else { 0 };
        let failure = self.shared.failure_text();
        let open = self.open.iter().map(|split| split.number);
        let numbers = self.retention.numbers().chain(open);
        let splits = numbers.filter(|number| *number > 0).map(split_name).collect();
        let mut manifest = self.open[0].manifest(state, (ended_nanos, now), failure);
        if let Some(topics) = &self.retention.first {
            manifest.topics.clone_from(topics);
            manifest.started_nanos = self.started_nanos;
        }
        manifest.splits = splits;
        if self.shared.options.has_attachments {
            manifest.attachments = ATTACHMENTS_FILE.to_owned();
        }
        if self.shared.lacks_messages.load(Ordering::Relaxed) {
            // 0 means that everything is known.
            manifest.unknown_since_nanos = self.started_nanos.max(1);
        }
        manifest.clock_jumps = self.shared.clock_jumps();
        manifest.removed = self.retention.removed.clone();
        if let Some(accounts) = self.shared.inherited.get() {
            manifest.inherit(accounts);
        }
        write_manifest(&*self.shared.disk, &self.shared.directory, &manifest, is_over)?;
        if self.open[0].number == 0 {
            self.open[0].note_written();
        }
        Ok(())
    }

    /// Closes the splits that are still open, and then the recording.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn finish(mut self) -> Result<(), Arc<RecordError>> {
        self.retire();
        let shared = self.shared.clone();
        let closed = self.current().close(&shared);
        if let Err(error) = &closed {
            shared.fail(error.clone());
        }
        self.keeper.finish();
        let written = self.write_root(ended_state(closed.is_ok())).map_err(Arc::new);
        drop(self.lock.take());
        written.and(closed)
    }
}

/// Whether a topic's files cannot be made for a reason that says nothing of the disk and of other topics' files.
fn is_of_one_topic(error: &io::Error) -> bool {
    let numbers = [libc::EMFILE, libc::ENFILE, libc::ENAMETOOLONG, libc::EACCES, libc::EEXIST];
    error.raw_os_error().is_some_and(|number| numbers.contains(&number))
}

fn make_split(shared: &Shared, number: u32, directory: &Path) -> Result<Split, RecordError> {
    let clock = &shared.options.clock;
    let (wall, now) = (clock.wall_nanos(), clock.monotonic_nanos());
    let mut split = Split::create(shared.disk.clone(), directory.to_owned(), number, wall, now)?;
    split.profile = shared.options.profile.clone();
    split.one_file = shared.options.one_file.clone();
    split.metadata = shared.options.metadata.clone();
    Ok(split)
}
