//! Files as memory.
//!
//! A process that touches a mapped page which cannot be had is killed by SIGBUS: the file has been cut, or its
//! medium fails. A system call on such a page returns `EFAULT` instead. So a part of a mapping is returned for reading
//! only after the kernel has loaded all of it: earlier damage is then an error. What remains is a cut between loading
//! and reading, which is why the library maps only on request (docs/decisions/0032-reading-in-place.md).

#![expect(unsafe_code, reason = "mapping a file, and slices of it")]

use std::fmt;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// The page size for which a huge page is 2 MiB. With larger pages it can be half a gigabyte, too much to read at once.
const SMALL_PAGE_BYTES: usize = 4096;

/// The first bytes of a file, mapped read-only and shared.
pub struct Mapping {
    start: NonNull<u8>,
    bytes: NonZeroUsize,
    /// Whether the kernel reports which parts are in the page cache: for a user's own files, and all files for root
    /// (`mincore(2)`, since Linux 5.2).
    tells_cached: bool,
}

// SAFETY: the memory is mapped read-only, and only `drop` unmaps it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of a file, which must be that long; of a file without bytes there is
    /// nothing to map.
    ///
    /// # Errors
    /// The kernel's error; `InvalidInput` for no bytes.
    pub(super) fn new(file: &File, bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).ok().and_then(NonZeroUsize::new);
        let bytes = bytes.ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at a place of the kernel's choice concerns no memory of ours.
        let start = unsafe {
            let (at, flags) = (std::ptr::null_mut(), MapFlags::SHARED);
            mmap(at, bytes.get(), ProtFlags::READ, flags, file, 0)
        }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let user = rustix::process::geteuid();
        let tells_cached = user.is_root() || rustix::fs::fstat(file)?.st_uid == user.as_raw();
        let this = Self { start, bytes, tells_cached };
        if rustix::param::page_size() == SMALL_PAGE_BYTES {
            // Pages that are fetched through the mapping come 2 MiB at a time if the filesystem supports it, and are
            // mapped by one entry: reading 18 MB of cached images takes 0.07 ms instead of 0.9. Only a hint. SAFETY:
            // advice about our mapping, which changes none of its bytes.
            let _ = unsafe { madvise(start.as_ptr().cast(), bytes.get(), Advice::LinuxHugepage) };
        }
        Ok(this)
    }

    /// Length.
    pub fn bytes(&self) -> u64 {
        self.bytes.get() as u64
    }

    /// `bytes` bytes from `offset` on, fetched; waits for the device. `None` if they do not lie within
    /// the mapping.
    ///
    /// # Errors
    /// If they cannot be fetched: the file has been cut, or its medium fails (`EFAULT`); or the kernel
    /// cannot fetch on demand (`EINVAL`, before Linux 5.14).
    pub fn part(self: &Arc<Self>, offset: u64, bytes: usize) -> io::Result<Option<FilePart>> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        if start.checked_add(bytes).is_none_or(|end| end > self.bytes.get()) {
            return Ok(None);
        }
        self.fetch(start, bytes)?;
        Ok(Some(FilePart { mapping: self.clone(), start, bytes }))
    }

    /// The same for a caller that only passes the bytes to a system call. Data in the page cache is not fetched again,
    /// which takes a tenth of the time with small pages. The kernel does not tell of other users' files: they are
    /// fetched.
    ///
    /// # Errors
    /// As [`Mapping::part`].
    pub fn reference(self: &Arc<Self>, offset: u64, bytes: usize) -> io::Result<Option<FilePart>> {
        match self.is_cached(offset, bytes) {
            Some(true) => {
                let start = offset as usize;
                Ok(Some(FilePart { mapping: self.clone(), start, bytes }))
            }
            _ => self.part(offset, bytes),
        }
    }

    /// Whether the first and the last page of a range are in the page cache. Those in between nearly always are then:
    /// pages of a file are read in order, and checking each takes most of the time of an answer that is sent by
    /// reference. `None` if the kernel does not tell, or the range is not within the mapping.
    pub fn is_cached(&self, offset: u64, bytes: usize) -> Option<bool> {
        let first = usize::try_from(offset).ok()?;
        let end = first.checked_add(bytes).filter(|end| *end <= self.bytes.get())?;
        let is_there = |at: usize| {
            let page = rustix::param::page_size();
            let mut told = 0;
            // SAFETY: the page lies within the mapping (its last page counts as whole), and the kernel
            // writes one byte for one page.
            let result = unsafe {
                libc::mincore(self.start.as_ptr().add(at / page * page).cast(), page, &raw mut told)
            };
            (result == 0).then_some(told & 1 == 1)
        };
        if !self.tells_cached || bytes == 0 {
            return self.tells_cached.then_some(true);
        }
        Some(is_there(first)? && is_there(end - 1)?)
    }

    /// The same bytes, whose messages are read one by one.
    ///
    /// # Errors
    /// As [`Mapping::part`].
    pub fn stretch(self: &Arc<Self>, offset: u64, bytes: usize) -> io::Result<Option<Stretch>> {
        Ok(self.part(offset, bytes)?.map(|FilePart { mapping, start, bytes }| Stretch {
            mapping,
            range: start..start + bytes,
        }))
    }

    /// Bytes of the mapping.
    ///
    /// # Safety
    /// The range lies within the mapping, and no program writes these bytes.
    unsafe fn look(&self, start: usize, bytes: usize) -> &[u8] {
        // SAFETY: the caller's promise; the mapping lives as long as this.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(start), bytes) }
    }

    /// Has the kernel fetch pages. `start..start + bytes` lies within the mapping.
    fn fetch(&self, start: usize, bytes: usize) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let page = rustix::param::page_size();
        let first = start / page * page;
        loop {
            // SAFETY: the range lies within the mapping (its last page counts as whole); reading pages
            // in changes no byte.
            let fetched = unsafe {
                let at = self.start.as_ptr().add(first).cast();
                madvise(at, start + bytes - first, Advice::LinuxPopulateRead)
            };
            match fetched {
                Err(Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; every part holds the mapping by its `Arc`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes.get()) };
        debug_assert!(unmapped.is_ok());
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} mapped bytes", self.bytes)
    }
}

