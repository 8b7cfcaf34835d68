//! `livebag-bench cameras`: how many cameras a recorder follows before it loses a frame.
//!
//! SPEED's Figures 8 and 9: cameras of 5,529,600 bytes at 36 Hz, one more at a time until loss, then
//! the mixed workload. Every camera is a separate topic here; SPEED's publish to one topic. Run by the machinery of
//! `record`: the peers' double buffer has two halves of the same size as half of livebag's cache.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::error::Result;
use crate::place::Place;
use crate::record::matrix::{self, CACHE_BYTES, Figures, check_run, in_new_directory, shown};
use crate::record::workload::CAMERA_RATE_HZ;
use crate::record::{Mode, RunOptions, System, Workload};
use crate::report::{Row, figure, row};
use crate::stats;

/// Cameras at which the search ends, whether something was lost or not.
const CAMERAS_MAX: u32 = 24;
/// The counts of a short run: those around which the systems differ.
const QUICK_COUNTS: [u32; 3] = [2, 5, 10];
/// Seconds of a run. SPEED's took 10; every second more is a GB per five cameras.
const SECONDS: f64 = 4.0;
const QUICK_SECONDS: f64 = 1.5;
/// A producer that is later than this, a quarter of the slots' lap, has not published at the cameras' pace: such a run
/// is shown, counts neither as lossless nor as lossy, and ends the search.
const PRODUCER_LATE_MS_MAX: f64 = 50.0;

/// Options of `livebag-bench cameras`.
#[derive(Debug, Clone, Args)]
pub struct CamerasArgs {
    /// Seconds of a run
    #[arg(long, value_name = "S")]
    pub seconds: Option<f64>,
    /// Only these systems
    #[arg(long, value_name = "SYSTEM")]
    pub system: Vec<System>,
    /// Try up to this many cameras
    #[arg(long, value_name = "N", default_value_t = CAMERAS_MAX, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub cameras_max: u32,
    /// How often each count is tried; a frame lost in one is a loss
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeats: u32,
    /// A run of under 50 s: few counts, short, once
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub place: Place,
    /// Bytes of each half of the double buffer; livebag's cache has the size of both
    #[arg(long, value_name = "BYTES", default_value_t = CACHE_BYTES)]
    pub max_cache_size: u64,
}

impl CamerasArgs {
    fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { QUICK_SECONDS } else { SECONDS })
    }

    fn repeats(&self) -> u32 {
        if self.quick { 1 } else { self.repeats }
    }

    fn counts(&self) -> Vec<u32> {
        if self.quick {
            return QUICK_COUNTS.into_iter().filter(|&count| count <= self.cameras_max).collect();
        }
        (1..=self.cameras_max).collect()
    }

    fn systems(&self) -> Vec<System> {
        // Of the two MCAP writers a short run has rosbag2's default.
        let usual = System::ALL.into_iter().filter(|&s| !self.quick || s != System::McapFastwrite);
        if self.system.is_empty() { usual.collect() } else { self.system.clone() }
    }
}

/// The columns of the table.
pub const COLUMNS: &[&str] = &[
    "system",
    "workload",
    "cameras",
    "recorded_pct",
    "lost",
    "gb_per_s",
    "published_gb_per_s",
    "cpu_s_per_gb",
    "producer_late_ms",
    "producer_too_late",
    "last_lossless_cameras",
];

/// Adds cameras until every system has lost something, then runs the mixed workload.
pub fn measure(args: &CamerasArgs) -> Result<matrix::Outcome> {
    let directory = args.place.prepare()?;
    let mut outcome = matrix::Outcome::default();
    let mut systems = args.systems();
    let mut lossless: Vec<(System, u32)> = systems.iter().map(|&system| (system, 0)).collect();
    for count in args.counts() {
        let workload = Workload::Cameras { count, rate_hz: CAMERA_RATE_HZ };
        if systems.is_empty() || check_run(workload, args.seconds(), &directory).is_err() {
            break;
        }
        eprintln!("cameras: {count}");
        let lost = measure_workload(args, workload, count, &systems, &directory, &mut outcome);
        systems.retain(|system| !lost.contains(system));
        for (_, last) in lossless.iter_mut().filter(|(system, _)| systems.contains(system)) {
            *last = count;
        }
    }
    for &(system, count) in &lossless {
        for found in outcome.rows.iter_mut().filter(|found| is_of(found, system)) {
            found.insert("last_lossless_cameras".into(), count.into());
        }
    }
    eprintln!("cameras: mixed");
    let mixed: Vec<_> =
        args.systems().into_iter().filter(|s| s.can(Workload::Mixed, Mode::Paced)).collect();
    check_run(Workload::Mixed, args.seconds(), &directory)?;
    measure_workload(args, Workload::Mixed, 8, &mixed, &directory, &mut outcome);
    Ok(outcome)
}

