//! The recorder's thread: takes from streams and queues, submits writes, commits.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use livebag_format::Topic;

use super::brick::Brick;
use super::compress::Compressors;
use super::discovery::Discovery;
use super::flight::Flight;
use super::frame_tracker::{FrameTracker, Watchdog};
use super::gate::Gate;
use super::keeper::Keeper;
use super::retention::History;
use super::round_robin::PriorityRoundRobin;
use super::split::Split;
use super::topic::{Cause, SplitTopic, TopicState};
use super::{Command, Counters, Machine, RecordError, Shared};
use crate::limits::{
    CHUNK_AGE_MAX_READ, CLOCK_JUMP_MIN, FILL_BYTES_PER_NANO, FLUSH_LOOKS_MAX, IN_FLIGHT_BYTES_MAX,
    MANIFEST_INTERVAL, POLL_MAX, POLL_MAX_READ, POLL_MIN,
};
use crate::queue::{Queued, TopicQueue};
use crate::source::StreamSource;
use crate::storage::{Completion, Lock, WriteQueue};

/// How much is taken out of the queues.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Take {
    /// What is ready or old enough, as far as the disk is to be kept busy.
    Due,
    /// So many bytes of what waits, however young: the schedule has found a moment for them.
    UpTo(u64),
    /// Everything.
    All,
}

pub(super) struct Engine {
    pub shared: Arc<Shared>,
    pub queue: Box<dyn WriteQueue>,
    pub topics: Vec<TopicState>,
    /// Oldest first; the last one takes what comes, the others wait for their last writes.
    pub splits: VecDeque<Split>,
    pub flights: HashMap<u64, Flight>,
    /// Bytes of memory in flight; frames in their slots do not count.
    pub flight_bytes: u64,
    pub next_token: u64,
    pub keeper: Keeper,
    pub gate: Gate,
    pub compressors: Option<Compressors>,
    pub history: History,
    pub started_nanos: u64,
    /// The recording's lock.
    pub lock: Option<Box<dyn Lock>>,
    /// The streams' side.
    pub tracker: Arc<FrameTracker>,
    /// Once there are streams.
    watchdog: Option<Watchdog>,
    rounds: PriorityRoundRobin,
    discovery: Discovery,
    next_manifest_nanos: u64,
    next_sync_nanos: u64,
    /// Wall clock less monotonic clock, at the last look.
    clock_origin: Option<i128>,
    /// Whether programs write into queues, or only streams are followed.
    is_written: bool,
    /// A snapshot has been asked for: the ring goes to the disk.
    flush_ring: bool,
    /// Looks that are left to take what writers were still copying when it was asked for.
    flush_looks: u32,
    done: Vec<Completion>,
    drained: VecDeque<Queued>,
}

impl Engine {
    pub fn create(shared: Arc<Shared>) -> Result<Self, RecordError> {
        let directory = shared.directory.clone();
        let disk = shared.disk.clone();
        let clock = &shared.options.clock;
        let (wall, now) = (clock.wall_nanos(), clock.monotonic_nanos());
        let mut split = Split::create(disk.clone(), directory, 0, wall, now)?;
        split.profile = shared.options.profile.clone();
        split.one_file = shared.options.one_file.clone();
        split.metadata = shared.options.metadata.clone();
        split.has_attachments = shared.options.has_attachments;
        let lock = split.take_lock();
        let keeper = Keeper::start(&shared)?;
        let mut this = Self {
            gate: Gate::open(&shared.options)?,
            compressors: Compressors::start(&shared)?,
            tracker: Arc::new(FrameTracker::new(shared.clone())),
            shared,
            queue: disk.queue(),
            topics: Vec::new(),
            splits: VecDeque::from([split]),
            flights: HashMap::new(),
            flight_bytes: 0,
            next_token: 0,
            keeper,
            history: History::default(),
            started_nanos: wall,
            lock,
            watchdog: None,
            rounds: PriorityRoundRobin::default(),
            discovery: Discovery::new(),
            next_manifest_nanos: 0,
            next_sync_nanos: 0,
            clock_origin: None,
            is_written: false,
            flush_ring: false,
            flush_looks: 0,
            done: Vec::new(),
            drained: VecDeque::new(),
        };
        this.write_manifest(0)?;
        Ok(this)
    }

    fn take_turn(&mut self, commands: &Receiver<Command>) -> bool {
        let finish = self.take_commands(commands);
        let now = self.shared.options.clock.monotonic_nanos();
        self.discover(now);
        if finish {
            return false;
        }
        let look_in = self.look();
        self.take_compressed();
        self.take_scheduled(now);
        self.split_if_due(now);
        self.keep(now);
        self.reap(self.pause(look_in));
        true
    }

