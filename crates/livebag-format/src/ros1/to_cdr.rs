//! Messages in ROS 1's serialisation as CDR, little-endian, by their definition.
//!
//! The values are copied as they are; what changes is where they lie: CDR aligns, ends strings with
//! a NUL and gives a structure without fields one byte. Neither a malicious definition nor a malicious message can make
//! it panic, write more than in proportion to the message, or run forever.

use crate::decode::schema::{Count, Field, Kind, Primitive, Schema, package_and_name, parts};
use crate::decode::{DEPTH_MAX, SchemaError};
use crate::wire::{Cursor, DecodeError};
use crate::{Topic, definitions};

use super::definition;
use super::migrate::Migration;

/// Makes CDR of the messages of one topic.
///
/// ```
/// use livebag_format::{Topic, ros1::ToCdr};
///
/// let topic = Topic {
///     name: "/chatter".into(),
///     type_name: "std_msgs/String".into(),
///     message_encoding: "ros1".into(),
///     schema_encoding: "ros1msg".into(),
///     schema: b"string data".to_vec(),
///     ..Default::default()
/// };
/// let to_cdr = ToCdr::new(&topic)?;
/// assert_eq!(to_cdr.topic().type_name, "std_msgs/msg/String");
/// let mut message = Vec::new();
/// to_cdr.convert(b"\x02\0\0\0hi", &mut message).unwrap();
/// assert_eq!(message, b"\0\x01\0\0\x03\0\0\0hi\0");
/// # Ok::<(), livebag_format::decode::SchemaError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ToCdr {
    topic: Topic,
    schema: Schema,
    /// By structure, whether it is a header with a `seq` that ROS 2 does not have.
    headers: Vec<bool>,
    /// To ROS 2's own definition, if that has other fields.
    migration: Option<Migration>,
}

/// What ROS 2 offers for a topic that is latched in ROS 1: as `rosbags-convert` writes it.
const LATCHED: &str = "- history: 3
  depth: 0
  reliability: 1
  durability: 1
  deadline:
    sec: 2147483647
    nsec: 4294967295
  lifespan:
    sec: 2147483647
    nsec: 4294967295
  liveliness: 1
  liveliness_lease_duration:
    sec: 2147483647
    nsec: 4294967295
  avoid_ros_namespace_conventions: false";

impl ToCdr {
    /// Reads the topic's definition.
    ///
    /// # Errors
    /// If the topic's messages are not ROS 1's, or its definition cannot be read.
    pub fn new(topic: &Topic) -> Result<Self, SchemaError> {
        if (&*topic.message_encoding, &*topic.schema_encoding) != ("ros1", "ros1msg") {
            return Err(SchemaError::Encoding {
                message_encoding: topic.message_encoding.clone(),
                schema_encoding: topic.schema_encoding.clone(),
            });
        }
        let text = String::from_utf8_lossy(&topic.schema);
        let schema = Schema::parse(&topic.type_name, &text, true)?;
        let parts = parts(package_and_name(&topic.type_name), &text);
        let headers = parts.iter().zip(&schema.structures);
        let headers = headers.map(|(part, fields)| definition::is_header(part, fields)).collect();
        let type_name = definition::type_name(&topic.type_name);
        let mut definition = definition::to_ros2(&topic.type_name, &text)?;
        let mut migration = None;
        let is_changed =
            |hash| definitions::rihs01(&type_name, &definition).as_deref() != Some(hash);
        if definitions::type_hash(&type_name).is_some_and(is_changed)
            && let Some(own) = definitions::schema(&type_name)
        {
            migration = Migration::new(&type_name, &definition, &own)?;
            definition = if migration.is_some() { own } else { definition };
        }
        let mut ros2 = Topic {
            name: topic.name.clone(),
            message_encoding: "cdr".to_owned(),
            schema_encoding: "ros2msg".to_owned(),
            ..Topic::default()
        };
        if let Some(hash) = definitions::rihs01(&type_name, &definition) {
            ros2.metadata.insert("topic_type_hash".to_owned(), hash);
        }
        if topic.metadata.get("latching").is_some_and(|latching| latching == "1") {
            ros2.metadata.insert("offered_qos_profiles".to_owned(), LATCHED.to_owned());
        }
        ros2.type_name = type_name;
        ros2.schema = definition.into_bytes();
        Ok(ToCdr { topic: ros2, schema, headers, migration })
    }

