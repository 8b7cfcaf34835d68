//! What waits for its schedule: frames stay in their slots, messages in their queues, until the
//! [`Policy`] lets them go.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use livebag_shm::{CycleMonitor, FrameRef};

use super::engine::{Engine, Take};
use super::topic::Cause;
use super::{RecordError, RecorderOptions};
use crate::limits::{BOARD_LOOK_INTERVAL, POLL_MIN};
use crate::scheduler::{Application, Decision, Observation, Policy, Schedule, WriteSpeed};
use crate::source::StreamSource;

/// A large frame that waits in its slot.
pub(super) struct Held {
    pub topic: usize,
    pub frame: FrameRef,
    pub log_time_nanos: u64,
    seen_nanos: u64,
    /// When its slot is refilled, at the latest look at its stream's rate.
    deadline_nanos: u64,
}

/// Asks the schedule. A recorder that writes at once has none.
pub(super) struct Gate {
    policy: Box<dyn Policy>,
    monitor: CycleMonitor,
    board: Option<String>,
    next_board_look_nanos: u64,
    applications: Vec<Application>,
    pub speed: WriteSpeed,
    /// Oldest first.
    pub held: VecDeque<Held>,
    held_bytes: u64,
    ask_again_nanos: u64,
}

impl Gate {
    /// None for [`Schedule::Immediate`].
    ///
    /// # Errors
    /// If there can be no cycle board.
    pub fn open(options: &RecorderOptions) -> Result<Option<Self>, RecordError> {
        if options.schedule == Schedule::Immediate {
            return Ok(None);
        }
        Ok(Some(Self {
            policy: options.schedule.policy(options.cache_bytes_max),
            monitor: open_board(options.cycle_board.as_deref())?,
            board: options.cycle_board.clone(),
            next_board_look_nanos: 0,
            applications: Vec::new(),
            speed: WriteSpeed::default(),
            held: VecDeque::new(),
            held_bytes: 0,
            ask_again_nanos: 0,
        }))
    }

    /// Whether frames of this topic must queue up behind one that waits.
    pub fn holds(&self, topic: usize) -> bool {
        self.held.iter().any(|held| held.topic == topic)
    }

    fn take(&mut self, at: usize) -> Option<Held> {
        let held = self.held.remove(at)?;
        self.held_bytes -= held.frame.payload_bytes() as u64;
        Some(held)
    }

    /// Looks at the cycle board and asks. `waiting` is what the queues hold: bytes, and since when.
    fn ask(&mut self, now_nanos: u64, waiting: (u64, Option<u64>)) -> Decision {
        let (queued_bytes, queued_since) = waiting;
        self.look(now_nanos);
        let oldest_held = self.held.iter().map(|held| held.seen_nanos).min();
        let next = self.held.front().map(|held| held.frame.payload_bytes() as u64);
        let decision = self.policy.decide(&Observation {
            now_nanos,
            backlog_bytes: self.held_bytes + queued_bytes,
            next_bytes: next.unwrap_or(queued_bytes),
            in_flight_bytes: self.speed.in_flight_bytes(),
            oldest_nanos: oldest_held.into_iter().chain(queued_since).min(),
            deadline_nanos: self.held.iter().map(|held| held.deadline_nanos).min(),
            applications: &self.applications,
            bytes_per_second: self.speed.bytes_per_second(),
        });
        self.ask_again_nanos = decision.ask_again_nanos;
        decision
    }

    fn look(&mut self, now_nanos: u64) {
        if now_nanos >= self.next_board_look_nanos {
            self.next_board_look_nanos = now_nanos + BOARD_LOOK_INTERVAL.as_nanos() as u64;
            // Somebody may have removed the board by hand; applications that come join a new one.
            if !self.monitor.is_current()
                && let Ok(monitor) = open_board(self.board.as_deref())
            {
                self.monitor = monitor;
            }
        }
        let monitor_nanos = CycleMonitor::now_nanos();
        self.applications.clear();
        let seen = self.monitor.look().iter();
        self.applications.extend(seen.map(|a| Application::seen(a, monitor_nanos, now_nanos)));
    }

