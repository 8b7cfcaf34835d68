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
/// Longest time to process the graph before the rest waits for the next poll. Zenoh compares each new subscription with
/// all others: 10,000 take it minutes.
pub const LOOK_MAX: Duration = Duration::from_millis(100);
/// Latched messages that a publication keeps for later subscriptions, and that a subscription requests, at any
/// configured depth.
pub const LATCHED_MAX: usize = 1000;
/// Messages of this size and more are published through shared memory, if Zenoh has it. Smaller ones Zenoh itself puts
/// there, from 3,072 bytes on.
pub const SHARED_BYTES_MIN: usize = 64 << 10;
/// Shared memory for messages that are published over Zenoh. Eight cameras' images of 6 MB twice over.
pub const SHARED_POOL_BYTES: usize = 128 << 20;
/// How long a reliable publication waits for room in the shared memory before it takes another way.
pub const SHARED_WAIT: Duration = Duration::from_millis(20);
/// How long leaving a Zenoh network waits for readers to take what was published before.
pub const LEAVE_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long Zenoh lets a reliable message wait for a reader that has stopped reading before it closes
/// the connection; rmw_zenoh's own.
pub const STALLED_MAX: Duration = Duration::from_secs(60);

/// How long a reliable DDS publication waits for subscriptions that are behind. One whose process has died
/// is given up after 10 s (the lease of Cyclone DDS and Fast DDS), which must not fail a publication.
pub const PUBLISH_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of an announcement's user data that are read (ROS 2 puts type hashes there).
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
/// Answers to one service call that wait to be read; they may be meant for others.
pub const ANSWERS_MAX: usize = 64;
/// Interval at which a service's server is searched for.
pub const SERVER_POLL: Duration = Duration::from_millis(10);

const _: () = assert!(PUBLISHERS_GONE_MAX < PUBLISHERS_MAX);
/// How long a player waits at its end for reliable subscriptions to have everything.
pub const PLAY_ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(10);
/// Maximum losses of one gap in a publisher's numbers, so that a malicious publisher cannot make the sums overflow.
pub const LOST_AT_ONCE_MAX: u64 = 1 << 32;
