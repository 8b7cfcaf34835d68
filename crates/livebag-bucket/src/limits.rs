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
