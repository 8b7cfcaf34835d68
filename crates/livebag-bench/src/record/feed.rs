//! The messages of `small`: made by a thread of the recording process, for every system alike.

use super::workload::Topic;
use super::{Mode, RunOptions};
use crate::clock;
use crate::error::Result;

/// The paced feeder wakes this often; a real host's 500 publishers are not in step either.
const TICK_NANOS: u64 = 1_000_000;

/// Gives every message to `take`, in time order: topic, sequence, bytes. Returns how many.
pub fn feed(
    options: &RunOptions,
    topics: &[Topic],
    mut take: impl FnMut(usize, u64, &[u8]) -> Result<()>,
) -> Result<u64> {
    let Some(first) = topics.first() else { return Ok(0) };
    // All topics of `small` have one shape and one rate.
    let mut data = vec![0; first.shape.bytes()];
    let rounds = first.count(options.seconds);
    let period_nanos = (1e9 / first.rate_hz) as u64;
    let ticks_per_round = (period_nanos / TICK_NANOS).max(1);
    let start = clock::monotonic_nanos();
    for sequence in 1..=rounds {
        for tick in 0..ticks_per_round {
            if options.mode == Mode::Paced {
                clock::sleep_until(start + (sequence - 1) * period_nanos + tick * TICK_NANOS);
            }
            for topic in (tick as usize..topics.len()).step_by(ticks_per_round as usize) {
                data[..8].copy_from_slice(&sequence.to_le_bytes());
                take(topic, sequence, &data)?;
            }
        }
    }
    Ok(rounds * topics.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{System, Workload};

    #[test]
    fn every_message_is_fed_once_and_in_order() {
        let options = RunOptions {
            system: System::McapChunked,
            workload: Workload::Small,
            mode: Mode::Unpaced,
            seconds: 0.05,
            name: String::new(),
            directory: std::path::PathBuf::new(),
            cache_bytes_max: 0,
            pins: None,
            cycle_aware: false,
            sensors_first: false,
        };
        let topics = Workload::Small.topics();
        let mut newest = vec![0; topics.len()];
        let count = feed(&options, &topics, |topic, sequence, data| {
            assert_eq!((newest[topic] + 1, data.len()), (sequence, 100));
            newest[topic] = sequence;
            Ok(())
        })
        .unwrap();
        assert_eq!(count, 5000);
        assert!(newest.iter().all(|&n| n == 10));
    }
}
