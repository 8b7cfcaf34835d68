//! The settings, the repeats, and the rows.

use std::path::{Path, PathBuf};

use clap::Args;
use tempfile::TempDir;

use super::producer::{self, Produced};
use super::recorder::{self, Recorded};
use super::{Mode, RunOptions, System, Workload};
use crate::child::Process;
use crate::clock;
use crate::error::{BenchError, Result};
use crate::kernel_cpu::KernelThreads;
use crate::place::Place;
use crate::report::{Row, figure, row};
use crate::stats;

/// No run writes more than this.
const BYTES_MAX: u64 = 20_000_000_000;

/// rosbag2's default for each half of its cache.
pub const CACHE_BYTES: u64 = 100 << 20;

/// Pause after a run, when its files are removed and synced, for the device.
const SETTLE_NANOS: u64 = 1_000_000_000;

/// Options of `livebag-bench record`. Without them: everything.
#[derive(Debug, Clone, Args)]
pub struct RecordArgs {
    /// Only this workload
    #[arg(long)]
    pub workload: Option<Workload>,
    /// Only this mode (without: both, automotive paced only)
    #[arg(long)]
    pub mode: Option<Mode>,
    /// Seconds of a run; unpaced: as many messages as in that time at the sensors' pace
    #[arg(long, value_name = "S")]
    pub seconds: Option<f64>,
    /// Only these systems
    #[arg(long, value_name = "SYSTEM")]
    pub system: Vec<System>,
    /// How often all is repeated; figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeats: u32,
    #[command(flatten)]
    pub place: Place,
    /// Bytes of each half of the double buffer, and of livebag's queues
    #[arg(long, value_name = "BYTES", default_value_t = CACHE_BYTES)]
    pub max_cache_size: u64,
}

/// The columns of the table.
pub const COLUMNS: &[&str] = &[
    "system",
    "workload",
    "mode",
    "recorded_pct",
    "lost",
    "gb_per_s",
    "messages_per_s",
    "cpu_s_per_gb",
    "kernel_cpu_s_per_gb",
    "rss_mb",
    "submit_p50_us",
    "submit_p99_us",
    "producer_late_ms",
    "speed_over_floor",
    "livebag_speed_over_this",
    "this_cpu_over_livebag",
];

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

fn settings(args: &RecordArgs) -> Vec<(Workload, Mode)> {
    let mut settings = Vec::new();
    for workload in Workload::ALL {
        for mode in [Mode::Paced, Mode::Unpaced] {
            let wanted = match args.mode {
                Some(only) => only == mode,
                None => workload != Workload::Automotive || mode == Mode::Paced,
            };
            if wanted && args.workload.is_none_or(|only| only == workload) {
                settings.push((workload, mode));
            }
        }
    }
    settings
}

/// Runs every setting with every system.
pub fn measure(args: &RecordArgs) -> Result<Outcome> {
    let directory = args.place.prepare()?;
    let settings = settings(args);
    for &(workload, mode) in &settings {
        check_volume(args, workload, mode, &directory)?;
    }
    let mut outcome = Outcome::default();
    for (index, &(workload, mode)) in settings.iter().enumerate() {
        eprintln!("record {}/{}: {workload:?}, {mode:?}", index + 1, settings.len());
        measure_setting(args, workload, mode, &directory, &mut outcome);
    }
    Ok(outcome)
}

fn seconds(args: &RecordArgs, workload: Workload, mode: Mode) -> f64 {
    args.seconds.unwrap_or_else(|| workload.seconds_default(mode))
}

fn check_volume(args: &RecordArgs, workload: Workload, mode: Mode, directory: &Path) -> Result<()> {
    check_run(workload, seconds(args, workload, mode), directory)
}

/// Whether the disk has room for a run, and the run is no larger than any here may be.
pub fn check_run(workload: Workload, seconds: f64, directory: &Path) -> Result<()> {
    let (messages, bytes) = workload.volume(seconds);
    if !seconds.is_finite() || messages == 0 || bytes > BYTES_MAX {
        return Err(BenchError::Usage(format!(
            "{workload:?} for {seconds} s is {messages} messages of {bytes} bytes in all; a run \
             has at least one message and at most {BYTES_MAX} bytes: choose other --seconds"
        )));
    }
    let stat = rustix::fs::statvfs(directory)
        .map_err(|e| BenchError::io(format!("looking at {}", directory.display()), e))?;
    let free_bytes = stat.f_bavail * stat.f_frsize;
    let needed_bytes = bytes + bytes / 10 + (1 << 28);
    if free_bytes < needed_bytes {
        return Err(BenchError::NoSpace { path: directory.to_owned(), free_bytes, needed_bytes });
    }
    Ok(())
}

