//! Many messages of one topic as columns: what tables of numbers (Arrow, NumPy) are made of.
//!
//! The fields of a structure within the message become columns, named with dots (`header.stamp.sec`); arrays of fixed
//! length, sequences, and structures inside of those keep their nesting. Hostile schemas and messages cost an error, as
//! everywhere in [`decode`](super).

#[cfg(test)]
mod tests;

use super::schema::{Count, Field, Kind, Primitive, Schema};
use super::{DEPTH_MAX, Decoder, SchemaError, Way};
use crate::Topic;
use crate::wire::{Cursor, DecodeError};

/// A definition with more values than this makes no table that anybody could use.
const COLUMNS_MAX: usize = 4096;
/// What IDL puts into a structure without members, by rosidl's name.
const BLANK_MEMBER: &str = "structure_needs_at_least_one_member";

/// What numbers a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// `bool`: a byte, 0 or 1.
    Bool,
    /// `uint8`, `byte`, `char`.
    U8,
    /// `int8`.
    I8,
    /// `uint16`.
    U16,
    /// `int16`.
    I16,
    /// `uint32`.
    U32,
    /// `int32`.
    I32,
    /// `uint64`.
    U64,
    /// `int64`.
    I64,
    /// `float32`.
    F32,
    /// `float64`.
    F64,
}

impl NumberKind {
    /// Bytes of one number.
    pub fn size_bytes(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }
}

/// The values of a column, or of what lies within one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// Numbers, one behind the other.
    Numbers {
        /// Of which type.
        kind: NumberKind,
        /// Little-endian.
        bytes: Vec<u8>,
    },
    /// Strings.
    Text {
        /// Where each ends in `bytes`.
        ends: Vec<i32>,
        /// All strings, as UTF-8; invalid text has become U+FFFD.
        bytes: Vec<u8>,
    },
    /// Sequences.
    List {
        /// Where each ends in `items`.
        ends: Vec<i32>,
        /// The items of all sequences.
        items: Box<Column>,
    },
    /// Arrays of a fixed length.
    Array {
        /// Items of each array.
        length: usize,
        /// How many arrays.
        rows: usize,
        /// The items of all arrays.
        items: Box<Column>,
    },
    /// Structures within a sequence or an array.
    Structure {
        /// How many.
        rows: usize,
        /// Their fields, by name, in order; each has the same number of values.
        fields: Vec<(String, Column)>,
    },
}

/// Takes messages of one topic apart into columns.
///
/// ```
/// use livebag_format::{Topic, decode::{Column, ColumnDecoder, NumberKind}};
///
/// let topic = Topic {
///     type_name: "std_msgs/msg/Int32".into(),
///     message_encoding: "cdr".into(),
///     ..Default::default()
/// };
/// let mut decoder = ColumnDecoder::new(&topic)?;
/// decoder.push(b"\0\x01\0\0\x07\0\0\0")?;
/// let seven = Column::Numbers { kind: NumberKind::I32, bytes: vec![7, 0, 0, 0] };
/// assert_eq!(decoder.take(), [("data".to_owned(), seven)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ColumnDecoder {
    columns: Vec<(String, Column)>,
    is_ros1: bool,
    rows: usize,
}

impl ColumnDecoder {
    /// A decoder for a topic's messages, which are of encoding `cdr` or `ros1`.
    ///
    /// # Errors
    /// As [`Decoder::new`]; also for JSON, which has no definition, for a `wstring`, and when the
    /// definition makes too many columns or nests too deep.
    pub fn new(topic: &Topic) -> Result<Self, SchemaError> {
        let (schema, is_ros1) = match Decoder::new(topic)?.way {
            Way::Cdr(schema) => (schema, false),
            Way::Ros1(schema) => (schema, true),
            Way::Json => {
                return Err(SchemaError::Encoding {
                    message_encoding: topic.message_encoding.clone(),
                    schema_encoding: topic.schema_encoding.clone(),
                });
            }
        };
        let mut builder = Builder { schema: &schema, made: 0 };
        let mut columns = Vec::new();
        builder.flatten("", 0, 0, &mut columns)?;
        Ok(ColumnDecoder { columns, is_ros1, rows: 0 })
    }

    /// Decodes no further than the first `count` columns, and gives only those.
    #[must_use]
    pub fn first_columns(mut self, count: usize) -> Self {
        self.columns.truncate(count);
        self
    }

    /// Adds one message's values. A message that cannot be decoded adds nothing.
    ///
    /// # Errors
    /// If it does not match the definition.
    pub fn push(&mut self, message: &[u8]) -> Result<(), DecodeError> {
        let mut read = Read {
            cursor: if self.is_ros1 { Cursor::ros1(message) } else { Cursor::cdr(message)? },
            bytes: message.len(),
            structures_left: message.len() + 1024,
        };
        let pushed = self.columns.iter_mut().try_for_each(|(_, column)| read.value(column));
        match pushed {
            Ok(()) => self.rows += 1,
            Err(_) => self.columns.iter_mut().for_each(|(_, column)| column.truncate(self.rows)),
        }
        pushed
    }

