//! The table of readers: the process of each, its newest frame, how many frames it missed
//! (`docs/stream-layout.md`, section 4.1).
//!
//! The table is in the wake object, the one place that readers may write. Only displays believe it: the writer
//! never reads it, and no address is computed from it. An entry belongs to the process that holds the kernel's
//! lock on its bytes. The lock ends with the process, in any PID namespace.

mod entry;

use std::os::fd::OwnedFd;
use std::time::Duration;

pub(crate) use entry::{Entry, Identity};

use crate::clock;
use crate::create::open_wake_object;
use crate::layout::reader_entry;
use crate::memory::Mapped;
use crate::name::Name;
use crate::object::{self, LockHolder};

/// A reader of a stream, as it tells of itself. Information, not proof.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReaderInfo {
    /// Its process, as that sees itself: in another PID namespace the number means nothing here.
    pub pid: u32,
    /// When that process started, in clock ticks since boot; 0 if unknown.
    pub start_ticks: u64,
    /// The name it gives itself ([`crate::Reader::labelled`]), or its program's name. One line, at most 32 bytes before
    /// invalid text was replaced.
    pub label: String,
    /// Frames taken.
    pub taken: u64,
    /// Frames that were overwritten before [`crate::Reader::next`] came to them. Readers of the newest
    /// frame pass others over on purpose, and count none.
    pub lapped: u64,
    /// The newest frame taken or skipped.
    pub last_sequence: u64,
    /// Frames published since.
    pub behind: u64,
    /// Time since it took its last frame, to some milliseconds; `None` if it has taken none.
    pub idle: Option<Duration>,
}

/// A reader's own entry, given back when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    memory: Mapped,
    /// Locks the entry. Of a separate open file description, since the kernel distinguishes holders by that.
    fd: OwnedFd,
    start: usize,
}

impl Seat {
    /// An entry that no living reader has; `None` without a table or a free entry: the reader is just not
    /// shown. `label`: the program's name if there is none.
    pub(crate) fn take(
        name: &Name,
        instance: u64,
        label: Option<&str>,
        last_sequence: u64,
    ) -> Option<Seat> {
        let (memory, fd) = open_wake_object(name, instance)?;
        let is_free = |start: &usize| {
            object::lock_range(&fd, *start, reader_entry::STRIDE_BYTES).unwrap_or(false)
        };
        let start = starts().find(is_free)?;
        let program = match label {
            Some(_) => String::new(),
            None => object::process_name(),
        };
        let label = label.unwrap_or(&program);
        let who = Identity::new(label, std::process::id().into(), object::process_start_ticks());
        Entry::new(&memory, start).take(&who, last_sequence);
        Some(Seat { memory, fd, start })
    }

    fn entry(&self) -> Entry<'_, Mapped> {
        Entry::new(&self.memory, self.start)
    }

    /// The reader has reached `last_sequence`, and has missed `lapped` frames on the way.
    pub(crate) fn advance(&self, has_frame: bool, lapped: u64, last_sequence: u64) {
        let now = has_frame.then(clock::monotonic_coarse_nanos);
        self.entry().advance(now, lapped, last_sequence);
    }

    /// The reader has the newest frame, perhaps once more.
    pub(crate) fn take_newest(&self, sequence: u64) {
        if !self.entry().has_taken(sequence) {
            self.advance(true, 0, sequence);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.entry().leave();
        object::unlock_range(&self.fd, self.start, reader_entry::STRIDE_BYTES);
    }
}

/// Where entries begin.
fn starts() -> impl Iterator<Item = usize> {
    (0..reader_entry::COUNT).map(|n| reader_entry::TABLE_OFFSET + n * reader_entry::STRIDE_BYTES)
}

/// The readers of a stream whose newest frame is `latest`, in the order of the table; `None` if it has no table, or
/// this process may not read it.
pub(crate) fn present(name: &Name, instance: u64, latest: u64) -> Option<Vec<ReaderInfo>> {
    let (memory, fd) = open_wake_object(name, instance)?;
    let now = clock::monotonic_nanos();
    let mut all = Vec::new();
    for start in starts() {
        let entry = Entry::new(&memory, start);
        // An answer that the system refuses to give does not make a reader dead.
        let is_gone = || {
            let holder = object::range_holder(&fd, start, reader_entry::STRIDE_BYTES);
            matches!(holder, Ok(LockHolder::Nobody))
        };
        if !entry.is_taken() || is_gone() {
            continue;
        }
        let Some((who, progress)) = entry.look() else { continue };
        let Some(pid) = u32::try_from(who.pid).ok().filter(|pid| *pid > 0) else { continue };
        let idle = now.saturating_sub(progress.taken_monotonic_nanos);
        all.push(ReaderInfo {
            pid,
            start_ticks: who.start_ticks,
            label: who.text(),
            taken: progress.taken,
            lapped: progress.lapped,
            last_sequence: progress.last_sequence,
            behind: latest.saturating_sub(progress.last_sequence),
            idle: (progress.taken_monotonic_nanos > 0).then(|| Duration::from_nanos(idle)),
        });
    }
    Some(all)
}

/// Whether a page has room for a table; all layouts of readers so far have the same size.
const _: () = assert!(
    reader_entry::TABLE_OFFSET + reader_entry::COUNT * reader_entry::STRIDE_BYTES
        <= crate::layout::WAKE_BYTES
);
