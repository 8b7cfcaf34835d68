//! From topics into streams.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use livebag::{
    Clock, Message, NewMessage, Output, PlayError, Stamp, StreamOutput, Topic, TopicOutput,
};

use super::{BridgeCounts, Counters, RateLimit};
use crate::follow::{Sink, SinkTopic};

/// A stream's slots are made for messages of at least this many bytes.
const MESSAGE_BYTES_MIN: usize = 4 << 10;

/// Makes a stream of every topic that it is given: `sensor_msgs/msg/Image` and `PointCloud2` as native
/// frames, everything else as bytes. A stream is created with the size of its first message, and created anew, under
/// the same name, when a larger one arrives.
pub struct StreamSink {
    /// Messages a second by topic.
    rates: BTreeMap<String, f64>,
    prefix: String,
    clock: Clock,
    topics: Mutex<BTreeMap<String, Arc<Way>>>,
}

impl StreamSink {
    /// Streams are called after their topics, behind `prefix`; `rates` are the most messages a second by
    /// topic.
    pub fn new(prefix: &str, rates: BTreeMap<String, f64>, clock: Clock) -> Self {
        Self { rates, prefix: prefix.to_owned(), clock, topics: Mutex::default() }
    }

    /// Counts of each topic's messages so far.
    pub fn counts(&self) -> Vec<(String, BridgeCounts)> {
        let topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        topics.iter().map(|(name, way)| (name.clone(), way.counters.counts())).collect()
    }

    /// Warnings, as sentences.
    pub fn warnings(&self) -> Vec<String> {
        let topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        let mut warnings = Vec::new();
        for way in topics.values() {
            let state = way.state.lock().unwrap_or_else(PoisonError::into_inner);
            warnings.extend(state.refusal.clone());
            warnings.extend(state.stream.iter().flat_map(|stream| stream.warnings()).cloned());
        }
        warnings
    }
}

impl Sink for StreamSink {
    fn open(&self, topic: Topic) -> Result<Box<dyn SinkTopic>, String> {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if topics.contains_key(&topic.name) {
            return Err("a stream of its name carries another type already".to_owned());
        }
        let rate = self.rates.get(&topic.name).copied();
        let way = Arc::new(Way {
            clock: self.clock.clone(),
            counters: Counters::default(),
            state: Mutex::new(State {
                stream: None,
                bytes_max: 0,
                limit: RateLimit::new(rate),
                refusal: None,
            }),
            topic: topic.clone(),
            prefix: self.prefix.clone(),
        });
        topics.insert(topic.name, way.clone());
        Ok(Box::new(Shared(way)))
    }
}

struct Way {
    topic: Topic,
    prefix: String,
    clock: Clock,
    counters: Counters,
    state: Mutex<State>,
}

struct State {
    stream: Option<Box<dyn TopicOutput>>,
    /// Largest message that the stream has room for.
    bytes_max: usize,
    limit: RateLimit,
    refusal: Option<String>,
}

impl State {
    fn publish(
        &mut self,
        prefix: &str,
        topic: &Topic,
        message: &Message<'_>,
    ) -> Result<(), PlayError> {
        if self.stream.is_none() || message.data.len() > self.bytes_max {
            // Sizes that have grown once grow again.
            let room = if self.stream.is_some() { 2 } else { 1 };
            // The old one goes first: a name has one writer.
            self.stream = None;
            self.bytes_max = (room * message.data.len()).max(MESSAGE_BYTES_MIN);
            self.stream = Some(StreamOutput::new(prefix, Stamp::Kept).open(topic, self.bytes_max)?);
        }
        match &mut self.stream {
            Some(stream) => stream.publish(message),
            None => Ok(()),
        }
    }
}

struct Shared(Arc<Way>);

impl SinkTopic for Shared {
    fn write(&self, message: &NewMessage<'_>) {
        let way = &self.0;
        let mut state = way.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.limit.passes(way.clock.monotonic_nanos()) {
            return Counters::add(&way.counters.skipped, 1);
        }
        let log_time_nanos = message.log_time_nanos.unwrap_or_else(|| way.clock.wall_nanos());
        let message = Message {
            log_time_nanos,
            publish_time_nanos: message.publish_time_nanos.unwrap_or(log_time_nanos),
            sequence: message.sequence,
            data: message.data,
        };
        match state.publish(&way.prefix, &way.topic, &message) {
            Ok(()) => way.counters.passed(message.data.len()),
            Err(error) => {
                state.refusal.get_or_insert_with(|| format!("{}: {error}", way.topic.name));
                Counters::add(&way.counters.refused, 1);
            }
        }
    }

    fn lost(&self, count: u64) {
        Counters::add(&self.0.counters.lost, count);
    }
}
