//! One entry of the table of readers (`docs/stream-layout.md`, section 4.1).
//!
//! Generic over its memory, so that loom runs this very code (`loom_tests.rs`).

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::layout::reader_entry as at;
use crate::limits::READER_LABEL_BYTES_MAX;
use crate::memory::{ReadMemory, WriteMemory};

/// Words of a label.
pub(crate) const LABEL_WORDS: usize = READER_LABEL_BYTES_MAX / 8;

/// The owner of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: u64,
    pub(crate) start_ticks: u64,
    pub(crate) label_bytes: u64,
    pub(crate) label: [u64; LABEL_WORDS],
}

/// Its position. Each number by itself is one that its reader stored; together they may be a frame apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    pub(crate) taken: u64,
    pub(crate) lapped: u64,
    pub(crate) last_sequence: u64,
    pub(crate) taken_monotonic_nanos: u64,
}

impl Identity {
    /// A label that is too long is cut between two characters.
    pub(crate) fn new(label: &str, pid: u64, start_ticks: u64) -> Identity {
        let mut end = label.len().min(READER_LABEL_BYTES_MAX);
        while !label.is_char_boundary(end) {
            end -= 1;
        }
        let mut words = [0; LABEL_WORDS];
        for (word, chunk) in words.iter_mut().zip(label.as_bytes()[..end].chunks(8)) {
            *word = chunk.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        }
        Identity { pid, start_ticks, label_bytes: end as u64, label: words }
    }

    /// The label, whatever is there: bounded, one line, UTF-8.
    pub(crate) fn text(&self) -> String {
        let bytes: Vec<u8> = self.label.iter().flat_map(|word| word.to_le_bytes()).collect();
        let end = usize::try_from(self.label_bytes).unwrap_or(usize::MAX).min(bytes.len());
        let text = String::from_utf8_lossy(&bytes[..end]);
        text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
    }
}

/// Odd while the entry is in use.
const fn is_taken(turn: u64) -> bool {
    turn % 2 == 1
}

/// The entry that begins at `start`.
#[derive(Debug)]
pub(crate) struct Entry<'m, M> {
    memory: &'m M,
    start: usize,
    /// Words of the label that are read and written: all of them but in loom's small models.
    label_words: usize,
}

impl<'m, M: ReadMemory> Entry<'m, M> {
    pub(crate) fn new(memory: &'m M, start: usize) -> Self {
        Entry { memory, start, label_words: LABEL_WORDS }
    }

    #[cfg(all(test, loom))]
    pub(crate) fn with_short_label(memory: &'m M, start: usize) -> Self {
        Entry { memory, start, label_words: 1 }
    }

    fn field(&self, at: usize) -> u64 {
        self.memory.load(self.start + at, Relaxed)
    }

    /// Whether the entry has been taken and not returned; its owner may have died since.
    pub(crate) fn is_taken(&self) -> bool {
        is_taken(self.field(at::TURN))
    }

    /// The owner of the entry and its position; `None` if it is free, or changing owners.
    pub(crate) fn look(&self) -> Option<(Identity, Progress)> {
        // Acquire: pairs with the release store at the end of `take`; the identity is there.
        let turn = self.memory.load(self.start + at::TURN, Acquire);
        if !is_taken(turn) {
            return None;
        }
        let mut label = [0; LABEL_WORDS];
        for (index, word) in label.iter_mut().take(self.label_words).enumerate() {
            *word = self.field(at::LABEL + 8 * index);
        }
        let identity = Identity {
            pid: self.field(at::PID),
            start_ticks: self.field(at::START_TICKS),
            label_bytes: self.field(at::LABEL_BYTES),
            label,
        };
        let progress = Progress {
            taken: self.field(at::TAKEN),
            lapped: self.field(at::LAPPED),
            last_sequence: self.field(at::LAST_SEQUENCE),
            taken_monotonic_nanos: self.field(at::TAKEN_MONOTONIC_NANOS),
        };
        // The fence pairs with the release fence in `take`: if a load above saw a store of a later owner, the load
        // below sees that owner's turn, or a later one. Turns never come back.
        self.memory.fence(Acquire);
        (self.field(at::TURN) == turn).then_some((identity, progress))
    }
}

impl<M: WriteMemory> Entry<'_, M> {
    fn put(&self, at: usize, value: u64) {
        self.memory.store(self.start + at, value, Relaxed);
    }

    /// Makes the caller the owner of the entry; it holds its lock, so that no other process stores to it. The lock also
    /// orders these stores behind those of the last owner.
    pub(crate) fn take(&self, who: &Identity, last_sequence: u64) {
        // The last owner may have died with the entry taken, or while taking it.
        let taking = (self.field(at::TURN) | 1).wrapping_add(1);
        self.put(at::TURN, taking);
        // Pairs with the acquire fence in `look`: a reader that sees any store below sees `taking`.
        self.memory.fence(Release);
        self.put(at::PID, who.pid);
        self.put(at::START_TICKS, who.start_ticks);
        self.put(at::LABEL_BYTES, who.label_bytes);
        for (index, &word) in who.label.iter().take(self.label_words).enumerate() {
            self.put(at::LABEL + 8 * index, word);
        }
        self.put(at::TAKEN, 0);
        self.put(at::LAPPED, 0);
        self.put(at::LAST_SEQUENCE, last_sequence);
        self.put(at::TAKEN_MONOTONIC_NANOS, 0);
        // Release: pairs with the acquire load in `look`.
        self.memory.store(self.start + at::TURN, taking.wrapping_add(1), Release);
    }

    /// The owner has reached `last_sequence`, with a frame at `nanos` or with none. On the second cache line of the
    /// entry, which no other process stores to; relaxed, since no order between these numbers is promised.
    pub(crate) fn advance(&self, frame_at_nanos: Option<u64>, lapped: u64, last_sequence: u64) {
        if let Some(nanos) = frame_at_nanos {
            self.put(at::TAKEN, self.field(at::TAKEN).wrapping_add(1));
            self.put(at::TAKEN_MONOTONIC_NANOS, nanos);
        }
        if lapped > 0 {
            self.put(at::LAPPED, self.field(at::LAPPED).wrapping_add(lapped));
        }
        self.put(at::LAST_SEQUENCE, last_sequence);
    }

    /// Whether the newest frame that the owner took is this one. (At first the last sequence is where it
    /// began, and not one that it took.)
    pub(crate) fn has_taken(&self, sequence: u64) -> bool {
        self.field(at::LAST_SEQUENCE) == sequence && self.field(at::TAKEN) > 0
    }

    /// Gives the entry back; its lock comes after it.
    pub(crate) fn leave(&self) {
        let turn = (self.field(at::TURN) | 1).wrapping_add(1);
        self.memory.store(self.start + at::TURN, turn, Release);
    }
}
