//! What other robots record, as a server lists it.

use std::sync::{Arc, Mutex, PoisonError};

use livebag::Clock;

use super::{Found, ZenohAddress, ZenohAsker, ZenohError};
use crate::limits::ROBOTS_INTERVAL;
use crate::tell::{RecordingInfo, RobotRow};

/// Recordings that are announced by others. The last list is kept: many pages ask for one look.
pub struct Others {
    asker: ZenohAsker,
    /// This robot, whose recordings are no others'.
    robot: String,
    clock: Clock,
    /// Held while somebody looks.
    looking: Mutex<()>,
    known: Mutex<Option<Known>>,
}

struct Known {
    looked_nanos: u64,
    rows: Arc<[RobotRow]>,
}

impl Others {
    /// Of a session's peers.
    pub(super) fn new(session: zenoh::Session, robot: &str, clock: Clock) -> Self {
        Self {
            asker: ZenohAsker::sharing(session, clock.clone()),
            robot: robot.to_owned(),
            clock,
            looking: Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// All that are there. It takes a second where nobody has asked just before.
    ///
    /// # Errors
    /// If Zenoh refuses.
    pub fn recordings(&self) -> Result<Arc<[RobotRow]>, ZenohError> {
        let Ok(_looking) = self.looking.try_lock() else {
            // Another one is looking: what was there before is no older than it.
            return Ok(self.known().map_or_else(Arc::default, |(_, rows)| rows));
        };
        let now = self.clock.monotonic_nanos();
        if let Some((looked_nanos, rows)) = self.known()
            && now.saturating_sub(looked_nanos) < ROBOTS_INTERVAL.as_nanos() as u64
        {
            return Ok(rows);
        }
        let everywhere = ZenohAddress { robot: "*".into(), recording: "*".into() };
        let mut found = self.asker.find(&everywhere)?;
        found.retain(|found| found.robot != self.robot);
        let infos = self.asker.infos(&found)?;
        let row = |(found, info): (Found, Option<RecordingInfo>)| RobotRow {
            robot: found.robot,
            name: found.recording,
            recording: info.map(|info| info.row),
        };
        let rows: Arc<[RobotRow]> = found.into_iter().zip(infos).map(row).collect();
        let looked_nanos = self.clock.monotonic_nanos();
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Known { looked_nanos, rows: rows.clone() });
        Ok(rows)
    }

    fn known(&self) -> Option<(u64, Arc<[RobotRow]>)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().map(|known| (known.looked_nanos, known.rows.clone()))
    }
}

impl std::fmt::Debug for Others {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Others").field("robot", &self.robot).finish_non_exhaustive()
    }
}
