//! Messages of a recording, finished or being written.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use livebag::{Container, ContainerError, ContainerState, IndexEntry, Query, Span, Topic};

use super::choice::{Waiting, choose};
use super::protocol::{MESSAGE_HEAD_BYTES, message_head};
use super::{Batch, Changes, Feed, Playable};
use crate::answer::wait_within;
use crate::catalog::ServedRecording;
use crate::limits::{LIVE_BEHIND_MAX, LIVE_MESSAGE_BYTES_MAX};
use crate::pool::Pool;

struct Channel {
    id: u64,
    topic: Topic,
    /// Its place in the container's topics, while it exists.
    place: Option<usize>,
}

/// Progress of a subscription: this log time, and the number of messages of that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Given {
    nanos: u64,
    count: u64,
}

struct Subscription {
    id: u32,
    channel: usize,
    given: Given,
    /// The newest message at or before `given` is sent first: viewers show it until the next one.
    wants_last: bool,
    /// Messages of the topic when it last had nothing new: it is not read again before that changes.
    idle_count: Option<u64>,
    served: u64,
}

/// What waits for a subscription.
#[derive(Default)]
struct Pending {
    entries: VecDeque<IndexEntry>,
    /// Messages before those, which are skipped.
    passed: u64,
    /// Messages that the topic has at the newest one's log time.
    newest_count: u64,
}

/// Messages of a recording.
pub struct Recorded {
    served: Arc<ServedRecording>,
    container: Arc<Container>,
    channels: Vec<Channel>,
    subscriptions: Vec<Subscription>,
    turn: u64,
    /// The last displayed time: a new subscription begins there.
    until: u64,
}

impl Recorded {
    /// The messages of a recording.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(served: Arc<ServedRecording>) -> Result<Self, ContainerError> {
        let container = served.container()?;
        let (channels, subscriptions) = (Vec::new(), Vec::new());
        Ok(Self { served, container, channels, subscriptions, turn: 0, until: u64::MAX })
    }

    fn topic_name(&self, subscription: &Subscription) -> &str {
        &self.channels[subscription.channel].topic.name
    }

    /// Messages for a subscription up to `until`.
    fn pending(
        &self,
        subscription: &Subscription,
        until: u64,
    ) -> Result<Option<Pending>, ContainerError> {
        let Some(place) = self.channels[subscription.channel].place else { return Ok(None) };
        let topics = vec![self.topic_name(subscription).to_owned()];
        let mut pending = Pending::default();
        let Given { nanos, count } = subscription.given;
        if subscription.wants_last {
            let span = Span::History(0, nanos);
            let mut newest = self.container.newest_first(&Query { topics, span })?;
            while let Some((at, entry)) = newest.next_entry()? {
                if at == place {
                    pending.entries.push_back(entry);
                    pending.newest_count = u64::MAX;
                    break;
                }
            }
            return Ok(Some(pending));
        }
        let span = Span::History(nanos, until);
        let mut cursor = self.container.query(&Query { topics, span })?;
        let mut newest_nanos = nanos;
        while let Some((at, entry)) = cursor.next_entry()? {
            if at != place {
                continue;
            }
            if entry.log_time_nanos != newest_nanos {
                (newest_nanos, pending.newest_count) = (entry.log_time_nanos, 0);
            }
            pending.newest_count += 1;
            if entry.log_time_nanos == nanos && pending.newest_count <= count {
                continue;
            }
            if pending.entries.len() == LIVE_BEHIND_MAX {
                pending.entries.pop_front();
                pending.passed += 1;
            }
            pending.entries.push_back(entry);
        }
        Ok(Some(pending))
    }

    /// Reads messages for a subscription up to `until`; if it follows the newest, its index's length is checked first,
    /// which costs little.
    fn look(&mut self, at: usize, until: u64) -> Result<Pending, ContainerError> {
        let subscription = &self.subscriptions[at];
        let Some(place) = self.channels[subscription.channel].place else {
            return Ok(Pending::default());
        };
        // Counted before reading: messages in between are new the next time.
        let count = self.container.topics()[place].message_count()?;
        if until == u64::MAX && subscription.idle_count == Some(count) {
            return Ok(Pending::default());
        }
        let found = self.pending(subscription, until)?.unwrap_or_default();
        let subscription = &mut self.subscriptions[at];
        subscription.idle_count = found.entries.is_empty().then_some(count);
        if found.entries.is_empty() && subscription.wants_last {
            // There was none: whatever comes is the first.
            subscription.wants_last = false;
            subscription.given = Given { nanos: 0, count: 0 };
        }
        Ok(found)
    }

    /// Reads messages whose entries are known.
    fn read(
        &self,
        subscription: &Subscription,
        entries: &[IndexEntry],
        (pool, patience): (&Pool, Duration),
    ) -> Result<Vec<Option<(u64, Bytes)>>, ContainerError> {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return Ok(Vec::new());
        };
        let span = Span::History(first.log_time_nanos, last.log_time_nanos);
        let topics = vec![self.topic_name(subscription).to_owned()];
        let mut cursor = self.container.query(&Query { topics, span })?;
        let place = self.channels[subscription.channel].place;
        let mut read = Vec::new();
        let mut wanted = entries.iter().peekable();
        while let Some((at, entry)) = cursor.next_entry()? {
            if Some(at) != place || wanted.peek() != Some(&&entry) {
                continue;
            }
            wanted.next();
            let bytes = MESSAGE_HEAD_BYTES + entry.data_bytes as usize;
            let taken = match bytes <= LIVE_MESSAGE_BYTES_MAX {
                true => wait_within(pool.take(bytes), patience),
                false => None,
            };
            let message = match taken {
                Some(mut piece) => {
                    piece.buffer().put(&message_head(subscription.id, entry.log_time_nanos));
                    let is_whole = cursor.append_to(piece.buffer())?;
                    is_whole.then(|| (entry.log_time_nanos, piece.into_bytes()))
                }
                None => None,
            };
            read.push(message);
            if wanted.peek().is_none() {
                break;
            }
        }
        Ok(read)
    }
}

