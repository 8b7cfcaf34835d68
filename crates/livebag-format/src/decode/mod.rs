//! Any message as a JSON value, by the definition that came with it.
//!
//! Read are messages of encoding `cdr` with schemas of encoding `ros2msg`, `ros1` with `ros1msg`,
//! and `json`. Neither a malicious schema nor a malicious message can make it panic, allocate more than in proportion
//! to the message, or run forever.
//!
//! ```
//! use livebag_format::{Topic, decode::{DecodeOptions, Decoder}};
//!
//! let topic = Topic {
//!     type_name: "std_msgs/msg/String".into(),
//!     message_encoding: "cdr".into(),
//!     schema_encoding: "ros2msg".into(),
//!     schema: b"string data".to_vec(),
//!     ..Default::default()
//! };
//! let decoder = Decoder::new(&topic).unwrap();
//! let message = b"\0\x01\0\0\x03\0\0\0hi\0";
//! let value = decoder.decode(message, &DecodeOptions::default()).unwrap();
//! assert_eq!(value.to_string(), r#"{"data":"hi"}"#);
//! ```

#[cfg(feature = "arrow")]
mod arrow;
mod blank;
mod columns;
pub(crate) mod schema;
#[cfg(test)]
mod tests;

use serde_json::{Map, Number, Value, json};

use crate::wire::{Cursor, DecodeError};
use crate::{Topic, definitions};

#[cfg(feature = "arrow")]
pub use arrow::BatchBuilder;
pub use blank::blank;
pub use columns::{Column, ColumnDecoder, NumberKind};
pub use schema::SchemaError;

use schema::{Count, Field, Kind, Primitive, Schema};

/// Types within types are followed so deep.
pub(crate) const DEPTH_MAX: usize = 32;

/// How much of a message is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Longer arrays become `{"length": N, "first": […]}` with this many items.
    pub array_items_max: usize,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        DecodeOptions { array_items_max: 64 }
    }
}

/// Decodes the messages of one topic.
#[derive(Clone, Debug)]
pub struct Decoder {
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    Cdr(Schema),
    Ros1(Schema),
    Json,
}

impl Decoder {
    /// A decoder for a topic's messages. A CDR topic without a schema is given the bundled one of
    /// its type.
    pub fn new(topic: &Topic) -> Result<Self, SchemaError> {
        let text = String::from_utf8_lossy(&topic.schema);
        let way = match (&*topic.message_encoding, &*topic.schema_encoding) {
            ("json", _) => Way::Json,
            ("cdr", "ros2msg") if !text.is_empty() => {
                Way::Cdr(Schema::parse(&topic.type_name, &text, false)?)
            }
            ("cdr", "" | "ros2msg") => {
                let text = definitions::schema(&topic.type_name)
                    .ok_or_else(|| SchemaError::None { type_name: topic.type_name.clone() })?;
                Way::Cdr(Schema::parse(&topic.type_name, &text, false)?)
            }
            ("ros1", "ros1msg") => Way::Ros1(Schema::parse(&topic.type_name, &text, true)?),
            (message_encoding, schema_encoding) => {
                return Err(SchemaError::Encoding {
                    message_encoding: message_encoding.to_owned(),
                    schema_encoding: schema_encoding.to_owned(),
                });
            }
        };
        Ok(Decoder { way })
    }

    /// The message as a value. Numbers that JSON has no word for are the strings `NaN`,
    /// `Infinity` and `-Infinity`; bytes of strings that are not UTF-8 become U+FFFD.
    pub fn decode(&self, message: &[u8], options: &DecodeOptions) -> Result<Value, DecodeError> {
        self.decode_at_most(message, options, usize::MAX)
    }

    /// The same for a message, keeping at most `values_max` values: every number, string, array and structure is one,
    /// and each takes up to about 128 bytes of memory. A string is one for every 64 bytes.
    ///
    /// # Errors
    /// As [`Decoder::decode`], and [`DecodeError::Values`] if there are more.
    pub fn decode_at_most(
        &self,
        message: &[u8],
        options: &DecodeOptions,
        values_max: usize,
    ) -> Result<Value, DecodeError> {
        let (schema, cursor) = match &self.way {
            Way::Cdr(schema) => (schema, Cursor::cdr(message)?),
            Way::Ros1(schema) => (schema, Cursor::ros1(message)),
            // A value and what parts it from the next are two bytes.
            Way::Json if message.len() / 2 > values_max => {
                return Err(DecodeError::Values { values_max });
            }
            Way::Json => {
                return serde_json::from_slice(message)
                    .map_err(|error| DecodeError::Json { reason: error.to_string() });
            }
        };
        let mut walk = Walk {
            schema,
            cursor,
            items_max: options.array_items_max,
            bytes: message.len(),
            // Every structure has at least one byte, except empty ones of ROS 1.
            structures_left: message.len() + 1024,
            values_left: values_max,
            values_max,
        };
        walk.structure(0, 0, true)
    }
}

/// One pass over one message. Values that are not kept are still parsed, to find the next ones.
struct Walk<'a> {
    schema: &'a Schema,
    cursor: Cursor<'a>,
    items_max: usize,
    bytes: usize,
    structures_left: usize,
    values_left: usize,
    values_max: usize,
}

