//! Single values of messages, named as columns of tables are: `header.stamp.sec`, `position[3]`,
//! `transforms[0].transform.translation.x`.

use livebag_format::decode::{Column, ColumnDecoder, DecodeOptions, Decoder, NumberKind};
use livebag_format::{DecodeError, Topic};
use serde::Serialize;
use serde_json::Value;

use crate::limits::{ARRAY_ITEMS_MAX, DECODED_VALUES_MAX, FIELDS_LISTED_MAX};
use crate::text::shortened;

/// A field of a topic's messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldRow {
    /// Its path; `[]` stands where the number of an item is to be.
    pub field: String,
    /// `float64`, `string`, …
    #[serde(rename = "type")]
    pub type_name: &'static str,
    /// Whether it is a number.
    pub numeric: bool,
    /// Items that each array in the path has, from the left; `null` if that differs by message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<Option<usize>>,
}

/// Why a field cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// No such field.
    #[error(
        "messages of {topic} have no field `{field}`: /v1/bags/NAME/fields lists those that they have"
    )]
    None {
        /// Topic name.
        topic: String,
        /// As it was asked for, shortened.
        field: String,
    },
    /// Not a number.
    #[error("the field `{field}` of {topic} is no number: {found}")]
    NotANumber {
        /// Topic name.
        topic: String,
        /// As it was asked for, shortened.
        field: String,
        /// Its type.
        found: &'static str,
    },
    /// The topic's messages are not decoded.
    #[error("messages of {topic} cannot be decoded: {error}")]
    Topic {
        /// Topic name.
        topic: String,
        /// Why.
        error: String,
    },
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Name(String),
    Item(usize),
}

/// A path, taken apart; `None` if it is none.
fn parse(text: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    for part in text.split('.') {
        let (name, mut items) = part.split_at(part.find('[').unwrap_or(part.len()));
        if name.is_empty() {
            return None;
        }
        steps.push(Step::Name(name.to_owned()));
        while !items.is_empty() {
            let (number, rest) = items.strip_prefix('[')?.split_once(']')?;
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            steps.push(Step::Item(number.parse().ok().filter(|_| is_number)?));
            items = rest;
        }
    }
    Some(steps)
}

/// Where a number is within a column.
#[derive(Clone, Debug)]
struct Place {
    column: usize,
    /// Numbers of items, and places of fields in structures.
    steps: Vec<usize>,
    is_short: bool,
}

/// Takes numbers out of many messages of a topic.
pub struct FieldReader {
    way: Way,
}

enum Way {
    Columns { decoder: Box<ColumnDecoder>, places: Vec<Place> },
    Json { decoder: Decoder, paths: Vec<Vec<Step>> },
}

impl FieldReader {
    /// A reader of these fields.
    ///
    /// # Errors
    /// If the topic has no such field, or it is no number.
    pub fn new(topic: &Topic, fields: &[String]) -> Result<Self, FieldError> {
        let none =
            |field: &str| FieldError::None { topic: topic.name.clone(), field: shortened(field) };
        let mut paths = Vec::new();
        for field in fields {
            paths.push(parse(field).ok_or_else(|| none(field))?);
        }
        if topic.message_encoding == "json" {
            let decoder = Decoder::new(topic).map_err(|error| undecodable(topic, &error))?;
            return Ok(Self { way: Way::Json { decoder, paths } });
        }
        let decoder = ColumnDecoder::new(topic).map_err(|error| undecodable(topic, &error))?;
        let shape = decoder.shape();
        let mut places = Vec::new();
        for (field, steps) in fields.iter().zip(&paths) {
            let (place, column) = find(&shape, steps).ok_or_else(|| none(field))?;
            let found = match column {
                Column::Numbers { kind, .. } => {
                    places.push(Place { is_short: *kind == NumberKind::F32, ..place });
                    continue;
                }
                Column::Text { .. } => "it is a string",
                Column::List { .. } | Column::Array { .. } => "name an item of it, as in `name[0]`",
                Column::Structure { .. } => "name a field of it, as in `name.x`",
            };
            let (topic, field) = (topic.name.clone(), shortened(field));
            return Err(FieldError::NotANumber { topic, field, found });
        }
        // Values after the last requested one are not decoded: most often an image's pixels.
        let count = places.iter().map(|place| place.column + 1).max().unwrap_or(0);
        let decoder = Box::new(decoder.first_columns(count));
        Ok(Self { way: Way::Columns { decoder, places } })
    }

    /// Whether a field has only the digits of a `float32`.
    pub fn is_short(&self, field: usize) -> bool {
        match &self.way {
            Way::Columns { places, .. } => places[field].is_short,
            Way::Json { .. } => false,
        }
    }

