use proptest::prelude::*;

use super::{rihs01, schema, type_hash, type_names};

/// Known from the type descriptions that ROS 2 Jazzy installs.
#[test]
fn image_has_its_published_hash() {
    assert_eq!(
        type_hash("sensor_msgs/msg/Image"),
        Some("RIHS01_d31d41a9a4c4bc8eae9be757b0beed306564f7526c88ea6a4588fb9582527d47")
    );
}

#[test]
fn every_type_has_a_hash_and_all_its_dependencies() {
    assert!(type_names().count() > 100);
    for name in type_names() {
        let hash = type_hash(name).unwrap();
        assert!(hash.starts_with("RIHS01_") && hash.len() == 71, "{name}: {hash}");
        assert!(schema(name).is_some(), "{name} needs a type that is not bundled");
    }
}

#[test]
fn dependencies_come_once_after_the_root() {
    let schema = schema("sensor_msgs/msg/PointCloud2").unwrap();
    let heads: Vec<_> = schema.lines().filter(|line| line.starts_with("MSG: ")).collect();
    assert_eq!(
        heads,
        ["MSG: std_msgs/Header", "MSG: sensor_msgs/PointField", "MSG: builtin_interfaces/Time"]
    );
    assert_eq!(schema.lines().filter(|line| *line == "=".repeat(80)).count(), 3);
}

#[test]
fn unknown_types_are_not_made_up() {
    assert_eq!(schema("acme_msgs/msg/Anvil"), None);
    assert_eq!(type_hash("sensor_msgs/Image"), None);
}

#[test]
fn every_bundled_hash_is_that_of_its_definition() {
    for name in type_names() {
        let text = schema(name).unwrap();
        assert_eq!(rihs01(name, &text).as_deref(), type_hash(name), "{name}");
    }
}

#[test]
fn a_definition_may_leave_out_what_the_hash_does_not_see() {
    let text = "# comment\nbuiltin_interfaces/Time clock # of the world\nint32 X = 4\n";
    assert_eq!(
        rihs01("rosgraph_msgs/msg/Clock", text).as_deref(),
        type_hash("rosgraph_msgs/msg/Clock")
    );
    let whole = schema("sensor_msgs/msg/Image").unwrap().replacen("std_msgs/Header", "Header", 1);
    assert_eq!(
        rihs01("sensor_msgs/msg/Image", &whole).as_deref(),
        type_hash("sensor_msgs/msg/Image")
    );
    let long =
        schema("sensor_msgs/msg/Image").unwrap().replace("MSG: std_msgs/", "MSG: std_msgs/msg/");
    assert_eq!(
        rihs01("sensor_msgs/msg/Image", &long).as_deref(),
        type_hash("sensor_msgs/msg/Image")
    );
}

#[test]
fn what_is_no_definition_has_no_hash() {
    for text in ["acme/Anvil anvil", "int32", "int32[x] a", "string<=x s", "int32<=4 a"] {
        assert_eq!(rihs01("a/msg/B", text), None, "{text}");
    }
    assert_eq!(rihs01("NoPackage", "int32 a"), None);
    // A type within itself has a description, and so a hash.
    assert!(rihs01("a/msg/B", "B[] more").is_some());
}

proptest! {
    #[test]
    fn any_text_has_a_hash_or_none(text in "([a-z/]{1,6}(\\[(<=)?[0-9]*\\])? [a-z]{1,3}\n|={80}\n|MSG: a/[a-z]\n|\\PC{0,8}\n){0,12}") {
        let _ = rihs01("a/msg/b", &text);
    }
}

/// Known from ROS 2 Jazzy as well: rosidl makes `uint8` of `char` before it hashes, which rosbags does not.
#[test]
fn char_is_hashed_as_uint8() {
    let text = schema("service_msgs/msg/ServiceEventInfo").unwrap();
    assert_eq!(
        rihs01("service_msgs/msg/ServiceEventInfo", &text).as_deref(),
        Some("RIHS01_41bcbbe07a75c9b52bc96bfd5c24d7f0fc0a08c0cb7921b3373c5732345a6f45")
    );
    assert_eq!(rihs01("a/msg/B", "char[<=4] c"), rihs01("a/msg/B", "uint8[<=4] c"));
    assert_ne!(rihs01("a/msg/B", "byte c"), rihs01("a/msg/B", "uint8 c"));
}
