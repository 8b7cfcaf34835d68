//! Figures as people read them.

use std::io::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use livebag_format::visible;

pub use table::{Cell, table};

use crate::color::{self, To, Tone};

mod table;

/// Writes a message to standard error without control characters. Line feeds stay, and the lines behind them are
/// indented: a line feed in a foreign name cannot forge a message. A terminal that has hung up does not matter:
/// the operation continues.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", spoken(text));
}

/// The same for failures and losses.
pub fn complain(text: &str) {
    let text = spoken(text);
    let text = match text.strip_prefix("livebag:") {
        Some(rest) => color::paint(To::Err, Tone::Bad, "livebag:") + rest,
        None => text,
    };
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The text as standard error shows it.
pub fn spoken(text: &str) -> String {
    const WARNING: &str = "livebag: warning:";
    let text = text.split('\n').map(visible).collect::<Vec<_>>().join("\n  ");
    match text.strip_prefix(WARNING) {
        Some(rest) => color::paint(To::Err, Tone::Warning, WARNING) + rest,
        None => text,
    }
}

/// `1.49 GB`; decimal units, three digits.
pub fn bytes(bytes: f64) -> String {
    scaled(bytes, &["B", "kB", "MB", "GB", "TB", "PB"])
}

/// `1.49 GB/s`.
pub fn bytes_per_second(rate: f64) -> String {
    format!("{}/s", bytes(rate))
}

fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // 999.5 would be written as 1000.
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", units[unit])
}

/// `30.0 Hz`; nothing known is `-`.
pub fn hertz(rate: Option<f64>) -> String {
    match rate {
        None => "-".into(),
        Some(rate) if rate >= 1e6 => format!("{:.0} MHz", rate / 1e6),
        Some(rate) if rate >= 1000.0 => format!("{rate:.0} Hz"),
        Some(rate) if rate >= 1.0 => format!("{rate:.1} Hz"),
        Some(rate) => format!("{rate:.3} Hz"),
    }
}

/// `12,345,678`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `3.2 ms`, `12.0 s`, `4 min 05 s`, `2 h 10 min`, `12 days`.
pub fn duration(nanos: u64) -> String {
    let seconds = nanos as f64 / 1e9;
    let whole = nanos / 1_000_000_000;
    match seconds {
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s if s < 60.0 => format!("{s:.1} s"),
        s if s < 3600.0 => format!("{} min {:02} s", whole / 60, whole % 60),
        s if s < 86_400.0 => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} days", whole / 86_400),
    }
}

/// RFC 3339 in the machine's time zone, with nanoseconds: what `--from` and `--to` take.
pub fn time(nanos: u64) -> String {
    match Timestamp::from_nanosecond(i128::from(nanos)) {
        Ok(time) => {
            time.to_zoned(TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S.%9f%:z").to_string()
        }
        Err(_) => format!("{nanos} ns"),
    }
}

/// `2026-05-01 12:00:00 CEST`: the machine's local time, with its zone.
pub fn time_to_the_second(nanos: u64) -> String {
    match Timestamp::from_nanosecond(i128::from(nanos)) {
        Ok(time) => time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
        Err(_) => format!("{nanos} ns"),
    }
}

/// A name for a recording that begins at `nanos`, as rosbag2 forms them.
pub fn recording_name(nanos: u64) -> String {
    format!("livebag_{}", stamp(nanos))
}

/// `2026_11_21-09_05_00` in the machine's time zone, for names of files.
pub fn stamp(nanos: u64) -> String {
    match Timestamp::from_nanosecond(i128::from(nanos)) {
        Ok(time) => time.to_zoned(TimeZone::system()).strftime("%Y_%m_%d-%H_%M_%S").to_string(),
        Err(_) => nanos.to_string(),
    }
}

/// `1 topic`, `2,000 topics`.
pub fn plural(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{} {thing}s", count(number as u64)),
    }
}

/// `1 message`, `2,000 messages`.
pub fn messages(number: u64) -> String {
    plural(number as usize, "message")
}

#[cfg(test)]
mod tests;
