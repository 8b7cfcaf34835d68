//! Writes while applications rest.

use super::window::{Expected, Rhythm};
use super::{Application, Decision, Observation, Policy, Reason};
use crate::limits::{
    CYCLE_AGE_MAX, CYCLE_APPLICATIONS_MAX, CYCLE_ASK_AGAIN_MIN, CYCLE_BUSY_MAX, CYCLE_MARGIN,
    CYCLE_SLICE, CYCLE_SLICE_BYTES,
};

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Bounds within which [`CycleAware`] may hold bytes back. They win over every application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CycleBounds {
    /// Bytes that may wait. Bytes beyond it are submitted, even if applications compute.
    pub backlog_bytes_max: u64,
    /// How long a message may wait, in nanoseconds. Frames that wait in slots are bounded by
    /// [`Observation::deadline_nanos`] as well, whichever comes first.
    pub age_nanos_max: u64,
    /// An application that computes for longer than this, in nanoseconds, is not in a cycle, and is not
    /// waited for.
    pub busy_nanos_max: u64,
}

impl CycleBounds {
    /// Half of the cache may wait; the other half is for what arrives while it is written.
    pub fn of_cache(cache_bytes_max: u64) -> Self {
        Self {
            backlog_bytes_max: cache_bytes_max / 2,
            age_nanos_max: CYCLE_AGE_MAX.as_nanos() as u64,
            busy_nanos_max: CYCLE_BUSY_MAX.as_nanos() as u64,
        }
    }
}

/// Holds bytes back while applications compute, and writes in the gap as much as the disk accepts before the next
/// computation is due.
///
/// - The combined weight of computing applications is compared with the weight of all, and with the backlog, as in
///   SPEED's heuristic (section III-B): from half of the backlog's limit on, ever heavier applications no longer delay
///   it.
/// - A gap ends when the first application is due, which is learnt from its last 16 cycles: the shortest eighth of its
///   periods (or pauses, if they are steadier) is ignored as hiccups, the next shortest counts.
/// - The gap is filled by the measured speed of the disk, with a margin, so that the last write is complete
///   when the gap ends.
/// - Until three cycles have been seen an application that rests holds nothing up.
#[derive(Clone, Debug)]
pub struct CycleAware {
    bounds: CycleBounds,
    rhythms: Vec<Rhythm>,
}

/// The combined state of the applications.
#[derive(Clone, Copy, Debug)]
enum Situation {
    /// Applications of this weight compute; the first of them ends at this time.
    Busy { weight: u64, ends_nanos: Option<u64> },
    /// No application computes; the next one expected begins then. Another one may be overdue.
    Rest { next: Option<Expected>, overdue: bool },
}

impl CycleAware {
    /// A policy that knows no application yet.
    pub fn new(bounds: CycleBounds) -> Self {
        Self { bounds, rhythms: Vec::new() }
    }

    fn learn(&mut self, applications: &[Application]) {
        self.rhythms.retain(|known| applications.iter().any(|a| a.id == known.application.id));
        for &application in applications.iter().take(CYCLE_APPLICATIONS_MAX) {
            match self.rhythms.iter_mut().find(|known| known.application.id == application.id) {
                Some(known) => known.learn(application),
                None => self.rhythms.push(Rhythm::new(application)),
            }
        }
    }

    fn situation(&mut self, now_nanos: u64) -> Situation {
        let mut weight = 0;
        let mut ends_nanos = None;
        let mut begins: Option<Expected> = None;
        let mut overdue = false;
        for rhythm in &mut self.rhythms {
            let application = rhythm.application;
            if application.weight == 0 {
                continue;
            }
            if application.busy {
                let since = now_nanos.saturating_sub(application.begin_nanos.unwrap_or(now_nanos));
                if since <= self.bounds.busy_nanos_max {
                    weight += u64::from(application.weight);
                    let end = rhythm.next_end().map(|end| end.early_nanos);
                    ends_nanos = ends_nanos.into_iter().chain(end).min();
                }
            } else if rhythm.has_stopped(now_nanos) {
                rhythm.forget();
            } else if let Some(next) = rhythm.next_begin() {
                if next.late_nanos.saturating_add(margin()) < now_nanos {
                    overdue = true;
                    continue;
                }
                let earlier = |known: Expected| known.early_nanos <= next.early_nanos;
                begins = begins.filter(|&known| earlier(known)).or(Some(next));
            }
        }
        match weight {
            0 => Situation::Rest { next: begins, overdue },
            weight => Situation::Busy { weight, ends_nanos },
        }
    }

    /// Combined weight of computing applications that is outweighed by what waits: nothing up to half
    /// of the backlog's bound, everything at the bound.
    fn tolerated_weight(&self, backlog_bytes: u64) -> u64 {
        let total: u64 = self.rhythms.iter().map(|r| u64::from(r.application.weight)).sum();
        let half = (self.bounds.backlog_bytes_max / 2).max(1);
        let pressing = backlog_bytes.saturating_sub(half);
        let share = u128::from(total) * u128::from(pressing) / u128::from(half);
        u64::try_from(share).unwrap_or(u64::MAX).min(total)
    }

