//! ROS 2 networks, without ROS installed: their topics into recordings, recordings back into topics,
//! and topics into streams.
//!
//! A [`network`] shows its graph and carries encoded messages; [`Qos`] says how. A [`Follower`] takes
//! its topics into a recorder or into streams ([`StreamSink`]), with the [`Definition`]s of their types; a
//! [`RosOutput`] publishes what a player plays, and [`ToRos2`] what a stream carries.

mod bridge;
mod follow;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod limits;
pub mod network;
mod playback;
mod qos;
mod types;

pub use bridge::{BridgeCounts, StreamSink, ToRos2};
pub use follow::{FollowOptions, Follower, Selection, Sink, SinkTopic};
pub use playback::RosOutput;
pub use qos::{Durability, History, Liveliness, Qos, QosOverrides, Reliability, adapt};
pub use types::{Answer, Definition, Installed, TypeResolver, Wanted};
