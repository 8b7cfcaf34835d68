//! When `push --watch` sends nothing: outside of `--hours`, with `--not-while-recording` beside a recorder, and while
//! the recorder that started it has it pause.

use std::collections::HashSet;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use livebag::Clock;
use livebag_bags::GlanceState;
use livebag_push::Target;

use super::Args;
use crate::below;
use crate::outcome::CliError;

/// A part of each day, in local time. May go over midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayRange {
    from: Time,
    /// The first moment after it; midnight is the end of the day.
    to: Time,
}

/// Decides whether something may be sent now, and says when that changes.
pub struct Hold {
    hours: Vec<DayRange>,
    zone: TimeZone,
    clock: Clock,
    /// Below these nothing is recorded while something is sent.
    folders: Vec<PathBuf>,
    /// Between two looks for recorders.
    every_nanos: u64,
    next_look_nanos: u64,
    recorded: Option<PathBuf>,
    paused: Arc<AtomicBool>,
    /// The words of what holds, once they have been said.
    said: Option<String>,
}

impl DayRange {
    /// `22:00-06:00`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` are no hours: expected 22:00-06:00, in local time");
        let (from, to) = text.split_once('-').ok_or_else(wrong)?;
        let time = |text: &str| match text {
            "24:00" => Some(Time::midnight()),
            _ => Time::strptime("%H:%M", text).ok(),
        };
        let (from, to) = time(from.trim()).zip(time(to.trim())).ok_or_else(wrong)?;
        match from == to && text.trim() != "00:00-24:00" {
            true => Err(format!("`{text}` are no hours: they end as they begin")),
            false => Ok(Self { from, to }),
        }
    }

    fn has(&self, time: Time) -> bool {
        match self.from < self.to {
            true => (self.from..self.to).contains(&time),
            false => time >= self.from || time < self.to,
        }
    }

    /// When it begins next.
    fn next(&self, now: &Zoned) -> Option<Zoned> {
        let today = now.date();
        [Some(today), today.tomorrow().ok()].into_iter().flatten().find_map(|day| {
            let begin = day.to_datetime(self.from).to_zoned(now.time_zone().clone()).ok()?;
            (begin > *now).then_some(begin)
        })
    }
}

impl Hold {
    pub fn new(args: &Args, clock: Clock) -> Result<Self, CliError> {
        let paused = Arc::new(AtomicBool::new(false));
        if args.recorder.is_some() {
            let shared = paused.clone();
            let listen = move || listen(std::io::stdin().lock(), &shared);
            let thread = std::thread::Builder::new().name("livebag-orders".into()).spawn(listen);
            thread.map_err(|e| CliError::failed(format!("starting a thread failed: {e}")))?;
        }
        Ok(Self {
            hours: args.hours.clone(),
            zone: TimeZone::system(),
            clock,
            folders: if args.not_while_recording { args.bags.clone() } else { Vec::new() },
            every_nanos: args.every.as_nanos() as u64,
            next_look_nanos: 0,
            recorded: None,
            paused,
            said: None,
        })
    }

    /// Whether nothing may be sent now; the target finishes the part in flight, and waits. Recordings of `closed` are
    /// not looked at again.
    pub fn holds(&mut self, target: &Target, closed: &HashSet<PathBuf>) -> bool {
        let why = self.paused().or_else(|| self.outside_hours());
        let why = why.or_else(|| self.beside_a_recorder(closed));
        let is_held = why.is_some();
        target.hold(is_held);
        if why != self.said {
            match &why {
                Some(why) => say!("livebag: {why}"),
                None => say!("livebag: sending again"),
            }
            self.said = why;
        }
        is_held
    }

    fn paused(&self) -> Option<String> {
        self.paused.load(Ordering::Relaxed).then(|| "paused".to_owned())
    }

    fn outside_hours(&self) -> Option<String> {
        let now = Timestamp::from_nanosecond(i128::from(self.clock.wall_nanos())).ok()?;
        let now = now.to_zoned(self.zone.clone());
        if self.hours.is_empty() || self.hours.iter().any(|range| range.has(now.time())) {
            return None;
        }
        let next = self.hours.iter().filter_map(|range| range.next(&now)).min()?;
        Some(format!("outside of --hours: sending again at {}", next.strftime("%Y-%m-%d %H:%M %Z")))
    }

