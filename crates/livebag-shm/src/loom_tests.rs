//! loom runs the crate's own slot and wake protocols through every interleaving of small models:
//! `RUSTFLAGS="--cfg loom" cargo test -p livebag-shm --release`.
//!
//! The memory is a vector of loom's atomics; a payload has a few words, copied one by one in the
//! relaxed way that the real kernels are assumed to have. loom does not model the non-temporal stores
//! of x86; `settle` (an sfence there) is a release fence here.

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Condvar, Mutex};

use crate::attendance::{Entry, Identity as ReaderIdentity};
use crate::cycle::protocol::{Identity, Look, Places, Words as CycleWords};
use crate::layout::SlotPlace;
use crate::memory::{ReadMemory, WriteMemory};
use crate::slot::{Holds, Slot};
use crate::wake::{Next, announce, go_to_sleep};

/// Sparse memory: only the words of the model exist. Offsets are in bytes.
struct Words(Vec<AtomicU64>);

impl Words {
    fn new(count: usize) -> Words {
        Words((0..count).map(|_| AtomicU64::new(0)).collect())
    }
}

impl ReadMemory for Words {
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.0[at / 8].load(order)
    }

    fn copy_out(&self, at: usize, to: &mut [MaybeUninit<u8>]) {
        for (index, chunk) in to.chunks_exact_mut(8).enumerate() {
            let word = self.load(at + index * 8, Relaxed).to_le_bytes();
            for (target, byte) in chunk.iter_mut().zip(word) {
                target.write(byte);
            }
        }
    }

    fn fence(&self, order: Ordering) {
        loom::sync::atomic::fence(order);
    }
}

impl WriteMemory for Words {
    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.0[at / 8].store(value, order);
    }

    fn raise(&self, at: usize, value: u64, order: Ordering) {
        self.0[at / 8].fetch_max(value, order);
    }

    fn copy_in(&self, at: usize, from: &[u8]) {
        for (index, chunk) in from.chunks_exact(8).enumerate() {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            self.store(at + index * 8, u64::from_le_bytes(word), Relaxed);
        }
    }

    fn settle(&self) {
        loom::sync::atomic::fence(Ordering::Release);
    }
}

const SLOTS: u64 = 2;
const PAYLOAD_WORDS: usize = 2;
/// `lock`, `progress`, and one word of the frame's header.
const HEADER_WORDS: usize = 3;
const TAG: usize = 16;
const SLOT_WORDS: usize = HEADER_WORDS + PAYLOAD_WORDS;
const LATEST: usize = SLOTS as usize * SLOT_WORDS * 8;
const WORDS: usize = SLOTS as usize * SLOT_WORDS + 1;

fn slot(memory: &Words, sequence: u64) -> Slot<'_, Words> {
    let header = (sequence % SLOTS) as usize * SLOT_WORDS * 8;
    Slot::new(memory, SlotPlace { header, payload: header + HEADER_WORDS * 8 })
}

/// Word `index` of frame `sequence`; the tag in the header is word 0 of it too.
fn content(sequence: u64, index: usize) -> u64 {
    sequence * 16 + index as u64
}

fn fill(slot: &Slot<'_, Words>, sequence: u64, attempt: u16, words: usize) {
    slot.set_header_word(TAG, content(sequence, 0));
    for index in 0..words {
        slot.copy_in(index * 8, &content(sequence, index).to_le_bytes());
        slot.advance(attempt, (index + 1) * 8);
    }
}

fn publish(memory: &Words, sequence: u64) {
    let slot = slot(memory, sequence);
    let attempt = slot.begin(sequence);
    fill(&slot, sequence, attempt, PAYLOAD_WORDS);
    slot.finish(sequence);
    announce::<_, Words>(memory, LATEST, None, sequence);
}

fn copy_word(slot: &Slot<'_, Words>, index: usize) -> u64 {
    let mut bytes = [MaybeUninit::new(0u8); 8];
    slot.copy_out(index * 8, &mut bytes);
    // SAFETY: initialised above, and written again by the copy.
    u64::from_le_bytes(bytes.map(|byte| unsafe { byte.assume_init() }))
}

/// Reads a frame as `Region::copy_frame` does; None when the protocol rejects it.
fn read(memory: &Words, sequence: u64) -> Option<Vec<u64>> {
    let slot = slot(memory, sequence);
    if slot.holds(sequence) != Holds::Whole {
        return None;
    }
    let mut words = vec![slot.header_word(TAG)];
    words.extend((0..PAYLOAD_WORDS).map(|index| copy_word(&slot, index)));
    slot.is_still_whole(sequence).then_some(words)
}

