//! Bins of time.

/// Bins of one width, a power of two of nanoseconds, on the grid of its multiples since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeBins {
    /// A bin is 2^shift nanoseconds.
    pub(super) shift: u32,
    /// Number of the first bin since 1970.
    first: u64,
    count: usize,
}

impl TimeBins {
    /// From one time to another, both included: at most `count_max` bins, and at least half as many unless they
    /// would be narrower than a nanosecond. Two are the least that may be asked for.
    pub fn new(from_nanos: u64, to_nanos: u64, count_max: usize) -> Self {
        let to = to_nanos.max(from_nanos);
        let last = |shift: u32| (to >> shift) - (from_nanos >> shift);
        let fits = |shift: &u32| last(*shift) < count_max.max(2) as u64;
        let shift = (0..u64::BITS - 1).find(fits).unwrap_or(u64::BITS - 1);
        Self { shift, first: from_nanos >> shift, count: last(shift) as usize + 1 }
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.count
    }

    /// Width of each.
    pub fn bin_nanos(self) -> u64 {
        1 << self.shift
    }

    /// Where the first begins.
    pub fn start_nanos(self) -> u64 {
        self.first << self.shift
    }

    /// The last nanosecond of the last.
    pub fn last_nanos(self) -> u64 {
        ((self.first + (self.count as u64 - 1)) << self.shift) | (self.bin_nanos() - 1)
    }

    /// Which has a time.
    pub fn bin_of(self, nanos: u64) -> Option<usize> {
        self.bin_of_cell(nanos >> self.shift, 0)
    }

    /// Which has cell `number` of a grid that is finer by `finer` doublings.
    pub(super) fn bin_of_cell(self, number: u64, finer: u32) -> Option<usize> {
        let at = (number >> finer).checked_sub(self.first)?;
        (at < self.count as u64).then_some(at as usize)
    }
}
