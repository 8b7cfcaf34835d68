//! Spans of time as JSON shows them: whole nanoseconds, as a number (docs/json.md).

use serde::Serializer;

/// Seconds as nanoseconds.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
pub fn seconds<S: Serializer>(seconds: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64((seconds * 1e9) as u64)
}

/// Milliseconds as nanoseconds.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
pub fn milliseconds<S: Serializer>(milliseconds: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64((milliseconds * 1e6) as u64)
}

/// Messages lost, without distinguishing causes.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
pub fn total<S: Serializer>(lost: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map([("total", lost)])
}
