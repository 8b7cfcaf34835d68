//! The recording process, whichever system it runs.

use serde::{Deserialize, Serialize};

use super::{RunOptions, System, floor, livebag, mcap_writer};
use crate::child;
use crate::clock;
use crate::error::Result;
use crate::stats::Durations;
use crate::usage;

/// The hidden verb under which this program is started again.
pub const ROLE: &str = "record-recorder";

/// The recording process's result.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Recorded {
    /// Messages on the disk.
    pub messages: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Frames that their writer had overwritten before they were taken.
    pub lapped: u64,
    /// Messages for which the buffer had no room.
    pub dropped: u64,
    /// From the first message to the return of the last fdatasync.
    pub nanos: u64,
    /// CPU time of the process in that time.
    pub cpu_nanos: u64,
    /// The largest resident set (`VmHWM`), mapped streams included.
    pub rss_peak_bytes: u64,
    /// The call that gives one message to the recording's writer, median.
    pub submit_p50_us: Option<f64>,
    /// Its 99th percentile.
    pub submit_p99_us: Option<f64>,
    /// Files of the recording.
    pub file_bytes: u64,
}

/// The recording process.
pub fn record(orders: &str) -> Result<()> {
    let options: RunOptions = child::orders(orders)?;
    if let Some(pins) = options.pins {
        child::bind_to(pins.recorder)?;
    }
    let streams = options.workload.by_streams();
    let recorded = match (options.system, streams) {
        (System::Livebag, true) => livebag::from_streams(&options),
        (System::Livebag, false) => livebag::from_memory(&options),
        (System::McapFastwrite | System::McapChunked, true) => mcap_writer::from_streams(&options),
        (System::McapFastwrite | System::McapChunked, false) => mcap_writer::from_memory(&options),
        (System::Floor, true) => floor::from_streams(&options),
        (System::Floor, false) => floor::from_memory(&options),
    }?;
    child::answer(&recorded)
}

/// Wall and CPU time of a recording.
pub struct Meter {
    wall_nanos: u64,
    cpu_nanos: u64,
}

impl Meter {
    /// Starts now.
    pub fn start() -> Self {
        Self { wall_nanos: clock::monotonic_nanos(), cpu_nanos: clock::process_cpu_nanos() }
    }

    /// Sets the wall clock's start to the arrival of the first message.
    pub fn first_message_at(&mut self, nanos: u64) {
        self.wall_nanos = nanos;
    }

    /// Ends now, after everything is on the disk.
    pub fn end(&self, submit: &Durations) -> Recorded {
        Recorded {
            nanos: clock::monotonic_nanos() - self.wall_nanos,
            cpu_nanos: clock::process_cpu_nanos() - self.cpu_nanos,
            rss_peak_bytes: usage::memory_peak_bytes().unwrap_or(0),
            submit_p50_us: submit.percentile_us(50.0),
            submit_p99_us: submit.percentile_us(99.0),
            ..Recorded::default()
        }
    }
}
