//! A topic and a message, as every format here knows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A recording's data about a topic: MCAP's channel and schema in one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topic {
    /// Topic name, as ROS spells it: `/camera_front`.
    pub name: String,
    /// Type name: `sensor_msgs/msg/Image`; empty if the source had none.
    pub type_name: String,
    /// How each message is encoded: `cdr`, `ros1`, `json`, … (MCAP's registry of encodings).
    pub message_encoding: String,
    /// How `schema` is written: `ros2msg`, `ros2idl`, `ros1msg`, …; empty if there is no schema.
    pub schema_encoding: String,
    /// The schema's text or bytes, kept as they came.
    pub schema: Vec<u8>,
    /// MCAP channel metadata: `offered_qos_profiles`, `topic_type_hash` (RIHS01), ROS 1 `callerid`, …
    pub metadata: BTreeMap<String, String>,
}

impl Topic {
    /// Whether the source had a schema, even if only a name.
    pub fn has_schema(&self) -> bool {
        !(self.type_name.is_empty() && self.schema_encoding.is_empty() && self.schema.is_empty())
    }
}

/// One message of a topic. Times are nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// When the recorder took it.
    pub log_time_nanos: u64,
    /// When the source stamped it.
    pub publish_time_nanos: u64,
    /// The source's count; 0 if it keeps none.
    pub sequence: u64,
    /// The encoded message.
    pub data: &'a [u8],
}