    /// Adds a message. Values of JSON are given to `take` at once: the number of the field, and the value or NaN.
    ///
    /// # Errors
    /// If it is not what its definition says.
    pub fn push(
        &mut self,
        message: &[u8],
        take: &mut dyn FnMut(usize, f64),
    ) -> Result<(), DecodeError> {
        match &mut self.way {
            Way::Columns { decoder, .. } => decoder.push(message),
            Way::Json { decoder, paths } => {
                let options = DecodeOptions { array_items_max: ARRAY_ITEMS_MAX };
                let value = decoder.decode_at_most(message, &options, DECODED_VALUES_MAX)?;
                for (at, path) in paths.iter().enumerate() {
                    take(at, json_number(&value, path));
                }
                Ok(())
            }
        }
    }

    /// Gives the values of the messages that were added, by message and field; NaN where there is none.
    pub fn drain(&mut self, take: &mut dyn FnMut(usize, usize, f64)) {
        let Way::Columns { decoder, places } = &mut self.way else { return };
        let rows = decoder.rows();
        if rows == 0 {
            return;
        }
        let columns = decoder.take();
        for row in 0..rows {
            for (at, place) in places.iter().enumerate() {
                let (_, column) = &columns[place.column];
                take(row, at, number(column, row, &place.steps).unwrap_or(f64::NAN));
            }
        }
    }

    /// Messages that were added and not given.
    pub fn rows(&self) -> usize {
        match &self.way {
            Way::Columns { decoder, .. } => decoder.rows(),
            Way::Json { .. } => 0,
        }
    }
}

fn undecodable(topic: &Topic, error: &dyn std::error::Error) -> FieldError {
    FieldError::Topic { topic: topic.name.clone(), error: error.to_string() }
}

/// The place of a path, and the column there.
fn find<'a>(shape: &'a [(String, Column)], path: &[Step]) -> Option<(Place, &'a Column)> {
    // A column's name has the dots of structures outside of arrays.
    let mut name = String::new();
    for (at, step) in path.iter().enumerate() {
        let Step::Name(part) = step else { return None };
        name.push_str(part);
        if let Some(column) = shape.iter().position(|(known, _)| *known == name) {
            let (mut steps, mut here) = (Vec::new(), &shape[column].1);
            for step in &path[at + 1..] {
                here = match (here, step) {
                    (Column::List { items, .. }, Step::Item(item)) => {
                        steps.push(*item);
                        items
                    }
                    (Column::Array { length, items, .. }, Step::Item(item)) if item < length => {
                        steps.push(*item);
                        items
                    }
                    (Column::Structure { fields, .. }, Step::Name(name)) => {
                        let field = fields.iter().position(|(known, _)| known == name)?;
                        steps.push(field);
                        &fields[field].1
                    }
                    _ => return None,
                };
            }
            return Some((Place { column, steps, is_short: false }, here));
        }
        name.push('.');
    }
    None
}

/// The number at a place of a row.
fn number(column: &Column, row: usize, steps: &[usize]) -> Option<f64> {
    match (column, steps.split_first()) {
        (Column::Numbers { kind, bytes }, None) => read_number(*kind, bytes, row),
        (Column::List { ends, items }, Some((item, rest))) => {
            let start = row.checked_sub(1).map_or(0, |before| ends[before]) as usize;
            let end = *ends.get(row)? as usize;
            (*item < end - start).then(|| number(items, start + item, rest))?
        }
        (Column::Array { length, items, .. }, Some((item, rest))) => {
            number(items, row * length + item, rest)
        }
        (Column::Structure { fields, .. }, Some((field, rest))) => {
            number(&fields.get(*field)?.1, row, rest)
        }
        _ => None,
    }
}

fn read_number(kind: NumberKind, bytes: &[u8], row: usize) -> Option<f64> {
    fn at<const N: usize>(bytes: &[u8], row: usize) -> Option<[u8; N]> {
        bytes.get(row * N..(row + 1) * N)?.try_into().ok()
    }
    Some(match kind {
        NumberKind::Bool | NumberKind::U8 => f64::from(*bytes.get(row)?),
        NumberKind::I8 => f64::from(i8::from_le_bytes(at(bytes, row)?)),
        NumberKind::U16 => f64::from(u16::from_le_bytes(at(bytes, row)?)),
        NumberKind::I16 => f64::from(i16::from_le_bytes(at(bytes, row)?)),
        NumberKind::U32 => f64::from(u32::from_le_bytes(at(bytes, row)?)),
        NumberKind::I32 => f64::from(i32::from_le_bytes(at(bytes, row)?)),
        NumberKind::U64 => u64::from_le_bytes(at(bytes, row)?) as f64,
        NumberKind::I64 => i64::from_le_bytes(at(bytes, row)?) as f64,
        NumberKind::F32 => f64::from(f32::from_le_bytes(at(bytes, row)?)),
        NumberKind::F64 => f64::from_le_bytes(at(bytes, row)?),
    })
}

