//! Copy kernels for memory that another process may change meanwhile.
//!
//! A copy out of a slot races with the writer by design. In Rust a racing plain read is undefined even if its result is
//! discarded, so no kernel here uses one on the shared side: the portable kernel uses relaxed atomics, and the others
//! are inline assembly, which the compiler must treat as opaque code that may do what those relaxed atomics do. The
//! bytes are used only after the slot protocol has found that they did not change meanwhile.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(not(target_arch = "x86_64"))]
use portable as kernels;
#[cfg(target_arch = "x86_64")]
use x86_64 as kernels;

/// Copies `count` bytes out of shared memory.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `count` bytes, without overlap. The bytes at
/// `from` may change during the copy; those at `to` must not be accessed by others.
pub(crate) unsafe fn copy_from_shared(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the caller's promise is the kernel's.
    unsafe { kernels::from_shared(to, from, count) }
}

/// Copies `count` bytes into shared memory. Not ordered with other stores before [`settle`].
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `count` bytes, without overlap. The bytes at
/// `to` may be read by other processes during the copy; those at `from` must not change.
pub(crate) unsafe fn copy_to_shared(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the caller's promise is the kernel's.
    unsafe { kernels::to_shared(to, from, count) }
}

/// Orders earlier stores, non-temporal ones included, before later ones.
pub(crate) fn settle() {
    kernels::settle();
}

/// Copies into memory that a device or another processor reads next: past the caches of this one, where
/// it has stores that do so (x86-64), as [`slice::copy_from_slice`] elsewhere.
///
/// Memory that a device has read is in no near cache, and an ordinary store has to fetch each line only to overwrite
/// it.
///
/// # Panics
/// If the lengths differ.
pub fn copy_past_caches(to: &mut [u8], from: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    x86_64::past_caches(to, from);
    #[cfg(not(target_arch = "x86_64"))]
    to.copy_from_slice(from);
}

#[cfg(all(test, not(loom)))]
mod tests;
