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
/// Types whose nodes are being asked at once.
pub const TYPES_ASKED_MAX: usize = 1024;
/// Bytes of a topic's messages that wait for the definition of their type.
pub const HELD_BYTES_MAX: usize = 16 << 20;
/// Notices that are said; more of them say nothing new.
pub const NOTICES_MAX: usize = 1000;
