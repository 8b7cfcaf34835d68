//! Quality of service: offered by publishers, requested by subscriptions, and stored by rosbag2.
//!
//! The policies and their compatibility are ROS 2's: a subscription that asks for more than a
//! publisher offers gets nothing from it (design.ros2.org, "ROS 2 Quality of Service policies").

use std::collections::BTreeMap;

use livebag_format::rosbag2::{MetadataError, Policy, QosDuration, QosProfile, QosStyle};

/// Whether messages are sent again until they have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reliability {
    /// They are.
    Reliable,
    /// They are not.
    BestEffort,
}

/// Whether later subscriptions get earlier messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// They do, while the publisher exists: latched topics.
    TransientLocal,
    /// They do not.
    Volatile,
}

/// How many messages are kept for delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum History {
    /// This many of the last.
    KeepLast(u32),
    /// All.
    KeepAll,
}

/// How a publisher's liveliness is asserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Liveliness {
    /// The middleware.
    Automatic,
    /// The publisher itself.
    ManualByTopic,
}

/// How a topic's messages are delivered. Times of [`Qos::FOREVER`] are without bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Qos {
    /// Whether messages are sent again.
    pub reliability: Reliability,
    /// Whether they are kept for later subscriptions.
    pub durability: Durability,
    /// How many.
    pub history: History,
    /// Longest time between messages, nanoseconds.
    pub deadline_nanos: u64,
    /// How long a message is valid, nanoseconds.
    pub lifespan_nanos: u64,
    /// How the publisher's liveliness is asserted.
    pub liveliness: Liveliness,
    /// Longest silence of a live publisher, nanoseconds.
    pub lease_nanos: u64,
}

impl Default for Qos {
    /// ROS 2's: reliable, volatile, the last ten.
    fn default() -> Self {
        Self {
            reliability: Reliability::Reliable,
            durability: Durability::Volatile,
            history: History::KeepLast(10),
            deadline_nanos: Self::FOREVER,
            lifespan_nanos: Self::FOREVER,
            liveliness: Liveliness::Automatic,
            lease_nanos: Self::FOREVER,
        }
    }
}

impl Qos {
    /// No bound; rmw's own value for it (`RMW_DURATION_INFINITE`: 2^63 - 1 ns).
    pub const FOREVER: u64 = i64::MAX as u64;

    /// The same as rosbag2 stores it, with numbers.
    pub fn to_profile(&self) -> QosProfile {
        let (history, depth) = match self.history {
            History::KeepLast(depth) => (1, u64::from(depth)),
            History::KeepAll => (2, 0),
        };
        let number = |is_first: bool| Policy::Number(if is_first { 1 } else { 2 });
        QosProfile {
            history: Policy::Number(history),
            depth,
            reliability: number(self.reliability == Reliability::Reliable),
            durability: number(self.durability == Durability::TransientLocal),
            deadline: duration(self.deadline_nanos),
            lifespan: duration(self.lifespan_nanos),
            liveliness: Policy::Number(match self.liveliness {
                Liveliness::Automatic => 1,
                Liveliness::ManualByTopic => 3,
            }),
            liveliness_lease_duration: duration(self.lease_nanos),
            avoid_ros_namespace_conventions: false,
        }
    }

    /// The QoS of a stored profile. Values that a profile leaves to the system, or that are unknown, are the defaults.
    pub fn from_profile(profile: &QosProfile) -> Self {
        let default = Self::default();
        let profile = profile.styled(QosStyle::Names);
        let is =
            |policy: &Policy, name: &str| matches!(policy, Policy::Name(found) if found == name);
        let depth = u32::try_from(profile.depth).unwrap_or(u32::MAX);
        Self {
            reliability: match is(&profile.reliability, "best_effort") {
                true => Reliability::BestEffort,
                false => Reliability::Reliable,
            },
            durability: match is(&profile.durability, "transient_local") {
                true => Durability::TransientLocal,
                false => Durability::Volatile,
            },
            history: match (is(&profile.history, "keep_all"), depth) {
                (true, _) => History::KeepAll,
                (false, 0) => default.history,
                (false, depth) => History::KeepLast(depth),
            },
            deadline_nanos: nanos(profile.deadline),
            lifespan_nanos: nanos(profile.lifespan),
            liveliness: match is(&profile.liveliness, "manual_by_topic") {
                true => Liveliness::ManualByTopic,
                false => Liveliness::Automatic,
            },
            lease_nanos: nanos(profile.liveliness_lease_duration),
        }
    }

    /// Whether a subscription that asks for this gets the messages of a publisher that offers
    /// `offered`.
    pub fn is_served_by(&self, offered: &Qos) -> bool {
        let reliable = self.reliability == Reliability::BestEffort
            || offered.reliability == Reliability::Reliable;
        let durable = self.durability == Durability::Volatile
            || offered.durability == Durability::TransientLocal;
        let lively = self.liveliness == Liveliness::Automatic
            || offered.liveliness == Liveliness::ManualByTopic;
        reliable
            && durable
            && lively
            && self.deadline_nanos >= offered.deadline_nanos
            && self.lease_nanos >= offered.lease_nanos
    }
}

