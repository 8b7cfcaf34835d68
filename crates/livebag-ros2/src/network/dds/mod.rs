//! ROS 2 over DDS, by Cyclone DDS: what `rmw_cyclonedds`, `rmw_fastrtps` and `rmw_connextdds` speak.
//!
//! - Losses are gaps in the sequence numbers that every RTPS message has, read from the packets it
//!   came in (`cyclone/blob/mod.rs`). Nothing is lost behind that point: there is no reader's cache. Messages that a
//!   publisher sent after the last one that arrived, or before the first, are unknown.
//! - Messages of publications in this process are passed on by the publishing thread.
//! - Bytes that DDSI adds to make a length a multiple of four are declared in the encapsulation's options, and removed;
//!   other options stay as published.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::{
    Endpoint, EndpointId, Network, NetworkError, Publication, Receiver, Sample, Sequences,
    ServiceRequest, Subscription, Told, TopicRequest, check_name, check_type_name,
};
use crate::limits::{PUBLISHERS_GONE_MAX, SAMPLE_BYTES_MAX};
use crate::qos::{Durability, History, Qos, Reliability};

mod announce;
mod call;
mod config;
mod cyclone;
mod graph;
mod names;

/// For the fuzzer: the nodes' topic, and an endpoint's topic, type and free text, with zeros between.
#[cfg(any(test, fuzzing))]
pub(crate) fn read_foreign(bytes: &[u8]) {
    graph::read_foreign(bytes);
    let mut parts = bytes.split(|byte| *byte == 0);
    let mut text = || String::from_utf8_lossy(parts.next().unwrap_or_default());
    for is_writer in [false, true] {
        let _ = names::ros(&text(), &text(), is_writer);
        let _ = names::type_hash(text().as_bytes());
    }
}

pub use config::{DOMAIN_MAX, DdsOptions, DiscoveryRange};

use announce::Announcer;
use cyclone::{Discovery, Participant, Reader, Taken, Taker, TopicNames, Writer};
use graph::{Graph, NODES_HASH, NODES_TOPIC};

/// How nodes tell of themselves.
const NODES_QOS: Qos = Qos {
    reliability: Reliability::Reliable,
    durability: Durability::TransientLocal,
    history: History::KeepLast(1),
    deadline_nanos: Qos::FOREVER,
    lifespan_nanos: Qos::FOREVER,
    liveliness: crate::qos::Liveliness::Automatic,
    lease_nanos: Qos::FOREVER,
};

/// A DDS domain, taken part in as one node.
pub struct DdsNetwork {
    options: DdsOptions,
    advice: Option<String>,
    graph: Arc<Graph>,
    announcer: Arc<Announcer>,
    discovery: Arc<Discovery>,
    thread: Option<JoinHandle<()>>,
    _nodes: Reader,
    // Last: the others are its parts.
    participant: Arc<Participant>,
}

impl DdsNetwork {
    /// Joins the domain as the node `node_name`: `livebag`, `/robot/recorder`.
    ///
    /// Networks of one process in the same domain share the settings of the first.
    ///
    /// # Errors
    /// If the domain does not exist or Cyclone DDS refuses: mostly no such network interface.
    pub fn join(options: &DdsOptions, node_name: &str) -> Result<Self, NetworkError> {
        let failed = |reason: String| NetworkError::Join { network: "DDS", reason };
        let refused = |refusal: cyclone::Refusal| failed(refusal.to_string());
        let node_name = format!("/{}", node_name.trim_start_matches('/'));
        check_name(&node_name)?;
        if options.domain > DOMAIN_MAX {
            return Err(failed(format!(
                "domain {} does not exist; they are 0 to {DOMAIN_MAX}",
                options.domain
            )));
        }
        let settings = options.to_settings();
        // rmw_dds_common: what makes it a participant of ROS 2.
        let participant = Participant::join(options.domain, &settings, b"enclave=/;");
        let participant = Arc::new(participant.map_err(refused)?);
        let graph = Arc::new(Graph::new(participant.id(), options.has_foreign_topics));
        let taker = Arc::clone(&graph) as Arc<dyn Taker>;
        let hash = names::user_data(Some(NODES_HASH));
        let nodes = participant.read(&NODES_TOPIC, &NODES_QOS, &hash, taker).map_err(refused)?;
        let writer = participant.write(&NODES_TOPIC, &NODES_QOS, &hash).map_err(refused)?;
        let announcer = Announcer::new(Arc::clone(&graph), participant.id(), &node_name, writer);
        let announcer = Arc::new(announcer);
        announcer.announce().map_err(refused)?;
        let discovery = Arc::new(participant.discover().map_err(refused)?);
        let thread = {
            let (discovery, graph) = (Arc::clone(&discovery), Arc::clone(&graph));
            Builder::new().name("livebag-dds".to_owned()).spawn(move || {
                while discovery.wait(|found| graph.discovered(found), || graph.refuse()) {}
            })
        };
        let thread = thread.map_err(|error| failed(format!("no thread is to be had: {error}")))?;
        Ok(Self {
            advice: rmem_max_bytes().and_then(|bytes| options.advice(bytes)),
            options: options.clone(),
            graph,
            announcer,
            discovery,
            thread: Some(thread),
            _nodes: nodes,
            participant,
        })
    }

