//! Which operations fail, and when.

use std::io;
use std::path::Path;

/// Which operation fails, and when. Operations of every kind (write, create, reserve, change of length, sync, replace)
/// are counted together from 0; writes (with reserve and replace) also separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Write number `.0` (from 0, over all files) and every later one fails with `ENOSPC`.
    NoSpaceFrom(u64),
    /// Only write number `.0` fails with `EIO`, and leaves half of its bytes.
    IoErrorAt(u64),
    /// Operation number `.0`, whatever it is, fails with `ENOSPC`; a write leaves part of its bytes.
    /// Space is there again for the operations after it.
    NoSpaceAtOperation(u64),
    /// Operation number `.0` and every later one that takes space fails with `ENOSPC`.
    NoSpaceFromOperation(u64),
    /// Every sync fails with `EIO`, and the data it should have synced may be lost.
    SyncFails,
    /// Only sync number `.0` (from 0) fails with `EIO`, and the data it should have synced may be lost, although the
    /// next sync succeeds.
    SyncFailsOnce(u64),
    /// Every making of a file from number `.0` on (from 0) fails with `EMFILE`.
    TooManyFilesFrom(u64),
    /// The listings of directories number `.0` (from 0) and the one after it fail with `EMFILE`.
    TooManyFilesToListAt(u64),
    /// No file of this name can be opened for reading: `EMFILE`.
    TooManyFilesToOpen(&'static str),
    /// The queue itself is refused once, at its reaping number `.0` (from 0, over all queues), with `ENOMEM`.
    QueueRefusedAt(u64),
}

/// An operation on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Write,
    Create,
    Reserve,
    SetLength,
    Sync,
    Replace,
}

/// The faults to come, and the counts that they wait for.
#[derive(Clone, Default)]
pub(super) struct Faults {
    planned: Vec<Fault>,
    pub(super) writes: u64,
    pub(super) operations: u64,
    syncs: u64,
    creations: u64,
    lists: u64,
    pub(super) reaps: u64,
}

impl Faults {
    pub(super) fn plan(&mut self, fault: Fault) {
        self.planned.push(fault);
    }

    /// Counts a reaping, and says whether it is one at which the queue is refused.
    pub(super) fn admit_reap(&mut self) -> io::Result<()> {
        let number = self.reaps;
        self.reaps += 1;
        match self.planned.contains(&Fault::QueueRefusedAt(number)) {
            true => Err(io::Error::from_raw_os_error(libc::ENOMEM)),
            false => Ok(()),
        }
    }

    /// Whether a file can be opened for reading.
    pub(super) fn admit_open(&self, path: &Path) -> io::Result<()> {
        let fails = |fault: &Fault| matches!(*fault, Fault::TooManyFilesToOpen(name) if path.ends_with(name));
        match self.planned.iter().any(fails) {
            true => Err(io::Error::from_raw_os_error(libc::EMFILE)),
            false => Ok(()),
        }
    }

    /// Counts a listing of a directory, and says whether it is one that fails.
    pub(super) fn admit_list(&mut self) -> io::Result<()> {
        let number = self.lists;
        self.lists += 1;
        let fails = |fault: &Fault| matches!(*fault, Fault::TooManyFilesToListAt(at) if number == at || number == at + 1);
        match self.planned.iter().any(fails) {
            true => Err(io::Error::from_raw_os_error(libc::EMFILE)),
            false => Ok(()),
        }
    }

    /// Counts an operation, and says whether it is one that fails.
    pub(super) fn admit(&mut self, operation: Operation) -> io::Result<()> {
        let number = self.operations;
        self.operations += 1;
        let write = self.count(operation);
        for fault in &self.planned {
            let is_sync = operation == Operation::Sync;
            let error = match *fault {
                Fault::NoSpaceFrom(first) if write.is_some_and(|write| write >= first) => {
                    libc::ENOSPC
                }
                Fault::IoErrorAt(at) if write == Some(at) => libc::EIO,
                Fault::NoSpaceAtOperation(at) if number == at => libc::ENOSPC,
                Fault::NoSpaceFromOperation(first) if number >= first && !is_sync => libc::ENOSPC,
                Fault::TooManyFilesFrom(first)
                    if operation == Operation::Create && self.creations > first =>
                {
                    libc::EMFILE
                }
                Fault::SyncFails if is_sync => libc::EIO,
                Fault::SyncFailsOnce(at) if is_sync && self.syncs == at + 1 => libc::EIO,
                _ => continue,
            };
            return Err(io::Error::from_raw_os_error(error));
        }
        Ok(())
    }

    /// The number of a write, if it is one.
    fn count(&mut self, operation: Operation) -> Option<u64> {
        match operation {
            Operation::Write | Operation::Reserve | Operation::Replace => {
                self.writes += 1;
                Some(self.writes - 1)
            }
            Operation::Sync => {
                self.syncs += 1;
                None
            }
            Operation::Create => {
                self.creations += 1;
                None
            }
            Operation::SetLength => None,
        }
    }
}
