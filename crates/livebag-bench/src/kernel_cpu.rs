//! CPU time of kernel threads.
//!
//! Work that a buffered writer leaves to the kernel (writeback by `kworker/…-flush-…`, the journal by `jbd2/…`) is not
//! charged to any process. It is measured as the difference of all kernel threads' run time during a measurement, so
//! that nothing else may run meanwhile.

use std::collections::HashMap;

use crate::usage;

/// The run time of every kernel thread at one moment, in nanoseconds, by thread id.
pub struct KernelThreads(HashMap<u32, u64>);

impl KernelThreads {
    /// Reads all of them. Where `/proc` hides them the answer is empty.
    pub fn now() -> Self {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let threads = entries.filter_map(|entry| {
            let id: u32 = entry.file_name().to_str()?.parse().ok()?;
            is_kernel_thread(&usage::text(format!("/proc/{id}/stat"))?).then_some(())?;
            // First field: time on the processor in nanoseconds (Documentation/scheduler/
            // sched-stats.rst); the tick counts of /proc/<pid>/stat are 10 ms coarse.
            let schedstat = usage::text(format!("/proc/{id}/schedstat"))?;
            Some((id, schedstat.split_whitespace().next()?.parse().ok()?))
        });
        Self(threads.collect())
    }

    /// Whether any was seen at all.
    pub fn visible(&self) -> bool {
        !self.0.is_empty()
    }

    /// Nanoseconds that kernel threads have run since `earlier`. A thread that ended in between is
    /// missing from it.
    pub fn nanos_since(&self, earlier: &Self) -> u64 {
        let since =
            |(id, now): (&u32, &u64)| now.saturating_sub(earlier.0.get(id).copied().unwrap_or(0));
        self.0.iter().map(since).sum()
    }
}

/// `PF_KTHREAD` (include/linux/sched.h) in the flags, the ninth field of `/proc/<pid>/stat`.
fn is_kernel_thread(stat: &str) -> bool {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let Some((_, after_name)) = stat.rsplit_once(')') else { return false };
    let flags = after_name.split_whitespace().nth(6).and_then(|f| f.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_thread_is_told_by_its_flags() {
        assert!(is_kernel_thread("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0"));
        assert!(!is_kernel_thread("9 (a) b) S 1 9 9 0 -1 4194560 0 0 0 0"));
        assert!(!is_kernel_thread("nonsense"));
    }

    #[test]
    fn time_is_counted_from_the_earlier_look() {
        let earlier = KernelThreads(HashMap::from([(2, 100), (3, 50)]));
        let later = KernelThreads(HashMap::from([(2, 150), (4, 7)]));
        assert_eq!(later.nanos_since(&earlier), 57);
    }
}
