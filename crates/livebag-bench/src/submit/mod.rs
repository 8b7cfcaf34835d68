//! `livebag-bench submit`: the time of each step of a message on its way to the disk.
//!
//! SPEED's Figure 7 has three parts, which are measured so:
//! - *handling*: the call that passes the message on. livebag: `TopicWriter::write`; nothing for a stream, whose frames
//!   the recorder takes where they lie. MCAP: the copy into the double buffer.
//! - *preparation*: laying the message out. livebag: the recorder thread's CPU time in user mode, including its
//!   polling. MCAP: `write_to_known_channel` without its system calls.
//! - *system calls*: livebag: the recorder thread's CPU time in the kernel, and that of the kernel's own threads
//!   that do its writes (`iou-wrk`); it waits for no write.
//!   MCAP: wall time in `write`.
//!
//! The kernel samples in which mode a thread runs every 10 ms: the sum of the recorder thread's two parts
//! is exact, their proportion is an estimate.
//!
//! `p50_us` and `p99_us` are those of handling: how long the message's source is held up. `floor` copies each message
//! into one of a few buffers in turn, and does not write.

mod floor;
mod livebag;
mod mcap;
mod thread_cpu;

use std::path::Path;

use clap::Args;
use serde::Serialize;

use crate::clock;
use crate::error::{BenchError, Result};
use crate::place::Place;
use crate::record::System;
use crate::record::matrix::{self, CACHE_BYTES};
use crate::record::workload::{CAMERA, CAMERA_RATE_HZ};
use crate::report::{Row, figure, row};
use crate::stats::{self, Durations};

const SECONDS: f64 = 5.0;
const QUICK_SECONDS: f64 = 1.0;
const SMALL_BYTES: [usize; 4] = [1 << 10, 4 << 10, 16 << 10, 64 << 10];
const SMALL_RATE_HZ: f64 = 1000.0;
/// Pause after a run, when its files are removed and synced.
const SETTLE_NANOS: u64 = 500_000_000;

/// How messages come to the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Way {
    /// From a thread of the same process.
    Write,
    /// Through a stream.
    Stream,
}

const WAYS: [(System, Way); 5] = [
    (System::Livebag, Way::Write),
    (System::Livebag, Way::Stream),
    (System::McapFastwrite, Way::Write),
    (System::McapChunked, Way::Write),
    (System::Floor, Way::Write),
];

/// One series of messages.
#[derive(Debug, Clone, Copy)]
struct Series {
    payload_bytes: usize,
    rate_hz: f64,
    seconds: f64,
}

impl Series {
    fn count(self) -> u64 {
        (self.rate_hz * self.seconds).round() as u64
    }

    /// Calls `give` with every sequence, at the series' pace.
    fn pace(self, mut give: impl FnMut(u64) -> Result<()>) -> Result<()> {
        let start = clock::monotonic_nanos();
        for sequence in 1..=self.count() {
            clock::sleep_until(start + ((sequence - 1) as f64 / self.rate_hz * 1e9) as u64);
            give(sequence)?;
        }
        Ok(())
    }
}

/// The cost of a series, in nanoseconds of all its messages together.
struct Found {
    messages: u64,
    handling_nanos: u64,
    preparation_nanos: u64,
    syscall_nanos: u64,
    handling: Durations,
}

/// Options of `livebag-bench submit`.
#[derive(Debug, Clone, Args)]
pub struct SubmitArgs {
    /// Seconds of a series
    #[arg(long, value_name = "S")]
    pub seconds: Option<f64>,
    /// How often all is repeated; figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeats: u32,
    /// A run of under 50 s: short, once, of the sizes the smallest, the largest and the camera
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub place: Place,
}

impl SubmitArgs {
    fn series(&self) -> Vec<Series> {
        let seconds = self.seconds.unwrap_or(if self.quick { QUICK_SECONDS } else { SECONDS });
        let camera =
            Series { payload_bytes: CAMERA.bytes(), rate_hz: CAMERA_RATE_HZ.into(), seconds };
        let small = SMALL_BYTES.into_iter().filter(|&bytes| {
            !self.quick || bytes == SMALL_BYTES[0] || bytes == SMALL_BYTES[SMALL_BYTES.len() - 1]
        });
        let small =
            small.map(|payload_bytes| Series { payload_bytes, rate_hz: SMALL_RATE_HZ, seconds });
        std::iter::once(camera).chain(small).collect()
    }
}

