//! The wait-free producer side of a queue: several writers, one consumer.
//!
//! **Segments.** Messages are placed one behind the other in segments, each of which becomes an MCAP chunk. One
//! word says where the next message goes: `next` = closed | ticket of the open segment | offset in it. A writer
//! *reserves* with one `fetch_add` of its message's length, copies, and *commits* with one `fetch_add` on the
//! segment's count of committed bytes. Messages have the order of their reservations. A segment ends when a
//! thread moves `next` to the following ticket. That takes one compare-and-exchange, which any thread may do; no
//! thread waits for another that has started it.
//!
//! **When a segment may be taken.** Each has `capacity + 1` bytes to commit: the messages, and a padding from the
//! end of the last one. Exactly one thread commits the padding: the one whose reservation began within the capacity and
//! ended after it or, if there is none, the one that moved `next` on from within the capacity. So the sum is reached
//! once, when the segment has ended, its end is known and every copy is complete. Then the recorder takes its memory
//! away.
//!
//! **Memory.** Tickets use a ring of [`SEGMENTS`] slots in turn. The holder of the [`Outlet`]'s lock (the recorder,
//! or a writer that got it by `try_lock`) puts memory into the slots ahead. The recorder returns that memory: the ring
//! is the free list, too.
//!
//! **Bounds.** A writer's call ends after [`RESERVE_TRIES`] rounds of some twenty instructions, whatever other
//! threads do, and never waits. A round is repeated only if others filled or ended a segment meanwhile. A message is
//! dropped (and counted as lost) only if that happens this many times within a microsecond. A thread that is stopped
//! during its copy delays the messages of its topic from its segment on, for as long as it is stopped. The other
//! writers fill up to `SEGMENTS - 1` further segments; then messages are lost and counted. A thread that is stopped
//! elsewhere delays nothing, unless it holds the outlet: then it keeps the recorder out of this topic, with the same
//! bound.
//!
//! "Wait-free" supposes that the machine's atomic addition is: `xadd` of x86-64, `ldadd` of Armv8.1. Older Arm
//! cores repeat a pair of instructions until no other core interferes.
//!
//! **Order of memory.** Four edges, each named where it is. `next` carries a slot's memory from the thread that
//! prepared it to those that reserve in it. `committed` carries the copies to the thread that takes the segment.
//! `life` carries a slot's preparation to the thread that moves on to it. The outlet's lock carries everything
//! between the threads that take.

#![expect(unsafe_code, reason = "several threads copy into one piece of memory at once")]

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut, Range};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use livebag_format::index::IndexEntry;
use livebag_format::mcap::{CHUNK_HEADER_BYTES, MESSAGE_HEADER_BYTES};

use super::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, UnsafeCell};

pub mod record;
mod room;

use record::Kind;
use room::Room;

/// Segments of a topic that can be filled before they are taken, plus one: the amount between two polls of the
/// recorder.
pub const SEGMENTS: u64 = if cfg!(all(test, loom)) { 4 } else { 64 };

/// Rounds after which a writer drops its message.
const RESERVE_TRIES: usize = if cfg!(all(test, loom)) { 6 } else { 64 };

/// The offset keeps counting while writers that find no room overshoot: by one message each, since a writer that sees
/// an offset beyond the capacity adds nothing. 1 GiB is 16,000 threads with 64 KiB each, at once.
const OFFSET_BITS: u32 = 30;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
/// A ticket repeats after 8 thousand million segments: weeks at 10,000 a second. To confuse segments, a thread would
/// have to sleep that long between two instructions.
const TICKET_MASK: u64 = (1 << 33) - 1;
const CLOSED: u64 = 1 << 63;

/// Bytes in the low bits of `committed`, messages above.
const COUNT_BIT: u64 = 1 << 40;

const _: () = assert!(SEGMENTS.is_power_of_two() && 33 + OFFSET_BITS == 63);

/// A ticket, and an offset in its segment; or a ticket, and its segment's capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    ticket: u64,
    offset: u64,
}

