//! Fewer messages of a topic than there are, where the asker has said how many are enough.

use std::collections::{BTreeMap, HashMap};

use livebag::{Container, IndexEntry};

use crate::ask::full_names;

/// Leaves messages out so that a topic keeps to a rate.
pub struct Decimation {
    gaps: Vec<Gap>,
    /// Which of them a topic keeps to, by its place.
    of_topic: HashMap<usize, usize>,
}

struct Gap {
    /// As the asker named the topic.
    name: String,
    /// The shortest time between two messages.
    nanos: u64,
    /// Log time of the last that went.
    last_nanos: Option<u64>,
}

impl Decimation {
    /// For each topic of `rates` at most this many messages a second, of all its publishers together.
    pub fn new(container: &Container, rates: &[(String, f64)]) -> Self {
        let named: Vec<String> = rates.iter().map(|(name, _)| name.clone()).collect();
        let full = full_names(container, &named);
        let place = |(at, topic): (usize, &livebag::ContainerTopic)| {
            Some((at, full.iter().position(|name| *name == topic.topic().name)?))
        };
        let gap = |(name, rate): &(String, f64)| Gap {
            name: name.clone(),
            nanos: (1e9 / rate) as u64,
            last_nanos: None,
        };
        Self {
            gaps: rates.iter().map(gap).collect(),
            of_topic: container.topics().iter().enumerate().filter_map(place).collect(),
        }
    }

    /// Continues after messages sent earlier: names as in the rates, and the log time of the last of each.
    #[cfg_attr(not(feature = "zenoh"), expect(dead_code, reason = "for answers in pages"))]
    pub fn resume(&mut self, last_nanos: &BTreeMap<String, u64>) {
        for gap in &mut self.gaps {
            gap.last_nanos = last_nanos.get(&gap.name).copied();
        }
    }

    /// What [`Decimation::resume`] needs.
    #[cfg_attr(not(feature = "zenoh"), expect(dead_code, reason = "for answers in pages"))]
    pub fn last_nanos(&self) -> BTreeMap<String, u64> {
        let last = |gap: &Gap| Some((gap.name.clone(), gap.last_nanos?));
        self.gaps.iter().filter_map(last).collect()
    }

    /// Whether a message is enough younger than the last that went; messages come newest first.
    pub fn wants(&self, topic: usize, entry: &IndexEntry) -> bool {
        let gap = self.of_topic.get(&topic).map(|at| &self.gaps[*at]);
        let Some((nanos, last)) = gap.and_then(|gap| Some((gap.nanos, gap.last_nanos?))) else {
            return true;
        };
        // A twentieth of the gap is left to sensors whose rhythm is not exact.
        last.saturating_sub(entry.log_time_nanos) >= nanos - nanos / 20
    }

    /// A message goes.
    pub fn gave(&mut self, topic: usize, entry: &IndexEntry) {
        if let Some(at) = self.of_topic.get(&topic) {
            self.gaps[*at].last_nanos = Some(entry.log_time_nanos);
        }
    }
}
