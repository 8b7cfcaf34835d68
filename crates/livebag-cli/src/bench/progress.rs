//! How a benchmark goes, on standard error: a line that changes on a terminal, and a line by
//! finished run.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::measure::Run;
use super::plan::Combination;

const TICK: Duration = Duration::from_millis(200);

/// Shows it. The terminal is left as it was when this is dropped.
pub struct Progress {
    bar: Option<ProgressBar>,
    runs: usize,
    done: usize,
}

impl Progress {
    /// Starts showing this many runs.
    pub fn begin(runs: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(TICK);
            bar
        });
        Self { bar, runs, done: 0 }
    }

    /// This one begins.
    pub fn show(&self, combination: &Combination, seconds: f64) {
        if let Some(bar) = &self.bar {
            bar.reset_elapsed();
            bar.set_message(format!(
                "[{}/{}] {}, {}: publishing for {seconds:.1} s",
                self.done + 1,
                self.runs,
                combination.storage,
                combination.parameters()
            ));
        }
    }

    /// This one is over.
    pub fn finished(&mut self, run: &Run) {
        self.done += 1;
        let line = format!(
            "livebag: [{}/{}] {}, {}: {:.2} % recorded, {:.1} MB/s, {:.3} CPU s/GB",
            self.done,
            self.runs,
            run.storage_id,
            run.parameters,
            run.recorded_pct,
            run.mb_per_s,
            run.cpu_s_per_gb
        );
        match &self.bar {
            Some(bar) => bar.println(line),
            None => say!("{line}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
