use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::decode::{DecodeOptions, blank};
use crate::{definitions, golden};

fn topic(type_name: &str, encoding: &str, schema: &str) -> Topic {
    let schema_encoding = if encoding == "ros1" { "ros1msg" } else { "ros2msg" };
    Topic {
        type_name: type_name.into(),
        message_encoding: encoding.into(),
        schema_encoding: schema_encoding.into(),
        schema: schema.as_bytes().to_vec(),
        ..Topic::default()
    }
}

fn bundled(type_name: &str) -> Topic {
    topic(type_name, "cdr", &definitions::schema(type_name).unwrap())
}

/// Value `row` of a column, as the JSON decoder would give it.
fn value(column: &Column, row: usize) -> Value {
    let items = |items: &Column, range: std::ops::Range<usize>| {
        Value::Array(range.map(|item| value(items, item)).collect())
    };
    let start = |ends: &[i32]| row.checked_sub(1).map_or(0, |before| ends[before] as usize);
    match column {
        Column::Numbers { kind, bytes } => {
            let size = kind.size_bytes();
            number(*kind, &bytes[row * size..(row + 1) * size])
        }
        Column::Text { ends, bytes } => {
            str::from_utf8(&bytes[start(ends)..ends[row] as usize]).unwrap().into()
        }
        Column::List { ends, items: inner } => items(inner, start(ends)..ends[row] as usize),
        Column::Array { length, items: inner, .. } => {
            items(inner, row * length..(row + 1) * length)
        }
        Column::Structure { fields, .. } => Value::Object(
            fields.iter().map(|(name, field)| (name.clone(), value(field, row))).collect(),
        ),
    }
}

fn number(kind: NumberKind, raw: &[u8]) -> Value {
    let float = |value: f64| match serde_json::Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => "NaN".into(),
        None if value > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    };
    macro_rules! read {
        ($type:ty) => {
            <$type>::from_le_bytes(raw.try_into().unwrap())
        };
    }
    match kind {
        NumberKind::Bool => (raw[0] == 1).into(),
        NumberKind::U8 => raw[0].into(),
        NumberKind::I8 => read!(i8).into(),
        NumberKind::U16 => read!(u16).into(),
        NumberKind::I16 => read!(i16).into(),
        NumberKind::U32 => read!(u32).into(),
        NumberKind::I32 => read!(i32).into(),
        NumberKind::U64 => read!(u64).into(),
        NumberKind::I64 => read!(i64).into(),
        NumberKind::F32 => {
            let value = read!(f32);
            float(value.to_string().parse().unwrap_or(f64::from(value)))
        }
        NumberKind::F64 => float(read!(f64)),
    }
}

/// A row put together again: dotted names become objects within objects.
fn row(columns: &[(String, Column)], row: usize) -> Value {
    let mut whole = json!({});
    for (name, column) in columns {
        let place = name.split('.').fold(&mut whole, |place, part| &mut place[part]);
        *place = value(column, row);
    }
    whole
}

/// As both have it: an empty ROS 2 structure has no member, and a structure without members, which has no
/// columns, is none.
fn without_blanks(mut value: Value) -> Value {
    match &mut value {
        Value::Object(map) => {
            map.remove(BLANK_MEMBER);
            map.values_mut().for_each(|inner| *inner = without_blanks(inner.take()));
            map.retain(|_, inner| inner.as_object().is_none_or(|members| !members.is_empty()));
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|inner| *inner = without_blanks(inner.take()));
        }
        _ => {}
    }
    value
}

/// Both decoders take or refuse the messages, and say the same of those they take.
fn agree(topic: &Topic, messages: &[&[u8]]) {
    let (Ok(decoder), Ok(mut columns)) = (Decoder::new(topic), ColumnDecoder::new(topic)) else {
        return;
    };
    let options = DecodeOptions { array_items_max: usize::MAX };
    let mut expected = Vec::new();
    for message in messages {
        let decoded = decoder.decode(message, &options);
        let pushed = columns.push(message);
        assert_eq!(decoded.is_ok(), pushed.is_ok(), "{decoded:?} {pushed:?}");
        expected.extend(decoded.ok());
    }
    assert_eq!(columns.rows(), expected.len());
    let taken = columns.take();
    for (at, expected) in expected.into_iter().enumerate() {
        assert!(taken.iter().all(|(_, column)| column.rows() > at));
        assert_eq!(without_blanks(row(&taken, at)), without_blanks(expected));
    }
    assert_eq!(columns.take(), columns.shape());
}