fn duration(nanos: u64) -> QosDuration {
    QosDuration { sec: (nanos / 1_000_000_000) as i64, nsec: (nanos % 1_000_000_000) as i64 }
}

/// Zero means unspecified, which is without bound.
fn nanos(duration: QosDuration) -> u64 {
    let sec = u64::try_from(duration.sec).unwrap_or(0);
    let nanos = sec.saturating_mul(1_000_000_000);
    match nanos.saturating_add(u64::try_from(duration.nsec).unwrap_or(0)) {
        0 => Qos::FOREVER,
        nanos => nanos.min(Qos::FOREVER),
    }
}

/// The QoS that a recorder requests, so that it gets the messages of every publisher with the best QoS that all can
/// provide (as rosbag2 adapts): reliable if all are, latched messages if all keep them. The depth is the sum of the
/// publishers' own, and at least ROS 2's ten.
pub fn adapt<'a>(offered: impl IntoIterator<Item = &'a Qos>) -> Qos {
    let mut all = Qos { reliability: Reliability::Reliable, ..Qos::default() };
    let mut depth = 0_u32;
    let (mut count, mut latched) = (0_usize, 0_usize);
    for offer in offered {
        count += 1;
        if offer.reliability == Reliability::BestEffort {
            all.reliability = Reliability::BestEffort;
        }
        if offer.durability == Durability::TransientLocal {
            latched += 1;
        }
        match offer.history {
            History::KeepAll => all.history = History::KeepAll,
            History::KeepLast(own) => depth = depth.saturating_add(own),
        }
    }
    if count > 0 && latched == count {
        all.durability = Durability::TransientLocal;
    }
    if let History::KeepLast(least) = all.history {
        all.history = History::KeepLast(depth.max(least));
    }
    all
}

/// QoS by topic, as in `--qos-profile-overrides-path` of `ros2 bag`: complete profiles, in which missing values are the
/// defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QosOverrides(BTreeMap<String, Qos>);

impl QosOverrides {
    /// Reads the YAML.
    ///
    /// # Errors
    /// If it is none, or has keys or values that ROS 2 does not know.
    pub fn parse(yaml: &str) -> Result<Self, MetadataError> {
        let profiles = QosProfile::parse_overrides(yaml)?;
        let qos = profiles.into_iter().map(|(topic, profile)| (topic, Qos::from_profile(&profile)));
        Ok(Self(qos.collect()))
    }

    /// Whether there is one for `topic`.
    pub fn has(&self, topic: &str) -> bool {
        self.0.contains_key(topic)
    }

    /// The QoS to request or offer on `topic`: the override if there is one, else `qos`.
    pub fn apply(&self, topic: &str, qos: Qos) -> Qos {
        self.0.get(topic).copied().unwrap_or(qos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATCHED: Qos = Qos {
        reliability: Reliability::Reliable,
        durability: Durability::TransientLocal,
        history: History::KeepLast(1),
        deadline_nanos: Qos::FOREVER,
        lifespan_nanos: Qos::FOREVER,
        liveliness: Liveliness::Automatic,
        lease_nanos: Qos::FOREVER,
    };

    #[test]
    fn a_recorder_gets_the_messages_of_every_publisher() {
        let sensor = Qos { reliability: Reliability::BestEffort, ..Qos::default() };
        assert_eq!(adapt([&LATCHED]).durability, Durability::TransientLocal);
        assert_eq!(adapt([&LATCHED, &Qos::default()]).durability, Durability::Volatile);
        assert_eq!(adapt([&sensor, &LATCHED]).reliability, Reliability::BestEffort);
        assert_eq!(adapt([]), Qos::default());
        for offers in [vec![LATCHED], vec![sensor, LATCHED], vec![Qos::default(), sensor]] {
            let asked = adapt(&offers);
            assert!(offers.iter().all(|offer| asked.is_served_by(offer)));
        }
        assert!(!LATCHED.is_served_by(&Qos::default()));
        assert!(!Qos::default().is_served_by(&sensor));
    }

    #[test]
    fn stored_profiles_come_back() {
        let odd = Qos { history: History::KeepAll, deadline_nanos: 1_500_000_000, ..LATCHED };
        for qos in [Qos::default(), LATCHED, odd] {
            assert_eq!(Qos::from_profile(&qos.to_profile()), qos);
            assert_eq!(Qos::from_profile(&qos.to_profile().styled(QosStyle::Names)), qos);
        }
    }

    #[test]
    fn overrides_are_whole_profiles() {
        let yaml = "/scan:\n  reliability: best_effort\n  history: keep_all\n/map: {durability: \
                    transient_local, depth: 3, deadline: {sec: 1, nsec: 5}}\n";
        let overrides = QosOverrides::parse(yaml).unwrap();
        let scan = overrides.apply("/scan", LATCHED);
        assert_eq!((scan.reliability, scan.history), (Reliability::BestEffort, History::KeepAll));
        assert_eq!(scan.durability, Durability::Volatile);
        let map = overrides.apply("/map", Qos::default());
        assert_eq!((map.history, map.deadline_nanos), (History::KeepLast(3), 1_000_000_005));
        assert_eq!(overrides.apply("/other", LATCHED), LATCHED);
        assert!(QosOverrides::parse("/a: {reliability: maybe}").is_err());
    }
}
