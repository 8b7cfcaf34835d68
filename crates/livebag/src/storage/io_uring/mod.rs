//! Writes through io_uring (Linux 5.11 for waiting with a time limit; probed at start).

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};

use super::pwrite::{PwriteQueue, vectors, write_parts};
use super::{Completion, Write, WriteQueue};
use crate::limits::{POLL_MIN, WRITES_IN_FLIGHT_MAX};

struct InFlight {
    write: Write,
    /// The kernel reads these until the completion; a box's contents do not move with the slab.
    vectors: Box<[libc::iovec]>,
    written: usize,
    total: usize,
}

/// A ring used by one thread.
pub(super) struct IoUringQueue {
    ring: IoUring,
    slab: Vec<Option<InFlight>>,
    free: Vec<usize>,
    /// Writes in the ring that the kernel has not taken yet, by their place in the slab; oldest first.
    untaken: VecDeque<usize>,
    /// Writes that found the ring full.
    waiting: VecDeque<Write>,
    /// Writes in the slab or waiting.
    count: usize,
    /// Takes over once the kernel has refused the ring.
    fallback: Option<PwriteQueue>,
}

#[expect(unsafe_code, reason = "the vectors hold pointers to memory that the queue owns or keeps")]
// SAFETY: the pointers in `vectors` point into the parts beside them (heap memory or a mapping kept by an `Arc`),
// neither of which is bound to a thread.
unsafe impl Send for IoUringQueue {}

