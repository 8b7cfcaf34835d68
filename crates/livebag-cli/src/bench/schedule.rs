//! When each message is due, and the threads that offer it then.

use livebag_bench::clock;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use livebag::Clock;

use super::producers::{Producers, Published};
use crate::outcome::CliError;
use livebag_bench::stats::Durations;
use livebag_bench::usage;

/// The due times of every topic's messages. All topics begin at once, as rosbag2's producers do.
pub struct Schedule {
    start_nanos: u64,
    /// Period and count by topic.
    topics: Vec<(f64, u64)>,
}

impl Schedule {
    /// A schedule that begins at `start_nanos` of [`clock::monotonic_nanos`].
    pub fn new(topics: &[Published], start_nanos: u64) -> Self {
        let topics = topics.iter().map(|topic| (topic.period_nanos, topic.messages)).collect();
        Self { start_nanos, topics }
    }

    /// When message `number`, counted from 0, of a topic is due.
    pub fn due_nanos(&self, topic: usize, number: u64) -> u64 {
        self.start_nanos + (number as f64 * self.topics[topic].0).round() as u64
    }
}

/// Destination of messages; called from several threads, for each topic from only one.
pub trait Intake: Sync {
    /// Takes the message `number` (counted from 0) of a topic, or counts it as lost.
    fn submit(&self, topic: usize, number: u64, data: &[u8]);
}

/// Offers every message (`messages` has each topic's) when it is due, or as soon after it as the thread can, and
/// returns the durations of the calls.
pub fn publish(
    producers: &Producers,
    messages: &[Vec<u8>],
    schedule: &Schedule,
    processors: &[usize],
    intake: &dyn Intake,
) -> Result<Durations, CliError> {
    let usual = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if producers.threads == 0 { usual } else { producers.threads };
    let threads = threads.min(messages.len());
    let mut all = Durations::default();
    std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for thread in 0..threads {
            let body = move || {
                usage::pin(processors)?;
                let topics = (thread..messages.len()).step_by(threads);
                let data = |topic: usize| messages[topic].as_slice();
                Ok(publish_share(schedule, topics, &data, intake))
            };
            let named = std::thread::Builder::new().name(format!("producer-{thread}"));
            let failed = |error| CliError::failed(format!("starting a thread failed: {error}"));
            handles.push(named.spawn_scoped(scope, body).map_err(failed)?);
        }
        for handle in handles {
            let joined: Result<_, CliError> =
                handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.add(&joined?);
        }
        Ok(all)
    })
}

/// The messages of some topics, in order of time.
fn publish_share<'a>(
    schedule: &Schedule,
    topics: impl Iterator<Item = usize>,
    data: &dyn Fn(usize) -> &'a [u8],
    intake: &dyn Intake,
) -> Durations {
    let clock = Clock::system();
    let mut latencies = Durations::default();
    let mut due: BinaryHeap<_> =
        topics.map(|topic| Reverse((schedule.due_nanos(topic, 0), topic, 0))).collect();
    while let Some(Reverse((due_nanos, topic, number))) = due.pop() {
        let early_nanos = due_nanos.saturating_sub(clock::monotonic_nanos());
        if early_nanos > 0 {
            clock.sleep(Duration::from_nanos(early_nanos));
        }
        let began = clock::monotonic_nanos();
        intake.submit(topic, number, data(topic));
        latencies.record(clock::monotonic_nanos() - began);
        if number + 1 < schedule.topics[topic].1 {
            due.push(Reverse((schedule.due_nanos(topic, number + 1), topic, number + 1)));
        }
    }
    latencies
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::profiles;
    use super::*;

    struct Seen(Mutex<Vec<(usize, u64, usize)>>);

    impl Intake for Seen {
        fn submit(&self, topic: usize, number: u64, data: &[u8]) {
            self.0.lock().unwrap().push((topic, number, data.len()));
        }
    }

    #[test]
    fn periods_are_not_cut_to_milliseconds() {
        let producers = profiles::producers("automotive").unwrap();
        let topics = producers.topics();
        let camera = topics.iter().position(|t| t.topic.name == "/camera_1").unwrap();
        let schedule = Schedule::new(&topics, 0);
        assert_eq!(schedule.due_nanos(camera, 1), 41_666_667);
        assert_eq!(schedule.due_nanos(camera, 24), 1_000_000_000);
    }

    #[test]
    fn every_message_is_offered_once_and_in_order() {
        let producers = profiles::producers("automotive").unwrap().lasting(0.05);
        // All are overdue: nothing waits.
        let schedule = Schedule::new(&producers.topics(), 1);
        let seen = Seen(Mutex::default());
        publish(&producers, &producers.payloads(), &schedule, &[], &seen).unwrap();
        let mut seen = seen.0.into_inner().unwrap();
        assert_eq!(seen.len() as u64, producers.messages());
        assert_eq!(seen.iter().map(|(_, _, bytes)| *bytes as u64).sum::<u64>(), producers.bytes());
        seen.sort_by_key(|(topic, _, _)| *topic);
        for pair in seen.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            assert_eq!(pair[0].1 + 1, pair[1].1);
        }
    }
}
