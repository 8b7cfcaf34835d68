//! Tells ROS 2 which endpoints belong to this node (`rmw_dds_common/msg/ParticipantEntitiesInfo`), so
//! that `ros2 node info` shows them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::cyclone::{Refusal, Writer};
use super::graph::Graph;
use crate::network::EndpointId;

/// What an endpoint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Reads,
    Writes,
}

/// Tells of this node.
pub struct Announcer {
    graph: Arc<Graph>,
    participant: EndpointId,
    namespace: String,
    name: String,
    writer: Writer,
    endpoints: Mutex<BTreeMap<EndpointId, Side>>,
}

impl Announcer {
    /// `node` is a full name: `/robot/recorder`.
    pub fn new(graph: Arc<Graph>, participant: EndpointId, node: &str, writer: Writer) -> Self {
        let (namespace, name) = node.rsplit_once('/').unwrap_or(("", node));
        let namespace = if namespace.is_empty() { "/" } else { namespace };
        Self {
            graph,
            participant,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            writer,
            endpoints: Mutex::default(),
        }
    }

    /// Announces another endpoint. A failed announcement is no reason to fail: the endpoint still works.
    pub fn add(&self, id: EndpointId, side: Side) {
        self.change(|endpoints| {
            endpoints.insert(id, side);
        });
    }

    /// Announces that an endpoint has gone.
    pub fn remove(&self, id: EndpointId) {
        self.change(|endpoints| {
            endpoints.remove(&id);
        });
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<EndpointId, Side>)) {
        let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut endpoints);
        let _ = self.writer.write(&self.message(&endpoints));
    }

    /// Announces the present endpoints.
    pub fn announce(&self) -> Result<(), Refusal> {
        let endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        self.writer.write(&self.message(&endpoints))
    }

    /// With identities as wide as the other nodes' are.
    fn message(&self, endpoints: &BTreeMap<EndpointId, Side>) -> Vec<u8> {
        let mut cdr = vec![0, 1, 0, 0];
        let count = |cdr: &mut Vec<u8>, count: usize| {
            cdr.resize(cdr.len().next_multiple_of(4), 0);
            cdr.extend_from_slice(&(count as u32).to_le_bytes());
        };
        let id_bytes = self.graph.id_bytes();
        let put_id = |cdr: &mut Vec<u8>, id: &EndpointId| {
            cdr.extend_from_slice(id);
            cdr.resize(cdr.len() + id_bytes - id.len(), 0);
        };
        put_id(&mut cdr, &self.participant);
        count(&mut cdr, 1);
        for text in [&self.namespace, &self.name] {
            count(&mut cdr, text.len() + 1);
            cdr.extend_from_slice(text.as_bytes());
            cdr.push(0);
        }
        for wanted in [Side::Reads, Side::Writes] {
            let ids = || endpoints.iter().filter(|&(_, &side)| side == wanted);
            count(&mut cdr, ids().count());
            for (id, _) in ids() {
                put_id(&mut cdr, id);
            }
        }
        cdr
    }
}
