//! Streams in shared memory of this machine, without a recording.

use std::time::Duration;

use bytes::Bytes;
use livebag::{Clock, ContainerError, around_frame, stream_topic};
use livebag_shm::{FrameRef, Owners, Reader, list_regions};

use super::choice::{Waiting, choose};
use super::protocol::{MESSAGE_HEAD_BYTES, message_head};
use super::{Batch, Changes, Feed, Playable};
use crate::answer::wait_within;
use crate::limits::{LIVE_MESSAGE_BYTES_MAX, LIVE_STREAMS_MAX};
use crate::pool::Pool;

struct Channel {
    id: u64,
    /// The stream's name, and a number that a successor of the same name does not have.
    region: (String, u64),
    /// `None` for a stream that cannot be read, and is not tried again.
    reader: Option<Reader>,
}

struct Subscription {
    id: u32,
    channel: u64,
    reader: Reader,
    served: u64,
}

/// Streams of this machine.
pub struct Streams {
    clock: Clock,
    channels: Vec<Channel>,
    subscriptions: Vec<Subscription>,
    next_id: u64,
    turn: u64,
}

impl Streams {
    /// All streams that this user may read and that belong to no other user.
    pub fn new(clock: Clock) -> Self {
        Self { clock, channels: Vec::new(), subscriptions: Vec::new(), next_id: 1, turn: 0 }
    }
}

/// Frames that wait for a subscription, oldest first, and how many were overwritten before them.
fn waiting(reader: &mut Reader) -> (Vec<FrameRef>, u64) {
    let mut frames = Vec::new();
    let mut passed = 0;
    // A stream publishes while it is read: frames from then on are for the next turn.
    let newest = reader.latest_sequence();
    while reader.next_sequence() <= newest {
        let next = reader.next();
        passed += next.lapped + next.damaged;
        let Some(frame) = next.frame else { break };
        frames.push(frame);
    }
    (frames, passed)
}

/// A frame as a message with its head; `None` if it was overwritten meanwhile.
fn encode(
    subscription: &Subscription,
    frame: &FrameRef,
    log_time_nanos: u64,
    (pool, patience): (&Pool, Duration),
) -> Option<Bytes> {
    let (prefix, suffix) = around_frame(subscription.reader.info(), frame.header());
    let bytes = MESSAGE_HEAD_BYTES + prefix.len() + frame.payload_bytes() + suffix.len();
    if bytes > LIVE_MESSAGE_BYTES_MAX {
        return None;
    }
    let mut piece = wait_within(pool.take(bytes), patience)?;
    let buffer = piece.buffer();
    buffer.put(&message_head(subscription.id, log_time_nanos));
    buffer.put(&prefix);
    if !frame.copy_to(buffer.room(frame.payload_bytes())) {
        return None;
    }
    buffer.put(&suffix);
    Some(piece.into_bytes())
}

impl Feed for Streams {
    fn name(&self) -> &str {
        "streams of this machine"
    }

    fn refresh(&mut self) -> Result<Changes, ContainerError> {
        let mut changes = Changes::default();
        let regions = list_regions().unwrap_or_default();
        self.channels.retain(|channel| {
            let is_there = regions.contains(&channel.region);
            if !is_there && channel.reader.is_some() {
                changes.gone.push(channel.id);
            }
            is_there
        });
        self.subscriptions.retain(|known| !changes.gone.contains(&known.channel));
        for region in regions {
            let is_known = self.channels.iter().any(|channel| channel.region == region);
            if is_known || self.channels.len() >= LIVE_STREAMS_MAX {
                continue;
            }
            let reader = match Reader::open_of(&region.0, Owners::Trusted) {
                Ok(reader) => Some(reader.labelled("livebag live")),
                // It is just being made.
                Err(error) if error.is_transient() => continue,
                Err(_) => None,
            };
            let id = self.next_id;
            let topic = reader.as_ref().map(|reader| stream_topic(reader.info()));
            if let Some(topic) = topic {
                self.next_id += 1;
                changes.come.push((id, topic));
            }
            self.channels.push(Channel { id, region, reader });
        }
        Ok(changes)
    }

    fn playable(&mut self) -> Result<Option<Playable>, ContainerError> {
        Ok(None)
    }

    fn subscribe(&mut self, id: u32, channel: u64) -> bool {
        let known = self.channels.iter().find(|known| known.id == channel);
        let Some(mut reader) = known.and_then(|known| known.reader.clone()) else { return false };
        // The newest is shown at once.
        reader.seek(reader.latest_sequence().max(1));
        self.subscriptions.push(Subscription { id, channel, reader, served: 0 });
        true
    }

