//! ROS 2 networks, without ROS installed: their topics into recordings, recordings back into topics,
//! and topics into streams.
//!
//! A [`network`] shows its graph and carries encoded messages; [`Qos`] says how.

pub mod limits;
pub mod network;
mod qos;
mod types;

pub use qos::{
    Durability, History, Liveliness, Qos, QosError, QosOverride, QosOverrides, Reliability, adapt,
};
pub use types::{Answer, Definition, Installed, TypeResolver, Wanted};
