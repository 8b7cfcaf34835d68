//! What a disk's errors mean.

use std::io;

/// `None` for a file that is not there. One that cannot be opened or read now is there.
pub fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Whether the process or the machine has too many files open: the next attempt may succeed.
pub fn is_out_of_files(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}
