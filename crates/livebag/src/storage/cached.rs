//! What of a mapped file is in the page cache.
//!
//! `cachestat(2)` (Linux 6.5) counts pages without touching them; `mincore(2)`, which there is
//! everywhere, takes several times as long: of images that nobody looks at, it is most of the work of
//! handing them on. What `cachestat` counts may still be on its way from the device, where pages come in
//! order: so `mincore` is asked about the first and the last.

#![expect(unsafe_code, reason = "system calls without a wrapper")]

use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::LazyLock;

/// Name of the environment variable that rules out `cachestat`, as older kernels do: `off`.
const CACHESTAT_VARIABLE: &str = "LIVEBAG_CACHESTAT";

/// The call's number, the same on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;

static MAY_COUNT: LazyLock<bool> =
    LazyLock::new(|| !std::env::var(CACHESTAT_VARIABLE).is_ok_and(|value| value.trim() == "off"));

/// A mapped file. Ranges are of both, from 0 on.
#[derive(Clone, Copy)]
pub(super) struct Mapped<'a> {
    pub file: BorrowedFd<'a>,
    pub start: NonNull<u8>,
}

impl Mapped<'_> {
    /// Whether all pages of a range are in the page cache. `None` if the kernel does not tell.
    ///
    /// # Safety
    /// The range lies within what is mapped.
    pub unsafe fn is_there(self, range: Range<usize>) -> Option<bool> {
        // SAFETY: the caller's promise.
        unsafe { self.is_there_as(range, *MAY_COUNT) }
    }

    /// The same, without `cachestat` unless it may count.
    ///
    /// # Safety
    /// The range lies within what is mapped.
    unsafe fn is_there_as(self, range: Range<usize>, may_count: bool) -> Option<bool> {
        let looked_at = |range| {
            // SAFETY: the caller's promise; parts of the range lie within it.
            unsafe { looked_at(self.start, range) }
        };
        let counted = if may_count { counted(self.file, &range) } else { None };
        match counted {
            None => looked_at(range),
            Some(false) => Some(false),
            Some(true) if range.is_empty() => Some(true),
            Some(true) => {
                let (first, last) = (range.start..range.start + 1, range.end - 1..range.end);
                Some(looked_at(first)? && looked_at(last)?)
            }
        }
    }
}

/// By `cachestat`. `None` if the kernel has none, or does not tell of this file. That nothing is there is
/// not taken from it: overlayfs counts pages of its own, of which it has none.
fn counted(file: BorrowedFd<'_>, range: &Range<usize>) -> Option<bool> {
    let page = rustix::param::page_size();
    let (first, end) = (range.start / page, range.end.div_ceil(page));
    let pages = end.saturating_sub(first) as u64;
    if pages == 0 {
        // No bytes would mean: up to the end of the file.
        return Some(true);
    }
    // Offset and length in bytes.
    let wanted = [(first * page) as u64, pages * page as u64];
    // Pages in the cache, dirty, being written back, evicted, recently evicted.
    let mut found = [0u64; 5];
    // SAFETY: `struct cachestat_range` is two and `struct cachestat` five 64-bit numbers
    // (include/uapi/linux/mman.h).
    let told = unsafe {
        let (wanted, found) = (wanted.as_ptr(), found.as_mut_ptr());
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), wanted, found, 0u32)
    };
    (told == 0 && found[0] > 0).then(|| found[0] >= pages)
}

/// By `mincore`.
///
/// # Safety
/// The range lies within what is mapped.
unsafe fn looked_at(mapped: NonNull<u8>, range: Range<usize>) -> Option<bool> {
    const PAGES_AT_ONCE: usize = 1024;
    let page = rustix::param::page_size();
    let mut there = [0; PAGES_AT_ONCE];
    for at in (range.start / page * page..range.end).step_by(PAGES_AT_ONCE * page) {
        let bytes = (range.end - at).min(PAGES_AT_ONCE * page);
        let pages = bytes.div_ceil(page);
        // SAFETY: the range lies within the mapping (its last page counts as whole), and there is room
        // for one byte for each of its pages.
        let told =
            unsafe { libc::mincore(mapped.as_ptr().add(at).cast(), bytes, there.as_mut_ptr()) };
        if told != 0 {
            return None;
        }
        if there[..pages].iter().any(|page| page & 1 == 0) {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use rustix::fs::Advice;
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    use super::*;

    #[test]
    fn both_calls_tell_the_same() {
        const BYTES: usize = 1 << 20;
        // Not in a folder that may be memory, where all is in the page cache for ever.
        let program = std::env::current_exe().unwrap();
        let file = tempfile::tempfile_in(program.parent().unwrap()).unwrap();
        file.write_all_at(&vec![1; BYTES], 0).unwrap();
        file.sync_all().unwrap();
        // SAFETY: a new mapping; unmapped below.
        let start = unsafe {
            let (at, flags) = (std::ptr::null_mut(), MapFlags::SHARED);
            mmap(at, BYTES, ProtFlags::READ, flags, &file, 0).unwrap()
        };
        let mapped = Mapped { file: file.as_fd(), start: NonNull::new(start.cast()).unwrap() };
        let told = |range: Range<usize>| {
            // SAFETY: all of the ranges lie within the mapping.
            let ways = [true, false].map(|may| unsafe { mapped.is_there_as(range.clone(), may) });
            assert_eq!(ways[0], ways[1], "{range:?}");
            ways[0]
        };
        // Where the kernel has it, it is `cachestat` that is compared with the other.
        let is_counted = counted(file.as_fd(), &(0..BYTES)).is_some();
        let errno = std::io::Error::last_os_error().raw_os_error();
        let refusals = [libc::ENOSYS, libc::EPERM, libc::EOPNOTSUPP];
        assert!(is_counted || errno.is_some_and(|errno| refusals.contains(&errno)), "{errno:?}");
        assert_eq!(told(0..BYTES), Some(true));
        assert_eq!(told(5000..5000), Some(true));
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let is_dropped = told(0..BYTES) == Some(false);
        rustix::fs::fadvise(&file, 0, None, Advice::Random).unwrap();
        file.read_exact_at(&mut [0; 4096], 8192).unwrap();
        assert_eq!(told(8192..12_288), Some(true));
        // Whatever filesystem this is: at most some of it is there if it can be dropped.
        assert!(!is_dropped || told(0..BYTES) == Some(false));
        told(8191..12_288);
        told(8192..12_289);
        // SAFETY: mapped above, and not used any more.
        unsafe { munmap(start, BYTES).unwrap() };
    }
}
