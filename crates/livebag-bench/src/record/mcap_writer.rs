//! The `mcap` crate's writer, fed as rosbag2 feeds its own: subscriptions copy each message into
//! the cache, one thread writes the cache out.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, Scope};
use std::time::Duration;

use livebag::Topic as ContainerTopic;
use livebag_shm::{FrameRef, Reader, Wait};
use mcap::WriteOptions;

use super::control::Control;
use super::recorder::{Meter, Recorded};
use super::workload::Topic;
use super::{Mode, RunOptions, System, feed};
use crate::child;
use crate::clock;
use crate::double_buffer::{DoubleBuffer, Message};
use crate::error::{BenchError, Result};
use crate::files;
use crate::mcap_file::{self, McapFile};
use crate::stats::Durations;

/// How often a receiving thread looks whether the run is over.
const LOOK_NANOS: u64 = 50_000_000;

fn failed<E: std::fmt::Display>(doing: &'static str) -> impl Fn(E) -> BenchError {
    move |e| BenchError::system("mcap", doing)(&e)
}

/// rosbag2's presets in the crate's words.
pub fn write_options(system: System) -> WriteOptions {
    mcap_file::options().use_chunks(system == System::McapChunked)
}

/// A topic of numbers without a meaning.
pub fn bag_topic(name: String) -> ContainerTopic {
    ContainerTopic {
        name,
        type_name: "std_msgs/msg/UInt8MultiArray".into(),
        schema_encoding: "ros2msg".into(),
        schema: b"uint8[] data\n".into(),
        message_encoding: "cdr".into(),
        ..ContainerTopic::default()
    }
}

/// The recording on disk.
struct Sink {
    file: McapFile<File>,
    submit: Durations,
    messages: u64,
    bytes: u64,
}

impl Sink {
    fn create(options: &RunOptions, topics: &[Topic]) -> Result<Self> {
        let file = files::create(&options.directory.join("recording.mcap"))?;
        let topics: Vec<_> = topics.iter().map(|topic| bag_topic(topic.topic_name())).collect();
        let file = McapFile::begin(file, write_options(options.system), &topics);
        let file = file.map_err(failed("beginning a file"))?;
        Ok(Self { file, submit: Durations::new(), messages: 0, bytes: 0 })
    }

    fn write(&mut self, message: &Message) -> Result<()> {
        let start = clock::monotonic_nanos();
        let written = livebag::Message {
            log_time_nanos: start,
            publish_time_nanos: message.time_nanos,
            sequence: message.sequence,
            data: &message.data,
        };
        self.file.write(message.topic, &written).map_err(failed("writing a message"))?;
        self.submit.record(clock::monotonic_nanos() - start);
        self.messages += 1;
        self.bytes += message.data.len() as u64;
        Ok(())
    }

    /// Writes out the cache until it is closed, then closes the recording.
    fn drain(mut self, cache: &DoubleBuffer) -> Result<Written> {
        let mut batch = Vec::new();
        while cache.swap(&mut batch) {
            for message in &batch {
                self.write(message)?;
            }
        }
        let file = self.file.finish().map_err(failed("closing the file"))?;
        file.sync_data().map_err(|e| BenchError::io("syncing the recording", e))?;
        let file_bytes = file.metadata().map_or(0, |m| m.len());
        Ok(Written { messages: self.messages, bytes: self.bytes, file_bytes, submit: self.submit })
    }
}

/// The writing thread's work.
struct Written {
    messages: u64,
    bytes: u64,
    file_bytes: u64,
    submit: Durations,
}

impl Written {
    fn recorded(self, meter: &Meter, lapped: u64, dropped: u64) -> Recorded {
        Recorded {
            messages: self.messages,
            bytes: self.bytes,
            file_bytes: self.file_bytes,
            lapped,
            dropped,
            ..meter.end(&self.submit)
        }
    }
}

/// State shared by the receiving threads.
struct Reception<'a> {
    cache: &'a DoubleBuffer,
    control: &'a Control,
    waits: bool,
    over: AtomicBool,
    lapped: AtomicU64,
}

