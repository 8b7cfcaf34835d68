//! The processes: publisher, receiver, player, bridge.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use livebag::{Clock, PlayOptions, Player, Recorder, RecorderOptions, Selector};
use livebag_format::{cdr, definitions};
use livebag_ros2::network::dds::{DdsNetwork, DdsOptions, DiscoveryRange};
use livebag_ros2::network::{
    EndpointId, Network, Receiver, Role, Sample, TopicRequest, ZenohNetwork, ZenohOptions,
};
use livebag_ros2::{
    FollowOptions, Follower, History, Qos, QosOverrides, RosOutput, Selection, StreamSink, ToRos2,
};
use livebag_shm::Reader;
use serde::{Deserialize, Serialize};

use super::{Carrier, failed};
use crate::child;
use crate::clock;
use crate::error::{BenchError, Result};
use crate::stats::Durations;

/// The hidden verb of these processes.
pub const ROLE: &str = "ros2-party";
/// The topic of the images.
pub const TOPIC: &str = "/image";
/// Pause between two looks.
const LOOK_NANOS: u64 = 1_000_000;
/// Timeout of a party that waits for another.
const PATIENCE_NANOS: u64 = 60_000_000_000;

/// How a process joins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Way {
    /// What carries it.
    pub carrier: Carrier,
    /// Zenoh's endpoint.
    pub endpoint: String,
    /// Whether this process listens there; all others connect.
    pub listens: bool,
    /// DDS' domain.
    pub domain: u32,
}

/// A process's role.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Party {
    /// Publishes images when told to.
    Publish {
        /// Of the pixels.
        bytes: usize,
        /// 0: as fast as they go.
        hertz: f64,
        /// How long.
        seconds: f64,
    },
    /// Takes images and does nothing with them.
    Idle,
    /// Records everything.
    Record {
        /// The container to make.
        container: PathBuf,
    },
    /// Plays a recording.
    Play {
        /// The recording.
        container: PathBuf,
    },
    /// Publishes a stream.
    FromStream {
        /// Its name.
        name: String,
    },
    /// Makes streams of topics.
    ToStream {
        /// What their names begin with.
        prefix: String,
    },
}

/// The orders of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// How it joins.
    pub way: Way,
    /// Its role.
    pub party: Party,
}

/// A process's result.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// Messages published, or taken.
    pub messages: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Told as lost, by cause for a recorder.
    pub lost_transport: u64,
    /// See above.
    pub lost_queue: u64,
    /// See above.
    pub lost_disk: u64,
    /// From the first to the last message, or the time that publishing took.
    pub seconds: f64,
    /// From publishing to receiving.
    pub p50_us: Option<f64>,
    /// See above.
    pub p99_us: Option<f64>,
    /// Processor time of the process while it worked.
    pub cpu_s: f64,
}

fn join(way: &Way, node: &str) -> Result<Arc<dyn Network>> {
    match way.carrier {
        Carrier::Zenoh => {
            let mut options = ZenohOptions { domain: way.domain, ..ZenohOptions::default() };
            let endpoints = if way.listens { &mut options.listen } else { &mut options.connect };
            endpoints.push(way.endpoint.clone());
            let network = ZenohNetwork::join(&options, node).map_err(failed("joining Zenoh"))?;
            Ok(Arc::new(network))
        }
        Carrier::Dds => {
            let options = DdsOptions {
                domain: way.domain,
                range: DiscoveryRange::Localhost,
                ..DdsOptions::default()
            };
            let network = DdsNetwork::join(&options, node).map_err(failed("joining DDS"))?;
            Ok(Arc::new(network))
        }
    }
}

/// Executes the orders.
pub fn run(orders: &str) -> Result<()> {
    let Orders { way, party } = child::orders(orders)?;
    match party {
        Party::Publish { bytes, hertz, seconds } => publish(&way, bytes, hertz, seconds),
        Party::Idle => idle(&way),
        Party::Record { container } => record(&way, &container),
        Party::Play { container } => play(&way, &container),
        Party::FromStream { name } => from_stream(&way, &name),
        Party::ToStream { prefix } => to_stream(&way, &prefix),
    }
}

