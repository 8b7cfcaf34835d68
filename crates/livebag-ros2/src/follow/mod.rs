//! From ROS 2 topics into a [`Sink`]: a recorder, or streams.
//!
//! [`Follower::look`] reads the graph, as often as its caller likes, and turns it into:
//!
//! - a *channel* for each topic, type and hash that is selected: a topic of the sink. A type that
//!   changes is another channel of the same name;
//! - for each channel its *lines*: subscriptions whose QoS fits a part of its publishers. Reliable and
//!   best-effort publishers of one topic have a line each, so that neither costs the other anything;
//! - for each line a *gate*: a message passes if its publisher is one of the line's, so that no message
//!   is recorded twice.
//!
//! Subscriptions begin before the definition of the type is known: messages wait in their
//! channel until it is ([`inlet`]).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use livebag::{Clock, Topic};
use livebag_format::rosbag2::{QosProfile, QosStyle};

use crate::limits::{LOOK_MAX, NOTICES_MAX};
use crate::network::{Endpoint, EndpointId, Network, Role, Subscription, TopicRequest};
use crate::qos::{Durability, Qos, QosOverrides, Reliability, adapt};
use crate::types::{Answer, Definition, Installed, TypeResolver, Wanted};

mod gate;
mod inlet;
mod selection;
mod sim_time;
mod sink;

pub use selection::Selection;
pub use sink::{Sink, SinkTopic};

use gate::{Gate, Gated};
use inlet::Inlet;
use sim_time::SimTime;

/// How to follow. Use `..FollowOptions::default()` for the others.
#[derive(Clone, Debug)]
pub struct FollowOptions {
    /// Which topics.
    pub selection: Selection,
    /// QoS of subscriptions, where it is not to follow what publishers offer.
    pub overrides: QosOverrides,
    /// Take log times from `/clock`; recording begins with its first message.
    pub use_sim_time: bool,
    /// Follow topics that appear within this time after the first poll, and none later.
    pub discover_for: Option<Duration>,
    /// Where definitions are searched for.
    pub installed: Installed,
    /// Where time comes from.
    pub clock: Clock,
}

impl Default for FollowOptions {
    fn default() -> Self {
        Self {
            selection: Selection::default(),
            overrides: QosOverrides::default(),
            use_sim_time: false,
            discover_for: None,
            installed: Installed::from_environment(),
            clock: Clock::system(),
        }
    }
}

/// A channel: one topic of the sink.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    name: String,
    type_name: String,
    type_hash: Option<String>,
}

struct Channel {
    inlet: Arc<Inlet>,
    lines: Vec<Line>,
    /// A search for its definition that has not ended.
    wanted: Option<Wanted>,
    /// Offers of its publishers, as they are recorded.
    offers: Vec<Qos>,
    /// It cannot be subscribed to or recorded, and has been said to.
    is_refused: bool,
}

struct Line {
    qos: Qos,
    gate: Arc<Gate>,
    _subscription: Box<dyn Subscription>,
}

/// Lines that may get each other's messages: those of a name, a type and perhaps a hash.
type OfType<'a> = (&'a str, &'a str, Option<&'a str>);
/// A publisher, and the gate that its messages pass.
type Served<'a> = (EndpointId, &'a Arc<Gate>);

/// Follows the topics of a network into a sink.
pub struct Follower {
    // Ends before the network that it asks.
    resolver: TypeResolver,
    network: Arc<dyn Network>,
    options: FollowOptions,
    channels: BTreeMap<Key, Channel>,
    sim_time: Option<Arc<SimTime>>,
    clock_subscription: Option<Box<dyn Subscription>>,
    /// Generation of the graph at the last look.
    generation: Option<u64>,
    first_look_nanos: Option<u64>,
    refused: u64,
    notices: Vec<String>,
    said: BTreeSet<String>,
}

impl Follower {
    /// Follows nothing yet.
    ///
    /// # Errors
    /// If there can be no thread that asks nodes for definitions.
    pub fn begin(network: Arc<dyn Network>, options: FollowOptions) -> io::Result<Self> {
        let resolver = TypeResolver::begin(network.clone(), options.installed.clone())?;
        let sim_time = options.use_sim_time.then(Arc::default);
        Ok(Self {
            resolver,
            network,
            options,
            channels: BTreeMap::new(),
            sim_time,
            clock_subscription: None,
            generation: None,
            first_look_nanos: None,
            refused: 0,
            notices: Vec::new(),
            said: BTreeSet::new(),
        })
    }

