//! The settings, the repeats, and the rows.

use clap::Args;
use serde_json::Value;

use super::run::{self, RunResult};
use super::{RunOptions, System, WaitWay, Way};
use crate::clock;
use crate::error::{BenchError, Result};
use crate::report::{Row, figure, row};
use crate::stats::{self, Durations};

/// SIM's sensors: a LiDAR, VGA and larger colour cameras, a 6.9 MB frame.
const PAYLOADS: [usize; 4] = [25_920, 921_600, 1_382_400, 6_912_000];

/// Frames before those that count.
const WARM_UP_FRAMES: u64 = 20;

/// Options of `livebag-bench stream`. Without them: everything.
#[derive(Debug, Clone, Args)]
pub struct StreamArgs {
    /// Bytes of a frame (may be given several times; without: 25920, 921600, 1382400, 6912000)
    #[arg(long, value_name = "BYTES")]
    pub payload: Vec<usize>,
    /// Reader processes (may be given several times; without: 1 and 10)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub readers: Vec<u32>,
    /// Frames that count in each run
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub frames: u64,
    /// Only this way of getting frames in and out
    #[arg(long)]
    pub way: Option<Way>,
    /// Only this way of waiting (without: futex, and with one reader also spin)
    #[arg(long)]
    pub wait: Option<WaitWay>,
    /// Only these systems
    #[arg(long, value_name = "SYSTEM")]
    pub system: Vec<System>,
    /// How often all is repeated; figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeats: u32,
    /// Frames per second (without: 100, and 42 for frames above 2 MB, as SIM's sensors)
    #[arg(long, value_name = "HZ")]
    pub rate: Option<f64>,
    /// Slots of livebag's stream (without: its default)
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=64))]
    pub slots: u32,
    /// Slots of the floor; one is the least work the machine can do
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub floor_slots: u32,
    /// Instead: frames torn by SIM's unchecked protocol and by livebag, with a reader whose copy
    /// takes 42 ms and with one that gets little of the processor
    #[arg(long)]
    pub torn: bool,
    /// Instead: the writer's time in publish with 0, 1 and 10 readers that are awake
    #[arg(long)]
    pub growth: bool,
}

/// The columns of the table.
pub const COLUMNS: &[&str] = &[
    "system",
    "workload",
    "mode",
    "wait",
    "payload_bytes",
    "readers",
    "slots",
    "mean_us",
    "p50_us",
    "p95_us",
    "p99_us",
    "max_us",
    "publish_p50_us",
    "publish_p99_us",
    "delivered",
    "lost",
    "torn",
    "rejected",
    "writer_cpu_pct",
    "reader_cpu_pct",
    "over_floor",
    "livebag_over_this",
];

/// One cell of the matrix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    workload: &'static str,
    payload_bytes: usize,
    readers: u32,
    way: Way,
    wait: WaitWay,
}

/// The settings that the options ask for.
pub fn settings(args: &StreamArgs) -> Vec<Setting> {
    let or = |given: &[usize], all: &[usize]| {
        if given.is_empty() { all.to_vec() } else { given.to_vec() }
    };
    if args.growth {
        return growth(&or(&args.payload, &PAYLOADS[3..]));
    }
    let mut settings = Vec::new();
    for payload_bytes in or(&args.payload, &PAYLOADS) {
        let readers = if args.readers.is_empty() { vec![1, 10] } else { args.readers.clone() };
        for readers in readers {
            for way in [Way::Copy, Way::Loan] {
                for wait in [WaitWay::Futex, WaitWay::Spin] {
                    // More spinning readers than cores measure the kernel's scheduler.
                    let wanted = match args.wait {
                        Some(only) => only == wait,
                        None => wait == WaitWay::Futex || readers <= 1,
                    };
                    if wanted && args.way.is_none_or(|only| only == way) {
                        let workload = "stream";
                        settings.push(Setting { workload, payload_bytes, readers, way, wait });
                    }
                }
            }
        }
    }
    settings
}

fn growth(payloads: &[usize]) -> Vec<Setting> {
    let of_payload = |&payload_bytes: &usize| {
        [0, 1, 10].map(|readers| Setting {
            workload: "publish-growth",
            payload_bytes,
            readers,
            way: Way::Loan,
            wait: WaitWay::Spin,
        })
    };
    payloads.iter().flat_map(of_payload).collect()
}

/// The results of the runs.
#[derive(Default)]
pub struct Outcome {
    /// One per system and setting.
    pub rows: Vec<Row>,
    /// One per run.
    pub runs: Vec<Row>,
    /// Runs that failed.
    pub failures: Vec<String>,
}

