//! Names of ROS 2 topics and types.

use super::NetworkError;
use crate::limits::NAME_BYTES_MAX;

/// Checks a fully qualified topic or service name (design.ros2.org, "Topic and Service name
/// mapping"): `/` and tokens of letters, digits and `_` that do not begin with a digit.
///
/// # Errors
/// If it is none.
pub fn check_name(name: &str) -> Result<(), NetworkError> {
    let refuse = |reason| {
        let name = name.chars().take(60).collect();
        Err(NetworkError::Name { name, reason })
    };
    if name.len() > NAME_BYTES_MAX {
        return refuse("it is too long");
    }
    let Some(tokens) = name.strip_prefix('/') else { return refuse("it does not begin with `/`") };
    for token in tokens.split('/') {
        if token.is_empty() {
            return refuse("it has an empty part");
        }
        if token.starts_with(|first: char| first.is_ascii_digit()) {
            return refuse("a part begins with a digit");
        }
        if !token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return refuse("it has other signs than letters, digits, `_` and `/`");
        }
    }
    Ok(())
}

/// Checks the name of a type: `sensor_msgs/msg/Image`, `pkg/srv/Trigger_Event`.
///
/// # Errors
/// If it is none.
pub fn check_type_name(name: &str) -> Result<(), NetworkError> {
    let refuse = |reason| {
        let name = name.chars().take(60).collect();
        Err(NetworkError::Name { name, reason })
    };
    if name.len() > NAME_BYTES_MAX {
        return refuse("it is too long for a type");
    }
    let parts: Vec<_> = name.split('/').collect();
    let is_good = |part: &&str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if !(2..=3).contains(&parts.len()) || !parts.iter().all(is_good) {
        return refuse("a type has the form package/msg/Type");
    }
    Ok(())
}

/// Whether ROS 2's tools hide the topic: a part of its name begins with `_`.
pub fn is_hidden(name: &str) -> bool {
    name.split('/').any(|token| token.starts_with('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_ros2() {
        for good in ["/a", "/camera_1/image", "/x/_action/feedback", "/A9/b_"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        let long = format!("/{}", "x".repeat(NAME_BYTES_MAX));
        for bad in ["", "/", "a", "/a//b", "/a/", "/1a", "/a b", "/ü", "/a/../b", "/a%", &long] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        for good in ["sensor_msgs/msg/Image", "std_srvs/srv/Trigger_Event", "a/B"] {
            assert!(check_type_name(good).is_ok(), "{good}");
        }
        for bad in ["", "Image", "a/b/c/d", "a//b", "a/msg/B c", &long] {
            assert!(check_type_name(bad).is_err(), "{bad}");
        }
        assert!(is_hidden("/x/_service_event") && !is_hidden("/x/service_event"));
    }
}