    fn take_commands(&mut self, commands: &Receiver<Command>) -> bool {
        loop {
            match commands.try_recv() {
                Ok(Command::AddTopic(topic, queue)) => {
                    self.is_written = true;
                    self.add_topic(topic, queue);
                }
                Ok(Command::Follow(selector)) => self.discovery.follow(selector),
                Ok(Command::Split) => self.begin_split(),
                Ok(Command::Snapshot) => {
                    self.flush_ring = true;
                    self.flush_looks = FLUSH_LOOKS_MAX;
                }
                Ok(Command::Finish) | Err(TryRecvError::Disconnected) => return true,
                Err(TryRecvError::Empty) => return false,
            }
        }
    }

    /// Until a stream is to be looked at, and where programs write into queues, at most the time in which they
    /// could fill a sixteenth of them.
    fn pause(&self, look_in: Option<Duration>) -> Duration {
        let fill = self.shared.options.cache_bytes_max / 16 / FILL_BYTES_PER_NANO;
        let fill = Duration::from_nanos(fill).clamp(POLL_MIN, POLL_MAX);
        let pause = match look_in {
            Some(look_in) if self.is_written => look_in.min(fill),
            Some(look_in) => look_in,
            None => fill,
        };
        let now = self.shared.options.clock.monotonic_nanos();
        let pause = if self.is_read(now) { pause.min(POLL_MAX_READ) } else { pause };
        self.gate.pause(now, pause)
    }

    /// Whether somebody reads what is being recorded.
    fn is_read(&self, now_nanos: u64) -> bool {
        now_nanos < self.shared.read_until_nanos.load(Ordering::Relaxed)
    }

    /// The split that takes what comes.
    pub fn current(&mut self) -> &mut Split {
        self.splits.back_mut().expect("there is always one")
    }

    /// A split that has not been closed yet.
    pub fn split(&mut self, number: u32) -> &mut Split {
        let first = self.splits.front().expect("there is always one").number;
        &mut self.splits[(number - first) as usize]
    }

    fn add_topic(&mut self, topic: Topic, queue: Arc<TopicQueue>) {
        let counters = Arc::new(Counters::default());
        let topic = Arc::new(topic);
        let seen = (topic.clone(), counters.clone());
        self.shared.topics.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        let is_latched = self.shared.options.topics.rule(&topic.name).latched;
        let channel_id = queue.channel_id();
        self.rounds.add(queue.options().priority, self.topics.len());
        self.topics.push(TopicState::new(queue, is_latched));
        for split in &mut self.splits {
            split.add_topic(SplitTopic::new(topic.clone(), channel_id, counters.clone()));
        }
    }

    fn add_stream(&mut self, topic: Topic, source: StreamSource) {
        let queue = match self.shared.make_stream_queue(&topic.name) {
            Ok(queue) => queue,
            Err(error) => return self.shared.fail(error.to_string()),
        };
        self.add_topic(topic, queue.clone());
        let number = self.topics.len() - 1;
        let is_latched = self.topics[number].latched.is_some();
        self.topics[number].is_stream = true;
        self.tracker.add(number, source, queue, is_latched);
        if self.watchdog.is_none() {
            match Watchdog::start(self.tracker.clone()) {
                Ok(watchdog) => self.watchdog = Some(watchdog),
                Err(error) => self.shared.fail(error.to_string()),
            }
        }
    }

    fn discover(&mut self, now: u64) {
        let Some(appeared) = self.discovery.look(now, &self.shared.options.clock) else { return };
        for source in appeared {
            self.add_stream(source.topic(), source);
        }
        self.follow_successors();
    }

    /// Goes on with streams that were made anew under their old name.
    fn follow_successors(&mut self) {
        for (at, source) in self.tracker.successors() {
            // What the old region still holds comes first.
            self.look();
            self.write_all_held();
            let topic = source.topic();
            if topic == *self.current().topics[at].topic {
                self.current().topics[at].note_return();
                self.tracker.replace(at, Some(source));
            } else {
                self.tracker.replace(at, None);
                self.add_stream(topic, source);
            }
        }
    }

    /// Looks at the streams. Tells when to look again, if there are streams.
    fn look(&mut self) -> Option<Duration> {
        let look_in = self.tracker.look();
        for (topic, unseen) in self.tracker.take_losses() {
            let topic = &mut self.current().topics[topic];
            topic.lose(Cause::Transport, unseen.damaged);
            topic.lose(Cause::Lapped, unseen.lapped);
            topic.lose(Cause::Queue, unseen.dropped);
            topic.lose(Cause::Disk, unseen.refused);
            topic.skip(unseen.skipped);
        }
        look_in
    }