    fn unsubscribe(&mut self, id: u32) -> bool {
        let before = self.subscriptions.len();
        self.subscriptions.retain(|subscription| subscription.id != id);
        self.subscriptions.len() < before
    }

    fn seek(&mut self, _nanos: u64) {}

    fn collect(
        &mut self,
        _until: u64,
        budget: usize,
        pool: &Pool,
        patience: Duration,
    ) -> Result<Batch, ContainerError> {
        self.turn += 1;
        let now = self.clock.wall_nanos();
        let found: Vec<(Vec<FrameRef>, u64)> = self
            .subscriptions
            .iter_mut()
            .map(|subscription| waiting(&mut subscription.reader))
            .collect();
        let sizes = found.iter().zip(&self.subscriptions).map(|((frames, _), subscription)| {
            let bytes = frames.iter().map(|frame| MESSAGE_HEAD_BYTES + frame.payload_bytes());
            Waiting { bytes: bytes.collect(), served: subscription.served }
        });
        let counts = choose(&sizes.collect::<Vec<_>>(), budget);
        let mut batch = Batch::default();
        for ((subscription, (frames, passed)), count) in
            self.subscriptions.iter_mut().zip(found).zip(counts)
        {
            if count == 0 {
                // They wait, as long as the stream keeps them.
                if let Some(first) = frames.first() {
                    subscription.reader.seek(first.sequence() - passed.min(first.sequence()));
                }
                continue;
            }
            subscription.served = self.turn;
            let sent = &frames[frames.len() - count..];
            let encoded: Vec<_> = sent
                .iter()
                .filter_map(|frame| encode(subscription, frame, now, (pool, patience)))
                .map(|message| (now, message))
                .collect();
            let left_out = passed + (frames.len() - encoded.len()) as u64;
            batch.messages.extend(encoded);
            if left_out > 0 {
                let topic = stream_topic(subscription.reader.info()).name;
                batch.left_out.push((subscription.id, topic, left_out));
            }
        }
        batch.bytes = batch.messages.iter().map(|(_, bytes)| bytes.len()).sum();
        Ok(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use livebag_shm::{FrameMeta, StreamOptions, Writer};

    fn stream(name: &str) -> (String, Writer) {
        let name = format!("live-{name}-{}", std::process::id());
        let options = StreamOptions::bytes(1000).slots(4).remove_on_drop(true);
        let writer = Writer::create(&name, &options).unwrap();
        (name, writer)
    }

    fn channel(feed: &mut Streams, name: &str) -> Option<u64> {
        feed.refresh().unwrap();
        let known = feed.channels.iter().find(|channel| channel.region.0 == name)?;
        Some(known.id)
    }

    fn collect(feed: &mut Streams, budget: usize) -> (Vec<u8>, u64) {
        let pool = Pool::new(1 << 20);
        let batch = feed.collect(u64::MAX, budget, &pool, Duration::from_secs(5)).unwrap();
        let numbers = batch.messages.iter().map(|(_, bytes)| *bytes.last().unwrap()).collect();
        (numbers, batch.left_out.iter().map(|(_, _, count)| count).sum())
    }

    #[test]
    fn a_stream_is_shown_from_its_newest_on_and_what_is_overwritten_is_counted() {
        let (name, mut writer) = stream("newest");
        let mut feed = Streams::new(Clock::system());
        let mut publish = |number: u8| {
            writer.publish(&FrameMeta::bytes(), &[number; 100]).unwrap();
        };
        publish(1);
        publish(2);
        let id = channel(&mut feed, &name).unwrap();
        assert!(feed.subscribe(7, id) && !feed.subscribe(8, u64::MAX));
        assert_eq!(collect(&mut feed, 1 << 20), (vec![2], 0));
        assert_eq!(collect(&mut feed, 1 << 20), (vec![], 0));
        publish(3);
        publish(4);
        assert_eq!(collect(&mut feed, 1 << 20), (vec![3, 4], 0));
        (5..=12).for_each(&mut publish);
        // Of eight frames four are still there, and one fits.
        assert_eq!(collect(&mut feed, 200), (vec![12], 7));
        assert!(feed.unsubscribe(7) && !feed.unsubscribe(7));
        drop(writer);
        assert_eq!(channel(&mut feed, &name), None);
    }
}