    fn beside_a_recorder(&mut self, closed: &HashSet<PathBuf>) -> Option<String> {
        let now = self.clock.monotonic_nanos();
        if !self.folders.is_empty() && now >= self.next_look_nanos {
            self.next_look_nanos = now + self.every_nanos;
            self.recorded = self.folders.iter().find_map(|folder| live_below(folder, closed));
        }
        let path = self.recorded.as_ref()?;
        Some(format!("{} is being recorded: sending again when it is closed", path.display()))
    }
}

/// Takes a recorder's orders.
fn listen(orders: impl BufRead, paused: &AtomicBool) {
    for order in orders.lines().map_while(Result::ok) {
        paused.store(order == "pause", Ordering::Relaxed);
    }
}

/// A recording that is being made.
fn live_below(folder: &Path, closed: &HashSet<PathBuf>) -> Option<PathBuf> {
    // A folder that cannot be listed is told by the watch.
    let found = below::found_beside(folder, closed).ok()?;
    found.into_iter().find(|(_, glance)| glance.state == GlanceState::Live).map(|(path, _)| path)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use livebag_push::TargetOptions;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn hours(texts: &[&str]) -> Vec<DayRange> {
        texts.iter().map(|text| DayRange::parse(text).unwrap()).collect()
    }

    /// In Central Europe from this time on.
    fn hold(hours: Vec<DayRange>, from: &str) -> Hold {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let from: jiff::civil::DateTime = from.parse().unwrap();
        let from = from.to_zoned(zone.clone()).unwrap().timestamp().as_nanosecond();
        let clock = Clock::simulated(u64::try_from(from).unwrap());
        let folders = Vec::new();
        let (every_nanos, next_look_nanos, recorded, said) = (5_000_000_000, 0, None, None);
        let paused = Arc::default();
        Hold { hours, zone, clock, folders, every_nanos, next_look_nanos, recorded, paused, said }
    }

    #[test]
    fn it_sends_in_its_hours_and_says_when_they_begin() {
        let folder = tempfile::tempdir().unwrap();
        let target =
            Target::open(folder.path().to_str().unwrap(), &TargetOptions::default()).unwrap();
        let mut hold = hold(hours(&["22:00-06:00", "12:00-13:30"]), "2026-05-01T00:00");
        let held: Vec<bool> = (0..48)
            .map(|_| {
                let is_held = hold.holds(&target, &HashSet::new());
                hold.clock.advance(HOUR / 2);
                is_held
            })
            .collect();
        let wanted = (0..48).map(|at| !matches!(at, 0..12 | 24..27 | 44..));
        assert_eq!(held, wanted.collect::<Vec<_>>());
        hold.clock.advance(HOUR * 6);
        assert_eq!(
            hold.outside_hours().unwrap(),
            "outside of --hours: sending again at 2026-05-02 12:00 CEST"
        );
        hold.clock.advance(HOUR * 8);
        assert!(hold.outside_hours().unwrap().ends_with("2026-05-02 22:00 CEST"));
    }

    #[test]
    fn a_recorder_has_it_pause() {
        let folder = tempfile::tempdir().unwrap();
        let target =
            Target::open(folder.path().to_str().unwrap(), &TargetOptions::default()).unwrap();
        let mut hold = hold(Vec::new(), "2026-05-01T00:00");
        for (orders, is_held) in [("", false), ("pause\n", true), ("", true), ("resume\n", false)] {
            listen(orders.as_bytes(), &hold.paused);
            assert_eq!(hold.holds(&target, &HashSet::new()), is_held, "{orders}");
        }
    }

    #[test]
    fn hours_are_those_of_the_clock_on_the_wall() {
        // The clock is set back from 3:00 to 2:00 in that night.
        let hold = hold(hours(&["04:00-05:00"]), "2026-10-24T23:00");
        assert!(hold.outside_hours().unwrap().ends_with("2026-10-25 04:00 CET"));
        hold.clock.advance(HOUR * 5);
        assert!(hold.outside_hours().is_some());
        hold.clock.advance(HOUR);
        assert_eq!(hold.outside_hours(), None);
        // The user sets the clock.
        hold.clock.jump(-3_600_000_000_000);
        assert!(hold.outside_hours().is_some());
    }

    #[test]
    fn hours_are_read() {
        assert_eq!(hours(&["22:00-24:00"]), hours(&[" 22:00 - 00:00 "]));
        assert!(hours(&["00:00-24:00"])[0].has(Time::midnight()));
        for (text, why) in
            [("22", "expected"), ("22:00-25:00", "expected"), ("1:00-1:00", "end as")]
        {
            let refused = DayRange::parse(text).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