/// Copies along as `Region::copy_along` does, with a bounded number of looks.
fn read_along(memory: &Words, sequence: u64, looks: usize) -> Option<Vec<u64>> {
    let slot = slot(memory, sequence);
    match slot.holds(sequence) {
        Holds::Whole => return read(memory, sequence),
        Holds::Filling => {}
        Holds::Earlier | Holds::Later => return None,
    }
    let attempt = slot.progress().attempt();
    let mut copied = Vec::new();
    for _ in 0..looks {
        let progress = slot.progress();
        if progress.attempt() != attempt {
            return None;
        }
        let ready = (progress.bytes() / 8).min(PAYLOAD_WORDS);
        while copied.len() < ready {
            copied.push(copy_word(&slot, copied.len()));
        }
        match slot.holds(sequence) {
            Holds::Whole => {
                let mut words = vec![slot.header_word(TAG)];
                while copied.len() < PAYLOAD_WORDS {
                    copied.push(copy_word(&slot, copied.len()));
                }
                words.extend(copied);
                return slot.is_still_whole_by(sequence, attempt).then_some(words);
            }
            Holds::Filling => loom::thread::yield_now(),
            Holds::Earlier | Holds::Later => return None,
        }
    }
    None
}

fn assert_whole(sequence: u64, words: &[u64]) {
    let expected: Vec<u64> =
        std::iter::once(0).chain(0..PAYLOAD_WORDS).map(|index| content(sequence, index)).collect();
    assert_eq!(words, expected, "a torn frame {sequence} was accepted");
}

fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// The writer laps the slots while a reader reads the newest frame.
#[test]
fn no_torn_frame_is_accepted_over_laps() {
    model(3, || {
        let memory = Arc::new(Words::new(WORDS));
        publish(&memory, 1);
        let writer = {
            let memory = Arc::clone(&memory);
            loom::thread::spawn(move || (2..=4).for_each(|sequence| publish(&memory, sequence)))
        };
        for _ in 0..2 {
            let sequence = memory.load(LATEST, Acquire);
            if let Some(words) = read(&memory, sequence) {
                assert_whole(sequence, &words);
            }
        }
        writer.join().unwrap();
        assert_whole(4, &read(&memory, 4).expect("nobody writes any more"));
    });
}

