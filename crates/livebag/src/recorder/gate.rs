//! What waits: frames stay in their slots, messages in their queues, until the [`Policy`] lets them
//! go and the device has room.
//!
//! A device that has more to do than it can finish within a stream's lap would be given frames that
//! are overwritten before they are fetched: written for nothing, and once more from a copy. So only as
//! much is handed over as keeps it busy, and a frame that is about to be overwritten here is copied first
//! and written once.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use livebag_shm::{CycleMonitor, FrameRef};

use super::engine::{Engine, Take};
use super::topic::Cause;
use super::{RecordError, RecorderOptions};
use crate::limits::{BOARD_LOOK_INTERVAL, DEVICE_BYTES_MAX, POLL_MIN};
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

/// Asks the schedule, and holds what has to wait.
pub(super) struct Gate {
    policy: Box<dyn Policy>,
    /// The cycle board; none for a recorder that writes at once.
    monitor: Option<CycleMonitor>,
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
    /// With a look at the cycle board, if the schedule heeds it.
    ///
    /// # Errors
    /// If there can be no cycle board.
    pub fn open(options: &RecorderOptions) -> Result<Self, RecordError> {
        let monitor = match options.schedule {
            Schedule::Immediate => None,
            Schedule::CycleAware => Some(open_board(options.cycle_board.as_deref())?),
        };
        Ok(Self {
            policy: options.schedule.policy(options.cache_bytes_max),
            monitor,
            board: options.cycle_board.clone(),
            next_board_look_nanos: 0,
            applications: Vec::new(),
            speed: WriteSpeed::default(),
            held: VecDeque::new(),
            held_bytes: 0,
            ask_again_nanos: 0,
        })
    }

    /// Whether a schedule is to be asked.
    pub fn is_scheduled(&self) -> bool {
        self.monitor.is_some()
    }

    /// Whether the device has as much as keeps it busy.
    pub fn is_full(&self) -> bool {
        self.speed.in_flight_bytes() >= DEVICE_BYTES_MAX
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
        let Some(monitor) = &mut self.monitor else { return };
        if now_nanos >= self.next_board_look_nanos {
            self.next_board_look_nanos = now_nanos + BOARD_LOOK_INTERVAL.as_nanos() as u64;
            // Somebody may have removed the board by hand; applications that come join a new one.
            if !monitor.is_current()
                && let Ok(opened) = open_board(self.board.as_deref())
            {
                *monitor = opened;
            }
        }
        let monitor_nanos = CycleMonitor::now_nanos();
        self.applications.clear();
        let seen = monitor.look().iter();
        self.applications.extend(seen.map(|a| Application::seen(a, monitor_nanos, now_nanos)));
    }

    /// How long the recorder may rest when it would rest for `pause`.
    pub fn pause(&self, now_nanos: u64, pause: Duration) -> Duration {
        if !self.is_scheduled() {
            return pause;
        }
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
        let gate = &mut self.gate;
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

    /// Takes out of slots and queues what the schedule lets go and the device has room for.
    pub fn take_scheduled(&mut self, now_nanos: u64) {
        if !self.gate.is_scheduled() {
            self.write_some_held(u64::MAX);
            self.take_queues(Take::Due);
            return self.copy_endangered();
        }
        self.note_all_counts();
        let waiting = self.waiting();
        let allowed = self.gate.ask(now_nanos, waiting).submit_bytes;
        let left = self.write_some_held(allowed);
        if left > 0 && waiting.0 > 0 {
            self.take_queues(Take::UpTo(left));
        }
        self.copy_endangered();
    }

    /// Writes frames that wait, oldest first, up to so many bytes; gives what is left of them.
    fn write_some_held(&mut self, mut left: u64) -> u64 {
        while let Some(bytes) = self.next_held_bytes().filter(|bytes| *bytes <= left) {
            if self.gate.is_full() {
                break;
            }
            left -= bytes;
            self.write_held(0);
        }
        left
    }

    fn next_held_bytes(&self) -> Option<u64> {
        self.gate.held.front().map(|held| held.frame.payload_bytes() as u64)
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

    fn take_held(&mut self, at: usize) -> Option<(Held, StreamSource)> {
        let held = self.gate.take(at)?;
        self.shared.slot_bytes.store(self.gate.held_bytes, Ordering::Relaxed);
        if self.shared.failure().is_some() {
            self.current().topics[held.topic].lose(Cause::Disk, 1);
            return None;
        }
        let stream = self.topics[held.topic].stream.take()?;
        Some((held, stream))
    }

    fn write_held(&mut self, at: usize) {
        let Some((held, stream)) = self.take_held(at) else { return };
        self.write_frame(held.topic, &stream, held.frame, held.log_time_nanos);
        self.topics[held.topic].stream = Some(stream);
    }

    fn copy_held(&mut self, at: usize) {
        let Some((held, stream)) = self.take_held(at) else { return };
        self.write_from_copy(held.topic, &stream, &held.frame, held.log_time_nanos);
        self.topics[held.topic].stream = Some(stream);
    }

    /// Writes every frame that waits.
    pub fn write_all_held(&mut self) {
        while self.next_held_bytes().is_some() {
            self.write_held(0);
        }
    }

    /// Takes frames whose slot is about to be refilled into memory, whatever the schedule says.
    fn copy_endangered(&mut self) {
        let mut at = 0;
        while let Some(held) = self.gate.held.get(at) {
            let stream = self.topics[held.topic].stream.as_ref();
            if stream.is_some_and(|stream| stream.endangers(&held.frame)) {
                self.copy_held(at);
            } else {
                at += 1;
            }
        }
    }
}
