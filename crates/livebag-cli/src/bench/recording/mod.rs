//! The recording process of one run, whichever storage it writes.

use livebag_bench::clock;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::producers::Producers;
use super::roles::Parent;
use super::schedule::{self, Intake, Schedule};
use super::settings::Settings;
use crate::outcome::CliError;
use livebag_bench::stats::{Durations, Percentiles};
use livebag_bench::usage;

mod bag_writer;
mod livebag;
mod peer;

/// Time between the decision to begin and the first message.
const LEAD_NANOS: u64 = 50_000_000;

/// The orders of a run's processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// The published messages.
    pub producers: Producers,
    /// The writer's settings.
    pub settings: Settings,
    /// Whether the producers are in the recorder's process.
    pub no_transport: bool,
    /// The recording to make.
    pub bag: PathBuf,
    /// Bytes of each half of the cache.
    pub cache_bytes: u64,
    /// Bytes at which a file is split; 0 for never.
    pub bag_bytes: u64,
    /// Processors for publishing.
    pub producers_affinity: Vec<usize>,
    /// Processors for recording.
    pub recorder_affinity: Vec<usize>,
    /// Prefix of the streams' names.
    pub stream_prefix: String,
}

impl Orders {
    /// The stream of a topic.
    pub fn stream_name(&self, topic: usize) -> String {
        format!("{}.{topic}", self.stream_prefix)
    }
}

/// The recording process's result.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Recorded {
    /// Messages in the recording, by topic.
    pub messages: Vec<u64>,
    /// Messages for which there was no room in memory.
    pub dropped: u64,
    /// Messages that their streams overwrote before they were taken.
    pub lapped: u64,
    /// From the first message's due time until everything was durable.
    pub seconds: f64,
    /// Processor time in that time.
    pub cpu_s: f64,
    /// The largest resident set.
    pub memory_peak_bytes: Option<u64>,
    /// Bytes sent to the device.
    pub device_bytes: Option<u64>,
    /// How long the producers' calls took; none with transport, where the producers tell.
    pub submit: Option<Percentiles>,
    /// From a message's due time until it was written.
    pub write: Option<Percentiles>,
}

/// Records, and tells the parent how it went.
pub fn run(orders: &Orders, parent: &mut Parent) -> Result<(), CliError> {
    usage::pin(&orders.recorder_affinity)?;
    let recorded = match &orders.settings {
        Settings::Livebag(settings) => livebag::record(orders, settings, parent),
        Settings::Mcap(_) | Settings::Sqlite3(_) => peer::record(orders, parent),
    }?;
    parent.answer(&recorded)
}

/// Where the messages come from.
struct Source<'a> {
    orders: &'a Orders,
    parent: &'a mut Parent,
    /// By topic; none with transport.
    messages: Vec<Vec<u8>>,
}

impl<'a> Source<'a> {
    fn new(orders: &'a Orders, parent: &'a mut Parent) -> Self {
        let messages = if orders.no_transport { orders.producers.payloads() } else { Vec::new() };
        Self { orders, parent, messages }
    }

    /// The recorder is ready; the schedule that messages will come by.
    fn start(&mut self) -> Result<(Schedule, Meter), CliError> {
        let start_nanos = match self.orders.no_transport {
            true => clock::monotonic_nanos() + LEAD_NANOS,
            false => self.parent.ready_and_go()?,
        };
        let topics = self.orders.producers.topics();
        Ok((Schedule::new(&topics, start_nanos), Meter::start(start_nanos)))
    }

    /// Returns when all messages have been offered: to `intake`, or on their streams.
    fn offer(
        &mut self,
        schedule: &Schedule,
        intake: &dyn Intake,
    ) -> Result<Option<Durations>, CliError> {
        if !self.orders.no_transport {
            return self.parent.wait_for_stop().map(|()| None);
        }
        let processors = &self.orders.producers_affinity;
        schedule::publish(&self.orders.producers, &self.messages, schedule, processors, intake)
            .map(Some)
    }
}

/// Measures from the first message to the last byte on the disk.
struct Meter {
    start_nanos: u64,
    cpu_nanos: u64,
    device_bytes: Option<u64>,
}

impl Meter {
    fn start(start_nanos: u64) -> Self {
        let device_bytes = usage::device_bytes();
        Self { start_nanos, cpu_nanos: clock::process_cpu_nanos(), device_bytes }
    }

    /// Everything is on the disk.
    fn end(&self, submit: Option<Durations>, write: &Durations) -> Recorded {
        let device = usage::device_bytes().zip(self.device_bytes);
        Recorded {
            seconds: clock::monotonic_nanos().saturating_sub(self.start_nanos) as f64 / 1e9,
            cpu_s: (clock::process_cpu_nanos() - self.cpu_nanos) as f64 / 1e9,
            memory_peak_bytes: usage::memory_peak_bytes(),
            device_bytes: device.map(|(now, then)| now.saturating_sub(then)),
            submit: submit.and_then(|submit| submit.percentiles()),
            write: write.percentiles(),
            ..Recorded::default()
        }
    }
}
