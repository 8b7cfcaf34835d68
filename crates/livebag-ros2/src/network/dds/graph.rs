//! What discovery has found: endpoints, and which nodes have them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cyclone::{Discovered, Taken, Taker, TopicNames, is_keyed};
use super::names;
use crate::limits::{ENDPOINTS_MAX, NAME_BYTES_MAX};
use crate::network::{Endpoint, EndpointId, Role};

/// The topic on which ROS 2's middlewares tell the nodes of a participant and their endpoints.
pub const NODES_TOPIC: TopicNames<'_> =
    TopicNames::new("ros_discovery_info", "rmw_dds_common::msg::dds_::ParticipantEntitiesInfo_");

/// The hash of its type since Iron. Nodes warn about an endpoint of this topic that does not tell one.
pub const NODES_HASH: &str =
    "RIHS01_91a0593bacdcc50ea9bdcf849a938b128412cc1ea821245c663bcd26f83c295e";

/// Bytes of an identity in that topic, from Iron on,
const ID_BYTES: usize = 16;
/// and before.
const OLD_ID_BYTES: usize = 24;

/// The known graph.
#[derive(Debug)]
pub struct Graph {
    own_participant: EndpointId,
    has_foreign_topics: bool,
    known: Mutex<Known>,
    generation: AtomicU64,
    refused: AtomicU64,
    /// Bytes of an identity in what nodes tell.
    id_bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct Known {
    endpoints: HashMap<EndpointId, Endpoint>,
    /// The node of each endpoint, by the participant that announced it.
    nodes: HashMap<EndpointId, Nodes>,
    /// How many that are in all.
    nodes_count: usize,
}

impl Graph {
    pub fn new(own_participant: EndpointId, has_foreign_topics: bool) -> Self {
        Self {
            own_participant,
            has_foreign_topics,
            known: Mutex::default(),
            generation: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            id_bytes: AtomicUsize::new(ID_BYTES),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_changed(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// How wide identities are that the nodes tell: 16 bytes, or 24 where one is older than Iron.
    pub fn id_bytes(&self) -> usize {
        self.id_bytes.load(Ordering::Relaxed)
    }

    /// Counts something that broke a bound.
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes in what discovery found.
    pub fn discovered(&self, found: Discovered) {
        let Some(there) = found.there else {
            if self.known().endpoints.remove(&found.id).is_some() {
                self.has_changed();
            }
            return;
        };
        let foreign = || {
            let role = if found.is_writer { Role::Publisher } else { Role::Subscription };
            let is_builtin = there.topic.starts_with("DCPS") || there.topic == NODES_TOPIC.topic;
            let is_shown = self.has_foreign_topics
                && !is_builtin
                && !there.topic.starts_with("rr/")
                && !there.topic.starts_with("rq/");
            is_shown.then(|| (role, there.topic.clone(), there.type_name.clone()))
        };
        let Some((role, name, type_name)) =
            names::ros(&there.topic, &there.type_name, found.is_writer).or_else(foreign)
        else {
            return;
        };
        let endpoint = Endpoint {
            id: found.id,
            role,
            name,
            type_name,
            type_hash: names::type_hash(&there.user_data),
            qos: there.qos,
            node: String::new(),
            is_own: there.participant == self.own_participant,
        };
        let mut known = self.known();
        if known.endpoints.len() >= ENDPOINTS_MAX && !known.endpoints.contains_key(&found.id) {
            return self.refuse();
        }
        known.endpoints.insert(found.id, endpoint);
        self.has_changed();
    }

    /// Whether all known publishers of the topic have a key.
    pub fn is_keyed(&self, topic: &str) -> bool {
        let known = self.known();
        let of_topic = |found: &&Endpoint| found.role == Role::Publisher && found.name == topic;
        let mut publishers = known.endpoints.values().filter(of_topic).peekable();
        publishers.peek().is_some() && publishers.all(|found| is_keyed(&found.id))
    }

    /// Every endpoint, with its node.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let known = self.known();
        let nodes: HashMap<_, _> =
            known.nodes.values().flatten().map(|(node, id)| (*id, node)).collect();
        let mut endpoints: Vec<_> = known.endpoints.values().cloned().collect();
        for endpoint in &mut endpoints {
            if let Some(node) = nodes.get(&endpoint.id) {
                endpoint.node = node.to_string();
            }
        }
        endpoints
    }
}

/// Messages of the nodes' topic go into the graph.
impl Taker for Graph {
    fn take(&self, message: &Taken<'_>) {
        let Some((nodes, id_bytes)) = nodes(message.data) else { return self.refuse() };
        self.id_bytes.fetch_max(id_bytes, Ordering::Relaxed);
        let mut known = self.known();
        let before = known.nodes.get(&message.publisher).map_or(0, Vec::len);
        let count = known.nodes_count - before + nodes.len();
        if count > ENDPOINTS_MAX {
            return self.refuse();
        }
        known.nodes_count = count;
        known.nodes.insert(message.publisher, nodes);
        self.has_changed();
    }

    fn refuse(&self) {
        Graph::refuse(self);
    }

    fn gone(&self, publisher: EndpointId) {
        let mut known = self.known();
        if let Some(nodes) = known.nodes.remove(&publisher) {
            known.nodes_count -= nodes.len();
            self.has_changed();
        }
    }
}

/// Endpoints and the nodes that have them.
type Nodes = Vec<(Arc<str>, EndpointId)>;

/// Reads `rmw_dds_common/msg/ParticipantEntitiesInfo`. The width of identities is the one with which parsing ends at
/// the message's end.
fn nodes(message: &[u8]) -> Option<(Nodes, usize)> {
    let with = |id_bytes| Some((nodes_with(message, id_bytes)?, id_bytes));
    with(ID_BYTES).or_else(|| with(OLD_ID_BYTES))
}

fn nodes_with(message: &[u8], id_bytes: usize) -> Option<Nodes> {
    let (encapsulation, body) = message.split_at_checked(4)?;
    let mut cdr = Cdr { body, at: 0, is_little_endian: encapsulation[1] & 1 == 1 };
    cdr.bytes(id_bytes)?;
    let mut found = Vec::new();
    for _ in 0..cdr.count()? {
        let (namespace, name) = (cdr.string()?, cdr.string()?);
        let slash = if namespace.ends_with('/') { "" } else { "/" };
        let node: Arc<str> = format!("{namespace}{slash}{name}").into();
        // Its readers, then its writers.
        for _ in 0..2 {
            for _ in 0..cdr.count()? {
                let id = cdr.bytes(id_bytes)?.first_chunk::<16>()?;
                found.push((Arc::clone(&node), *id));
            }
        }
    }
    // The remaining bytes can only be padding.
    (cdr.body.len() - cdr.at < 4).then_some(found)
}

/// For the fuzzer.
#[cfg(any(test, fuzzing))]
pub fn read_foreign(message: &[u8]) {
    if let Some((nodes, id_bytes)) = nodes(message) {
        assert!(nodes.len() * id_bytes <= message.len());
    }
}

/// The subset of CDR that this message needs.
struct Cdr<'a> {
    body: &'a [u8],
    at: usize,
    is_little_endian: bool,
}

impl<'a> Cdr<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let found = self.body.get(self.at..)?.get(..count)?;
        self.at += count;
        Some(found)
    }

