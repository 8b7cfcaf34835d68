//! The futex system call on words of shared mappings.
//!
//! Shared (not `FUTEX_PRIVATE_FLAG`): the word is known to the kernel by object and offset, so that
//! every process meets there, whatever address and protection its mapping has. Waiting works on
//! a read-only mapping.

use crate::memory::Mapped;

/// Sleeps while the four bytes at `at` are `expected`, at most `nanos`. May return early.
pub(crate) fn wait(memory: &Mapped, at: usize, expected: u32, nanos: u64) {
    let timeout = libc::timespec {
        tv_sec: (nanos / 1_000_000_000) as _, // musl's time_t is deprecated
        tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
    };
    let word = memory.pointer(at, 4);
    // SAFETY: FUTEX_WAIT reads four bytes at `word`, which are mapped while `memory` is borrowed, and `timeout`, which
    // lives until the call returns. All outcomes (woken, value changed, timed out, interrupted) mean the same here:
    // look again.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            libc::FUTEX_WAIT,
            expected,
            std::ptr::from_ref(&timeout),
            std::ptr::null::<u32>(),
            0u32,
        );
    }
}

/// Wakes every thread that sleeps on the four bytes at `at`.
pub(crate) fn wake_all(memory: &Mapped, at: usize) {
    let word = memory.pointer(at, 4);
    // SAFETY: FUTEX_WAKE uses the address of the word only to find the sleepers.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            libc::FUTEX_WAKE,
            i32::MAX,
            std::ptr::null::<libc::timespec>(),
            std::ptr::null::<u32>(),
            0u32,
        );
    }
}
