//! Which publishers' messages pass through a subscription.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::network::{EndpointId, Receiver, Sample};

enum Rule {
    AllBut(HashSet<EndpointId>),
    Only(HashSet<EndpointId>),
}

/// A rule that may change while messages pass.
pub(super) struct Gate {
    /// No publisher is kept out, which is so for nearly all topics. It only decides whether the rule is checked, so it
    /// needs no order.
    is_open: AtomicBool,
    rule: RwLock<Rule>,
}

impl Gate {
    pub fn open() -> Self {
        let rule = RwLock::new(Rule::AllBut(HashSet::new()));
        Self { is_open: AtomicBool::new(true), rule }
    }

    pub fn pass_all_but(&self, publishers: HashSet<EndpointId>) {
        self.set(publishers.is_empty(), Rule::AllBut(publishers));
    }

    pub fn pass_only(&self, publishers: HashSet<EndpointId>) {
        self.set(false, Rule::Only(publishers));
    }

    fn set(&self, is_open: bool, rule: Rule) {
        *self.rule.write().unwrap_or_else(PoisonError::into_inner) = rule;
        self.is_open.store(is_open, Ordering::Relaxed);
    }

    fn passes(&self, publisher: &EndpointId) -> bool {
        if self.is_open.load(Ordering::Relaxed) {
            return true;
        }
        match &*self.rule.read().unwrap_or_else(PoisonError::into_inner) {
            Rule::AllBut(publishers) => !publishers.contains(publisher),
            Rule::Only(publishers) => publishers.contains(publisher),
        }
    }
}

/// A receiver behind a gate.
pub(super) struct Gated<R> {
    gate: Arc<Gate>,
    receiver: Arc<R>,
}

impl<R> Gated<R> {
    pub fn new(gate: Arc<Gate>, receiver: Arc<R>) -> Self {
        Self { gate, receiver }
    }
}

impl<R: Receiver> Receiver for Gated<R> {
    fn sample(&self, sample: &Sample<'_>) {
        if self.gate.passes(&sample.publisher) {
            self.receiver.sample(sample);
        }
    }

    fn lost(&self, publisher: &EndpointId, count: u64) {
        if self.gate.passes(publisher) {
            self.receiver.lost(publisher, count);
        }
    }
}