fn json_number(value: &Value, path: &[Step]) -> f64 {
    let mut here = Some(value);
    for part in path {
        here = here.and_then(|value| match part {
            Step::Name(name) => value.get(name),
            Step::Item(item) => value.get(item),
        });
    }
    match here {
        Some(Value::Bool(yes)) => f64::from(u8::from(*yes)),
        Some(value) => value.as_f64().unwrap_or(f64::NAN),
        None => f64::NAN,
    }
}

/// The fields of a topic's messages, in their order, up to [`FIELDS_LISTED_MAX`]; of JSON those that
/// `newest`, a message, has.
///
/// # Errors
/// If messages of the topic cannot be decoded.
pub fn fields(topic: &Topic, newest: Option<&[u8]>) -> Result<Vec<FieldRow>, FieldError> {
    let mut rows = Vec::new();
    if topic.message_encoding == "json" {
        let value = newest.and_then(|message| serde_json::from_slice::<Value>(message).ok());
        if let Some(value) = value {
            list_json("", &value, &mut Vec::new(), &mut rows);
        }
        return Ok(rows);
    }
    let decoder = ColumnDecoder::new(topic).map_err(|error| undecodable(topic, &error))?;
    for (name, column) in &decoder.shape() {
        list(name, column, &mut Vec::new(), &mut rows);
    }
    Ok(rows)
}

fn list(path: &str, column: &Column, lengths: &mut Vec<Option<usize>>, rows: &mut Vec<FieldRow>) {
    let (type_name, numeric) = match column {
        Column::Numbers { kind, .. } => (name_of(*kind), true),
        Column::Text { .. } => ("string", false),
        Column::List { items, .. } => {
            lengths.push(None);
            list(&format!("{path}[]"), items, lengths, rows);
            lengths.pop();
            return;
        }
        Column::Array { length, items, .. } => {
            lengths.push(Some(*length));
            list(&format!("{path}[]"), items, lengths, rows);
            lengths.pop();
            return;
        }
        Column::Structure { fields, .. } => {
            for (name, field) in fields {
                list(&format!("{path}.{name}"), field, lengths, rows);
            }
            return;
        }
    };
    if rows.len() < FIELDS_LISTED_MAX {
        rows.push(FieldRow {
            field: path.to_owned(),
            type_name,
            numeric,
            lengths: lengths.clone(),
        });
    }
}

fn list_json(
    path: &str,
    value: &Value,
    lengths: &mut Vec<Option<usize>>,
    rows: &mut Vec<FieldRow>,
) {
    let (type_name, numeric) = match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter().take(FIELDS_LISTED_MAX) {
                let joint = if path.is_empty() { "" } else { "." };
                list_json(&format!("{path}{joint}{name}"), field, lengths, rows);
            }
            return;
        }
        Value::Array(items) => {
            if let Some(item) = items.first() {
                lengths.push(None);
                list_json(&format!("{path}[]"), item, lengths, rows);
                lengths.pop();
            }
            return;
        }
        Value::Number(_) => ("number", true),
        Value::Bool(_) => ("bool", true),
        Value::String(_) => ("string", false),
        Value::Null => ("null", false),
    };
    if rows.len() < FIELDS_LISTED_MAX && !path.is_empty() {
        rows.push(FieldRow {
            field: path.to_owned(),
            type_name,
            numeric,
            lengths: lengths.clone(),
        });
    }
}

