//! Times, durations and sizes as people type them.

use std::time::Duration;

pub use livebag_net::moment::{Moment, duration, moment};

/// The value of an option that was renamed; prints a note if it is given.
pub fn renamed<T>(value: Option<T>, old: &str, new: &str) -> Option<T> {
    if value.is_some() {
        say!("livebag: warning: {old} is called {new} now; the old name will go");
    }
    value
}

/// A duration that is not zero.
///
/// # Errors
/// With a sentence that says what would be right.
pub fn duration_above_zero(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err(format!("`{text}` is no time at all: give a duration above zero")),
        duration => Ok(duration),
    }
}

/// `100MiB`, `1.5GB`, `4096`.
///
/// # Errors
/// With a sentence that says what would be right.
pub fn size_bytes(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!("`{text}` is not a size: expected bytes, or something like 100MiB, 500MB or 1GiB")
    };
    let bare = text.trim();
    let end = bare.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(bare.len());
    let (number, unit) = bare.split_at(end);
    let unit_bytes: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "ki" | "kib" => 1 << 10,
        "mi" | "mib" => 1 << 20,
        "gi" | "gib" => 1 << 30,
        "ti" | "tib" => 1 << 40,
        _ => return Err(wrong()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit_bytes).ok_or_else(wrong);
    }
    let bytes = number.parse::<f64>().map_err(|_| wrong())? * unit_bytes as f64;
    if bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests;