fn is_of(found: &Row, system: System) -> bool {
    found.get("system") == row(&serde_json::json!({ "system": system })).get("system")
}

/// Runs one workload with each system, alternating, and reports which of them lost messages, failed, or did not get the
/// messages at their pace.
fn measure_workload(
    args: &CamerasArgs,
    workload: Workload,
    cameras: u32,
    systems: &[System],
    directory: &Path,
    outcome: &mut matrix::Outcome,
) -> Vec<System> {
    let mut series: Vec<(System, Vec<Figures>)> =
        systems.iter().map(|&system| (system, Vec::new())).collect();
    let count = series.len();
    for repeat in 0..args.repeats() as usize {
        for turn in 0..count {
            let (system, runs) = &mut series[(turn + repeat) % count];
            match run(args, workload, *system, directory) {
                Ok(figures) => {
                    let mut found = row_of(args, workload, cameras, *system, &[&figures]);
                    eprintln!(
                        "  {system:?}: {:.2} % recorded, {:.3} GB/s",
                        figures.recorded_pct, figures.gb_per_s
                    );
                    found.insert("repeat".into(), (repeat + 1).into());
                    outcome.runs.push(found);
                    runs.push(figures);
                }
                Err(e) => {
                    outcome.failures.push(format!("{system:?} with {cameras} cameras: {e}"));
                }
            }
        }
    }
    for (system, runs) in series.iter().filter(|(_, runs)| !runs.is_empty()) {
        let runs: Vec<_> = runs.iter().collect();
        outcome.rows.push(row_of(args, workload, cameras, *system, &runs));
    }
    let is_whole = |runs: &[Figures]| {
        let mut late = runs.iter().map(|run| run.producer_late_ms > PRODUCER_LATE_MS_MAX);
        !runs.is_empty() && runs.iter().all(|run| run.lost == 0) && !late.any(|late| late)
    };
    series.into_iter().filter(|(_, runs)| !is_whole(runs)).map(|(system, _)| system).collect()
}

fn run(
    args: &CamerasArgs,
    workload: Workload,
    system: System,
    directory: &Path,
) -> Result<Figures> {
    let mut options = RunOptions {
        system,
        workload,
        mode: Mode::Paced,
        seconds: args.seconds(),
        name: String::new(),
        directory: PathBuf::new(),
        cache_bytes_max: args.max_cache_size,
        pins: None,
        cycle_aware: false,
        sensors_first: false,
    };
    in_new_directory(directory, &mut options, matrix::run)
}

/// Medians, except the least of the recorded and the sum of the lost messages.
fn row_of(
    args: &CamerasArgs,
    workload: Workload,
    cameras: u32,
    system: System,
    runs: &[&Figures],
) -> Row {
    let median = |of: fn(&Figures) -> f64| {
        stats::median(&runs.iter().map(|run| of(run)).collect::<Vec<_>>())
    };
    let recorded = runs.iter().map(|run| run.recorded_pct).reduce(f64::min);
    let late = runs.iter().map(|run| run.producer_late_ms).fold(0.0, f64::max);
    let name = if workload == Workload::Mixed { "mixed" } else { "cameras" };
    row(&serde_json::json!({
        "system": system,
        "workload": name,
        "cameras": cameras,
        "recorded_pct": shown("recorded_pct", recorded),
        "lost": runs.iter().map(|run| run.lost).sum::<u64>(),
        "gb_per_s": figure(median(|run| run.gb_per_s)),
        "published_gb_per_s": figure(Some(workload.volume(1.0).1 as f64 / 1e9)),
        "cpu_s_per_gb": figure(median(|run| run.cpu_s_per_gb)),
        "producer_late_ms": figure(Some(late)),
        "producer_too_late": late > PRODUCER_LATE_MS_MAX,
        "seconds": args.seconds(),
        "repeats": runs.len(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CamerasArgs,
    }

    #[test]
    fn without_options_cameras_are_added_one_by_one() {
        let args = Line::parse_from(["cameras"]).args;
        assert_eq!(args.counts(), (1..=CAMERAS_MAX).collect::<Vec<_>>());
        assert_eq!(args.systems(), System::ALL);
        let quick = Line::parse_from(["cameras", "--quick", "--cameras-max", "4"]).args;
        assert!(quick.counts().iter().all(|count| *count <= 4) && quick.repeats() == 1);
    }

    #[test]
    fn a_row_is_found_by_its_system() {
        let found = row(&serde_json::json!({ "system": "mcap-chunked" }));
        assert!(is_of(&found, System::McapChunked) && !is_of(&found, System::Livebag));
    }
}