fn name_of(kind: NumberKind) -> &'static str {
    match kind {
        NumberKind::Bool => "bool",
        NumberKind::U8 => "uint8",
        NumberKind::I8 => "int8",
        NumberKind::U16 => "uint16",
        NumberKind::I16 => "int16",
        NumberKind::U32 => "uint32",
        NumberKind::I32 => "int32",
        NumberKind::U64 => "uint64",
        NumberKind::I64 => "int64",
        NumberKind::F32 => "float32",
        NumberKind::F64 => "float64",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let name = |text: &str| Step::Name(text.to_owned());
        assert_eq!(
            parse("a.b[3][4].c").unwrap(),
            [name("a"), name("b"), Step::Item(3), Step::Item(4), name("c")]
        );
        for wrong in [
            "",
            ".",
            "a.",
            ".a",
            "a[",
            "a[]",
            "a[-1]",
            "a[+1]",
            "a[1",
            "a[1]b",
            "[1]",
            "a..b",
            "a[99999999999999999999]",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    fn topic() -> Topic {
        Topic {
            name: "/t".into(),
            type_name: "a_msgs/msg/A".into(),
            message_encoding: "cdr".into(),
            schema_encoding: "ros2msg".into(),
            schema: b"int16 n\nP p\nfloat32[2] pair\nP[] many\nstring text\n================\nMSG: a_msgs/P\nfloat64 x\nbool ok\n".to_vec(),
            ..Default::default()
        }
    }

    /// `n`, `p.x`, `pair`, and `many` of x.
    fn message(n: i16, x: f64, many: &[f64]) -> Vec<u8> {
        let mut cdr = vec![0, 1, 0, 0];
        let align = |cdr: &mut Vec<u8>, to: usize| {
            while !(cdr.len() - 4).is_multiple_of(to) {
                cdr.push(0)
            }
        };
        cdr.extend(n.to_le_bytes());
        align(&mut cdr, 8);
        cdr.extend(x.to_le_bytes());
        cdr.push(1);
        align(&mut cdr, 4);
        cdr.extend(0.1f32.to_le_bytes());
        cdr.extend(f32::NAN.to_le_bytes());
        cdr.extend((many.len() as u32).to_le_bytes());
        for x in many {
            align(&mut cdr, 8);
            cdr.extend(x.to_le_bytes());
            cdr.push(0);
        }
        align(&mut cdr, 4);
        cdr.extend([2, 0, 0, 0, b'x', 0]);
        cdr
    }

    #[test]
    fn values_are_found_wherever_they_are() {
        let fields = ["n", "p.x", "p.ok", "pair[0]", "pair[1]", "many[1].x"].map(str::to_owned);
        let mut reader = FieldReader::new(&topic(), &fields).unwrap();
        let none = &mut |_: usize, _: f64| {};
        reader.push(&message(-5, 2.5, &[]), none).unwrap();
        reader.push(&message(7, -1.0, &[4.0, 8.0]), none).unwrap();
        assert!(reader.push(b"\0\x01\0\0", none).is_err());
        let mut values = [[0.0; 6]; 2];
        reader.drain(&mut |row, field, value| values[row][field] = value);
        assert_eq!(values[0][..3], [-5.0, 2.5, 1.0]);
        assert_eq!(values[1][..3], [7.0, -1.0, 1.0]);
        assert!(values[0][4].is_nan() && values[0][5].is_nan());
        assert_eq!((values[1][3], values[1][5]), (f64::from(0.1f32), 8.0));
        assert!(reader.is_short(3) && !reader.is_short(1));
        for wrong in [
            "none", "p", "p.y", "pair", "pair[2]", "many", "many[0]", "many.x", "text", "n[0]",
            "p.x.y",
        ] {
            assert!(FieldReader::new(&topic(), &[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn all_fields_are_listed() {
        let rows = fields(&topic(), None).unwrap();
        let named: Vec<_> =
            rows.iter().map(|row| (&*row.field, row.type_name, row.numeric)).collect();
        assert_eq!(
            named,
            [
                ("n", "int16", true),
                ("p.x", "float64", true),
                ("p.ok", "bool", true),
                ("pair[]", "float32", true),
                ("many[].x", "float64", true),
                ("many[].ok", "bool", true),
                ("text", "string", false),
            ]
        );
        assert_eq!((&rows[3].lengths[..], &rows[4].lengths[..]), (&[Some(2)][..], &[None][..]));
    }

    #[test]
    fn json_has_fields_too() {
        let topic =
            Topic { name: "/j".into(), message_encoding: "json".into(), ..Default::default() };
        let message = br#"{"a": {"b": [1, 2.5]}, "ok": true, "text": "x"}"#;
        let fields_there = fields(&topic, Some(message)).unwrap();
        let named: Vec<_> = fields_there.iter().map(|row| (&*row.field, row.numeric)).collect();
        assert_eq!(named, [("a.b[]", true), ("ok", true), ("text", false)]);
        let wanted = ["a.b[1]", "ok", "none"].map(str::to_owned);
        let mut reader = FieldReader::new(&topic, &wanted).unwrap();
        let mut values = [0.0; 3];
        reader.push(message, &mut |field, value| values[field] = value).unwrap();
        assert_eq!(values[..2], [2.5, 1.0]);
        assert!(values[2].is_nan());
    }
}
