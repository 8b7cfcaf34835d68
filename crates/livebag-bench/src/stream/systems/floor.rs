//! The floor: memcpy in, flag, memcpy out, through plain shared memory.
//!
//! With one slot it is the least that the transfer can cost on the machine. With two it is SIM's
//! protocol (two buffers and an atomic index), which `--torn` measures.

use std::sync::atomic::Ordering;

use rustix::thread::futex;

use super::{Arrival, Publisher, SlowSubscriber, Subscriber, take};
use crate::clock;
use crate::error::Result;
use crate::frame;
use crate::region::{PAGE_BYTES, Region};
use crate::stream::{RunOptions, WaitWay, Way};

/// The word that counts published frames; slots start on the page after it.
const FLAG_OFFSET: usize = 0;

struct Slots {
    region: Region,
    count: u64,
    frame_bytes: usize,
}

impl Slots {
    fn offset(&self, sequence: u64) -> usize {
        let index = (sequence % self.count) as usize;
        PAGE_BYTES + index * self.frame_bytes.next_multiple_of(PAGE_BYTES)
    }
}

/// Writes into the slots, one after the other.
pub struct FloorPublisher {
    slots: Slots,
    sequence: u64,
    wakes: bool,
}

impl FloorPublisher {
    /// Creates the region.
    pub fn create(options: &RunOptions) -> Result<Self> {
        let slot_bytes = options.payload_bytes.next_multiple_of(PAGE_BYTES);
        let bytes = PAGE_BYTES + options.slots as usize * slot_bytes;
        let region = Region::create(&options.name, bytes)?;
        let slots =
            Slots { region, count: u64::from(options.slots), frame_bytes: options.payload_bytes };
        Ok(Self { slots, sequence: 0, wakes: options.wait == WaitWay::Futex })
    }

    fn release(&mut self) {
        self.sequence += 1;
        let flag = self.slots.region.word32(FLAG_OFFSET);
        flag.store(self.sequence as u32, Ordering::Release);
        if self.wakes {
            // No reader asleep is not an error; nothing else can fail on a word of our own.
            let _ = futex::wake(flag, futex::Flags::empty(), i32::MAX as u32);
        }
    }
}

impl Publisher for FloorPublisher {
    fn publish_copy(&mut self, frame: &[u8]) -> Result<()> {
        self.slots.region.copy_in(self.slots.offset(self.sequence + 1), frame);
        self.release();
        Ok(())
    }

    fn publish_loan(&mut self, fill: &mut dyn FnMut(&mut [u8])) -> Result<u64> {
        let offset = self.slots.offset(self.sequence + 1);
        let slot = self.slots.region.slot_mut(offset, self.slots.frame_bytes);
        fill(slot);
        let sent_nanos = clock::monotonic_nanos();
        frame::stamp(slot, sent_nanos);
        self.release();
        Ok(sent_nanos)
    }
}

/// Reads the newest slot.
pub struct FloorSubscriber {
    slots: Slots,
    seen: u32,
    way: Way,
    wait: WaitWay,
    buffer: Vec<u8>,
}

impl FloorSubscriber {
    /// Maps the region.
    pub fn open(options: &RunOptions) -> Result<Self> {
        let region = Region::open(&options.name)?;
        let seen = region.word32(FLAG_OFFSET).load(Ordering::Acquire);
        let slots =
            Slots { region, count: u64::from(options.slots), frame_bytes: options.payload_bytes };
        let buffer = vec![1; options.payload_bytes];
        Ok(Self { slots, seen, way: options.way, wait: options.wait, buffer })
    }

    fn wait(&self, timeout_nanos: u64) -> Option<u32> {
        let flag = self.slots.region.word32(FLAG_OFFSET);
        let deadline = clock::monotonic_nanos() + timeout_nanos;
        loop {
            let now = flag.load(Ordering::Acquire);
            if now != self.seen {
                return Some(now);
            }
            let left = deadline.saturating_sub(clock::monotonic_nanos());
            if left == 0 {
                return None;
            }
            match self.wait {
                WaitWay::Spin => std::hint::spin_loop(),
                WaitWay::Futex => {
                    let timeout = futex::Timespec {
                        tv_sec: (left / 1_000_000_000) as i64,
                        tv_nsec: (left % 1_000_000_000) as i64,
                    };
                    // Woken, changed meanwhile, interrupted, timed out: the loop above handles all.
                    let _ = futex::wait(flag, futex::Flags::empty(), self.seen, Some(&timeout));
                }
            }
        }
    }
}

impl Subscriber for FloorSubscriber {
    fn receive(&mut self, timeout_nanos: u64) -> Result<Option<Arrival>> {
        let Some(sequence) = self.wait(timeout_nanos) else { return Ok(None) };
        self.seen = sequence;
        let offset = self.slots.offset(u64::from(sequence));
        let slot = self.slots.region.slot(offset, self.slots.frame_bytes);
        let (content, arrived_nanos) = take(self.way, slot, &mut self.buffer);
        Ok(Some(Arrival { content, arrived_nanos, valid: true }))
    }
}

impl SlowSubscriber for FloorSubscriber {
    fn receive_in_pieces(
        &mut self,
        timeout_nanos: u64,
        piece_bytes: usize,
        after_piece: &mut dyn FnMut(usize),
    ) -> Result<Option<Arrival>> {
        let Some(sequence) = self.wait(timeout_nanos) else { return Ok(None) };
        self.seen = sequence;
        let offset = self.slots.offset(u64::from(sequence));
        for (index, piece) in self.buffer.chunks_mut(piece_bytes).enumerate() {
            let start = offset + index * piece_bytes;
            piece.copy_from_slice(self.slots.region.slot(start, piece.len()));
            after_piece(index + 1);
        }
        let arrived_nanos = clock::monotonic_nanos();
        let content = frame::inspect(&self.buffer);
        Ok(Some(Arrival { content, arrived_nanos, valid: true }))
    }
}
