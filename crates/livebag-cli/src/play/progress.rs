//! How playing goes, on standard error: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use livebag::{Clock, PlayStatus};

use crate::text;

/// Shortest interval between plain lines.
const LINE_NANOS: u64 = 10_000_000_000;

/// Shows it.
pub struct Progress {
    bar: Option<ProgressBar>,
    clock: Clock,
    /// Between two showings; `None` for none.
    pause_nanos: Option<u64>,
    shown_nanos: u64,
}

impl Progress {
    /// `rate`: updates of the bar a second; 0 for no bar, below 0 for one at every poll.
    pub fn begin(clock: Clock, rate: f64) -> Self {
        let bar = (rate != 0.0 && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(1);
            if let Ok(style) = ProgressStyle::with_template("{wide_bar} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        let pause_nanos = match rate {
            0.0 => None,
            _ if bar.is_none() => Some(LINE_NANOS),
            // A negative number becomes 0.
            _ => Some((1e9 / rate) as u64),
        };
        Self { bar, shown_nanos: clock.monotonic_nanos(), clock, pause_nanos }
    }

    /// Shows it if it is time, or if `now`.
    pub fn show(&mut self, status: &PlayStatus, now: bool) {
        let Some(pause_nanos) = self.pause_nanos else { return };
        let nanos = self.clock.monotonic_nanos();
        let is_due = nanos.saturating_sub(self.shown_nanos) >= pause_nanos;
        if !(is_due || now && self.bar.is_some()) {
            return;
        }
        self.shown_nanos = nanos;
        let line = line(status);
        match &self.bar {
            Some(bar) => {
                bar.set_length((status.length.as_nanos() as u64).max(1));
                bar.set_position(status.position.as_nanos() as u64);
                bar.set_message(line);
                bar.tick();
            }
            None => say!("livebag: {line}"),
        }
    }

    /// Takes the bar away.
    pub fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn line(status: &PlayStatus) -> String {
    let at = |time: Duration| text::duration(time.as_nanos() as u64);
    let rounds = match status.rounds {
        0 => String::new(),
        rounds => format!(", round {}", rounds + 1),
    };
    let rate = match status.rate {
        1.0 => String::new(),
        rate => format!(", {rate:.2} times as fast"),
    };
    format!(
        "{} of {}, {}{rounds}{rate}{}",
        at(status.position),
        at(status.length),
        text::messages(status.messages),
        if status.paused { ", paused" } else { "" },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_where_it_stands_and_what_is_unusual() {
        let status = PlayStatus {
            messages: 1234,
            position: Duration::from_secs(5),
            length: Duration::from_secs(60),
            rate: 1.0,
            ..PlayStatus::default()
        };
        assert_eq!(line(&status), "5.0 s of 1 min 00 s, 1,234 messages");
        let status = PlayStatus { rounds: 1, rate: 0.5, paused: true, ..status };
        let said = line(&status);
        assert!(said.ends_with(", round 2, 0.50 times as fast, paused"), "{said}");
    }
}
