//! The recorder's thread: takes from streams and queues, hands to the disk, commits.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use livebag_format::Topic;
use livebag_format::container::{
    CONTAINER_FILE, CONTAINER_VERSION, LOCK_FILE, Losses, Manifest, State, TopicManifest,
};

use super::brick::{Brick, LIBRARY};
use super::flight::Flight;
use super::topic::{Cause, TopicState};
use super::{Command, FileNames, RecordError, Shared};
use crate::limits::{
    CLOSE_RESERVE_BYTES, DISCOVERY_INTERVAL, FILL_BYTES_PER_NANO, MANIFEST_INTERVAL,
    OWN_CHUNK_BYTES_MIN, OWN_GATHERED_BRICKS_MAX, POLL_MAX, POLL_MIN,
};
use crate::queue::{Queued, TopicQueue};
use crate::source::{Selector, StreamSource};
use crate::storage::{Access, Completion, DiskFile, Lock, WriteQueue};

/// Name of the file that keeps space free for closing.
const RESERVE_FILE: &str = "container.reserve";

pub(super) struct Engine {
    pub shared: Arc<Shared>,
    pub queue: Box<dyn WriteQueue>,
    pub topics: Vec<TopicState>,
    pub bricks: Vec<Brick>,
    pub flights: HashMap<u64, Flight>,
    pub next_token: u64,
    pub scratch: Vec<u8>,
    lock: Option<Box<dyn Lock>>,
    reserve: Option<Arc<dyn DiskFile>>,
    file_names: FileNames,
    selectors: Vec<Selector>,
    known_streams: HashSet<String>,
    shared_brick: Option<usize>,
    gathered_bricks: usize,
    started_nanos: u64,
    /// Streams that are there when recording starts are followed from now on, those that appear
    /// later from their first frame.
    first_look: bool,
    next_discovery_nanos: u64,
    next_manifest_nanos: u64,
    written_losses: Losses,
    /// Topics that the manifest does not tell of yet.
    new_topics: bool,
    /// Bricks that the manifest does not tell of yet.
    new_bricks: bool,
    done: Vec<Completion>,
    drained: Vec<Queued>,
}

impl Engine {
    pub fn create(shared: Arc<Shared>) -> Result<Self, RecordError> {
        let directory = shared.directory.clone();
        let disk = shared.disk.clone();
        disk.create_dir(&directory).map_err(|source| match source.kind() {
            std::io::ErrorKind::AlreadyExists => RecordError::Exists(directory.clone()),
            _ => RecordError::Io { doing: "making", path: directory.clone(), source },
        })?;
        let lock_path = directory.join(LOCK_FILE);
        let lock = disk.lock(&lock_path, false);
        let lock = lock.map_err(|source| RecordError::Io {
            doing: "locking",
            path: lock_path.clone(),
            source,
        })?;
        let reserve = reserve_space(&*disk, &directory.join(RESERVE_FILE))?;
        let queue = disk.queue();
        let started_nanos = shared.options.clock.wall_nanos();
        let mut this = Self {
            shared,
            queue,
            topics: Vec::new(),
            bricks: Vec::new(),
            flights: HashMap::new(),
            next_token: 0,
            scratch: Vec::new(),
            lock,
            reserve: Some(reserve),
            file_names: FileNames::default(),
            selectors: Vec::new(),
            known_streams: HashSet::new(),
            shared_brick: None,
            gathered_bricks: 0,
            started_nanos,
            first_look: true,
            next_discovery_nanos: 0,
            next_manifest_nanos: 0,
            written_losses: Losses::default(),
            new_topics: false,
            new_bricks: false,
            done: Vec::new(),
            drained: Vec::new(),
        };
        this.write_manifest(State::Recording)?;
        Ok(this)
    }

    /// One round; `false` when the recorder has been told to finish.
    pub fn turn(&mut self, commands: &Receiver<Command>) -> bool {
        let finish = self.take_commands(commands);
        let now = self.shared.options.clock.monotonic_nanos();
        if now >= self.next_discovery_nanos {
            self.discover();
            self.next_discovery_nanos = now + DISCOVERY_INTERVAL.as_nanos() as u64;
        }
        if finish {
            return false;
        }
        self.take_frames();
        let age_max = self.shared.options.chunk_age_max;
        let before = age_max.map_or(0, |age| now.saturating_sub(age.as_nanos() as u64));
        self.take_queues(before);
        self.keep_manifest(now);
        self.reap(self.pause());
        true
    }