    /// A number of elements; each has a byte at least, so there cannot be more than bytes left.
    fn count(&mut self) -> Option<usize> {
        self.at = self.at.next_multiple_of(4);
        let bytes = *self.bytes(4)?.first_chunk::<4>()?;
        let count = match self.is_little_endian {
            true => u32::from_le_bytes(bytes),
            false => u32::from_be_bytes(bytes),
        } as usize;
        (count <= self.body.len() - self.at).then_some(count)
    }

    fn string(&mut self) -> Option<&'a str> {
        let count = self.count()?;
        let bytes = self.bytes(count)?;
        let text = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        (text.len() <= NAME_BYTES_MAX).then(|| std::str::from_utf8(text).ok())?
    }
}

#[cfg(test)]
mod tests {
    use livebag_format::definitions;

    use super::*;

    fn message(id_bytes: usize) -> Vec<u8> {
        let mut bytes = vec![0, 1, 0, 0];
        bytes.resize(4 + id_bytes, 7);
        let mut put = |part: &[u8], align: bool| {
            while align && bytes.len() % 4 != 0 {
                bytes.push(0);
            }
            bytes.extend_from_slice(part);
        };
        put(&1_u32.to_le_bytes(), true);
        for text in ["/robot\0", "driver\0"] {
            put(&(text.len() as u32).to_le_bytes(), true);
            put(text.as_bytes(), false);
        }
        for ids in [&[1_u8][..], &[2, 3]] {
            put(&(ids.len() as u32).to_le_bytes(), true);
            for &id in ids {
                put(&vec![id; id_bytes], false);
            }
        }
        bytes
    }

    #[test]
    fn the_hash_is_that_of_the_type_s_definition() {
        let line = "=".repeat(80);
        let definition = format!(
            "rmw_dds_common/Gid gid\nrmw_dds_common/NodeEntitiesInfo[] node_entities_info_seq\n\
             {line}\nMSG: rmw_dds_common/Gid\nchar[16] data\n\
             {line}\nMSG: rmw_dds_common/NodeEntitiesInfo\nstring<=256 node_namespace\n\
             string<=256 node_name\nrmw_dds_common/Gid[] reader_gid_seq\n\
             rmw_dds_common/Gid[] writer_gid_seq\n"
        );
        let hash = definitions::rihs01("rmw_dds_common/msg/ParticipantEntitiesInfo", &definition);
        assert_eq!(hash.as_deref(), Some(NODES_HASH));
    }

    #[test]
    fn nodes_are_read_as_old_and_new_distributions_tell_them() {
        for id_bytes in [16, 24] {
            let (found, width) = nodes(&message(id_bytes)).unwrap();
            assert_eq!(width, id_bytes);
            let ids: Vec<_> = found.iter().map(|(node, id)| (node.as_ref(), id[0])).collect();
            let node = "/robot/driver";
            assert_eq!(ids, [(node, 1), (node, 2), (node, 3)]);
        }
    }

    #[test]
    fn damaged_tellings_are_refused_and_nothing_worse() {
        let whole = message(16);
        for len in 0..whole.len() {
            assert!(nodes(&whole[..len]).is_none(), "{len}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] = 0xff;
            let _ = nodes(&damaged);
        }
        let graph = Graph::new([0; 16], false);
        let taken = Taken {
            data: b"\0\x01\0\0",
            publish_time_nanos: None,
            sequence: 1,
            publisher: [1; 16],
        };
        graph.take(&taken);
        assert_eq!(graph.refused(), 1);
    }
}