#[test]
fn columns_say_what_values_say() {
    for (name, goldens) in [
        ("sensor_msgs/msg/Image", [golden::IMAGE_LE, golden::IMAGE_BE]),
        ("sensor_msgs/msg/PointCloud2", [golden::POINTS_LE, golden::POINTS_BE]),
    ] {
        let messages: Vec<_> = goldens.iter().map(|hex| golden::bytes(hex)).collect();
        let cut = &messages[0][..messages[0].len() - 1];
        agree(&bundled(name), &[&messages[0], cut, &messages[1], &[], &messages[0]]);
    }
    for name in definitions::type_names() {
        let (message, _) = blank(name, b"12345").unwrap();
        agree(&bundled(name), &[&message, &message[..message.len() - 1], &message]);
    }
}

#[test]
fn names_are_dotted_and_arrays_keep_their_length() {
    let shape = ColumnDecoder::new(&bundled("sensor_msgs/msg/Imu")).unwrap().shape();
    let names: Vec<_> = shape.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names[..5],
        [
            "header.stamp.sec",
            "header.stamp.nanosec",
            "header.frame_id",
            "orientation.x",
            "orientation.y"
        ]
    );
    let (_, covariance) = &shape[names.iter().position(|n| n.ends_with("n_covariance")).unwrap()];
    assert!(matches!(covariance, Column::Array { length: 9, rows: 0, .. }));
}

#[test]
fn hostile_definitions_are_refused() {
    let refused = |schema: &str| ColumnDecoder::new(&topic("a/A", "ros1", schema)).unwrap_err();
    assert!(matches!(refused("A a"), SchemaError::Depth { .. }));
    assert!(matches!(refused("A[] a\nA[] b"), SchemaError::Depth { .. }));
    assert!(matches!(refused("wstring w"), SchemaError::WideString { .. }));
    let part = |name: char, of: char| {
        let fields: String = (0..20).map(|k| format!("{of} f{k}\n")).collect();
        format!("{}\nMSG: a/{name}\n{fields}", "=".repeat(80))
    };
    let wide = ["B b\n".to_owned(), part('B', 'C'), part('C', 'D'), part('D', 'E')].concat();
    let wide = wide + &"=".repeat(80) + "\nMSG: a/E\nuint8 x";
    assert!(matches!(refused(&wide), SchemaError::Columns { .. }));
    let json = topic("a/A", "json", "");
    assert!(ColumnDecoder::new(&json).is_err());
}

proptest! {
    #[test]
    fn any_bytes_give_the_same_as_values(
        bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1u8), any::<u8>()], 0..300),
        is_little in any::<bool>(),
    ) {
        let message = [&[0, u8::from(is_little), 0, 0][..], &bytes].concat();
        for name in ["sensor_msgs/msg/PointCloud2", "visualization_msgs/msg/MarkerArray",
            "rcl_interfaces/msg/ParameterEvent", "nav_msgs/msg/Odometry", "sensor_msgs/msg/JointState"]
        {
            agree(&bundled(name), &[&message, &message]);
        }
    }

    #[test]
    fn any_definition_gives_the_same_as_values(
        lines in prop::collection::vec(prop_oneof![
            "(u?int(8|16|32|64)|float(32|64)|bool|string|time|duration|A|B)(\\[[0-3]?\\])? [a-z]{1,3}",
            Just("=".repeat(80)),
            "MSG: (a/)?(A|B)",
        ], 0..12),
        bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1u8), any::<u8>()], 0..60),
    ) {
        let text = lines.join("\n");
        for encoding in ["cdr", "ros1"] {
            let topic = topic("a/C", encoding, &text);
            let mut names: Vec<_> = ColumnDecoder::new(&topic)
                .map(|decoder| decoder.shape().into_iter().map(|(name, _)| name).collect())
                .unwrap_or_default();
            let count = names.len();
            names.sort();
            names.dedup();
            // Of fields with one name JSON keeps the last.
            if count == names.len() && count > 0 && !has_twins(&topic) {
                let message = [&[0, 1, 0, 0][..], &bytes].concat();
                agree(&topic, &[if encoding == "cdr" { &message } else { &bytes }]);
            }
        }
    }
}

/// Whether a structure has two fields of one name.
fn has_twins(topic: &Topic) -> bool {
    let is_ros1 = topic.message_encoding == "ros1";
    let text = String::from_utf8_lossy(&topic.schema);
    let schema = Schema::parse(&topic.type_name, &text, is_ros1).unwrap();
    schema.structures.iter().any(|fields| {
        let mut names: Vec<_> = fields.iter().map(|field| &field.name).collect();
        names.sort();
        names.windows(2).any(|pair| pair[0] == pair[1])
    })
}
