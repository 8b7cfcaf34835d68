//! A ROS 2 network over any middleware.
//!
//! Every implementation promises:
//!
//! - The graph shows endpoints by their ROS names (`/camera/image`, `sensor_msgs/msg/Image`), never
//!   the carrier's own. Endpoints that this process made are marked.
//! - Messages are given as they were published: CDR with its four bytes of encapsulation, not a byte
//!   added or taken away.
//! - [`Receiver`]s are called on a thread of the network's, or, by a publication of this process, on the one
//!   that publishes. Messages of one publisher come in its
//!   order, each once.
//! - Each known loss between a publisher and this process is reported once, by [`Receiver::lost`].
//! - Input from the network is not trusted: names and messages have the limits of [`limits`](crate::limits), and
//!   violations are left out and counted by [`Network::refused`].
//! - Dropping a [`Subscription`] or a [`Publication`] ends it; afterwards its receiver is not
//!   called. A receiver does not drop its own subscription from within a call.

use std::sync::Arc;
use std::time::Duration;

use crate::qos::Qos;

#[cfg(feature = "dds")]
pub mod dds;
mod name;
mod sequence;
mod simulated;
#[cfg(feature = "zenoh")]
pub(crate) mod zenoh;

pub use name::{check_name, check_type_name, is_hidden};
pub use sequence::{Sequences, Told};
pub use simulated::{SimulatedHub, SimulatedNetwork};
#[cfg(feature = "zenoh")]
pub use zenoh::{ZenohNetwork, ZenohOptions};

/// A publisher's identity, unique in the network.
pub type EndpointId = [u8; 16];

/// What an endpoint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Publishes a topic.
    Publisher,
    /// Subscribes to a topic.
    Subscription,
    /// Offers a service.
    Server,
    /// Calls a service.
    Client,
}

/// One end of a topic or service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its identity.
    pub id: EndpointId,
    /// Its role.
    pub role: Role,
    /// Name of the topic or service: `/camera/image`.
    pub name: String,
    /// Name of its type: `sensor_msgs/msg/Image`, `std_srvs/srv/Trigger`.
    pub type_name: String,
    /// Hash of its type (`RIHS01_` and 64 hexadecimal digits), if it tells.
    pub type_hash: Option<String>,
    /// How it offers, or wishes, messages to be delivered.
    pub qos: Qos,
    /// Node that has it, with its namespace: `/robot/driver`; empty if unknown.
    pub node: String,
    /// Whether this process made it.
    pub is_own: bool,
}

/// A requested subscription or publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicRequest {
    /// Name of the topic: `/camera/image`.
    pub name: String,
    /// Name of its type: `sensor_msgs/msg/Image`.
    pub type_name: String,
    /// Hash of its type; a subscription without one takes messages of any.
    pub type_hash: Option<String>,
    /// How messages are to be delivered.
    pub qos: Qos,
}

/// One message, as it was published.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The encoded message, encapsulation included.
    pub data: &'a [u8],
    /// When its publisher published it, nanoseconds since the Unix epoch; `None` if it does not tell.
    pub publish_time_nanos: Option<u64>,
    /// Its publisher's count; 0 if it keeps none.
    pub sequence: u64,
    /// Its publisher; zeros if unknown.
    pub publisher: EndpointId,
}

/// What takes messages. Called on the network's threads: it must not wait.
pub trait Receiver: Send + Sync {
    /// A message has arrived.
    fn sample(&self, sample: &Sample<'_>);
    /// This many messages of a publisher (zeros if unknown) are known to have been lost on the way.
    fn lost(&self, publisher: &EndpointId, count: u64);
}

/// A subscription; dropping it ends it.
pub trait Subscription: Send + Sync {}

/// The way out for one topic; dropping it ends it.
pub trait Publication: Send + Sync {
    /// Publishes an encoded message (CDR with its encapsulation).
    ///
    /// # Errors
    /// If the network did not take it.
    fn publish(&self, data: &[u8]) -> Result<(), NetworkError>;
    /// Memory of the network for a message of this many bytes, so that it is copied once less; `None` if there is none,
    /// or none is free.
    fn room(&self, _bytes: usize) -> Option<Box<dyn Room + '_>> {
        None
    }
    /// Subscriptions that are known to take its messages.
    fn subscriptions(&self) -> usize;
    /// Waits until every reliable subscription has acknowledged all published messages; returns whether they have.
    /// Networks that do not know say yes.
    fn wait_for_acknowledgements(&self, _within: Duration) -> bool {
        true
    }
}

