//! Writes done at once with `pwritev`, where io_uring is not to be had.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::{Completion, Part, Write, WriteQueue};

/// Writes at submission and keeps the completions until they are asked for.
#[derive(Default)]
pub(super) struct PwriteQueue {
    done: Vec<Completion>,
}

impl WriteQueue for PwriteQueue {
    fn submit(&mut self, write: Write) {
        let result = write_parts(&write);
        self.done.push(Completion { token: write.token, result, parts: write.parts });
    }

    fn reap(&mut self, wait: Duration, done: &mut Vec<Completion>) -> io::Result<()> {
        if self.done.is_empty() {
            // Nothing is in flight: this is the caller's pause between two polls of its sources.
            std::thread::park_timeout(wait);
        }
        done.append(&mut self.done);
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

/// The parts as the kernel takes them, less the first `skip` bytes.
pub(super) fn vectors(parts: &[Part], mut skip: usize) -> Vec<libc::iovec> {
    let mut vectors = Vec::with_capacity(parts.len());
    for part in parts {
        let bytes = part.bytes();
        if skip >= bytes {
            skip -= bytes;
            continue;
        }
        vectors.push(libc::iovec {
            iov_base: part.as_ptr().wrapping_add(skip).cast_mut().cast(),
            iov_len: bytes - skip,
        });
        skip = 0;
    }
    vectors
}

/// Writes all parts, continuing after short counts.
pub(super) fn write_parts(write: &Write) -> io::Result<()> {
    let descriptor = write
        .file
        .descriptor()
        .ok_or_else(|| io::Error::other("the file is not one of the kernel's"))?;
    let total = write.bytes();
    let mut written = 0;
    while written < total {
        let vectors = vectors(&write.parts, written);
        let offset = (write.offset + written as u64) as libc::off_t;
        #[expect(
            unsafe_code,
            reason = "a slot's bytes may change under us: only a raw pointer fits"
        )]
        // SAFETY: every vector points into a part that `write` keeps alive, within its length; the
        // kernel only reads from there. `vectors` outlives the call.
        let count = unsafe {
            libc::pwritev(
                descriptor.as_raw_fd(),
                vectors.as_ptr(),
                vectors.len() as libc::c_int,
                offset,
            )
        };
        match count {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count if count > 0 => written += count as usize,
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}
