//! Removing large files in steps.
//!
//! Removing some hundred MB at once can delay other writes for tens of milliseconds: the filesystem reports the freed
//! blocks to the device (ext4 mounted with `discard`), or changes its maps of free space. A file that is shortened step
//! by step does not (docs/decisions/0028-remove-splits-in-steps.md).
//!
//! A process that has the file open keeps all of it, as with every removal. The steps are taken only under a *write
//! lease* (fcntl(2), Linux 2.4), which the kernel grants if no other process has the file open or mapped, and only if
//! no other name leads to it. In all other cases the file is removed at once.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::limits::{REMOVE_PAUSE, REMOVE_STEP_BYTES};

/// Signal for a process that waits for the lease to end; instead of `SIGIO`, which ends a process that does not handle
/// it, one that has no effect by default.
const BREAK_SIGNAL: libc::c_int = libc::SIGURG;
/// `F_SETSIG` of Linux's generic `fcntl.h`, x86-64 and aarch64 included.
const F_SETSIG: libc::c_int = 10;

/// Removes a file in steps, with pauses unless `is_hurried`.
///
/// # Errors
/// If it cannot be removed.
#[expect(clippy::disallowed_methods, reason = "this is the seam")]
pub fn remove_in_steps(path: &Path, is_hurried: &dyn Fn() -> bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let file = options.write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    std::fs::remove_file(path)?;
    if let Ok(file) = file {
        // The rest becomes free when the last process closes it.
        let _ = shorten(&file, is_hurried);
    }
    Ok(())
}

/// Whether another process has the file open for writing, which denies a *read lease* on it (fcntl(2)). `false` where
/// there are no leases: on network drives, and for files of other users.
///
/// # Errors
/// If it cannot be opened.
#[expect(clippy::disallowed_methods, reason = "this is the seam")]
#[expect(unsafe_code, reason = "a system call without a wrapper")]
pub fn is_open_for_writing(path: &Path) -> io::Result<bool> {
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let descriptor = file.as_raw_fd();
    // SAFETY: no memory is involved.
    let denied = unsafe {
        libc::fcntl(descriptor, F_SETSIG, BREAK_SIGNAL) == 0
            && libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_RDLCK) != 0
    };
    Ok(denied && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock)
}

fn shorten(file: &File, is_hurried: &dyn Fn() -> bool) -> io::Result<()> {
    let meta = file.metadata()?;
    if !meta.is_file() || meta.nlink() > 0 || meta.len() <= REMOVE_STEP_BYTES || !is_alone(file) {
        return Ok(());
    }
    let mut left = meta.len();
    while left > 0 {
        left = left.saturating_sub(REMOVE_STEP_BYTES);
        file.set_len(left)?;
        if !is_hurried() {
            std::thread::sleep(REMOVE_PAUSE);
        }
    }
    Ok(())
}

/// Whether no other process has the file open. While we hold it, no other process can open it: one that found its name
/// before the removal waits in `open` until ours is closed, and finds an empty file.
#[expect(unsafe_code, reason = "a system call without a wrapper")]
fn is_alone(file: &File) -> bool {
    let descriptor = file.as_raw_fd();
    // SAFETY: no memory is involved.
    unsafe {
        libc::fcntl(descriptor, F_SETSIG, BREAK_SIGNAL) == 0
            && libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_WRLCK) == 0
    }
}
