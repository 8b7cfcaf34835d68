//! From a stream into a topic.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use livebag::{Clock, around_frame, stream_topic};
use livebag_shm::{FrameRef, Liveness, Reader, Wait};

use super::{BridgeCounts, Counters, RateLimit};
use crate::network::{Network, NetworkError, Publication, TopicRequest};
use crate::qos::{Qos, QosOverrides};

/// How long a thread sleeps at most before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);
/// A writer that has been silent for this long is checked.
const STALLED: Duration = Duration::from_secs(1);

/// A stream that is being published; dropping it ends that.
pub struct ToRos2 {
    request: TopicRequest,
    stop: Arc<AtomicBool>,
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

impl ToRos2 {
    /// Publishes every frame from now on, at most `rate_max_hz` of them a second. The topic is offered
    /// reliably, which serves best-effort subscriptions too, unless `overrides` say otherwise.
    ///
    /// # Errors
    /// If the network refuses the topic, or there can be no thread.
    pub fn begin(
        network: &dyn Network,
        reader: Reader,
        rate_max_hz: Option<f64>,
        overrides: &QosOverrides,
        clock: Clock,
    ) -> Result<Self, NetworkError> {
        let reader = reader.labelled("bridge");
        let topic = stream_topic(reader.info());
        let request = TopicRequest {
            name: topic.name.clone(),
            type_name: topic.type_name.clone(),
            type_hash: topic.metadata.get("topic_type_hash").cloned(),
            qos: overrides.apply(&topic.name, Qos::default()),
        };
        let refuse = |reason: String| NetworkError::Endpoint {
            doing: "publishing the stream",
            name: reader.info().name.clone(),
            reason,
        };
        if topic.message_encoding != "cdr" {
            let found = &topic.message_encoding;
            return Err(refuse(format!("its messages are `{found}`, not CDR as ROS 2's")));
        }
        let publication = network.advertise(&request)?;
        let (stop, counters) = (Arc::new(AtomicBool::new(false)), Arc::new(Counters::default()));
        let mut way = Way {
            reader,
            publication,
            limit: RateLimit::new(rate_max_hz),
            counters: counters.clone(),
            clock,
            cdr: Vec::new(),
        };
        let name = way.reader.info().name.clone();
        let thread = {
            let stop = stop.clone();
            let builder = std::thread::Builder::new().name("livebag-bridge".into());
            builder.spawn(move || way.run(&stop))
        };
        let thread = thread.map_err(|error: io::Error| NetworkError::Endpoint {
            doing: "starting a thread to publish the stream",
            name,
            reason: error.to_string(),
        })?;
        Ok(Self { request, stop, counters, thread: Some(thread) })
    }

    /// How the topic is offered.
    pub fn request(&self) -> &TopicRequest {
        &self.request
    }

    /// Counts of the frames so far.
    pub fn counts(&self) -> BridgeCounts {
        self.counters.counts()
    }

    /// Whether the stream has ended and everything in it was passed on.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for ToRos2 {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Way {
    reader: Reader,
    publication: Box<dyn Publication>,
    limit: RateLimit,
    counters: Arc<Counters>,
    clock: Clock,
    cdr: Vec<u8>,
}

impl Way {
    fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let next = self.reader.next();
            Counters::add(&self.counters.lost, next.lapped + next.damaged);
            match next.frame {
                Some(frame) => self.pass(&frame),
                None => {
                    let seen = self.reader.next_sequence().saturating_sub(1);
                    let is_new = self.reader.wait(Wait::Futex, seen, LOOK);
                    if !is_new && self.reader.liveness(STALLED) == Liveness::Gone {
                        break;
                    }
                }
            }
        }
    }

    fn pass(&mut self, frame: &FrameRef) {
        if !self.limit.passes(self.clock.monotonic_nanos()) {
            return Counters::add(&self.counters.skipped, 1);
        }
        let (prefix, suffix) = around_frame(self.reader.info(), frame.header());
        let bytes = prefix.len() + frame.payload_bytes() + suffix.len();
        let mut room = self.publication.room(bytes);
        let cdr = match &mut room {
            Some(room) => room.data(),
            None => {
                // Zeroed once for the largest frame, then written over.
                self.cdr.resize(bytes, 0);
                &mut self.cdr[..]
            }
        };
        let (head, tail) = cdr.split_at_mut(prefix.len());
        let (payload, end) = tail.split_at_mut(frame.payload_bytes());
        head.copy_from_slice(&prefix);
        end.copy_from_slice(&suffix);
        if !frame.copy_to(payload) {
            return Counters::add(&self.counters.lost, 1);
        }
        let published = match room {
            Some(room) => room.publish(),
            None => self.publication.publish(&self.cdr),
        };
        match published {
            Ok(()) => self.counters.passed(bytes),
            Err(_) => Counters::add(&self.counters.refused, 1),
        }
    }
}
