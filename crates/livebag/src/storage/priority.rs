//! The priority of threads that read recordings.

/// `nice` value of a reading thread.
const NICE: i32 = 10;
/// `ioprio_set(2)`: a thread.
const IOPRIO_WHO_PROCESS: libc::c_int = 1;
/// The best-effort class (2) at its lowest level (7). The idle class would let readers starve while
/// a recorder writes without pause.
const IOPRIO_LOWEST: libc::c_int = 2 << 13 | 7;

/// Gives the calling thread a lower priority than the recorder's, for processors and for the disk. Where
/// the kernel or the disk's scheduler has no priorities, it does nothing.
pub fn lower_priority() {
    // On Linux this concerns the calling thread only (setpriority(2), "C library/kernel differences").
    let _ = rustix::process::setpriority_process(None, NICE);
    #[expect(unsafe_code, reason = "no library wraps ioprio_set")]
    // SAFETY: the call takes three integers and touches no memory; 0 is the calling thread.
    let _ = unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_LOWEST) };
}
