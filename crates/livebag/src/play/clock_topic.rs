//! The time of the recording, published on `/clock`.

use livebag_format::Message;

use super::options::{ClockTicks, clock_topic, is_called};
use super::{Output, PlayError, PlayedTopic};

/// Bytes of a `rosgraph_msgs/msg/Clock` in CDR: encapsulation, seconds, nanoseconds.
const CLOCK_BYTES: usize = 12;

/// The way out of `/clock`.
pub(super) struct ClockTopic {
    pub played: PlayedTopic,
    /// Between two messages; `None` if messages of the recording say when.
    period_nanos: Option<u64>,
    /// When the next one is due.
    next_nanos: u64,
    /// By the recording's topics: whether one of their messages is announced.
    announced: Vec<bool>,
    sequence: u64,
}

impl ClockTopic {
    /// `names`: of the recording's topics.
    pub fn open<'a>(
        ticks: &ClockTicks,
        names: impl Iterator<Item = &'a str>,
        output: &mut dyn Output,
    ) -> Result<Self, PlayError> {
        let topic = clock_topic();
        let output = output.open(&topic, CLOCK_BYTES)?;
        let (period_nanos, announced) = match ticks {
            ClockTicks::Rate(hz) => (Some(((1e9 / hz) as u64).max(1)), Vec::new()),
            ClockTicks::Topics(wanted) => {
                let is_wanted =
                    |name| wanted.is_empty() || wanted.iter().any(|w| is_called(name, w));
                (None, names.map(is_wanted).collect())
            }
        };
        let played = PlayedTopic { topic, output, bytes_max: CLOCK_BYTES };
        Ok(Self { played, period_nanos, next_nanos: 0, announced, sequence: 0 })
    }

    /// When the next message is due that comes by itself.
    pub fn due_nanos(&self) -> Option<u64> {
        self.period_nanos.map(|_| self.next_nanos)
    }

    /// Publishes the time if it is due; returns whether it did. Ticks that were missed are not made up for.
    pub fn tick(&mut self, now_nanos: u64, position_nanos: u64) -> Result<bool, PlayError> {
        let Some(period_nanos) = self.period_nanos else { return Ok(false) };
        if now_nanos < self.next_nanos {
            return Ok(false);
        }
        let next_nanos = self.next_nanos.saturating_add(period_nanos);
        let is_late = next_nanos <= now_nanos;
        self.next_nanos = if is_late { now_nanos.saturating_add(period_nanos) } else { next_nanos };
        self.publish(position_nanos)?;
        Ok(true)
    }

    /// Announces a message of the recording, if that is asked for; whether it was.
    pub fn announce(&mut self, topic: usize, time_nanos: u64) -> Result<bool, PlayError> {
        let is_wanted = self.announced.get(topic).copied().unwrap_or(false);
        if is_wanted {
            self.publish(time_nanos)?;
        }
        Ok(is_wanted)
    }

    fn publish(&mut self, nanos: u64) -> Result<(), PlayError> {
        self.sequence += 1;
        self.played.output.publish(&Message {
            log_time_nanos: nanos,
            publish_time_nanos: nanos,
            sequence: self.sequence,
            data: &encode(nanos),
        })
    }
}

/// CDR, little-endian. ROS 2's seconds are an `int32`: they end in 2038.
fn encode(nanos: u64) -> [u8; CLOCK_BYTES] {
    let mut bytes = [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let seconds = i32::try_from(nanos / 1_000_000_000).unwrap_or(i32::MAX);
    bytes[4..8].copy_from_slice(&seconds.to_le_bytes());
    bytes[8..].copy_from_slice(&((nanos % 1_000_000_000) as u32).to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_seconds_and_nanoseconds() {
        assert_eq!(encode(7_000_000_258), [0, 1, 0, 0, 7, 0, 0, 0, 2, 1, 0, 0]);
        assert_eq!(encode(u64::MAX)[4..8], i32::MAX.to_le_bytes());
    }
}
