//! Who goes first where several want the disk or a processor.

/// How much less than others readers want.
const NICE: i32 = 10;
/// How much more than others who saves frames from being overwritten needs.
const NICE_URGENT: i32 = -10;
/// `ioprio_set(2)`: a thread.
const IOPRIO_WHO_PROCESS: libc::c_int = 1;
/// The best-effort class (2) at its lowest level (7). The idle class would let readers starve while
/// a recorder writes without pause.
const IOPRIO_LOWEST: libc::c_int = 2 << 13 | 7;

/// Makes the calling thread stand back behind the recorder's, on the processors and at the disk. Where
/// the kernel or the disk's scheduler knows no priorities, nothing happens.
pub fn lower_priority() {
    // On Linux this concerns the calling thread only (setpriority(2), "C library/kernel differences").
    let _ = rustix::process::setpriority_process(None, NICE);
    #[expect(unsafe_code, reason = "no library wraps ioprio_set")]
    // SAFETY: the call takes three integers and touches no memory; 0 is the calling thread.
    let _ = unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_LOWEST) };
}

/// Makes the calling thread go before others on the processors, where it may: what it does is short and
/// seldom, and does not bear waiting. Needs `CAP_SYS_NICE` or `RLIMIT_NICE`; without, nothing happens.
pub(crate) fn raise_priority() {
    // Of this thread only, as above.
    let _ = rustix::process::setpriority_process(None, NICE_URGENT);
}