    /// Messages added since the last [`ColumnDecoder::take`].
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The columns by name, without rows: what [`ColumnDecoder::take`] gives, in the same order.
    pub fn shape(&self) -> Vec<(String, Column)> {
        self.columns.iter().map(|(name, column)| (name.clone(), column.empty())).collect()
    }

    /// The columns by name, with the rows added since the last call.
    pub fn take(&mut self) -> Vec<(String, Column)> {
        self.rows = 0;
        let emptied = |(name, column): &mut (String, Column)| {
            let empty = column.empty();
            (name.clone(), std::mem::replace(column, empty))
        };
        self.columns.iter_mut().map(emptied).collect()
    }
}

/// Makes empty columns of a definition.
struct Builder<'a> {
    schema: &'a Schema,
    made: usize,
}

impl Builder<'_> {
    /// Columns of a structure outside of arrays, each under its dotted name.
    fn flatten(
        &mut self,
        prefix: &str,
        structure: usize,
        depth: usize,
        out: &mut Vec<(String, Column)>,
    ) -> Result<(), SchemaError> {
        for field in self.fields(structure, depth)? {
            let name = format!("{prefix}{}", field.name);
            match (field.kind, field.count) {
                (Kind::Structure(inner), Count::One) => {
                    self.flatten(&format!("{name}."), inner, depth + 1, out)?;
                }
                (Kind::Primitive(Primitive::Time | Primitive::Duration), Count::One) => {
                    let Column::Structure { fields, .. } = self.one(&field, depth)? else {
                        continue;
                    };
                    let dotted =
                        fields.into_iter().map(|(part, column)| (format!("{name}.{part}"), column));
                    out.extend(dotted);
                }
                _ => out.push((name, self.field(&field, depth)?)),
            }
        }
        Ok(())
    }

    fn fields(&mut self, structure: usize, depth: usize) -> Result<Vec<Field>, SchemaError> {
        if depth > DEPTH_MAX {
            return Err(SchemaError::Depth { depth_max: DEPTH_MAX });
        }
        let fields = &self.schema.structures[structure];
        if fields.is_empty() && !self.schema.is_ros1 {
            let kind = Kind::Primitive(Primitive::U8);
            return Ok(vec![Field { name: BLANK_MEMBER.to_owned(), kind, count: Count::One }]);
        }
        Ok(fields.clone())
    }

    fn field(&mut self, field: &Field, depth: usize) -> Result<Column, SchemaError> {
        let one = self.one(field, depth)?;
        Ok(match field.count {
            Count::One => one,
            Count::Fixed(length) => Column::Array { length, rows: 0, items: Box::new(one) },
            Count::Sequence => Column::List { ends: Vec::new(), items: Box::new(one) },
        })
    }

    fn one(&mut self, field: &Field, depth: usize) -> Result<Column, SchemaError> {
        self.made += 1;
        if self.made > COLUMNS_MAX {
            return Err(SchemaError::Columns { columns_max: COLUMNS_MAX });
        }
        let numbers = |kind| Column::Numbers { kind, bytes: Vec::new() };
        let time = |kind| Column::Structure {
            rows: 0,
            fields: ["sec", "nanosec"].map(|name| (name.to_owned(), numbers(kind))).into(),
        };
        Ok(match field.kind {
            Kind::Structure(inner) => {
                let mut fields = Vec::new();
                for field in self.fields(inner, depth + 1)? {
                    fields.push((field.name.clone(), self.field(&field, depth + 1)?));
                }
                Column::Structure { rows: 0, fields }
            }
            Kind::Primitive(primitive) => match primitive {
                Primitive::Bool => numbers(NumberKind::Bool),
                Primitive::U8 => numbers(NumberKind::U8),
                Primitive::I8 => numbers(NumberKind::I8),
                Primitive::U16 => numbers(NumberKind::U16),
                Primitive::I16 => numbers(NumberKind::I16),
                Primitive::U32 => numbers(NumberKind::U32),
                Primitive::I32 => numbers(NumberKind::I32),
                Primitive::U64 => numbers(NumberKind::U64),
                Primitive::I64 => numbers(NumberKind::I64),
                Primitive::F32 => numbers(NumberKind::F32),
                Primitive::F64 => numbers(NumberKind::F64),
                Primitive::String => Column::Text { ends: Vec::new(), bytes: Vec::new() },
                Primitive::WideString => {
                    return Err(SchemaError::WideString { field: field.name.clone() });
                }
                Primitive::Time => time(NumberKind::U32),
                Primitive::Duration => time(NumberKind::I32),
            },
        })
    }
}

/// One pass over one message.
struct Read<'a> {
    cursor: Cursor<'a>,
    bytes: usize,
    structures_left: usize,
}

