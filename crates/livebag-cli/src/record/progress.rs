//! How a recording goes, on standard error: one line that changes on a terminal, a few plain lines
//! elsewhere.

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use livebag::{Clock, Disk, KernelDisk, Status};
use livebag_format::Visible;
use livebag_net::tell::PushStatus;

use crate::color::{self, To, Tone};
use crate::interrupt::Interrupt;
use crate::text;

/// Rates are averages over this many nanoseconds.
const RATE_NANOS: u64 = 2_000_000_000;
/// Shortest interval of plain lines when topics or losses have changed …
const CHANGED_NANOS: u64 = 1_000_000_000;
/// … and when they have not.
const UNCHANGED_NANOS: u64 = 10_000_000_000;
/// A close that takes longer than this is shown.
const CLOSE_NANOS: u64 = 1_000_000_000;
/// What waits for the disk is shown from here on.
const WAITING_BYTES: u64 = 1_000_000;
/// New topics that have a line each; more share one.
const LINES_MAX: usize = 8;
/// Names on the line of many topics.
const NAMED_MAX: usize = 3;
/// Cells of the line that the spinner takes.
const SPINNER: usize = 2;

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
    topics_gone: Vec<bool>,
    clock_jumps: u64,
    /// Topics and losses of the last plain line, and when it was.
    said: (usize, u64, bool, u32),
    said_nanos: u64,
    /// When closing began, and whether that has been said.
    closing: Option<(u64, bool)>,
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
            topics_gone: Vec::new(),
            clock_jumps: 0,
            said: (0, 0, false, 1),
            said_nanos: began_nanos,
            closing: None,
        }
    }

    /// Shows `status`.
    pub fn show(&mut self, status: &Status, push: Option<&PushStatus>) {
        self.name_topics(status);
        self.name_events(status);
        let now = self.clock.monotonic_nanos();
        let (messages, bytes, lost) = status.totals();
        self.looks.push_back((now, messages, bytes));
        while self.looks.front().is_some_and(|look| now - look.0 > RATE_NANOS) {
            self.looks.pop_front();
        }
        let state = (status.topics.len(), lost.total(), status.paused, status.splits);
        if let Some(bar) = &self.bar {
            let width = color::width(To::Err).map(|width| width.saturating_sub(SPINNER));
            bar.set_message(self.line(now, status, push, width));
            return;
        }
        let pause = if state == self.said { UNCHANGED_NANOS } else { CHANGED_NANOS };
        if now - self.said_nanos >= pause {
            say!("livebag: {}", self.line(now, status, push, None));
            (self.said, self.said_nanos) = (state, now);
        }
    }

    /// Shows the progress of closing: at once after a further signal, else if it takes long.
    pub fn show_closing(&mut self, status: &Status, is_asked_again: bool, interrupt: &Interrupt) {
        let now = self.clock.monotonic_nanos();
        let (began, is_said) = *self.closing.get_or_insert((now, false));
        let line = closing_line(status.cache_bytes + status.slot_bytes, interrupt);
        if let Some(bar) = &self.bar {
            bar.set_message(line);
            return;
        }
        let is_due = match is_said {
            true => now - self.said_nanos >= UNCHANGED_NANOS,
            false => now - began >= CLOSE_NANOS,
        };
        if is_due || is_asked_again {
            say!("livebag: {line}");
            self.said_nanos = now;
            self.closing = Some((began, true));
        }
    }

    /// Leaves the terminal as it was.
    pub fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }

    fn name_topics(&mut self, status: &Status) {
        let new = status.topics.iter().skip(self.topics_named);
        // Refused ones are named with the reason.
        let new: Vec<_> = new.filter(|topic| topic.refused.is_none()).collect();
        if new.len() > LINES_MAX {
            let named = new.iter().take(NAMED_MAX).map(|topic| Visible(&topic.name).to_string());
            let named = named.collect::<Vec<_>>().join(", ");
            self.say(&format!("livebag: recording {} topics: {named}, …", new.len()));
        } else {
            for topic in new {
                let (name, type_name) = (Visible(&topic.name), Visible(&topic.type_name));
                self.say(&format!("livebag: recording {name} ({type_name})"));
            }
        }
        self.topics_named = status.topics.len();
    }

    /// Prints changes of topics since the last poll.
    fn name_events(&mut self, status: &Status) {
        self.topics_gone.resize(status.topics.len(), false);
        for (at, topic) in status.topics.iter().enumerate() {
            if self.topics_gone[at] != topic.writer_gone {
                let what = if topic.writer_gone { "has died" } else { "is back" };
                self.say(&format!("livebag: {}: its writer {what}", Visible(&topic.name)));
                self.topics_gone[at] = topic.writer_gone;
            }
        }
        if status.clock_jumps.count > self.clock_jumps {
            self.clock_jumps = status.clock_jumps.count;
            let by = text::duration(status.clock_jumps.max_nanos);
            self.say(&format!("livebag: the clock was set, by up to {by}: log times jump here"));
        }
    }

    /// Prints a line without disturbing the status line.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(text::spoken(line)),
            None => say!("{line}"),
        }
    }

    fn line(
        &self,
        now: u64,
        status: &Status,
        push: Option<&PushStatus>,
        width: Option<usize>,
    ) -> String {
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
        let mut parts = Vec::new();
        if status.paused {
            parts.push(Part::always("PAUSED", Some(Tone::Warning)));
        }
        parts.push(Part::always(text::duration(now - self.began_nanos), None));
        parts.push(Part::ranked(3, text::plural(status.topics.len(), "topic")));
        parts.push(Part::ranked(4, text::messages(messages)));
        parts.push(Part::ranked(1, format!("{messages_per_s:.0} messages/s")));
        parts.push(Part::ranked(7, text::bytes_per_second(bytes_per_s)));
        let look = (lost.total() > 0).then_some(Tone::Bad);
        parts.push(Part::always(format!("{} lost", text::count(lost.total())), look));
        let waiting = status.cache_bytes + status.slot_bytes;
        if waiting >= WAITING_BYTES {
            parts.push(Part::ranked(6, format!("{} waiting", text::bytes(waiting as f64))));
        }
        if status.splits > 1 {
            parts.push(Part::ranked(2, format!("{} splits", status.splits)));
        }
        parts.extend(push.map(pushed));
        if let Ok(free) = self.disk.free_bytes(&self.directory) {
            let mut left = format!("{} left", text::bytes(free as f64));
            if bytes_per_s >= 1.0 {
                let time = free as f64 / bytes_per_s * 1e9;
                left.push_str(&format!(" ({})", text::duration(time as u64)));
            }
            parts.push(Part::ranked(5, left));
        }
        joined(parts, width)
    }
}