impl Reception<'_> {
    /// One subscription: copies every frame of a stream into the cache.
    fn receive(&self, topic: usize, mut reader: Reader) {
        let mut seen = reader.latest_sequence();
        loop {
            // Read before polling for frames, so that earlier frames are taken.
            let over = self.over.load(Ordering::Acquire);
            loop {
                let next = reader.next();
                self.lapped.fetch_add(next.lapped, Ordering::Relaxed);
                let Some(frame) = next.frame else { break };
                seen = frame.sequence();
                self.take(topic, &frame);
                self.control.set_done(topic, seen);
            }
            if over {
                return;
            }
            reader.wait(Wait::Futex, seen, Duration::from_nanos(LOOK_NANOS));
        }
    }

    fn take(&self, topic: usize, frame: &FrameRef) {
        let mut data = self.cache.buffer(topic, frame.payload_bytes());
        if !frame.copy_to(&mut data) {
            self.lapped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let time_nanos = frame.header().publish_time_nanos;
        self.cache
            .push(Message { topic, sequence: frame.sequence(), time_nanos, data }, self.waits);
    }
}

fn start_thread<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: String,
    body: impl FnOnce() -> T + Send + 'scope,
) -> Result<std::thread::ScopedJoinHandle<'scope, T>> {
    let named = Builder::new().name(name);
    named.spawn_scoped(scope, body).map_err(|e| BenchError::io("starting a thread", e))
}

/// Records the streams of the producer process.
pub fn from_streams(options: &RunOptions) -> Result<Recorded> {
    let topics = options.workload.topics();
    let control = Control::open(&options.name, topics.len())?;
    let mut readers = Vec::new();
    for topic in &topics {
        let reader = Reader::open(&topic.stream_name(&options.name));
        readers.push(reader.map_err(failed("opening a stream"))?);
    }
    let sink = Sink::create(options, &topics)?;
    let cache = DoubleBuffer::new(topics.len(), options.cache_bytes_max);
    child::ready_and_wait()?;

    let mut meter = Meter::start();
    let reception = Reception {
        cache: &cache,
        control: &control,
        waits: options.mode == Mode::Unpaced,
        over: AtomicBool::new(false),
        lapped: AtomicU64::new(0),
    };
    let written = std::thread::scope(|scope| {
        let writing = start_thread(scope, "write".to_owned(), || sink.drain(&cache))?;
        let mut receiving = Vec::new();
        for (topic, reader) in readers.into_iter().enumerate() {
            let reception = &reception;
            let body = move || reception.receive(topic, reader);
            receiving.push(start_thread(scope, format!("receive-{topic}"), body)?);
        }
        let told = child::wait_for_go();
        reception.over.store(true, Ordering::Release);
        for thread in receiving {
            drop(thread.join());
        }
        cache.close();
        told?;
        writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    meter.first_message_at(control.started_nanos());
    Ok(written.recorded(&meter, reception.lapped.into_inner(), cache.dropped()))
}

/// Records the messages of a thread of this process.
pub fn from_memory(options: &RunOptions) -> Result<Recorded> {
    let topics = options.workload.topics();
    let sink = Sink::create(options, &topics)?;
    let cache = DoubleBuffer::new(topics.len(), options.cache_bytes_max);
    let waits = options.mode == Mode::Unpaced;
    child::ready_and_wait()?;

    let meter = Meter::start();
    let written = std::thread::scope(|scope| {
        let writing = start_thread(scope, "write".to_owned(), || sink.drain(&cache))?;
        let fed = feed::feed(options, &topics, |topic, sequence, data| {
            let time_nanos = clock::realtime_nanos();
            cache.push(Message { topic, sequence, time_nanos, data: data.to_vec() }, waits);
            Ok(())
        });
        cache.close();
        fed?;
        writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    Ok(written.recorded(&meter, 0, cache.dropped()))
}
