//! Names as Zenoh's key expressions have them.

/// What all keys begin with.
pub const PREFIX: &str = "livebag";
/// Of a container's liveliness token. Chunks with `@` are matched by no wildcard.
pub const LIVE: &str = "@live";
/// Of a container's description.
pub const INFO: &str = "@info";

/// A topic's name as chunks of a key: without its leading slash, and with percent escapes for characters that have a
/// meaning in keys. A name without a leading slash begins with the chunk `~`, so that no two names have one key.
#[cfg(any(feature = "server", test))]
pub fn topic_key(topic: &str) -> String {
    let (prefix, rest) = match topic.strip_prefix('/') {
        Some(rest) => ("", rest),
        None => ("~/", topic),
    };
    let chunk = |chunk: &str| match chunk {
        "" => "%".to_owned(),
        "~" => "%7E".to_owned(),
        chunk => chunk.chars().map(escaped).collect(),
    };
    let chunks: Vec<String> = rest.split('/').map(chunk).collect();
    format!("{prefix}{}", chunks.join("/"))
}

#[cfg(any(feature = "server", test))]
fn escaped(c: char) -> String {
    match c {
        '*' | '$' | '?' | '#' | '%' | '@' => format!("%{:02X}", c as u32),
        c if c.is_control() => format!("%{:02X}", c as u32),
        c => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_topic_has_a_key_of_its_own() {
        let topics = [
            "/imu",
            "imu",
            "/camera/front",
            "//imu",
            "/imu/",
            "/",
            "",
            "/a*b",
            "/a%2Ab",
            "/a?b#c$",
            "/@x",
            "~",
            "/~/imu",
            "~/imu",
            "/ü €",
            "%",
        ];
        let keys: HashSet<String> = topics.iter().map(|topic| topic_key(topic)).collect();
        assert_eq!(keys.len(), topics.len(), "{keys:?}");
        for key in &keys {
            let whole = format!("{PREFIX}/robot/run1/{key}");
            assert!(zenoh::key_expr::KeyExpr::try_from(whole.clone()).is_ok(), "{whole}");
        }
        assert_eq!(topic_key("/camera/front"), "camera/front");
    }
}