    /// How long the recorder may rest when it would rest for `pause`.
    pub fn pause(&self, now_nanos: u64, pause: Duration) -> Duration {
        let until_asked = self.ask_again_nanos.saturating_sub(now_nanos);
        pause.min(Duration::from_nanos(until_asked)).max(POLL_MIN)
    }
}

fn open_board(board: Option<&str>) -> Result<CycleMonitor, RecordError> {
    let opened = match board {
        Some(board) => CycleMonitor::open_board(board),
        None => CycleMonitor::open(),
    };
    opened.map_err(RecordError::CycleBoard)
}

impl Engine {
    /// Lets a frame wait in its slot.
    pub fn hold_frame(&mut self, topic: usize, stream: &StreamSource, frame: FrameRef) {
        let now = self.shared.options.clock.monotonic_nanos();
        let log_time_nanos = self.topics[topic].queue.stamp();
        let lap = stream.lap_nanos();
        let Some(gate) = &mut self.gate else { return };
        gate.held_bytes += frame.payload_bytes() as u64;
        self.shared.slot_bytes.store(gate.held_bytes, Ordering::Relaxed);
        gate.held.push_back(Held {
            topic,
            frame,
            log_time_nanos,
            seen_nanos: now,
            // A sixteenth may have passed between two looks at the stream.
            deadline_nanos: now + lap - lap / 16,
        });
    }

    /// Takes out of slots and queues what the schedule lets go.
    pub fn take_scheduled(&mut self, now_nanos: u64) {
        if self.gate.is_none() {
            return self.take_queues(Take::Due);
        }
        self.note_all_counts();
        let waiting = self.waiting();
        let Some(gate) = &mut self.gate else { return };
        let mut left = gate.ask(now_nanos, waiting).submit_bytes;
        while let Some(bytes) = self.next_held_bytes().filter(|bytes| *bytes <= left) {
            left -= bytes;
            self.write_held(0);
        }
        if left > 0 && waiting.0 > 0 {
            self.take_queues(Take::UpTo(left));
        }
        self.write_endangered();
    }

    fn next_held_bytes(&self) -> Option<u64> {
        self.gate.as_ref()?.held.front().map(|held| held.frame.payload_bytes() as u64)
    }

    /// What all queues hold, and since when the oldest of it waits.
    fn waiting(&self) -> (u64, Option<u64>) {
        let mut bytes = 0;
        let mut since: Option<u64> = None;
        for topic in &self.topics {
            let (more, from) = topic.queue.waiting();
            bytes += more;
            since = since.into_iter().chain(from).min();
        }
        (bytes, since)
    }

    fn write_held(&mut self, at: usize) {
        let Some(gate) = &mut self.gate else { return };
        let Some(held) = gate.take(at) else { return };
        self.shared.slot_bytes.store(gate.held_bytes, Ordering::Relaxed);
        if self.shared.failure().is_some() {
            return self.current().topics[held.topic].lose(Cause::Disk, 1);
        }
        let Some(stream) = self.topics[held.topic].stream.take() else { return };
        self.write_frame(held.topic, &stream, held.frame, held.log_time_nanos);
        self.topics[held.topic].stream = Some(stream);
    }

    /// Writes every frame that waits.
    pub fn write_all_held(&mut self) {
        while self.next_held_bytes().is_some() {
            self.write_held(0);
        }
    }

    /// Writes frames whose slot is about to be refilled, whatever the schedule says; those that the
    /// device does not get in time are rescued like any other.
    fn write_endangered(&mut self) {
        let mut at = 0;
        while let Some(held) = self.gate.as_ref().and_then(|gate| gate.held.get(at)) {
            let stream = self.topics[held.topic].stream.as_ref();
            if stream.is_some_and(|stream| stream.endangers(&held.frame)) {
                self.write_held(at);
            } else {
                at += 1;
            }
        }
    }
}