#[test]
fn two_readers_do_not_disturb_each_other() {
    model(2, || {
        let memory = Arc::new(Words::new(WORDS));
        publish(&memory, 1);
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let memory = Arc::clone(&memory);
                loom::thread::spawn(move || {
                    let sequence = memory.load(LATEST, Acquire);
                    if let Some(words) = read(&memory, sequence) {
                        assert_whole(sequence, &words);
                    }
                })
            })
            .collect();
        publish(&memory, 2);
        publish(&memory, 3);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

/// A frame that is copied along is intact, even if its first fill was abandoned after one word, as by a writer that
/// dies, and if the slot is lapped afterwards.
#[test]
fn copying_along_never_mixes_attempts() {
    model(3, || {
        let memory = Arc::new(Words::new(WORDS));
        let writer = {
            let memory = Arc::clone(&memory);
            loom::thread::spawn(move || {
                let slot = slot(&memory, 1);
                let attempt = slot.begin(1);
                // Other bytes than those of the second attempt.
                slot.copy_in(0, &u64::MAX.to_le_bytes());
                slot.advance(attempt, 8);
                publish(&memory, 1);
                publish(&memory, 3);
            })
        };
        if let Some(words) = read_along(&memory, 1, 3) {
            assert_whole(1, &words);
        }
        writer.join().unwrap();
    });
}

/// A reader that uses its copy without the second check does see torn frames: the models above can fail.
#[test]
#[should_panic(expected = "a torn frame")]
fn without_the_second_check_a_torn_frame_is_accepted() {
    model(3, || {
        let memory = Arc::new(Words::new(WORDS));
        publish(&memory, 1);
        let writer = {
            let memory = Arc::clone(&memory);
            loom::thread::spawn(move || publish(&memory, 3))
        };
        let slot = slot(&memory, 1);
        if slot.holds(1) == Holds::Whole {
            let mut words = vec![slot.header_word(TAG)];
            words.extend((0..PAYLOAD_WORDS).map(|index| copy_word(&slot, index)));
            assert_whole(1, &words);
        }
        writer.join().unwrap();
    });
}

/// The kernel's half of a futex: checks the value and falls asleep in one step.
#[derive(Default)]
struct Futex {
    lock: Mutex<()>,
    sleepers: Condvar,
}

impl Futex {
    fn wait(&self, memory: &Words, expected: u32) {
        let guard = self.lock.lock().unwrap();
        if memory.load(LATEST, Relaxed) as u32 == expected {
            drop(self.sleepers.wait(guard).unwrap());
        }
    }

    fn wake_all(&self) {
        let _guard = self.lock.lock().unwrap();
        self.sleepers.notify_all();
    }
}

/// Two sleepers and a writer: every sleeper is woken. A lost wake-up would be a deadlock, which loom reports.
#[test]
fn no_wake_up_is_lost() {
    model(3, || {
        let memory = Arc::new(Words::new(WORDS));
        let wake = Arc::new(Words::new(1));
        let futex = Arc::new(Futex::default());
        let sleepers: Vec<_> = [0, 1]
            .map(|after| {
                let (memory, wake, futex) = (memory.clone(), wake.clone(), futex.clone());
                loom::thread::spawn(move || {
                    loop {
                        match go_to_sleep(&*memory, LATEST, Some((&*wake, 0)), after) {
                            Next::Passed => break,
                            Next::Again => loom::thread::yield_now(),
                            Next::Sleep(seen) => futex.wait(&memory, seen),
                        }
                    }
                })
            })
            .into();
        for sequence in 1..=2 {
            if announce(&*memory, LATEST, Some((&*wake, 0)), sequence) {
                futex.wake_all();
            }
        }
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}

/// A slot of a cycle board with one word of name. The offsets before the name are the layout page's.
const CYCLE: Places =
    Places { start: 0, transitions: 9 * 8, ring: 10 * 8, ring_entries: 4, name_words: 1 };
const CYCLE_WORDS: usize = 10 + 4 * 2;

fn who(name: &str, pid: u64) -> Identity {
    let mut who = Identity::new(name, pid, pid);
    who.name.truncate(1);
    who
}

/// A monitor: finds the owner, then reads its state. The n-th transition happens at time n, a begin has 100 plus that
/// as its weight.
fn look_at_cycle(memory: &Words) {
    let words = CycleWords::new(memory, CYCLE);
    let Some(epoch) = words.in_use() else { return };
    let Some((identity, base)) = words.identity(epoch) else { return };
    let expected = if identity.pid == 1 { who("first", 1) } else { who("second", 2) };
    assert_eq!(identity, expected, "an identity is one application's");
    let Look::Seen(seen) = words.look(epoch, base) else { return };
    let begins = seen.transitions.div_ceil(2);
    let ends = seen.transitions / 2;
    let begin = seen.begin.map(|begin| (begin.nanos, begin.weight));
    let expected = (begins > 0).then(|| (2 * begins - 1, 100 * identity.pid + 2 * begins - 1));
    assert_eq!(begin, expected, "the newest begin");
    assert_eq!(seen.end.map(|end| end.nanos), (ends > 0).then_some(2 * ends), "the newest end");
}

fn compute(words: CycleWords<'_, Words>, identity: &Identity, transitions: u64) {
    let mut owned = words.claim(identity);
    for transition in 1..=transitions {
        if owned.is_busy() {
            words.end(&mut owned, transition);
        } else {
            words.begin(&mut owned, transition, (100 * identity.pid + transition) as u32);
        }
    }
}

#[test]
fn loom_a_cycle_is_seen_as_a_whole_or_not() {
    model(2, || {
        let memory = Arc::new(Words::new(CYCLE_WORDS));
        let application = memory.clone();
        let words = CycleWords::new(&*application, CYCLE);
        let mut owned = words.claim(&who("first", 1));
        let thread = loom::thread::spawn({
            let memory = memory.clone();
            move || look_at_cycle(&memory)
        });
        for transition in [1, 3, 5] {
            words.begin(&mut owned, transition, 100 + transition as u32);
            words.end(&mut owned, transition + 1);
        }
        thread.join().unwrap();
    });
}

#[test]
fn loom_a_place_changes_hands_between_two_looks_at_it() {
    loom::model(|| {
        let memory = Arc::new(Words::new(CYCLE_WORDS));
        // The first owner has died while it computed; its lock, which the second one now holds,
        // orders their stores.
        compute(CycleWords::new(&*memory, CYCLE), &who("first", 1), 3);
        let heir = loom::thread::spawn({
            let memory = memory.clone();
            move || compute(CycleWords::new(&*memory, CYCLE), &who("second", 2), 1)
        });
        look_at_cycle(&memory);
        heir.join().unwrap();
    });
}

const ENTRY_WORDS: usize = 12;

fn reader(number: u64) -> ReaderIdentity {
    ReaderIdentity::new(["first", "second"][number as usize - 1], number, number)
}

/// A display. The n-th owner is process n, begins at sequence 100 n, and takes one frame.
fn look_at_reader(memory: &Words) {
    let Some((who, progress)) = Entry::with_short_label(memory, 0).look() else { return };
    assert_eq!(who, reader(who.pid), "an identity is one reader's");
    let (taken, last) = (progress.taken, progress.last_sequence);
    assert!(taken <= 1 && (last == 100 * who.pid || last == 100 * who.pid + 1), "{progress:?}");
}

fn attend(memory: &Words, number: u64) {
    let entry = Entry::with_short_label(memory, 0);
    entry.take(&reader(number), 100 * number);
    entry.advance(Some(number), 0, 100 * number + 1);
}

#[test]
fn loom_an_entry_of_a_reader_is_seen_as_a_whole_or_not() {
    model(2, || {
        let memory = Arc::new(Words::new(ENTRY_WORDS));
        let thread = loom::thread::spawn({
            let memory = memory.clone();
            move || look_at_reader(&memory)
        });
        attend(&memory, 1);
        Entry::with_short_label(&*memory, 0).leave();
        thread.join().unwrap();
    });
}

#[test]
fn loom_an_entry_of_a_reader_that_died_is_taken_over() {
    model(2, || {
        let memory = Arc::new(Words::new(ENTRY_WORDS));
        // Its lock, which the second one now holds, orders their stores.
        attend(&memory, 1);
        let heir = loom::thread::spawn({
            let memory = memory.clone();
            move || attend(&memory, 2)
        });
        look_at_reader(&memory);
        heir.join().unwrap();
    });
}
