//! Names of ROS 2, and what becomes of them in Zenoh's key expressions.
//!
//! Sources: rmw_zenoh's design document ("Graph Cache", "Topic and Service name mapping") and ROS 2's
//! "Topic and Service name mapping to DDS" (design.ros2.org).

use super::super::{EndpointId, NetworkError, check_name, check_type_name};

/// Represents `/` in a token, whose fields are separated by `/`.
const SLASH: char = '%';

/// What an endpoint is known by: the hash (XXH3, 128 bits) of its token's key expression, its low
/// half first.
pub(super) fn endpoint_id(token: &str) -> EndpointId {
    twox_hash::XxHash3_128::oneshot(token.as_bytes()).to_le_bytes()
}

/// A name as a field of a token.
pub(super) fn mangled(name: &str) -> String {
    name.replace('/', "%")
}

/// The name in a field of a token.
pub(super) fn demangled(field: &str) -> String {
    field.replace(SLASH, "/")
}

/// `sensor_msgs/msg/Image` as DDS and rmw_zenoh name it: `sensor_msgs::msg::dds_::Image_`. Names that are not from ROS
/// stay unchanged.
pub(super) fn dds_type(ros: &str) -> String {
    match ros.rsplit_once('/') {
        Some((package, name)) => format!("{}::dds_::{name}_", package.replace('/', "::")),
        None => ros.to_owned(),
    }
}

/// The ROS name of a DDS type. Other names stay unchanged.
pub(super) fn ros_type(dds: &str) -> String {
    match dds.strip_suffix('_').and_then(|dds| dds.split_once("dds_::")) {
        Some((package, name)) => format!("{}{name}", package.replace("::", "/")),
        None => dds.to_owned(),
    }
}

/// `RIHS01_` and 64 hexadecimal digits that are not all zero, which means that the hash is unknown.
pub(super) fn is_type_hash(hash: &str) -> bool {
    hash.strip_prefix("RIHS01_").is_some_and(|digits| {
        digits.len() == 64
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
            && digits.bytes().any(|byte| byte != b'0')
    })
}

/// Refuses names that ROS 2 does not allow: they would be other key expressions than meant.
pub(super) fn check(name: &str, type_name: &str) -> Result<(), NetworkError> {
    check_name(name)?;
    check_type_name(type_name)
}

/// Where a topic's messages, or a service's calls, travel. Without a hash: those of any.
pub(super) fn key(domain: u32, name: &str, type_name: &str, hash: Option<&str>) -> String {
    let name = name.trim_matches('/');
    format!("{domain}/{name}/{}/{}", dds_type(type_name), hash.unwrap_or("*"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_as_rmw_zenoh_names_them() {
        for (ros, dds) in [
            ("sensor_msgs/msg/Image", "sensor_msgs::msg::dds_::Image_"),
            ("std_srvs/srv/Trigger", "std_srvs::srv::dds_::Trigger_"),
            ("a/action/Go_SendGoal", "a::action::dds_::Go_SendGoal_"),
            ("odd", "odd"),
        ] {
            assert_eq!(dds_type(ros), dds);
            assert_eq!(ros_type(dds), ros);
        }
    }

    #[test]
    fn endpoints_are_known_by_the_hash_that_rmw_zenoh_takes() {
        // XXH3_128bits of nothing and of "a", as xxhsum 0.8.2 prints them: high half first.
        let printed = |id: EndpointId| format!("{:032x}", u128::from_le_bytes(id));
        assert_eq!(printed(endpoint_id("")), "99aa06d3014798d86001c324468d497f");
        assert_eq!(printed(endpoint_id("a")), "a96faf705af16834e6c632b61e964e1f");
    }

    #[test]
    fn hashes_that_say_nothing_are_none() {
        assert!(is_type_hash(&format!("RIHS01_{}", "0a".repeat(32))));
        for hash in ["", "TypeHashNotSupported", &format!("RIHS01_{}", "00".repeat(32)), "RIHS01_"]
        {
            assert!(!is_type_hash(hash), "{hash}");
        }
    }
}
