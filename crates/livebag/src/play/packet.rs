//! A message on its way from a recording to its output.

use livebag_format::Message;

use super::source::SourceMessage;
use crate::query::Buffer;

/// A message that has been read. Times are nanoseconds since the Unix epoch.
pub(super) struct Packet {
    /// Its topic, by its number.
    pub topic: usize,
    pub log_time_nanos: u64,
    pub publish_time_nanos: u64,
    pub sequence: u64,
    pub data: Buffer,
}

impl Packet {
    pub fn message(&self) -> Message<'_> {
        Message {
            log_time_nanos: self.log_time_nanos,
            publish_time_nanos: self.publish_time_nanos,
            sequence: self.sequence,
            data: &self.data,
        }
    }

    /// Memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        self.data.capacity() + size_of::<Self>()
    }
}

impl From<SourceMessage> for Packet {
    fn from(message: SourceMessage) -> Self {
        Self {
            topic: message.topic,
            log_time_nanos: message.log_time_nanos,
            publish_time_nanos: message.publish_time_nanos,
            sequence: message.sequence,
            data: message.data.into(),
        }
    }
}
