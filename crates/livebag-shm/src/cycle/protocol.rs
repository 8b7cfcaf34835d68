//! The order of stores and loads (`docs/cycle-layout.md`, section 3).
//!
//! Generic over its memory, so that loom runs this very code (`loom_tests.rs`).
//!
//! An application's state is one word, `transitions`: it counts begins and ends together, odd while the
//! application is busy. Time and weight of each transition are in a ring that the word indexes: a transition's entry is
//! stored before the word counts it, and is not changed for the next `ring_entries - 1` transitions. So neither side
//! ever waits, and a reader's values belong together or are discarded.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::layout::{CYCLE_NAME_BYTES_MAX, RING_ENTRIES, slot, slot_offset};
use crate::memory::{ReadMemory, WriteMemory};

/// Words of a slot that do not change while one application owns it.
const NAME_WORDS: usize = CYCLE_NAME_BYTES_MAX / 8;

/// How often a reader starts again when the application is faster than it.
const ATTEMPTS_MAX: u32 = 4;

/// Where the words of a slot lie. Production has one answer; loom has few words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    pub(crate) start: usize,
    pub(crate) transitions: usize,
    pub(crate) ring: usize,
    pub(crate) ring_entries: u64,
    pub(crate) name_words: usize,
}

impl Places {
    /// Those of `docs/cycle-layout.md`.
    pub(crate) fn of_slot(slot: usize) -> Places {
        let start = slot_offset(slot);
        Places {
            start,
            transitions: start + slot::TRANSITIONS,
            ring: start + slot::RING,
            ring_entries: RING_ENTRIES,
            name_words: NAME_WORDS,
        }
    }

    fn entry(&self, transition: u64) -> usize {
        self.ring + (transition % self.ring_entries) as usize * slot::ENTRY_BYTES
    }
}

/// The owner of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: u64,
    pub(crate) start_ticks: u64,
    pub(crate) name_bytes: u64,
    pub(crate) name: Vec<u64>,
}

impl Identity {
    /// The name must have been checked for its length.
    pub(crate) fn new(name: &str, pid: u64, start_ticks: u64) -> Identity {
        let mut padded = name.as_bytes().to_vec();
        padded.resize(CYCLE_NAME_BYTES_MAX, 0);
        let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, &b| word << 8 | u64::from(b));
        let name_words = padded.chunks(8).map(word).collect();
        Identity { pid, start_ticks, name_bytes: name.len() as u64, name: name_words }
    }

    /// The name, if it is one.
    pub(crate) fn name(&self) -> Option<String> {
        let bytes: Vec<u8> = self.name.iter().flat_map(|word| word.to_le_bytes()).collect();
        let name = bytes.get(..usize::try_from(self.name_bytes).ok()?)?;
        let name = std::str::from_utf8(name).ok()?;
        (!name.is_empty()).then(|| name.to_owned())
    }
}

/// The owner's own copy of its slot's state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owned {
    epoch: u64,
    transitions: u64,
}

impl Owned {
    pub(crate) fn is_busy(&self) -> bool {
        self.transitions % 2 == 1
    }
}

/// A state of an application in which everything belongs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Begins and ends since it joined; odd while it is busy.
    pub(crate) transitions: u64,
    pub(crate) begin: Option<Transition>,
    pub(crate) end: Option<Transition>,
}

/// The newest begin, or the newest end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transition {
    pub(crate) nanos: u64,
    pub(crate) weight: u64,
}

/// Result of reading a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Seen(Seen),
    /// The application was faster than the reader; its last known state has to do.
    Overtaken,
    /// It is not the same application any more.
    Changed,
}

const fn is_in_use(epoch: u64) -> bool {
    epoch % 4 == 2
}

/// One slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words<'m, M> {
    memory: &'m M,
    at: Places,
}

impl<'m, M: ReadMemory> Words<'m, M> {
    pub(crate) fn new(memory: &'m M, at: Places) -> Self {
        Words { memory, at }
    }

    fn field(&self, at: usize) -> u64 {
        self.memory.load(self.at.start + at, Relaxed)
    }

    /// The epoch under which the slot is owned. Acquire: pairs with the release store at the end of `claim`.
    pub(crate) fn in_use(&self) -> Option<u64> {
        let epoch = self.memory.load(self.at.start + slot::EPOCH, Acquire);
        is_in_use(epoch).then_some(epoch)
    }

    /// The owner of the slot during all of `epoch`, and its base; none if it changed meanwhile.
    pub(crate) fn identity(&self, epoch: u64) -> Option<(Identity, u64)> {
        let identity = Identity {
            pid: self.field(slot::PID),
            start_ticks: self.field(slot::START_TICKS),
            name_bytes: self.field(slot::NAME_BYTES),
            name: (0..self.at.name_words).map(|i| self.field(slot::NAME + 8 * i)).collect(),
        };
        let base = self.field(slot::BASE);
        self.is_still(epoch).then_some((identity, base))
    }

