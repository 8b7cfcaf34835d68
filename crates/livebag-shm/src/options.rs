//! A writer's options for a stream.

use crate::error::CreateError;
use crate::header::StaticHeader;
use crate::kind::Kind;
use crate::layout::{Geometry, default_slot_count};
use crate::limits::{
    ENCODING_NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, SCHEMA_BYTES_MAX, SLOTS_MAX, SLOTS_MIN,
    TOPIC_BYTES_MAX, TYPE_NAME_BYTES_MAX,
};
use crate::name::Name;

/// Whether a stream's memory is made of huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HugePages {
    /// Where they are to be had, silently without elsewhere; streams of at least 4 MiB only.
    #[default]
    Auto,
    /// Asked for; a warning says why they are not to be had.
    On,
    /// Not asked for.
    Off,
}

/// Where a stream and its writer live. Each wish that the system does not grant becomes a warning
/// ([`crate::Writer::warnings`]) that names the cure; the stream works without it.
///
/// `cpu` and `fifo_priority` apply to the thread that calls [`crate::Writer::create`], which should be the one that
/// publishes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// Lock the region into memory.
    pub lock_memory: bool,
    /// Huge pages.
    pub huge_pages: HugePages,
    /// Take the memory from this NUMA node.
    pub numa_node: Option<u32>,
    /// Bind the calling thread to this CPU.
    pub cpu: Option<usize>,
    /// Run the calling thread as SCHED_FIFO with this priority (1 to 99).
    pub fifo_priority: Option<i32>,
}

/// The properties of a stream.
///
/// ```
/// use livebag_shm::StreamOptions;
/// let options = StreamOptions::image(1920, 1080, 3).topic("/camera/front").slots(8);
/// assert_eq!(options.payload_bytes_max, 6_220_800);
/// assert_eq!(options.type_name, "sensor_msgs/msg/Image");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamOptions {
    /// What its frames are.
    pub kind: Kind,
    /// Bytes of the largest frame.
    pub payload_bytes_max: usize,
    /// Slots, 2 to 1024; 0 for the default: 4, and up to 64 for small frames.
    pub slots: u32,
    /// Topic; `/` and the stream's name when not given. At most 508 bytes.
    pub topic: Option<String>,
    /// ROS type, for example `sensor_msgs/msg/Image`. At most 252 bytes.
    pub type_name: String,
    /// Encoding of the message that a frame is or stands for, for example `cdr`. At most 60 bytes.
    pub message_encoding: String,
    /// Language of the schema, for example `ros2msg`. At most 60 bytes.
    pub schema_encoding: String,
    /// Schema. At most 1 MiB.
    pub schema: Vec<u8>,
    /// Group, by name or number, whose members may read; without it only the owner.
    pub group: Option<String>,
    /// Whether every frame carries a CRC-32C of its payload, verified by readers that copy.
    pub checksum: bool,
    /// Whether the stream is removed when its writer is dropped. Otherwise it remains, so that late readers can read
    /// the last frames and the next writer continues the sequence.
    pub remove_on_drop: bool,
    /// Where it lives.
    pub placement: Placement,
}

impl StreamOptions {
    /// Frames of at most `payload_bytes_max` bytes in an encoding of the caller's.
    pub fn bytes(payload_bytes_max: usize) -> StreamOptions {
        StreamOptions {
            kind: Kind::Bytes,
            payload_bytes_max,
            slots: 0,
            topic: None,
            type_name: String::new(),
            message_encoding: String::new(),
            schema_encoding: String::new(),
            schema: Vec::new(),
            group: None,
            checksum: false,
            remove_on_drop: false,
            placement: Placement::default(),
        }
    }

    /// Images of at most `width` × `height` pixels of `channels` bytes each (3 for `rgb8`, 2 for
    /// `16UC1`).
    pub fn image(width: u32, height: u32, channels: u32) -> StreamOptions {
        let pixels = (width as usize).saturating_mul(height as usize);
        StreamOptions {
            kind: Kind::Image,
            ..StreamOptions::message(
                "sensor_msgs/msg/Image",
                pixels.saturating_mul(channels as usize),
            )
        }
    }

    /// Clouds of at most `points_max` points, `point_step` bytes each.
    pub fn points(points_max: u32, point_step: u32) -> StreamOptions {
        StreamOptions {
            kind: Kind::Points,
            ..StreamOptions::message(
                "sensor_msgs/msg/PointCloud2",
                (points_max as usize).saturating_mul(point_step as usize),
            )
        }
    }