    /// Bytes that the bounds require, even if applications compute.
    fn demanded(&self, o: &Observation<'_>) -> Option<(u64, Reason)> {
        if o.backlog_bytes == 0 {
            return None;
        }
        let is_due = |time: Option<u64>| time.is_some_and(|time| time <= o.now_nanos);
        if is_due(self.slot_deadline(o)) {
            return Some((u64::MAX, Reason::Deadline));
        }
        if is_due(self.age_deadline(o)) {
            return Some((u64::MAX, Reason::Age));
        }
        let excess = o.backlog_bytes.saturating_sub(self.bounds.backlog_bytes_max);
        (o.backlog_bytes >= self.bounds.backlog_bytes_max)
            .then_some((excess.max(o.next_bytes).max(1), Reason::Backlog))
    }

    /// When all must be submitted for the disk to be through with every slot in time.
    fn slot_deadline(&self, o: &Observation<'_>) -> Option<u64> {
        let bytes = o.backlog_bytes.saturating_add(o.in_flight_bytes);
        let lead = o.bytes_per_second.map_or(0, |speed| nanos_for(bytes, speed));
        Some(o.deadline_nanos?.saturating_sub(lead.saturating_add(margin())))
    }

    fn age_deadline(&self, o: &Observation<'_>) -> Option<u64> {
        Some(o.oldest_nanos?.saturating_add(self.bounds.age_nanos_max))
    }

    /// Bytes that the applications permit.
    fn granted(&self, o: &Observation<'_>, situation: Situation) -> Decision {
        match situation {
            Situation::Busy { weight, ends_nanos } => {
                if weight > self.tolerated_weight(o.backlog_bytes) {
                    return hold(Reason::Busy, ends_nanos.unwrap_or(o.now_nanos));
                }
                slice(o, Reason::Light)
            }
            Situation::Rest { next, overdue: false } => rest(o, next),
            Situation::Rest { next, overdue: true } => {
                let (rest, slice) = (rest(o, next), slice(o, Reason::Overdue));
                if rest.submit_bytes < slice.submit_bytes { rest } else { slice }
            }
        }
    }
}

impl Policy for CycleAware {
    fn decide(&mut self, o: &Observation<'_>) -> Decision {
        self.learn(o.applications);
        let situation = self.situation(o.now_nanos);
        let mut decision = self.granted(o, situation);
        if let Some((bytes, reason)) = self.demanded(o)
            && bytes > decision.submit_bytes
        {
            decision.submit_bytes = bytes;
            decision.reason = reason;
        }
        let bounds = self.slot_deadline(o).into_iter().chain(self.age_deadline(o));
        let earliest = bounds.fold(decision.ask_again_nanos, u64::min);
        let soon = o.now_nanos.saturating_add(CYCLE_ASK_AGAIN_MIN.as_nanos() as u64);
        decision.ask_again_nanos = earliest.max(soon);
        decision
    }
}

fn margin() -> u64 {
    CYCLE_MARGIN.as_nanos() as u64
}

fn hold(reason: Reason, until_nanos: u64) -> Decision {
    Decision { submit_bytes: 0, ask_again_nanos: until_nanos, reason }
}

/// No application computes.
fn rest(o: &Observation<'_>, next: Option<Expected>) -> Decision {
    let Some(next) = next else {
        let (submit_bytes, ask_again_nanos) = (u64::MAX, u64::MAX);
        return Decision { submit_bytes, ask_again_nanos, reason: Reason::Free };
    };
    let end = next.early_nanos.saturating_sub(margin());
    if o.now_nanos < end {
        return gap(o, end);
    }
    hold(Reason::Expected, next.late_nanos.saturating_add(margin() + 1))
}

/// As much as the disk completes until `end`, less an eighth, because its speed is known no more exactly.
fn gap(o: &Observation<'_>, end_nanos: u64) -> Decision {
    let left = end_nanos - o.now_nanos;
    let submit_bytes = match o.bytes_per_second {
        Some(speed) => bytes_in(left - left / 8, speed).saturating_sub(o.in_flight_bytes),
        // One message at a time tells the speed.
        None if o.in_flight_bytes == 0 => o.next_bytes.max(CYCLE_SLICE_BYTES),
        None => 0,
    };
    Decision { submit_bytes, ask_again_nanos: end_nanos, reason: Reason::Gap }
}

/// Submits one small slice (at least one message) once the previous slice has completed, so that an
/// application that starts computing is delayed by at most one slice.
fn slice(o: &Observation<'_>, reason: Reason) -> Decision {
    let nanos = CYCLE_SLICE.as_nanos() as u64;
    let little = o.bytes_per_second.map_or(CYCLE_SLICE_BYTES, |speed| bytes_in(nanos, speed));
    let submit_bytes = if o.in_flight_bytes >= little { 0 } else { little.max(o.next_bytes) };
    Decision { submit_bytes, ask_again_nanos: o.now_nanos.saturating_add(nanos), reason }
}

fn bytes_in(nanos: u64, bytes_per_second: u64) -> u64 {
    let bytes = u128::from(nanos) * u128::from(bytes_per_second) / NANOS_PER_SECOND;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn nanos_for(bytes: u64, bytes_per_second: u64) -> u64 {
    let nanos = u128::from(bytes) * NANOS_PER_SECOND / u128::from(bytes_per_second.max(1));
    u64::try_from(nanos).unwrap_or(u64::MAX)
}