impl Place {
    fn of(word: u64) -> Self {
        Self { ticket: word >> OFFSET_BITS & TICKET_MASK, offset: word & OFFSET_MASK }
    }

    fn word(self) -> u64 {
        self.ticket << OFFSET_BITS | self.offset
    }
}

fn after(ticket: u64) -> u64 {
    (ticket + 1) & TICKET_MASK
}

/// Where a segment lies.
struct Slot {
    /// Ticket and capacity of the segment that it has been prepared for.
    life: AtomicU64,
    /// Bytes committed, and times [`COUNT_BIT`] the messages that were published.
    committed: AtomicU64,
    /// End of the last message; the thread that commits the padding sets it.
    end: AtomicU64,
    /// Monotonic time of the first message; 0: not said yet.
    opened_nanos: AtomicU64,
    /// Whether it has a message in its own chunk, or a hole.
    has_own: AtomicBool,
    /// Size from which on it is ended.
    ends_at: AtomicU64,
    room: UnsafeCell<Room>,
}

// SAFETY: the cell is written only by the holder of the outlet, and only after all bytes of its segment have been
// committed and before it is prepared for the next; it is read by threads that have reserved in a prepared segment and
// not committed yet (see the module).
unsafe impl Sync for Slot {}

/// Why nothing was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No more messages are taken.
    Closed,
    /// The following segment has no memory yet.
    NoSegment,
    /// Others were quicker, again and again.
    Contended,
}

/// The entrance of a queue: for small messages, for large ones as a `T` that holds them, and with an `S` that belongs
/// to the consumer.
pub struct Inlet<T, S> {
    next: AtomicU64,
    slots: Box<[Slot]>,
    /// [`Taking::tail`] and [`Taking::prepared`], readable without the lock.
    tail: AtomicU64,
    prepared: AtomicU64,
    taking: Mutex<Taking<S>>,
    own: PhantomData<Mutex<T>>,
}

struct Taking<S> {
    /// The segment that is taken next.
    tail: u64,
    /// The last one that has memory.
    prepared: u64,
    state: S,
}

/// State of the open segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open {
    /// Bytes of its messages.
    pub bytes: u64,
    /// Monotonic time of its first message; `None` if it has none, or that is still to be said.
    pub opened_nanos: Option<u64>,
    /// Whether it has a message in its own chunk.
    pub has_own: bool,
}

impl<T, S> Inlet<T, S> {
    /// Bytes of the record of a message in its own chunk.
    pub const OWN_RECORD_BYTES: usize = MESSAGE_HEADER_BYTES + size_of::<T>();

    /// Without memory: the first segment has no room, so that the first message asks for the second.
    pub fn new(state: S) -> Self {
        // No slot is taken for one that is prepared: none has the ticket that it will be asked for.
        let life = |at: u64| Place { ticket: if at == 0 { 0 } else { at + 1 }, offset: 0 };
        let slots = (0..SEGMENTS).map(|at| Slot {
            life: AtomicU64::new(life(at).word()),
            committed: AtomicU64::new(0),
            end: AtomicU64::new(0),
            opened_nanos: AtomicU64::new(0),
            has_own: AtomicBool::new(false),
            ends_at: AtomicU64::new(0),
            room: UnsafeCell::new(Room::new(Vec::new())),
        });
        Self {
            next: AtomicU64::new(0),
            slots: slots.collect(),
            tail: AtomicU64::new(0),
            prepared: AtomicU64::new(0),
            taking: Mutex::new(Taking { tail: 0, prepared: 0, state }),
            own: PhantomData,
        }
    }

    fn slot(&self, ticket: u64) -> &Slot {
        &self.slots[(ticket % SEGMENTS) as usize]
    }

    /// The capacity of a segment that has been reserved in; `None` if it is over and its slot has been
    /// prepared anew, so that every reservation within its capacity has been committed.
    fn capacity(&self, ticket: u64) -> Option<u64> {
        // Relaxed: the segment's own value, or a later one, happened before `next` had its ticket, and the caller has
        // read that with Acquire.
        let life = Place::of(self.slot(ticket).life.load(Relaxed));
        (life.ticket == ticket).then_some(life.offset)
    }

