//! `livebag-bench soak`: a long recording in a bounded folder.
//!
//! A camera of 199 MB/s by streams and an IMU of this process, recorded with splits and retention.
//! Every ten seconds: memory of the recorder's own, bytes on the disk, losses. Memory must not
//! grow, the folder must stay within its bound, nothing may be lost.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use livebag::{
    Recorder, RecorderOptions, Retention, Selector, SplitRules, Status, Topic, TopicWriter,
};
use serde::Serialize;
use serde_json::json;

use crate::child::Process;
use crate::clock;
use crate::error::{BenchError, Result};
use crate::files;
use crate::place::Place;
use crate::record::matrix;
use crate::record::producer::{self, Produced};
use crate::record::{Mode, RunOptions, System, Workload};
use crate::report::{Row, row};
use crate::usage;

const WORKLOAD: Workload = Workload::Cameras { count: 1, rate_hz: 36 };
const IMU_BYTES: usize = 400;
const IMU_PERIOD_NANOS: u64 = 5_000_000;
const SAMPLE_NANOS: u64 = 10_000_000_000;
/// Samples before memory is taken as stable: queues, bricks and rings have been filled once.
const SETTLING_SAMPLES: usize = 6;

/// Options of `livebag-bench soak`.
#[derive(Debug, Clone, Args)]
pub struct SoakArgs {
    /// How long
    #[arg(long, value_name = "S", default_value_t = 3600.0)]
    pub seconds: f64,
    /// A new split after this many seconds
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    pub split_seconds: f64,
    /// Bytes of the recording that are kept
    #[arg(long, value_name = "BYTES", default_value_t = 4_000_000_000)]
    pub keep: u64,
    #[command(flatten)]
    pub place: Place,
}

/// The columns of the table.
pub const COLUMNS: &[&str] = &[
    "seconds",
    "messages",
    "gb",
    "lost",
    "splits",
    "anon_mb_settled",
    "anon_mb_end",
    "anon_mb_max",
    "disk_gb_max",
    "producer_late_ms",
];

fn failed<E: std::fmt::Display>(doing: &'static str) -> impl Fn(E) -> BenchError {
    move |e| BenchError::system("livebag", doing)(&e)
}

/// Records for the given time.
pub fn measure(args: &SoakArgs) -> Result<matrix::Outcome> {
    let directory = args.place.prepare()?;
    let mut options = RunOptions {
        system: System::Livebag,
        workload: WORKLOAD,
        mode: Mode::Paced,
        seconds: args.seconds,
        name: String::new(),
        directory: PathBuf::new(),
        cache_bytes_max: matrix::CACHE_BYTES,
        pins: None,
        cycle_aware: false,
        sensors_first: true,
    };
    matrix::in_new_directory(&directory, &mut options, |options| soak(args, options))
}

fn soak(args: &SoakArgs, options: &RunOptions) -> Result<matrix::Outcome> {
    let mut producer = Process::start(producer::ROLE, options)?;
    producer.expect_ready()?;
    let container = options.directory.join("container");
    let recorder = record(args, &container)?;
    let names = WORKLOAD.topics().into_iter().map(|topic| topic.stream_name(&options.name));
    recorder.follow(Selector::names(names)).map_err(failed("following the streams"))?;
    let imu = Topic { name: "/imu".to_owned(), ..Topic::default() };
    let imu = recorder.topic(imu).map_err(failed("adding a topic"))?;
    while recorder.status().topics.len() < 2 {
        clock::sleep(1_000_000);
    }
    producer.go()?;
    let samples = watch(args, &recorder, &imu, &container)?;
    let produced: Produced = producer.result(120)?;
    let published = produced.published.iter().sum::<u64>() + samples.imu_messages;
    let status = recorder.finish().map_err(failed("closing the recording"))?;
    producer.go()?;
    producer.finish()?;
    let found = summary(args, &samples, &status, published, &produced);
    Ok(matrix::Outcome {
        rows: vec![found],
        runs: samples.taken.iter().map(row).collect(),
        failures: Vec::new(),
    })
}