/// All runs of one system in one setting, by repeat; none where a run failed.
struct Series {
    system: System,
    runs: Vec<Option<Figures>>,
}

fn measure_setting(
    args: &RecordArgs,
    workload: Workload,
    mode: Mode,
    directory: &Path,
    outcome: &mut Outcome,
) {
    let wanted = |system: &System| args.system.is_empty() || args.system.contains(system);
    let systems = System::ALL.into_iter().filter(wanted).filter(|s| s.can(workload, mode));
    let mut all: Vec<Series> = systems.map(|system| Series { system, runs: Vec::new() }).collect();
    // An ext4 without a journal steps over each recently removed file, one by one, for each file that it creates:
    // recordings with hundreds of files are removed after all runs, so that no run pays for the removal of an earlier
    // one.
    let mut kept = Vec::new();
    for repeat in 0..args.repeats {
        let count = all.len();
        for turn in 0..count {
            let series = &mut all[(turn + repeat as usize) % count];
            let run = measure_once(args, workload, mode, series.system, directory, &mut kept);
            match run {
                Ok(figures) => {
                    let mut row = figures.row(workload, mode, series.system);
                    row.insert("repeat".into(), (repeat + 1).into());
                    eprintln!(
                        "  repeat {} {:?}: {:.2} % recorded, {:.3} GB/s, {:.3} CPU s/GB",
                        repeat + 1,
                        series.system,
                        figures.recorded_pct,
                        figures.gb_per_s,
                        figures.cpu_s_per_gb
                    );
                    outcome.runs.push(row);
                    series.runs.push(Some(figures));
                }
                Err(e) => {
                    let system = series.system;
                    outcome.failures.push(format!("{system:?} {workload:?} {mode:?}: {e}"));
                    series.runs.push(None);
                }
            }
        }
    }
    let find = |system| all.iter().find(|s| s.system == system);
    let (livebag, floor) = (find(System::Livebag), find(System::Floor));
    for series in all.iter().filter(|s| s.runs.iter().any(Option::is_some)) {
        outcome.rows.push(series.row(workload, mode, livebag, floor));
    }
}

fn measure_once(
    args: &RecordArgs,
    workload: Workload,
    mode: Mode,
    system: System,
    directory: &Path,
    kept: &mut Vec<TempDir>,
) -> Result<Figures> {
    let mut options = RunOptions {
        system,
        workload,
        mode,
        seconds: seconds(args, workload, mode),
        name: String::new(),
        directory: PathBuf::new(),
        cache_bytes_max: args.max_cache_size,
        pins: None,
        cycle_aware: false,
        sensors_first: false,
    };
    let run_directory = new_directory(directory, &mut options)?;
    let outcome = run(&options);
    if workload == Workload::Small {
        kept.push(run_directory);
    } else {
        drop(run_directory);
    }
    settle();
    outcome
}

/// Gives a run a directory and a name that no other run has; removes the recording and waits for the device afterwards.
pub fn in_new_directory<T>(
    directory: &Path,
    options: &mut RunOptions,
    run: impl FnOnce(&RunOptions) -> Result<T>,
) -> Result<T> {
    let run_directory = new_directory(directory, options)?;
    let outcome = run(options);
    drop(run_directory);
    settle();
    outcome
}

/// Lets the device have all that is left to do.
fn settle() {
    rustix::fs::sync();
    clock::sleep(SETTLE_NANOS);
}

fn new_directory(directory: &Path, options: &mut RunOptions) -> Result<TempDir> {
    let made = tempfile::Builder::new().prefix("record-").tempdir_in(directory);
    let made = made
        .map_err(|e| BenchError::io(format!("making a directory in {}", directory.display()), e))?;
    options.name = format!("livebag-bench-{}-{}", std::process::id(), clock::monotonic_nanos());
    options.directory = made.path().to_owned();
    Ok(made)
}

