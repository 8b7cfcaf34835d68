//! Plain shared memory, for the floor and the closed loop of the unpaced recordings.
//!
//! The floor is deliberately without any protection: it is the cost of the transfer without checks.
#![expect(unsafe_code, reason = "the mapping itself; every access is bounds-checked")]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{Mode, ftruncate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::shm;

use crate::error::{BenchError, Result};

/// The size of a page, to which everything large is aligned.
pub const PAGE_BYTES: usize = 4096;

/// A named run of shared memory. The process that created it removes the name when it is dropped.
pub struct Region {
    name: String,
    start: NonNull<u8>,
    bytes: usize,
    owner: bool,
}

// SAFETY: the mapping belongs to the process and not to a thread, and every access goes through
// atomics or through copies whose races are the subject of the measurement.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Creates `/dev/shm/<name>` of `bytes`, zeroed and present in memory.
    pub fn create(name: &str, bytes: usize) -> Result<Self> {
        let flags = shm::OFlags::CREATE | shm::OFlags::EXCL | shm::OFlags::RDWR;
        let fd = shm::open(path(name), flags, Mode::RUSR | Mode::WUSR)
            .map_err(|e| BenchError::io(format!("creating shared memory {name}"), e))?;
        ftruncate(&fd, bytes as u64)
            .map_err(|e| BenchError::io(format!("sizing shared memory {name}"), e))?;
        Self::map(name, &fd, bytes, true)
    }

    /// Maps what another process created.
    pub fn open(name: &str) -> Result<Self> {
        let fd = shm::open(path(name), shm::OFlags::RDWR, Mode::empty())
            .map_err(|e| BenchError::io(format!("opening shared memory {name}"), e))?;
        let stat = rustix::fs::fstat(&fd)
            .map_err(|e| BenchError::io(format!("looking at shared memory {name}"), e))?;
        Self::map(name, &fd, stat.st_size as usize, false)
    }

    fn map(name: &str, fd: impl std::os::fd::AsFd, bytes: usize, owner: bool) -> Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            let flags = MapFlags::SHARED | MapFlags::POPULATE;
            mmap(std::ptr::null_mut(), bytes, protection, flags, fd, 0)
        };
        let start =
            start.map_err(|e| BenchError::io(format!("mapping shared memory {name}"), e))?;
        let Some(start) = NonNull::new(start.cast::<u8>()) else {
            unreachable!("mmap never answers with null when the address is the kernel's choice")
        };
        Ok(Self { name: name.to_owned(), start, bytes, owner })
    }

    /// The 32-bit word at `offset`.
    pub fn word32(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.bytes, "word outside the region");
        // SAFETY: inside the mapping and aligned (above); the mapping lives as long as `self`.
        unsafe { AtomicU32::from_ptr(self.start.add(offset).cast().as_ptr()) }
    }

    /// The 64-bit word at `offset`.
    pub fn word64(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.bytes, "word outside the region");
        // SAFETY: inside the mapping and aligned (above); the mapping lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.start.add(offset).cast().as_ptr()) }
    }

    /// Copies `data` to `offset`.
    pub fn copy_in(&self, offset: usize, data: &[u8]) {
        assert!(offset + data.len() <= self.bytes, "copy outside the region");
        // SAFETY: inside the mapping (above); `data` is ordinary memory and cannot overlap it.
        unsafe {
            std::ptr::copy_nonoverlapping(
                data.as_ptr(),
                self.start.add(offset).as_ptr(),
                data.len(),
            );
        }
    }

    /// The bytes at `offset`, for the writer to fill in place.
    #[expect(clippy::mut_from_ref, reason = "shared memory: exclusive only by the writer's turn")]
    pub fn slot_mut(&self, offset: usize, bytes: usize) -> &mut [u8] {
        assert!(offset + bytes <= self.bytes, "slot outside the region");
        // SAFETY: inside the mapping (above). Only the floor's one writer calls this, one slot at a time; readers of
        // other processes may race with it, which the floor ignores.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(offset).as_ptr(), bytes) }
    }

    /// The bytes at `offset`, for a reader.
    pub fn slot(&self, offset: usize, bytes: usize) -> &[u8] {
        assert!(offset + bytes <= self.bytes, "slot outside the region");
        // SAFETY: inside the mapping (above). The writer process may be writing there: the floor
        // does not check, and the words that are read are compared, never used as lengths.
        unsafe { std::slice::from_raw_parts(self.start.add(offset).as_ptr(), bytes) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; no reference outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
        if self.owner {
            let _ = shm::unlink(path(&self.name));
        }
    }
}

fn path(name: &str) -> String {
    format!("/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_are_one_memory() {
        let name = format!("livebag-bench-test-{}", std::process::id());
        let ours = Region::create(&name, 2 * PAGE_BYTES).unwrap();
        let theirs = Region::open(&name).unwrap();
        ours.word64(8).store(7, Ordering::Release);
        assert_eq!(theirs.word64(8).load(Ordering::Acquire), 7);
        ours.copy_in(PAGE_BYTES, b"frame");
        assert_eq!(theirs.slot(PAGE_BYTES, 5), b"frame");
        drop(ours);
        assert!(Region::open(&name).is_err(), "the name outlives its owner");
    }
}
