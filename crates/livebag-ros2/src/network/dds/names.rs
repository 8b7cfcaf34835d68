//! Names of topics, services and types as ROS 2 has them on DDS (design.ros2.org, "Topic and Service
//! name mapping to DDS", and rmw_dds_common).

use crate::limits::NAME_BYTES_MAX;
use crate::network::Role;

/// Between a type's package and its name, in DDS.
const NAMESPACE: &str = "dds_::";

/// The DDS name of a ROS topic.
pub fn topic(name: &str) -> String {
    format!("rt{name}")
}

/// The DDS names of a service's topics: requests and replies.
pub fn service(name: &str) -> (String, String) {
    (format!("rq{name}Request"), format!("rr{name}Reply"))
}

/// The DDS name of a ROS type, with something after its name: `sensor_msgs/msg/Image` is
/// `sensor_msgs::msg::dds_::Image_`.
pub fn type_name(name: &str, after: &str) -> String {
    match name.rsplit_once('/') {
        Some((package, last)) => {
            format!("{}::{NAMESPACE}{last}{after}_", package.replace('/', "::"))
        }
        None => name.to_owned(),
    }
}

/// Whether it can be the name of a type that is not from ROS: `ShapeType`, `demo::Pose`.
pub fn is_foreign_type(name: &str) -> bool {
    let is_named = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_named)
}

/// The ROS meaning of a DDS endpoint: its role, name and type. None if it is not from ROS, or the second topic of a
/// service, which adds nothing.
pub fn ros(topic: &str, type_name: &str, is_writer: bool) -> Option<(Role, String, String)> {
    let (prefix, rest) = topic.split_at_checked(2)?;
    if !rest.starts_with('/') || rest.len() < 2 {
        return None;
    }
    let role = |writer, reader| if is_writer { writer } else { reader };
    match prefix {
        "rt" => {
            let role = role(Role::Publisher, Role::Subscription);
            Some((role, rest.to_owned(), ros_type(type_name, "")))
        }
        "rq" => {
            let role = role(Role::Client, Role::Server);
            let name = rest.strip_suffix("Request").filter(|name| name.len() > 1)?;
            Some((role, name.to_owned(), ros_type(type_name, "_Request")))
        }
        _ => None,
    }
}

/// The ROS name of a DDS type; the name itself if it is not ROS'.
fn ros_type(name: &str, after: &str) -> String {
    let ros = || {
        let (package, last) = name.rsplit_once(NAMESPACE)?;
        let package = package.strip_suffix("::")?;
        let last = last.strip_suffix('_')?.strip_suffix(after)?;
        Some(format!("{}/{last}", package.replace("::", "/")))
    };
    ros().unwrap_or_else(|| name.to_owned())
}

/// The hash of the type that an endpoint tells in its free text, `typehash=RIHS01_…;`.
pub fn type_hash(user_data: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(user_data);
    let hash = text.split(';').find_map(|part| part.trim().strip_prefix("typehash="))?;
    let digits = hash.strip_prefix("RIHS01_")?;
    let is_hash = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| hash.to_owned())
}

/// What an endpoint says that knows no hash. Nodes since Iron print a warning about each endpoint whose
/// free text is empty, and none about a text without a hash.
const NO_HASH: &[u8] = b"maker=livebag;";

/// The free text that tells the hash.
pub fn user_data(type_hash: Option<&str>) -> Vec<u8> {
    type_hash.map_or_else(|| NO_HASH.to_vec(), |hash| format!("typehash={hash};").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_dds_are_those_of_ros() {
        let image = "sensor_msgs::msg::dds_::Image_";
        assert_eq!(topic("/camera/image"), "rt/camera/image");
        assert_eq!(type_name("sensor_msgs/msg/Image", ""), image);
        let found = ros("rt/camera/image", image, true).unwrap();
        let expected =
            (Role::Publisher, "/camera/image".to_owned(), "sensor_msgs/msg/Image".to_owned());
        assert_eq!(found, expected);
        assert_eq!(ros("rt/camera/image", image, false).unwrap().0, Role::Subscription);
        let (requests, replies) = service("/talker/add");
        assert_eq!(
            (requests.as_str(), replies.as_str()),
            ("rq/talker/addRequest", "rr/talker/addReply")
        );
        let add = type_name("example/srv/Add", "_Request");
        assert_eq!(add, "example::srv::dds_::Add_Request_");
        let expected = (Role::Server, "/talker/add".to_owned(), "example/srv/Add".to_owned());
        assert_eq!(ros(&requests, &add, false).unwrap(), expected);
        assert!(ros(&replies, &add, true).is_none());
    }

    #[test]
    fn what_is_not_of_ros_is_none() {
        for odd in
            ["", "r", "rt", "rt/", "Square", "rtx/y", "ros_discovery_info", "rq/Request", "é/"]
        {
            assert!(ros(odd, "T", true).is_none(), "{odd}");
        }
        for odd in ["ShapeType", "dds_::X_", "a::dds_::X", "::dds_::_", "", "a::msg::dds_::X"] {
            let (_, _, found) = ros("rt/odd", odd, true).unwrap();
            assert!(found == odd || found == "/", "{odd} became {found}");
        }
    }

    #[test]
    fn a_hash_is_taken_from_free_text_only_if_it_is_one() {
        let hash = format!("RIHS01_{}", "0a".repeat(32));
        assert_eq!(type_hash(&user_data(Some(&hash))), Some(hash.clone()));
        assert_eq!(type_hash(format!("enclave=/;typehash={hash};").as_bytes()), Some(hash));
        assert!(!user_data(None).is_empty(), "nodes warn about an empty text");
        for odd in
            [&b""[..], NO_HASH, b"typehash=", b"typehash=RIHS01_12;", b"typehash=\xff;", b"\0\0"]
        {
            assert_eq!(type_hash(odd), None);
        }
    }
}