impl IoUringQueue {
    /// Makes a ring.
    ///
    /// # Errors
    /// If the kernel has no io_uring, forbids it, or is older than 5.11.
    pub(super) fn new() -> io::Result<Self> {
        let entries = WRITES_IN_FLIGHT_MAX as u32;
        // Completions are then handled when this thread asks for them, not by interrupting it
        // (Linux 5.19); without it the ring works the same.
        let ring = IoUring::builder()
            .setup_coop_taskrun()
            .build(entries)
            .or_else(|_| IoUring::new(entries))?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::Error::other("this kernel's io_uring cannot wait with a time limit"));
        }
        Ok(Self {
            ring,
            slab: (0..WRITES_IN_FLIGHT_MAX).map(|_| None).collect(),
            free: (0..WRITES_IN_FLIGHT_MAX).rev().collect(),
            untaken: VecDeque::new(),
            waiting: VecDeque::new(),
            count: 0,
            fallback: None,
        })
    }

    fn start(&mut self, slot: usize) {
        if self.fallback.is_some() {
            return self.hand_over(slot);
        }
        let Some(flight) = &mut self.slab[slot] else { return };
        flight.vectors = vectors(&flight.write.parts, flight.written).into_boxed_slice();
        let descriptor = flight.write.file.descriptor().expect("checked at submission").as_raw_fd();
        let entry = opcode::Writev::new(
            types::Fd(descriptor),
            flight.vectors.as_ptr(),
            flight.vectors.len() as u32,
        )
        .offset(flight.write.offset + flight.written as u64)
        .build()
        .user_data(slot as u64);
        #[expect(unsafe_code, reason = "the ring takes raw pointers")]
        // SAFETY: `vectors`, the parts they point into and the file stay in the slab until this
        // entry's completion has been reaped.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        // The slab has as many places as the ring has entries, so there is always room.
        pushed.expect("a free place in the ring");
        self.untaken.push_back(slot);
    }

    /// Has a write done without the ring.
    fn hand_over(&mut self, slot: usize) {
        if let (Some(flight), Some(fallback)) = (self.slab[slot].take(), &mut self.fallback) {
            self.free.push(slot);
            self.count -= 1;
            fallback.submit(flight.write);
        }
    }

    fn admit(&mut self, write: Write) {
        let slot = self.free.pop().expect("checked by the callers");
        let total = write.bytes();
        let flight = InFlight { write, vectors: Box::default(), written: 0, total };
        self.slab[slot] = Some(flight);
        self.start(slot);
    }

    fn finish(&mut self, slot: usize, result: io::Result<()>, done: &mut Vec<Completion>) {
        let flight = self.slab[slot].take().expect("a completion of a write in flight");
        self.free.push(slot);
        self.count -= 1;
        done.push(Completion { token: flight.write.token, result, parts: flight.write.parts });
    }

    fn complete(&mut self, slot: usize, code: i32, done: &mut Vec<Completion>) {
        let flight = self.slab[slot].as_mut().expect("a completion of a write in flight");
        if code > 0 {
            flight.written += code as usize;
            if flight.written >= flight.total {
                self.finish(slot, Ok(()), done);
            } else if flight.written.is_multiple_of(super::Block::ALIGNMENT) {
                self.start(slot);
            } else {
                // A direct write cannot go on from here; plain writes at once can try.
                let result = write_parts(&flight.write);
                self.finish(slot, result, done);
            }
            return;
        }
        match code {
            0 => self.finish(slot, Err(io::ErrorKind::WriteZero.into()), done),
            _ if code == -libc::EAGAIN || code == -libc::EINTR => self.start(slot),
            _ => self.finish(slot, Err(io::Error::from_raw_os_error(-code)), done),
        }
    }

    fn drain(&mut self, done: &mut Vec<Completion>) {
        loop {
            let next = self.ring.completion().next();
            let Some(entry) = next else { break };
            self.complete(entry.user_data() as usize, entry.result(), done);
        }
        while !self.free.is_empty()
            && let Some(write) = self.waiting.pop_front()
        {
            self.admit(write);
        }
    }

    /// Submits the entries of the ring and waits for a completion, at most for `wait`.
    ///
    /// # Errors
    /// If the kernel refuses the ring. No write is lost by that: see [`Self::leave_ring`].
    fn enter(&mut self, wait: Duration) -> io::Result<()> {
        let limit = types::Timespec::from(wait);
        let args = types::SubmitArgs::new().timespec(&limit);
        let outcome = self.ring.submitter().submit_with_args(1, &args);
        let untaken = self.ring.submission().len();
        self.untaken.drain(..self.untaken.len().saturating_sub(untaken));
        // Time is up, a signal came, or completions must be taken first.
        let passing = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN].map(Some);
        match outcome {
            Err(error) if !passing.contains(&error.raw_os_error()) => {
                self.leave_ring();
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Entries that the kernel has not accepted, and all later ones, are written with `pwritev`. The kernel completes
    /// the entries it has accepted: completions are posted whenever this thread makes a system call.
    fn leave_ring(&mut self) {
        self.fallback = Some(PwriteQueue::default());
        for slot in std::mem::take(&mut self.untaken) {
            self.hand_over(slot);
        }
    }

    fn reap_ring(&mut self, wait: Duration, done: &mut Vec<Completion>) -> io::Result<()> {
        let before = done.len();
        self.drain(done);
        // Enter even if there is something already: with cooperative task running, completions are
        // posted only when this thread visits the kernel.
        let wait = if done.len() > before { Duration::ZERO } else { wait };
        self.enter(wait)?;
        self.drain(done);
        if !self.ring.submission().is_empty() {
            self.enter(Duration::ZERO)?;
        }
        Ok(())
    }

    /// The same once the ring is left.
    fn reap_rest(&mut self, wait: Duration, done: &mut Vec<Completion>) {
        let before = done.len();
        self.drain(done);
        let is_idle = done.len() == before;
        if let Some(fallback) = &mut self.fallback {
            let wait = if is_idle && self.count > 0 { wait.min(POLL_MIN) } else { wait };
            let wait = if is_idle { wait } else { Duration::ZERO };
            // It never fails.
            let _ = fallback.reap(wait, done);
        }
    }
}

impl WriteQueue for IoUringQueue {
    fn submit(&mut self, write: Write) {
        if let Some(fallback) = &mut self.fallback {
            return fallback.submit(write);
        }
        self.count += 1;
        if self.free.is_empty() {
            self.waiting.push_back(write);
        } else {
            self.admit(write);
        }
    }

    fn reap(&mut self, wait: Duration, done: &mut Vec<Completion>) -> io::Result<()> {
        let refused = match self.fallback {
            None => self.reap_ring(wait, done),
            Some(_) => Ok(()),
        };
        if self.fallback.is_some() {
            self.reap_rest(if refused.is_err() { Duration::ZERO } else { wait }, done);
        }
        refused
    }

    fn in_flight(&self) -> usize {
        self.count + self.fallback.as_ref().map_or(0, PwriteQueue::in_flight)
    }
}

impl Drop for IoUringQueue {
    /// The kernel may still be reading the buffers: wait for it.
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.in_flight() > 0 {
            // A kernel that refuses the ring has returned an error before, or the result is no longer needed.
            let _ = self.reap(Duration::from_millis(100), &mut done);
        }
    }
}

#[cfg(test)]
mod tests;
