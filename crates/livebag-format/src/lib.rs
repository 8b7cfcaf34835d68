//! The bytes that livebag reads and writes, without I/O: CDR, MCAP, time index, container, rosbag2
//! metadata; and texts that all parts of livebag share.
//!
//! ```
//! use livebag_format::definitions;
//!
//! let definition = definitions::schema("sensor_msgs/msg/Imu").unwrap();
//! let hash = definitions::rihs01("sensor_msgs/msg/Imu", &definition).unwrap();
//! assert!(hash.starts_with("RIHS01_"));
//! ```

mod account;
pub mod cdr;
pub mod container;
pub mod decode;
pub mod definitions;
pub mod endpoint;
pub mod event;
pub mod index;
pub mod json_time;
pub mod mcap;
pub mod ros1;
pub mod rosbag2;
mod sensor;
mod topic;
mod visible;
mod wire;
mod yaml;

#[cfg(test)]
mod golden;

pub use account::Account;
pub use topic::{Message, Topic};
pub use visible::{Visible, is_invisible, visible, visible_list};
pub use wire::DecodeError;
