//! How robots and their recordings are named.

use super::ZenohError;

/// `zenoh/ROBOT/NAME`, with `*` for any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZenohAddress {
    /// Robots.
    pub robot: String,
    /// Recordings.
    pub recording: String,
}

impl ZenohAddress {
    /// Whether `text` looks like one.
    pub fn is_one(text: &str) -> bool {
        text == "zenoh" || text.starts_with("zenoh/")
    }

    /// Splits an address; omitted parts match any name.
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
        let (robot, recording) = match &chunks[..] {
            [""] => ("*", "*"),
            [robot] => (*robot, "*"),
            [robot, recording] => (*robot, *recording),
            _ => return Err(wrong()),
        };
        if !is_plain(&robot) || !is_plain(&recording) {
            return Err(wrong());
        }
        Ok(Self { robot: robot.to_owned(), recording: recording.to_owned() })
    }
}

impl std::fmt::Display for ZenohAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "zenoh/{}/{}", self.robot, self.recording)
    }
}

/// An announced recording.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Of which robot.
    pub robot: String,
    /// Its name there.
    pub recording: String,
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "zenoh/{}/{}", self.robot, self.recording)
    }
}

/// What topics of each recording are called before their own name, where several are asked: `/robot`, or
/// `/robot/recording` for several recordings of one robot; nothing for a single one.
pub fn prefixes(found: &[Found]) -> Vec<String> {
    let prefix = |here: &Found| {
        let of_robot = found.iter().filter(|other| other.robot == here.robot).count();
        match (found.len(), of_robot) {
            (1, _) => String::new(),
            (_, 1) => format!("/{}", here.robot),
            _ => format!("/{}/{}", here.robot, here.recording),
        }
    };
    found.iter().map(prefix).collect()
}

/// A topic's name behind such a prefix.
pub fn prefixed(prefix: &str, name: &str) -> String {
    let is_apart = !prefix.is_empty() && !name.starts_with('/');
    format!("{prefix}{}{name}", if is_apart { "/" } else { "" })
}

/// This machine's name.
#[cfg(feature = "server")]
pub fn robot_name() -> String {
    robot_chunk(&rustix::system::uname().nodename().to_string_lossy())
}

/// A name of a robot: one chunk, of plain characters.
#[cfg(feature = "server")]
pub fn robot_chunk(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let chunk: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if chunk.is_empty() { "robot".into() } else { chunk }
}

#[cfg(test)]
mod tests {
    use super::*;

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
