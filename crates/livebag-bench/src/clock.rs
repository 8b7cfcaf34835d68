//! The benchmarks' only source of time.
//!
//! All times are of `CLOCK_MONOTONIC`, which is the same for all processes of one boot: stamps of a writer process and
//! a reader process can be subtracted.

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[inline]
pub fn monotonic_nanos() -> u64 {
    nanos_of(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds since the Unix epoch.
pub fn realtime_nanos() -> u64 {
    nanos_of(clock_gettime(ClockId::Realtime))
}

/// CPU time, user and system, of this process, in nanoseconds.
///
/// Every thread of the thread group counts, among them the ones that the kernel makes for
/// io_uring (`iou-wrk-…`, `iou-sqp-…`): they are threads of the process since Linux 5.12. The
/// kernel's writing back of the page cache does not.
pub fn process_cpu_nanos() -> u64 {
    nanos_of(clock_gettime(ClockId::ProcessCPUTime))
}

/// Sleeps until `deadline_nanos` of `CLOCK_MONOTONIC`; returns at once if that has passed.
pub fn sleep_until(deadline_nanos: u64) {
    let request = Timespec {
        tv_sec: (deadline_nanos / 1_000_000_000) as i64,
        tv_nsec: (deadline_nanos % 1_000_000_000) as i64,
    };
    // A signal ends the sleep early; the deadline is absolute, so sleeping again is right.
    while clock_nanosleep_absolute(ClockId::Monotonic, &request) == Err(rustix::io::Errno::INTR) {}
}

/// Sleeps for `nanos`.
pub fn sleep(nanos: u64) {
    sleep_until(monotonic_nanos() + nanos);
}

/// Today in UTC, as `2026-11-21`.
pub fn date_utc() -> String {
    date_of_days((realtime_nanos() / 86_400_000_000_000) as i64)
}

/// The civil date of a count of days since 1970-01-01 (Howard Hinnant, "chrono-compatible
/// low-level date algorithms", `civil_from_days`).
fn date_of_days(days: i64) -> String {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

fn nanos_of(time: Timespec) -> u64 {
    (time.tv_sec as u64) * 1_000_000_000 + (time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_known_days() {
        assert_eq!(date_of_days(0), "1970-01-01");
        assert_eq!(date_of_days(19_782), "2024-02-29");
        assert_eq!(date_of_days(20_778), "2026-11-21");
    }

    #[test]
    fn sleeping_reaches_the_deadline() {
        let deadline = monotonic_nanos() + 2_000_000;
        sleep_until(deadline);
        assert!(monotonic_nanos() >= deadline);
    }
}