fn request() -> TopicRequest {
    TopicRequest {
        name: TOPIC.to_owned(),
        type_name: "sensor_msgs/msg/Image".to_owned(),
        type_hash: definitions::type_hash("sensor_msgs/msg/Image").map(str::to_owned),
        qos: Qos { history: History::KeepLast(10), ..Qos::default() },
    }
}

fn until(what: &'static str, mut condition: impl FnMut() -> bool) -> Result<()> {
    let began = clock::monotonic_nanos();
    while !condition() {
        if clock::monotonic_nanos() - began > PATIENCE_NANOS {
            return Err(BenchError::Child { role: ROLE.to_owned(), problem: what.to_owned() });
        }
        clock::sleep(LOOK_NANOS);
    }
    Ok(())
}

fn publish(way: &Way, bytes: usize, hertz: f64, seconds: f64) -> Result<()> {
    let network = join(way, "publisher")?;
    let publication = network.advertise(&request()).map_err(failed("offering a topic"))?;
    child::ready_and_wait()?;
    until("waited for a subscription", || publication.subscriptions() > 0)?;
    // Discovery may be ahead of the way itself.
    clock::sleep(500_000_000);
    let mut message = image(bytes);
    let pixels = message.len() - bytes;
    let began = clock::monotonic_nanos();
    let cpu = clock::process_cpu_nanos();
    let end = began + (seconds * 1e9) as u64;
    let mut sent = 0_u64;
    while clock::monotonic_nanos() < end {
        message[pixels..pixels + 8].copy_from_slice(&sent.to_le_bytes());
        publication.publish(&message).map_err(failed("publishing"))?;
        sent += 1;
        if hertz > 0.0 {
            clock::sleep_until(began + (sent as f64 * 1e9 / hertz) as u64);
        }
    }
    let found = Found {
        messages: sent,
        bytes: sent * message.len() as u64,
        seconds: (clock::monotonic_nanos() - began) as f64 / 1e9,
        cpu_s: (clock::process_cpu_nanos() - cpu) as f64 / 1e9,
        ..Found::default()
    };
    child::answer(&found)?;
    // Published messages stay until they have been taken.
    child::wait_for_go()
}

/// An image of this many bytes in one row, as CDR.
fn image(bytes: usize) -> Vec<u8> {
    let header = cdr::ImageHeader {
        stamp_nanos: clock::realtime_nanos(),
        frame_id: "camera",
        height: 1,
        width: bytes as u32,
        encoding: "mono8",
        is_bigendian: false,
        step: bytes as u32,
    };
    let mut message = Vec::new();
    cdr::image_prefix(&header, bytes as u32, &mut message);
    message.resize(message.len() + bytes, 7);
    message
}

#[derive(Default)]
struct Counted {
    messages: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    delays: Mutex<Vec<u64>>,
}

impl Receiver for Counted {
    fn sample(&self, sample: &Sample<'_>) {
        let now = clock::realtime_nanos();
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(sample.data.len() as u64, Ordering::Relaxed);
        let _ = self.first.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        self.last.store(now, Ordering::Relaxed);
        let mut delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
        delays.push(now.saturating_sub(sample.publish_time_nanos.unwrap_or(now)));
    }

    fn lost(&self, _: &EndpointId, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }
}

fn idle(way: &Way) -> Result<()> {
    let network = join(way, "idle")?;
    let counted = Arc::new(Counted::default());
    let subscription = network.subscribe(&request(), counted.clone());
    let subscription = subscription.map_err(failed("subscribing"))?;
    child::ready_and_wait()?;
    let cpu = clock::process_cpu_nanos();
    child::wait_for_go()?;
    drop(subscription);
    let delays = counted.delays.lock().unwrap_or_else(PoisonError::into_inner);
    let delays = Durations::of(delays.iter().copied());
    let [first, last] = [&counted.first, &counted.last].map(|at| at.load(Ordering::Relaxed));
    child::answer(&Found {
        messages: counted.messages.load(Ordering::Relaxed),
        bytes: counted.bytes.load(Ordering::Relaxed),
        lost_transport: counted.lost.load(Ordering::Relaxed),
        seconds: (last - first) as f64 / 1e9,
        p50_us: delays.percentile_us(50.0),
        p99_us: delays.percentile_us(99.0),
        cpu_s: (clock::process_cpu_nanos() - cpu) as f64 / 1e9,
        ..Found::default()
    })
}