    /// Reads the graph: new selected topics are recorded from now on. Cheap if nothing has changed. Call it some ten
    /// times a second.
    pub fn look(&mut self, sink: &dyn Sink) {
        if !self.has_time() {
            return;
        }
        for (wanted, definition) in self.resolver.answers() {
            self.take_answer(sink, &wanted, &definition);
        }
        let generation = self.network.generation();
        if self.generation == Some(generation) {
            return;
        }
        let now = self.options.clock.monotonic_nanos();
        let first = *self.first_look_nanos.get_or_insert(now);
        let patience = self.options.discover_for.map(|time| time.as_nanos() as u64);
        if patience.is_some_and(|nanos| now - first > nanos) {
            return;
        }
        self.generation = Some(generation);
        let endpoints = self.network.endpoints();
        self.say_refusals();
        let mut publishers: BTreeMap<Key, Vec<&Endpoint>> = BTreeMap::new();
        for endpoint in self.options.selection.choose(&endpoints) {
            let key = Key {
                name: endpoint.name.clone(),
                type_name: endpoint.type_name.clone(),
                type_hash: endpoint.type_hash.clone(),
            };
            publishers.entry(key).or_default().push(endpoint);
        }
        self.say_changes_of_type(publishers.keys());
        for (number, (key, publishers)) in publishers.iter().enumerate() {
            let took = self.options.clock.monotonic_nanos().saturating_sub(now);
            if number > 0 && took > LOOK_MAX.as_nanos() as u64 {
                // The rest at the next poll: the caller has other work.
                self.generation = None;
                break;
            }
            self.follow(sink, key, publishers);
        }
        self.set_gates(&publishers);
    }

    /// Notices since the last call, as sentences, each once.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Whether a topic of this name is being recorded.
    pub fn follows(&self, name: &str) -> bool {
        self.channels.iter().any(|(key, channel)| key.name == name && !channel.is_refused)
    }

    /// Leaves the network and ends every subscription; what waits for a definition is recorded without one.
    pub fn finish(mut self, sink: &dyn Sink) -> Vec<String> {
        // All at once: one by one, thousands of them take Zenoh minutes.
        self.network.leave();
        for channel in self.channels.values_mut() {
            channel.lines.clear();
        }
        for (key, channel) in std::mem::take(&mut self.channels) {
            if channel.wanted.is_some() {
                let definition = Definition::unknown(
                    key.type_hash.as_deref(),
                    format!("the recording ended before the definition of {} came", key.type_name),
                );
                self.open(sink, &key, &channel, &definition);
            }
        }
        self.take_notices()
    }

    /// Whether there is a time to record with.
    fn has_time(&mut self) -> bool {
        let Some(sim_time) = &self.sim_time else { return true };
        if self.clock_subscription.is_none() {
            let subscribed = self.network.subscribe(&SimTime::request(), sim_time.clone());
            match subscribed {
                Ok(subscription) => self.clock_subscription = Some(subscription),
                Err(error) => self.say(error.to_string()),
            }
        }
        let is_known = self.sim_time.as_ref().is_some_and(|time| time.now_nanos().is_some());
        if !is_known {
            self.say("waiting for /clock: recording begins with its first message".to_owned());
        }
        is_known
    }

    fn say(&mut self, notice: String) {
        if self.said.len() < NOTICES_MAX && self.said.insert(notice.clone()) {
            self.notices.push(notice);
        }
    }

    fn say_refusals(&mut self) {
        let refused = self.network.refused();
        if refused > self.refused && self.refused == 0 {
            self.say(
                "the network announces things that cannot be (names too long or not ROS 2's, broken \
                 messages): they are left out"
                    .to_owned(),
            );
        }
        self.refused = refused;
    }