    fn take_commands(&mut self, commands: &Receiver<Command>) -> bool {
        loop {
            match commands.try_recv() {
                Ok(Command::AddTopic(topic, queue)) => {
                    if let Err(error) = self.add_topic(topic, queue.clone()) {
                        queue.close();
                        self.shared.fail(error.to_string());
                    }
                }
                Ok(Command::Follow(selector)) => {
                    self.selectors.push(selector);
                    self.next_discovery_nanos = 0;
                }
                Ok(Command::Finish) | Err(TryRecvError::Disconnected) => return true,
                Err(TryRecvError::Empty) => return false,
            }
        }
    }

    /// Between two looks at the streams a sixteenth of the fastest one's lap may pass at most, and
    /// between two looks at the queues the time in which writers could fill a sixteenth of them.
    fn pause(&self) -> Duration {
        let laps = self.topics.iter().filter_map(|topic| Some(topic.stream.as_ref()?.lap_nanos()));
        let lap = laps.min().unwrap_or(u64::MAX);
        let fill = self.shared.options.cache_bytes_max / 16 / FILL_BYTES_PER_NANO;
        Duration::from_nanos((lap / 16).min(fill)).clamp(POLL_MIN, POLL_MAX)
    }

    fn add_topic(&mut self, topic: Topic, queue: Arc<TopicQueue>) -> Result<usize, RecordError> {
        let file_name = self.file_names.give(&topic.name);
        let directory = &self.shared.directory;
        let path = directory.join(format!("{file_name}.idx"));
        let state = TopicState::create(&*self.shared.disk, directory, topic, queue, file_name)
            .map_err(|source| RecordError::Io { doing: "making", path, source })?;
        let seen = (state.topic.clone(), state.counters.clone());
        self.shared.topics.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        self.topics.push(state);
        self.new_topics = true;
        Ok(self.topics.len() - 1)
    }

    fn add_stream(&mut self, topic: Topic, source: StreamSource) {
        let queue = self.shared.make_queue(&topic.name, false);
        match queue.and_then(|queue| self.add_topic(topic, queue)) {
            Ok(at) => self.topics[at].stream = Some(source),
            Err(error) => self.shared.fail(error.to_string()),
        }
    }

    fn discover(&mut self) {
        if self.selectors.is_empty() {
            return;
        }
        // A failing look is tried again at the next one.
        let names = livebag_shm::list().unwrap_or_default();
        for name in names {
            if self.known_streams.contains(&name) {
                continue;
            }
            let Ok(reader) = livebag_shm::Reader::open(&name) else { continue };
            let source =
                StreamSource::new(reader, self.first_look, self.shared.options.clock.clone());
            let topic = source.topic();
            if !self.selectors.iter().any(|selector| selector.takes(&name, &topic)) {
                continue;
            }
            self.known_streams.insert(name);
            self.add_stream(topic, source);
        }
        self.first_look = false;
        self.follow_successors();
    }

    /// Goes on with streams that were made anew under their old name.
    fn follow_successors(&mut self) {
        for at in 0..self.topics.len() {
            let stream = self.topics[at].stream.as_ref();
            let Some(reader) = stream.and_then(StreamSource::successor) else { continue };
            // What the old region still holds comes first.
            self.take_frames();
            let source = StreamSource::new(reader, false, self.shared.options.clock.clone());
            let topic = source.topic();
            if topic == self.topics[at].topic {
                self.topics[at].stream = Some(source);
                continue;
            }
            self.topics[at].stream = None;
            self.add_stream(topic, source);
        }
    }

