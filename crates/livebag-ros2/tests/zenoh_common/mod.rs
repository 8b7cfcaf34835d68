//! Shared by tests over Zenoh: networks that meet at a socket, and peers that speak rmw_zenoh's protocol by hand, so
//! that they share no code with the tested one.
#![allow(dead_code, clippy::allow_attributes, reason = "each test binary uses a part")]

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use livebag_ros2::network::{
    Endpoint, EndpointId, Network, Receiver, Role, Sample, TopicRequest, ZenohNetwork, ZenohOptions,
};
use livebag_ros2::{Durability, History, Qos, Reliability};
use zenoh::Wait;

/// Longer than anything takes; reached only when a test fails.
pub const PATIENCE: Duration = Duration::from_secs(30);
pub const HASH: &str = "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18";
pub const LATCHED: Qos = Qos {
    reliability: Reliability::Reliable,
    durability: Durability::TransientLocal,
    history: History::KeepLast(3),
    deadline_nanos: Qos::FOREVER,
    lifespan_nanos: Qos::FOREVER,
    liveliness: livebag_ros2::Liveliness::Automatic,
    lease_nanos: Qos::FOREVER,
};

/// A place where sessions of one test meet.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn endpoint(&self) -> String {
        format!("unixsock-stream/{}", self.folder.path().join("socket").display())
    }

    pub fn listening(&self) -> ZenohOptions {
        ZenohOptions { listen: vec![self.endpoint()], ..Default::default() }
    }

    pub fn connecting(&self) -> ZenohOptions {
        connecting(&self.endpoint())
    }

    /// Two networks that have met.
    pub fn pair(&self) -> (ZenohNetwork, ZenohNetwork) {
        let one = join(&self.listening(), "one");
        let other = join(&self.connecting(), "other");
        (one, other)
    }

    /// A session that is no network of ours.
    pub fn peer(&self) -> zenoh::Session {
        peer(&self.endpoint())
    }
}

/// Connects to `endpoint`, and to the peers that are met there.
pub fn connecting(endpoint: &str) -> ZenohOptions {
    ZenohOptions {
        connect: vec![endpoint.to_owned()],
        overrides: vec![(
            "connect/retry".to_owned(),
            "{period_init_ms: 50, period_max_ms: 200, period_increase_factor: 2}".to_owned(),
        )],
        ..Default::default()
    }
}

pub fn join(options: &ZenohOptions, name: &str) -> ZenohNetwork {
    ZenohNetwork::join(options, name).unwrap()
}

pub fn peer(endpoint: &str) -> zenoh::Session {
    let mut config = zenoh::Config::default();
    for (key, value) in [
        ("listen/endpoints", "[]".to_owned()),
        ("connect/endpoints", format!("[\"{endpoint}\"]")),
        ("scouting/multicast/enabled", "false".to_owned()),
        ("timestamping/enabled", "true".to_owned()),
    ] {
        config.insert_json5(key, &value).unwrap();
    }
    zenoh::open(config).wait().unwrap()
}

pub fn topic(name: &str) -> TopicRequest {
    TopicRequest {
        name: name.to_owned(),
        type_name: "std_msgs/msg/String".to_owned(),
        type_hash: Some(HASH.to_owned()),
        qos: Qos::default(),
    }
}

/// The key of [`topic`] in domain 0.
pub fn key(name: &str) -> String {
    format!("0/{}/std_msgs::msg::dds_::String_/{HASH}", name.trim_start_matches('/'))
}

/// An attachment as rmw_zenoh serializes it.
pub fn attachment(sequence: i64, nanos: i64, publisher: EndpointId) -> zenoh::bytes::ZBytes {
    zenoh_ext::z_serialize(&(sequence, nanos, publisher))
}

/// A message of `length` bytes that begins as CDR and is like no other.
pub fn message(number: u32, length: usize) -> Vec<u8> {
    let mut data = vec![0, 1, 0, 0];
    let mut state = number.wrapping_mul(2_654_435_761) | 1;
    while data.len() < length {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        data.extend_from_slice(&state.to_le_bytes());
    }
    data.truncate(length);
    data
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub data: Vec<u8>,
    pub nanos: u64,
    pub sequence: u64,
    pub publisher: EndpointId,
}

/// Received samples.
#[derive(Default)]
pub struct Heard {
    state: Mutex<(Vec<Message>, u64)>,
    changed: Condvar,
}

impl Receiver for Heard {
    fn sample(&self, sample: &Sample<'_>) {
        self.state.lock().unwrap().0.push(Message {
            data: sample.data.to_vec(),
            nanos: sample.publish_time_nanos.unwrap_or(0),
            sequence: sample.sequence,
            publisher: sample.publisher,
        });
        self.changed.notify_all();
    }

    fn lost(&self, _publisher: &EndpointId, count: u64) {
        self.state.lock().unwrap().1 += count;
        self.changed.notify_all();
    }
}

impl Heard {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn messages(&self) -> Vec<Message> {
        self.state.lock().unwrap().0.clone()
    }

    pub fn lost_count(&self) -> u64 {
        self.state.lock().unwrap().1
    }

    pub fn sequences(&self) -> Vec<u64> {
        self.state.lock().unwrap().0.iter().map(|message| message.sequence).collect()
    }

    /// Waits until `is_there` is true of the received samples.
    pub fn wait(&self, what: &str, is_there: impl Fn(&[Message]) -> bool) {
        let state = self.state.lock().unwrap();
        let (state, timeout) =
            self.changed.wait_timeout_while(state, PATIENCE, |state| !is_there(&state.0)).unwrap();
        assert!(!timeout.timed_out(), "waited for {what}; there are {} messages", state.0.len());
    }

    pub fn wait_for(&self, count: usize) {
        self.wait(&format!("{count} messages"), |messages| messages.len() >= count);
    }
}

/// Waits until something is so.
pub fn until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(is_within(PATIENCE, is_so), "waited for {what}");
}

/// Whether something is so before `most` is over.
pub fn is_within(most: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let clock = livebag::Clock::system();
    while !is_so() {
        if clock.monotonic_nanos() >= most.as_nanos() as u64 {
            return false;
        }
        clock.sleep(Duration::from_millis(2));
    }
    true
}

/// Waits until the network knows such an endpoint of another process.
pub fn discovered(network: &dyn Network, role: Role, name: &str) -> Endpoint {
    let mut found = None;
    until(&format!("an endpoint of {name}"), || {
        let mut endpoints = network.endpoints();
        endpoints.retain(|one| one.role == role && one.name == name && !one.is_own);
        found = endpoints.pop();
        found.is_some()
    });
    found.unwrap()
}

/// Publishes until the first message is there: a publisher's first messages may leave before its
/// session knows of the subscription. Earlier samples are forgotten.
pub fn warmed(heard: &Heard, mut publish: impl FnMut()) {
    until("the way to be open", || {
        publish();
        !heard.messages().is_empty()
    });
}
