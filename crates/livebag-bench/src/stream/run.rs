//! One measurement: the processes and their counts.

use serde::{Deserialize, Serialize};

use super::{RunOptions, Way};
use crate::child::{self, Process};
use crate::clock;
use crate::error::{BenchError, Result};
use crate::frame;

/// The hidden verbs under which this program is started again.
pub const WRITER_ROLE: &str = "stream-writer";
/// See [`WRITER_ROLE`].
pub const READER_ROLE: &str = "stream-reader";

/// A reader that has seen nothing for this long stops. More than any pause that a loaded machine
/// makes, less than the patience of a user.
const IDLE_NANOS_MAX: u64 = 2_000_000_000;

/// The same before the first frame, while the other processes are being set up.
const FIRST_FRAME_NANOS_MAX: u64 = 60_000_000_000;

/// The writer's result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WriterResult {
    /// Nanoseconds in the call that publishes (by copy: the copy included).
    pub publish_nanos: Vec<u64>,
    /// CPU time over wall time, in per cent of one core, fill time included.
    pub cpu_pct: f64,
}

/// What one reader found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReaderResult {
    /// From just before publishing until the frame was in the reader's hands, in nanoseconds.
    pub latency_nanos: Vec<u64>,
    /// Frames accepted whose words are of two frames.
    pub torn: u64,
    /// Frames that the system said were overtaken while being read.
    pub rejected: u64,
    /// CPU time over wall time, in per cent of one core.
    pub cpu_pct: f64,
}

/// What one run found.
#[derive(Debug)]
pub struct RunResult {
    /// The writer's side.
    pub writer: WriterResult,
    /// Every reader's side.
    pub readers: Vec<ReaderResult>,
}

/// Runs one measurement.
pub fn run(options: &RunOptions) -> Result<RunResult> {
    let seconds = (options.frames + options.warm_up) as f64 / options.rate_hz;
    let patience_seconds = 60 + 3 * seconds as u64;
    let mut writer = Process::start(WRITER_ROLE, options)?;
    writer.expect_ready()?;
    let mut readers = Vec::new();
    for _ in 0..options.readers {
        readers.push(Process::start(READER_ROLE, options)?);
    }
    for reader in &mut readers {
        reader.expect_ready()?;
        reader.go()?;
    }
    writer.go()?;
    let written = writer.result(patience_seconds)?;
    let mut results = Vec::new();
    for mut reader in readers {
        results.push(reader.result(patience_seconds)?);
        reader.finish()?;
    }
    writer.go()?;
    writer.finish()?;
    Ok(RunResult { writer: written, readers: results })
}

/// The writer process.
pub fn write(orders: &str) -> Result<()> {
    let options: RunOptions = child::orders(orders)?;
    let mut publisher = options.system.publisher(&options)?;
    let mut source = vec![0; options.payload_bytes];
    frame::fill(&mut source, 0);
    child::ready_and_wait()?;

    let period_nanos = (1e9 / options.rate_hz) as u64;
    let mut publish_nanos = Vec::with_capacity(options.frames as usize);
    let mut next_nanos = clock::monotonic_nanos() + period_nanos;
    let mut usage = Usage::start();
    for sequence in 1..=options.warm_up + options.frames {
        if sequence == options.warm_up + 1 {
            usage = Usage::start();
        }
        if options.way == Way::Copy {
            frame::fill(&mut source, sequence);
        }
        clock::sleep_until(next_nanos);
        next_nanos += period_nanos;
        let sent_nanos = match options.way {
            Way::Copy => {
                let sent_nanos = clock::monotonic_nanos();
                frame::stamp(&mut source, sent_nanos);
                publisher.publish_copy(&source)?;
                sent_nanos
            }
            Way::Loan => publisher.publish_loan(&mut |memory| frame::fill(memory, sequence))?,
        };
        if sequence > options.warm_up {
            publish_nanos.push(clock::monotonic_nanos() - sent_nanos);
        }
    }
    child::answer(&WriterResult { publish_nanos, cpu_pct: usage.cpu_pct() })?;
    // The stream lives until the readers have read its last frame.
    child::wait_for_go()
}

/// A reader process.
pub fn read(orders: &str) -> Result<()> {
    let options: RunOptions = child::orders(orders)?;
    let mut subscriber = options.system.subscriber(&options)?;
    child::ready_and_wait()?;

    let last = options.warm_up + options.frames;
    let mut result = ReaderResult { latency_nanos: Vec::new(), torn: 0, rejected: 0, cpu_pct: 0.0 };
    let mut usage = None;
    let mut newest = 0;
    let mut patience_nanos = FIRST_FRAME_NANOS_MAX;
    while newest < last {
        let Some(arrival) = subscriber.receive(patience_nanos)? else { break };
        patience_nanos = IDLE_NANOS_MAX;
        let content = arrival.content;
        if !arrival.valid {
            result.rejected += 1;
            continue;
        }
        if content.torn {
            // Its stamp may be another frame's: it has no latency, and also counts as lost.
            result.torn += 1;
            continue;
        }
        if content.sequence <= newest || content.sequence > last {
            continue;
        }
        newest = content.sequence;
        if newest > options.warm_up {
            usage.get_or_insert_with(Usage::start);
            result.latency_nanos.push(arrival.arrived_nanos.saturating_sub(content.sent_nanos));
        }
    }
    result.cpu_pct = usage.map_or(0.0, |usage: Usage| usage.cpu_pct());
    child::answer(&result)
}

/// CPU time over wall time from a moment on.
struct Usage {
    wall_nanos: u64,
    cpu_nanos: u64,
}

impl Usage {
    fn start() -> Self {
        Self { wall_nanos: clock::monotonic_nanos(), cpu_nanos: clock::process_cpu_nanos() }
    }

    fn cpu_pct(&self) -> f64 {
        let wall = clock::monotonic_nanos() - self.wall_nanos;
        let cpu = clock::process_cpu_nanos() - self.cpu_nanos;
        100.0 * cpu as f64 / wall.max(1) as f64
    }
}

/// Refuses payloads that the frame's words do not fit.
pub fn check_payload(payload_bytes: usize) -> Result<()> {
    let fits = payload_bytes >= frame::FRAME_BYTES_MIN
        && payload_bytes.is_multiple_of(frame::WORD_BYTES)
        && payload_bytes <= 1 << 30;
    if fits {
        return Ok(());
    }
    Err(BenchError::Usage(format!(
        "a payload is a multiple of {} bytes from {} to {}; got {payload_bytes}",
        frame::WORD_BYTES,
        frame::FRAME_BYTES_MIN,
        1u64 << 30
    )))
}
