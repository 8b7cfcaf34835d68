//! One run: producer, recorder, application.

use std::path::{Path, PathBuf};

use super::application::{self, Computed, Orders};
use super::{Contender, Schedule};
use crate::child::Process;
use crate::error::Result;
use crate::record::matrix::{in_new_directory, warn_if_late};
use crate::record::producer::{self, Produced};
use crate::record::recorder::{self, Recorded};
use crate::record::{Mode, Pins, RunOptions, System, Workload};
use crate::stats::Durations;

/// Cycles that are not counted: the recorder sets up, and learns.
const WARM_UP_CYCLES: usize = 15;

/// Settings common to all recorders.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub load: Workload,
    pub seconds: f64,
    pub cache_bytes_max: u64,
    pub pins: Pins,
    /// How much the application computes each time.
    pub rounds: u64,
}

/// Result of a run.
#[derive(Debug, Clone)]
pub struct Found {
    pub stddev_us: f64,
    pub worst_us: f64,
    pub mean_us: f64,
    pub p99_us: f64,
    pub lost: u64,
    /// None without a recorder.
    pub recorded_pct: Option<f64>,
    pub cycles: u64,
}

/// Runs the application with a recorder, or with only the producer.
pub fn run(setting: &Setting, contender: Contender, directory: &Path) -> Result<Found> {
    let Contender { system, schedule } = contender;
    let mut options = RunOptions {
        // Without a recorder only the producer sees these.
        system: system.unwrap_or(System::Livebag),
        workload: setting.load,
        mode: Mode::Paced,
        seconds: setting.seconds,
        name: String::new(),
        directory: PathBuf::new(),
        cache_bytes_max: setting.cache_bytes_max,
        pins: Some(setting.pins),
        cycle_aware: schedule == Schedule::CycleAware,
        sensors_first: false,
    };
    in_new_directory(directory, &mut options, |options| {
        run_processes(setting, system.is_some(), options)
    })
}

fn run_processes(setting: &Setting, records: bool, options: &RunOptions) -> Result<Found> {
    let patience_seconds = 120 + (10.0 * setting.seconds) as u64;
    let mut producer = Process::start(producer::ROLE, options)?;
    producer.expect_ready()?;
    let mut recorder = None;
    if records {
        let mut process = Process::start(recorder::ROLE, options)?;
        process.expect_ready()?;
        process.go()?;
        recorder = Some(process);
    }
    let orders = Orders {
        core: setting.pins.recorder,
        rounds: Some(setting.rounds),
        cycles: application::cycles_in(setting.seconds),
    };
    let mut application = Process::start(application::ROLE, &orders)?;
    application.expect_ready()?;
    producer.go()?;
    application.go()?;
    let computed: Computed = application.result(patience_seconds)?;
    let produced: Produced = producer.result(patience_seconds)?;
    warn_if_late(&produced);
    let published: u64 = produced.published.iter().sum();
    let mut messages = None;
    if let Some(mut recorder) = recorder {
        recorder.go()?;
        let recorded: Recorded = recorder.result(patience_seconds)?;
        recorder.finish()?;
        messages = Some(recorded.messages);
    }
    producer.go()?;
    producer.finish()?;
    application.finish()?;
    Ok(found(&computed, published, messages))
}

fn found(computed: &Computed, published: u64, messages: Option<u64>) -> Found {
    let warm_up = WARM_UP_CYCLES.min(computed.completion_nanos.len());
    let counted = &computed.completion_nanos[warm_up..];
    let durations = Durations::of(counted.iter().copied());
    let (mean, stddev) = mean_and_deviation(counted);
    Found {
        stddev_us: stddev / 1e3,
        worst_us: counted.iter().max().map_or(f64::NAN, |&worst| worst as f64 / 1e3),
        mean_us: mean / 1e3,
        p99_us: durations.percentile_us(99.0).unwrap_or(f64::NAN),
        lost: messages.map_or(0, |messages| published.saturating_sub(messages)),
        recorded_pct: messages.map(|messages| 100.0 * messages as f64 / published.max(1) as f64),
        cycles: counted.len() as u64,
    }
}

/// Of the whole population: every cycle is there.
fn mean_and_deviation(nanos: &[u64]) -> (f64, f64) {
    let count = nanos.len().max(1) as f64;
    let mean = nanos.iter().map(|&n| n as f64).sum::<f64>() / count;
    let square = nanos.iter().map(|&n| (n as f64 - mean).powi(2)).sum::<f64>() / count;
    (mean, square.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cycles_are_not_counted() {
        let mut completion_nanos = vec![99_000_000; WARM_UP_CYCLES];
        completion_nanos.extend([10_000_000, 12_000_000, 14_000_000, 12_000_000]);
        let computed = Computed { completion_nanos, rounds: 1 };
        let found = found(&computed, 10, Some(9));
        assert_eq!((found.cycles, found.lost), (4, 1));
        assert!((found.mean_us - 12_000.0).abs() < 1e-6);
        assert!((found.stddev_us - 2f64.sqrt() * 1000.0).abs() < 1e-6);
        assert!((found.worst_us - 14_000.0).abs() < 1e-6);
    }
}
