//! CPU time of the recorder's thread of this process, in user mode and in the kernel.

use std::path::Path;

use crate::usage;

/// The recorder's thread, as the kernel shortens its name (15 bytes).
const RECORDER_THREAD: &str = "livebag-recorde";
/// The kernel's threads of a thread's io_uring: this, and that thread's number.
const WORKER_THREAD: &str = "iou-wrk-";

/// CPU times since a thread's start, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadCpu {
    pub user_nanos: u64,
    pub system_nanos: u64,
}

impl ThreadCpu {
    /// Of the recorder's thread, and of those in which the kernel does its writes that cannot be
    /// handed to the device at once (all of their time is the kernel's). None if there is no recorder.
    pub fn of_recorder() -> Option<Self> {
        let tasks = || std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let tasks = || {
            tasks().filter_map(|task| Some((usage::text(task.path().join("comm"))?, task.path())))
        };
        let total = |path: &Path| -> Option<u64> {
            usage::text(path.join("schedstat"))?.split_whitespace().next()?.parse().ok()
        };
        let (_, recorder) = tasks().find(|(name, _)| name.trim_end() == RECORDER_THREAD)?;
        let workers = format!("{WORKER_THREAD}{}", recorder.file_name()?.to_str()?);
        let workers = tasks().filter(|(name, _)| name.trim_end() == workers);
        let workers: u64 = workers.filter_map(|(_, path)| total(&path)).sum();
        let mut found = Self::split(total(&recorder)?, &usage::text(recorder.join("stat"))?);
        found.system_nanos += workers;
        Some(found)
    }

    /// The total is exact, its parts are counted in ticks of 10 ms: they give the proportion.
    fn split(total_nanos: u64, stat: &str) -> Self {
        let field = |number: usize| {
            let (_, after_name) = stat.rsplit_once(')')?;
            after_name.split_whitespace().nth(number - 3)?.parse::<u64>().ok()
        };
        // utime and stime of proc(5).
        let (user, system) = (field(14).unwrap_or(0), field(15).unwrap_or(0));
        let ticks = u128::from(user) + u128::from(system);
        let in_user = u128::from(total_nanos) * u128::from(user);
        // Too little for a tick: all of it may as well be the kernel's.
        let user_nanos = in_user.checked_div(ticks).unwrap_or(0) as u64;
        Self { user_nanos, system_nanos: total_nanos - user_nanos }
    }

    /// The use since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_nanos: self.user_nanos.saturating_sub(earlier.user_nanos),
            system_nanos: self.system_nanos.saturating_sub(earlier.system_nanos),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_split_as_the_ticks_are() {
        let stat = "9 (a) b) S 1 9 9 0 -1 4194560 0 0 0 0 3 1 0 0 20 0";
        let cpu = ThreadCpu::split(40_000, stat);
        assert_eq!(cpu, ThreadCpu { user_nanos: 30_000, system_nanos: 10_000 });
        let idle = ThreadCpu::split(7, "9 (a) S 1 9 9 0 -1 4194560 0 0 0 0 0 0 0");
        assert_eq!(idle.system_nanos, 7);
    }
}
