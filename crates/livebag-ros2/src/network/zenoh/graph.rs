//! The known state of the network: endpoints by their announcements.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::{Endpoint, EndpointId, Role};
use super::token::{self, Announced};
use crate::limits::ENDPOINTS_MAX;

/// Endpoints announced at the moment, and those left out.
#[derive(Debug)]
pub(super) struct Graph {
    own_session: String,
    endpoints: Mutex<HashMap<EndpointId, Endpoint>>,
    generation: AtomicU64,
    refused: AtomicU64,
}

impl Graph {
    pub(super) fn new(own_session: String) -> Self {
        Self {
            own_session,
            endpoints: Mutex::default(),
            generation: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Takes an announcement. Those of this session are not learned from the network, where anybody
    /// could make them.
    pub(super) fn announced(&self, token: &str) {
        match token::parse(token) {
            Some(Announced::Endpoint { session, endpoint }) if session != self.own_session => {
                if !self.insert(endpoint) {
                    self.refuse();
                }
            }
            Some(_) => {}
            None => self.refuse(),
        }
    }

    /// Takes the end of an announcement.
    pub(super) fn withdrawn(&self, token: &str) {
        let id = super::names::endpoint_id(token);
        let mut endpoints = self.locked();
        if endpoints.get(&id).is_some_and(|endpoint| !endpoint.is_own) {
            endpoints.remove(&id);
            drop(endpoints);
            self.changed();
        }
    }

    /// Adds an endpoint of this session, which leaves when the handle is dropped.
    pub(super) fn own(self: &Arc<Self>, endpoint: Endpoint) -> Own {
        let id = endpoint.id;
        self.locked().insert(id, endpoint);
        self.changed();
        Own { graph: self.clone(), id }
    }

    fn insert(&self, endpoint: Endpoint) -> bool {
        let mut endpoints = self.locked();
        if endpoints.len() >= ENDPOINTS_MAX && !endpoints.contains_key(&endpoint.id) {
            return false;
        }
        let before = endpoints.insert(endpoint.id, endpoint);
        drop(endpoints);
        if before.is_none() {
            self.changed();
        }
        true
    }

    pub(super) fn endpoints(&self) -> Vec<Endpoint> {
        self.locked().values().cloned().collect()
    }

    pub(super) fn has(&self, id: &EndpointId) -> bool {
        self.locked().contains_key(id)
    }

    /// Endpoints of a role that `filter` accepts.
    pub(super) fn count(&self, role: Role, filter: impl Fn(&Endpoint) -> bool) -> usize {
        let endpoints = self.locked();
        endpoints.values().filter(|endpoint| endpoint.role == role && filter(endpoint)).count()
    }

    /// The hash of a topic's or service's type that an endpoint of `role` tells.
    pub(super) fn type_hash(&self, role: Role, name: &str, type_name: &str) -> Option<String> {
        let endpoints = self.locked();
        let is_it = |endpoint: &&Endpoint| {
            endpoint.role == role && endpoint.name == name && endpoint.type_name == type_name
        };
        endpoints.values().filter(is_it).find_map(|endpoint| endpoint.type_hash.clone())
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts something that was left out.
    pub(super) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<EndpointId, Endpoint>> {
        // Every change is one call of the map's.
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An endpoint of this session, while it exists.
#[derive(Debug)]
pub(super) struct Own {
    graph: Arc<Graph>,
    id: EndpointId,
}

impl Drop for Own {
    fn drop(&mut self) {
        self.graph.locked().remove(&self.id);
        self.graph.changed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(session: &str, number: usize) -> String {
        format!("@ros2_lv/0/{session}/0/{number}/MP/%/%/n/%t/p::msg::dds_::T_/h/::,:,:,:,,")
    }

    #[test]
    fn endpoints_come_and_go() {
        let graph = Graph::new("0e".into());
        graph.announced(&token("a", 1));
        let generation = graph.generation();
        graph.announced(&token("a", 1));
        graph.announced("@ros2_lv/0/a/0/0/NN/%/%/n");
        assert_eq!((graph.endpoints().len(), graph.generation()), (1, generation));
        graph.withdrawn(&token("a", 2));
        assert_eq!(graph.generation(), generation);
        graph.withdrawn(&token("a", 1));
        assert_eq!(graph.endpoints().len(), 0);
        assert_ne!(graph.generation(), generation);
        assert_eq!(graph.refused(), 0);
    }

    #[test]
    fn nobody_announces_or_withdraws_for_this_session() {
        let graph = Arc::new(Graph::new("0e".into()));
        graph.announced(&token("0e", 1));
        assert_eq!(graph.endpoints().len(), 0);
        let Some(Announced::Endpoint { endpoint, .. }) = token::parse(&token("0e", 2)) else {
            panic!("a token");
        };
        let own = graph.own(Endpoint { is_own: true, ..endpoint });
        graph.withdrawn(&token("0e", 2));
        assert_eq!(graph.endpoints().len(), 1);
        drop(own);
        assert_eq!(graph.endpoints().len(), 0);
    }

    #[test]
    fn a_flood_of_announcements_is_bounded_and_counted() {
        let graph = Graph::new("0e".into());
        for number in 0..ENDPOINTS_MAX + 10 {
            graph.announced(&token("a", number));
        }
        graph.announced("nonsense");
        assert_eq!(graph.endpoints().len(), ENDPOINTS_MAX);
        assert_eq!(graph.refused(), 11);
    }
}