    /// Serialised ROS 2 messages (CDR) of this type, at most `payload_bytes_max` bytes each.
    pub fn message(type_name: &str, payload_bytes_max: usize) -> StreamOptions {
        StreamOptions::bytes(payload_bytes_max).type_name(type_name).encodings("cdr", "ros2msg")
    }

    /// Sets the number of slots.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> StreamOptions {
        self.slots = slots;
        self
    }

    /// Sets the topic.
    #[must_use]
    pub fn topic(mut self, topic: &str) -> StreamOptions {
        self.topic = Some(topic.to_owned());
        self
    }

    /// Sets the ROS type.
    #[must_use]
    pub fn type_name(mut self, type_name: &str) -> StreamOptions {
        type_name.clone_into(&mut self.type_name);
        self
    }

    /// Sets the encodings of messages and of the schema.
    #[must_use]
    pub fn encodings(mut self, message: &str, schema: &str) -> StreamOptions {
        message.clone_into(&mut self.message_encoding);
        schema.clone_into(&mut self.schema_encoding);
        self
    }

    /// Sets the schema.
    #[must_use]
    pub fn schema(mut self, schema: &[u8]) -> StreamOptions {
        self.schema = schema.to_vec();
        self
    }

    /// Lets a group read.
    #[must_use]
    pub fn group(mut self, group: &str) -> StreamOptions {
        self.group = Some(group.to_owned());
        self
    }

    /// Adds a CRC-32C to every frame.
    #[must_use]
    pub fn checksum(mut self, checksum: bool) -> StreamOptions {
        self.checksum = checksum;
        self
    }

    /// Removes the stream when its writer is dropped.
    #[must_use]
    pub fn remove_on_drop(mut self, remove: bool) -> StreamOptions {
        self.remove_on_drop = remove;
        self
    }

    /// Sets the placement.
    #[must_use]
    pub fn placement(mut self, placement: Placement) -> StreamOptions {
        self.placement = placement;
        self
    }

    /// Checks every bound, and makes the header of them. `instance` and creation time are 0.
    pub(crate) fn header(&self, name: &Name) -> Result<StaticHeader, CreateError> {
        let bound = |option, found: usize, holds: bool, expected| {
            if holds {
                Ok(())
            } else {
                Err(CreateError::Option { option, found: found.to_string(), expected })
            }
        };
        let bytes = self.payload_bytes_max;
        let holds = (1..=PAYLOAD_BYTES_MAX).contains(&bytes);
        bound("payload_bytes_max", bytes, holds, "1 to 4294967295 bytes")?;
        let slots = self.slots as usize;
        let holds = self.slots == 0 || (SLOTS_MIN..=SLOTS_MAX).contains(&self.slots);
        bound("slots", slots, holds, "2 to 1024, or 0 for the default")?;
        let topic = self.topic.clone().unwrap_or_else(|| format!("/{name}"));
        let texts = [
            ("topic", topic.len(), TOPIC_BYTES_MAX, "at most 508 bytes"),
            ("type_name", self.type_name.len(), TYPE_NAME_BYTES_MAX, "at most 252 bytes"),
            (
                "message_encoding",
                self.message_encoding.len(),
                ENCODING_NAME_BYTES_MAX,
                "at most 60 bytes",
            ),
            (
                "schema_encoding",
                self.schema_encoding.len(),
                ENCODING_NAME_BYTES_MAX,
                "at most 60 bytes",
            ),
            ("schema", self.schema.len(), SCHEMA_BYTES_MAX, "at most 1 MiB"),
        ];
        for (option, found, max, expected) in texts {
            bound(option, found, found <= max, expected)?;
        }
        let slot_count = if self.slots == 0 { default_slot_count(bytes) } else { self.slots };
        Ok(StaticHeader {
            kind: self.kind,
            checksum: self.checksum,
            always_wake: self.group.is_some(),
            geometry: Geometry::plan(self.kind, slot_count, bytes, self.schema.len()),
            created_realtime_nanos: 0,
            instance: 0,
            topic,
            type_name: self.type_name.clone(),
            message_encoding: self.message_encoding.clone(),
            schema_encoding: self.schema_encoding.clone(),
            schema: self.schema.clone(),
        })
    }
}
