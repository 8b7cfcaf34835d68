//! The newest messages, as many as arrive in a given time.
//!
//! Bytes given to the kernel cannot be withdrawn, so little is sent ahead: a message is sent if it, and the bytes in
//! flight before it, will arrive in time at the speed that the client's acknowledgements show. The newest message
//! always goes, and goes first.

use std::time::Duration;

use livebag::{Clock, Container, IndexEntry, McapAnswer, NewestFirst, Query, Verdict};

use super::{AnswerError, Decimation, Outlet};
use crate::limits::{
    AUTO_AHEAD, AUTO_BLIND_BYTES, AUTO_CHUNK_BYTES, AUTO_MARGIN, GOODPUT_INTERVAL,
};
use crate::link::{Goodput, Link};

/// Bytes around a message on the wire: records, chunk, HTTP, TLS.
const OVERHEAD_BYTES: u64 = 256;

/// How the link is seen: a connection, or anything that tells the same.
pub trait AutoLink {
    /// Bytes that have been given to it and have not arrived, bytes that have, round trip.
    fn state(&self) -> (u64, u64, Duration);
}

impl AutoLink for Link {
    fn state(&self) -> (u64, u64, Duration) {
        let state = Link::state(self);
        (state.unacked_bytes, state.acked_bytes, state.round_trip)
    }
}

/// One `auto` answer being sent.
pub struct Auto<'a> {
    clock: &'a Clock,
    link: &'a dyn AutoLink,
    goodput: Goodput,
    /// When the request came, on the clock's monotonic time.
    asked_nanos: u64,
    /// By when the asker shall have everything, on the same.
    deadline_nanos: u64,
    /// Bytes handed to the outlet.
    given_bytes: u64,
    /// Bytes that the link had taken when the answer began.
    start_bytes: u64,
    /// Bytes that had arrived when they last grew, and when that was.
    progress: (u64, u64),
}

impl<'a> Auto<'a> {
    /// Begins. `asked_nanos` is the time of the request, `known` the link's speed if it is known.
    pub fn new(
        clock: &'a Clock,
        link: &'a dyn AutoLink,
        known: Option<f64>,
        asked_nanos: u64,
        within: Duration,
    ) -> Self {
        let (unacked, acked, _) = link.state();
        Self {
            clock,
            link,
            goodput: Goodput::new(known),
            asked_nanos,
            deadline_nanos: asked_nanos.saturating_add(within.as_nanos() as u64),
            given_bytes: 0,
            start_bytes: unacked + acked,
            progress: (acked, asked_nanos),
        }
    }

    /// Bytes that have been given and have not arrived, also those that the connection's task still
    /// holds.
    fn outstanding(&mut self) -> (u64, Duration) {
        let (_, acked, round_trip) = self.link.state();
        if acked != self.progress.0 {
            self.progress = (acked, self.clock.monotonic_nanos());
        }
        let outstanding = (self.start_bytes + self.given_bytes).saturating_sub(acked);
        let now = self.clock.monotonic_nanos();
        match outstanding {
            0 => self.goodput.pause(now, acked),
            _ => self.goodput.sample(now, acked),
        }
        (outstanding, round_trip)
    }

    /// Whether `bytes` more would arrive in time; waits until little is on its way.
    fn may_go(&mut self, bytes: u64, outlet: &Outlet) -> bool {
        loop {
            if self.given_bytes == 0 {
                // A client that needs one frame now gets one frame now.
                return true;
            }
            // A client that has gone, or was cut off, holds no turn until its time is over.
            if outlet.is_gone() {
                return false;
            }
            let now = self.clock.monotonic_nanos();
            let (outstanding, round_trip) = self.outstanding();
            let kept = round_trip.as_nanos() as u64 / 2 + AUTO_MARGIN.as_nanos() as u64;
            let end = self.deadline_nanos.saturating_sub(kept);
            let stuck_nanos = now.saturating_sub(self.progress.1);
            let is_stuck =
                outstanding > 0 && stuck_nanos > outlet.progress_timeout().as_nanos() as u64;
            if now >= end || is_stuck {
                return false;
            }
            let (is_room, is_in_time) = match self.goodput.bytes_per_second() {
                // Nothing is known: one message at a time, in the first half of the time.
                None => (outstanding == 0, now < end - (end - self.asked_nanos) / 2),
                Some(speed) => {
                    let flight = round_trip.max(AUTO_AHEAD).as_secs_f64() * speed;
                    let arrival = (outstanding + bytes) as f64 / speed * 1e9;
                    // Earlier measurements may be outdated.
                    let is_measured = self.goodput.measured().is_some();
                    let flight = if is_measured { flight } else { 0.0 };
                    let is_room = (outstanding as f64) < flight.max(AUTO_BLIND_BYTES as f64);
                    (is_room, (now as f64 + arrival) < end as f64)
                }
            };
            match (is_room, is_in_time) {
                (true, true) => return true,
                // What does not fit now will not fit later.
                (true, false) => return false,
                _ => self.clock.sleep(GOODPUT_INTERVAL),
            }
        }
    }

    /// Sends the newest of a query.
    ///
    /// # Errors
    /// If the recording cannot be read, or the asker has gone.
    pub fn send(
        mut self,
        container: &Container,
        query: &Query,
        mut decimation: Decimation,
        outlet: &mut Outlet,
    ) -> Result<Option<f64>, AnswerError> {
        let mut messages = container.newest_first(query)?;
        // A message that is larger than a chunk gets memory of its size.
        let next_bytes = |messages: &NewestFirst<'_>| {
            AUTO_CHUNK_BYTES as usize + messages.next_data_bytes().unwrap_or(0) as usize
        };
        let mut piece = outlet.piece(next_bytes(&messages));
        let mut answer = McapAnswer::new(container, piece.buffer());
        let mut is_over = false;
        while !is_over {
            let mut in_chunk = piece.buffer().len() as u64;
            let more = {
                let mut judge = |topic: usize, entry: &IndexEntry| {
                    if !decimation.wants(topic, entry) {
                        return Verdict::Skip;
                    }
                    let bytes = u64::from(entry.data_bytes) + OVERHEAD_BYTES;
                    if !self.may_go(in_chunk + bytes, outlet) {
                        is_over = true;
                        return Verdict::End;
                    }
                    in_chunk += bytes;
                    decimation.gave(topic, entry);
                    Verdict::Take
                };
                answer.chunk_newest_first(
                    &mut messages,
                    piece.buffer(),
                    AUTO_CHUNK_BYTES,
                    &mut judge,
                )?
            };
            if !more {
                break;
            }
            self.given_bytes += piece.buffer().len() as u64;
            outlet.send(piece)?;
            piece = outlet.piece(next_bytes(&messages));
        }
        answer.finish(piece.buffer());
        outlet.send(piece)?;
        Ok(self.goodput.bytes_per_second())
    }
}
