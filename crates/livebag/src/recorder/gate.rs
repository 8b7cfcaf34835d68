//! What waits: frames stay in their slots, and messages in their queues, until the [`Policy`] lets them go and
//! the device has capacity.
//!
//! A device with more work than it can finish within a stream's lap would read frames that are overwritten
//! before it gets to them: written for nothing, and once more from a copy. So only as much is submitted as keeps
//! it busy. A frame that is about to be overwritten is copied first and written once.

use std::time::Duration;

use livebag_shm::CycleMonitor;

use super::engine::{Engine, Take};
use super::frame_tracker::Waiting;
use super::{RecordError, RecorderOptions};
use crate::limits::{BOARD_LOOK_INTERVAL, DEVICE_BYTES_MAX, POLL_MIN};
use crate::scheduler::{Application, Decision, Observation, Policy, Schedule, WriteSpeed};

/// Asks the schedule, and holds what has to wait.
pub(super) struct Gate {
    policy: Box<dyn Policy>,
    /// The cycle board; none for a recorder that writes at once.
    monitor: Option<CycleMonitor>,
    board: Option<String>,
    next_board_look_nanos: u64,
    applications: Vec<Application>,
    pub speed: WriteSpeed,
    /// Bytes handed to the device at which it has as much as keeps it busy.
    pub device_bytes_max: u64,
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
            device_bytes_max: DEVICE_BYTES_MAX,
            ask_again_nanos: 0,
        })
    }

    /// Whether a schedule is to be asked.
    pub fn is_scheduled(&self) -> bool {
        self.monitor.is_some()
    }

    /// Whether the device has as much as keeps it busy.
    pub fn is_full(&self) -> bool {
        self.speed.in_flight_bytes() >= self.device_bytes_max
    }

    /// Looks at the cycle board and asks. `queued` is what the queues hold: bytes, and since when.
    fn ask(&mut self, now_nanos: u64, held: Waiting, queued: (u64, Option<u64>)) -> Decision {
        let (queued_bytes, queued_since) = queued;
        self.look(now_nanos);
        let decision = self.policy.decide(&Observation {
            now_nanos,
            backlog_bytes: held.bytes + queued_bytes,
            next_bytes: held.next_bytes.unwrap_or(queued_bytes),
            in_flight_bytes: self.speed.in_flight_bytes(),
            oldest_nanos: held.oldest_nanos.into_iter().chain(queued_since).min(),
            deadline_nanos: held.deadline_nanos,
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
    /// Takes out of slots and queues what the schedule lets go and the device has room for.
    pub fn take_scheduled(&mut self, now_nanos: u64) {
        if !self.gate.is_scheduled() {
            self.write_some_held(u64::MAX);
            return self.take_queues(Take::Due);
        }
        self.note_all_counts();
        let queued = self.waiting();
        let held = self.tracker.waiting();
        let allowed = self.gate.ask(now_nanos, held, queued).submit_bytes;
        let left = self.write_some_held(allowed);
        if left > 0 && queued.0 > 0 {
            self.take_queues(Take::UpTo(left));
        }
    }

    /// Writes frames that wait, oldest first, up to so many bytes; gives what is left of them.
    pub fn write_some_held(&mut self, mut left: u64) -> u64 {
        while !self.gate.is_full()
            && let Some(next) = self.tracker.next_pending().filter(|next| next.bytes <= left)
        {
            if !self.write_next_held() {
                break;
            }
            left -= next.bytes;
        }
        left
    }

    /// What all queues hold, and since when the oldest of it waits.
    pub fn waiting(&self) -> (u64, Option<u64>) {
        let mut bytes = 0;
        let mut since: Option<u64> = None;
        for topic in &self.topics {
            let (more, from) = topic.queue.waiting();
            bytes += more;
            since = since.into_iter().chain(from).min();
        }
        (bytes, since)
    }

    /// Writes every frame that waits.
    pub fn write_all_held(&mut self) {
        while let Some(next) = self.tracker.next_pending() {
            if !self.write_next_held() {
                self.tracker.give_up(next.number);
            }
        }
    }
}
