//! A network inside this process, with losses on demand: for tests of code that uses networks.
//!
//! Delivery is immediate: [`Publication::publish`] returns when every receiver has had the message.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use livebag::Clock;

use super::{
    Endpoint, EndpointId, Network, NetworkError, Publication, Receiver, Role, Sample, Sequences,
    ServiceRequest, Subscription, Told, TopicRequest, check_name, check_type_name,
};
use crate::qos::{Durability, History};

/// Answers a service's requests.
type Server = Box<dyn Fn(&[u8]) -> Vec<u8> + Send>;

/// State shared by all participants.
#[derive(Clone)]
pub struct SimulatedHub(Arc<Shared>);

struct Shared {
    clock: Clock,
    generation: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ids: u64,
    endpoints: Vec<(u64, Endpoint)>,
    receivers: Vec<(EndpointId, Arc<Inbox>)>,
    kept: BTreeMap<EndpointId, VecDeque<Kept>>,
    servers: BTreeMap<String, Server>,
    /// Messages of a topic still to be lost on their way.
    to_lose: BTreeMap<String, u64>,
}

/// A message kept for later subscriptions.
#[derive(Clone)]
struct Kept {
    data: Vec<u8>,
    publish_time_nanos: u64,
    sequence: u64,
}

struct Inbox {
    receiver: Arc<dyn Receiver>,
    sequences: Mutex<Sequences>,
}

impl Inbox {
    fn give(&self, kept: &Kept, publisher: EndpointId) {
        let mut sequences = self.sequences.lock().unwrap_or_else(PoisonError::into_inner);
        match sequences.take(publisher, kept.sequence) {
            Told::Old => return,
            Told::New { lost: 0 } => {}
            Told::New { lost } => self.receiver.lost(&publisher, lost),
        }
        self.receiver.sample(&Sample {
            data: &kept.data,
            publish_time_nanos: Some(kept.publish_time_nanos),
            sequence: kept.sequence,
            publisher,
        });
    }
}

impl SimulatedHub {
    /// An empty network.
    pub fn new(clock: Clock) -> Self {
        let shared = Shared { clock, generation: AtomicU64::new(0), state: Mutex::default() };
        Self(Arc::new(shared))
    }

    /// Takes part, as the node `node` (`/robot/driver`).
    pub fn join(&self, node: &str) -> SimulatedNetwork {
        let id = self.next_id();
        SimulatedNetwork { hub: self.clone(), id, node: node.to_owned() }
    }

    /// Loses the next `count` messages of a topic on their way.
    pub fn lose(&self, topic: &str, count: u64) {
        *self.state().to_lose.entry(topic.to_owned()).or_default() += count;
    }

    /// Answers a service.
    pub fn serve(&self, service: &str, server: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) {
        self.state().servers.insert(service.to_owned(), Box::new(server));
    }

    /// Announces an endpoint that does not exist, as malicious nodes might.
    pub fn announce(&self, endpoint: Endpoint) {
        self.state().endpoints.push((0, endpoint));
        self.changed();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_id(&self) -> u64 {
        let mut state = self.state();
        state.ids += 1;
        state.ids
    }

    fn changed(&self) {
        self.0.generation.fetch_add(1, Ordering::Release);
    }
}

/// A participant in a [`SimulatedHub`].
pub struct SimulatedNetwork {
    hub: SimulatedHub,
    id: u64,
    node: String,
}

impl SimulatedNetwork {
    fn add(&self, role: Role, request: &TopicRequest) -> Result<Endpoint, NetworkError> {
        check_name(&request.name)?;
        check_type_name(&request.type_name)?;
        let id = u128::from(self.hub.next_id()).to_le_bytes();
        let endpoint = Endpoint {
            id,
            role,
            name: request.name.clone(),
            type_name: request.type_name.clone(),
            type_hash: request.type_hash.clone(),
            qos: request.qos,
            node: self.node.clone(),
            is_own: false,
        };
        self.hub.state().endpoints.push((self.id, endpoint.clone()));
        self.hub.changed();
        Ok(endpoint)
    }
}

impl Network for SimulatedNetwork {
    fn generation(&self) -> u64 {
        self.hub.0.generation.load(Ordering::Acquire)
    }

    fn endpoints(&self) -> Vec<Endpoint> {
        let state = self.hub.state();
        let own = |owner: u64, endpoint: &Endpoint| {
            let mut endpoint = endpoint.clone();
            endpoint.is_own = owner == self.id;
            endpoint
        };
        state.endpoints.iter().map(|(owner, endpoint)| own(*owner, endpoint)).collect()
    }

