//! `livebag-bench stream --torn`: the frames of a reader that is slower than the writer's lap.
//!
//! SIM's protocol (two buffers and an atomic index, here the floor with two slots) returns frames of which the writer
//! has overwritten a part; livebag's check rejects them.

use serde::{Deserialize, Serialize};

use super::run::{self, ReaderResult};
use super::systems::{Arrival, SlowSubscriber};
use super::{RunOptions, System, WaitWay, Way};
use crate::child::{self, Process};
use crate::clock;
use crate::error::{BenchError, Result};
use crate::report::{Row, row};

/// The hidden verbs under which this program is started again.
pub const READER_ROLE: &str = "stream-slow-reader";
/// See [`READER_ROLE`].
pub const HOG_ROLE: &str = "stream-hog";

/// SIM's largest frame, at its pace.
const PAYLOAD_BYTES: usize = 6_912_000;
const RATE_HZ: f64 = 42.0;

/// Processes that use all of the processor, so that the reader gets little of it.
const HOGS: usize = 4;

/// Pieces of a slow copy; between two, the reader sleeps.
const SLOW_COPY_PIECES: usize = 84;
const PIECES: u64 = SLOW_COPY_PIECES as u64;

/// The reader's handicap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Ailment {
    /// Its copy takes this long.
    SlowCopy {
        /// Milliseconds.
        millis: u64,
    },
    /// It is nice 19 among hogs.
    Descheduled,
}

#[derive(Serialize, Deserialize)]
struct ReaderOrders {
    run: RunOptions,
    ailment: Ailment,
}

/// Runs the demonstration.
pub fn demonstrate(frames: u64) -> Result<Vec<Row>> {
    let slow = |millis, slots| (Ailment::SlowCopy { millis }, slots);
    let cases = [
        slow(26, 2),
        slow(42, 2),
        slow(42, 3),
        (Ailment::Descheduled, 2),
        (Ailment::Descheduled, 4),
    ];
    let mut rows = Vec::new();
    for (ailment, slots) in cases {
        for system in [System::Floor, System::Livebag] {
            eprintln!("torn: {ailment:?}, {slots} slots, {system:?}");
            rows.push(demonstrate_one(system, ailment, slots, frames)?);
        }
    }
    Ok(rows)
}

fn demonstrate_one(system: System, ailment: Ailment, slots: u32, frames: u64) -> Result<Row> {
    let scratch = tempfile::tempdir().map_err(|e| BenchError::io("making a directory", e))?;
    let options = RunOptions {
        system,
        name: format!("livebag-bench-torn-{}-{}", std::process::id(), clock::monotonic_nanos()),
        scratch: scratch.path().to_owned(),
        payload_bytes: PAYLOAD_BYTES,
        readers: 1,
        way: Way::Copy,
        wait: WaitWay::Futex,
        frames,
        warm_up: 0,
        rate_hz: RATE_HZ,
        slots,
    };
    let patience_seconds = 60 + 4 * (frames as f64 / RATE_HZ) as u64;
    let mut writer = Process::start(run::WRITER_ROLE, &options)?;
    writer.expect_ready()?;
    let mut reader = Process::start(READER_ROLE, &ReaderOrders { run: options.clone(), ailment })?;
    reader.expect_ready()?;
    let hogs = match ailment {
        Ailment::Descheduled => start_hogs(patience_seconds)?,
        Ailment::SlowCopy { .. } => Vec::new(),
    };
    reader.go()?;
    writer.go()?;
    let _: run::WriterResult = writer.result(patience_seconds)?;
    // The last frame is read without the hogs, so that the reader's end does not depend on them.
    drop(hogs);
    let found: ReaderResult = reader.result(patience_seconds)?;
    reader.finish()?;
    writer.go()?;
    writer.finish()?;
    Ok(demonstration_row(system, ailment, &options, &found))
}

fn start_hogs(seconds: u64) -> Result<Vec<Process>> {
    (0..HOGS)
        .map(|_| {
            let mut hog = Process::start(HOG_ROLE, &seconds)?;
            hog.expect_ready()?;
            hog.go()?;
            Ok(hog)
        })
        .collect()
}

fn demonstration_row(
    system: System,
    ailment: Ailment,
    options: &RunOptions,
    found: &ReaderResult,
) -> Row {
    let delivered = found.latency_nanos.len() as u64;
    let (workload, protocol) = (
        match ailment {
            Ailment::SlowCopy { millis } => format!("copy-takes-{millis}-ms"),
            Ailment::Descheduled => format!("nice-19-among-{HOGS}-hogs"),
        },
        if system == System::Floor { "sim-unchecked" } else { "livebag" },
    );
    row(&serde_json::json!({
        "system": protocol,
        "workload": workload,
        "mode": options.way,
        "wait": options.wait,
        "payload_bytes": options.payload_bytes,
        "readers": 1,
        "slots": options.slots,
        "delivered": delivered,
        "lost": options.frames.saturating_sub(delivered),
        "torn": found.torn,
        "rejected": found.rejected,
    }))
}

/// The reader process.
pub fn read(orders: &str) -> Result<()> {
    let orders: ReaderOrders = child::orders(orders)?;
    let mut subscriber = orders.run.system.slow_subscriber(&orders.run)?;
    if orders.ailment == Ailment::Descheduled {
        rustix::process::nice(19).map_err(|e| BenchError::io("lowering a priority", e))?;
    }
    child::ready_and_wait()?;
    let mut found = ReaderResult { latency_nanos: Vec::new(), torn: 0, rejected: 0, cpu_pct: 0.0 };
    let mut newest = 0;
    // Not the last frame itself: while frames are rejected, the last may never be delivered.
    let idle_nanos = 3_000_000_000;
    while newest < orders.run.frames {
        let arrival = match orders.ailment {
            Ailment::Descheduled => subscriber.receive(idle_nanos)?,
            Ailment::SlowCopy { millis } => slowly(&mut *subscriber, idle_nanos, millis)?,
        };
        let Some(arrival) = arrival else { break };
        if !arrival.valid {
            found.rejected += 1;
            continue;
        }
        newest = arrival.content.sequence;
        found.torn += u64::from(arrival.content.torn);
        found.latency_nanos.push(arrival.arrived_nanos.saturating_sub(arrival.content.sent_nanos));
    }
    child::answer(&found)
}

/// Receives by a copy of many pieces with a sleep after each, so that the whole takes `millis`.
fn slowly(
    subscriber: &mut dyn SlowSubscriber,
    idle_nanos: u64,
    millis: u64,
) -> Result<Option<Arrival>> {
    let piece_bytes = PAYLOAD_BYTES.div_ceil(SLOW_COPY_PIECES);
    let mut start_nanos = 0;
    subscriber.receive_in_pieces(idle_nanos, piece_bytes, &mut |done| {
        if done == 1 {
            start_nanos = clock::monotonic_nanos();
        }
        clock::sleep_until(start_nanos + done as u64 * millis * 1_000_000 / PIECES);
    })
}

/// A process that runs a busy loop for the ordered time, or until it is killed.
pub fn hog(orders: &str) -> Result<()> {
    let seconds: u64 = child::orders(orders)?;
    child::ready_and_wait()?;
    let deadline = clock::monotonic_nanos() + seconds * 1_000_000_000;
    while clock::monotonic_nanos() < deadline {
        std::hint::spin_loop();
    }
    Ok(())
}
