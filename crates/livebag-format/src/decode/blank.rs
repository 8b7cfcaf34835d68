//! Messages that say nothing: for benchmarks and tests that need some of a given type and size.

use super::schema::{Count, Field, Kind, Primitive, Schema};
use super::{SchemaError, definitions};

/// A CDR message of a bundled type with every number 0, every string and sequence empty, but the
/// first sequence of bytes: that one holds `bytes`. The answer also tells whether there is one.
///
/// ```
/// let (message, holds) = livebag_format::decode::blank("sensor_msgs/msg/CompressedImage", b"JFIF")?;
/// assert!(holds && message.ends_with(b"\x04\0\0\0JFIF"));
/// # Ok::<(), livebag_format::decode::SchemaError>(())
/// ```
///
/// # Errors
/// If the type is not bundled.
pub fn blank(type_name: &str, bytes: &[u8]) -> Result<(Vec<u8>, bool), SchemaError> {
    let text = definitions::schema(type_name)
        .ok_or_else(|| SchemaError::None { type_name: type_name.to_owned() })?;
    let schema = Schema::parse(type_name, &text, false)?;
    let mut writer = Blank { schema: &schema, out: Vec::new(), bytes: Some(bytes) };
    // Bundled definitions nest a few levels deep, and none contains itself.
    writer.structure(0);
    let holds = writer.bytes.is_none();
    // Encapsulation: little-endian CDR, no options.
    let mut message = vec![0, 1, 0, 0];
    message.extend(writer.out);
    Ok((message, holds))
}

struct Blank<'a> {
    schema: &'a Schema,
    /// Without the encapsulation, from whose end alignment counts.
    out: Vec<u8>,
    /// `None` once they are written.
    bytes: Option<&'a [u8]>,
}

impl Blank<'_> {
    fn structure(&mut self, index: usize) {
        if self.schema.structures[index].is_empty() {
            // rosidl gives it `uint8 structure_needs_at_least_one_member`.
            self.out.push(0);
        }
        for Field { kind, count, .. } in &self.schema.structures[index] {
            match count {
                Count::One => self.value(*kind),
                Count::Fixed(count) => (0..*count).for_each(|_| self.value(*kind)),
                Count::Sequence => self.sequence(*kind),
            }
        }
    }

    fn value(&mut self, kind: Kind) {
        match kind {
            Kind::Structure(index) => self.structure(index),
            Kind::Primitive(primitive) => match primitive.bytes_and_alignment() {
                Some((size, alignment)) => {
                    self.out.resize(self.out.len().next_multiple_of(alignment) + size, 0);
                }
                // An empty string has its NUL, an empty wide one nothing.
                None if primitive == Primitive::String => {
                    self.length(1);
                    self.out.push(0);
                }
                None => self.length(0),
            },
        }
    }

    fn sequence(&mut self, kind: Kind) {
        let is_bytes = matches!(kind, Kind::Primitive(Primitive::U8 | Primitive::I8));
        let bytes = if is_bytes { self.bytes.take() } else { None };
        let bytes = bytes.unwrap_or_default();
        self.length(bytes.len());
        self.out.extend_from_slice(bytes);
    }

    fn length(&mut self, count: usize) {
        self.out.resize(self.out.len().next_multiple_of(4), 0);
        self.out.extend_from_slice(&(count as u32).to_le_bytes());
    }
}
