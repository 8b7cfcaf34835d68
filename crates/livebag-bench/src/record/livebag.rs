//! livebag's recorder.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;

use livebag::{Overflow, Recorder, RecorderOptions, Schedule, Selector, Status, Topic};

use super::control::Control;
use super::recorder::{Meter, Recorded};
use super::{Mode, RunOptions, feed, workload};
use crate::child;
use crate::clock;
use crate::error::{BenchError, Result};
use crate::stats::Durations;

/// How long the recorder may take to find the streams.
const FOUND_NANOS_MAX: u64 = 20_000_000_000;

/// Interval at which the recorder's counts are polled, which drives the closed loop of an unpaced run: a tenth of the
/// time in which a disk writes a frame.
const LOOK_NANOS: u64 = 200_000;

fn failed<E: std::fmt::Display>(doing: &'static str) -> impl Fn(E) -> BenchError {
    move |e| BenchError::system("livebag", doing)(&e)
}

fn create(options: &RunOptions) -> Result<Recorder> {
    let recorder_options = RecorderOptions {
        // The peers' cache has two halves.
        cache_bytes_max: 2 * options.cache_bytes_max,
        overflow: match options.mode {
            Mode::Paced => Overflow::DropNewest,
            Mode::Unpaced => Overflow::Block,
        },
        schedule: if options.cycle_aware { Schedule::CycleAware } else { Schedule::Immediate },
        ..RecorderOptions::default()
    };
    Recorder::create(&options.directory.join("container"), recorder_options)
        .map_err(failed("creating a recorder"))
}

/// The workload's figures from the recorder's last status.
fn recorded(status: &Status, topics: &[workload::Topic], times: Recorded) -> Recorded {
    let of_topic = |topic: &workload::Topic| {
        let name = topic.topic_name();
        status.topics.iter().find(|t| t.name == name).map_or(0, |t| t.messages)
    };
    let (_, _, lost) = status.totals();
    let messages = topics.iter().map(of_topic).sum();
    let bytes = topics.iter().map(|t| of_topic(t) * t.shape.bytes() as u64).sum();
    Recorded { messages, bytes, lapped: lost.lapped, dropped: lost.queue, ..times }
}

/// Records the streams of the producer process.
pub fn from_streams(options: &RunOptions) -> Result<Recorded> {
    let topics = options.workload.topics();
    let control = Control::open(&options.name, topics.len())?;
    let recorder = create(options)?;
    let names: Vec<String> = topics.iter().map(|t| t.stream_name(&options.name)).collect();
    recorder.follow(Selector::names(names)).map_err(failed("following the streams"))?;
    wait_for_topics(&recorder, topics.len())?;
    child::ready_and_wait()?;

    let mut meter = Meter::start();
    match options.mode {
        Mode::Paced => child::wait_for_go()?,
        Mode::Unpaced => report_while_recording(&recorder, &control, &topics)?,
    }
    let status = recorder.finish().map_err(failed("closing the recording"))?;
    meter.first_message_at(control.started_nanos());
    Ok(recorded(&status, &topics, meter.end(&Durations::new())))
}

fn wait_for_topics(recorder: &Recorder, count: usize) -> Result<()> {
    let deadline = clock::monotonic_nanos() + FOUND_NANOS_MAX;
    while recorder.status().topics.len() < count {
        if clock::monotonic_nanos() > deadline {
            let found = recorder.status().topics.len();
            return Err(failed("making the topics")(format!("{found} of {count} were found")));
        }
        clock::sleep(LOOK_NANOS);
    }
    Ok(())
}

/// Tells the producer which frames are committed, until the main process says that all are out.
fn report_while_recording(
    recorder: &Recorder,
    control: &Control,
    topics: &[workload::Topic],
) -> Result<()> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let report = || {
            while !over.load(Ordering::Acquire) {
                report(&recorder.status(), control, topics);
                clock::sleep(LOOK_NANOS);
            }
        };
        Builder::new()
            .name("report".to_owned())
            .spawn_scoped(scope, report)
            .map_err(|e| BenchError::io("starting a thread", e))?;
        let told = child::wait_for_go();
        over.store(true, Ordering::Release);
        told
    })
}

fn report(status: &Status, control: &Control, topics: &[workload::Topic]) {
    for (index, topic) in topics.iter().enumerate() {
        let name = topic.topic_name();
        if let Some(found) = status.topics.iter().find(|t| t.name == name) {
            let lost = found.lost.lapped + found.lost.queue + found.lost.disk;
            control.set_done(index, found.messages + lost);
        }
    }
}

/// Records the messages of a thread of this process.
pub fn from_memory(options: &RunOptions) -> Result<Recorded> {
    let topics = options.workload.topics();
    let recorder = create(options)?;
    let mut writers = Vec::new();
    for topic in &topics {
        let description = Topic {
            name: topic.topic_name(),
            type_name: "std_msgs/msg/UInt8MultiArray".to_owned(),
            message_encoding: "cdr".to_owned(),
            schema_encoding: "ros2msg".to_owned(),
            schema: b"uint8[] data\n".to_vec(),
            metadata: Default::default(),
        };
        writers.push(recorder.topic(description).map_err(failed("adding a topic"))?);
    }
    wait_for_topics(&recorder, topics.len())?;
    child::ready_and_wait()?;
    let meter = Meter::start();
    let mut submit = Durations::new();
    feed::feed(options, &topics, |topic, sequence, data| {
        let start = clock::monotonic_nanos();
        // A full queue counts its own loss; every other failure shows in `finish`.
        let _ = writers[topic].write(clock::realtime_nanos(), sequence, data);
        submit.record(clock::monotonic_nanos() - start);
        Ok(())
    })?;
    drop(writers);
    let status = recorder.finish().map_err(failed("closing the recording"))?;
    Ok(recorded(&status, &topics, meter.end(&submit)))
}