    /// Takes what the queues have to give, most important topics first.
    pub fn take_queues(&mut self, take: Take) {
        let now = self.shared.options.clock.monotonic_nanos();
        let mut left = match take {
            Take::UpTo(bytes) => bytes,
            Take::Due | Take::All => u64::MAX,
        };
        let is_read = self.is_read(now);
        let age_max = self.shared.options.chunk_age_max;
        let age_max = age_max.map(|age| if is_read { age.min(CHUNK_AGE_MAX_READ) } else { age });
        let before_nanos = match (take, age_max) {
            (Take::All | Take::UpTo(_), _) => u64::MAX,
            (Take::Due, age) => age.map_or(0, |age| now.saturating_sub(age.as_nanos() as u64)),
        };
        let holds_ring = self.shared.options.snapshot.is_some() && !self.flush_ring;
        let before_nanos = if self.flush_ring { u64::MAX } else { before_nanos };
        let mut shared = Vec::new();
        for topic in self.rounds.next() {
            self.note_counts(topic);
            let is_busy = self.flight_bytes >= IN_FLIGHT_BYTES_MAX
                || self.compressors.as_ref().is_some_and(Compressors::is_busy);
            if holds_ring || (is_busy && take != Take::All && !self.flush_ring) {
                continue;
            }
            let mut drained = std::mem::take(&mut self.drained);
            self.topics[topic].queue.drain(before_nanos, &mut left, &mut drained);
            for queued in drained.drain(..) {
                self.keep_latched(topic, &queued);
                self.write_queued(topic, queued, &mut shared);
            }
            self.drained = drained;
        }
        self.write_shared(shared);
        let is_behind = || self.topics.iter().any(|topic| topic.queue.is_behind());
        self.flush_ring = self.flush_ring && self.flush_looks > 0 && is_behind();
        self.flush_looks = self.flush_looks.saturating_sub(1);
    }

    /// Takes all that one topic has gathered, so that a large message does not overtake it.
    pub fn take_queue(&mut self, topic: usize) {
        let mut drained = std::mem::take(&mut self.drained);
        let mut shared = Vec::new();
        let mut everything = u64::MAX;
        self.topics[topic].queue.drain(u64::MAX, &mut everything, &mut drained);
        for queued in drained.drain(..) {
            self.keep_latched(topic, &queued);
            self.write_queued(topic, queued, &mut shared);
        }
        self.drained = drained;
        self.write_shared(shared);
    }

    /// Takes over what the queues have counted.
    pub fn note_all_counts(&mut self) {
        for topic in 0..self.topics.len() {
            self.note_counts(topic);
        }
    }

    fn note_counts(&mut self, topic: usize) {
        let [dropped, gaps, skipped] = self.topics[topic].new_counts();
        if dropped + gaps + skipped > 0 {
            let split_topic = &mut self.current().topics[topic];
            split_topic.lose(Cause::Queue, dropped);
            split_topic.lose(Cause::Transport, gaps);
            split_topic.skip(skipped);
        }
    }

    fn keep_latched(&mut self, topic: usize, queued: &Queued) {
        let Some(latched) = &mut self.topics[topic].latched else { return };
        if let Some((entry, data)) = queued.newest() {
            latched.keep(entry, data);
        }
    }

    /// Waits up to `wait` for completions and handles them.
    pub fn reap(&mut self, wait: Duration) {
        let mut done = std::mem::take(&mut self.done);
        if let Err(error) = self.queue.reap(wait, &mut done) {
            let directory = self.shared.directory.clone();
            self.fail("submitting writes to", &directory, error);
        }
        for completion in done.drain(..) {
            self.complete(completion);
        }
        self.done = done;
        self.retire();
    }

    /// Latches a failure of the disk. Reserved space stays reserved until the splits are closed: writes in
    /// flight would take it now.
    pub fn fail(&mut self, doing: &'static str, path: &Path, source: std::io::Error) {
        self.fail_with(&RecordError::Io { doing, path: path.to_owned(), source });
    }

    pub fn fail_with(&mut self, error: &RecordError) {
        self.shared.fail(error.to_string());
        for split in &mut self.splits {
            split.bricks.iter_mut().for_each(Brick::doubt_chunks);
        }
    }

    /// What is done now and then: manifest, shares, retention, durability.
    fn keep(&mut self, now: u64) {
        self.keep_retention(now);
        if let Some(interval) = self.shared.options.sync_interval
            && now >= self.next_sync_nanos
        {
            self.next_sync_nanos = now + interval.as_nanos() as u64;
            let current = self.splits.back().expect("there is always one");
            self.keeper.sync(current);
        }
        if now < self.next_manifest_nanos {
            return;
        }
        self.next_manifest_nanos = now + MANIFEST_INTERVAL.as_nanos() as u64;
        self.note_clock(now);
        self.note_writers();
        self.share_out();
        let current = self.current();
        let number = current.number;
        if current.has_news()
            && let Err(error) = self.write_manifest(number)
        {
            self.fail_with(&error);
        }
        self.evict();
    }

