//! Times in JSON: nanoseconds since the Unix epoch as a string of digits. Browsers and `jq` read numbers as
//! 64-bit floats, which round them to some hundred nanoseconds.

use serde::{Deserialize, Deserializer, Serializer};

/// What `#[serde(with = "livebag_format::json_time")]` stands on.
pub trait JsonTime: Copy {
    /// As nanoseconds; `None` becomes `null`.
    fn nanos(self) -> Option<u64>;
    /// From nanoseconds; `None` where it must not be `null`.
    fn from_nanos(nanos: Option<u64>) -> Option<Self>;
}

impl JsonTime for u64 {
    fn nanos(self) -> Option<u64> {
        Some(self)
    }

    fn from_nanos(nanos: Option<u64>) -> Option<Self> {
        nanos
    }
}

impl JsonTime for Option<u64> {
    fn nanos(self) -> Option<u64> {
        self
    }

    fn from_nanos(nanos: Option<u64>) -> Option<Self> {
        Some(nanos)
    }
}

/// Writes a time as a string, or `null`.
///
/// # Errors
/// If the serializer cannot write.
pub fn serialize<T: JsonTime, S: Serializer>(time: &T, serializer: S) -> Result<S::Ok, S::Error> {
    match time.nanos() {
        Some(nanos) => serializer.collect_str(&nanos),
        None => serializer.serialize_none(),
    }
}

/// Reads it.
///
/// # Errors
/// If it is not a string of digits.
pub fn deserialize<'de, T: JsonTime, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    use serde::de::Error;
    let text = Option::<std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
    let nanos = text.map(|text| text.parse().map_err(D::Error::custom)).transpose()?;
    T::from_nanos(nanos).ok_or_else(|| D::Error::custom("expected a time, found null"))
}
