//! Resources used by a process and the machine: processor, memory, device.

use std::io;
use std::path::Path;

use rustix::process::{Pid, Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The text of a file of the kernel's, or of results; `None` where it cannot be read (`/proc` and `/sys` differ by
/// machine).
#[expect(clippy::disallowed_methods, reason = "machine facts and results, not recordings")]
pub fn text(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The largest resident set of this process so far in bytes, mapped streams included (`VmHWM`).
pub fn memory_peak_bytes() -> Option<u64> {
    let status = text("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Bytes that this process has caused to be sent to devices so far (`write_bytes`, proc(5)): page
/// cache that it made dirty, and direct writes. 0 on a tmpfs.
pub fn device_bytes() -> Option<u64> {
    let io = text("/proc/self/io")?;
    io.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()
}

/// Processors that this process may run on.
pub fn allowed_processors() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|number| set.is_set(*number)).collect(),
        Err(_) => Vec::new(),
    }
}

/// Runs this thread, and those that it will start, only on these processors; on all if there are none.
///
/// # Errors
/// If the system does not allow it.
pub fn pin(processors: &[usize]) -> io::Result<()> {
    if processors.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    processors.iter().for_each(|number| set.set(*number));
    sched_setaffinity(None, &set).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("pinning to {processors:?} failed: {error}"))
    })
}

/// Has this process end with its parent; `false` if that has ended already.
pub fn die_with_parent(parent: u32) -> bool {
    // An error leaves the process without this safety.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // The parent may have died before.
    rustix::process::getppid().map(Pid::as_raw_pid) == Some(parent as i32)
}

/// Busy and all ticks of each processor so far.
pub struct Cores(Vec<(u64, u64)>);

impl Cores {
    /// Reads them.
    pub fn now() -> Self {
        let stat = text("/proc/stat").unwrap_or_default();
        let lines = stat.lines().filter_map(|line| line.strip_prefix("cpu"));
        Self(lines.filter(|line| !line.starts_with(' ')).map(busy_and_all).collect())
    }

    /// Busy time since `earlier` in per cent, by processor.
    pub fn percent_since(&self, earlier: &Self) -> Vec<f64> {
        let percent = |(now, then): (&(u64, u64), &(u64, u64))| {
            let all = now.1.saturating_sub(then.1).max(1);
            now.0.saturating_sub(then.0) as f64 * 100.0 / all as f64
        };
        self.0.iter().zip(&earlier.0).map(percent).collect()
    }
}

/// proc(5): user, nice, system, idle, iowait, irq, softirq, steal; the guests' are in the user's.
fn busy_and_all(line: &str) -> (u64, u64) {
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).take(8).map_while(|field| field.parse().ok()).collect();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    let all: u64 = ticks.iter().sum();
    (all - idle, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_is_all_but_idle_and_waiting() {
        assert_eq!(busy_and_all("0 10 0 20 60 5 1 4 0 7 0"), (35, 100));
        let earlier = Cores(vec![(0, 0), (50, 100)]);
        let later = Cores(vec![(35, 100), (50, 100)]);
        assert_eq!(later.percent_since(&earlier), [35.0, 0.0]);
    }

    #[test]
    fn this_process_has_used_something() {
        assert!(memory_peak_bytes().unwrap() > 0);
        assert!(!allowed_processors().is_empty());
    }
}