    /// The topic as ROS 2 has it: type, definition, type hash, and QoS if it was latched. Of a type that ROS 2 has
    /// changed the definition is ROS 2's, if messages can be made that. What only ROS 1 knows (`callerid`, `md5sum`)
    /// is left out.
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// Appends the message as CDR to `out`. After an error `out` is as it was.
    ///
    /// # Errors
    /// If the message does not match the definition, or is nested too deep.
    pub fn convert(&self, message: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let Some(migration) = &self.migration else { return self.copy(message, out) };
        let mut cdr = Vec::with_capacity(message.len() + 64);
        self.copy(message, &mut cdr)?;
        let start = out.len();
        migration.convert(&cdr, out).inspect_err(|_| out.truncate(start))
    }

    /// The same by the definition that the topic had.
    fn copy(&self, message: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let start = out.len();
        // Encapsulation: little-endian CDR, no options.
        out.extend_from_slice(&[0, 1, 0, 0]);
        let mut copy = Copy {
            schema: self,
            from: Cursor::ros1(message),
            bytes: message.len(),
            origin: out.len(),
            out,
            structures_left: message.len() + 1024,
        };
        let done = copy.structure(0, 0).and_then(|()| match copy.from.left() {
            0 => Ok(()),
            left => Err(DecodeError::TooLong { used: message.len() - left, bytes: message.len() }),
        });
        if done.is_err() {
            out.truncate(start);
        }
        done
    }
}

struct Copy<'a> {
    schema: &'a ToCdr,
    from: Cursor<'a>,
    /// Length of the message.
    bytes: usize,
    /// Where alignment is counted from.
    origin: usize,
    out: &'a mut Vec<u8>,
    /// Every structure has at least one byte, except those without a field.
    structures_left: usize,
}

impl Copy<'_> {
    fn structure(&mut self, index: usize, depth: usize) -> Result<(), DecodeError> {
        if depth > DEPTH_MAX {
            return Err(DecodeError::Depth { depth_max: DEPTH_MAX });
        }
        self.count_structure()?;
        let schema = self.schema;
        let fields = &schema.schema.structures[index];
        if fields.is_empty() {
            // IDL has no empty structure: rosidl gives it a byte.
            self.out.push(0);
        }
        if schema.headers[index] {
            self.from.u32()?;
            return fields[1..].iter().try_for_each(|field| self.field(field, depth));
        }
        fields.iter().try_for_each(|field| self.field(field, depth))
    }

    fn count_structure(&mut self) -> Result<(), DecodeError> {
        let left = self.structures_left.checked_sub(1);
        self.structures_left = left.ok_or(DecodeError::Excess { bytes: self.bytes })?;
        Ok(())
    }

    fn field(&mut self, field: &Field, depth: usize) -> Result<(), DecodeError> {
        let count = match field.count {
            Count::One => 1,
            Count::Fixed(count) => {
                // Takes no byte if it is 0, and has its price like a structure.
                self.count_structure()?;
                count
            }
            Count::Sequence => {
                let count = self.from.u32()?;
                self.align(4);
                self.out.extend_from_slice(&count.to_le_bytes());
                count as usize
            }
        };
        if count == 0 {
            return Ok(());
        }
        match field.kind {
            Kind::Structure(index) => (0..count).try_for_each(|_| self.structure(index, depth + 1)),
            Kind::Primitive(primitive) => self.primitives(primitive, field, count),
        }
    }

    fn primitives(
        &mut self,
        primitive: Primitive,
        field: &Field,
        count: usize,
    ) -> Result<(), DecodeError> {
        if let Some((size, alignment)) = primitive.bytes_and_alignment() {
            let values = self.from.take(count.saturating_mul(size))?;
            self.align(alignment);
            self.out.extend_from_slice(values);
            return Ok(());
        }
        if primitive == Primitive::WideString {
            return Err(DecodeError::WideString { field: field.name.clone() });
        }
        for _ in 0..count {
            let text = self.from.string_bytes()?;
            self.align(4);
            self.out.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
            self.out.extend_from_slice(text);
            self.out.push(0);
        }
        Ok(())
    }

    fn align(&mut self, alignment: usize) {
        let past = self.out.len() - self.origin;
        self.out.resize(self.origin + past.next_multiple_of(alignment), 0);
    }
}
