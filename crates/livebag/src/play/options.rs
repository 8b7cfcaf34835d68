//! How to play, and what follows from it for a recording.

use std::collections::BTreeMap;
use std::time::Duration;

use livebag_format::Topic;
use livebag_format::rosbag2::{Policy, QosProfile, QosStyle};

use super::PlayError;
use super::control::check_rate;
use super::recording::Window;
use crate::clock::Clock;
use crate::limits::{PLAY_AHEAD_MESSAGES, PLAY_CLOCK_HZ_MAX, PLAY_LEAD_IN};
use crate::source::pattern;

/// Key of a topic's metadata under which its QoS profiles stand, as rosbag2 writes them into MCAP.
const OFFERED_QOS: &str = "offered_qos_profiles";

/// By which of their times messages are ordered and paced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageOrder {
    /// When the recorder took them.
    #[default]
    Received,
    /// When their sources stamped them.
    Sent,
}

impl MessageOrder {
    pub(super) fn of(self, log_time_nanos: u64, publish_time_nanos: u64) -> u64 {
        match self {
            Self::Received => log_time_nanos,
            Self::Sent => publish_time_nanos,
        }
    }
}

/// When the time of the recording is published on `/clock`.
#[derive(Clone, Debug, PartialEq)]
pub enum ClockTicks {
    /// This many times a second of real time, also while paused.
    Rate(f64),
    /// Before every message of these topics, with its time; empty for all topics.
    Topics(Vec<String>),
}

/// How to play. Use `..PlayOptions::default()` for the others.
///
/// Topics are named as in the recording, whatever they are remapped to.
#[derive(Clone, Debug)]
pub struct PlayOptions {
    /// Speed: 2.0 plays twice as fast as was recorded.
    pub rate: f64,
    /// Whether to begin again at the end, until stopped.
    pub repeat: bool,
    /// Topic names; empty, with `regex` not given, for all.
    pub topics: Vec<String>,
    /// Topics that match somewhere are played too.
    pub regex: Option<String>,
    /// Topics whose name matches anywhere are not played.
    pub exclude_regex: Option<String>,
    /// Topics that are not played.
    pub exclude_topics: Vec<String>,
    /// Topics that are published under another name: (recorded, played).
    pub remap: Vec<(String, String)>,
    /// QoS that outputs offer for a topic, in place of the recorded one.
    pub qos_overrides: BTreeMap<String, QosProfile>,
    /// Which time orders the messages.
    pub order: MessageOrder,
    /// Where to begin, from the first message of all topics of the recordings.
    pub start_offset: Duration,
    /// … or at which time of the recording, nanoseconds since the Unix epoch; one before the first message is
    /// the first message's. The later of both counts.
    pub from_nanos: Option<u64>,
    /// How much of the recording to play from there …
    pub duration: Option<Duration>,
    /// … or up to which time of the recording, nanoseconds since the Unix epoch. The later of both
    /// counts.
    pub until_nanos: Option<u64>,
    /// Time before the first message of each round.
    pub delay: Duration,
    /// Whether to start paused.
    pub start_paused: bool,
    /// Whether to publish the time of the recording on `/clock`.
    pub clock_ticks: Option<ClockTicks>,
    /// Messages read ahead at most.
    pub ahead_messages: usize,
    /// Time between opening the outputs and the first message, so that listeners can find them.
    pub lead_in: Duration,
    /// Where time comes from.
    pub clock: Clock,
}

impl Default for PlayOptions {
    fn default() -> Self {
        Self {
            rate: 1.0,
            repeat: false,
            topics: Vec::new(),
            regex: None,
            exclude_regex: None,
            exclude_topics: Vec::new(),
            remap: Vec::new(),
            qos_overrides: BTreeMap::new(),
            order: MessageOrder::Received,
            start_offset: Duration::ZERO,
            from_nanos: None,
            duration: None,
            until_nanos: None,
            delay: Duration::ZERO,
            start_paused: false,
            clock_ticks: None,
            ahead_messages: PLAY_AHEAD_MESSAGES,
            lead_in: PLAY_LEAD_IN,
            clock: Clock::system(),
        }
    }
}

impl PlayOptions {
    /// Checks that need no recording.
    pub(super) fn check(&self) -> Result<(), PlayError> {
        check_rate(self.rate)?;
        match self.clock_ticks {
            Some(ClockTicks::Rate(hz)) if !(hz > 0.0 && hz <= PLAY_CLOCK_HZ_MAX) => {
                Err(PlayError::ClockRate { found: hz })
            }
            _ => Ok(()),
        }
    }

