//! A mapping of a shared object.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::mm::{MapFlags, ProtFlags};

use super::{ReadMemory, WriteMemory, copy};
use crate::limits::HUGE_PAGE_BYTES;

/// How a mapping may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    ReadOnly,
    ReadWrite,
}

/// A shared mapping of the first `bytes` bytes of an object.
///
/// Every access uses a raw pointer and is bounds-checked; the reading side never makes a reference to the mapped bytes,
/// because another process may change them at any time. For the compiler the mapping is a separate allocation, even
/// when writer and reader share a process.
#[derive(Debug)]
pub(crate) struct Mapped {
    base: NonNull<u8>,
    bytes: usize,
    access: Access,
}

// SAFETY: the mapping is plain memory without ties to a thread; all accesses through `&self` are
// atomic or go through the copy kernels, which are allowed to race (see `memory`).
unsafe impl Send for Mapped {}
// SAFETY: as for Send.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the first `bytes` bytes of the object behind `fd`. With `huge`, the start is aligned
    /// so that huge pages of the object can be mapped as such.
    pub(crate) fn new(
        fd: BorrowedFd<'_>,
        bytes: usize,
        access: Access,
        huge: bool,
    ) -> rustix::io::Result<Mapped> {
        let protection = match access {
            Access::ReadOnly => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        let start = if huge {
            let span = bytes + HUGE_PAGE_BYTES;
            // SAFETY: a new private mapping at an address of the kernel's choice touches nothing
            // that exists.
            let reserved = unsafe {
                rustix::mm::mmap_anonymous(
                    std::ptr::null_mut(),
                    span,
                    ProtFlags::empty(),
                    MapFlags::PRIVATE | MapFlags::NORESERVE,
                )?
            };
            let aligned = (reserved as usize).next_multiple_of(HUGE_PAGE_BYTES);
            let map = MapFlags::SHARED | MapFlags::FIXED;
            // SAFETY: the range lies inside the reservation just made, which no other code knows.
            let mapped = unsafe {
                rustix::mm::mmap(
                    std::ptr::with_exposed_provenance_mut(aligned),
                    bytes,
                    protection,
                    map,
                    fd,
                    0,
                )
            };
            let head = aligned - reserved as usize;
            let tail_start = (aligned + bytes).next_multiple_of(crate::limits::PAGE_BYTES);
            let tail = (reserved as usize + span).saturating_sub(tail_start);
            // SAFETY: both ranges are parts of the reservation outside of the new mapping. A
            // failure leaves address space reserved, nothing else.
            unsafe {
                if head > 0 {
                    let _ = rustix::mm::munmap(reserved, head);
                }
                if tail > 0 {
                    let _ =
                        rustix::mm::munmap(std::ptr::with_exposed_provenance_mut(tail_start), tail);
                }
            }
            mapped?
        } else {
            // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
            unsafe {
                rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, fd, 0)?
            }
        };
        let base = NonNull::new(start.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Mapped { base, bytes, access })
    }

    /// Enters all pages into the page table now, so that no frame waits for that. A kernel before
    /// 5.14 refuses, and enters them at the first touch.
    pub(crate) fn populate(&self) {
        const MADV_POPULATE_READ: libc::c_int = 22;
        const MADV_POPULATE_WRITE: libc::c_int = 23;
        let advice = match self.access {
            Access::ReadOnly => MADV_POPULATE_READ,
            Access::ReadWrite => MADV_POPULATE_WRITE,
        };
        // SAFETY: this advice touches the pages of our own mapping, and changes none of their bytes.
        unsafe { libc::madvise(self.base.as_ptr().cast(), self.bytes, advice) };
    }

    /// Bytes mapped.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Address of `count` bytes at `at`.
    ///
    /// # Panics
    /// When they do not lie inside the mapping.
    pub(crate) fn pointer(&self, at: usize, count: usize) -> *mut u8 {
        let end = at.checked_add(count);
        assert!(end.is_some_and(|end| end <= self.bytes), "{at}+{count} of {} mapped", self.bytes);
        // SAFETY: `at` was just checked to lie within the mapping.
        unsafe { self.base.as_ptr().add(at) }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        let pointer = self.pointer(at, 8).cast::<u64>();
        assert!(pointer.is_aligned(), "word at {at}");
        // SAFETY: in bounds, aligned, and mapped while `self` exists. Only atomic accesses are made to words on any
        // side. On a read-only mapping only relaxed and acquire loads are made (stores assert write access), which
        // `std::sync::atomic` allows for 8-byte atomics in read-only memory on every 64-bit target.
        unsafe { AtomicU64::from_ptr(pointer) }
    }

    fn assert_writable(&self) {
        assert!(self.access == Access::ReadWrite, "store to a read-only mapping");
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `base` and `bytes` are those of the mapping made in `new`; code that returns pointers into it keeps
        // it alive by an Arc or a borrow.
        let result = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(result.is_ok(), "munmap of a mapping of ours");
    }
}

impl ReadMemory for Mapped {
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.word(at).load(order)
    }

    fn copy_out(&self, at: usize, to: &mut [MaybeUninit<u8>]) {
        let from = self.pointer(at, to.len());
        // SAFETY: `from` is valid for reads of `to.len()` bytes (checked by `pointer`), `to` for writes, and they do
        // not overlap because only the writer makes references into a mapping, and its Loan borrows it exclusively.
        // Races are the kernel's contract.
        unsafe { copy::copy_from_shared(to.as_mut_ptr().cast(), from, to.len()) }
    }

    fn fence(&self, order: Ordering) {
        fence(order);
    }
}

impl WriteMemory for Mapped {
    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.assert_writable();
        self.word(at).store(value, order);
    }

    fn raise(&self, at: usize, value: u64, order: Ordering) {
        self.assert_writable();
        self.word(at).fetch_max(value, order);
    }

    fn copy_in(&self, at: usize, from: &[u8]) {
        self.assert_writable();
        let to = self.pointer(at, from.len());
        // SAFETY: `to` is valid for writes of `from.len()` bytes (checked by `pointer` and by
        // `assert_writable`), `from` for reads, and they do not overlap: see `copy_out`.
        unsafe { copy::copy_to_shared(to, from.as_ptr(), from.len()) }
    }

    fn settle(&self) {
        copy::settle();
    }
}
