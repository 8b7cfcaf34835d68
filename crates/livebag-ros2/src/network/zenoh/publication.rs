//! Offers a topic.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use livebag::Clock;
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::liveliness::LivelinessToken;
use zenoh::qos::{CongestionControl, Reliability as ZenohReliability};
use zenoh::shm::ZShmMut;
use zenoh_ext::{AdvancedPublisher, AdvancedPublisherBuilderExt, CacheConfig, MissDetectionConfig};

use super::super::{NetworkError, Publication, Role, Room, TopicRequest};
use super::attachment::Attachment;
use super::graph::{Graph, Own};
use super::options::words;
use super::pool::Pool;
use super::subscription::latched;
use crate::network::EndpointId;
use crate::qos::{Durability, Qos, Reliability};

/// Interval at which a reliable latched publisher sends its count, as in rmw_zenoh.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// A publication of this session.
pub(super) struct ZenohPublication {
    pub(super) request: TopicRequest,
    pub(super) id: EndpointId,
    pub(super) publisher: Option<AdvancedPublisher<'static>>,
    pub(super) token: Option<LivelinessToken>,
    /// The number of the next message. Held while it is sent, so that numbers are in order.
    pub(super) next: Mutex<i64>,
    pub(super) graph: Arc<Graph>,
    pub(super) pool: Arc<Pool>,
    pub(super) clock: Clock,
    pub(super) _own: Own,
}

impl ZenohPublication {
    /// A copy for Zenoh to own: in shared memory if it is large. Messages kept by a latched topic are not put there, or
    /// they would occupy the room permanently.
    fn owned(&self, data: &[u8]) -> ZBytes {
        let qos = &self.request.qos;
        let shared = match qos.durability {
            Durability::Volatile => {
                self.pool.copied(data, qos.reliability == Reliability::Reliable, &self.clock)
            }
            Durability::TransientLocal => None,
        };
        shared.unwrap_or_else(|| ZBytes::from(data.to_vec()))
    }
}

impl ZenohPublication {
    fn put(&self, payload: ZBytes) -> Result<(), NetworkError> {
        let failed = |reason: String| NetworkError::Endpoint {
            doing: "publishing to",
            name: self.request.name.clone(),
            reason,
        };
        let Some(publisher) = &self.publisher else {
            return Err(failed("it has been closed".to_owned()));
        };
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let attachment = Attachment {
            sequence: *next,
            source_nanos: i64::try_from(self.clock.wall_nanos()).unwrap_or(i64::MAX),
            publisher: self.id,
        };
        *next += 1;
        let put = publisher.put(payload).attachment(attachment.encoded().as_slice());
        put.wait().map_err(|error| failed(words(&error)))
    }
}

/// Shared memory that is published as it is.
struct SharedRoom<'a> {
    publication: &'a ZenohPublication,
    memory: ZShmMut,
}

impl Room for SharedRoom<'_> {
    fn data(&mut self) -> &mut [u8] {
        self.memory.as_mut()
    }

    fn publish(self: Box<Self>) -> Result<(), NetworkError> {
        self.publication.put(self.memory.into())
    }
}

impl Publication for ZenohPublication {
    fn publish(&self, data: &[u8]) -> Result<(), NetworkError> {
        self.put(self.owned(data))
    }

    fn room(&self, bytes: usize) -> Option<Box<dyn Room + '_>> {
        let qos = &self.request.qos;
        if qos.durability == Durability::TransientLocal {
            return None;
        }
        let may_wait = qos.reliability == Reliability::Reliable;
        let memory = self.pool.room(bytes, may_wait, &self.clock)?;
        Some(Box::new(SharedRoom { publication: self, memory }))
    }

    /// Zenoh delivers whatever the QoS of the two says, so that it is not asked.
    fn subscriptions(&self) -> usize {
        let own = &self.request;
        self.graph.count(Role::Subscription, |endpoint| {
            let same_hash = match (&endpoint.type_hash, &own.type_hash) {
                (Some(theirs), Some(ours)) => theirs == ours,
                _ => true,
            };
            endpoint.name == own.name && endpoint.type_name == own.type_name && same_hash
        })
    }
}

impl Drop for ZenohPublication {
    fn drop(&mut self) {
        // What fails here has been ended by the session's end already.
        if let Some(token) = self.token.take() {
            let _ = token.undeclare().wait();
        }
        if let Some(publisher) = self.publisher.take() {
            let _ = publisher.undeclare().wait();
        }
    }
}

/// Declares what sends to `key`, with the cache of latched topics as rmw_zenoh has it.
///
/// Reliable messages wait for a slow reader, as rmw_zenoh's do only with "keep all": played messages should arrive. The
/// others are dropped when the way is full.
pub(super) fn declare(
    session: &zenoh::Session,
    key: String,
    qos: &Qos,
) -> zenoh::Result<AdvancedPublisher<'static>> {
    let (reliability, congestion) = match qos.reliability {
        Reliability::Reliable => (ZenohReliability::Reliable, CongestionControl::Block),
        Reliability::BestEffort => (ZenohReliability::BestEffort, CongestionControl::Drop),
    };
    let builder = session
        .declare_publisher(key)
        .reliability(reliability)
        .congestion_control(congestion)
        .advanced();
    if qos.durability == Durability::Volatile {
        return builder.wait();
    }
    let cache = CacheConfig::default().max_samples(latched(qos));
    let builder = builder.publisher_detection().cache(cache);
    match qos.reliability {
        Reliability::Reliable => {
            let count = MissDetectionConfig::default().sporadic_heartbeat(HEARTBEAT);
            builder.sample_miss_detection(count).wait()
        }
        Reliability::BestEffort => builder.wait(),
    }
}
