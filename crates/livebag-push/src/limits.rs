//! Every bound of this crate, in one place.

use std::time::Duration;

/// Bytes of a part, and the largest object that is sent in one request. S3 wants at least 5 MiB.
pub const PART_BYTES: u64 = 8 << 20;
/// Parts of an object, as S3 limits them. Larger files have larger parts.
pub const PARTS_MAX: u64 = 10_000;

/// Bytes handed to the network at once. A progress bar moves by so much.
pub const SLICE_BYTES_MAX: usize = 64 << 10;
/// With a rate limit: slices a second, so that a second's bytes do not leave at once.
pub const SLICES_PER_S: u64 = 50;
/// With a rate limit: how far sending may run ahead after a pause.
pub const BURST: Duration = Duration::from_millis(100);

/// Small objects that are sent at once, and their bytes: less than a part, so that no more is sent again.
pub const TOGETHER_MAX: usize = 8;
pub const TOGETHER_BYTES_MAX: u64 = 1 << 20;

/// How often a part, or an object that does not verify, is sent.
pub const SENDS_MAX: usize = 4;

/// Objects larger than this are no manifest, claim or list of events.
pub const SMALL_OBJECT_BYTES_MAX: u64 = 64 << 20;

/// Nested folders in which leftovers of removals are looked for.
pub const REMOVAL_DEPTH_MAX: usize = 16;

/// Time between two calls of `on_progress`.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(100);

const _: () = assert!(TOGETHER_BYTES_MAX <= PART_BYTES);
const _: () = assert!(PART_BYTES >= 5 << 20 && PART_BYTES <= usize::MAX as u64);
