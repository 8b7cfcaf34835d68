//! Copy kernels for memory that another process may change meanwhile.
//!
//! A copy out of a slot races with the writer by design. In Rust a racing plain read is undefined
//! even if its result is thrown away, so no kernel here uses one on the shared side: the portable
//! kernel uses relaxed atomics, and the others are inline assembly, which the compiler must treat
//! as opaque code that may do what those relaxed atomics do. The bytes are only believed after the
//! slot protocol has found that nobody wrote meanwhile.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Copies `count` bytes out of shared memory.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `count` bytes, without overlap. The bytes at
/// `from` may change during the copy; those at `to` must not be accessed by others.
pub(crate) unsafe fn copy_from_shared(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the caller's promise is the kernel's.
    unsafe { portable_from_shared(to, from, count) }
}

/// Copies `count` bytes into shared memory.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `count` bytes, without overlap. The bytes at
/// `to` may be read by other processes during the copy; those at `from` must not change.
pub(crate) unsafe fn copy_to_shared(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the caller's promise is the kernel's.
    unsafe { portable_to_shared(to, from, count) }
}

/// Orders earlier stores, non-temporal ones included, before later ones.
pub(crate) fn settle() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        core::arch::x86_64::_mm_sfence();
    }
    std::sync::atomic::fence(Ordering::Release);
}

/// Relaxed atomic loads, eight bytes at a time where `from` is aligned.
///
/// # Safety
/// As [`copy_from_shared`].
unsafe fn portable_from_shared(to: *mut u8, from: *const u8, count: usize) {
    let mut at = 0;
    while at < count {
        // SAFETY: `at < count`, so both stay within what the caller vouches for; the eight-byte
        // access is made only when eight bytes are left and the shared side is aligned.
        unsafe {
            let source = from.add(at).cast_mut();
            if count - at >= 8 && source.cast::<u64>().is_aligned() {
                let word = AtomicU64::from_ptr(source.cast()).load(Ordering::Relaxed);
                to.add(at).cast::<u64>().write_unaligned(word);
                at += 8;
            } else {
                to.add(at).write(AtomicU8::from_ptr(source).load(Ordering::Relaxed));
                at += 1;
            }
        }
    }
}

/// Relaxed atomic stores, eight bytes at a time where `to` is aligned.
///
/// # Safety
/// As [`copy_to_shared`].
unsafe fn portable_to_shared(to: *mut u8, from: *const u8, count: usize) {
    let mut at = 0;
    while at < count {
        // SAFETY: as in `portable_from_shared`, with the sides exchanged.
        unsafe {
            let target = to.add(at);
            if count - at >= 8 && target.cast::<u64>().is_aligned() {
                let word = from.add(at).cast::<u64>().read_unaligned();
                AtomicU64::from_ptr(target.cast()).store(word, Ordering::Relaxed);
                at += 8;
            } else {
                AtomicU8::from_ptr(target).store(from.add(at).read(), Ordering::Relaxed);
                at += 1;
            }
        }
    }
}
