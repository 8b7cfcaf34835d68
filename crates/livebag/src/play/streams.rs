//! Playing into streams in shared memory.

use livebag_format::Topic;

use super::name::StreamNames;
use super::publisher::{Stamp, TopicPublisher};
use super::{Output, PlayError, TopicOutput};

/// Plays into streams: `Image` and `PointCloud2` (CDR or ROS 1) become native frames, everything else
/// frames of bytes. A stream is named after its topic (`/camera/front`: `camera.front`), exists from
/// the opening of the player on, and is removed with it.
pub struct StreamOutput {
    prefix: String,
    stamp: Stamp,
    names: StreamNames,
}

impl StreamOutput {
    /// `prefix`: prefix of the streams' names; empty for the topics' own names. `stamp`: which time the frames carry.
    pub fn new(prefix: &str, stamp: Stamp) -> Self {
        Self { prefix: prefix.to_owned(), stamp, names: StreamNames::default() }
    }
}

impl Default for StreamOutput {
    fn default() -> Self {
        Self::new("", Stamp::Kept)
    }
}

impl Output for StreamOutput {
    fn open(&mut self, topic: &Topic, bytes_max: usize) -> Result<Box<dyn TopicOutput>, PlayError> {
        let name = self.names.give(&format!("{}{}", self.prefix, topic.name));
        Ok(Box::new(TopicPublisher::create(&name, topic, bytes_max, self.stamp)?))
    }
}