impl Walk<'_> {
    fn keep_values(&mut self, count: usize) -> Result<(), DecodeError> {
        let left = self.values_left.checked_sub(count);
        self.values_left = left.ok_or(DecodeError::Values { values_max: self.values_max })?;
        Ok(())
    }

    fn structure(&mut self, index: usize, depth: usize, keep: bool) -> Result<Value, DecodeError> {
        if depth > DEPTH_MAX {
            return Err(DecodeError::Depth { depth_max: DEPTH_MAX });
        }
        self.count_structure()?;
        let fields = &self.schema.structures[index];
        if fields.is_empty() && !self.schema.is_ros1 {
            // IDL has no empty structure: the generators put a byte there.
            self.cursor.u8()?;
        }
        let mut map = Map::new();
        for field in fields {
            if keep {
                self.keep_values(1 + field.name.len() / 64)?;
            }
            let value = self.field(field, depth, keep)?;
            if keep {
                map.insert(field.name.clone(), value);
            }
        }
        Ok(Value::Object(map))
    }

    fn count_structure(&mut self) -> Result<(), DecodeError> {
        let left = self.structures_left.checked_sub(1);
        self.structures_left = left.ok_or(DecodeError::Excess { bytes: self.bytes })?;
        Ok(())
    }

    fn field(&mut self, field: &Field, depth: usize, keep: bool) -> Result<Value, DecodeError> {
        let count = match field.count {
            Count::One => return self.value(field, depth, keep),
            // It takes no byte, so that a structure of many such fields would cost more than its length.
            Count::Fixed(0) => {
                self.count_structure()?;
                0
            }
            Count::Fixed(count) => count,
            Count::Sequence => self.cursor.u32()? as usize,
        };
        // Every item has at least one byte; this bounds the loop below.
        if count > self.cursor.left() {
            let (offset, left) = (self.bytes - self.cursor.left(), self.cursor.left());
            return Err(DecodeError::Truncated { offset, wanted: count, left });
        }
        let kept = if keep { count.min(self.items_max) } else { 0 };
        if keep {
            // The array, and its items before there is memory for them.
            self.keep_values(kept.saturating_add(1))?;
        }
        let mut items = Vec::with_capacity(kept);
        for _ in 0..kept {
            items.push(self.value(field, depth, true)?);
        }
        self.skip(field, depth, count - kept)?;
        if kept < count && keep {
            return Ok(json!({ "length": count, "first": items }));
        }
        Ok(Value::Array(items))
    }

    /// Walks over `count` items.
    fn skip(&mut self, field: &Field, depth: usize, count: usize) -> Result<(), DecodeError> {
        if count == 0 {
            return Ok(());
        }
        if let Kind::Primitive(primitive) = field.kind
            && let Some((bytes, alignment)) = primitive.bytes_and_alignment()
        {
            self.cursor.align(alignment)?;
            self.cursor.take(count.saturating_mul(bytes))?;
            return Ok(());
        }
        for _ in 0..count {
            self.value(field, depth, false)?;
        }
        Ok(())
    }

    fn value(&mut self, field: &Field, depth: usize, keep: bool) -> Result<Value, DecodeError> {
        match field.kind {
            Kind::Structure(index) => self.structure(index, depth + 1, keep),
            Kind::Primitive(primitive) => self.primitive(primitive, field, keep),
        }
    }

    fn primitive(
        &mut self,
        primitive: Primitive,
        field: &Field,
        keep: bool,
    ) -> Result<Value, DecodeError> {
        let cursor = &mut self.cursor;
        Ok(match primitive {
            Primitive::Bool => Value::Bool(cursor.bool()?),
            Primitive::U8 => cursor.u8()?.into(),
            Primitive::I8 => cursor.i8()?.into(),
            Primitive::U16 => cursor.u16()?.into(),
            Primitive::I16 => cursor.i16()?.into(),
            Primitive::U32 => cursor.u32()?.into(),
            Primitive::I32 => cursor.i32()?.into(),
            Primitive::U64 => cursor.u64()?.into(),
            Primitive::I64 => cursor.i64()?.into(),
            Primitive::F32 => short_float(cursor.f32()?),
            Primitive::F64 => float(cursor.f64()?),
            Primitive::String => {
                let text = cursor.string_bytes()?;
                if !keep {
                    return Ok(Value::Null);
                }
                self.keep_values(text.len() / 64)?;
                String::from_utf8_lossy(text).into()
            }
            Primitive::WideString => {
                return Err(DecodeError::WideString { field: field.name.clone() });
            }
            Primitive::Time => json!({ "sec": cursor.u32()?, "nanosec": cursor.u32()? }),
            Primitive::Duration => json!({ "sec": cursor.i32()?, "nanosec": cursor.i32()? }),
        })
    }
}

fn float(value: f64) -> Value {
    match Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => "NaN".into(),
        None if value > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// A float32 with the digits that it has: 0.1, not 0.10000000149011612.
fn short_float(value: f32) -> Value {
    float(value.to_string().parse().unwrap_or(f64::from(value)))
}
