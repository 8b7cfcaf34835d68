use super::{schema, type_hash, type_names};

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
