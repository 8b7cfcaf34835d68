//! The recorder's thread: when something is taken from streams and queues, and in which order.
//!
//! Each part of a turn is a value that only the engine calls. Below, [`Writer`] lays messages out, writes and commits
//! them; the engine decides which and when.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use livebag_format::Topic;

use super::discovery::{Appeared, Discovery};
use super::files_left::FilesLeft;
use super::frame_tracker::{FrameTracker, Watchdog};
use super::pacing::Pacing;
use super::queues::Queues;
use super::topic::{Cause, SplitTopic};
use super::writer::Writer;
use super::{Command, Counters, Machine, RecordError, Shared};
use crate::limits::{
    CHUNK_AGE_MAX_READ, CLOCK_JUMP_MIN, FILL_BYTES_PER_NANO, IN_FLIGHT_BYTES_MAX,
    MANIFEST_INTERVAL, POLL_MAX, POLL_MAX_READ, POLL_MIN,
};
use crate::queue::TopicQueue;
use crate::source::StreamSource;

/// How much is taken out of the queues.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Take {
    /// Ready or old messages, as far as needed to keep the disk busy.
    Due,
    /// This many bytes of waiting messages of any age: the schedule has found a moment for them.
    UpTo(u64),
    /// Everything.
    All,
}

pub(super) struct Engine {
    shared: Arc<Shared>,
    discovery: Discovery,
    /// Topics of streams for which there are too few files, by the streams' names.
    waiting: HashMap<String, usize>,
    /// Frames of the streams, in their slots or copied.
    pub tracker: Arc<FrameTracker>,
    /// Once there are streams.
    watchdog: Option<Watchdog>,
    /// Messages of programs, and small frames.
    queues: Queues,
    pacing: Pacing,
    pub writer: Writer,
    timers: Timers,
}

/// Timers of periodic work.
#[derive(Default)]
struct Timers {
    next_manifest_nanos: u64,
    next_sync_nanos: u64,
    /// Wall clock less monotonic clock, at the last look.
    clock_origin: Option<i128>,
}

impl Timers {
    /// Whether the work done once a second is due.
    fn is_manifest_due(&mut self, now: u64) -> bool {
        is_due(&mut self.next_manifest_nanos, now, MANIFEST_INTERVAL)
    }

    fn is_sync_due(&mut self, now: u64, interval: Option<Duration>) -> bool {
        interval.is_some_and(|interval| is_due(&mut self.next_sync_nanos, now, interval))
    }

    /// By how many nanoseconds the wall clock was set since the last look, if it was.
    fn clock_jump(&mut self, wall: u64, now: u64) -> Option<u64> {
        // When the clock would have read 0 at the monotonic clock's 0: changes by steps only.
        let origin = i128::from(wall) - i128::from(now);
        let before = self.clock_origin.replace(origin).unwrap_or(origin);
        let jump = u64::try_from(origin.abs_diff(before)).unwrap_or(u64::MAX);
        (jump >= CLOCK_JUMP_MIN.as_nanos() as u64).then_some(jump)
    }
}

fn is_due(next_nanos: &mut u64, now: u64, interval: Duration) -> bool {
    let is_due = now >= *next_nanos;
    if is_due {
        *next_nanos = now + interval.as_nanos() as u64;
    }
    is_due
}

impl Engine {
    pub fn create(shared: Arc<Shared>) -> Result<Self, RecordError> {
        let tracker = Arc::new(FrameTracker::new(shared.clone()));
        Ok(Self {
            pacing: Pacing::open(&shared.options)?,
            writer: Writer::create(shared.clone(), tracker.clone())?,
            queues: Queues::new(shared.clone()),
            tracker,
            watchdog: None,
            discovery: Discovery::new(),
            waiting: HashMap::new(),
            timers: Timers::default(),
            shared,
        })
    }

    fn take_turn(&mut self, commands: &Receiver<Command>) -> bool {
        let finish = self.take_commands(commands);
        let now = self.shared.options.clock.monotonic_nanos();
        self.discover(now);
        if finish {
            return false;
        }
        let poll_in = self.poll_streams();
        self.writer.write_compressed();
        self.take_scheduled(now);
        if self.writer.series.is_split_due(now) {
            self.begin_split();
        }
        self.keep(now);
        self.writer.reap(self.pause(poll_in));
        true
    }

