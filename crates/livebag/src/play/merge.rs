//! Several recordings as one, in order of receiving or of sending.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::PlayError;
use super::options::MessageOrder;
use super::packet::Packet;
use super::recording::{Plan, Reader};
use crate::limits::PLAY_REORDER_BYTES_MAX;
use crate::query::Buffer;

/// The messages of a plan. Those of equal time come in the order of the recordings, and within one in
/// its own.
///
/// Recordings are read in order of log time. For the order of sending, messages wait until no earlier
/// one can come any more, which follows from the longest way that any message had ([`Plan::lag`]).
pub(super) struct Merge<'a> {
    plan: &'a Plan,
    parts: Vec<Part<'a>>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    waiting_bytes: usize,
    /// Messages read so far: decides among equal times of sending.
    count: u64,
    /// Messages released before their turn, for lack of memory.
    early: u64,
}

struct Part<'a> {
    reader: Reader<'a>,
    /// Number of its first topic.
    base: usize,
    next: Option<Packet>,
    /// Whether `next` is the next message.
    is_read: bool,
}

struct Waiting {
    place: (u64, u64),
    packet: Packet,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}
impl Eq for Waiting {}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place.cmp(&other.place)
    }
}

/// Provides memory for a message of this many bytes.
pub(super) type Spare<'a> = dyn FnMut(usize) -> Buffer + 'a;

impl<'a> Merge<'a> {
    pub fn new(plan: &'a Plan, readers: Vec<(Reader<'a>, usize)>) -> Self {
        let part = |(reader, base)| Part { reader, base, next: None, is_read: false };
        Self {
            plan,
            parts: readers.into_iter().map(part).collect(),
            waiting: BinaryHeap::new(),
            waiting_bytes: 0,
            count: 0,
            early: 0,
        }
    }

    /// The next message.
    pub fn next(&mut self, spare: &mut Spare<'_>) -> Result<Option<Packet>, PlayError> {
        match self.plan.order {
            MessageOrder::Received => self.next_received(spare),
            MessageOrder::Sent => self.next_sent(spare),
        }
    }

    /// Damaged messages left out so far.
    pub fn damaged(&self) -> u64 {
        self.parts.iter().map(|part| part.reader.damaged()).sum()
    }

    /// Messages released before their turn, for lack of memory.
    pub fn early(&self) -> u64 {
        self.early
    }

    /// Log time of what [`Merge::next_received`] would give.
    fn peek(&mut self, spare: &mut Spare<'_>) -> Result<Option<(u64, usize)>, PlayError> {
        for part in &mut self.parts {
            if !part.is_read {
                part.advance(self.plan, spare)?;
                part.is_read = true;
            }
        }
        let nexts = self.parts.iter().enumerate();
        let nexts = nexts.filter_map(|(at, part)| Some((part.next.as_ref()?.log_time_nanos, at)));
        Ok(nexts.min())
    }

    fn next_received(&mut self, spare: &mut Spare<'_>) -> Result<Option<Packet>, PlayError> {
        let Some((_, at)) = self.peek(spare)? else { return Ok(None) };
        let part = &mut self.parts[at];
        part.is_read = false;
        Ok(part.next.take())
    }

    fn next_sent(&mut self, spare: &mut Spare<'_>) -> Result<Option<Packet>, PlayError> {
        loop {
            let Some((log_time_nanos, _)) = self.peek(spare)? else { return Ok(self.pop()) };
            // No message that is still to be read was sent before this.
            let floor = i128::from(log_time_nanos) - self.plan.lag.most;
            if let Some(Reverse(first)) = self.waiting.peek() {
                let is_due = i128::from(first.place.0) <= floor;
                if is_due || self.waiting_bytes > PLAY_REORDER_BYTES_MAX {
                    self.early += u64::from(!is_due);
                    return Ok(self.pop());
                }
            }
            let Some(packet) = self.next_received(spare)? else { continue };
            self.count += 1;
            self.waiting_bytes += packet.memory_bytes();
            let place = (packet.publish_time_nanos, self.count);
            self.waiting.push(Reverse(Waiting { place, packet }));
        }
    }

    fn pop(&mut self) -> Option<Packet> {
        let Reverse(first) = self.waiting.pop()?;
        self.waiting_bytes -= first.packet.memory_bytes();
        Some(first.packet)
    }
}

impl Part<'_> {
    /// Reads on to the next message of the plan.
    fn advance(&mut self, plan: &Plan, spare: &mut Spare<'_>) -> Result<(), PlayError> {
        self.next = loop {
            let Some(mut packet) = self.reader.next(spare)? else { break None };
            packet.topic += self.base;
            let time_nanos = plan.order.of(packet.log_time_nanos, packet.publish_time_nanos);
            if plan.wanted[packet.topic] && plan.window.has(time_nanos) {
                break Some(packet);
            }
        };
        Ok(())
    }
}
