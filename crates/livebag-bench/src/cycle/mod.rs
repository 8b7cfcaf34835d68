//! `livebag-bench cycle`: what recording costs an application that computes on the same processor.
//!
//! SPEED's Figure 10: a computation of 10 ms every 33 ms while a recorder runs. Application and recorder are bound to
//! one processor, so that they contend for it, the producer of the frames to another. A completion time is counted from
//! the moment at which the computation was due, so that a late start shows.

mod application;
mod run;

use std::path::Path;

use clap::Args;
use serde::Serialize;

use crate::error::{BenchError, Result};
use crate::place::Place;
use crate::record::matrix::{self, CACHE_BYTES, check_run};
use crate::record::{Pins, System, Workload};
use crate::report::{Row, figure, row};
use crate::stats;

pub use application::{ROLE as APPLICATION_ROLE, compute};
use run::Found;

const SECONDS: f64 = 10.0;
const QUICK_SECONDS: f64 = 3.0;

/// When the recorder writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Schedule {
    /// No recorder.
    None,
    /// As soon as there is data to write.
    Immediate,
    /// While the application rests.
    CycleAware,
}

/// The recorder and its schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Contender {
    system: Option<System>,
    schedule: Schedule,
}

const CONTENDERS: [Contender; 4] = [
    Contender { system: None, schedule: Schedule::None },
    Contender { system: Some(System::McapChunked), schedule: Schedule::Immediate },
    Contender { system: Some(System::Livebag), schedule: Schedule::Immediate },
    Contender { system: Some(System::Livebag), schedule: Schedule::CycleAware },
];

/// SPEED's cameras, at rates that sum up to 0.50 and 1.39 GB/s.
const LOADS: [Workload; 2] =
    [Workload::Cameras { count: 5, rate_hz: 18 }, Workload::Cameras { count: 7, rate_hz: 36 }];

/// Options of `livebag-bench cycle`.
#[derive(Debug, Clone, Args)]
pub struct CycleArgs {
    /// Seconds of a run
    #[arg(long, value_name = "S")]
    pub seconds: Option<f64>,
    /// How often all is repeated; figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeats: u32,
    /// A run of under 50 s: short, once
    #[arg(long)]
    pub quick: bool,
    /// Processor of the application and the recorder (without: the last one)
    #[arg(long, value_name = "N")]
    pub core: Option<usize>,
    #[command(flatten)]
    pub place: Place,
    /// Bytes of each half of the double buffer; livebag's cache has the size of both
    #[arg(long, value_name = "BYTES", default_value_t = CACHE_BYTES)]
    pub max_cache_size: u64,
}

impl CycleArgs {
    fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { QUICK_SECONDS } else { SECONDS })
    }

    fn repeats(&self) -> u32 {
        if self.quick { 1 } else { self.repeats }
    }

    fn pins(&self) -> Result<Pins> {
        let allowed = rustix::thread::sched_getaffinity(None)
            .map_err(|e| BenchError::io("asking for the processors", e))?;
        let mut cores = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        let last = cores.clone().next_back().unwrap_or(0);
        let recorder = self.core.unwrap_or(last);
        if !allowed.is_set(recorder) {
            return Err(BenchError::Usage(format!(
                "processor {recorder} is not there, or not for this process: choose another --core"
            )));
        }
        Ok(Pins { recorder, producer: cores.find(|&core| core != recorder).unwrap_or(recorder) })
    }
}

/// The columns of the table.
pub const COLUMNS: &[&str] = &[
    "system",
    "mode",
    "published_gb_per_s",
    "stddev_us",
    "worst_us",
    "mean_us",
    "p99_us",
    "lost",
    "recorded_pct",
    "stddev_over_none",
    "mcap_stddev_over_this",
];

/// Runs every load with every recorder.
pub fn measure(args: &CycleArgs) -> Result<matrix::Outcome> {
    let directory = args.place.prepare()?;
    let pins = args.pins()?;
    for load in LOADS {
        check_run(load, args.seconds(), &directory)?;
    }
    let rounds = application::calibrate(pins.recorder)?;
    let mut outcome = matrix::Outcome::default();
    for load in LOADS {
        let setting = run::Setting {
            load,
            seconds: args.seconds(),
            cache_bytes_max: args.max_cache_size,
            pins,
            rounds,
        };
        measure_load(args, &setting, &directory, &mut outcome);
    }
    Ok(outcome)
}

