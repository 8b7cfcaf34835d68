//! Reads ahead of the player, so that a disk that keeps up on average never delays it.
//!
//! One thread reads. Messages it has read wait in a queue that is bounded in bytes and messages. Memory of large
//! messages is reused.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::PlayError;
use super::merge::Merge;
use super::packet::Packet;
use super::recording::{Plan, Recordings};
use crate::limits::{PLAY_AHEAD_BYTES_MAX, PLAY_SPARE_BYTES_MIN, PLAY_SPARES_MAX};
use crate::query::Buffer;

/// The next item.
pub(super) enum Next {
    Packet(Packet),
    /// The last message has been given. When repeating, the first one follows.
    End,
    Failed(PlayError),
}

/// The queue between the thread that reads and the one that plays.
pub(super) struct ReadAhead {
    state: Mutex<State>,
    /// The reader has something to do.
    room: Condvar,
    /// The player has something to take.
    filled: Condvar,
    messages_max: usize,
    repeat: bool,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Next>,
    ready_bytes: usize,
    /// Where to read from, not yet followed. The queued items are obsolete.
    seek_nanos: Option<u64>,
    is_closed: bool,
    /// The reader has stopped without an error.
    is_deserted: bool,
    spares: VecDeque<Buffer>,
    /// Most in any reading from beginning to end.
    damaged: u64,
    early: u64,
}

/// Whether the reader continues with its current range.
#[derive(PartialEq)]
enum Go {
    On,
    Elsewhere,
}

impl ReadAhead {
    /// Begins to read at `from_nanos` of the recording, once [`ReadAhead::read`] runs.
    pub fn new(from_nanos: u64, messages_max: usize, repeat: bool) -> Self {
        let state = State { seek_nanos: Some(from_nanos), ..State::default() };
        Self {
            state: Mutex::new(state),
            room: Condvar::new(),
            filled: Condvar::new(),
            messages_max: messages_max.max(1),
            repeat,
        }
    }

    /// Every change is complete before the lock is released.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Continues reading at another place.
    pub fn seek(&self, from_nanos: u64) {
        let mut state = self.state();
        state.ready.clear();
        state.ready_bytes = 0;
        state.seek_nanos = Some(from_nanos);
        drop(state);
        self.room.notify_one();
    }

    /// The next item, if there is one.
    pub fn take(&self) -> Option<Next> {
        let mut state = self.state();
        let was_full = self.is_half_full(&state);
        let next = state.ready.pop_front();
        match &next {
            Some(Next::Packet(packet)) => state.ready_bytes -= packet.memory_bytes(),
            None if state.is_deserted => return Some(Next::Failed(PlayError::NoReader)),
            _ => {}
        }
        // Woken once for many messages.
        if was_full && !self.is_half_full(&state) {
            self.room.notify_one();
        }
        next
    }

    /// Waits until there is something, at most for `time`.
    pub fn wait(&self, time: Duration) {
        let state = self.state();
        if state.ready.is_empty() {
            // A waiting thread checks the state again.
            drop(self.filled.wait_timeout(state, time));
        }
    }

    /// Takes back the memory of a message.
    pub fn give_back(&self, mut buffer: Buffer) {
        if buffer.capacity() < PLAY_SPARE_BYTES_MIN {
            return;
        }
        buffer.clear();
        let mut state = self.state();
        state.spares.push_back(buffer);
        let bytes = |state: &State| state.spares.iter().map(Buffer::capacity).sum::<usize>();
        while state.spares.len() > PLAY_SPARES_MAX || bytes(&state) > PLAY_AHEAD_BYTES_MAX / 2 {
            state.spares.pop_front();
        }
    }

    /// Ends reading.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.room.notify_one();
    }

    /// Messages that were damaged, and that went before their turn.
    pub fn left_out(&self) -> (u64, u64) {
        let state = self.state();
        (state.damaged, state.early)
    }

    fn is_half_full(&self, state: &State) -> bool {
        state.ready_bytes > PLAY_AHEAD_BYTES_MAX / 2 || state.ready.len() > self.messages_max / 2
    }

    fn is_full(&self, state: &State) -> bool {
        state.ready_bytes >= PLAY_AHEAD_BYTES_MAX || state.ready.len() >= self.messages_max
    }

    /// Reads until closed, on a separate thread.
    pub fn read(&self, recordings: &Recordings, plan: &Plan) {
        let _sign = Deserted(self);
        let begin_nanos = plan.window.from_nanos;
        while let Some(mut from_nanos) = self.next_seek() {
            loop {
                match self.read_from(recordings, plan, from_nanos) {
                    Ok(Go::Elsewhere) => break,
                    Ok(Go::On) if self.put(Next::End) == Go::Elsewhere || !self.repeat => break,
                    Ok(Go::On) => from_nanos = begin_nanos,
                    Err(error) => {
                        self.put(Next::Failed(error));
                        break;
                    }
                }
            }
        }
    }

    /// Waits for an order; `None` when closed.
    fn next_seek(&self) -> Option<u64> {
        let mut state = self.state();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(nanos) = state.seek_nanos.take() {
                return Some(nanos);
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reads from a time of the recording to the end of the plan.
    fn read_from(
        &self,
        recordings: &Recordings,
        plan: &Plan,
        from_nanos: u64,
    ) -> Result<Go, PlayError> {
        let mut plan = plan.clone();
        plan.window.from_nanos = plan.window.from_nanos.max(from_nanos);
        let mut merge = recordings.read(&plan)?;
        let go = loop {
            let Some(packet) = merge.next(&mut |bytes| self.spare(bytes))? else { break Go::On };
            if self.put(Next::Packet(packet)) == Go::Elsewhere {
                break Go::Elsewhere;
            }
        };
        self.count(&merge);
        Ok(go)
    }

    fn count(&self, merge: &Merge<'_>) {
        let mut state = self.state();
        state.damaged = state.damaged.max(merge.damaged());
        state.early = state.early.max(merge.early());
    }

    /// Puts an item into the queue as soon as there is room.
    fn put(&self, next: Next) -> Go {
        let mut state = self.state();
        let is_wanted = |state: &State| !state.is_closed && state.seek_nanos.is_none();
        if self.is_full(&state) {
            while is_wanted(&state) && self.is_half_full(&state) {
                state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        if !is_wanted(&state) {
            return Go::Elsewhere;
        }
        if let Next::Packet(packet) = &next {
            state.ready_bytes += packet.memory_bytes();
        }
        state.ready.push_back(next);
        drop(state);
        self.filled.notify_one();
        Go::On
    }

    /// Memory for a message: used before, if it is large.
    fn spare(&self, bytes: usize) -> Buffer {
        if bytes < PLAY_SPARE_BYTES_MIN {
            return Buffer::default();
        }
        let mut state = self.state();
        // Not a far too large one, which would be missing for its like.
        let fits = |spare: &Buffer| (bytes..=bytes.saturating_mul(4)).contains(&spare.capacity());
        let at = state.spares.iter().position(fits);
        at.and_then(|at| state.spares.remove(at)).unwrap_or_default()
    }
}

/// Says when the thread that reads has gone, whatever the reason.
struct Deserted<'a>(&'a ReadAhead);

impl Drop for Deserted<'_> {
    fn drop(&mut self) {
        self.0.state().is_deserted = true;
        self.0.filled.notify_one();
    }
}

/// Ends reading when the player has gone, whatever the reason.
pub(super) struct CloseOnDrop<'a>(pub &'a ReadAhead);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