/// The columns of the table.
pub const COLUMNS: &[&str] = &[
    "system",
    "mode",
    "payload_bytes",
    "messages",
    "handling_us",
    "preparation_us",
    "syscall_us",
    "total_us",
    "p50_us",
    "p99_us",
];

/// Runs every series by every way.
pub fn measure(args: &SubmitArgs) -> Result<matrix::Outcome> {
    let directory = args.place.prepare()?;
    if args.seconds.is_some_and(|seconds| !(0.1..=60.0).contains(&seconds)) {
        return Err(BenchError::Usage("a series takes 0.1 to 60 s: choose other --seconds".into()));
    }
    let repeats = if args.quick { 1 } else { args.repeats };
    let mut outcome = matrix::Outcome::default();
    for series in args.series() {
        eprintln!("submit: {} bytes", series.payload_bytes);
        let mut rows: [Vec<Row>; WAYS.len()] = Default::default();
        for repeat in 0..repeats as usize {
            for turn in 0..WAYS.len() {
                let at = (turn + repeat) % WAYS.len();
                match run(series, WAYS[at], &directory) {
                    Ok(found) => rows[at].push(row_of(series, WAYS[at], &found)),
                    Err(e) => outcome.failures.push(format!("{:?}: {e}", WAYS[at])),
                }
            }
        }
        outcome.rows.extend(rows.iter().filter_map(|runs| medians(runs)));
        outcome.runs.extend(rows.into_iter().flatten());
    }
    Ok(outcome)
}

fn run(series: Series, (system, way): (System, Way), directory: &Path) -> Result<Found> {
    let directory = tempfile::Builder::new()
        .prefix("submit-")
        .tempdir_in(directory)
        .map_err(|e| BenchError::io(format!("making a directory in {}", directory.display()), e))?;
    let found = match (system, way) {
        (System::Livebag, Way::Write) => livebag::by_write(series, directory.path()),
        (System::Livebag, Way::Stream) => livebag::by_stream(series, directory.path()),
        (System::Floor, _) => floor::by_copy(series),
        (system, _) => mcap::by_write(series, system, CACHE_BYTES, directory.path()),
    };
    drop(directory);
    rustix::fs::sync();
    clock::sleep(SETTLE_NANOS);
    found
}

fn row_of(series: Series, (system, way): (System, Way), found: &Found) -> Row {
    let per_message = |nanos: u64| nanos as f64 / 1e3 / found.messages.max(1) as f64;
    let total = found.handling_nanos + found.preparation_nanos + found.syscall_nanos;
    row(&serde_json::json!({
        "system": system,
        "mode": way,
        "payload_bytes": series.payload_bytes,
        "messages": found.messages,
        "handling_us": figure(Some(per_message(found.handling_nanos))),
        "preparation_us": figure(Some(per_message(found.preparation_nanos))),
        "syscall_us": figure(Some(per_message(found.syscall_nanos))),
        "total_us": figure(Some(per_message(total))),
        "p50_us": figure(found.handling.percentile_us(50.0)),
        "p99_us": figure(found.handling.percentile_us(99.0)),
    }))
}

/// The rows of one way's repeats as one, with the median of each time.
fn medians(runs: &[Row]) -> Option<Row> {
    let mut medians = runs.first()?.clone();
    for (name, value) in medians.iter_mut().filter(|(name, _)| name.ends_with("_us")) {
        let values: Vec<f64> =
            runs.iter().filter_map(|run| run.get(name.as_str())?.as_f64()).collect();
        *value = figure(stats::median(&values));
    }
    medians.insert("repeats".into(), runs.len().into());
    Some(medians)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_become_their_medians() {
        let run =
            |us: f64| row(&serde_json::json!({ "messages": 3, "p50_us": us, "p99_us": null }));
        let found = medians(&[run(1.0), run(9.0), run(2.0)]).unwrap();
        assert_eq!(found["p50_us"], 2.0);
        assert_eq!(found["p99_us"], serde_json::Value::Null);
        assert_eq!((&found["messages"], &found["repeats"]), (&3.into(), &3.into()));
        assert_eq!(medians(&[]), None);
    }
}