fn measure_load(
    args: &CycleArgs,
    setting: &run::Setting,
    directory: &Path,
    outcome: &mut matrix::Outcome,
) {
    eprintln!("cycle: {:.2} GB/s", published_gb_per_s(setting.load));
    let mut series: Vec<(Contender, Vec<Option<Found>>)> =
        CONTENDERS.map(|contender| (contender, Vec::new())).into();
    let count = series.len();
    for repeat in 0..args.repeats() as usize {
        for turn in 0..count {
            let (contender, runs) = &mut series[(turn + repeat) % count];
            match run::run(setting, *contender, directory) {
                Ok(found) => {
                    eprintln!(
                        "  {contender:?}: stddev {:.0} µs, worst {:.0} µs, {} lost",
                        found.stddev_us, found.worst_us, found.lost
                    );
                    let mut single = row_of(setting, *contender, &[&found]);
                    single.insert("repeat".into(), (repeat + 1).into());
                    outcome.runs.push(single);
                    runs.push(Some(found));
                }
                Err(e) => {
                    outcome.failures.push(format!("{contender:?}: {e}"));
                    runs.push(None);
                }
            }
        }
    }
    for (contender, runs) in &series {
        let done: Vec<_> = runs.iter().flatten().collect();
        if done.is_empty() {
            continue;
        }
        let mut found = row_of(setting, *contender, &done);
        let against = |system: Option<System>| {
            let (_, theirs) = series.iter().find(|(other, _)| other.system == system)?;
            stats::ratio(&deviations(theirs), &deviations(runs))
        };
        let over_none = stats::ratio(&deviations(runs), &deviations(&series[0].1));
        found.insert("stddev_over_none".into(), serde_json::json!(over_none));
        let over_this = against(Some(System::McapChunked));
        found.insert("mcap_stddev_over_this".into(), serde_json::json!(over_this));
        outcome.rows.push(found);
    }
}

fn deviations(runs: &[Option<Found>]) -> Vec<f64> {
    runs.iter().map(|run| run.as_ref().map_or(f64::NAN, |found| found.stddev_us)).collect()
}

fn published_gb_per_s(load: Workload) -> f64 {
    load.volume(1.0).1 as f64 / 1e9
}

/// Medians, but the worst of all and the sum of the losses.
fn row_of(setting: &run::Setting, contender: Contender, runs: &[&Found]) -> Row {
    let all = |of: fn(&Found) -> f64| runs.iter().map(|run| of(run)).collect::<Vec<_>>();
    let median = |of| figure(stats::median(&all(of)));
    let worst = all(|found| found.worst_us).into_iter().reduce(f64::max);
    let recorded: Vec<f64> = runs.iter().filter_map(|found| found.recorded_pct).collect();
    let system = contender
        .system
        .map_or_else(|| serde_json::json!("none"), |system| serde_json::json!(system));
    row(&serde_json::json!({
        "system": system,
        "mode": contender.schedule,
        "published_gb_per_s": figure(Some(published_gb_per_s(setting.load))),
        "stddev_us": median(|found| found.stddev_us),
        "worst_us": figure(worst),
        "mean_us": median(|found| found.mean_us),
        "p99_us": median(|found| found.p99_us),
        "lost": runs.iter().map(|found| found.lost).sum::<u64>(),
        "recorded_pct": matrix::shown("recorded_pct", recorded.into_iter().reduce(f64::min)),
        "cycles": runs.iter().map(|found| found.cycles).sum::<u64>(),
        "seconds": setting.seconds,
        "repeats": runs.len(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loads_are_those_of_the_issue() {
        let loads = LOADS.map(published_gb_per_s);
        assert!((loads[0] - 0.5).abs() < 0.01, "{loads:?}");
        assert!((loads[1] - 1.4).abs() < 0.01, "{loads:?}");
    }
}
