//! Time from `/clock` (`rosgraph_msgs/msg/Clock`).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::network::{EndpointId, Receiver, Sample, TopicRequest};
use crate::qos::{History, Qos, Reliability};

/// The last time received, nanoseconds; [`NOT_TOLD`] before the first. A simulation's time begins with 0.
#[derive(Debug)]
pub(super) struct SimTime(AtomicU64);

/// Later than any time of `/clock`, whose seconds are an `i32`.
const NOT_TOLD: u64 = u64::MAX;

impl Default for SimTime {
    fn default() -> Self {
        Self(AtomicU64::new(NOT_TOLD))
    }
}

impl SimTime {
    /// What to subscribe to, with the QoS that ROS 2's own nodes use for it.
    pub fn request() -> TopicRequest {
        TopicRequest {
            name: "/clock".to_owned(),
            type_name: "rosgraph_msgs/msg/Clock".to_owned(),
            type_hash: None,
            qos: Qos {
                reliability: Reliability::BestEffort,
                history: History::KeepLast(1),
                ..Qos::default()
            },
        }
    }

    /// `None` before the first.
    pub fn now_nanos(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&nanos| nanos != NOT_TOLD)
    }
}

impl Receiver for SimTime {
    fn sample(&self, sample: &Sample<'_>) {
        let word = |at: usize| sample.data.get(at..at + 4).and_then(|word| word.try_into().ok());
        let (Some(sec), Some(nanosec)) = (word(4), word(8)) else { return };
        let (sec, nanosec) = match sample.data[1] & 1 {
            1 => (i32::from_le_bytes(sec), u32::from_le_bytes(nanosec)),
            _ => (i32::from_be_bytes(sec), u32::from_be_bytes(nanosec)),
        };
        if let Ok(sec) = u64::try_from(sec) {
            self.0.store(sec * 1_000_000_000 + u64::from(nanosec), Ordering::Relaxed);
        }
    }

    fn lost(&self, _publisher: &EndpointId, _count: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_read_in_either_byte_order_and_nothing_else() {
        let time = SimTime::default();
        let tell = |data: &[u8]| {
            time.sample(&Sample {
                data,
                publish_time_nanos: None,
                sequence: 0,
                publisher: [0; 16],
            });
            time.now_nanos()
        };
        assert_eq!(time.now_nanos(), None);
        assert_eq!(tell(&[0, 1, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0]), Some(2_000_000_005));
        assert_eq!(tell(&[0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 7]), Some(3_000_000_007));
        assert_eq!(tell(&[0, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]), Some(3_000_000_007));
        for cut in 0..12 {
            assert_eq!(tell(&[0; 12][..cut]), Some(3_000_000_007));
        }
        assert_eq!(tell(&[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Some(0), "a simulation has begun");
    }
}
