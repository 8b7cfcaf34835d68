//! Every bound of this crate, in one place.

use std::time::Duration;

/// A request of which no byte moves for so long has failed.
pub const STALL: Duration = Duration::from_secs(60);
/// For a new connection.
pub const CONNECT: Duration = Duration::from_secs(10);
/// How long a store that does not answer is asked again, unless the caller says otherwise.
pub const GIVE_UP_AFTER_DEFAULT: Duration = Duration::from_secs(120);
/// The longest pause between two requests to a store that is busy.
pub const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// How long a reader asks a store again that does not answer or is busy.
pub const READ_GIVE_UP_AFTER: Duration = Duration::from_secs(10);
/// What the cache keeps and evicts as one.
pub const BLOCK_BYTES: usize = 64 << 10;
/// An object that is not longer is fetched whole when it is read first: that takes about as long as a request.
pub const WHOLE_BYTES_MAX: u64 = 1 << 20;
/// Of one request.
pub const FETCH_BYTES_MAX: u64 = 8 << 20;
/// Requests for contents under way at once.
pub const FETCHES_MAX: usize = 8;
/// Memory for contents, next to those of requests under way.
pub const CACHE_BYTES_MAX: usize = 64 << 20;
/// Of these, fetched ahead and not read yet.
pub const AHEAD_BYTES_MAX: usize = 32 << 20;
/// Objects of one recording: 78 topics in 600 splits.
pub const OBJECTS_MAX: usize = 100_000;
/// Objects below a place whose recordings are listed: a thousand requests.
pub const LISTED_MAX: usize = 1_000_000;

const _: () = assert!(FETCH_BYTES_MAX.is_multiple_of(BLOCK_BYTES as u64));
const _: () = assert!(WHOLE_BYTES_MAX <= FETCH_BYTES_MAX);
const _: () = assert!(AHEAD_BYTES_MAX + FETCH_BYTES_MAX as usize <= CACHE_BYTES_MAX);