    /// The brick that takes the topic's messages, made when there is something to write.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn brick_of(&mut self, topic: usize, access: Access) -> std::io::Result<usize> {
        if let Some(brick) = self.topics[topic].brick {
            return Ok(brick);
        }
        let gathered = access == Access::Buffered;
        let brick = if gathered && self.gathered_bricks >= OWN_GATHERED_BRICKS_MAX {
            self.join_shared_brick(topic)?
        } else {
            self.gathered_bricks += usize::from(gathered);
            let file_name = format!("{}.mcap", self.topics[topic].file_name);
            self.make_brick(file_name, access, topic)?
        };
        self.topics[topic].brick = Some(brick);
        self.bricks[brick].topics.push(topic);
        self.new_bricks = true;
        Ok(brick)
    }

    fn make_brick(
        &mut self,
        file_name: String,
        access: Access,
        topic: usize,
    ) -> std::io::Result<usize> {
        let state = &self.topics[topic];
        let topics = [(state.channel_id, &state.topic)];
        let shared = &self.shared;
        let profile = &shared.options.profile;
        let brick =
            Brick::create(&*shared.disk, &shared.directory, file_name, access, profile, &topics)?;
        self.bricks.push(brick);
        Ok(self.bricks.len() - 1)
    }

    fn join_shared_brick(&mut self, topic: usize) -> std::io::Result<usize> {
        if let Some(brick) = self.shared_brick {
            let state = &self.topics[topic];
            self.bricks[brick].announce(state.channel_id, &state.topic);
            return Ok(brick);
        }
        let file_name = format!("{}.mcap", self.file_names.give("shared"));
        let brick = self.make_brick(file_name, Access::Buffered, topic)?;
        self.shared_brick = Some(brick);
        Ok(brick)
    }

    /// Takes every new frame of every stream.
    fn take_frames(&mut self) {
        for topic in 0..self.topics.len() {
            let Some(mut stream) = self.topics[topic].stream.take() else { continue };
            loop {
                let next = stream.next();
                if next.lapped > 0 {
                    self.topics[topic].lose(Cause::Lapped, next.lapped);
                }
                if next.damaged > 0 {
                    let transport = &self.topics[topic].counters.transport;
                    transport.fetch_add(next.damaged, Ordering::Relaxed);
                }
                let Some(frame) = next.frame else { break };
                if self.shared.failure().is_some() {
                    self.topics[topic].lose(Cause::Disk, 1);
                } else if frame.payload_bytes() >= OWN_CHUNK_BYTES_MIN {
                    self.write_from_slot(topic, &stream, frame);
                } else {
                    self.copy_small(topic, &stream, &frame);
                }
            }
            self.topics[topic].stream = Some(stream);
        }
        self.rescue();
    }

    fn copy_small(&mut self, topic: usize, stream: &StreamSource, frame: &livebag_shm::FrameRef) {
        if !stream.encode(frame, &mut self.scratch) {
            self.topics[topic].lose(Cause::Lapped, 1);
            return;
        }
        let message = livebag_format::Message {
            log_time_nanos: 0,
            publish_time_nanos: frame.header().publish_time_nanos,
            sequence: frame.sequence(),
            data: &self.scratch,
        };
        // A full queue has counted the message as lost.
        let _ = self.topics[topic].queue.write(&message);
    }

    /// Takes what the queues have ready, and batches opened before `before_nanos`.
    pub fn take_queues(&mut self, before_nanos: u64) {
        let mut shared = Vec::new();
        for topic in 0..self.topics.len() {
            let mut drained = std::mem::take(&mut self.drained);
            self.topics[topic].queue.drain(before_nanos, &mut drained);
            self.note_queue_losses(topic);
            for queued in drained.drain(..) {
                self.write_queued(topic, queued, &mut shared);
            }
            self.drained = drained;
        }
        self.write_shared(shared);
    }

    /// Takes all that one topic has gathered, so that a large message does not overtake it.
    pub fn take_queue(&mut self, topic: usize) {
        let mut drained = Vec::new();
        let mut shared = Vec::new();
        self.topics[topic].queue.drain(u64::MAX, &mut drained);
        for queued in drained {
            self.write_queued(topic, queued, &mut shared);
        }
        self.write_shared(shared);
    }

    fn note_queue_losses(&mut self, topic: usize) {
        let state = &self.topics[topic];
        let (dropped, gaps) = state.queue.losses();
        state.counters.queue.store(dropped, Ordering::Relaxed);
        if state.stream.is_none() {
            state.counters.transport.store(gaps, Ordering::Relaxed);
        }
    }

    /// Waits up to `wait` for completions and handles them.
    pub fn reap(&mut self, wait: Duration) {
        let mut done = std::mem::take(&mut self.done);
        self.queue.reap(wait, &mut done);
        for completion in done.drain(..) {
            self.complete(completion);
        }
        self.done = done;
    }

    /// Latches a failure of the disk and gives the reserved space free, so that the container can
    /// be closed.
    pub fn fail(&mut self, doing: &'static str, path: &Path, source: std::io::Error) {
        let error = RecordError::Io { doing, path: path.to_owned(), source };
        self.shared.fail(error.to_string());
        self.bricks.iter_mut().for_each(Brick::doubt_chunks);
        self.drop_reserve();
    }

    pub fn drop_reserve(&mut self) {
        if self.reserve.take().is_some() {
            // A reserve that cannot be removed is only an empty file more in the container.
            let _ = self.shared.disk.remove(&self.shared.directory.join(RESERVE_FILE));
        }
    }

    fn keep_manifest(&mut self, now: u64) {
        let mut losses = Losses::default();
        self.topics.iter().for_each(|topic| losses.add(&topic.counters.losses()));
        // Topics come in hundreds at once: one manifest for many.
        let changed = losses != self.written_losses || self.new_topics;
        let due = changed && now >= self.next_manifest_nanos;
        if !due && !self.new_bricks {
            return;
        }
        self.next_manifest_nanos = now + MANIFEST_INTERVAL.as_nanos() as u64;
        self.written_losses = losses;
        if let Err(error) = self.write_manifest(State::Recording) {
            self.shared.fail(error.to_string());
            self.drop_reserve();
        }
    }

    /// Writes the manifest if a brick is not in it yet.
    pub fn name_bricks(&mut self) {
        if self.new_bricks {
            self.keep_manifest(self.shared.options.clock.monotonic_nanos());
        }
    }

    pub fn write_manifest(&mut self, state: State) -> Result<(), RecordError> {
        self.new_topics = false;
        self.new_bricks = false;
        let ended = state != State::Recording;
        let options = &self.shared.options;
        let manifest = Manifest {
            livebag_container: CONTAINER_VERSION,
            library: LIBRARY.into(),
            profile: options.profile.clone(),
            state,
            started_nanos: self.started_nanos,
            ended_nanos: if ended { options.clock.wall_nanos() } else { 0 },
            failure: self.shared.failure().unwrap_or_default(),
            metadata: options.metadata.clone(),
            topics: self.topics.iter().map(|topic| self.describe(topic)).collect(),
        };
        let path = self.shared.directory.join(CONTAINER_FILE);
        let text = manifest.to_yaml().map_err(|error| RecordError::Failed(error.to_string()))?;
        let written = self.shared.disk.replace(&path, text.as_bytes(), ended);
        written.map_err(|source| RecordError::Io { doing: "writing", path, source })
    }

    fn describe(&self, topic: &TopicState) -> TopicManifest {
        let bricks = topic.brick.map(|brick| self.bricks[brick].file_name.clone());
        let index = format!("{}.idx", topic.file_name);
        let bricks = bricks.into_iter().collect();
        let mut manifest = TopicManifest::new(&topic.topic, topic.channel_id, index, bricks);
        manifest.message_count = topic.counters.messages.load(Ordering::Relaxed);
        manifest.message_bytes = topic.counters.bytes.load(Ordering::Relaxed);
        manifest.lost = topic.counters.losses();
        manifest
    }

    /// The last round: everything published until now, then the ends of all files.
    pub fn close(mut self) -> Result<(), RecordError> {
        self.take_frames();
        for topic in &self.topics {
            topic.queue.close();
        }
        self.take_queues(u64::MAX);
        while !self.flights.is_empty() {
            self.rescue();
            self.reap(POLL_MIN);
        }
        self.drop_reserve();
        for topic in 0..self.topics.len() {
            self.note_queue_losses(topic);
        }
        let closed = self.close_files();
        if let Err(error) = &closed {
            self.shared.fail(error.to_string());
        }
        // Closed means whole and on the medium; anything else is recovered at the next opening.
        let state = if closed.is_ok() { State::Closed } else { State::Recording };
        let written = self.write_manifest(state);
        drop(self.lock.take());
        written.and(closed)
    }
}

fn reserve_space(
    disk: &dyn crate::storage::Disk,
    path: &Path,
) -> Result<Arc<dyn DiskFile>, RecordError> {
    let make = || {
        let file = disk.create(path, Access::Buffered)?;
        file.reserve(0, CLOSE_RESERVE_BYTES)?;
        Ok(file)
    };
    make().map_err(|source| RecordError::Io {
        doing: "setting space aside in",
        path: path.to_owned(),
        source,
    })
}
