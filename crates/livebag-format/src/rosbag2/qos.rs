//! QoS profiles in rosbag2's YAML: enum values are integers up to metadata version 8 and names from
//! version 9 on.

use std::collections::BTreeMap;

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

/// ROS 2's default (`rmw_qos_profile_default`). Times of 0 are unspecified.
impl Default for QosProfile {
    fn default() -> Self {
        let name = |name: &str| Policy::Name(name.to_owned());
        Self {
            history: name("keep_last"),
            depth: 10,
            reliability: name("reliable"),
            durability: name("volatile"),
            deadline: QosDuration::default(),
            lifespan: QosDuration::default(),
            liveliness: name("system_default"),
            liveliness_lease_duration: QosDuration::default(),
            avoid_ros_namespace_conventions: false,
        }
    }
}

/// A topic's profile in a file of overrides: missing values are ROS 2's defaults.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Overrides {
    history: Option<Policy>,
    depth: Option<u64>,
    reliability: Option<Policy>,
    durability: Option<Policy>,
    deadline: Option<QosDuration>,
    lifespan: Option<QosDuration>,
    liveliness: Option<Policy>,
    liveliness_lease_duration: Option<QosDuration>,
    avoid_ros_namespace_conventions: Option<bool>,
}

impl Overrides {
    fn profile(self) -> Result<QosProfile, String> {
        let default = QosProfile::default();
        let known = |key, policy: Option<Policy>, names, default| match policy {
            Some(policy) => policy.known(key, names),
            None => Ok(default),
        };
        Ok(QosProfile {
            history: known("history", self.history, HISTORY, default.history)?,
            depth: self.depth.unwrap_or(default.depth),
            reliability: known("reliability", self.reliability, RELIABILITY, default.reliability)?,
            durability: known("durability", self.durability, DURABILITY, default.durability)?,
            deadline: self.deadline.unwrap_or_default(),
            lifespan: self.lifespan.unwrap_or_default(),
            liveliness: known("liveliness", self.liveliness, LIVELINESS, default.liveliness)?,
            liveliness_lease_duration: self.liveliness_lease_duration.unwrap_or_default(),
            avoid_ros_namespace_conventions: self
                .avoid_ros_namespace_conventions
                .unwrap_or_default(),
        })
    }
}

impl Policy {
    /// The value by its name, if it has one.
    fn known(self, key: &str, names: &[&str]) -> Result<Policy, String> {
        let lower = match self {
            Policy::Name(name) => Policy::Name(name.to_ascii_lowercase()),
            number => number,
        };
        match lower.styled(QosStyle::Names, names) {
            Policy::Name(name) if names.contains(&name.as_str()) => Ok(Policy::Name(name)),
            Policy::Name(found) => Err(format!("{key} is {found}, expected {}", names.join(", "))),
            Policy::Number(found) => {
                Err(format!("{key} is {found}, expected {}", names.join(", ")))
            }
        }
    }

    /// The same value in the other style; values missing in the table stay unchanged.
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
    /// Reads a file of overrides (`--qos-profile-overrides-path`): YAML with a profile for each topic, with ROS 2's
    /// defaults for missing values. Empty text overrides nothing.
    ///
    /// ```
    /// use livebag_format::rosbag2::{Policy, QosProfile};
    /// let overrides = QosProfile::parse_overrides("/scan:\n  reliability: best_effort\n")?;
    /// assert_eq!(overrides["/scan"].reliability, Policy::Name("best_effort".into()));
    /// assert_eq!(overrides["/scan"].depth, 10);
    /// # Ok::<(), livebag_format::rosbag2::MetadataError>(())
    /// ```
    pub fn parse_overrides(yaml: &str) -> Result<BTreeMap<String, QosProfile>, MetadataError> {
        let parsed: Result<Option<BTreeMap<String, Overrides>>, _> = crate::yaml::read(yaml);
        let wrong = |reason| MetadataError::QosOverrides { reason };
        let overrides = parsed.map_err(|error| wrong(error.to_string()))?.unwrap_or_default();
        let profiles = overrides.into_iter().map(|(topic, overrides)| {
            let profile = overrides.profile();
            let profile = profile.map_err(|reason| wrong(format!("{topic}: {reason}")))?;
            Ok((topic, profile))
        });
        profiles.collect()
    }

    /// Reads a YAML list of profiles in either style. Empty text is an empty list.
    pub fn parse_list(yaml: &str) -> Result<Vec<QosProfile>, MetadataError> {
        if yaml.trim().is_empty() {
            return Ok(Vec::new());
        }
        crate::yaml::read(yaml).map_err(|error| MetadataError::Qos { reason: error.to_string() })
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
