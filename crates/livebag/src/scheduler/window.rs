//! The known rhythm of one application.

use super::Application;
use crate::limits::{CYCLE_SAMPLES_MAX, CYCLE_SAMPLES_MIN};

/// The last durations of one kind, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Durations {
    nanos: [u64; CYCLE_SAMPLES_MAX],
    count: usize,
    next: usize,
}

/// The shortest and longest of some durations, but for the one or two that stick out at either end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    short: u64,
    long: u64,
}

impl Durations {
    fn add(&mut self, nanos: u64) {
        self.nanos[self.next] = nanos;
        self.next = (self.next + 1) % CYCLE_SAMPLES_MAX;
        self.count = (self.count + 1).min(CYCLE_SAMPLES_MAX);
    }

    /// An eighth is left out at either end: one hiccup in eight cycles moves nothing.
    fn range(&self) -> Option<Range> {
        if self.count < CYCLE_SAMPLES_MIN {
            return None;
        }
        let mut sorted = self.nanos;
        let sorted = &mut sorted[..self.count];
        sorted.sort_unstable();
        let out = self.count / 8;
        Some(Range { short: sorted[out], long: sorted[self.count - 1 - out] })
    }
}

/// When something is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub early_nanos: u64,
    pub late_nanos: u64,
}

/// One application's last cycles.
#[derive(Clone, Debug)]
pub(super) struct Rhythm {
    pub application: Application,
    periods: Durations,
    computations: Durations,
    pauses: Durations,
}

impl Rhythm {
    pub fn new(application: Application) -> Self {
        Self {
            application,
            periods: Durations::default(),
            computations: Durations::default(),
            pauses: Durations::default(),
        }
    }

    /// Takes the application's new state in.
    pub fn learn(&mut self, new: Application) {
        let old = std::mem::replace(&mut self.application, new);
        let begun = new.begins.wrapping_sub(old.begins);
        if let (1.., Some(from), Some(to)) = (begun, old.begin_nanos, new.begin_nanos)
            && to > from
        {
            // Cycles between two observations are assumed to have equal length.
            self.periods.add((to - from) / begun);
        }
        let paused_from = if new.busy { new.end_nanos } else { old.end_nanos };
        if let (1, Some(from), Some(to)) = (begun, paused_from, new.begin_nanos)
            && to >= from
        {
            self.pauses.add(to - from);
        }
        let has_ended = !new.busy && (old.busy || begun > 0);
        if let (true, Some(from), Some(to)) = (has_ended, new.begin_nanos, new.end_nanos)
            && to >= from
        {
            self.computations.add(to - from);
        }
    }

    /// When an application that is idle begins again, by its period or by the length of its pauses,
    /// whichever is steadier. None: nothing is known.
    pub fn next_begin(&self) -> Option<Expected> {
        let by_period = expected(self.application.begin_nanos, &self.periods);
        let by_pause = expected(self.application.end_nanos, &self.pauses);
        let spread = |e: &Expected| e.late_nanos - e.early_nanos;
        by_period.into_iter().chain(by_pause).min_by_key(spread)
    }

    /// When the computation of an application that is busy ends.
    pub fn next_end(&self) -> Option<Expected> {
        expected(self.application.begin_nanos, &self.computations)
    }

    /// Whether an application that is idle has stopped its rhythm: two of its longest periods after
    /// its last begin it has not begun again.
    pub fn has_stopped(&self, now_nanos: u64) -> bool {
        let Some(period) = self.periods.range() else { return false };
        let since = now_nanos.saturating_sub(self.application.begin_nanos.unwrap_or(0));
        !self.application.busy && since > period.long.saturating_mul(3)
    }

    /// A rhythm that has stopped predicts nothing of the next one.
    pub fn forget(&mut self) {
        *self = Self::new(self.application);
    }
}

fn expected(from_nanos: Option<u64>, durations: &Durations) -> Option<Expected> {
    let (from, Range { short, long }) = (from_nanos?, durations.range()?);
    Some(Expected {
        early_nanos: from.saturating_add(short),
        late_nanos: from.saturating_add(long),
    })
}
