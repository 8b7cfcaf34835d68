use proptest::prelude::*;

use super::*;
use crate::decode::{DecodeOptions, Decoder};
use crate::{Topic, cdr, definitions, golden};

#[test]
fn image_reads_as_in_cdr() {
    let (ros1, ros2) = (golden::bytes(golden::IMAGE_ROS1), golden::bytes(golden::IMAGE_LE));
    assert_eq!(parse_image(&ros1), cdr::parse_image(&ros2));
}

#[test]
fn points_read_as_in_cdr() {
    let (ros1, ros2) = (golden::bytes(golden::POINTS_ROS1), golden::bytes(golden::POINTS_LE));
    assert_eq!(parse_points(&ros1), cdr::parse_points(&ros2));
}

#[test]
fn truncated_messages_are_refused() {
    golden::refuses_every_truncation(&golden::bytes(golden::IMAGE_ROS1), |bytes| {
        parse_image(bytes).is_ok()
    });
    golden::refuses_every_truncation(&golden::bytes(golden::POINTS_ROS1), |bytes| {
        parse_points(bytes).is_ok()
    });
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1u8), any::<u8>()], 0..300),
    ) {
        let _ = parse_image(&bytes);
        let _ = parse_points(&bytes);
    }
}

fn topic(type_name: &str, schema: &str) -> Topic {
    Topic {
        name: "/t".into(),
        type_name: type_name.into(),
        message_encoding: "ros1".into(),
        schema_encoding: "ros1msg".into(),
        schema: schema.into(),
        ..Default::default()
    }
}

fn to_cdr(type_name: &str, schema: &str, message: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::new();
    ToCdr::new(&topic(type_name, schema)).unwrap().convert(message, &mut out).map(|()| out)
}

const HEADER: &str =
    "===============\nMSG: std_msgs/Header\nuint32 seq\ntime stamp\nstring frame_id\n";

#[test]
fn an_image_becomes_the_same_image_in_cdr() {
    let fields = "Header header\nuint32 height\nuint32 width\nstring encoding\nuint8 is_bigendian\n\
                  uint32 step\nuint8[] data\n";
    let topic = topic("sensor_msgs/Image", &format!("{fields}{HEADER}"));
    let to_cdr = ToCdr::new(&topic).unwrap();
    let mut out = Vec::new();
    to_cdr.convert(&golden::bytes(golden::IMAGE_ROS1), &mut out).unwrap();
    assert_eq!(out, golden::bytes(golden::IMAGE_LE));
    let known = definitions::type_hash("sensor_msgs/msg/Image").unwrap();
    assert_eq!(to_cdr.topic().metadata["topic_type_hash"], known);
}