    /// Takes the next place, for a record of `bytes`. It must be committed. Segments that are too small for
    /// it are ended as they are.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn reserve(&self, bytes: usize) -> Result<Reserved<'_, T>, Refused> {
        let bytes = bytes as u64;
        assert!(bytes <= OFFSET_MASK / 4, "records of a gigabyte have memory of their own");
        assert!(bytes >= MESSAGE_HEADER_BYTES as u64, "a record has a header");
        for _ in 0..RESERVE_TRIES {
            // Acquire: pairs with the Release by which `next` came to this ticket.
            let seen = self.next.load(Acquire);
            if seen & CLOSED != 0 {
                return Err(Refused::Closed);
            }
            let Some(capacity) = self.capacity(Place::of(seen).ticket) else { continue };
            if Place::of(seen).offset > capacity {
                if !self.move_on(seen) && self.next.load(Relaxed) == seen {
                    return Err(Refused::NoSegment);
                }
                continue;
            }
            // Acquire: as above, the ticket may be a later one by now; additions of other writers in between preserve
            // the Release of the thread that moved on.
            let before = self.next.fetch_add(bytes, Acquire);
            if before & CLOSED != 0 {
                return Err(Refused::Closed);
            }
            let Place { ticket, offset: start } = Place::of(before);
            let Some(capacity) = self.capacity(ticket) else { continue };
            let slot = self.slot(ticket);
            let end = start + bytes;
            if end <= capacity {
                if end >= slot.ends_at.load(Relaxed) {
                    // Large enough. If another's message comes before this, that one tries the same.
                    self.move_on(Place { ticket, offset: end }.word());
                }
                return Ok(Reserved { slot, start, bytes, own: PhantomData });
            }
            if start <= capacity {
                // No other reservation ends beyond the capacity and begins within it.
                slot.pad(start, capacity);
            }
        }
        Err(Refused::Contended)
    }

    /// Ends the open segment, if `next` is still `seen` and the following one has memory; `false` if not.
    fn move_on(&self, seen: u64) -> bool {
        let Place { ticket, offset } = Place::of(seen);
        let following = after(ticket);
        // Acquire: pairs with the Release in `prepare`; the AcqRel below passes that on to all threads that reserve
        // there. It cannot be prepared for anything else before it has been open, which `next` being `seen` rules out.
        if Place::of(self.slot(following).life.load(Acquire)).ticket != following {
            return false;
        }
        let moved = Place { ticket: following, offset: 0 }.word();
        if self.next.compare_exchange(seen, moved, AcqRel, Relaxed).is_err() {
            return false;
        }
        self.pad_from(ticket, offset);
        true
    }

    /// Commits the padding of a segment that has ended and stood at `offset`, if no other thread does.
    fn pad_from(&self, ticket: u64, offset: u64) {
        if let Some(capacity) = self.capacity(ticket)
            && offset <= capacity
        {
            self.slot(ticket).pad(offset, capacity);
        }
    }

    /// Whether no more messages are taken.
    pub fn is_closed(&self) -> bool {
        self.next.load(Relaxed) & CLOSED != 0
    }

    /// State of the open segment, which may be another one by now.
    pub fn open(&self) -> Open {
        let next = self.next.load(Acquire);
        let Place { ticket, offset } = Place::of(next);
        let Some(capacity) = self.capacity(ticket).filter(|_| next & CLOSED == 0) else {
            return Open::default();
        };
        let slot = self.slot(ticket);
        // Relaxed: hints for the decision when to end it.
        let opened_nanos = slot.opened_nanos.load(Relaxed);
        Open {
            bytes: offset.min(capacity),
            opened_nanos: (offset > 0 && opened_nanos > 0).then_some(opened_nanos),
            has_own: slot.has_own.load(Relaxed),
        }
    }

    /// How many segments are over and have not been taken.
    pub fn ended(&self) -> u64 {
        let next = self.next.load(Relaxed);
        let open = Place::of(next).ticket + u64::from(next & CLOSED != 0);
        let ended = open.wrapping_sub(self.tail.load(Relaxed)) & TICKET_MASK;
        // The two words are not read at once.
        if ended > SEGMENTS { 0 } else { ended }
    }

    /// How many segments behind the open one have memory.
    pub fn ahead(&self) -> u64 {
        let open = Place::of(self.next.load(Relaxed)).ticket;
        let ahead = self.prepared.load(Relaxed).wrapping_sub(open) & TICKET_MASK;
        if ahead > SEGMENTS { 0 } else { ahead }
    }

    /// Whether anything has ever been asked of it.
    pub fn is_used(&self) -> bool {
        self.prepared.load(Relaxed) != 0 || self.next.load(Relaxed) != 0
    }

    /// The other side. Waits for the current holder.
    pub fn outlet(&self) -> Outlet<'_, T, S> {
        let taking = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        Outlet { inlet: self, taking }
    }

    /// The outlet, if no other thread holds it.
    pub fn try_outlet(&self) -> Option<Outlet<'_, T, S>> {
        let taking = match self.taking.try_lock() {
            Ok(taking) => taking,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return None,
        };
        Some(Outlet { inlet: self, taking })
    }
}

