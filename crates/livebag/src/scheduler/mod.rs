//! When to write: which of the waiting bytes may go to the disk now.
//!
//! A [`Policy`] is pure. It gets an [`Observation`] (the time, waiting messages, the applications on the cycle board,
//! the disk's speed) and returns a [`Decision`]. It reads no clock and touches no disk, so that a test can run hours of
//! it in a moment, and the recorder's thread can ask it at every turn.
//!
//! What every policy must do:
//! - Nothing waits forever: asked again at the time it named, it permits every byte within its bounds.
//! - It does not trust applications beyond its bounds. Times may be in the future, counts may jump, an application may
//!   stay busy forever.
//!
//! Sources: SPEED (Seo et al.), section III-B, "Context-Aware I/O Scheduler": applications declare the beginning and
//! end of their periodic tasks; the scheduler compares the combined weights of computing applications with the waiting
//! data. Where SPEED has "an empirical value that varies depending on the autonomous system", [`CycleAware`] measures.

mod cycle_aware;
mod immediate;
mod speed;
mod window;

pub use cycle_aware::{CycleAware, CycleBounds};
pub use immediate::Immediate;
pub use speed::WriteSpeed;

/// An application on the cycle board. All times are on the clock of [`Observation::now_nanos`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Application {
    /// Identifies it among all others.
    pub id: u64,
    /// Its share of the machine, as its last `begin` stated it.
    pub weight: u32,
    /// Whether it computes now.
    pub busy: bool,
    /// How often it has begun.
    pub begins: u64,
    /// When it last began.
    pub begin_nanos: Option<u64>,
    /// When it last ended.
    pub end_nanos: Option<u64>,
}

impl Application {
    /// Translates what `livebag_shm::CycleMonitor::look` saw, whose clock showed `monitor_nanos` when
    /// the recorder's showed `now_nanos`.
    pub fn seen(
        application: &livebag_shm::CycleApplication,
        monitor_nanos: u64,
        now_nanos: u64,
    ) -> Self {
        // A time in the future, from a wrong word, counts as now.
        let translate = |nanos: u64| now_nanos.saturating_sub(monitor_nanos.saturating_sub(nanos));
        Self {
            id: application.id,
            weight: application.weight,
            busy: application.busy,
            begins: application.begins,
            begin_nanos: application.begin_nanos.map(translate),
            end_nanos: application.end_nanos.map(translate),
        }
    }
}

/// The input of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// The time, in nanoseconds of any clock that never steps back.
    pub now_nanos: u64,
    /// Bytes that wait: taken from sources or lying in slots, and not submitted to the disk.
    pub backlog_bytes: u64,
    /// Bytes of the message that would be submitted first; 0 if none waits.
    pub next_bytes: u64,
    /// Bytes submitted that the disk has not completed.
    pub in_flight_bytes: u64,
    /// Since when the oldest waiting message waits; none if none does.
    pub oldest_nanos: Option<u64>,
    /// By when a waiting frame must have been read out of its stream's slot by the disk, before its writer
    /// refills it: its publishing plus (slots - 1) periods. The earliest of all waiting; none if no
    /// frame waits in a slot.
    pub deadline_nanos: Option<u64>,
    /// The living applications.
    pub applications: &'a [Application],
    /// How fast the disk takes bytes ([`WriteSpeed`]); none while unknown.
    pub bytes_per_second: Option<u64>,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Submit waiting messages, oldest first, up to this sum of bytes. 0: none; `u64::MAX`: all.
    pub submit_bytes: u64,
    /// Ask again at this time at the latest, even if nothing has happened. Before it an answer of 0 will hardly change,
    /// so the recorder may sleep until then; if something arrives, it may ask earlier.
    pub ask_again_nanos: u64,
    /// Why.
    pub reason: Reason,
}

/// Why a [`Decision`] was made, for status lines and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Nothing is to be waited for.
    Free,
    /// All known cycles are between two computations: as much as fits before the next begins.
    Gap,
    /// Applications compute.
    Busy,
    /// Applications compute, but their weight is small relative to the backlog.
    Light,
    /// A computation is expected to begin at any moment.
    Expected,
    /// One was expected and has not begun: a little at a time.
    Overdue,
    /// More waits than the bound allows.
    Backlog,
    /// The oldest message has waited for as long as the bound allows.
    Age,
    /// A frame's slot is about to be refilled.
    Deadline,
}

/// Decides when waiting bytes go to the disk.
pub trait Policy: Send {
    /// Decides, and learns from the observation. Time must not step back between two calls.
    fn decide(&mut self, observation: &Observation<'_>) -> Decision;
}

/// The policies by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Schedule {
    /// Writes at once.
    #[default]
    Immediate,
    /// Writes in the pauses of the applications on the cycle board, within bounds that fit the cache.
    CycleAware,
}

impl Schedule {
    /// The policy for a recorder with this cache, in bytes.
    pub(crate) fn policy(self, cache_bytes_max: u64) -> Box<dyn Policy> {
        match self {
            Self::Immediate => Box::new(Immediate),
            Self::CycleAware => Box::new(CycleAware::new(CycleBounds::of_cache(cache_bytes_max))),
        }
    }
}

#[cfg(test)]
mod tests;
