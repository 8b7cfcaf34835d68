//! Decides when bytes may go to the device: asks the [`Policy`], and reads the cycle board for it.

use std::time::Duration;

use livebag_shm::CycleMonitor;

use super::frame_tracker::Waiting;
use super::{RecordError, RecorderOptions};
use crate::limits::{BOARD_LOOK_INTERVAL, POLL_MIN};
use crate::scheduler::{Application, Observation, Policy, Schedule, WriteSpeed};

/// See the module's text.
pub(super) struct Pacing {
    policy: Box<dyn Policy>,
    /// The cycle board; none for a recorder that writes at once.
    monitor: Option<CycleMonitor>,
    board: Option<String>,
    next_board_look_nanos: u64,
    applications: Vec<Application>,
    ask_again_nanos: u64,
}

impl Pacing {
    /// Reads the cycle board, if the schedule uses it.
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
            ask_again_nanos: 0,
        })
    }

    /// Whether a schedule is to be asked.
    pub fn is_scheduled(&self) -> bool {
        self.monitor.is_some()
    }

    /// Reads the cycle board, and returns the bytes that may be submitted now. `queued`: bytes in the queues, and their
    /// age.
    pub fn submit_bytes(
        &mut self,
        now_nanos: u64,
        held: Waiting,
        queued: (u64, Option<u64>),
        speed: &WriteSpeed,
    ) -> u64 {
        let (queued_bytes, queued_since) = queued;
        self.look(now_nanos);
        let decision = self.policy.decide(&Observation {
            now_nanos,
            backlog_bytes: held.bytes + queued_bytes,
            next_bytes: held.next_bytes.unwrap_or(queued_bytes),
            in_flight_bytes: speed.in_flight_bytes(),
            oldest_nanos: held.oldest_nanos.into_iter().chain(queued_since).min(),
            deadline_nanos: held.deadline_nanos,
            applications: &self.applications,
            bytes_per_second: speed.bytes_per_second(),
        });
        self.ask_again_nanos = decision.ask_again_nanos;
        decision.submit_bytes
    }

    fn look(&mut self, now_nanos: u64) {
        let Some(monitor) = &mut self.monitor else { return };
        if now_nanos >= self.next_board_look_nanos {
            self.next_board_look_nanos = now_nanos + BOARD_LOOK_INTERVAL.as_nanos() as u64;
            // The board may have been removed by hand; new applications join a new one.
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