/// Runs every setting with every system.
pub fn measure(args: &StreamArgs) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let settings = settings(args);
    for (index, setting) in settings.iter().enumerate() {
        run::check_payload(setting.payload_bytes)?;
        eprintln!(
            "stream {}/{}: {} B, {} readers, {:?}, {:?}",
            index + 1,
            settings.len(),
            setting.payload_bytes,
            setting.readers,
            setting.way,
            setting.wait
        );
        measure_setting(args, *setting, &mut outcome)?;
    }
    Ok(outcome)
}

/// All runs of one system in one setting.
struct Series {
    system: System,
    runs: Vec<Figures>,
    /// p50 by repeat; NaN where a run failed, so that repeats stay aligned between systems.
    p50_us: Vec<f64>,
}

fn measure_setting(args: &StreamArgs, setting: Setting, outcome: &mut Outcome) -> Result<()> {
    let wanted = |system: &System| args.system.is_empty() || args.system.contains(system);
    let systems = System::ALL.into_iter().filter(wanted).filter(|s| s.can(setting.wait));
    let mut all: Vec<Series> =
        systems.map(|system| Series { system, runs: Vec::new(), p50_us: Vec::new() }).collect();
    for repeat in 0..args.repeats {
        let count = all.len();
        for turn in 0..count {
            // Each system comes first in some repeat, last in another.
            let series = &mut all[(turn + repeat as usize) % count];
            match measure_once(args, setting, series.system, repeat) {
                Ok(figures) => {
                    outcome.runs.push(figures.row(setting, series.system, repeat));
                    series.p50_us.push(figures.p50_us.unwrap_or(f64::NAN));
                    series.runs.push(figures);
                }
                Err(e) => {
                    series.p50_us.push(f64::NAN);
                    outcome.failures.push(format!("{:?} {setting:?}: {e}", series.system));
                }
            }
        }
    }
    let of = |system| all.iter().find(|s| s.system == system).map(|s| s.p50_us.clone());
    let (livebag, floor) = (of(System::Livebag), of(System::Floor));
    for series in all.iter().filter(|s| !s.runs.is_empty()) {
        outcome.rows.push(series.row(setting, args, livebag.as_deref(), floor.as_deref()));
    }
    Ok(())
}

fn measure_once(
    args: &StreamArgs,
    setting: Setting,
    system: System,
    repeat: u32,
) -> Result<Figures> {
    let scratch = tempfile::tempdir().map_err(|e| BenchError::io("making a directory", e))?;
    let name = format!("livebag-bench-{}-{}", std::process::id(), clock::monotonic_nanos());
    let slots = match system {
        System::Floor => args.floor_slots,
        _ => args.slots,
    };
    let options = RunOptions {
        system,
        name,
        scratch: scratch.path().to_owned(),
        payload_bytes: setting.payload_bytes,
        readers: setting.readers,
        way: setting.way,
        wait: setting.wait,
        frames: args.frames,
        warm_up: WARM_UP_FRAMES,
        rate_hz: rate_hz(args, setting.payload_bytes),
        slots,
    };
    let result = run::run(&options)?;
    show_progress(repeat, system, &result);
    Ok(Figures::of(&result, &options))
}

fn show_progress(repeat: u32, system: System, result: &RunResult) {
    let all = result.readers.iter().flat_map(|r| r.latency_nanos.iter().copied());
    let p50 = Durations::of(all).percentile_us(50.0).unwrap_or(f64::NAN);
    eprintln!("  repeat {} {system:?}: p50 {p50:.2} µs", repeat + 1);
}

/// The pace of SIM's sensors.
fn rate_hz(args: &StreamArgs, payload_bytes: usize) -> f64 {
    args.rate.unwrap_or(if payload_bytes > 2_000_000 { 42.0 } else { 100.0 })
}

/// The figures of one run.
#[derive(Debug, Clone, Default)]
struct Figures {
    mean_us: Option<f64>,
    p50_us: Option<f64>,
    p95_us: Option<f64>,
    p99_us: Option<f64>,
    max_us: Option<f64>,
    publish_p50_us: Option<f64>,
    publish_p99_us: Option<f64>,
    writer_cpu_pct: Option<f64>,
    reader_cpu_pct: Option<f64>,
    lost: u64,
    torn: u64,
    rejected: u64,
}