    /// What should be changed on this machine so that large messages arrive; nothing if all is well.
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }

    /// The names of a topic and its type in DDS.
    fn dds_names(&self, request: &TopicRequest) -> Result<(String, String), NetworkError> {
        if self.options.has_foreign_topics && !request.name.starts_with('/') {
            return Ok((request.name.clone(), request.type_name.clone()));
        }
        check_name(&request.name)?;
        // Nodes without ROS use ROS' topics with their own type names.
        if !names::is_foreign_type(&request.type_name) {
            check_type_name(&request.type_name)?;
        }
        Ok((names::topic(&request.name), names::type_name(&request.type_name, "")))
    }
}

impl Drop for DdsNetwork {
    fn drop(&mut self) {
        self.discovery.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn failed(doing: &'static str, name: &str, reason: impl Display) -> NetworkError {
    NetworkError::Endpoint { doing, name: name.to_owned(), reason: reason.to_string() }
}

impl Network for DdsNetwork {
    fn generation(&self) -> u64 {
        self.graph.generation()
    }

    fn endpoints(&self) -> Vec<Endpoint> {
        self.graph.endpoints()
    }

    fn refused(&self) -> u64 {
        self.graph.refused()
    }

    fn subscribe(
        &self,
        request: &TopicRequest,
        receiver: Arc<dyn Receiver>,
    ) -> Result<Box<dyn Subscription>, NetworkError> {
        let (name, type_name) = self.dds_names(request)?;
        let state = Arc::new(Subscribed {
            receiver,
            graph: Arc::clone(&self.graph),
            following: Mutex::new(Some(Following::default())),
        });
        let hash = names::user_data(request.type_hash.as_deref());
        let taker = Arc::clone(&state) as Arc<dyn Taker>;
        let is_keyed = self.graph.is_keyed(&request.name);
        let names = TopicNames { topic: &name, type_name: &type_name, is_keyed };
        let reader = self.participant.read(&names, &request.qos, &hash, taker);
        let reader = reader.map_err(|refusal| failed("subscribing to", &request.name, refusal))?;
        self.announcer.add(reader.id(), announce::Side::Reads);
        Ok(Box::new(DdsSubscription { state, announcer: Arc::clone(&self.announcer), reader }))
    }

    fn advertise(&self, request: &TopicRequest) -> Result<Box<dyn Publication>, NetworkError> {
        let (name, type_name) = self.dds_names(request)?;
        let hash = names::user_data(request.type_hash.as_deref());
        let writer =
            self.participant.write(&TopicNames::new(&name, &type_name), &request.qos, &hash);
        let writer = writer.map_err(|refusal| failed("advertising", &request.name, refusal))?;
        self.announcer.add(writer.id(), announce::Side::Writes);
        let announcer = Arc::clone(&self.announcer);
        Ok(Box::new(DdsPublication { name: request.name.clone(), announcer, writer }))
    }

    fn call(
        &self,
        service: &ServiceRequest<'_>,
        request: &[u8],
        within: Duration,
    ) -> Result<Vec<u8>, NetworkError> {
        call::call(&self.participant, service, request, within)
    }

    fn describe(&self) -> String {
        self.options.describe()
    }
}

/// The largest receive buffer that the kernel gives.
fn rmem_max_bytes() -> Option<usize> {
    #[expect(clippy::disallowed_methods, reason = "a value of the kernel's, not of a disk")]
    let text = std::fs::read_to_string("/proc/sys/net/core/rmem_max").ok()?;
    text.trim().parse().ok()
}

/// The known publishers of a subscription.
#[derive(Default)]
struct Following {
    sequences: Sequences,
    gone: HashSet<EndpointId>,
}

struct Subscribed {
    receiver: Arc<dyn Receiver>,
    graph: Arc<Graph>,
    /// Nothing once the subscription has been dropped. Held while the receiver is called, so that
    /// dropping waits for that.
    following: Mutex<Option<Following>>,
}

impl Subscribed {
    fn following(&self) -> MutexGuard<'_, Option<Following>> {
        self.following.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taker for Subscribed {
    fn take(&self, message: &Taken<'_>) {
        let mut following = self.following();
        let Some(following) = following.as_mut() else { return };
        if message.sequence > 0 {
            let told = following.sequences.take(message.publisher, message.sequence);
            if let Told::New { lost: lost @ 1.. } = told {
                self.receiver.lost(&message.publisher, lost);
            }
        }
        self.receiver.sample(&Sample {
            data: message.data,
            publish_time_nanos: message.publish_time_nanos,
            sequence: message.sequence,
            publisher: message.publisher,
        });
    }

    fn pass(&self, publisher: EndpointId, sequence: u64) {
        if let Some(following) = self.following().as_mut() {
            let told = following.sequences.take(publisher, sequence);
            if let Told::New { lost: lost @ 1.. } = told {
                self.receiver.lost(&publisher, lost);
            }
        }
    }

    fn refuse(&self) {
        self.graph.refuse();
    }

    // A publisher that is only temporarily out of reach returns with the messages lost meanwhile. So those that have
    // gone are forgotten late, many at a time.
    fn gone(&self, publisher: EndpointId) {
        let mut following = self.following();
        let Some(Following { sequences, gone }) = following.as_mut() else { return };
        gone.insert(publisher);
        if gone.len() > PUBLISHERS_GONE_MAX {
            sequences.keep(|publisher| !gone.contains(publisher));
            gone.clear();
        }
    }
}

struct DdsSubscription {
    state: Arc<Subscribed>,
    announcer: Arc<Announcer>,
    reader: Reader,
}

impl Subscription for DdsSubscription {}

impl Drop for DdsSubscription {
    fn drop(&mut self) {
        *self.state.following() = None;
        self.announcer.remove(self.reader.id());
    }
}

struct DdsPublication {
    name: String,
    announcer: Arc<Announcer>,
    writer: Writer,
}

impl Publication for DdsPublication {
    fn publish(&self, data: &[u8]) -> Result<(), NetworkError> {
        let wrong = |reason: String| Err(failed("publishing", &self.name, reason));
        // Readers of Cyclone DDS call such a packet malformed, and request it again forever.
        if !cyclone::is_encoded(data) {
            let start: Vec<_> = data.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            return wrong(format!(
                "{} bytes that begin with `{}` are no encoded message: expected an encapsulation of \
                 four bytes, such as `00 01 00 00` for CDR",
                data.len(),
                start.join(" ")
            ));
        }
        if data.len() > SAMPLE_BYTES_MAX {
            return wrong(format!(
                "a message of {} bytes; at most {SAMPLE_BYTES_MAX} can be published",
                data.len()
            ));
        }
        self.writer.write(data).map_err(|refusal| failed("publishing", &self.name, refusal))
    }

    fn subscriptions(&self) -> usize {
        self.writer.readers()
    }

    fn wait_for_acknowledgements(&self, within: Duration) -> bool {
        self.writer.wait_for_acknowledgements(within)
    }
}

impl Drop for DdsPublication {
    fn drop(&mut self) {
        self.announcer.remove(self.writer.id());
    }
}