#[test]
fn values_are_aligned_and_empty_structures_have_a_byte() {
    let schema = "uint8 a\nfloat64[] b\nbool c\nE[2] e\nfloat64 d\nstring[2] s\n\
                  duration[] t\n====================\nMSG: a/E\n";
    let message =
        [&[7, 0, 0, 0, 0, 1][..], &1.5f64.to_le_bytes(), &[0, 0, 0, 0, 1, 0, 0, 0, b'x'], &[0; 4]];
    let expected = [
        // a and what aligns the count of b, of which there is none; c, both structures
        &[0, 1, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0][..],
        &1.5f64.to_le_bytes(),
        &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'x', 0, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(to_cdr("a/A", schema, &message.concat()).unwrap(), expected.concat());
}

#[test]
fn definitions_become_those_of_ros2() {
    let schema = format!(
        "# an anvil\nstring NAME = an #1 anvil\nint32 WEIGHT=9 # kg\nHeader header\nPart[3] parts\n\
         time[] struck\nchar c\nbyte b\n===============\nMSG: acme/Part\nduration age\n{HEADER}"
    );
    let to_cdr = ToCdr::new(&topic("acme/Anvil", &schema)).unwrap();
    let line = "=".repeat(80);
    let expected = format!(
        "string NAME=an #1 anvil\nint32 WEIGHT=9\nstd_msgs/Header header\nacme/Part[3] parts\n\
         builtin_interfaces/Time[] struck\nuint8 c\nbyte b\n{line}\nMSG: acme/Part\n\
         builtin_interfaces/Duration age\n{line}\nMSG: std_msgs/Header\n\
         builtin_interfaces/Time stamp\nstring frame_id\n{line}\nMSG: builtin_interfaces/Time\n\
         int32 sec\nuint32 nanosec\n{line}\nMSG: builtin_interfaces/Duration\nint32 sec\n\
         uint32 nanosec\n"
    );
    let topic = to_cdr.topic();
    assert_eq!(String::from_utf8_lossy(&topic.schema), expected);
    assert_eq!(topic.type_name, "acme/msg/Anvil");
    assert_eq!(
        topic.metadata["topic_type_hash"],
        definitions::rihs01("acme/msg/Anvil", &expected).unwrap()
    );
}

#[test]
fn names_of_types_and_fields_that_changed_are_ros2s() {
    let camera = "Header header\nuint32 height\nuint32 width\nstring distortion_model\nfloat64[] D\n\
                  float64[9] K\nfloat64[9] R\nfloat64[12] P\nuint32 binning_x\nuint32 binning_y\n\
                  RegionOfInterest roi\n===============\nMSG: sensor_msgs/RegionOfInterest\n\
                  uint32 x_offset\nuint32 y_offset\nuint32 height\nuint32 width\nbool do_rectify\n";
    let to_cdr =
        ToCdr::new(&topic("sensor_msgs/CameraInfo", &format!("{camera}{HEADER}"))).unwrap();
    let text = String::from_utf8_lossy(&to_cdr.topic().schema).into_owned();
    assert!(text.contains("\nfloat64[9] k\n"), "{text}");
    let known = definitions::type_hash("sensor_msgs/msg/CameraInfo").unwrap();
    assert_eq!(to_cdr.topic().metadata["topic_type_hash"], known);
    let tf = ToCdr::new(&topic("tf/tfMessage", "int32 transforms")).unwrap();
    assert_eq!(tf.topic().type_name, "tf2_msgs/msg/TFMessage");
}

#[test]
fn latched_topics_are_transient_local() {
    let mut topic = topic("std_msgs/String", "string data");
    topic.metadata.insert("latching".into(), "1".into());
    topic.metadata.insert("callerid".into(), "/node".into());
    let to_cdr = ToCdr::new(&topic).unwrap();
    let qos = &to_cdr.topic().metadata["offered_qos_profiles"];
    let profiles = crate::rosbag2::QosProfile::parse_list(qos).unwrap();
    assert_eq!(profiles[0].durability, crate::rosbag2::Policy::Number(1));
    assert!(!to_cdr.topic().metadata.contains_key("callerid"));
}

#[test]
fn messages_that_are_not_what_their_definition_says_are_refused() {
    let refused = |schema: &str, message: &[u8]| to_cdr("a/A", schema, message).unwrap_err();
    assert_eq!(refused("uint8 a", &[1, 2]), DecodeError::TooLong { used: 1, bytes: 2 });
    assert!(matches!(refused("uint32 a", &[1, 2]), DecodeError::Truncated { .. }));
    assert!(matches!(refused("string a", &[255; 8]), DecodeError::Truncated { .. }));
    assert!(matches!(refused("A a", &[]), DecodeError::Depth { .. }));
    let empties = "E[4000000000] e\n====================\nMSG: a/E\n";
    assert!(matches!(refused(empties, &[]), DecodeError::Excess { .. }));
    assert!(matches!(
        refused("float64[18446744073709551615] a", &[1]),
        DecodeError::Truncated { .. }
    ));
    let other = Topic { message_encoding: "cdr".into(), ..topic("a/A", "") };
    assert!(ToCdr::new(&other).is_err());
    assert!(ToCdr::new(&topic("a/A", "acme/Anvil anvil")).is_err());
    let mut out = vec![9];
    let to_cdr = ToCdr::new(&topic("a/A", "uint8[] a")).unwrap();
    assert!(to_cdr.convert(&[5, 0, 0, 0, 1], &mut out).is_err());
    assert_eq!(out, [9]);
}

/// A definition of a few types that use one another, without ROS 2's keywords.
fn definition() -> impl Strategy<Value = String> {
    let field = (
        "(bool|u?int(8|16|32|64)|float(32|64)|string|time|duration|char|byte|[B-D])",
        "(|\\[\\]|\\[[0-3]\\])",
    );
    let part = prop::collection::vec(field, 0..5);
    prop::collection::vec(part, 1..5).prop_map(|parts| {
        let mut text = String::new();
        for name in ["A", "B", "C", "D"] {
            let fields = parts.get((name.as_bytes()[0] - b'A') as usize);
            if name != "A" {
                text += &format!("===============\nMSG: a/{name}\n");
            }
            for (number, (base, shape)) in fields.into_iter().flatten().enumerate() {
                // Each uses only later ones, so that they end.
                let base = if base.as_str() <= name { "int8" } else { base };
                text += &format!("{base}{shape} f{number}\n");
            }
        }
        text
    })
}

proptest! {
    #[test]
    fn cdr_says_what_ros1_said(
        definition in definition(),
        bytes in prop::collection::vec(prop_oneof![6 => Just(0u8), 2 => 1u8..4, 1 => any::<u8>()], 0..400),
    ) {
        let ros1 = topic("a/A", &definition);
        let to_cdr = ToCdr::new(&ros1).unwrap();
        let mut out = Vec::new();
        // Random bytes are often too long for the definition: use as many as it takes.
        let mut bytes = &bytes[..];
        let mut done = to_cdr.convert(bytes, &mut out);
        if let Err(DecodeError::TooLong { used, .. }) = done {
            bytes = &bytes[..used];
            done = to_cdr.convert(bytes, &mut out);
        }
        let options = DecodeOptions { array_items_max: 1000 };
        if done.is_ok() {
            prop_assert!(out.len() <= 8 * bytes.len() + 5000);
            let first = Decoder::new(&ros1).unwrap().decode(bytes, &options);
            // The decoder bounds arrays by bytes, of which arrays of empty structures have none.
            if let Ok(first) = first {
                let second = Decoder::new(to_cdr.topic()).unwrap().decode(&out, &options).unwrap();
                // Byte is signed in ROS 1 and not in ROS 2; so are the seconds of times.
                if !["byte", "time", "duration"].iter().any(|word| definition.contains(word)) {
                    prop_assert_eq!(first, second);
                }
            }
        }
    }
}

/// ROS 2 has added `temperature` in the middle, and what is behind it moves.
#[test]
fn fields_that_ros2_has_added_are_zero() {
    let own =
        "float32 voltage\nuint32 gone\nfloat32 current\nstring location\nstring serial_number";
    let message = b"\0\0\x80\x3f\x09\0\0\0\0\0\0\x40\x02\0\0\0hi\0\0\0\0";
    let name = "sensor_msgs/BatteryState";
    let to_cdr = ToCdr::new(&topic(name, own)).unwrap();
    let known = definitions::type_hash("sensor_msgs/msg/BatteryState").unwrap();
    assert_eq!(to_cdr.topic().metadata["topic_type_hash"], known);
    let mut cdr = Vec::new();
    to_cdr.convert(message, &mut cdr).unwrap();
    let decoder = crate::decode::Decoder::new(to_cdr.topic()).unwrap();
    let json = decoder.decode(&cdr, &Default::default()).unwrap().to_string();
    assert!(json.contains("\"voltage\":1.0") && json.contains("\"temperature\":0.0"), "{json}");
    assert!(json.contains("\"current\":2.0") && json.contains("\"location\":\"hi\""), "{json}");
    assert!(to_cdr.convert(&message[..9], &mut cdr).is_err());
    // In another order, or as another type, nothing is made of it.
    for own in ["float32 current\nfloat32 voltage", "float64 voltage", "float32[2] voltage"] {
        let to_cdr = ToCdr::new(&topic(name, own)).unwrap();
        assert_ne!(to_cdr.topic().metadata["topic_type_hash"], known, "{own}");
    }
}
