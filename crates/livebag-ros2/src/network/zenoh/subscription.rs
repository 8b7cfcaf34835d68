//! Takes a topic's messages.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Subscriber;
use zenoh::sample::{Sample as ZenohSample, SampleKind};
use zenoh_ext::{AdvancedSubscriber, AdvancedSubscriberBuilderExt, HistoryConfig, RecoveryConfig};

use super::super::{Receiver, Sample, Sequences, Subscription, Told};
use super::attachment::Attachment;
use super::graph::{Graph, Own};
use crate::limits::{LATCHED_MAX, SAMPLE_BYTES_MAX};
use crate::qos::{Durability, History, Qos, Reliability};

/// Timeout for publishers to send messages that they published earlier; new messages wait for it.
const HISTORY_TIMEOUT: Duration = Duration::from_secs(10);

/// Takes messages until it is closed.
pub(super) struct Inlet {
    graph: Arc<Graph>,
    open: Mutex<Option<Open>>,
}

struct Open {
    receiver: Arc<dyn Receiver>,
    sequences: Sequences,
}

impl Inlet {
    pub(super) fn new(graph: Arc<Graph>, receiver: Arc<dyn Receiver>) -> Self {
        let open = Open { receiver, sequences: Sequences::default() };
        Self { graph, open: Mutex::new(Some(open)) }
    }

    /// Hands a message on. Called by Zenoh's threads, of which each carries another connection.
    ///
    /// A message in shared memory is read there: its publisher reuses the memory only after every reader has released
    /// it. One that came in pieces is put together first.
    pub(super) fn take(&self, sample: &ZenohSample) {
        if sample.kind() != SampleKind::Put {
            return;
        }
        let (payload, said) = (sample.payload(), sample.attachment());
        let attachment = said.map(|said| Attachment::decode(&said.to_bytes()));
        // Less is no CDR.
        let is_fit = (4..=SAMPLE_BYTES_MAX).contains(&payload.len());
        let attachment = match attachment {
            Some(Some(attachment)) if is_fit => attachment,
            // Publishers that are not ROS nodes may have no count and no time.
            None if is_fit => Attachment { sequence: 0, source_nanos: -1, publisher: [0; 16] },
            _ => return self.graph.refuse(),
        };
        let data = payload.to_bytes();
        let sample = Sample {
            data: &data,
            publish_time_nanos: u64::try_from(attachment.source_nanos).ok(),
            sequence: u64::try_from(attachment.sequence).unwrap_or(0),
            publisher: attachment.publisher,
        };
        // Held while the message is passed on, so that two connections to one publisher cannot change its order, and so
        // that closing waits.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = &mut *open {
            open.give(&sample, &self.graph);
        }
    }

    fn close(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Open {
    fn give(&mut self, sample: &Sample<'_>, graph: &Graph) {
        if sample.sequence > 0 {
            if self.sequences.is_full() {
                self.sequences.keep(|publisher| graph.has(publisher));
            }
            let Sample { publisher, sequence, publish_time_nanos, .. } = *sample;
            match self.sequences.take_published(publisher, sequence, publish_time_nanos) {
                Told::New { lost: 0 } => {}
                Told::New { lost } => self.receiver.lost(&publisher, lost),
                Told::Old => return,
            }
        }
        self.receiver.sample(sample);
    }
}

/// A subscription of this session.
pub(super) struct ZenohSubscription {
    pub(super) inlet: Arc<Inlet>,
    pub(super) subscribers: Option<Subscribers>,
    pub(super) token: Option<LivelinessToken>,
    pub(super) _own: Own,
}

impl Subscription for ZenohSubscription {}

impl Drop for ZenohSubscription {
    fn drop(&mut self) {
        self.inlet.close();
        // What fails here has been ended by the session's end already.
        if let Some(token) = self.token.take() {
            let _ = token.undeclare().wait();
        }
        if let Some(subscribers) = self.subscribers.take() {
            let _ = subscribers.base.undeclare().wait();
            if let Some(group) = subscribers.group {
                let _ = group.undeclare().wait();
            }
        }
    }
}

/// What takes the messages of one topic.
pub(super) struct Subscribers {
    base: AdvancedSubscriber<()>,
    group: Option<Subscriber<()>>,
}

/// Whether the subscription takes part in the group of those that read from plain memory.
///
/// Since Lyrical, publishers of messages with an unbounded `uint8[]` (images, point clouds) ask how
/// each subscription reads such bytes. The group's messages have a separate key, and a subscription that declares
/// nothing may get none (hiroz 0.2.1, `buffer_group.rs`). Latched topics have no group.
pub(super) fn is_in_group(qos: &Qos) -> bool {
    qos.durability == Durability::Volatile
}

/// Declares what takes the messages of `key`, with the history of latched topics as rmw_zenoh asks
/// for it.
pub(super) fn declare(
    session: &zenoh::Session,
    key: &str,
    qos: &Qos,
    inlet: &Arc<Inlet>,
) -> zenoh::Result<Subscribers> {
    let taking = || {
        let inlet = inlet.clone();
        move |sample: ZenohSample| inlet.take(&sample)
    };
    let base = session.declare_subscriber(key.to_owned()).callback(taking()).advanced();
    if is_in_group(qos) {
        let group = session.declare_subscriber(format!("{key}/_buf_cpu")).callback(taking());
        return Ok(Subscribers { base: base.wait()?, group: Some(group.wait()?) });
    }
    let history = HistoryConfig::default().detect_late_publishers().max_samples(latched(qos));
    let base = base.subscriber_detection().history(history).query_timeout(HISTORY_TIMEOUT);
    let base = match qos.reliability {
        Reliability::Reliable => base.recovery(RecoveryConfig::default().heartbeat()).wait()?,
        Reliability::BestEffort => base.wait()?,
    };
    Ok(Subscribers { base, group: None })
}

/// Latched messages that are kept or asked for.
pub(super) fn latched(qos: &Qos) -> usize {
    match qos.history {
        History::KeepLast(depth) => (depth as usize).clamp(1, LATCHED_MAX),
        History::KeepAll => LATCHED_MAX,
    }
}