impl<T, S> Drop for Inlet<T, S> {
    fn drop(&mut self) {
        // Large messages that were not taken have their own memory. A thread that panics may leave it.
        if std::thread::panicking() {
            return;
        }
        let mut outlet = self.outlet();
        outlet.close();
        while outlet.take().is_some() {}
    }
}

impl Slot {
    /// Commits the padding behind the last message.
    fn pad(&self, end: u64, capacity: u64) {
        self.end.store(end, Relaxed);
        // Release: pairs with the Acquire in `take`, for the end.
        self.committed.fetch_add(capacity + 1 - end, Release);
    }
}

/// A place that has been reserved. Later messages of its topic wait until it is committed, or dropped (by a panic):
/// then it is skipped.
#[must_use = "a reservation that is not committed is a hole"]
pub struct Reserved<'a, T> {
    slot: &'a Slot,
    start: u64,
    bytes: u64,
    own: PhantomData<T>,
}

impl<T> Reserved<'_, T> {
    /// Whether it is the first of its segment: then it [records](Self::open) the time.
    pub fn is_first(&self) -> bool {
        self.start == 0
    }

    /// Says when its segment was opened (monotonic time).
    pub fn open(&self, nanos: u64) {
        self.slot.opened_nanos.store(nanos.max(1), Relaxed);
    }

    /// Copies a small message in.
    pub fn commit(self, entry: &IndexEntry, data: &[u8]) {
        assert_eq!(self.bytes as usize, MESSAGE_HEADER_BYTES + data.len());
        let start = self.start as usize;
        self.slot.room.with(|room| {
            // SAFETY: the segment cannot be taken before this reservation has been committed, so the
            // room is there and is only read; its preparation happened before `next` came to its ticket.
            let room = unsafe { &*room };
            // SAFETY: `start..start + bytes` lies within the capacity, and every reservation has a separate range,
            // since `next` only grows within a ticket.
            unsafe {
                room.write(start, &record::header(entry, false));
                room.write(start + MESSAGE_HEADER_BYTES, data);
            }
        });
        self.done(entry.repeated);
    }

    /// Moves a large message in.
    pub fn commit_own(self, entry: &IndexEntry, own: T) {
        assert_eq!(self.bytes as usize, MESSAGE_HEADER_BYTES + size_of::<T>());
        let start = self.start as usize;
        self.slot.room.with(|room| {
            // SAFETY: as in `commit`.
            let room = unsafe { &*room };
            // SAFETY: as in `commit`.
            unsafe {
                room.write(start, &record::header(entry, true));
                room.put(start + MESSAGE_HEADER_BYTES, own);
            }
        });
        self.slot.has_own.store(true, Relaxed);
        self.done(entry.repeated);
    }

    fn done(self, repeated: bool) {
        let this = ManuallyDrop::new(self);
        let count = if repeated { 0 } else { COUNT_BIT };
        // Release: pairs with the Acquire in `take`, for the copy and for the flags of the segment.
        this.slot.committed.fetch_add(this.bytes + count, Release);
    }
}

