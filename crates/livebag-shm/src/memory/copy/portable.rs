//! Relaxed atomics, eight bytes at a time where the shared side is aligned.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// # Safety
/// As [`super::copy_from_shared`].
pub(super) unsafe fn from_shared(to: *mut u8, from: *const u8, count: usize) {
    let mut at = 0;
    while at < count {
        // SAFETY: `at < count`, so both stay within the range that the caller guarantees; the eight-byte access is made
        // only when eight bytes are left and the shared side is aligned.
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

/// # Safety
/// As [`super::copy_to_shared`].
pub(super) unsafe fn to_shared(to: *mut u8, from: *const u8, count: usize) {
    let mut at = 0;
    while at < count {
        // SAFETY: as in `from_shared`, with the sides exchanged.
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

/// These stores are ordered by the release that follows; the fence makes that independent of it.
pub(super) fn settle() {
    std::sync::atomic::fence(Ordering::Release);
}