/// Bytes of a file that lie where the kernel keeps them. Holds the file mapped, also one that is
/// removed.
///
/// Reading them ([`FilePart::look`]) kills the process if the file has been truncated since they were fetched; passing
/// them to a system call does not.
#[derive(Clone)]
pub struct FilePart {
    mapping: Arc<Mapping>,
    start: usize,
    bytes: usize,
}

impl FilePart {
    /// Length.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes.
    ///
    /// # Safety
    /// No program writes or truncates these bytes of the file while they are borrowed. livebag never does: they belong
    /// to a committed message.
    pub unsafe fn look(&self) -> &[u8] {
        // SAFETY: the range lies within the mapping (checked in `Mapping::part`); the rest is the caller's
        // promise.
        unsafe { self.mapping.look(self.start, self.bytes) }
    }
}

impl fmt::Debug for FilePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of a file", self.bytes)
    }
}

/// A stretch of a mapped file that has been fetched. What lies between its messages may still be written.
pub struct Stretch {
    mapping: Arc<Mapping>,
    range: std::ops::Range<usize>,
}

impl Stretch {
    /// Bytes of a committed chunk, from file offset `offset` on.
    ///
    /// # Panics
    /// If they do not lie within the stretch.
    pub fn bytes(&self, offset: u64, bytes: usize) -> &[u8] {
        let start = offset as usize;
        let is_inside = start >= self.range.start && bytes <= self.range.end.saturating_sub(start);
        assert!(is_inside, "bytes of this stretch");
        // SAFETY: the range lies within the mapping. livebag never writes a committed chunk, and the caller of
        // `Container::in_place`, without which nothing is read this way, promises that no other program does.
        unsafe { self.mapping.look(start, bytes) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn what_was_written_is_cached_until_it_is_dropped() {
        const BYTES: usize = 1 << 20;
        // Not in a folder that may be memory, where everything stays in the page cache.
        let program = std::env::current_exe().unwrap();
        let file = tempfile::tempfile_in(program.parent().unwrap()).unwrap();
        file.write_all_at(&vec![1; BYTES], 0).unwrap();
        file.sync_all().unwrap();
        let mapping = Arc::new(Mapping::new(&file, BYTES as u64).unwrap());
        assert_eq!(mapping.is_cached(0, BYTES), Some(true));
        assert_eq!(mapping.is_cached(5000, 0), Some(true));
        assert_eq!(mapping.is_cached(1, BYTES), None);
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
        let is_dropped = mapping.is_cached(0, BYTES) == Some(false);
        file.read_exact_at(&mut [0; 4096], 0).unwrap();
        assert_eq!(mapping.is_cached(0, 4096), Some(true));
        // Not every filesystem can drop it; of one that can, the last page is away.
        assert!(!is_dropped || mapping.is_cached(0, BYTES) == Some(false));
        assert!(mapping.part(0, BYTES).unwrap().is_some());
        assert_eq!(mapping.is_cached(0, BYTES), Some(true));
    }
}