/// Starts the processes of one run and waits for their results.
pub fn run(options: &RunOptions) -> Result<Figures> {
    // Ten times slower than the sensors is no recorder.
    let patience_seconds = 120 + (10.0 * options.seconds) as u64;
    let mut producer = None;
    if options.workload.by_streams() {
        let mut process = Process::start(producer::ROLE, options)?;
        process.expect_ready()?;
        producer = Some(process);
    }
    let mut recorder = Process::start(recorder::ROLE, options)?;
    recorder.expect_ready()?;
    let kernel = KernelThreads::now();
    recorder.go()?;
    let mut late_nanos_max = 0;
    let published = match &mut producer {
        Some(producer) => {
            producer.go()?;
            let produced: Produced = producer.result(patience_seconds)?;
            warn_if_late(&produced);
            late_nanos_max = produced.late_nanos_max;
            recorder.go()?;
            produced.published.iter().sum()
        }
        None => options.workload.volume(options.seconds).0,
    };
    let recorded: Recorded = recorder.result(patience_seconds)?;
    let after = KernelThreads::now();
    let kernel_nanos = after.visible().then(|| after.nanos_since(&kernel));
    recorder.finish()?;
    if let Some(mut producer) = producer {
        producer.go()?;
        producer.finish()?;
    }
    let figures = Figures::of(published, &recorded, kernel_nanos);
    Ok(Figures { producer_late_ms: late_nanos_max as f64 / 1e6, ..figures })
}

/// A producer that cannot keep its own pace measures itself.
pub fn warn_if_late(produced: &Produced) {
    const LATE_NANOS: u64 = 100_000_000;
    if produced.late_nanos_max > LATE_NANOS {
        let millis = produced.late_nanos_max / 1_000_000;
        eprintln!("  the producer was up to {millis} ms behind its pace");
    }
}

/// The figures of one run.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Messages recorded of those published.
    pub recorded_pct: f64,
    /// Messages published and not recorded.
    pub lost: u64,
    lapped: u64,
    dropped: u64,
    /// Payload bytes recorded per second, in 10^9.
    pub gb_per_s: f64,
    messages_per_s: f64,
    /// CPU time of the recording process and of the kernel's threads per 10^9 bytes.
    pub cpu_s_per_gb: f64,
    /// The same without the kernel's threads.
    pub process_cpu_s_per_gb: f64,
    kernel_cpu_s_per_gb: Option<f64>,
    rss_mb: f64,
    submit_p50_us: Option<f64>,
    submit_p99_us: Option<f64>,
    /// How far behind its pace the producer was at worst.
    pub producer_late_ms: f64,
    seconds: f64,
    file_bytes: u64,
}

impl Figures {
    fn of(published: u64, recorded: &Recorded, kernel_nanos: Option<u64>) -> Self {
        let gb = recorded.bytes.max(1) as f64 / 1e9;
        let seconds = recorded.nanos.max(1) as f64 / 1e9;
        let per_gb = |nanos: u64| nanos as f64 / 1e9 / gb;
        let kernel_cpu_s_per_gb = kernel_nanos.map(per_gb);
        let process_cpu_s_per_gb = per_gb(recorded.cpu_nanos);
        Self {
            recorded_pct: 100.0 * recorded.messages as f64 / published.max(1) as f64,
            lost: published.saturating_sub(recorded.messages),
            lapped: recorded.lapped,
            dropped: recorded.dropped,
            gb_per_s: gb / seconds,
            messages_per_s: recorded.messages as f64 / seconds,
            cpu_s_per_gb: process_cpu_s_per_gb + kernel_cpu_s_per_gb.unwrap_or(0.0),
            process_cpu_s_per_gb,
            kernel_cpu_s_per_gb,
            rss_mb: recorded.rss_peak_bytes as f64 / 1e6,
            submit_p50_us: recorded.submit_p50_us,
            submit_p99_us: recorded.submit_p99_us,
            producer_late_ms: 0.0,
            seconds,
            file_bytes: recorded.file_bytes,
        }
    }