    /// Whether everything loaded before was stored by the owner under `epoch`: the acquire fence pairs
    /// with the release fence of `claim`. Had any load seen a store of a later owner, this load would
    /// see that owner's epoch.
    fn is_still(&self, epoch: u64) -> bool {
        self.memory.fence(Acquire);
        self.memory.load(self.at.start + slot::EPOCH, Relaxed) == epoch
    }

    /// The state of the application that has the slot under `epoch` and began to count at `base`.
    pub(crate) fn look(&self, epoch: u64, base: u64) -> Look {
        for _ in 0..ATTEMPTS_MAX {
            // Acquire: pairs with the release store in `advance`; the entries up to this transition
            // are there.
            let now = self.memory.load(self.at.transitions, Acquire);
            let newest = self.transition(now);
            let before = self.transition(now.wrapping_sub(1));
            self.memory.fence(Acquire);
            // The fence pairs with the release fence in `advance`: if a load above saw the entry of transition j +
            // ring_entries in the place of j, then this load sees at least j + ring_entries - 1. The older one of the
            // two is j = now - 1.
            let after = self.memory.load(self.at.transitions, Relaxed);
            if !self.is_still(epoch) {
                return Look::Changed;
            }
            if after.wrapping_sub(now) > self.at.ring_entries - 3 {
                continue;
            }
            let transitions = now.wrapping_sub(base);
            let newest = (transitions > 0).then_some(newest);
            let before = (transitions > 1).then_some(before);
            let (begin, end) =
                if transitions % 2 == 1 { (newest, before) } else { (before, newest) };
            return Look::Seen(Seen { transitions, begin, end });
        }
        Look::Overtaken
    }

    fn transition(&self, transition: u64) -> Transition {
        let entry = self.at.entry(transition);
        Transition {
            nanos: self.memory.load(entry + slot::ENTRY_NANOS, Relaxed),
            weight: self.memory.load(entry + slot::ENTRY_WEIGHT, Relaxed),
        }
    }
}

impl<M: WriteMemory> Words<'_, M> {
    fn put(&self, at: usize, value: u64) {
        self.memory.store(self.at.start + at, value, Relaxed);
    }

    /// Makes the caller the owner of the slot; it holds its lock, so that no other process stores to it.
    pub(crate) fn claim(&self, who: &Identity) -> Owned {
        // The last owner may have died at any point: in use, busy, or while claiming.
        let last = self.memory.load(self.at.start + slot::EPOCH, Relaxed);
        let claiming = (last | 3).wrapping_add(2);
        self.put(slot::EPOCH, claiming);
        // Pairs with the acquire fence in `is_still`: a reader that sees any store below sees `claiming`.
        self.memory.fence(Release);
        self.put(slot::PID, who.pid);
        self.put(slot::START_TICKS, who.start_ticks);
        self.put(slot::NAME_BYTES, who.name_bytes);
        for (index, &word) in who.name.iter().enumerate() {
            self.put(slot::NAME + 8 * index, word);
        }
        // An even number, whatever the last owner was doing, so that odd still means busy.
        let transitions = self.memory.load(self.at.transitions, Relaxed).wrapping_add(1) & !1;
        self.put(slot::BASE, transitions);
        self.memory.store(self.at.transitions, transitions, Relaxed);
        let epoch = claiming.wrapping_add(1);
        // Release: pairs with the acquire load in `in_use`.
        self.memory.store(self.at.start + slot::EPOCH, epoch, Release);
        Owned { epoch, transitions }
    }

    pub(crate) fn begin(&self, owned: &mut Owned, nanos: u64, weight: u32) {
        self.advance(owned, nanos, weight.into());
    }

    pub(crate) fn end(&self, owned: &mut Owned, nanos: u64) {
        self.advance(owned, nanos, 0);
    }

    fn advance(&self, owned: &mut Owned, nanos: u64, weight: u64) {
        owned.transitions = owned.transitions.wrapping_add(1);
        let entry = self.at.entry(owned.transitions);
        // Pairs with the acquire fence in `look`: a reader that sees a store below sees the transition before.
        self.memory.fence(Release);
        self.memory.store(entry + slot::ENTRY_NANOS, nanos, Relaxed);
        self.memory.store(entry + slot::ENTRY_WEIGHT, weight, Relaxed);
        // Release: pairs with the acquire load in `look`.
        self.memory.store(self.at.transitions, owned.transitions, Release);
    }

    /// Gives the slot back.
    pub(crate) fn leave(&self, owned: &mut Owned) {
        owned.epoch = (owned.epoch | 3).wrapping_add(1);
        self.memory.store(self.at.start + slot::EPOCH, owned.epoch, Release);
    }
}