/// Told of the next `go` without waiting for it.
fn told() -> Result<Arc<AtomicBool>> {
    let told = Arc::new(AtomicBool::new(false));
    let flag = told.clone();
    let thread = std::thread::Builder::new().name("bench-told".to_owned());
    let thread = thread.spawn(move || {
        // An error is the parent's end, which ends this too.
        let _ = child::wait_for_go();
        flag.store(true, Ordering::Relaxed);
    });
    thread.map_err(|e| BenchError::io("starting a thread", e))?;
    Ok(told)
}

fn follow(network: Arc<dyn Network>) -> Result<Follower> {
    let options = FollowOptions { selection: Selection::all(), ..FollowOptions::default() };
    Follower::begin(network, options).map_err(|e| BenchError::io("starting a thread", e))
}

fn record(way: &Way, container: &std::path::Path) -> Result<()> {
    let network = join(way, "recorder")?;
    let recorder = Recorder::create(container, RecorderOptions::default());
    let recorder = recorder.map_err(failed("making a container"))?;
    let mut follower = follow(network)?;
    child::ready_and_wait()?;
    let cpu = clock::process_cpu_nanos();
    let told = told()?;
    while !told.load(Ordering::Relaxed) {
        follower.look(&recorder);
        clock::sleep(10 * LOOK_NANOS);
    }
    follower.finish(&recorder);
    let status = recorder.finish().map_err(failed("closing the container"))?;
    let (messages, bytes, lost) = status.totals();
    child::answer(&Found {
        messages,
        bytes,
        lost_transport: lost.transport,
        lost_queue: lost.queue,
        lost_disk: lost.disk + lost.lapped,
        cpu_s: (clock::process_cpu_nanos() - cpu) as f64 / 1e9,
        ..Found::default()
    })
}

fn play(way: &Way, container: &std::path::Path) -> Result<()> {
    let network = join(way, "player")?;
    let mut output = RosOutput::new(network.clone());
    let options = PlayOptions { clock: Clock::system(), ..PlayOptions::default() };
    let player = Player::open(&[container], options, &mut output);
    let mut player = player.map_err(failed("opening the recording"))?;
    child::ready_and_wait()?;
    let is_taken =
        || network.endpoints().iter().any(|one| one.role == Role::Subscription && !one.is_own);
    until("waited for a subscription", is_taken)?;
    clock::sleep(500_000_000);
    let began = clock::monotonic_nanos();
    let status = player.run(&mut |_| {}).map_err(failed("playing"))?;
    child::answer(&Found {
        messages: status.messages,
        bytes: status.bytes,
        seconds: (clock::monotonic_nanos() - began) as f64 / 1e9,
        ..Found::default()
    })?;
    child::wait_for_go()
}

fn from_stream(way: &Way, name: &str) -> Result<()> {
    let network = join(way, "to_ros2")?;
    let reader = Reader::open(name).map_err(failed("opening the stream"))?;
    let bridge = ToRos2::begin(&*network, reader, None, &QosOverrides::default(), Clock::system());
    let bridge = bridge.map_err(failed("publishing the stream"))?;
    child::ready_and_wait()?;
    child::wait_for_go()?;
    let counts = bridge.counts();
    child::answer(&Found {
        messages: counts.messages,
        bytes: counts.bytes,
        lost_transport: counts.lost,
        ..Found::default()
    })
}

fn to_stream(way: &Way, prefix: &str) -> Result<()> {
    let network = join(way, "from_ros2")?;
    let sink = StreamSink::new(prefix, Default::default(), Clock::system());
    let options = FollowOptions {
        selection: Selection { selectors: vec![Selector::all()], ..Selection::default() },
        ..FollowOptions::default()
    };
    let follower = Follower::begin(network, options);
    let mut follower = follower.map_err(|e| BenchError::io("starting a thread", e))?;
    child::ready_and_wait()?;
    let told = told()?;
    while !told.load(Ordering::Relaxed) {
        follower.look(&sink);
        clock::sleep(10 * LOOK_NANOS);
    }
    follower.finish(&sink);
    let counts = sink.counts();
    child::answer(&Found {
        messages: counts.iter().map(|(_, counts)| counts.messages).sum(),
        lost_transport: counts.iter().map(|(_, counts)| counts.lost).sum(),
        ..Found::default()
    })
}