    fn figures(&self) -> [(&'static str, Option<f64>); 11] {
        [
            ("recorded_pct", Some(self.recorded_pct)),
            ("gb_per_s", Some(self.gb_per_s)),
            ("messages_per_s", Some(self.messages_per_s)),
            ("cpu_s_per_gb", Some(self.cpu_s_per_gb)),
            ("process_cpu_s_per_gb", Some(self.process_cpu_s_per_gb)),
            ("kernel_cpu_s_per_gb", self.kernel_cpu_s_per_gb),
            ("rss_mb", Some(self.rss_mb)),
            ("submit_p50_us", self.submit_p50_us),
            ("submit_p99_us", self.submit_p99_us),
            ("producer_late_ms", Some(self.producer_late_ms)),
            ("seconds", Some(self.seconds)),
        ]
    }

    fn row(&self, workload: Workload, mode: Mode, system: System) -> Row {
        let mut row = head(workload, mode, system);
        for (name, value) in self.figures() {
            row.insert(name.into(), shown(name, value));
        }
        row.insert("lost".into(), self.lost.into());
        row.insert("lapped".into(), self.lapped.into());
        row.insert("dropped".into(), self.dropped.into());
        row.insert("file_bytes".into(), self.file_bytes.into());
        row
    }
}

/// Percentages keep their digits: 99.99 is not 100.
pub fn shown(name: &str, value: Option<f64>) -> serde_json::Value {
    match (name, value) {
        ("recorded_pct", Some(value)) => {
            // Rounded down, so that only everything is 100.
            serde_json::json!((value * 1000.0).floor() / 1000.0)
        }
        _ => figure(value),
    }
}

fn head(workload: Workload, mode: Mode, system: System) -> Row {
    row(&serde_json::json!({ "system": system, "workload": workload, "mode": mode }))
}

impl Series {
    fn values(&self, of: fn(&Figures) -> f64) -> Vec<f64> {
        self.runs.iter().map(|run| run.as_ref().map_or(f64::NAN, of)).collect()
    }

    /// Medians of all figures, the worst run's recorded percentage, the sum of all losses.
    fn row(
        &self,
        workload: Workload,
        mode: Mode,
        livebag: Option<&Self>,
        floor: Option<&Self>,
    ) -> Row {
        let mut row = head(workload, mode, self.system);
        let runs: Vec<&Figures> = self.runs.iter().flatten().collect();
        let all: Vec<_> = runs.iter().map(|run| run.figures()).collect();
        for index in 0..all.first().map_or(0, |figures| figures.len()) {
            let name = all[0][index].0;
            let values: Vec<f64> = all.iter().filter_map(|figures| figures[index].1).collect();
            let value = match name {
                "recorded_pct" => values.iter().copied().reduce(f64::min),
                _ => stats::median(&values),
            };
            row.insert(name.into(), shown(name, value));
        }
        let sum = |of: fn(&Figures) -> u64| runs.iter().map(|run| of(run)).sum::<u64>();
        row.insert("lost".into(), sum(|f| f.lost).into());
        row.insert("lapped".into(), sum(|f| f.lapped).into());
        row.insert("dropped".into(), sum(|f| f.dropped).into());
        row.insert("repeats".into(), runs.len().into());
        let speed = |series: &Self| series.values(|f| f.gb_per_s);
        let cpu = |series: &Self| series.values(|f| f.cpu_s_per_gb);
        let mut ratio = |name: &str, ratio: Option<stats::Ratio>| {
            row.insert(name.into(), serde_json::json!(ratio));
        };
        if let Some(floor) = floor.filter(|_| self.system != System::Floor) {
            ratio("speed_over_floor", stats::ratio(&speed(self), &speed(floor)));
        }
        if let Some(livebag) = livebag.filter(|_| self.system != System::Livebag) {
            ratio("livebag_speed_over_this", stats::ratio(&speed(livebag), &speed(self)));
            ratio("this_cpu_over_livebag", stats::ratio(&cpu(self), &cpu(livebag)));
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
        args: RecordArgs,
    }

    fn parsed(words: &[&str]) -> RecordArgs {
        Line::parse_from([&["record"], words].concat()).args
    }

    #[test]
    fn without_options_everything_is_measured() {
        assert_eq!(settings(&parsed(&[])).len(), 5);
        let one = settings(&parsed(&["--workload", "automotive", "--mode", "unpaced"]));
        assert_eq!(one, [(Workload::Automotive, Mode::Unpaced)]);
    }

    #[test]
    fn too_much_for_the_disk_is_refused() {
        let args = parsed(&["--seconds", "100"]);
        let refused = check_volume(&args, Workload::Fullhd8, Mode::Paced, Path::new("/"));
        assert!(matches!(refused, Err(BenchError::Usage(_))));
        let args = parsed(&["--seconds", "NaN"]);
        assert!(check_volume(&args, Workload::Small, Mode::Paced, Path::new("/")).is_err());
    }

    #[test]
    fn almost_everything_is_not_everything() {
        assert_eq!(shown("recorded_pct", Some(99.9999)), serde_json::json!(99.999));
        assert_eq!(shown("recorded_pct", Some(100.0)), serde_json::json!(100.0));
    }
}