impl Feed for Recorded {
    fn name(&self) -> &str {
        self.served.name()
    }

    fn refresh(&mut self) -> Result<Changes, ContainerError> {
        let mut changes = Changes::default();
        let container = self.served.container()?;
        if Arc::ptr_eq(&container, &self.container) && !self.channels.is_empty() {
            return Ok(changes);
        }
        let mut places: Vec<Option<usize>> = vec![None; self.channels.len()];
        for (place, topic) in container.topics().iter().enumerate() {
            let topic = topic.topic();
            let known = self
                .channels
                .iter()
                .enumerate()
                .position(|(at, channel)| channel.topic == *topic && places[at].is_none());
            match known {
                Some(at) => places[at] = Some(place),
                None => {
                    // A channel's id is its place among all that ever were, from 1 on.
                    let id = self.channels.len() as u64 + 1;
                    changes.come.push((id, topic.clone()));
                    self.channels.push(Channel { id, topic: topic.clone(), place: None });
                    places.push(Some(place));
                }
            }
        }
        for (channel, place) in self.channels.iter_mut().zip(places) {
            match (channel.place, place) {
                (Some(_), None) => changes.gone.push(channel.id),
                (None, Some(_)) if changes.come.iter().all(|(id, _)| *id != channel.id) => {
                    changes.come.push((channel.id, channel.topic.clone()));
                }
                _ => {}
            }
            channel.place = place;
        }
        self.container = container;
        self.subscriptions.iter_mut().for_each(|subscription| subscription.idle_count = None);
        Ok(changes)
    }

    fn playable(&mut self) -> Result<Option<Playable>, ContainerError> {
        let container = self.served.container()?;
        let is_live = container.state() == ContainerState::Live;
        let started = container.started_nanos();
        let range = container.time_range()?.unwrap_or((started, started));
        Ok(Some(Playable { range, is_live }))
    }

    fn subscribe(&mut self, id: u32, channel: u64) -> bool {
        let place = self.channels.iter().position(|known| known.id == channel);
        let Some(channel) = place.filter(|at| self.channels[*at].place.is_some()) else {
            return false;
        };
        self.subscriptions.push(Subscription {
            id,
            channel,
            given: Given { nanos: self.until, count: u64::MAX },
            wants_last: true,
            idle_count: None,
            served: 0,
        });
        true
    }

    fn unsubscribe(&mut self, id: u32) -> bool {
        let before = self.subscriptions.len();
        self.subscriptions.retain(|subscription| subscription.id != id);
        self.subscriptions.len() < before
    }

    fn seek(&mut self, nanos: u64) {
        self.until = nanos;
        for subscription in &mut self.subscriptions {
            subscription.given = Given { nanos, count: u64::MAX };
            subscription.wants_last = true;
            subscription.idle_count = None;
        }
    }

    fn collect(
        &mut self,
        until: u64,
        budget: usize,
        pool: &Pool,
        patience: Duration,
    ) -> Result<Batch, ContainerError> {
        self.turn += 1;
        self.until = until;
        let mut pending = Vec::with_capacity(self.subscriptions.len());
        for at in 0..self.subscriptions.len() {
            pending.push(self.look(at, until)?);
        }
        let waiting: Vec<Waiting> = pending
            .iter()
            .zip(&self.subscriptions)
            .map(|(pending, subscription)| Waiting {
                bytes: pending
                    .entries
                    .iter()
                    .map(|entry| MESSAGE_HEAD_BYTES + entry.data_bytes as usize)
                    .collect(),
                served: subscription.served,
            })
            .collect();
        let mut batch = Batch::default();
        for (at, count) in choose(&waiting, budget).into_iter().enumerate().filter(|(_, n)| *n > 0)
        {
            let Pending { entries, passed, newest_count } = &mut pending[at];
            let entries: &[IndexEntry] = entries.make_contiguous();
            let (unsent, sent) = entries.split_at(entries.len() - count);
            let read = self.read(&self.subscriptions[at], sent, (pool, patience))?;
            let whole = read.into_iter().flatten();
            let before = batch.messages.len();
            batch.messages.extend(whole);
            let missing = count - (batch.messages.len() - before);
            let left_out = *passed + (unsent.len() + missing) as u64;
            let name = self.topic_name(&self.subscriptions[at]).to_owned();
            let subscription = &mut self.subscriptions[at];
            if left_out > 0 {
                batch.left_out.push((subscription.id, name, left_out));
            }
            subscription.served = self.turn;
            subscription.wants_last = false;
            if let Some(newest) = sent.last() {
                subscription.given = Given { nanos: newest.log_time_nanos, count: *newest_count };
            }
        }
        batch.messages.sort_by_key(|(nanos, _)| *nanos);
        batch.bytes = batch.messages.iter().map(|(_, bytes)| bytes.len()).sum();
        Ok(batch)
    }
}
