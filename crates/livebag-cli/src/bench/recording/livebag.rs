//! livebag's own recorder.

use livebag_bench::clock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Duration;

use livebag::{
    CACHE_BYTES_DEFAULT, Clock, Overflow, Recorder, RecorderOptions, Selector, SplitRules, Status,
    TopicWriter,
};

use super::{Orders, Recorded, Source};
use crate::bench::roles::Parent;
use crate::bench::schedule::{Intake, Schedule};
use crate::bench::settings::LivebagSettings;
use crate::outcome::CliError;
use livebag_bench::stats::Durations;

/// How long the recorder may take to find the streams.
const FOUND_MAX: Duration = Duration::from_secs(20);
/// How long messages may stay in memory before the recorder is closed: the time they would wait for a full chunk.
const SETTLE_MAX: Duration = livebag::CHUNK_AGE_MAX.saturating_mul(2);
/// Interval at which the recorder's counts are polled.
const LOOK: Duration = Duration::from_millis(2);
/// What each topic adds to it: a look costs about this much in a hundred.
const LOOK_BY_TOPIC: Duration = Duration::from_micros(50);

/// Records, and measures it.
pub fn record(
    orders: &Orders,
    settings: &LivebagSettings,
    parent: &mut Parent,
) -> Result<Recorded, CliError> {
    let topics = orders.producers.topics();
    // Without a cache the peers' producers wait for their writer: so they do here, for a cache of
    // the usual size.
    let (cache_bytes_max, overflow) = match orders.cache_bytes {
        0 => (CACHE_BYTES_DEFAULT, Overflow::Block),
        // The peers' cache has two halves.
        bytes => (2 * bytes, Overflow::DropNewest),
    };
    let options = RecorderOptions {
        cache_bytes_max,
        overflow,
        split: SplitRules {
            bytes_max: (orders.bag_bytes > 0).then_some(orders.bag_bytes),
            ..SplitRules::default()
        },
        ..RecorderOptions::default()
    };
    let recorder = Recorder::create(&orders.bag, settings.apply(options))?;
    let intake = Writers(match orders.no_transport {
        true => topics
            .iter()
            .map(|topic| recorder.topic(topic.topic.clone()))
            .collect::<Result<Vec<_>, _>>()?,
        false => {
            let names: Vec<_> = (0..topics.len()).map(|topic| orders.stream_name(topic)).collect();
            recorder.follow(Selector::names(names))?;
            Vec::new()
        }
    });
    wait_for_topics(&recorder, topics.len())?;
    let names = topics.iter().enumerate().map(|(index, t)| (t.topic.name.clone(), index));
    let mut watch = Watch {
        topics: names.collect(),
        settled: vec![0; topics.len()],
        latencies: Durations::default(),
    };
    let mut source = Source::new(orders, parent);
    let (schedule, meter) = source.start()?;
    let submit = watched(&recorder, &mut watch, &schedule, || {
        let submit = source.offer(&schedule, &intake)?;
        settle(&recorder, orders.producers.messages());
        Ok(submit)
    })?;
    drop(intake);
    let status = recorder.finish()?;
    let (_, _, lost) = status.totals();
    watch.look(&status, &schedule);
    let mut recorded = meter.end(submit, &watch.latencies);
    recorded.messages = vec![0; topics.len()];
    for topic in &status.topics {
        if let Some(index) = watch.topics.get(&topic.name) {
            recorded.messages[*index] = topic.messages;
        }
    }
    Ok(Recorded { dropped: lost.queue + lost.disk, lapped: lost.lapped, ..recorded })
}

struct Writers(Vec<TopicWriter>);

impl Intake for Writers {
    fn submit(&self, topic: usize, number: u64, data: &[u8]) {
        // A full queue counts its own loss; every other failure shows in `finish`.
        let _ = self.0[topic].write(Clock::system().wall_nanos(), number + 1, data);
    }
}

fn wait_for_topics(recorder: &Recorder, count: usize) -> Result<(), CliError> {
    let clock = Clock::system();
    loop {
        let status = recorder.status();
        if status.topics.len() >= count {
            return Ok(());
        }
        let failure = status.failure.map(|failure| failure.to_string()).or_else(|| {
            let is_late = clock.monotonic_nanos() > FOUND_MAX.as_nanos() as u64;
            is_late.then(|| format!("{} of {count} topics appeared", status.topics.len()))
        });
        if let Some(failure) = failure {
            return Err(CliError::failed(format!("beginning to record failed: {failure}")));
        }
        clock.sleep(LOOK);
    }
}

/// Gives the recorder the time that gathered messages wait for their chunk, so that this and not
/// the closing is measured as their latency.
fn settle(recorder: &Recorder, messages: u64) {
    let clock = Clock::system();
    while clock.monotonic_nanos() < SETTLE_MAX.as_nanos() as u64 {
        let (recorded, _, lost) = recorder.status().totals();
        if recorded + lost.total() >= messages {
            return;
        }
        clock.sleep(LOOK);
    }
}

/// Runs `work` while a thread polls the recorder's counts.
fn watched<T>(
    recorder: &Recorder,
    watch: &mut Watch,
    schedule: &Schedule,
    work: impl FnOnce() -> Result<T, CliError>,
) -> Result<T, CliError> {
    let over = AtomicBool::new(false);
    let pause = LOOK + LOOK_BY_TOPIC * watch.settled.len() as u32;
    std::thread::scope(|scope| {
        let look = || {
            let clock = Clock::system();
            while !over.load(Ordering::Acquire) {
                watch.look(&recorder.status(), schedule);
                clock.sleep(pause);
            }
        };
        Builder::new()
            .name("watch".into())
            .spawn_scoped(scope, look)
            .map_err(|error| CliError::failed(format!("starting a thread failed: {error}")))?;
        let done = work();
        over.store(true, Ordering::Release);
        done
    })
}

/// Durations from the counts of committed messages, seen from outside: too long by up to the pause
/// between two looks.
struct Watch {
    /// Index by name.
    topics: HashMap<String, usize>,
    /// Messages committed or lost, by topic.
    settled: Vec<u64>,
    latencies: Durations,
}

impl Watch {
    fn look(&mut self, status: &Status, schedule: &Schedule) {
        let now = clock::monotonic_nanos();
        for topic in &status.topics {
            let Some(index) = self.topics.get(&topic.name).copied() else { continue };
            let settled = topic.messages + topic.lost.total();
            for number in self.settled[index]..settled {
                self.latencies.record(now.saturating_sub(schedule.due_nanos(index, number)));
            }
            self.settled[index] = self.settled[index].max(settled);
        }
    }
}
