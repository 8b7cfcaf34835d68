//! How a recording goes, on standard error: one line that changes on a terminal, a few plain lines
//! elsewhere.

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use livebag::storage::{Disk, KernelDisk};
use livebag::{Clock, Status};

use crate::text;

/// Rates are those of the last so many nanoseconds.
const RATE_NANOS: u64 = 2_000_000_000;
/// Plain lines come at most so often when topics or losses have changed …
const CHANGED_NANOS: u64 = 1_000_000_000;
/// … and so often when they have not.
const UNCHANGED_NANOS: u64 = 10_000_000_000;
/// New topics named at one look; more are counted.
const NAMED_MAX: usize = 20;

/// Shows it.
pub struct Progress {
    bar: Option<ProgressBar>,
    clock: Clock,
    disk: KernelDisk,
    directory: PathBuf,
    began_nanos: u64,
    /// (time, messages, bytes) of the last looks.
    looks: VecDeque<(u64, u64, u64)>,
    topics_named: usize,
    /// Topics and losses of the last plain line, and when it was.
    said: (usize, u64),
    said_nanos: u64,
}

impl Progress {
    /// Begins to show the recording in `directory`.
    pub fn begin(clock: Clock, directory: &Path) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        let began_nanos = clock.monotonic_nanos();
        Self {
            bar,
            clock,
            disk: KernelDisk::for_reading(),
            directory: directory.to_owned(),
            began_nanos,
            looks: VecDeque::new(),
            topics_named: 0,
            said: (0, 0),
            said_nanos: began_nanos,
        }
    }

    /// Shows `status`.
    pub fn show(&mut self, status: &Status) {
        self.name_topics(status);
        let now = self.clock.monotonic_nanos();
        let (messages, bytes, lost) = status.totals();
        self.looks.push_back((now, messages, bytes));
        while self.looks.front().is_some_and(|look| now - look.0 > RATE_NANOS) {
            self.looks.pop_front();
        }
        let state = (status.topics.len(), lost.total());
        if let Some(bar) = &self.bar {
            bar.set_message(self.line(now, status));
            return;
        }
        let pause = if state == self.said { UNCHANGED_NANOS } else { CHANGED_NANOS };
        if now - self.said_nanos >= pause {
            eprintln!("livebag: {}", self.line(now, status));
            (self.said, self.said_nanos) = (state, now);
        }
    }

    /// Leaves the terminal as it was.
    pub fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }

    fn name_topics(&mut self, status: &Status) {
        let new = &status.topics[self.topics_named.min(status.topics.len())..];
        for topic in new.iter().take(NAMED_MAX) {
            self.say(&format!("livebag: recording {} ({})", topic.name, topic.type_name));
        }
        if new.len() > NAMED_MAX {
            self.say(&format!("livebag: recording {} more topics", new.len() - NAMED_MAX));
        }
        self.topics_named = status.topics.len();
    }

    /// Says something without disturbing the line that changes.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }

    fn line(&self, now: u64, status: &Status) -> String {
        let (messages, _, lost) = status.totals();
        let (first, last) = (self.looks.front(), self.looks.back());
        let (mut messages_per_s, mut bytes_per_s) = (0.0, 0.0);
        if let (Some(first), Some(last)) = (first, last)
            && last.0 > first.0
        {
            let seconds = (last.0 - first.0) as f64 / 1e9;
            messages_per_s = (last.1 - first.1) as f64 / seconds;
            bytes_per_s = (last.2 - first.2) as f64 / seconds;
        }
        let mut line = format!(
            "{}, {}, {} messages ({messages_per_s:.0}/s), {}, {} lost",
            text::duration(now - self.began_nanos),
            text::plural(status.topics.len(), "topic"),
            text::count(messages),
            text::bytes_per_second(bytes_per_s),
            text::count(lost.total()),
        );
        if let Ok(free) = self.disk.free_bytes(&self.directory) {
            line.push_str(&format!(", {} left", text::bytes(free as f64)));
            if bytes_per_s >= 1.0 {
                let left = free as f64 / bytes_per_s * 1e9;
                line.push_str(&format!(" ({})", text::duration(left as u64)));
            }
        }
        line
    }
}