impl Read<'_> {
    fn value(&mut self, column: &mut Column) -> Result<(), DecodeError> {
        match column {
            Column::Numbers { kind, bytes } => self.numbers(*kind, 1, bytes)?,
            Column::Text { ends, bytes } => {
                let text = self.cursor.string_bytes()?;
                match str::from_utf8(text) {
                    Ok(text) => bytes.extend_from_slice(text.as_bytes()),
                    Err(_) => bytes.extend_from_slice(String::from_utf8_lossy(text).as_bytes()),
                }
                ends.push(end(bytes.len())?);
            }
            Column::List { ends, items } => {
                let count = self.cursor.u32()? as usize;
                self.items(items, count)?;
                let before = ends.last().map_or(0, |end| *end as usize);
                ends.push(end(before + count)?);
            }
            Column::Array { length, rows, items } => {
                self.items(items, *length)?;
                *rows += 1;
            }
            Column::Structure { rows, fields } => {
                let left = self.structures_left.checked_sub(1);
                self.structures_left = left.ok_or(DecodeError::Excess { bytes: self.bytes })?;
                fields.iter_mut().try_for_each(|(_, field)| self.value(field))?;
                *rows += 1;
            }
        }
        Ok(())
    }

    fn items(&mut self, items: &mut Column, count: usize) -> Result<(), DecodeError> {
        if count == 0 {
            return Ok(());
        }
        // Every item has at least one byte; this bounds the loop below.
        if count > self.cursor.left() {
            let (offset, left) = (self.bytes - self.cursor.left(), self.cursor.left());
            return Err(DecodeError::Truncated { offset, wanted: count, left });
        }
        match items {
            Column::Numbers { kind, bytes } => self.numbers(*kind, count, bytes),
            other => (0..count).try_for_each(|_| self.value(other)),
        }
    }

    fn numbers(
        &mut self,
        kind: NumberKind,
        count: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let size_bytes = kind.size_bytes();
        self.cursor.align(size_bytes)?;
        let raw = self.cursor.take(count.saturating_mul(size_bytes))?;
        if kind == NumberKind::Bool {
            out.extend(raw.iter().map(|byte| u8::from(*byte != 0)));
        } else if self.cursor.is_little_endian() || size_bytes == 1 {
            // A call that copies a length unknown to the compiler costs more than these.
            match (raw.as_array::<8>(), raw.as_array::<4>()) {
                (Some(raw), _) => out.extend_from_slice(raw),
                (_, Some(raw)) => out.extend_from_slice(raw),
                _ => out.extend_from_slice(raw),
            }
        } else {
            out.extend(raw.chunks_exact(size_bytes).flat_map(|number| number.iter().rev()));
        }
        Ok(())
    }
}

fn end(total: usize) -> Result<i32, DecodeError> {
    i32::try_from(total).map_err(|_| DecodeError::Items { items_max: i32::MAX as usize })
}

impl Column {
    /// Values in it.
    pub fn rows(&self) -> usize {
        match self {
            Self::Numbers { kind, bytes } => bytes.len() / kind.size_bytes(),
            Self::Text { ends, .. } | Self::List { ends, .. } => ends.len(),
            Self::Array { rows, .. } | Self::Structure { rows, .. } => *rows,
        }
    }

    /// The same without values, with the same capacity.
    fn empty(&self) -> Self {
        match self {
            Self::Numbers { kind, bytes } => {
                Self::Numbers { kind: *kind, bytes: Vec::with_capacity(bytes.len()) }
            }
            Self::Text { ends, bytes } => Self::Text {
                ends: Vec::with_capacity(ends.len()),
                bytes: Vec::with_capacity(bytes.len()),
            },
            Self::List { ends, items } => {
                Self::List { ends: Vec::with_capacity(ends.len()), items: Box::new(items.empty()) }
            }
            Self::Array { length, items, .. } => {
                Self::Array { length: *length, rows: 0, items: Box::new(items.empty()) }
            }
            Self::Structure { fields, .. } => {
                let fields = fields.iter().map(|(name, field)| (name.clone(), field.empty()));
                Self::Structure { rows: 0, fields: fields.collect() }
            }
        }
    }

    /// Forgets the values behind the first `kept`.
    fn truncate(&mut self, kept: usize) {
        match self {
            Self::Numbers { kind, bytes } => bytes.truncate(kept * kind.size_bytes()),
            Self::Text { ends, bytes } => {
                ends.truncate(kept);
                bytes.truncate(ends.last().map_or(0, |end| *end as usize));
            }
            Self::List { ends, items } => {
                ends.truncate(kept);
                items.truncate(ends.last().map_or(0, |end| *end as usize));
            }
            Self::Array { length, rows, items } => {
                *rows = (*rows).min(kept);
                items.truncate(kept.saturating_mul(*length));
            }
            Self::Structure { rows, fields } => {
                *rows = (*rows).min(kept);
                fields.iter_mut().for_each(|(_, field)| field.truncate(kept));
            }
        }
    }
}
