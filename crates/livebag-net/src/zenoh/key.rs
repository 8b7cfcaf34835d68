//! Names as Zenoh's key expressions have them.

use super::ZenohError;

/// What all keys begin with.
pub const PREFIX: &str = "livebag";
/// Of a container's liveliness token. Chunks with `@` are matched by no wildcard.
pub const LIVE: &str = "@live";
/// Of a container's description.
pub const INFO: &str = "@info";

/// A topic's name as chunks of a key: without its leading slash, and with percent escapes for what has
/// a meaning in keys. A name without a leading slash begins with the chunk `~`, so that no two names
/// have one key.
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

/// A name of a robot: one chunk, of plain characters.
#[cfg(feature = "server")]
pub fn robot_chunk(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let chunk: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if chunk.is_empty() { "robot".into() } else { chunk }
}

/// `zenoh/ROBOT/NAME`, with `*` for any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZenohAddress {
    /// Robots.
    pub robot: String,
    /// Recordings.
    pub bag: String,
}

impl ZenohAddress {
    /// Whether `text` looks like one.
    pub fn is_one(text: &str) -> bool {
        text == "zenoh" || text.starts_with("zenoh/")
    }

    /// Takes an address apart; what is left out is any.
    ///
    /// # Errors
    /// If it is not one.
    pub fn parse(text: &str) -> Result<Self, ZenohError> {
        let wrong = || ZenohError::Address(text.to_owned());
        if !Self::is_one(text) {
            return Err(wrong());
        }
        let rest = text["zenoh".len()..].trim_matches('/');
        let chunks: Vec<&str> = rest.split('/').collect();
        let is_plain = |chunk: &&str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
            *chunk == "*" || (!chunk.is_empty() && chunk.chars().all(allowed))
        };
        let (robot, bag) = match &chunks[..] {
            [""] => ("*", "*"),
            [robot] => (*robot, "*"),
            [robot, bag] => (*robot, *bag),
            _ => return Err(wrong()),
        };
        if !is_plain(&robot) || !is_plain(&bag) {
            return Err(wrong());
        }
        Ok(Self { robot: robot.to_owned(), bag: bag.to_owned() })
    }
}

impl std::fmt::Display for ZenohAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "zenoh/{}/{}", self.robot, self.bag)
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

    #[test]
    fn addresses() {
        let address = |text| ZenohAddress::parse(text).unwrap().to_string();
        assert_eq!(address("zenoh"), "zenoh/*/*");
        assert_eq!(address("zenoh/"), "zenoh/*/*");
        assert_eq!(address("zenoh/r2"), "zenoh/r2/*");
        assert_eq!(address("zenoh/*/run1"), "zenoh/*/run1");
        for wrong in ["zenoh/a/b/c", "zenoh/**", "zenoh/a//b", "zenoh/a/@live", "run1", "zenohx"] {
            assert!(ZenohAddress::parse(wrong).is_err(), "{wrong}");
        }
    }
}
