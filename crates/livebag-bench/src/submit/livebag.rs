//! livebag's recorder in this process.

use std::path::Path;

use livebag::{Recorder, RecorderOptions, Selector, Topic};
use livebag_shm::{FrameMeta, StreamOptions, Writer};

use super::thread_cpu::ThreadCpu;
use super::{Found, Series};
use crate::clock;
use crate::error::{BenchError, Result};
use crate::frame;
use crate::record::matrix::CACHE_BYTES;
use crate::stats::Durations;

const TOPIC: &str = "/submit";
/// Slots as recorders ask for: eight, and a tenth of a second. This machine stops for longer than 8 ms
/// now and then.
const SLOTS_MIN: f64 = 8.0;
const SLOTS_SECONDS: f64 = 0.1;
/// Time in which all messages reach the disk.
const DRAIN_NANOS: u64 = 300_000_000;
/// How long the recorder may take to make the topic.
const TOPIC_NANOS_MAX: u64 = 5_000_000_000;
const LOOK_NANOS: u64 = 1_000_000;

fn failed<E: std::fmt::Display>(doing: &'static str) -> impl Fn(E) -> BenchError {
    move |e| BenchError::system("livebag", doing)(&e)
}

fn create(directory: &Path) -> Result<Recorder> {
    let options =
        RecorderOptions { cache_bytes_max: 2 * CACHE_BYTES, ..RecorderOptions::default() };
    let recorder = Recorder::create(&directory.join("container"), options);
    recorder.map_err(failed("creating a recorder"))
}

fn wait_for_topic(recorder: &Recorder) -> Result<()> {
    let deadline = clock::monotonic_nanos() + TOPIC_NANOS_MAX;
    while recorder.status().topics.is_empty() {
        if clock::monotonic_nanos() > deadline {
            return Err(failed("making a topic")("it was not there within 5 s"));
        }
        clock::sleep(LOOK_NANOS);
    }
    Ok(())
}

/// Gives the whole series away by `give`, and lets the recorder write it.
fn measure(
    recorder: Recorder,
    series: Series,
    mut give: impl FnMut(u64) -> Result<()>,
) -> Result<Found> {
    wait_for_topic(&recorder)?;
    let no_thread = || failed("looking for the recorder's thread")("it is not there");
    let before = ThreadCpu::of_recorder().ok_or_else(no_thread)?;
    let mut handling = Durations::new();
    let mut handling_nanos = 0;
    series.pace(|sequence| {
        let start = clock::monotonic_nanos();
        give(sequence)?;
        let nanos = clock::monotonic_nanos() - start;
        handling.record(nanos);
        handling_nanos += nanos;
        Ok(())
    })?;
    clock::sleep(DRAIN_NANOS);
    let cpu = ThreadCpu::of_recorder().ok_or_else(no_thread)?.since(before);
    let status = recorder.finish().map_err(failed("closing the recording"))?;
    let (messages, _, _) = status.totals();
    if messages != series.count() {
        let lost = format!(
            "{messages} of {} messages of {} bytes were recorded",
            series.count(),
            series.payload_bytes
        );
        return Err(failed("recording")(lost));
    }
    Ok(Found {
        messages,
        handling_nanos,
        preparation_nanos: cpu.user_nanos,
        syscall_nanos: cpu.system_nanos,
        handling,
    })
}

/// `TopicWriter::write`.
pub fn by_write(series: Series, directory: &Path) -> Result<Found> {
    let recorder = create(directory)?;
    let topic = Topic {
        name: TOPIC.to_owned(),
        type_name: "std_msgs/msg/UInt8MultiArray".to_owned(),
        message_encoding: "cdr".to_owned(),
        schema_encoding: "ros2msg".to_owned(),
        schema: b"uint8[] data\n".to_vec(),
        metadata: Default::default(),
    };
    let writer = recorder.topic(topic).map_err(failed("adding a topic"))?;
    let mut data = vec![0; series.payload_bytes];
    frame::fill(&mut data, 1);
    measure(recorder, series, |sequence| {
        writer.write(clock::realtime_nanos(), sequence, &data).map_err(failed("writing a message"))
    })
}

/// A stream that the recorder follows. Publishing is the driver's work with any reader, and not counted.
pub fn by_stream(series: Series, directory: &Path) -> Result<Found> {
    let name = format!("livebag-bench-submit-{}", std::process::id());
    let slots = (series.rate_hz * SLOTS_SECONDS).max(SLOTS_MIN) as u32;
    let options = StreamOptions::bytes(series.payload_bytes).slots(slots).topic(TOPIC);
    let mut writer = Writer::create(&name, &options.remove_on_drop(true))
        .map_err(failed("creating a stream"))?;
    let mut data = vec![0; series.payload_bytes];
    frame::fill(&mut data, 1);
    let recorder = create(directory)?;
    recorder.follow(Selector::names([name])).map_err(failed("following a stream"))?;
    let found = measure(recorder, series, |_| {
        let published = writer.publish(&FrameMeta::bytes(), &data);
        published.map(drop).map_err(failed("publishing a frame"))
    })?;
    Ok(Found { handling_nanos: 0, handling: Durations::new(), ..found })
}