/// A part of a line.
struct Part {
    text: String,
    look: Option<Tone>,
    /// Which one goes first where the terminal is too narrow for all; `None` for what stays.
    rank: Option<u32>,
}

impl Part {
    fn always(text: impl Into<String>, look: Option<Tone>) -> Self {
        Self { text: text.into(), look, rank: None }
    }

    fn ranked(rank: u32, text: String) -> Self {
        Self { text, look: None, rank: Some(rank) }
    }
}

/// How pushing goes. The words of a failure have a line of their own.
fn pushed(push: &PushStatus) -> Part {
    match push.error {
        Some(_) => Part::always("not pushed", Some(Tone::Bad)),
        None if push.paused => Part::always("pushing paused", Some(Tone::Warning)),
        None => Part::ranked(5, crate::push_view::amount(push)),
    }
}

/// As many parts as fit into a line.
fn joined(mut parts: Vec<Part>, width: Option<usize>) -> String {
    let length = |parts: &[Part]| -> usize {
        parts.iter().map(|part| part.text.chars().count() + 2).sum::<usize>().saturating_sub(2)
    };
    while width.is_some_and(|width| length(&parts) > width) {
        let ranked = parts.iter().enumerate().filter_map(|(at, part)| Some((part.rank?, at)));
        let Some((_, at)) = ranked.min() else { break };
        parts.remove(at);
    }
    let painted = |part: &Part| match part.look {
        Some(look) => color::paint(To::Err, look, &part.text),
        None => part.text.clone(),
    };
    parts.iter().map(painted).collect::<Vec<_>>().join(", ")
}

fn closing_line(waiting_bytes: u64, interrupt: &Interrupt) -> String {
    match (interrupt.abandons(), waiting_bytes) {
        (true, _) => "closing: what waited is abandoned; what the disk was given before is still \
                      written"
            .into(),
        (false, 0) => "closing: waiting for the disk to make it durable".into(),
        (false, bytes) => format!(
            "closing: {} to write; press again after {} s to abandon them",
            text::bytes(bytes as f64),
            interrupt.grace().as_secs()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_is_told_what_matters_most() {
        let parts = || {
            vec![
                Part::always("1 min 05 s", None),
                Part::ranked(1, "12 topics".into()),
                Part::ranked(3, "1.49 GB/s".into()),
                Part::always("7 lost", None),
                Part::ranked(2, "120 GB left (1 h 20 min)".into()),
            ]
        };
        let whole = "1 min 05 s, 12 topics, 1.49 GB/s, 7 lost, 120 GB left (1 h 20 min)";
        assert_eq!(joined(parts(), None), whole);
        assert_eq!(joined(parts(), Some(whole.len())), whole);
        assert_eq!(
            joined(parts(), Some(whole.len() - 1)),
            "1 min 05 s, 1.49 GB/s, 7 lost, 120 GB left (1 h 20 min)"
        );
        assert_eq!(joined(parts(), Some(30)), "1 min 05 s, 1.49 GB/s, 7 lost");
        assert_eq!(joined(parts(), Some(5)), "1 min 05 s, 7 lost");
    }
}