    fn refused(&self) -> u64 {
        0
    }

    fn subscribe(
        &self,
        request: &TopicRequest,
        receiver: Arc<dyn Receiver>,
    ) -> Result<Box<dyn Subscription>, NetworkError> {
        let endpoint = self.add(Role::Subscription, request)?;
        let inbox = Arc::new(Inbox { receiver, sequences: Mutex::default() });
        let mut kept = Vec::new();
        {
            let mut state = self.hub.state();
            state.receivers.push((endpoint.id, inbox.clone()));
            if request.qos.durability == Durability::TransientLocal {
                let offers = |other: &Endpoint| is_match(other, &endpoint);
                let publishers = state.endpoints.iter().filter(|(_, other)| offers(other));
                for id in publishers.map(|(_, other)| other.id) {
                    let of_one = state.kept.get(&id).into_iter().flatten();
                    kept.extend(of_one.map(|message| (id, message.clone())));
                }
            }
        }
        kept.iter().for_each(|(publisher, message)| inbox.give(message, *publisher));
        Ok(Box::new(Held { hub: self.hub.clone(), id: endpoint.id }))
    }

    fn advertise(&self, request: &TopicRequest) -> Result<Box<dyn Publication>, NetworkError> {
        let endpoint = self.add(Role::Publisher, request)?;
        let held = Held { hub: self.hub.clone(), id: endpoint.id };
        Ok(Box::new(SimulatedPublication { held, endpoint, sequence: AtomicU64::new(0) }))
    }

    fn call(
        &self,
        service: &ServiceRequest<'_>,
        request: &[u8],
        within: Duration,
    ) -> Result<Vec<u8>, NetworkError> {
        match self.hub.state().servers.get(service.name) {
            Some(server) => Ok(server(request)),
            None => Err(NetworkError::NoAnswer { service: service.name.to_owned(), within }),
        }
    }

    fn describe(&self) -> String {
        "simulated".to_owned()
    }
}

/// An endpoint that goes with its holder.
struct Held {
    hub: SimulatedHub,
    id: EndpointId,
}

impl Subscription for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.hub.state();
        state.endpoints.retain(|(_, endpoint)| endpoint.id != self.id);
        state.receivers.retain(|(id, _)| *id != self.id);
        state.kept.remove(&self.id);
        drop(state);
        self.hub.changed();
    }
}

struct SimulatedPublication {
    held: Held,
    endpoint: Endpoint,
    sequence: AtomicU64,
}

impl SimulatedPublication {
    /// The receivers of its messages.
    fn inboxes(&self, state: &State) -> Vec<Arc<Inbox>> {
        let takers = state.endpoints.iter().filter(|(_, other)| is_match(&self.endpoint, other));
        let ids: Vec<_> = takers.map(|(_, other)| other.id).collect();
        let inboxes = state.receivers.iter().filter(|(id, _)| ids.contains(id));
        inboxes.map(|(_, inbox)| inbox.clone()).collect()
    }
}

impl Publication for SimulatedPublication {
    fn publish(&self, data: &[u8]) -> Result<(), NetworkError> {
        let message = Kept {
            data: data.to_vec(),
            publish_time_nanos: self.held.hub.0.clock.wall_nanos(),
            sequence: self.sequence.fetch_add(1, Ordering::Relaxed) + 1,
        };
        let mut state = self.held.hub.state();
        if self.endpoint.qos.durability == Durability::TransientLocal {
            let kept = state.kept.entry(self.endpoint.id).or_default();
            kept.push_back(message.clone());
            if let History::KeepLast(depth) = self.endpoint.qos.history
                && kept.len() > depth as usize
            {
                kept.pop_front();
            }
        }
        if let Some(left) = state.to_lose.get_mut(&self.endpoint.name).filter(|left| **left > 0) {
            *left -= 1;
            return Ok(());
        }
        let inboxes = self.inboxes(&state);
        drop(state);
        inboxes.iter().for_each(|inbox| inbox.give(&message, self.endpoint.id));
        Ok(())
    }

    fn subscriptions(&self) -> usize {
        self.inboxes(&self.held.hub.state()).len()
    }
}

fn is_match(publisher: &Endpoint, subscription: &Endpoint) -> bool {
    let both = [publisher, subscription].map(|endpoint| endpoint.type_hash.as_ref());
    let hashes_differ = matches!(both, [Some(a), Some(b)] if a != b);
    publisher.role == Role::Publisher
        && subscription.role == Role::Subscription
        && publisher.name == subscription.name
        && publisher.type_name == subscription.type_name
        && !hashes_differ
        && subscription.qos.is_served_by(&publisher.qos)
}
