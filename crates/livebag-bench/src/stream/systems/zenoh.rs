//! Zenoh with shared memory: one peer session per process over loopback, payloads from a POSIX
//! shared-memory provider, frames taken in the subscriber's callback, which is its fastest way.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use zenoh::Wait;
use zenoh::config::Config;
use zenoh::pubsub::Publisher as Port;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::shm::{
    BlockOn, GarbageCollect, PosixShmProviderBackend, ShmProvider, ShmProviderBuilder, ZShmMut,
    cleanup_orphaned_shm_segments,
};

use super::{Arrival, Publisher, Subscriber, take};
use crate::clock;
use crate::error::{BenchError, Result};
use crate::frame;
use crate::stream::RunOptions;

const SYSTEM: &str = "zenoh";

/// Frames that the provider has room for: one being filled, one under way, one held by each of the
/// slowest readers, and slack for its allocator.
const FRAMES_PROVIDED: usize = 6;

fn failed<E: std::fmt::Display>(doing: &'static str) -> impl Fn(E) -> BenchError {
    move |e| BenchError::system(SYSTEM, doing)(&e)
}

fn session(endpoint_key: &str, endpoint: &str) -> Result<zenoh::Session> {
    let mut config = Config::default();
    for (key, value) in [
        ("mode", "\"peer\"".to_owned()),
        ("scouting/multicast/enabled", "false".to_owned()),
        ("scouting/gossip/enabled", "false".to_owned()),
        ("listen/endpoints", "[]".to_owned()),
        ("transport/shared_memory/enabled", "true".to_owned()),
        ("transport/shared_memory/mode", "\"init\"".to_owned()),
        (endpoint_key, format!("[\"{endpoint}\"]")),
    ] {
        config.insert_json5(key, &value).map_err(failed("configuring a session"))?;
    }
    zenoh::open(config).wait().map_err(failed("opening a session"))
}

fn endpoint(options: &RunOptions) -> String {
    let path = options.scratch.join("zenoh.sock");
    format!("unixsock-stream/{}", path.display())
}

/// Sends frames from the provider's memory.
pub struct ZenohPublisher {
    port: Port<'static>,
    provider: ShmProvider<PosixShmProviderBackend>,
    payload_bytes: usize,
    _session: zenoh::Session,
}

impl ZenohPublisher {
    /// Listens for the readers' sessions.
    pub fn create(options: &RunOptions) -> Result<Self> {
        // Zenoh leaves its segments behind when a process ends; those of earlier runs go here.
        cleanup_orphaned_shm_segments();
        let session = session("listen/endpoints", &endpoint(options))?;
        let room = (options.payload_bytes + 4096) * FRAMES_PROVIDED;
        let provider = ShmProviderBuilder::default_backend(room)
            .wait()
            .map_err(failed("creating shared memory"))?;
        let port = session
            .declare_publisher(options.name.clone())
            .congestion_control(CongestionControl::Block)
            .priority(Priority::RealTime)
            .express(true)
            .wait()
            .map_err(failed("declaring a publisher"))?;
        Ok(Self { port, provider, payload_bytes: options.payload_bytes, _session: session })
    }

    fn alloc(&self) -> Result<ZShmMut> {
        self.provider
            .alloc(self.payload_bytes)
            .with_policy::<BlockOn<GarbageCollect>>()
            .wait()
            .map_err(failed("allocating shared memory"))
    }
}

impl Publisher for ZenohPublisher {
    fn publish_copy(&mut self, frame: &[u8]) -> Result<()> {
        let mut memory = self.alloc()?;
        memory.copy_from_slice(frame);
        self.port.put(memory).wait().map_err(failed("putting"))
    }

    fn publish_loan(&mut self, fill: &mut dyn FnMut(&mut [u8])) -> Result<u64> {
        let mut memory = self.alloc()?;
        fill(&mut memory);
        let sent_nanos = clock::monotonic_nanos();
        frame::stamp(&mut memory, sent_nanos);
        self.port.put(memory).wait().map_err(failed("putting"))?;
        Ok(sent_nanos)
    }
}

/// Takes frames in Zenoh's own receiving thread.
pub struct ZenohSubscriber {
    arrivals: Receiver<Option<Arrival>>,
    _subscriber: zenoh::pubsub::Subscriber<()>,
    _session: zenoh::Session,
}

impl ZenohSubscriber {
    /// Connects to the writer's session.
    pub fn open(options: &RunOptions) -> Result<Self> {
        let session = session("connect/endpoints", &endpoint(options))?;
        // Bounded by the run: the callback must not wait for the thread that counts.
        let (arrived, arrivals) = sync_channel((options.frames + options.warm_up + 16) as usize);
        let way = options.way;
        let mut buffer = vec![1; options.payload_bytes];
        let callback = move |sample: zenoh::sample::Sample| {
            let arrival = sample.payload().as_shm().map(|frame| {
                let (content, arrived_nanos) = take(way, frame, &mut buffer);
                Arrival { content, arrived_nanos, valid: true }
            });
            // The run has ended when no receiver counts any more.
            let _ = arrived.try_send(arrival);
        };
        let subscriber = session
            .declare_subscriber(options.name.clone())
            .callback_mut(callback)
            .wait()
            .map_err(failed("declaring a subscriber"))?;
        Ok(Self { arrivals, _subscriber: subscriber, _session: session })
    }
}

impl Subscriber for ZenohSubscriber {
    fn receive(&mut self, timeout_nanos: u64) -> Result<Option<Arrival>> {
        match self.arrivals.recv_timeout(Duration::from_nanos(timeout_nanos)) {
            Ok(Some(arrival)) => Ok(Some(arrival)),
            Ok(None) => Err(failed("receiving")("a payload came without shared memory")),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(failed("receiving")("the session ended")),
        }
    }
}