/// Memory for a message to be published; dropping it gives it back.
pub trait Room {
    /// To be filled with the encoded message, all of it.
    fn data(&mut self) -> &mut [u8];
    /// Publishes it.
    ///
    /// # Errors
    /// If the network did not take it.
    fn publish(self: Box<Self>) -> Result<(), NetworkError>;
}

/// A ROS 2 network, taken part in as one node.
pub trait Network: Send + Sync {
    /// A number that changes whenever the graph does.
    fn generation(&self) -> u64;
    /// Every endpoint known at the moment.
    fn endpoints(&self) -> Vec<Endpoint>;
    /// Announcements and messages that broke a bound or could not be understood, and were left out.
    fn refused(&self) -> u64;
    /// Whether a subscription with a type's hash gets only messages with that hash. Otherwise it gets those of every
    /// publisher of the name and type.
    fn tells_hashes_apart(&self) -> bool {
        false
    }
    /// Receives a topic's messages from now on (and earlier ones, as far as durability provides them).
    ///
    /// # Errors
    /// If the network refuses.
    fn subscribe(
        &self,
        request: &TopicRequest,
        receiver: Arc<dyn Receiver>,
    ) -> Result<Box<dyn Subscription>, NetworkError>;
    /// Offers a topic.
    ///
    /// # Errors
    /// If the network refuses.
    fn advertise(&self, request: &TopicRequest) -> Result<Box<dyn Publication>, NetworkError>;
    /// Calls a service: CDR with its encapsulation, both ways.
    ///
    /// # Errors
    /// If there is no answer in time.
    fn call(
        &self,
        service: &ServiceRequest<'_>,
        request: &[u8],
        within: Duration,
    ) -> Result<Vec<u8>, NetworkError>;
    /// Leaves the network for good, if that ends everything of this process faster than dropping it piece by piece.
    /// Nothing may be asked of the network afterwards.
    fn leave(&self) {}
    /// The network and how it is reached, in words: `Zenoh, domain 0, peers found by multicast`.
    fn describe(&self) -> String;
}

/// A service to be called.
#[derive(Clone, Copy, Debug)]
pub struct ServiceRequest<'a> {
    /// Its name: `/talker/get_type_description`.
    pub name: &'a str,
    /// Name of its type: `type_description_interfaces/srv/GetTypeDescription`.
    pub type_name: &'a str,
    /// Hash of its type, if known.
    pub type_hash: Option<&'a str>,
}

/// Why an operation of a network failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The network cannot be joined.
    #[error("{network} cannot be joined: {reason}")]
    Join {
        /// Which: `Zenoh`, `DDS`.
        network: &'static str,
        /// Why, and what to do.
        reason: String,
    },
    /// A topic or service cannot be made.
    #[error("{doing} {name} failed: {reason}")]
    Endpoint {
        /// The operation: `subscribing to`.
        doing: &'static str,
        /// The topic's or service's name.
        name: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A name that ROS 2 does not allow.
    #[error("`{name}` is no name of a ROS 2 topic: {reason}")]
    Name {
        /// The name, cut.
        name: String,
        /// The error in it.
        reason: &'static str,
    },
    /// A service call had no answer.
    #[error("{service} did not answer within {within:?}")]
    NoAnswer {
        /// The service's name.
        service: String,
        /// How long was waited.
        within: Duration,
    },
}
