//! Where a recording is played to.
//!
//! Streams are one implementation ([`super::StreamOutput`]); other crates bring their own. An output
//! promises:
//!
//! - A message has been sent when [`TopicOutput::publish`] returns: the player keeps time, and outputs must not buffer.
//!   A call takes as long as copying the message, not as long as its slowest subscriber: it delays the messages after
//!   it by that time.
//! - A topic's messages leave in the order in which they were given.
//! - What [`Output::open`] made works until it is dropped, whether the output itself lives or not.

use livebag_format::{Message, Topic};

use super::PlayError;

/// Makes the ways out of a player.
///
/// ```
/// use livebag::{Message, Output, PlayError, Topic, TopicOutput};
///
/// /// Says what is played.
/// struct Printed;
///
/// struct PrintedTopic(String);
///
/// impl Output for Printed {
///     fn open(&mut self, topic: &Topic, _: usize) -> Result<Box<dyn TopicOutput>, PlayError> {
///         Ok(Box::new(PrintedTopic(topic.name.clone())))
///     }
/// }
///
/// impl TopicOutput for PrintedTopic {
///     fn publish(&mut self, message: &Message<'_>) -> Result<(), PlayError> {
///         println!("{}: {} bytes", self.0, message.data.len());
///         Ok(())
///     }
///
///     fn name(&self) -> &str {
///         &self.0
///     }
///
///     fn kind(&self) -> &str {
///         "text"
///     }
/// }
/// ```
pub trait Output: Send {
    /// Opens the output for a topic. Its name is the one to publish under, already remapped; its metadata comes from
    /// the recording or from the user: `offered_qos_profiles` (rosbag2's YAML) and `topic_type_hash`. `bytes_max`: its
    /// largest message; `usize::MAX` where that is not known ([`Output::needs_sizes`]).
    ///
    /// # Errors
    /// [`PlayError::Output`], or [`PlayError::Stream`] for a stream.
    fn open(&mut self, topic: &Topic, bytes_max: usize) -> Result<Box<dyn TopicOutput>, PlayError>;

    /// Whether each topic's largest message must be known. Recordings without an index of messages are then
    /// read through once.
    fn needs_sizes(&self) -> bool {
        true
    }
}

/// The output of one topic.
pub trait TopicOutput: Send {
    /// Publishes an encoded message. Its times and sequence are those of the recording.
    ///
    /// # Errors
    /// If it cannot be published; playing ends with that.
    fn publish(&mut self, message: &Message<'_>) -> Result<(), PlayError>;

    /// What listeners know it by: a stream's name, a topic, a key expression.
    fn name(&self) -> &str;

    /// What its messages become, in a word or two for the user: `image`, `bytes`, `DDS`.
    fn kind(&self) -> &str;

    /// Called about 50 times a second while nothing is published, paused or between two messages: for periodic work. It
    /// must not wait.
    fn heartbeat(&mut self) {}

    /// Called once, when playing is over: waits, for a bounded time, until listeners that are owed every
    /// message have them.
    ///
    /// # Errors
    /// [`PlayError::Output`] if they did not get them.
    fn finish(&mut self) -> Result<(), PlayError> {
        Ok(())
    }

    /// Warnings so far, as sentences, each once.
    fn warnings(&self) -> &[String] {
        &[]
    }
}
