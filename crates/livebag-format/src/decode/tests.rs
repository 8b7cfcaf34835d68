use proptest::prelude::*;

use super::*;
use crate::golden;

fn topic(type_name: &str, encoding: &str, schema: &str) -> Topic {
    let schema_encoding = if encoding == "ros1" { "ros1msg" } else { "ros2msg" };
    Topic {
        name: "/t".into(),
        type_name: type_name.into(),
        message_encoding: encoding.into(),
        schema_encoding: schema_encoding.into(),
        schema: schema.as_bytes().to_vec(),
        metadata: Default::default(),
    }
}

fn decoder(type_name: &str, encoding: &str, schema: &str) -> Decoder {
    Decoder::new(&topic(type_name, encoding, schema)).unwrap()
}

fn bundled(type_name: &str) -> Decoder {
    decoder(type_name, "cdr", &definitions::schema(type_name).unwrap())
}

#[test]
fn an_image_in_either_byte_order() {
    let options = DecodeOptions { array_items_max: 3 };
    let expected = json!({
        "header": { "stamp": { "sec": 1_700_000_000, "nanosec": 123_456_789 }, "frame_id": "cam0" },
        "height": 2, "width": 3, "encoding": "rgb8", "is_bigendian": 0, "step": 9,
        "data": { "length": 18, "first": [0, 1, 2] },
    });
    for hex in [golden::IMAGE_LE, golden::IMAGE_BE] {
        let value = bundled("sensor_msgs/msg/Image").decode(&golden::bytes(hex), &options).unwrap();
        assert_eq!(value, expected);
    }
}

#[test]
fn what_is_left_out_of_arrays_is_walked_over_exactly() {
    let decoder = bundled("sensor_msgs/msg/PointCloud2");
    for hex in [golden::POINTS_LE, golden::POINTS_BE] {
        let message = golden::bytes(hex);
        for array_items_max in [0, 1, 2, 100] {
            let value = decoder.decode(&message, &DecodeOptions { array_items_max }).unwrap();
            assert_eq!(value["is_dense"], true);
            assert_eq!(value["row_step"], 10);
        }
        let whole = decoder.decode(&message, &DecodeOptions::default()).unwrap();
        assert_eq!(whole["fields"][1]["name"], "intensity");
        assert_eq!(whole["data"].as_array().unwrap().len(), 10);
        let none = decoder.decode(&message, &DecodeOptions { array_items_max: 0 }).unwrap();
        assert_eq!(none["fields"], json!({ "length": 2, "first": [] }));
    }
}

/// rosbag2 keeps a service's own definition for its events.
#[test]
fn events_of_a_service_are_decoded_by_the_services_definition() {
    let separator = "=".repeat(80);
    let schema = format!(
        "int64 a\nint64 b\n---\nint64 sum # of both\nacme/Unit unit\n{separator}\nMSG: acme/Unit\nstring name\n"
    );
    let decoder = decoder("acme/srv/Add_Event", "cdr", &schema);
    let mut data = vec![0, 1, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0];
    data.extend([7; 16]);
    data.extend([0; 4]);
    data.extend(9_i64.to_le_bytes());
    data.extend(1_u32.to_le_bytes());
    data.extend([0; 4]);
    data.extend(2_i64.to_le_bytes());
    data.extend(3_i64.to_le_bytes());
    data.extend(0_u32.to_le_bytes());
    let event = decoder.decode(&data, &DecodeOptions::default()).unwrap();
    assert_eq!(event["info"]["stamp"], json!({ "sec": 5, "nanosec": 6 }));
    assert_eq!(event["info"]["sequence_number"], 9);
    assert_eq!(event["request"], json!([{ "a": 2, "b": 3 }]));
    assert_eq!(event["response"], json!([]));
}

#[test]
fn ros1_has_its_own_times_and_bytes() {
    let schema = "\
# A comment
Header header
int32 FACTOR = 3   # a constant
string NAME=with # in it
byte level
char letter
time when
duration[2] spans
Inner inner
================================================================================
MSG: std_msgs/Header
uint32 seq
time stamp
string frame_id
================================================================================
MSG: acme/Inner
float32[] values
";
    let mut message = Vec::new();
    for number in [7u32, 5, 6, 1] {
        message.extend_from_slice(&number.to_le_bytes());
    }
    message.extend_from_slice(b"f\xff\xfe");
    for number in [10i32, 20, -1, -2, 3, 4] {
        message.extend_from_slice(&number.to_le_bytes());
    }
    message.extend_from_slice(&2u32.to_le_bytes());
    message.extend_from_slice(&0.1f32.to_le_bytes());
    message.extend_from_slice(&f32::NAN.to_le_bytes());
    let value = decoder("acme/Thing", "ros1", schema).decode(&message, &DecodeOptions::default());
    let expected = json!({
        "header": { "seq": 7, "stamp": { "sec": 5, "nanosec": 6 }, "frame_id": "f" },
        "level": -1, "letter": 254, "when": { "sec": 10, "nanosec": 20 },
        "spans": [{ "sec": -1, "nanosec": -2 }, { "sec": 3, "nanosec": 4 }],
        "inner": { "values": [0.1, "NaN"] },
    });
    assert_eq!(value.unwrap(), expected);
}