impl Figures {
    fn of(result: &RunResult, options: &RunOptions) -> Self {
        let latency =
            Durations::of(result.readers.iter().flat_map(|r| r.latency_nanos.iter().copied()));
        let publish = Durations::of(result.writer.publish_nanos.iter().copied());
        let received: u64 = result.readers.iter().map(|r| r.latency_nanos.len() as u64).sum();
        let readers = &result.readers;
        let cpu: f64 = readers.iter().map(|r| r.cpu_pct).sum();
        Self {
            mean_us: latency.mean_us(),
            p50_us: latency.percentile_us(50.0),
            p95_us: latency.percentile_us(95.0),
            p99_us: latency.percentile_us(99.0),
            max_us: latency.max_us(),
            publish_p50_us: publish.percentile_us(50.0),
            publish_p99_us: publish.percentile_us(99.0),
            writer_cpu_pct: Some(result.writer.cpu_pct),
            reader_cpu_pct: (!readers.is_empty()).then_some(cpu),
            lost: (options.frames * u64::from(options.readers)).saturating_sub(received),
            torn: readers.iter().map(|r| r.torn).sum(),
            rejected: readers.iter().map(|r| r.rejected).sum(),
        }
    }

    /// The figures that are medians over the repeats.
    fn latencies(&self) -> [(&'static str, Option<f64>); 9] {
        [
            ("mean_us", self.mean_us),
            ("p50_us", self.p50_us),
            ("p95_us", self.p95_us),
            ("p99_us", self.p99_us),
            ("max_us", self.max_us),
            ("publish_p50_us", self.publish_p50_us),
            ("publish_p99_us", self.publish_p99_us),
            ("writer_cpu_pct", self.writer_cpu_pct),
            ("reader_cpu_pct", self.reader_cpu_pct),
        ]
    }

    fn row(&self, setting: Setting, system: System, repeat: u32) -> Row {
        let mut row = head(setting, system);
        row.insert("repeat".into(), (repeat + 1).into());
        for (name, value) in self.latencies() {
            row.insert(name.into(), figure(value));
        }
        self.counts(&mut row);
        row
    }

    fn counts(&self, row: &mut Row) {
        row.insert("lost".into(), self.lost.into());
        row.insert("torn".into(), self.torn.into());
        row.insert("rejected".into(), self.rejected.into());
    }
}

fn head(setting: Setting, system: System) -> Row {
    row(&serde_json::json!({
        "system": system,
        "workload": setting.workload,
        "mode": setting.way,
        "payload_bytes": setting.payload_bytes,
        "readers": setting.readers,
        "wait": setting.wait,
    }))
}

impl Series {
    fn row(
        &self,
        setting: Setting,
        args: &StreamArgs,
        livebag: Option<&[f64]>,
        floor: Option<&[f64]>,
    ) -> Row {
        let mut row = head(setting, self.system);
        row.insert("rate_hz".into(), rate_hz(args, setting.payload_bytes).into());
        row.insert("frames".into(), args.frames.into());
        row.insert("repeats".into(), self.runs.len().into());
        let runs: Vec<_> = self.runs.iter().map(Figures::latencies).collect();
        for (index, (name, _)) in Figures::default().latencies().into_iter().enumerate() {
            let values: Vec<f64> = runs.iter().filter_map(|run| run[index].1).collect();
            row.insert(name.into(), figure(stats::median(&values)));
        }
        let sum = |count: fn(&Figures) -> u64| self.runs.iter().map(count).sum();
        Figures {
            lost: sum(|f| f.lost),
            torn: sum(|f| f.torn),
            rejected: sum(|f| f.rejected),
            ..Figures::default()
        }
        .counts(&mut row);
        let p50: Value = self.p50_us.iter().map(|&p50| figure(Some(p50))).collect();
        row.insert("p50_us_by_repeat".into(), p50);
        if let Some(floor) = floor.filter(|_| self.system != System::Floor) {
            row.insert("over_floor".into(), serde_json::json!(stats::ratio(&self.p50_us, floor)));
        }
        if let Some(livebag) = livebag.filter(|_| self.system != System::Livebag) {
            let ratio = stats::ratio(livebag, &self.p50_us);
            row.insert("livebag_over_this".into(), serde_json::json!(ratio));
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: StreamArgs,
    }

    fn parsed(words: &[&str]) -> StreamArgs {
        Line::parse_from([&["stream"], words].concat()).args
    }

    #[test]
    fn without_options_everything_is_measured() {
        let all = settings(&parsed(&[]));
        // Per payload: one reader by two ways and two waits, ten readers by two ways.
        assert_eq!(all.len(), 4 * (4 + 2));
        assert!(all.iter().all(|s| s.wait == WaitWay::Futex || s.readers == 1));
    }

    #[test]
    fn options_narrow_the_matrix() {
        let some = settings(&parsed(&["--payload", "25920", "--readers", "1", "--way", "copy"]));
        assert_eq!(some.len(), 2);
        let spin = settings(&parsed(&["--readers", "10", "--wait", "spin", "--way", "loan"]));
        assert_eq!(spin.len(), 4);
        assert_eq!(settings(&parsed(&["--growth"])).len(), 3);
    }
}
