//! The only way to a disk.
//!
//! [`ReadDisk`] opens files and [`ReadFile`] reads one: reading modules get only these. [`Disk`] creates files,
//! [`DiskFile`] writes one synchronously, [`WriteQueue`] writes many while the caller continues. Every implementation
//! promises:
//!
//! - A file's length grows only after the bytes below it can be read by others (the time index
//!   relies on it).
//! - A [`Write`]'s parts live until its [`Completion`], which returns them. A completion without an error means that
//!   every byte was accepted; short counts are continued inside.
//! - Completions come in any order.
//! - An error is returned, never swallowed: `ENOSPC` can come from any write, from
//!   [`DiskFile::reserve`] and from [`ReadFile::sync`].

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use livebag_shm::FrameRef;

mod block;
mod failure;
mod free_blocks;
mod held;
mod io_uring;
mod kernel;
mod mapping;
mod owner;
mod priority;
mod pwrite;
mod removal;
mod reopened;
mod simulated;

pub use block::Block;
pub(crate) use failure::{if_there, is_out_of_files};
pub(crate) use free_blocks::FreeBlocks;
pub(crate) use kernel::is_no_file;
pub use kernel::{KernelDisk, Method, MethodChoice, open_regular};
pub(crate) use mapping::Stretch;
pub use mapping::{FilePart, Mapping};
pub use owner::Owner;
pub use priority::lower_priority;
pub use removal::is_open_for_writing;
pub use simulated::{Fault, SimulatedDisk};

/// How a file is going to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Through the page cache, at any offset.
    Buffered,
    /// Past the page cache where the filesystem allows it, in whole blocks.
    Direct,
}

/// Keeps a lock until it is dropped; the kernel drops it when the process dies.
pub trait Lock: Send + Sync {}

/// A place whose files can be read, but not written.
pub trait ReadDisk: Send + Sync {
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>>;
    /// Names of the files in a directory; `NotFound` if there is none.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
    /// Whether a process holds the lock at `path`; `false` if there is no such file.
    fn is_locked(&self, path: &Path) -> io::Result<bool>;
    /// The present run of the kernel that caches this disk; another one has lost unsynced data. `None` if it does not
    /// tell.
    fn boot_id(&self) -> Option<String> {
        None
    }

    /// Reads a whole small file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open(path)?;
        let mut bytes = vec![0; file.length()? as usize];
        let count = file.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        Ok(bytes)
    }
}

/// A place where files are made and written, too.
pub trait Disk: ReadDisk {
    /// Makes a directory, whose name is durable then; an error if it exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes a file for reading and writing; an error if it exists.
    fn create(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens a file for reading and buffered writing.
    fn open_for_repair(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Replaces a file's contents so that a crash of this process leaves the old or the new contents, never a mixture;
    /// with `durable` the new contents are on the medium when this returns, and a crash of the kernel leaves the old or
    /// the new ones. Without, a crash of the kernel may leave anything.
    fn replace(&self, path: &Path, bytes: &[u8], durable: bool) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The same for a file of any size without delaying other writes, with pauses unless `is_hurried`. A
    /// process that has the file open keeps all of it.
    fn remove_in_steps(&self, path: &Path, _is_hurried: &dyn Fn() -> bool) -> io::Result<()> {
        self.remove(path)
    }
    /// Removes a directory and the files in it.
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.list(path)?.iter().try_for_each(|file| self.remove(file))
    }
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the contents and lengths of `files` durable.
    fn sync_files(&self, files: &[&Arc<dyn DiskFile>]) -> io::Result<()> {
        files.iter().try_for_each(|file| file.sync())
    }
    /// Makes the contents of the file at `path` durable.
    fn sync_file_at(&self, path: &Path) -> io::Result<()> {
        self.open(path)?.sync()
    }
    /// Takes the lock at `path`, creating the file if necessary; `None` if another process holds it. The caller that
    /// makes it writes an [`Owner`] into it.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>>;
    /// Bytes that can still be written where `path` is.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
    /// A queue of writes to this disk's files.
    fn queue(&self) -> Box<dyn WriteQueue>;
}

/// An open file that can be read.
pub trait ReadFile: Send + Sync {
    /// Reads until `bytes` is full or the file ends; gives the count.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
    /// The file's length.
    fn length(&self) -> io::Result<u64>;
    /// Makes data and length durable, as others wrote them.
    fn sync(&self) -> io::Result<()>;
    /// Whether a part of a range was never written. A file that is only appended to has all written bytes outside its
    /// holes after a power cut; filesystems that do not report holes have none.
    fn has_hole(&self, _offset: u64, _bytes: u64) -> io::Result<bool> {
        Ok(false)
    }
    /// Maps its first `bytes`, which it must have. `None` where files are not memory.
    fn map(&self, _bytes: u64) -> io::Result<Option<Mapping>> {
        Ok(None)
    }
    /// Hints that a range will be read soon.
    fn will_need(&self, _offset: u64, _bytes: u64) {}
    /// The file's descriptor, if the kernel knows it.
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

/// An open file that can be written.
pub trait DiskFile: ReadFile {
    /// Writes all of `bytes`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Sets space aside without changing the file's length.
    fn reserve(&self, offset: u64, bytes: u64) -> io::Result<()>;
    /// Truncates or extends the file, and frees space reserved after its end.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// Begins to write a range of the page cache back, without waiting for it.
    fn start_write_back(&self, _offset: u64, _bytes: u64) {}
    /// The file's number, if it is a simulated one.
    fn simulated(&self) -> Option<u64> {
        None
    }
}

/// Memory that a write takes its bytes from.
pub enum Part {
    /// Memory of ours.
    Block(Block),
    /// The first `usize` bytes of a stream's slot, which its writer may refill meanwhile.
    Slot(FrameRef, usize),
}

impl Part {
    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Block(block) => block.len(),
            Self::Slot(_, bytes) => *bytes,
        }
    }

    /// Where the bytes are. Only the kernel may follow this pointer for a slot.
    fn as_ptr(&self) -> *const u8 {
        match self {
            Self::Block(block) => block.as_ptr(),
            Self::Slot(frame, _) => frame.payload_ptr(),
        }
    }
}

/// One vectored write.
pub struct Write {
    /// The caller's name for it.
    pub token: u64,
    /// Where to.
    pub file: Arc<dyn DiskFile>,
    /// File offset of the first byte.
    pub offset: u64,
    /// The bytes, in this order.
    pub parts: Vec<Part>,
}

impl Write {
    /// Length of all parts.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(Part::bytes).sum()
    }
}

/// A write that has ended.
pub struct Completion {
    /// The caller's name for it.
    pub token: u64,
    /// Whether every byte was accepted.
    pub result: io::Result<()>,
    /// The memory, back.
    pub parts: Vec<Part>,
}

/// Writes that go on while the caller does other things.
pub trait WriteQueue: Send {
    /// Takes a write over; it may wait inside for room.
    fn submit(&mut self, write: Write);
    /// Submits queued writes, waits up to `wait` for at least one completion, and appends all completions to `done`.
    ///
    /// # Errors
    /// If the kernel refuses the queue as such. Every write still completes, now or at a later call, and writes can
    /// still be submitted.
    fn reap(&mut self, wait: Duration, done: &mut Vec<Completion>) -> io::Result<()>;
    /// Writes submitted and not reaped.
    fn in_flight(&self) -> usize;
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes())
    }
}

#[cfg(test)]
mod tests;
