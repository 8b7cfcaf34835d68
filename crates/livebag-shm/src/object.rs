//! The objects in `/dev/shm`: opening, locking, reserving, removing.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;

/// The holder of a main object's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockHolder {
    Nobody,
    /// A live writer.
    Writer,
    /// Some process with only read permission, which has no reason to lock.
    Reader,
}

/// Opens an object that exists.
pub(crate) fn open(path: &str, write: bool) -> rustix::io::Result<OwnedFd> {
    let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
    // NONBLOCK: the path may be a FIFO.
    let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    rustix::fs::open(path, flags, Mode::empty())
}

/// Creates an object for its owner only; EEXIST when there is one.
pub(crate) fn make(path: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
}

/// Whether `path` still names the object behind `fd`.
pub(crate) fn is_named(fd: impl AsFd, path: &str) -> bool {
    let (Ok(open), Ok(named)) = (rustix::fs::fstat(fd), rustix::fs::lstat(path)) else {
        return false;
    };
    (open.st_dev, open.st_ino) == (named.st_dev, named.st_ino)
}

/// Whether this is a regular file.
pub(crate) fn is_regular(stat: &Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()
}

/// Whether only this process's user, root, and members of a group that this process belongs to can truncate the object.
/// SIGBUS kills a process that reads mapped memory after it was truncated.
pub(crate) fn is_trusted(stat: &Stat) -> bool {
    let mode = stat.st_mode;
    if mode & (Mode::WGRP | Mode::WOTH).bits() != 0 {
        return false;
    }
    if is_own(stat) || stat.st_uid == 0 {
        return true;
    }
    // Only members of a group can give it a file.
    let shared = mode & Mode::RGRP.bits() != 0;
    shared && (stat.st_gid == rustix::process::getegid().as_raw() || has_group(stat.st_gid))
}

/// Whether the object is this process's user's.
pub(crate) fn is_own(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

fn has_group(group: u32) -> bool {
    let groups = rustix::process::getgroups().unwrap_or_default();
    groups.iter().any(|own| own.as_raw() == group)
}

/// Size of an object.
pub(crate) fn bytes_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Sets the size, and reserves the memory, so that a full `/dev/shm` is an error here instead of a
/// SIGBUS at the first touch.
pub(crate) fn reserve(fd: impl AsFd, bytes: u64) -> rustix::io::Result<()> {
    rustix::fs::ftruncate(fd.as_fd(), bytes)?;
    loop {
        match rustix::fs::fallocate(fd.as_fd(), rustix::fs::FallocateFlags::empty(), 0, bytes) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// A length of 0 means the whole object.
fn range(kind: libc::c_int, start: usize, bytes: usize) -> libc::flock {
    // SAFETY: `flock` is a C struct of integers, for which all zeroes is a value, with process 0, as
    // open-file-description locks demand.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = start as libc::off_t;
    lock.l_len = bytes as libc::off_t;
    lock
}

/// Takes the writer's lock; false if it is held already. It is released with the last descriptor of this open file
/// description, so with the process at the latest.
pub(crate) fn lock_as_writer(fd: impl AsFd) -> io::Result<bool> {
    lock_range(fd, 0, 0)
}

/// The same for a part of an object.
pub(crate) fn lock_range(fd: impl AsFd, start: usize, bytes: usize) -> io::Result<bool> {
    let lock = range(libc::F_WRLCK, start, bytes);
    // SAFETY: F_OFD_SETLK reads one `flock`.
    let result = unsafe {
        libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_OFD_SETLK, std::ptr::from_ref(&lock))
    };
    if result == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

/// Gives the writer's lock back, also when a child between `fork` and `exec` shares the descriptor at
/// this moment, as while another thread starts a process.
pub(crate) fn unlock(fd: impl AsFd) {
    unlock_range(fd, 0, 0);
}

/// The same for a part of an object.
pub(crate) fn unlock_range(fd: impl AsFd, start: usize, bytes: usize) {
    let lock = range(libc::F_UNLCK, start, bytes);
    // SAFETY: F_OFD_SETLK reads one `flock`. Unlocking what one has locked does not fail.
    unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_OFD_SETLK, std::ptr::from_ref(&lock)) };
}

/// The holder of a lock, other than the owner of `fd`. Takes none itself.
pub(crate) fn lock_holder(fd: impl AsFd, as_writer: bool) -> io::Result<LockHolder> {
    let wish = if as_writer { libc::F_WRLCK } else { libc::F_RDLCK };
    ask_holder(fd, range(wish, 0, 0))
}

/// The holder of the lock of a part of an object, other than the owner of `fd`.
pub(crate) fn range_holder(fd: impl AsFd, start: usize, bytes: usize) -> io::Result<LockHolder> {
    ask_holder(fd, range(libc::F_WRLCK, start, bytes))
}

fn ask_holder(fd: impl AsFd, mut lock: libc::flock) -> io::Result<LockHolder> {
    // SAFETY: F_OFD_GETLK reads and writes one `flock`.
    let result = unsafe {
        libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_OFD_GETLK, std::ptr::from_mut(&mut lock))
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(match libc::c_int::from(lock.l_type) {
        libc::F_UNLCK => LockHolder::Nobody,
        libc::F_WRLCK => LockHolder::Writer,
        _ => LockHolder::Reader,
    })
}

/// Removes a name; one that is not there is as good.
pub(crate) fn unlink(path: &str) -> rustix::io::Result<()> {
    match rustix::fs::unlink(path) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// A number that no other region has; not 0.
pub(crate) fn random_instance() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: getrandom writes at most eight bytes to `bytes`. Should it fail, clock and process
    // tell regions apart: no secret is made of this.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    let fallback = crate::clock::monotonic_nanos() ^ u64::from(std::process::id()) << 40;
    let random = if got == 8 { u64::from_le_bytes(bytes) } else { fallback };
    random.max(1)
}

/// The number of a group, given by name or number.
pub(crate) fn group_number(group: &str) -> Option<u32> {
    if let Ok(number) = group.parse::<u32>() {
        return Some(number);
    }
    let name = std::ffi::CString::new(group).ok()?;
    let mut buffer = vec![0; 64 << 10];
    // SAFETY: `group` is a C struct of integers and pointers, for which all zeroes is a value.
    let mut entry: libc::group = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are to live objects of this function, and the length is the buffer's.
    let result = unsafe {
        libc::getgrnam_r(
            name.as_ptr(),
            &raw mut entry,
            buffer.as_mut_ptr(),
            buffer.len(),
            &raw mut found,
        )
    };
    (result == 0 && !found.is_null()).then_some(entry.gr_gid)
}

/// The name of this process's program, as `ps` shows it; empty if unknown.
pub(crate) fn process_name() -> String {
    let Ok(fd) = open("/proc/self/comm", false) else { return String::new() };
    let mut bytes = [0; 64];
    let count = rustix::io::read(&fd, &mut bytes).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..count]).trim_end().to_owned()
}

/// When this process started, in clock ticks since boot (field 22 of `/proc/self/stat`); 0 if
/// unknown.
pub(crate) fn process_start_ticks() -> u64 {
    let Ok(fd) = open("/proc/self/stat", false) else { return 0 };
    let mut bytes = [0; 1024];
    let Ok(count) = rustix::io::read(&fd, &mut bytes) else { return 0 };
    let text = String::from_utf8_lossy(&bytes[..count]);
    // Field 2 is the program's name in parentheses, and may contain anything.
    let Some((_, rest)) = text.rsplit_once(')') else { return 0 };
    rest.split_ascii_whitespace().nth(22 - 3).and_then(|field| field.parse().ok()).unwrap_or(0)
}