impl<T> Drop for Reserved<'_, T> {
    fn drop(&mut self) {
        let data_bytes = self.bytes as usize - MESSAGE_HEADER_BYTES;
        self.slot.room.with(|room| {
            // SAFETY: as in `commit`.
            let room = unsafe { &*room };
            // SAFETY: as in `commit`.
            unsafe {
                let start = self.start as usize;
                room.write(start, &record::hole(data_bytes as u32));
                room.zero(start + MESSAGE_HEADER_BYTES, data_bytes);
            }
        });
        // Its messages do not lie one behind the other: they are taken out one by one.
        self.slot.has_own.store(true, Relaxed);
        // Release: as in `done`.
        self.slot.committed.fetch_add(self.bytes, Release);
    }
}

/// The side from which messages are taken out: one thread at a time.
pub struct Outlet<'a, T, S> {
    inlet: &'a Inlet<T, S>,
    taking: MutexGuard<'a, Taking<S>>,
}

impl<T, S> Outlet<'_, T, S> {
    /// Gives memory to one more segment, which is ended when it has `ends_at` bytes: `records` has a chunk's
    /// header in front, and room for `capacity` bytes behind it.
    ///
    /// # Errors
    /// The memory, if all slots are in use.
    pub fn prepare(
        &mut self,
        records: Vec<u8>,
        ends_at: usize,
        capacity: usize,
    ) -> Result<(), Vec<u8>> {
        assert_eq!(records.len(), CHUNK_HEADER_BYTES);
        assert!(records.capacity() - records.len() >= capacity);
        assert!((capacity as u64) < OFFSET_MASK / 2);
        let ticket = after(self.taking.prepared);
        if ticket.wrapping_sub(self.taking.tail) & TICKET_MASK >= SEGMENTS || self.inlet.is_closed()
        {
            return Err(records);
        }
        let slot = self.inlet.slot(ticket);
        slot.committed.store(0, Relaxed);
        slot.end.store(0, Relaxed);
        slot.opened_nanos.store(0, Relaxed);
        slot.has_own.store(false, Relaxed);
        slot.ends_at.store(ends_at as u64, Relaxed);
        // SAFETY: the slot's last segment has been taken, under the lock that we hold, and its ticket is not open yet:
        // no thread reads the room.
        let before =
            slot.room.with_mut(|room| unsafe { std::mem::replace(&mut *room, Room::new(records)) });
        drop(before);
        let life = Place { ticket, offset: capacity as u64 };
        // Release: pairs with the Acquire in `move_on`, for all of the above.
        slot.life.store(life.word(), Release);
        self.taking.prepared = ticket;
        self.inlet.prepared.store(ticket, Relaxed);
        Ok(())
    }

    /// Ends the open segment if it has a message; `false` if it should and cannot, because there is no
    /// memory ahead.
    pub fn end_open(&mut self) -> bool {
        for _ in 0..RESERVE_TRIES {
            let seen = self.inlet.next.load(Acquire);
            if seen & CLOSED != 0 || Place::of(seen).offset == 0 || self.inlet.move_on(seen) {
                return true;
            }
        }
        false
    }

    /// Takes no more messages. Messages reserved by now can still be taken.
    pub fn close(&mut self) {
        // AcqRel: Acquire as in `reserve`; Release, as everything that changes the ticket's word.
        let before = self.inlet.next.fetch_or(CLOSED, AcqRel);
        if before & CLOSED == 0 {
            let Place { ticket, offset } = Place::of(before);
            self.inlet.pad_from(ticket, offset);
        }
    }

    /// Whether everything but the open segment has been taken.
    pub fn is_drained(&self) -> bool {
        let next = self.inlet.next.load(Acquire);
        let open = Place::of(next).ticket;
        self.taking.tail == if next & CLOSED != 0 { after(open) } else { open }
    }

    /// The next segment that is over, if all of it has been committed.
    pub fn take(&mut self) -> Option<Segment<T>> {
        if self.is_drained() {
            return None;
        }
        let tail = self.taking.tail;
        let slot = self.inlet.slot(tail);
        let capacity = Place::of(slot.life.load(Relaxed)).offset;
        // Acquire: pairs with the Releases in `done` and `pad`: each addition keeps those before it in
        // force, so all copies have happened.
        let committed = slot.committed.load(Acquire);
        if committed % COUNT_BIT != capacity + 1 {
            return None;
        }
        let empty = Room::new(Vec::new());
        // SAFETY: every reservation in it has been committed, and no thread reads the room after its commit; later
        // reservations of this slot wait for `prepare`, which needs our lock.
        let room = slot.room.with_mut(|room| unsafe { std::mem::replace(&mut *room, empty) });
        let end = slot.end.load(Relaxed) as usize;
        // SAFETY: the reservations cover `0..end` without a gap, and each has written its range.
        let records = unsafe { room.into_records(end) };
        self.taking.tail = after(tail);
        self.inlet.tail.store(after(tail), Relaxed);
        Some(Segment {
            records,
            at: 0,
            published: committed / COUNT_BIT,
            opened_nanos: slot.opened_nanos.load(Relaxed),
            has_own: slot.has_own.load(Relaxed),
            own: PhantomData,
        })
    }
}

