//! Waiting until what was published has left this process.
//!
//! Zenoh 1.10 ends a connection's task wherever it is (`write_loop` of zenoh-transport). If the task waits for a slow
//! reader in the middle of a batch, the rest of that batch is missing, and the reader understands nothing behind it.

use std::path::Path;
use std::time::Duration;

use livebag::Clock;

use crate::limits::LEAVE_WAIT_MAX;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until no socket of this process has bytes that its reader has not taken, twice in a row, or time is over.
pub fn wait(clock: &Clock) {
    let began = clock.monotonic_nanos();
    let mut empty_looks = 0;
    while empty_looks < 2 && clock.monotonic_nanos() - began < LEAVE_WAIT_MAX.as_nanos() as u64 {
        empty_looks = if is_any_socket_waiting() { 0 } else { empty_looks + 1 };
        clock.sleep(LOOK);
    }
}

fn is_any_socket_waiting() -> bool {
    let Ok(files) = std::fs::read_dir("/proc/self/fd") else { return false };
    files.filter_map(Result::ok).any(|file| {
        let is_socket = file
            .path()
            .read_link()
            .is_ok_and(|to| to.as_os_str().as_encoded_bytes().starts_with(b"socket:"));
        is_socket && descriptor(&file.path()).is_some_and(is_waiting)
    })
}

fn descriptor(path: &Path) -> Option<i32> {
    path.file_name()?.to_str()?.parse().ok()
}

/// `SIOCOUTQ` (tcp(7), unix(7)); listening sockets refuse it.
#[expect(unsafe_code, reason = "a system call without a wrapper")]
fn is_waiting(descriptor: i32) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes an int. If the descriptor was closed meanwhile, or is another file now, it refuses or
    // tells of that one.
    let asked = unsafe { libc::ioctl(descriptor, libc::TIOCOUTQ, &raw mut bytes) };
    asked == 0 && bytes > 0
}