    fn take_commands(&mut self, commands: &Receiver<Command>) -> bool {
        loop {
            match commands.try_recv() {
                Ok(Command::AddTopic(topic, queue)) => {
                    self.queues.is_written = true;
                    let is_latched = self.shared.options.topics.rule(&topic.name).latched;
                    self.add_topic(topic, queue, is_latched, false);
                }
                Ok(Command::Follow(selector)) => self.discovery.follow(selector),
                Ok(Command::Split) => self.begin_split(),
                Ok(Command::Snapshot) => {
                    // The ring is looked through once a second only.
                    self.queues.evict();
                    self.queues.flush();
                }
                Ok(Command::Finish) | Err(TryRecvError::Disconnected) => return true,
                Err(TryRecvError::Empty) => return false,
            }
        }
    }

    /// Until a stream is to be polled, and where programs write into queues, at most the time in which they
    /// could fill a sixteenth of them.
    fn pause(&self, poll_in: Option<Duration>) -> Duration {
        let fill = self.shared.options.cache_bytes_max / 16 / FILL_BYTES_PER_NANO;
        let fill = Duration::from_nanos(fill).clamp(POLL_MIN, POLL_MAX);
        let pause = match poll_in {
            Some(poll_in) if self.queues.is_written => poll_in.min(fill),
            Some(poll_in) => poll_in,
            None => fill,
        };
        let now = self.shared.options.clock.monotonic_nanos();
        let pause = if self.is_read(now) { pause.min(POLL_MAX_READ) } else { pause };
        self.pacing.pause(now, pause)
    }

    /// Whether a client reads the live recording.
    fn is_read(&self, now_nanos: u64) -> bool {
        now_nanos < self.shared.read_until_nanos.load(Ordering::Relaxed)
    }

    fn add_topic(
        &mut self,
        topic: Topic,
        queue: Arc<TopicQueue>,
        is_latched: bool,
        is_stream: bool,
    ) {
        let (topic, counters) = (Arc::new(topic), Arc::new(Counters::default()));
        let seen = (topic.clone(), counters.clone());
        self.shared.topics.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        let split_topic = SplitTopic::new(topic, queue.channel_id(), counters);
        self.queues.add(queue.clone(), is_latched);
        self.writer.add_topic(&split_topic, queue, is_stream);
    }

    /// Adds a stream, or only its topic while there are too few files for it. Gives the topic's number.
    fn add_stream(&mut self, topic: Topic, source: Option<StreamSource>) -> Option<usize> {
        let queue = match self.shared.make_stream_queue(&topic.name) {
            Ok(queue) => queue,
            Err(error) => {
                self.shared.fail(error);
                return None;
            }
        };
        let number = self.queues.len();
        let is_latched = self.shared.options.topics.rule(&topic.name).latched;
        self.add_topic(topic, queue.clone(), is_latched, true);
        self.tracker.add(number, source, queue, is_latched);
        if self.watchdog.is_none() {
            match Watchdog::start(self.tracker.clone()) {
                Ok(watchdog) => self.watchdog = Some(watchdog),
                Err(error) => self.shared.fail(error),
            }
        }
        Some(number)
    }

    fn discover(&mut self, now: u64) {
        if !self.discovery.is_due(now) {
            return;
        }
        let shared = self.shared.clone();
        let (each, promised) = self.writer.series.stream_files();
        let mut files = FilesLeft::new(&*shared.disk, each, promised);
        let mut refused = Vec::new();
        for appeared in self.discovery.look(now, &shared.options.clock, &mut files) {
            match appeared {
                Appeared::Stream(source) => self.take_stream(source),
                Appeared::Refused { name, topic } => {
                    refused.push(topic.name.clone());
                    self.refuse_stream(name, topic, files.refusal());
                }
            }
        }
        if !refused.is_empty() {
            log::warn!("not recorded: {}: {}", refused.join(", "), files.refusal());
        }
        self.note_returns();
        self.follow_successors();
    }

    fn take_stream(&mut self, source: StreamSource) {
        let topic = source.topic();
        let waiting = self.waiting.remove(source.name());
        let known = &self.writer.series.current().topics;
        match waiting.filter(|at| *known[*at].topic == topic) {
            Some(at) => self.tracker.replace(at, Some(source)),
            None => _ = self.add_stream(topic, Some(source)),
        }
    }

    fn refuse_stream(&mut self, name: String, topic: Topic, why: RecordError) {
        // A region that took the name of another one that waits.
        let known = &self.writer.series.current().topics;
        if self.waiting.get(&name).is_some_and(|at| *known[*at].topic == topic) {
            return;
        }
        if let Some(number) = self.add_stream(topic, None) {
            self.writer.series.current().topics[number].refuse_stream(why);
            self.waiting.insert(name, number);
        }
    }

