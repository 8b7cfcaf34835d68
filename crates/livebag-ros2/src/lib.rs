//! ROS 2 networks, without ROS installed: their topics into recordings, recordings back into topics,
//! and topics into streams.
//!
//! A [`network`] shows its graph and carries encoded messages; [`Qos`] says how. A [`Follower`] takes
//! its topics into a recorder, with the [`Definition`]s of their types.

pub mod limits;
pub mod network;
mod qos;
mod record;
mod types;

pub use qos::{
    Durability, History, Liveliness, Qos, QosError, QosOverride, QosOverrides, Reliability, adapt,
};
pub use record::{FollowOptions, Follower, Selection};
pub use types::{Answer, Definition, Installed, TypeResolver, Wanted};
