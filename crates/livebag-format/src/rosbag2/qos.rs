//! QoS profiles in rosbag2's YAML: enum values are integers up to metadata version 8 and names from
//! version 9 on.

use serde::{Deserialize, Serialize};

use super::MetadataError;

/// How enum values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosStyle {
    /// `reliability: 1`
    Numbers,
    /// `reliability: reliable`
    Names,
}

/// The value of one policy, as found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Policy {
    /// The number that rmw gives it.
    Number(i64),
    /// The name that rmw gives it.
    Name(String),
}

/// A QoS time span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QosDuration {
    /// Seconds.
    pub sec: i64,
    /// Nanoseconds.
    pub nsec: i64,
}

/// One offered QoS profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QosProfile {
    /// `keep_last` (1), `keep_all` (2), …
    pub history: Policy,
    /// Messages kept.
    pub depth: u64,
    /// `reliable` (1), `best_effort` (2), …
    pub reliability: Policy,
    /// `transient_local` (1), `volatile` (2), …
    pub durability: Policy,
    /// Longest time between messages.
    pub deadline: QosDuration,
    /// How long a message stays valid.
    pub lifespan: QosDuration,
    /// `automatic` (1), `manual_by_topic` (3), …
    pub liveliness: Policy,
    /// Longest silence of a live publisher.
    pub liveliness_lease_duration: QosDuration,
    /// Whether the topic name is used as it is.
    #[serde(default)]
    pub avoid_ros_namespace_conventions: bool,
}

/// Names by number, as rmw defines them; empty where a number is unused.
const HISTORY: &[&str] = &["system_default", "keep_last", "keep_all", "unknown"];
const RELIABILITY: &[&str] =
    &["system_default", "reliable", "best_effort", "unknown", "best_available"];
const DURABILITY: &[&str] =
    &["system_default", "transient_local", "volatile", "unknown", "best_available"];
const LIVELINESS: &[&str] = &[
    "system_default",
    "automatic",
    "manual_by_node",
    "manual_by_topic",
    "unknown",
    "best_available",
];

impl Policy {
    /// The same value in the other style; what the table does not know stays as it is.
    fn styled(&self, style: QosStyle, names: &[&str]) -> Policy {
        let number = match self {
            Policy::Number(number) => usize::try_from(*number).ok(),
            Policy::Name(name) => names.iter().position(|known| known == name),
        };
        match (number, style) {
            (Some(number), QosStyle::Numbers) => Policy::Number(number as i64),
            (Some(number), QosStyle::Names) => {
                names.get(number).map_or(self.clone(), |name| Policy::Name((*name).into()))
            }
            (None, _) => self.clone(),
        }
    }
}

impl QosProfile {
    /// Reads a YAML list of profiles in either style. Empty text is an empty list.
    pub fn parse_list(yaml: &str) -> Result<Vec<QosProfile>, MetadataError> {
        if yaml.trim().is_empty() {
            return Ok(Vec::new());
        }
        crate::yaml::read(yaml)
            .map_err(|error| MetadataError::Qos { reason: error.to_string() })
    }

    /// A YAML list of profiles; an empty list is empty text.
    pub fn write_list(profiles: &[QosProfile], style: QosStyle) -> String {
        if profiles.is_empty() {
            return String::new();
        }
        let styled: Vec<_> = profiles.iter().map(|profile| profile.styled(style)).collect();
        super::yaml::text(&styled).trim_end().to_owned()
    }

    /// A YAML list of profiles in this style: the text itself if it is in it already, or is no list.
    pub fn restyled(yaml: &str, style: QosStyle) -> String {
        let Ok(profiles) = Self::parse_list(yaml) else { return yaml.to_owned() };
        let styled: Vec<_> = profiles.iter().map(|profile| profile.styled(style)).collect();
        if styled == profiles { yaml.to_owned() } else { Self::write_list(&styled, style) }
    }

    /// The same profile with its policies in another style.
    pub fn styled(&self, style: QosStyle) -> QosProfile {
        QosProfile {
            history: self.history.styled(style, HISTORY),
            reliability: self.reliability.styled(style, RELIABILITY),
            durability: self.durability.styled(style, DURABILITY),
            liveliness: self.liveliness.styled(style, LIVELINESS),
            ..self.clone()
        }
    }
}