#[test]
fn bounds_defaults_and_empty_structures_of_ros2() {
    let schema = "\
uint8 first 3
string<=5 name \"none\"
std_msgs/Empty nothing
float64[<=3] values [1.0, 2.0]
builtin_interfaces/Time stamp
================================================================================
MSG: std_msgs/Empty
";
    let mut message = vec![0, 1, 0, 0, 9, 0, 0, 0, 3, 0, 0, 0, b'a', b'b', 0];
    message.push(0); // the empty structure's byte
    message.extend_from_slice(&1u32.to_le_bytes());
    message.extend_from_slice(&1.5f64.to_le_bytes());
    message.extend_from_slice(&1i32.to_le_bytes());
    message.extend_from_slice(&2u32.to_le_bytes());
    let value =
        decoder("acme/msg/Thing", "cdr", schema).decode(&message, &DecodeOptions::default());
    let expected = json!({
        "first": 9, "name": "ab", "nothing": {}, "values": [1.5],
        "stamp": { "sec": 1, "nanosec": 2 },
    });
    assert_eq!(value.unwrap(), expected);
}

#[test]
fn every_bundled_type_parses() {
    for name in definitions::type_names() {
        let schema = definitions::schema(name).unwrap();
        Decoder::new(&topic(name, "cdr", &schema)).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[test]
fn json_and_topics_without_a_schema() {
    let json = decoder("anything", "json", "");
    assert_eq!(json.decode(b"{\"a\":1}", &DecodeOptions::default()).unwrap(), json!({ "a": 1 }));
    assert!(json.decode(b"{", &DecodeOptions::default()).is_err());
    let string = decoder("std_msgs/msg/String", "cdr", "");
    let value = string.decode(b"\0\x01\0\0\x02\0\0\0x\0", &DecodeOptions::default()).unwrap();
    assert_eq!(value, json!({ "data": "x" }));
}

#[test]
fn schemas_that_cannot_be_followed_are_refused() {
    let refusal =
        |type_name: &str, schema: &str| Decoder::new(&topic(type_name, "cdr", schema)).unwrap_err();
    assert!(matches!(refusal("a/msg/B", ""), SchemaError::None { .. }));
    assert!(matches!(refusal("a/msg/B", "Other o"), SchemaError::UnknownType { .. }));
    let error = refusal("a/msg/B", "int32 a\n\nint32");
    assert_eq!(error, SchemaError::Line { line: 3, text: "int32".into() });
    let mut idl = topic("a/msg/B", "cdr", "module a {};");
    idl.schema_encoding = "ros2idl".into();
    let error = Decoder::new(&idl).unwrap_err();
    assert!(error.to_string().contains("ros2idl"), "{error}");
}

#[test]
fn hostile_schemas_and_messages_end_soon() {
    let decode = |encoding: &str, schema: &str, message: &[u8]| {
        decoder("a/A", encoding, schema).decode(message, &DecodeOptions { array_items_max: 0 })
    };
    // A type within itself.
    let endless = decode("ros1", "A a", &[0; 8]).unwrap_err();
    assert!(matches!(endless, DecodeError::Depth { .. }));
    // Arrays of arrays of nothing.
    let part = |name: &str, field: &str| format!("{}\nMSG: a/{name}\n{field}\n", "=".repeat(80));
    let levels = [part("B", "C[1000] c"), part("C", "D[1000] d"), part("D", "")].concat();
    let bomb = decode("ros1", &format!("B[1000] b\n{levels}"), &[0; 1000]).unwrap_err();
    assert!(matches!(bomb, DecodeError::Excess { .. }));
    // More items than there are bytes.
    let count = u32::MAX.to_le_bytes();
    assert!(matches!(
        decode("ros1", "float64[] x", &count).unwrap_err(),
        DecodeError::Truncated { .. }
    ));
    assert!(decode("ros1", "float64[18446744073709551615] x", &count).is_err());
    assert!(decode("ros1", "string[] x", &[3, 0, 0, 0, 255, 255, 255, 255]).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(
        bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1u8), any::<u8>()], 0..300),
        array_items_max in 0..4usize,
    ) {
        let options = DecodeOptions { array_items_max };
        let message = [&[0, 1, 0, 0][..], &bytes].concat();
        for name in ["sensor_msgs/msg/PointCloud2", "visualization_msgs/msg/MarkerArray",
            "rcl_interfaces/msg/ParameterEvent", "nav_msgs/msg/Odometry"]
        {
            let _ = bundled(name).decode(&message, &options);
        }
    }

    #[test]
    fn any_text_is_a_schema_or_refused(
        lines in prop::collection::vec(prop_oneof![
            "[a-zA-Z0-9/<=\\[\\]]{0,12} [a-z=]{0,5}",
            "(uint8|string|A|B)(\\[[0-9<=]{0,4}\\])? [a-z]{1,3}",
            Just("=".repeat(80)),
            "MSG: (a/)?(A|B)",
        ], 0..12),
        bytes in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        for encoding in ["cdr", "ros1"] {
            if let Ok(decoder) = Decoder::new(&topic("a/A", encoding, &lines.join("\n"))) {
                let _ = decoder.decode(&bytes, &DecodeOptions { array_items_max: 2 });
            }
        }
    }
}

