//! The bytes livebag reads and writes, without I/O: CDR, MCAP, time index, container, rosbag2
//! metadata.

mod topic;

pub use topic::{Message, Topic};