    /// Counts what streams have published that waited for files to the end.
    fn count_missed(&mut self) {
        for (name, missed) in self.discovery.missed() {
            if let Some(at) = self.waiting.get(&name) {
                self.writer.series.current().topics[*at].lose(Cause::Disk, missed);
            }
        }
    }

    /// Counts writers that have come back to their streams.
    fn note_returns(&mut self) {
        for topic in self.tracker.take_returns() {
            self.writer.series.current().topics[topic].note_return();
        }
    }

    /// Continues with streams that were created anew under their old name.
    fn follow_successors(&mut self) {
        // One at a time: each takes files until it replaces the old one.
        for number in 0..self.tracker.len() {
            let Some((at, source)) = self.tracker.successor(number) else { continue };
            // The old region's remaining frames come first.
            self.poll_streams();
            self.write_all_pending();
            let topic = source.topic();
            let current = self.writer.series.current();
            if topic == *current.topics[at].topic {
                current.topics[at].note_return();
                self.tracker.replace(at, Some(source));
            } else {
                self.tracker.replace(at, None);
                self.add_stream(topic, Some(source));
            }
        }
    }

    /// Polls the streams. Tells when to poll again, if there are streams.
    fn poll_streams(&mut self) -> Option<Duration> {
        let poll_in = self.tracker.look();
        for (topic, unseen) in self.tracker.take_losses() {
            let topic = &mut self.writer.series.current().topics[topic];
            topic.lose(Cause::Transport, unseen.damaged);
            topic.lose(Cause::Lapped, unseen.lapped);
            topic.lose(Cause::Queue, unseen.dropped);
            topic.lose(Cause::Disk, unseen.refused);
            topic.skip(unseen.skipped);
        }
        poll_in
    }

    /// Takes messages from slots and queues, as far as the schedule and the device allow.
    fn take_scheduled(&mut self, now_nanos: u64) {
        if !self.pacing.is_scheduled() {
            self.write_some_pending(u64::MAX);
            return self.take_queues(Take::Due);
        }
        self.note_all_counts();
        let queued = self.queues.waiting();
        let held = self.tracker.waiting();
        let speed = self.writer.writes.speed();
        let allowed = self.pacing.submit_bytes(now_nanos, held, queued, speed);
        let left = self.write_some_pending(allowed);
        if left > 0 && queued.0 > 0 {
            self.take_queues(Take::UpTo(left));
        }
    }

    /// Writes waiting frames, oldest first, up to this many bytes; returns the rest of the allowance.
    fn write_some_pending(&mut self, mut left: u64) -> u64 {
        while !self.writer.writes.is_full()
            && let Some(next) = self.tracker.next_pending().filter(|next| next.bytes <= left)
        {
            if !self.write_next_pending() {
                break;
            }
            left -= next.bytes;
        }
        left
    }

    /// Writes every frame that waits.
    fn write_all_pending(&mut self) {
        while let Some(next) = self.tracker.next_pending() {
            if !self.write_next_pending() {
                self.tracker.give_up(next.number);
            }
        }
    }

    /// Writes the frame that waits longest. `false` if it stays, for lack of room for the copy that is to be
    /// compressed.
    fn write_next_pending(&mut self) -> bool {
        let Some(next) = self.tracker.next_pending() else { return false };
        // While one of its frames waits, none enters the topic's queue: all there is older.
        self.take_queue(next.topic);
        if let Some(frame) = self.tracker.release(next.number, self.writer.compresses()) {
            self.writer.write_frame(frame);
            return true;
        }
        let first = self.tracker.next_pending();
        first.is_none_or(|first| first.number != next.number)
    }

    /// Takes messages from the queues, most important topics first.
    fn take_queues(&mut self, take: Take) {
        let now = self.shared.options.clock.monotonic_nanos();
        let mut left = match take {
            Take::UpTo(bytes) => bytes,
            Take::Due | Take::All => u64::MAX,
        };
        let age_max = self.shared.options.chunk_age_max;
        let is_read = self.is_read(now);
        let age_max = age_max.map(|age| if is_read { age.min(CHUNK_AGE_MAX_READ) } else { age });
        let is_flushing = self.queues.is_flushing();
        let before_nanos = match (take, age_max) {
            _ if is_flushing => u64::MAX,
            (Take::All | Take::UpTo(_), _) => u64::MAX,
            (Take::Due, age) => age.map_or(0, |age| now.saturating_sub(age.as_nanos() as u64)),
        };
        let holds_ring = self.queues.holds_ring();
        let mut shared = Vec::new();
        for topic in self.queues.next_round() {
            self.note_counts(topic);
            let is_busy = self.writer.is_busy() && take != Take::All && !is_flushing;
            if holds_ring || is_busy {
                continue;
            }
            for queued in self.queues.drain(topic, before_nanos, &mut left) {
                self.writer.write_queued(topic, queued, &mut shared);
            }
        }
        self.writer.write_shared(shared);
        self.queues.end_round();
    }