#[test]
fn blank_messages_of_every_bundled_type_decode() {
    for type_name in crate::definitions::type_names() {
        let (message, holds) = blank(type_name, &[7; 33]).unwrap();
        let topic = Topic {
            type_name: type_name.to_owned(),
            message_encoding: "cdr".to_owned(),
            ..Topic::default()
        };
        let value = Decoder::new(&topic).unwrap().decode(&message, &DecodeOptions::default());
        let value = value.unwrap_or_else(|error| panic!("{type_name}: {error}"));
        assert_eq!(value.to_string().contains("7,7,7,7"), holds, "{type_name}: {value}");
    }
    let (_, holds) = blank("sensor_msgs/msg/PointCloud2", &[1]).unwrap();
    assert!(holds);
    assert!(blank("acme_msgs/msg/Anvil", &[]).is_err());
}

#[test]
fn fields_that_take_no_byte_are_counted() {
    // 64 kB of structures with a thousand empty arrays each would be 65 million values.
    let fields: String = (0..1000).map(|number| format!("uint8[0] a{number}\n")).collect();
    let text = format!("E[] items\n{}\nMSG: a/E\n{fields}uint8 b", "=".repeat(80));
    let decoder = Decoder::new(&topic("a/A", "ros1", &text)).unwrap();
    let mut message = 65_536u32.to_le_bytes().to_vec();
    message.resize(65_540, 1);
    for array_items_max in [0, usize::MAX] {
        let decoded = decoder.decode(&message, &DecodeOptions { array_items_max });
        assert!(matches!(decoded, Err(DecodeError::Excess { .. })), "{array_items_max}");
    }
    let one = decoder.decode(&[1, 0, 0, 0, 7], &DecodeOptions::default()).unwrap();
    assert_eq!(one["items"][0]["b"], 7);
}

#[test]
fn no_more_values_are_kept_than_were_asked_for() {
    let numbers = decoder("a/A", "ros1", "uint8[] x\nuint8[] y");
    let message =
        [&3u32.to_le_bytes()[..], &[1, 2, 3], &1000u32.to_le_bytes(), &[7; 1000]].concat();
    let decode = |items, values| {
        numbers.decode_at_most(&message, &DecodeOptions { array_items_max: items }, values)
    };
    // Two fields, two arrays, and their items: 3 and 1,000, or 3 and 3.
    assert!(decode(usize::MAX, 2 + 2 + 1003).is_ok());
    let refused = decode(usize::MAX, 2 + 2 + 1002).unwrap_err();
    assert_eq!(refused, DecodeError::Values { values_max: 1006 });
    assert!(decode(3, 2 + 2 + 6).is_ok() && decode(3, 2 + 2 + 5).is_err());
    // A long string counts by its length, JSON by the most it could hold.
    let text = decoder("a/A", "ros1", "string x");
    let message = [&6400u32.to_le_bytes()[..], &[b'x'; 6400]].concat();
    assert!(text.decode_at_most(&message, &DecodeOptions::default(), 101).is_ok());
    assert!(text.decode_at_most(&message, &DecodeOptions::default(), 100).is_err());
    let json = decoder("a/A", "json", "");
    assert!(json.decode_at_most(b"[1,2,3]", &DecodeOptions::default(), 3).is_ok());
    assert!(json.decode_at_most(b"[1,2,3]", &DecodeOptions::default(), 2).is_err());
}