impl<T, S> Deref for Outlet<'_, T, S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.taking.state
    }
}

impl<T, S> DerefMut for Outlet<'_, T, S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.taking.state
    }
}

/// A segment that has been taken out.
pub struct Segment<T> {
    records: Vec<u8>,
    /// Where the next record begins, behind the lead.
    at: usize,
    /// Messages in it that were published, and are not repeated.
    pub published: u64,
    /// Monotonic time of the first message.
    pub opened_nanos: u64,
    /// Whether it has messages in their own chunks, or holes.
    pub has_own: bool,
    own: PhantomData<T>,
}

/// One message of a segment.
pub enum Record<T> {
    /// Its bytes are here: the record's range behind the lead.
    Small(IndexEntry, Range<usize>),
    /// Its bytes are there.
    Own(IndexEntry, T),
}

impl<T> Segment<T> {
    /// The next message; each is given once.
    pub fn next_record(&mut self) -> Option<Record<T>> {
        loop {
            let start = self.at;
            let (entry, kind) = record::parse(self.records.get(CHUNK_HEADER_BYTES + start..)?)?;
            let data = start + MESSAGE_HEADER_BYTES;
            self.at = data + entry.data_bytes as usize;
            match kind {
                Kind::Here => return Some(Record::Small(entry, start..self.at)),
                Kind::Hole => {}
                Kind::Elsewhere => return Some(self.take_own(data, entry)),
            }
        }
    }

    fn take_own(&mut self, data: usize, entry: IndexEntry) -> Record<T> {
        self.at = data + size_of::<T>();
        // SAFETY: only `commit_own` writes this flag, with a `T` behind the header; `at` has passed it, so it is taken
        // once.
        Record::Own(entry, unsafe { room::take(&self.records, CHUNK_HEADER_BYTES + data) })
    }

    fn pass_over(&mut self) {
        while self.has_own && self.next_record().is_some() {}
    }

    /// The bytes of messages: a chunk's header, then their records.
    pub fn records(&self) -> &[u8] {
        &self.records
    }

    /// The memory. Messages with their own memory that have not been taken are dropped.
    pub fn into_records(mut self) -> Vec<u8> {
        self.pass_over();
        std::mem::take(&mut self.records)
    }
}

impl<T> Drop for Segment<T> {
    fn drop(&mut self) {
        self.pass_over();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;
