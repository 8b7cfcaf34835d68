//! Every bound of this crate, in one place.

use std::time::Duration;

/// Endpoints of a graph that are kept; more are counted, not known. ROS networks have some
/// thousands, a node that lies may announce millions.
pub const ENDPOINTS_MAX: usize = 50_000;
/// Longest name of a topic, a type or a node that is taken from the network, in bytes.
pub const NAME_BYTES_MAX: usize = 1024;
/// Largest message taken from the network.
pub const SAMPLE_BYTES_MAX: usize = 1 << 30;
/// Publishers of one topic whose sequence numbers are followed.
pub const PUBLISHERS_MAX: usize = 4096;
/// How long a node is given to answer a service call.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a reliable DDS publication waits for subscriptions that are behind.
pub const PUBLISH_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an announcement's free text that are looked at (ROS 2 puts type hashes there).
pub const USER_DATA_BYTES_MAX: usize = 4096;
/// Announcements that are taken from Cyclone DDS at a time.
pub const DISCOVERED_AT_ONCE: usize = 64;
/// Last lines of Cyclone DDS' log that are kept, for errors.
pub const LOG_LINES_MAX: usize = 8;
/// Publishers that have gone and whose sequence numbers are remembered, in case they come back.
pub const PUBLISHERS_GONE_MAX: usize = 512;
/// Receive buffer that is asked for from the kernel for DDS: some large images.
pub const DDS_RECEIVE_BUFFER_BYTES: usize = 32 << 20;
/// Bytes that a DDS publication has under way before it waits for acknowledgements.
pub const DDS_UNACKNOWLEDGED_BYTES: usize = 32 << 20;
/// Answers to one service call that wait to be looked at; they may be meant for others.
pub const ANSWERS_MAX: usize = 64;
/// How long between two looks for whether a service's server has been found.
pub const SERVER_POLL: Duration = Duration::from_millis(10);

const _: () = assert!(PUBLISHERS_GONE_MAX < PUBLISHERS_MAX);