    /// Takes all that one topic has gathered, so that a large message does not overtake it.
    fn take_queue(&mut self, topic: usize) {
        let mut shared = Vec::new();
        for queued in self.queues.drain_all(topic) {
            self.writer.write_queued(topic, queued, &mut shared);
        }
        self.writer.write_shared(shared);
    }

    /// Reads the queues' counters.
    fn note_all_counts(&mut self) {
        (0..self.queues.len()).for_each(|topic| self.note_counts(topic));
    }

    fn note_counts(&mut self, topic: usize) {
        let [dropped, gaps, skipped] = self.queues.new_counts(topic);
        if dropped + gaps + skipped > 0 {
            let split_topic = &mut self.writer.series.current().topics[topic];
            split_topic.lose(Cause::Queue, dropped);
            split_topic.lose(Cause::Transport, gaps);
            split_topic.skip(skipped);
        }
    }

    fn begin_split(&mut self) {
        if self.writer.series.begin_split() {
            self.queues.repeat_latched();
        }
    }

    /// Periodic work: manifest, shares, retention, durability.
    fn keep(&mut self, now: u64) {
        self.writer.series.keep_retention(now);
        if self.timers.is_sync_due(now, self.shared.options.sync_interval) {
            self.writer.series.sync();
        }
        if !self.timers.is_manifest_due(now) {
            return;
        }
        let wall = self.shared.options.clock.wall_nanos();
        if let Some(jump) = self.timers.clock_jump(wall, now) {
            self.shared.clock_jumps.lock().unwrap_or_else(PoisonError::into_inner).add(jump);
        }
        for (topic, is_gone) in self.tracker.writers_gone() {
            let counters = &self.writer.series.current().topics[topic].counters;
            counters.is_gone.store(is_gone, Ordering::Relaxed);
        }
        self.queues.share_out();
        self.writer.series.retry_refused();
        self.writer.series.write_news();
        self.queues.evict();
    }

    /// Writes the messages in slots and queues, as many at a time as keep the disk busy: the rest can be abandoned.
    fn write_what_waits(&mut self) {
        if self.queues.is_flushing() {
            self.take_queues(Take::All);
        }
        let is_ring = self.shared.options.snapshot.is_some();
        while !self.shared.is_abandoned()
            && (self.tracker.next_pending().is_some() || (!is_ring && self.queues.waiting().0 > 0))
        {
            self.poll_streams();
            self.write_some_pending(u64::MAX);
            let room = IN_FLIGHT_BYTES_MAX.saturating_sub(self.writer.writes.memory_bytes());
            self.take_queues(Take::UpTo(room));
            self.writer.write_compressed();
            self.writer.reap(POLL_MIN);
        }
        if !is_ring && !self.shared.is_abandoned() {
            // Writers that are still copying are waited for.
            return self.take_queues(Take::All);
        }
        self.give_up_what_waits(is_ring);
    }

    /// Counts messages that will not be written: abandoned, or in a ring without a snapshot.
    fn give_up_what_waits(&mut self, is_ring: bool) {
        while let Some(next) = self.tracker.next_pending() {
            if let Some(frame) = self.tracker.release(next.number, false) {
                self.writer.give_up(frame, Cause::Abandoned);
            }
        }
        for topic in 0..self.queues.len() {
            for queued in self.queues.drain_all(topic) {
                if is_ring {
                    self.writer.series.current().topics[topic].skip(queued.published());
                    self.queues.release(topic, &queued);
                } else {
                    self.writer.refuse(topic, &queued, Cause::Abandoned);
                }
            }
        }
    }
}

impl Machine for Engine {
    fn turn(&mut self, commands: &Receiver<Command>) -> bool {
        self.take_turn(commands)
    }

    fn close(mut self) -> Result<(), Arc<RecordError>> {
        self.poll_streams();
        self.count_missed();
        self.note_returns();
        self.tracker.close();
        self.queues.close();
        self.write_what_waits();
        while self.writer.write_compressed() || !self.writer.writes.is_empty() {
            self.poll_streams();
            self.writer.reap(POLL_MIN);
        }
        // Losses since the last poll, if only the watchdog has seen them.
        self.poll_streams();
        self.note_all_counts();
        self.writer.series.finish()
    }
}