    /// Counts that the wall clock was set since the last look.
    fn note_clock(&mut self, now: u64) {
        let wall = self.shared.options.clock.wall_nanos();
        // When the clock would have read 0 at the monotonic clock's 0: changes by steps only.
        let origin = i128::from(wall) - i128::from(now);
        let before = self.clock_origin.replace(origin).unwrap_or(origin);
        let jump = u64::try_from(origin.abs_diff(before)).unwrap_or(u64::MAX);
        if jump >= CLOCK_JUMP_MIN.as_nanos() as u64 {
            self.shared.clock_jumps.lock().unwrap_or_else(PoisonError::into_inner).add(jump);
        }
    }

    /// Which streams have nobody who writes them.
    fn note_writers(&mut self) {
        for (topic, is_gone) in self.tracker.writers_gone() {
            let counters = &self.current().topics[topic].counters;
            counters.is_gone.store(is_gone, Ordering::Relaxed);
        }
    }

    /// Sets the topics' shares by what they took since the last time, about a second ago.
    fn share_out(&mut self) {
        let rates: Vec<u64> = self.topics.iter_mut().map(TopicState::taken_since).collect();
        let shares = self.shared.budget.shares(&rates);
        for (topic, &share) in self.topics.iter().zip(&shares) {
            if self.shared.options.snapshot.is_some() {
                topic.queue.evict_to(self.shared.budget.ring_bytes(share));
            }
            topic.queue.set_share(share);
        }
    }

    /// Lets go of what is too old in a ring.
    fn evict(&mut self) {
        let Some(snapshot) = &self.shared.options.snapshot else { return };
        if let Some(duration) = snapshot.duration_max {
            let now = self.shared.options.clock.wall_nanos();
            let before = now.saturating_sub(duration.as_nanos() as u64);
            self.topics.iter().for_each(|topic| topic.queue.evict_before(before));
        }
    }

    /// Writes the manifest if a brick of the split is not in it yet.
    pub fn name_bricks(&mut self, number: u32) {
        if self.split(number).new_bricks
            && let Err(error) = self.write_manifest(number)
        {
            self.fail_with(&error);
        }
    }

    fn close_all(mut self) -> Result<(), RecordError> {
        self.look();
        self.tracker.close();
        for topic in &self.topics {
            topic.queue.close();
        }
        self.write_what_waits();
        while self.take_compressed() || !self.flights.is_empty() {
            self.look();
            self.reap(POLL_MIN);
        }
        // What was lost since the last look, if only the watchdog has seen it.
        self.look();
        self.note_all_counts();
        self.finish_splits()
    }
}

impl Engine {
    /// Writes what slots and queues hold, as much at a time as keeps the disk busy: the rest can be abandoned.
    fn write_what_waits(&mut self) {
        if self.flush_ring {
            self.take_queues(Take::All);
        }
        let is_ring = self.shared.options.snapshot.is_some();
        while !self.shared.is_abandoned()
            && (self.tracker.next_pending().is_some() || (!is_ring && self.waiting().0 > 0))
        {
            self.look();
            self.write_some_held(u64::MAX);
            let room = IN_FLIGHT_BYTES_MAX.saturating_sub(self.flight_bytes);
            self.take_queues(Take::UpTo(room));
            self.take_compressed();
            self.reap(POLL_MIN);
        }
        if !is_ring && !self.shared.is_abandoned() {
            // Writers that are still copying are waited for.
            return self.take_queues(Take::All);
        }
        self.give_up_what_waits(is_ring);
    }

    /// Counts what will not be written: abandoned, or what a ring held when nobody asked for it any more.
    fn give_up_what_waits(&mut self, is_ring: bool) {
        while let Some(next) = self.tracker.next_pending() {
            if let Some(going) = self.tracker.release(next.number, false) {
                self.give_up(going, Cause::Abandoned);
            }
        }
        let mut drained = std::mem::take(&mut self.drained);
        for topic in 0..self.topics.len() {
            let mut everything = u64::MAX;
            self.topics[topic].queue.drain(u64::MAX, &mut everything, &mut drained);
            for queued in drained.drain(..) {
                if is_ring {
                    self.current().topics[topic].skip(queued.published());
                    self.topics[topic].queue.release(queued.held_bytes());
                } else {
                    self.refuse(topic, &queued, Cause::Abandoned);
                }
            }
        }
        self.drained = drained;
    }
}

impl Machine for Engine {
    fn turn(&mut self, commands: &Receiver<Command>) -> bool {
        self.take_turn(commands)
    }

    fn close(self) -> Result<(), RecordError> {
        self.close_all()
    }
}
