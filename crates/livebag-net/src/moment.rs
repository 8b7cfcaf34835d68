//! Times and durations as people type them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::text::shortened;

/// `1s`, `500ms`, `2m30s`, `1.5` (seconds).
///
/// # Errors
/// With a sentence that says what would be right.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "`{}` is not a duration: expected something like 1s, 500ms, 2m30s or 1.5 (seconds)",
            shortened(text)
        )
    };
    let bare = text.trim();
    if bare.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && let Ok(seconds) = bare.parse::<f64>()
    {
        return Duration::try_from_secs_f64(seconds).map_err(|_| wrong());
    }
    let parsed: SignedDuration = bare.parse().map_err(|_| wrong())?;
    Duration::try_from(parsed).map_err(|_| wrong())
}

/// A moment of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Nanoseconds since the Unix epoch.
    At(u64),
    /// This long after the recording's first message.
    After(Duration),
}

impl Moment {
    /// Nanoseconds since the Unix epoch, in a recording that starts at `start_nanos`.
    pub fn nanos(self, start_nanos: u64) -> u64 {
        match self {
            Self::At(nanos) => nanos,
            Self::After(after) => {
                start_nanos.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX))
            }
        }
    }
}

/// `1700000000123456789` (nanoseconds), `1700000000.5` (seconds), `2023-11-14T22:13:20Z`; or after
/// the start: `+1.5`, `+1.5s`, `90s`.
///
/// # Errors
/// With a sentence that says what would be right.
pub fn moment(text: &str) -> Result<Moment, String> {
    let bare = text.trim();
    let wrong = || {
        format!(
            "`{}` is not a time: expected nanoseconds since 1970 (a whole number), seconds \
             since 1970 with a decimal point, RFC 3339 with a zone (2023-11-14T22:13:20Z), or a \
             time after the recording's start (+1.5s, 90s)",
            shortened(text)
        )
    };
    if let Some(after) = bare.strip_prefix('+') {
        return duration(after).map(Moment::After).map_err(|_| wrong());
    }
    if let Ok(nanos) = bare.parse::<u64>() {
        return Ok(Moment::At(nanos));
    }
    if bare.starts_with(|c: char| c.is_ascii_digit())
        && let Some(nanos) = decimal_nanos(bare)
    {
        return Ok(Moment::At(nanos));
    }
    if let Ok(time) = bare.parse::<Timestamp>() {
        return u64::try_from(time.as_nanosecond()).map(Moment::At).map_err(|_| wrong());
    }
    duration(bare).map(Moment::After).map_err(|_| wrong())
}

/// `1700000000.123456789` in nanoseconds, exactly: a float would lose the last digits.
fn decimal_nanos(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.')?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let seconds: u64 = whole.parse().ok()?;
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    seconds.checked_mul(1_000_000_000)?.checked_add(digits.parse().ok()?)
}