    /// A name with more than one type or hash.
    fn say_changes_of_type<'a>(&mut self, keys: impl Iterator<Item = &'a Key>) {
        let mut by_name: BTreeMap<&str, &Key> = BTreeMap::new();
        let mut notices = Vec::new();
        for key in keys {
            let Some(other) = by_name.insert(&key.name, key) else { continue };
            let what = match other.type_name == key.type_name {
                true => format!("{} with definitions that differ", key.type_name),
                false => format!("{} and as {}", other.type_name, key.type_name),
            };
            notices
                .push(format!("{} is published as {what}: each is recorded by itself", key.name));
        }
        notices.into_iter().for_each(|notice| self.say(notice));
    }

    /// Sees to it that every publisher of a channel is served by a line.
    fn follow(&mut self, sink: &dyn Sink, key: &Key, publishers: &[&Endpoint]) {
        if !self.channels.contains_key(key) {
            self.add_channel(sink, key, publishers);
        }
        let Some(channel) = self.channels.get_mut(key).filter(|channel| !channel.is_refused) else {
            return;
        };
        let is_overridden = self.options.overrides.has(&key.name);
        let mut refusal = None;
        let mut unserved: BTreeMap<(bool, bool), Vec<Qos>> = BTreeMap::new();
        for publisher in publishers {
            let offer = publisher.qos;
            if is_overridden && !channel.lines.is_empty() {
                continue;
            }
            if !channel.lines.iter().any(|line| line.fits(&offer)) {
                unserved.entry(kind(&offer)).or_default().push(offer);
            }
        }
        if is_overridden && !unserved.is_empty() {
            // One subscription with the user's QoS.
            unserved = BTreeMap::from([((true, true), unserved.into_values().flatten().collect())]);
        }
        for offers in unserved.values() {
            let qos = self.options.overrides.apply(&key.name, adapt(offers));
            let request = TopicRequest {
                name: key.name.clone(),
                type_name: key.type_name.clone(),
                type_hash: key.type_hash.clone(),
                qos,
            };
            let gate = Arc::new(Gate::open());
            let receiver = Arc::new(Gated::new(gate.clone(), channel.inlet.clone()));
            match self.network.subscribe(&request, receiver) {
                Ok(subscription) => {
                    channel.lines.push(Line { qos, gate, _subscription: subscription });
                }
                Err(error) => refusal = Some(error.to_string()),
            }
        }
        channel.is_refused = channel.lines.is_empty() && refusal.is_some();
        let unheard = publishers.iter().filter(|_| is_overridden).find(|publisher| {
            !channel.lines.iter().any(|line| line.qos.is_served_by(&publisher.qos))
        });
        if let Some(publisher) = unheard {
            let node = &publisher.node;
            refusal = Some(format!(
                "the QoS asked for {} is more than {node} offers: its messages do not come",
                key.name
            ));
        }
        refusal.into_iter().for_each(|notice| self.say(notice));
    }

    fn add_channel(&mut self, sink: &dyn Sink, key: &Key, publishers: &[&Endpoint]) {
        let inlet = Arc::new(Inlet::new(self.options.clock.clone(), self.sim_time.clone()));
        let node = publishers.iter().map(|publisher| publisher.node.clone());
        let wanted = Wanted {
            type_name: key.type_name.clone(),
            type_hash: key.type_hash.clone(),
            node: node.max().unwrap_or_default(),
        };
        let mut offers: Vec<Qos> = Vec::new();
        let offered = publishers.iter().filter(|publisher| publisher.role == Role::Publisher);
        offers.extend(offered.map(|publisher| publisher.qos));
        let mut channel =
            Channel { inlet, lines: Vec::new(), wanted: None, offers, is_refused: false };
        match self.resolver.find(&wanted) {
            Answer::Here(definition) => {
                channel.is_refused = !self.open(sink, key, &channel, &definition);
            }
            Answer::Asked => channel.wanted = Some(wanted),
        }
        self.channels.insert(key.clone(), channel);
    }

    fn take_answer(&mut self, sink: &dyn Sink, wanted: &Wanted, definition: &Definition) {
        let mut channels = std::mem::take(&mut self.channels);
        for (key, channel) in &mut channels {
            if channel.wanted.as_ref() == Some(wanted) {
                channel.wanted = None;
                channel.is_refused = !self.open(sink, key, channel, definition);
            }
        }
        self.channels = channels;
    }

    /// Gives a channel its topic of the sink; whether that went well.
    fn open(
        &mut self,
        sink: &dyn Sink,
        key: &Key,
        channel: &Channel,
        definition: &Definition,
    ) -> bool {
        definition.warning.iter().for_each(|warning| self.say(warning.clone()));
        match sink.open(topic_of(key, &channel.offers, definition)) {
            Ok(topic) => {
                channel.inlet.open(topic);
                true
            }
            Err(error) => {
                self.say(format!("{} is left out: {error}", key.name));
                false
            }
        }
    }

    /// Says which publishers' messages pass through which line. A publisher that the graph does not show yet, or that
    /// has another id there, passes through the first line with its name and type; if the network distinguishes hashes,
    /// also with its hash.
    fn set_gates(&mut self, publishers: &BTreeMap<Key, Vec<&Endpoint>>) {
        let mut served: BTreeMap<OfType<'_>, Vec<Served<'_>>> = BTreeMap::new();
        let mut gates: BTreeMap<OfType<'_>, Vec<&Arc<Gate>>> = BTreeMap::new();
        // A subscription without a hash takes messages of all.
        let unhashed = self.channels.keys().filter(|key| key.type_hash.is_none());
        let unhashed: BTreeSet<_> = unhashed.map(|key| (&key.name, &key.type_name)).collect();
        for (key, channel) in &self.channels {
            let is_apart = self.network.tells_hashes_apart()
                && !unhashed.contains(&(&key.name, &key.type_name));
            let hash = key.type_hash.as_deref().filter(|_| is_apart);
            let of_type = (key.name.as_str(), key.type_name.as_str(), hash);
            gates.entry(of_type).or_default().extend(channel.lines.iter().map(|line| &line.gate));
            for publisher in publishers.get(key).into_iter().flatten() {
                let line = channel.lines.iter().find(|line| line.fits(&publisher.qos));
                let line = line.or(channel.lines.first());
                if let Some(line) = line {
                    served.entry(of_type).or_default().push((publisher.id, &line.gate));
                }
            }
        }
        for (of_type, gates) in gates {
            let empty = Vec::new();
            let served = served.get(&of_type).unwrap_or(&empty);
            for (number, gate) in gates.into_iter().enumerate() {
                let (own, others): (Vec<_>, Vec<_>) =
                    served.iter().partition(|(_, line)| Arc::ptr_eq(line, gate));
                let ids = |pairs: Vec<&Served<'_>>| {
                    pairs.into_iter().map(|(id, _)| *id).collect::<HashSet<_>>()
                };
                match number {
                    0 => gate.pass_all_but(ids(others)),
                    _ => gate.pass_only(ids(own)),
                }
            }
        }
    }
}

