//! The producing process of a run with transport: publishers into livebag streams.

use livebag_bench::clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use livebag_shm::{FrameMeta, StreamOptions, Writer};
use serde::{Deserialize, Serialize};

use super::producers::{Group, Published};
use super::recording::Orders;
use super::roles::Parent;
use super::schedule::{self, Intake, Schedule};
use crate::outcome::CliError;
use livebag_bench::stats::Percentiles;
use livebag_bench::usage;

/// Minimum history of a stream, in seconds: how long the recorder may be kept from running.
const HISTORY_S: f64 = 0.25;

/// The producing process's result.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Produced {
    /// Messages that their stream refused.
    pub refused: u64,
    /// How long the publishing calls took.
    pub submit: Option<Percentiles>,
    /// Processor time.
    pub cpu_s: f64,
    /// From the first message's due time to the last call's end.
    pub seconds: f64,
}

/// Publishes, reports the result to the parent, and keeps the streams until the parent ends it.
pub fn run(orders: &Orders, parent: &mut Parent) -> Result<(), CliError> {
    usage::pin(&orders.producers_affinity)?;
    let topics = orders.producers.topics();
    let streams = Streams::create(orders, &topics)?;
    let messages = orders.producers.payloads();
    let start_nanos = parent.ready_and_go()?;
    let cpu_nanos = clock::process_cpu_nanos();
    let schedule = Schedule::new(&topics, start_nanos);
    let affinity = &orders.producers_affinity;
    let submit = schedule::publish(&orders.producers, &messages, &schedule, affinity, &streams)?;
    parent.answer(&Produced {
        refused: streams.refused.load(Ordering::Relaxed),
        submit: submit.percentiles(),
        cpu_s: (clock::process_cpu_nanos() - cpu_nanos) as f64 / 1e9,
        seconds: clock::monotonic_nanos().saturating_sub(start_nanos) as f64 / 1e9,
    })?;
    parent.wait_for_stop()
}

struct Streams {
    writers: Vec<Mutex<Writer>>,
    refused: AtomicU64,
}

impl Streams {
    fn create(orders: &Orders, topics: &[Published]) -> Result<Self, CliError> {
        let groups = &orders.producers.groups;
        let bytes: Vec<_> = groups.iter().map(|group| group.encoded_bytes()).collect();
        let create = |(index, published): (usize, &Published)| {
            let topic = &published.topic;
            let options = StreamOptions::message(&topic.type_name, bytes[published.group])
                .schema(&topic.schema)
                .topic(&topic.name)
                .slots(slots(&groups[published.group]))
                .remove_on_drop(true);
            let writer = Writer::create(&orders.stream_name(index), &options);
            writer.map(Mutex::new).map_err(|error| CliError::failed(error.to_string()))
        };
        let writers = topics.iter().enumerate().map(create).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { writers, refused: AtomicU64::new(0) })
    }
}

/// The publisher's history, or a quarter of a second if that is more.
fn slots(group: &Group) -> u32 {
    let frames = group.qos_depth.max((group.rate_hz * HISTORY_S).ceil() as u64);
    u32::try_from(frames).unwrap_or(u32::MAX).max(2)
}

impl Intake for Streams {
    fn submit(&self, topic: usize, _: u64, data: &[u8]) {
        let mut writer = self.writers[topic].lock().unwrap_or_else(PoisonError::into_inner);
        if writer.publish(&FrameMeta::bytes(), data).is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}
