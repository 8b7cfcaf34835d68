//! The way of a topic's messages into a sink, open from the subscription on: until the sink has the topic,
//! messages wait here.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use livebag::{Clock, NewMessage};

use super::{SimTime, SinkTopic};
use crate::limits::{HELD_BYTES_MAX, LOST_AT_ONCE_MAX};
use crate::network::{EndpointId, Receiver, Sample};

/// Messages that wait for their topic.
#[derive(Default)]
struct Held {
    messages: Vec<HeldMessage>,
    bytes: usize,
    /// Lost on the way here, or because too much waited.
    lost: u64,
}

struct HeldMessage {
    log_time_nanos: u64,
    publish_time_nanos: Option<u64>,
    sequence: u64,
    data: Vec<u8>,
}

pub(super) struct Inlet {
    topic: OnceLock<Box<dyn SinkTopic>>,
    held: Mutex<Held>,
    clock: Clock,
    sim_time: Option<Arc<SimTime>>,
}

impl Inlet {
    pub fn new(clock: Clock, sim_time: Option<Arc<SimTime>>) -> Self {
        Self { topic: OnceLock::new(), held: Mutex::default(), clock, sim_time }
    }

    /// Passes waiting messages to the sink, and then all new ones.
    pub fn open(&self, topic: Box<dyn SinkTopic>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        for message in std::mem::take(&mut held.messages) {
            topic.write(&NewMessage {
                log_time_nanos: Some(message.log_time_nanos),
                publish_time_nanos: message.publish_time_nanos,
                sequence: message.sequence,
                data: &message.data,
            });
        }
        topic.lost(held.lost);
        // Still under the lock: a thread that waits for it finds the topic, and comes after the waiting messages.
        let _ = self.topic.set(topic);
    }

    /// The time by which messages are recorded; `None` for now.
    fn log_time_nanos(&self) -> Option<u64> {
        self.sim_time.as_ref()?.now_nanos()
    }

    fn write(&self, topic: &dyn SinkTopic, sample: &Sample<'_>) {
        topic.write(&NewMessage {
            log_time_nanos: self.log_time_nanos(),
            publish_time_nanos: sample.publish_time_nanos,
            sequence: sample.sequence,
            data: sample.data,
        });
    }

    fn hold(&self, held: &mut Held, sample: &Sample<'_>) {
        if held.bytes + sample.data.len() > HELD_BYTES_MAX {
            held.lost += 1;
            return;
        }
        held.bytes += sample.data.len();
        let log_time_nanos = self.log_time_nanos().unwrap_or_else(|| self.clock.wall_nanos());
        held.messages.push(HeldMessage {
            log_time_nanos,
            publish_time_nanos: sample.publish_time_nanos,
            sequence: sample.sequence,
            data: sample.data.to_vec(),
        });
    }
}

impl Receiver for Inlet {
    fn sample(&self, sample: &Sample<'_>) {
        if let Some(topic) = self.topic.get() {
            return self.write(&**topic, sample);
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match self.topic.get() {
            Some(topic) => {
                drop(held);
                self.write(&**topic, sample);
            }
            None => self.hold(&mut held, sample),
        }
    }

    fn lost(&self, _publisher: &EndpointId, count: u64) {
        // A publisher that lies about its numbers may say that nearly 2^64 are missing.
        let count = count.min(LOST_AT_ONCE_MAX);
        if let Some(topic) = self.topic.get() {
            return topic.lost(count);
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match self.topic.get() {
            Some(topic) => topic.lost(count),
            None => held.lost += count,
        }
    }
}