impl Line {
    /// Whether the line receives all that a publisher offers, with its offered QoS.
    fn fits(&self, offer: &Qos) -> bool {
        self.qos.is_served_by(offer) && kind(&self.qos) == kind(offer)
    }
}

/// Publishers of one kind share a line: whether they are reliable, and whether they keep messages.
fn kind(qos: &Qos) -> (bool, bool) {
    (qos.reliability == Reliability::Reliable, qos.durability == Durability::TransientLocal)
}

/// The topic, as a recording knows it.
fn topic_of(key: &Key, offers: &[Qos], definition: &Definition) -> Topic {
    let mut topic = Topic {
        name: key.name.clone(),
        type_name: key.type_name.clone(),
        message_encoding: "cdr".to_owned(),
        schema_encoding: definition.schema_encoding.clone(),
        schema: definition.schema.clone(),
        ..Topic::default()
    };
    let mut profiles: Vec<QosProfile> = Vec::new();
    for offer in offers.iter().map(Qos::to_profile) {
        if !profiles.contains(&offer) {
            profiles.push(offer);
        }
    }
    for (name, value) in [
        ("offered_qos_profiles", QosProfile::write_list(&profiles, QosStyle::Numbers)),
        ("topic_type_hash", definition.type_hash.clone()),
    ] {
        if !value.is_empty() {
            topic.metadata.insert(name.to_owned(), value);
        }
    }
    topic
}