fn record(args: &SoakArgs, container: &Path) -> Result<Recorder> {
    let options = RecorderOptions {
        split: SplitRules {
            duration_max: Some(Duration::from_secs_f64(args.split_seconds)),
            ..SplitRules::default()
        },
        retention: Retention { bytes_max: Some(args.keep), ..Retention::default() },
        ..RecorderOptions::default()
    };
    Recorder::create(container, options).map_err(failed("creating a recorder"))
}

#[derive(Default)]
struct Samples {
    /// Allocated in full from the beginning: growing memory is then the recorder's.
    taken: Vec<Sample>,
    imu_messages: u64,
}

#[derive(Serialize)]
struct Sample {
    elapsed_s: u64,
    messages: u64,
    gb: f64,
    lost: u64,
    lapped: u64,
    queue: u64,
    splits: u64,
    anon_bytes: u64,
    disk_bytes: u64,
    cache_bytes: u64,
}

/// Writes the IMU's messages and takes samples until the time is over.
fn watch(
    args: &SoakArgs,
    recorder: &Recorder,
    imu: &TopicWriter,
    container: &Path,
) -> Result<Samples> {
    let start = clock::monotonic_nanos();
    let end = start + (args.seconds * 1e9) as u64;
    let mut samples = Samples::default();
    samples.taken.reserve_exact((args.seconds * 1e9) as usize / SAMPLE_NANOS as usize + 1);
    let mut next_sample = start + SAMPLE_NANOS;
    let mut due = start;
    while due < end {
        clock::sleep_until(due);
        due += IMU_PERIOD_NANOS;
        samples.imu_messages += 1;
        // A loss is counted by the recorder.
        let _ = imu.write(clock::realtime_nanos(), samples.imu_messages, &[7; IMU_BYTES]);
        if clock::monotonic_nanos() >= next_sample {
            next_sample += SAMPLE_NANOS;
            sample(recorder, container, clock::monotonic_nanos() - start, &mut samples)?;
        }
    }
    Ok(samples)
}

fn sample(
    recorder: &Recorder,
    container: &Path,
    elapsed_nanos: u64,
    samples: &mut Samples,
) -> Result<()> {
    let status = recorder.status();
    let (messages, bytes, lost) = status.totals();
    // A split that is being removed is not there any more.
    let disk_bytes = files::total_bytes(container).unwrap_or_default();
    let found = Sample {
        elapsed_s: elapsed_nanos / 1_000_000_000,
        messages,
        gb: bytes as f64 / 1e9,
        lost: lost.total(),
        lapped: lost.lapped,
        queue: lost.queue,
        splits: status.splits as u64,
        anon_bytes: anonymous_bytes(),
        disk_bytes,
        cache_bytes: status.cache_bytes,
    };
    eprintln!("soak: {}", serde_json::to_string(&found).unwrap_or_default());
    samples.taken.push(found);
    match status.failure {
        None => Ok(()),
        Some(failure) => Err(failed("recording")(failure)),
    }
}

/// Memory of this process that is its own: not the mapped streams.
fn anonymous_bytes() -> u64 {
    let status = usage::text("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn summary(
    args: &SoakArgs,
    samples: &Samples,
    status: &Status,
    published: u64,
    produced: &Produced,
) -> Row {
    let (messages, bytes, lost) = status.totals();
    let taken = &samples.taken;
    let settled = taken.get(SETTLING_SAMPLES).or(taken.last());
    let mb = |sample: Option<&Sample>| sample.map(|sample| sample.anon_bytes as f64 / 1e6);
    let disk_bytes_max = taken.iter().map(|sample| sample.disk_bytes).max().unwrap_or_default();
    row(&json!({
        "seconds": args.seconds,
        "published": published,
        "messages": messages,
        "gb": bytes as f64 / 1e9,
        "lost": lost.total(),
        "unaccounted": published as i64 - (messages + lost.total()) as i64,
        "splits": status.splits,
        "anon_mb_settled": mb(settled),
        "anon_mb_end": mb(taken.last()),
        "anon_mb_max": mb(taken.iter().max_by_key(|sample| sample.anon_bytes)),
        "disk_gb_max": disk_bytes_max as f64 / 1e9,
        "producer_late_ms": produced.late_nanos_max as f64 / 1e6,
    }))
}