    /// Which topics are asked for. The recording's own `/clock` gives way to the player's.
    pub(super) fn choose(&self, topics: &[Topic]) -> Result<Vec<bool>, PlayError> {
        let compile = |text: &Option<String>| text.as_deref().map(pattern).transpose();
        let (include, exclude) = (compile(&self.regex)?, compile(&self.exclude_regex)?);
        let known = || topics.iter().map(|topic| topic.name.clone()).collect();
        if let Some(missing) =
            self.topics.iter().find(|name| !topics.iter().any(|topic| is_called(&topic.name, name)))
        {
            return Err(PlayError::NoTopic { topic: missing.clone(), known: known() });
        }
        let is_all = self.topics.is_empty() && include.is_none();
        let chosen: Vec<bool> = topics
            .iter()
            .map(|Topic { name, .. }| {
                let is_among = |names: &[String]| names.iter().any(|given| is_called(name, given));
                let is_named = is_among(&self.topics);
                let is_included = include.as_ref().is_some_and(|pattern| pattern.is_match(name));
                let is_excluded = exclude.as_ref().is_some_and(|pattern| pattern.is_match(name))
                    || is_among(&self.exclude_topics)
                    || self.clock_ticks.is_some() && self.name_of(name) == super::CLOCK_TOPIC;
                (is_all || is_named || is_included) && !is_excluded
            })
            .collect();
        if !topics.is_empty() && !chosen.contains(&true) {
            return Err(PlayError::NothingChosen { known: known() });
        }
        Ok(chosen)
    }

    /// The name under which a topic is published.
    fn name_of<'a>(&'a self, topic: &'a str) -> &'a str {
        let rule = self.remap.iter().find(|(recorded, _)| is_called(topic, recorded));
        rule.map_or(topic, |(_, played)| played)
    }

    /// A topic as its output is given it.
    pub(super) fn played(&self, topic: &Topic) -> Topic {
        let mut played = topic.clone();
        played.name = self.name_of(&topic.name).to_owned();
        let mut overrides = self.qos_overrides.iter();
        if let Some((_, profile)) = overrides.find(|(name, _)| is_called(&topic.name, name)) {
            let profiles = QosProfile::write_list(std::slice::from_ref(profile), QosStyle::Names);
            played.metadata.insert(OFFERED_QOS.to_owned(), profiles);
        }
        played
    }

    /// Topics in the options that the recording does not have, as sentences.
    pub(super) fn strangers(&self, topics: &[Topic]) -> Vec<String> {
        let named = [
            ("--exclude-topics", self.exclude_topics.iter().collect::<Vec<_>>()),
            ("--remap", self.remap.iter().map(|(recorded, _)| recorded).collect()),
            ("the QoS overrides", self.qos_overrides.keys().collect()),
            (
                "--clock-topics",
                match &self.clock_ticks {
                    Some(ClockTicks::Topics(names)) => names.iter().collect(),
                    _ => Vec::new(),
                },
            ),
        ];
        let named = named.iter().flat_map(|(what, names)| names.iter().map(move |n| (what, n)));
        let strange =
            named.filter(|(_, name)| !topics.iter().any(|topic| is_called(&topic.name, name)));
        strange.map(|(what, name)| format!("{what}: the recording has no topic {name}")).collect()
    }

    /// Whether a part of the recording is asked for that begins at its first message.
    pub(super) fn needs_begin(&self) -> bool {
        self.begins_later() || self.duration.is_some()
    }

    /// Whether it begins at a time of its own, and not with the first message that is played.
    pub(super) fn begins_later(&self) -> bool {
        !self.start_offset.is_zero() || self.from_nanos.is_some()
    }

    /// The requested range of a recording that begins at a given time.
    pub(super) fn window(&self, begin_nanos: u64) -> Window {
        let offset_nanos = begin_nanos.saturating_add(nanos(self.start_offset));
        let from_nanos = match self.begins_later() {
            true => offset_nanos.max(self.from_nanos.unwrap_or_default()),
            false => 0,
        };
        let start_nanos = from_nanos.max(begin_nanos);
        let until = self.duration.map(|duration| start_nanos.saturating_add(nanos(duration)));
        let until_nanos = until.into_iter().chain(self.until_nanos).max().unwrap_or(u64::MAX);
        Window { from_nanos, until_nanos }
    }
}

/// Whether `name`, with its leading slash or without, means a topic.
pub(super) fn is_called(topic: &str, name: &str) -> bool {
    topic.strip_prefix('/').unwrap_or(topic) == name.strip_prefix('/').unwrap_or(name)
}

/// A duration in nanoseconds; one of more than 584 years is as good as none.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The topic `/clock`, with the QoS that ROS 2 gives it (`rclcpp::ClockQoS`).
pub(super) fn clock_topic() -> Topic {
    use livebag_format::definitions;
    let type_name = "rosgraph_msgs/msg/Clock";
    let qos = QosProfile {
        depth: 1,
        reliability: Policy::Name("best_effort".to_owned()),
        ..QosProfile::default()
    };
    let hash = definitions::type_hash(type_name).unwrap_or_default();
    let metadata = [
        (OFFERED_QOS, QosProfile::write_list(&[qos], QosStyle::Names)),
        ("topic_type_hash", hash.to_owned()),
    ];
    Topic {
        name: super::CLOCK_TOPIC.to_owned(),
        type_name: type_name.to_owned(),
        message_encoding: "cdr".to_owned(),
        schema_encoding: "ros2msg".to_owned(),
        schema: definitions::schema(type_name).unwrap_or_default().into_bytes(),
        metadata: metadata.map(|(key, value)| (key.to_owned(), value)).into(),
    }
}
