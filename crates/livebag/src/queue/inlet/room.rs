//! Memory that several threads fill at once, each its own part of it.

use std::mem::ManuallyDrop;

/// Memory of a segment. The front (`lead`) is filled from the start; a part behind it is filled by the thread that
/// reserved it.
pub struct Room {
    start: *mut u8,
    lead: usize,
    capacity: usize,
    /// One cell for each byte behind the lead: loom checks which threads access it, and in which order.
    #[cfg(all(test, loom))]
    seen: Vec<super::super::sync::UnsafeCell<()>>,
}

// SAFETY: a room owns its memory, as the vector did from which it was made.
unsafe impl Send for Room {}
// SAFETY: `write` and `put` fill a shared room, and their callers promise that no two of them touch the same bytes.
unsafe impl Sync for Room {}

impl Room {
    /// The vector's bytes are the lead; its spare capacity can be filled.
    pub fn new(records: Vec<u8>) -> Self {
        let mut records = ManuallyDrop::new(records);
        let (lead, capacity) = (records.len(), records.capacity());
        let start = records.as_mut_ptr();
        #[cfg(all(test, loom))]
        let seen = (lead..capacity).map(|_| super::super::sync::UnsafeCell::new(())).collect();
        Self {
            start,
            lead,
            capacity,
            #[cfg(all(test, loom))]
            seen,
        }
    }

    /// Copies `bytes` to `at`, counted from behind the lead.
    ///
    /// # Safety
    /// `at + bytes.len()` is at most the room's capacity, and no other thread touches these bytes from now until
    /// [`Room::into_records`].
    pub unsafe fn write(&self, at: usize, bytes: &[u8]) {
        self.see(at, bytes.len());
        debug_assert!(self.lead + at + bytes.len() <= self.capacity);
        // SAFETY: by the caller's promise the target lies in this room's memory, which is not borrowed: a room keeps a
        // pointer and no vector. `bytes` is another slice, so it does not overlap.
        unsafe {
            let target = self.start.add(self.lead + at);
            target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// Writes `bytes` zeros to `at`.
    ///
    /// # Safety
    /// As [`Room::write`].
    pub unsafe fn zero(&self, at: usize, bytes: usize) {
        self.see(at, bytes);
        debug_assert!(self.lead + at + bytes <= self.capacity);
        // SAFETY: as above.
        unsafe { self.start.add(self.lead + at).write_bytes(0, bytes) }
    }

    /// Moves `value` to `at`, whatever its alignment; [`take`] moves it out again.
    ///
    /// # Safety
    /// As [`Room::write`], for the value's size.
    pub unsafe fn put<T>(&self, at: usize, value: T) {
        self.see(at, size_of::<T>());
        debug_assert!(self.lead + at + size_of::<T>() <= self.capacity);
        // SAFETY: as above; an unaligned write has no other requirement.
        unsafe { self.start.add(self.lead + at).cast::<T>().write_unaligned(value) }
    }

    /// The lead and the `filled` bytes behind it, as a vector.
    ///
    /// # Safety
    /// They have all been written, and that happened before this call.
    pub unsafe fn into_records(self, filled: usize) -> Vec<u8> {
        let this = ManuallyDrop::new(self);
        this.see(0, filled);
        #[cfg(all(test, loom))]
        // SAFETY: it is not used again.
        drop(unsafe { std::ptr::read(&this.seen) });
        // SAFETY: pointer and capacity are those of the vector that `new` took apart; it owned its bytes,
        // and `filled` more have been written since.
        unsafe { Vec::from_raw_parts(this.start, this.lead + filled, this.capacity) }
    }

    #[cfg(not(all(test, loom)))]
    fn see(&self, _at: usize, _bytes: usize) {}

    #[cfg(all(test, loom))]
    fn see(&self, at: usize, bytes: usize) {
        self.seen[at..at + bytes].iter().for_each(|byte| byte.with_mut(|_| ()));
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: as in `into_records`, without the written bytes.
        drop(unsafe { Vec::from_raw_parts(self.start, self.lead, self.capacity) });
    }
}

/// Moves a value out of the records in which [`Room::put`] has left it.
///
/// # Safety
/// A `T` has been put at `at`, counted from the start of the records, and has not been taken yet.
pub unsafe fn take<T>(records: &[u8], at: usize) -> T {
    let bytes = &records[at..at + size_of::<T>()];
    // SAFETY: the slice has the value's bytes, by the caller's promise.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}
