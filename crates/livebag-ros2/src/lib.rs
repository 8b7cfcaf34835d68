//! ROS 2 networks, without ROS installed: their topics into recordings, recordings back into topics,
//! and topics into streams.
//!
//! ```
//! # #[cfg(feature = "zenoh")] {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("run1");
//! use livebag::{Recorder, RecorderOptions};
//! use livebag_ros2::network::{ZenohNetwork, ZenohOptions};
//! use livebag_ros2::{FollowOptions, Follower, Selection};
//! use std::sync::Arc;
//!
//! // Like rmw_zenoh; `..ZenohOptions::from_environment()?` also reads its environment variables.
//! let options = ZenohOptions { listen: vec!["tcp/127.0.0.1:0".into()], ..ZenohOptions::default() };
//! let network = Arc::new(ZenohNetwork::join(&options, "livebag")?);
//! let recorder = Recorder::create(&path, RecorderOptions::default())?;
//! let options = FollowOptions { selection: Selection::all(), ..FollowOptions::default() };
//! let mut follower = Follower::begin(network, options)?;
//! for _ in 0..3 {
//!     follower.look(&recorder); // ten times a second: finds new topics
//!     std::thread::sleep(std::time::Duration::from_millis(100));
//! }
//! follower.finish(&recorder);
//! recorder.finish()?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`network`] shows its graph and carries encoded messages; [`Qos`] says how. A [`Follower`] passes its topics to a
//! recorder or to streams ([`StreamSink`]), with the [`Definition`]s of their types; a [`RosOutput`] publishes a
//! player's messages, and [`ToRos2`] a stream's frames.

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
