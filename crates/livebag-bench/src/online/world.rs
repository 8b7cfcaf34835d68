//! The UAV's topics, published at their paces and remembered.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;

use livebag::{
    Clock, Message, ReaderNotice, Recorder, RecorderOptions, Status, Topic, TopicWriter,
};
use livebag_net::remote::{RemoteOptions, RemoteRecording};
use livebag_net::{Catalog, KeepFresh, Server, ServerOptions};

use super::failed;
use super::split_mcap::SplitWriter;
use crate::clock;
use crate::error::Result;

/// A topic of the UAV.
#[derive(Clone)]
pub struct UavTopic {
    /// Its name.
    pub name: String,
    /// Bytes of a message.
    pub bytes: usize,
    /// Messages a second.
    pub rate_hz: f64,
}

/// ROSfs's Table 4, and what else a UAV with Mavros and Vins-Fusion publishes: 78 topics.
pub fn topics() -> Vec<UavTopic> {
    let mut topics = Vec::new();
    let mut add = |name: &str, bytes, rate_hz| {
        topics.push(UavTopic { name: name.to_owned(), bytes, rate_hz });
    };
    add("/image1", 300_070, 30.0);
    add("/image2", 300_070, 30.0);
    add("/image1_c", 18_200, 30.0);
    add("/image2_c", 18_200, 30.0);
    add("/imu", 310, 200.0);
    for number in 0..73 {
        let rate_hz = [1.0, 5.0, 10.0, 30.0, 50.0][number % 5];
        add(&format!("/mavros/topic_{number}"), 100 + 20 * number, rate_hz);
    }
    topics
}

/// Published messages: log times by topic.
pub type Ledger = Arc<Vec<RwLock<Vec<u64>>>>;

/// A recording that continues until it is dropped.
pub struct World {
    /// The topics.
    pub topics: Vec<UavTopic>,
    /// Published messages.
    pub ledger: Ledger,
    /// The server of livebag's recorder.
    pub server: Server,
    /// The recording on it.
    pub bag: RemoteRecording,
    /// A second server of the same recording, which copies the bytes it sends, and the recording on it.
    pub copying: (Server, RemoteRecording),
    /// rosbag2's way.
    pub splits: Vec<Arc<SplitWriter>>,
    recorder: Option<Recorder>,
    stop: Arc<AtomicBool>,
    feeder: Option<JoinHandle<()>>,
}

/// Tells the recorder of readers, as `livebag record --serve` does.
struct Beside(ReaderNotice);

impl KeepFresh for Beside {
    fn is_read(&self, _container: &Path) {
        self.0.is_read();
    }
}

/// A server for a recorder's container, and its client.
fn serve(recorder: &Recorder, container: &Path, copies: bool) -> Result<(Server, RemoteRecording)> {
    let fresh: Arc<dyn KeepFresh> = Arc::new(Beside(recorder.reader_notice()));
    let catalog = Catalog::new(&[container.to_owned()], Clock::system(), Some(fresh));
    let catalog = Arc::new(catalog.map_err(failed("serving"))?);
    let listen = vec![std::net::SocketAddr::from(([127, 0, 0, 1], 0))];
    let options = ServerOptions { listen, copies, ..ServerOptions::default() };
    let server = Server::start(catalog, options).map_err(failed("serving"))?;
    let name = container.file_name().unwrap_or_default().to_string_lossy();
    let url = format!("{}/{name}", server.urls()[0]);
    let bag = RemoteRecording::open(&url, RemoteOptions::default()).map_err(failed("asking"))?;
    Ok((server, bag))
}

impl World {
    /// Begins to record into `directory`, also in MCAP files split at each of `split_seconds`.
    pub fn begin(directory: &Path, split_seconds: &[u64]) -> Result<Self> {
        super::make_directory(directory)?;
        let topics = topics();
        let container = directory.join("uav");
        let recorder = Recorder::create(&container, RecorderOptions::default());
        let recorder = recorder.map_err(failed("recording"))?;
        let mut writers = Vec::new();
        for topic in &topics {
            let described = Topic {
                name: topic.name.clone(),
                type_name: "bench/msg/Bytes".into(),
                message_encoding: "cdr".into(),
                schema_encoding: "ros2msg".into(),
                schema: b"uint8[] data".to_vec(),
                ..Topic::default()
            };
            writers.push(recorder.topic(described).map_err(failed("adding a topic"))?);
        }
        let mut splits = Vec::new();
        for &seconds in split_seconds {
            let folder = directory.join(format!("mcap-{seconds}s"));
            super::make_directory(&folder)?;
            splits.push(Arc::new(SplitWriter::begin(&folder, seconds, &topics)?));
        }
        let ledger: Ledger = Arc::new(topics.iter().map(|_| RwLock::default()).collect());
        let stop = Arc::new(AtomicBool::new(false));
        let feeder = {
            let (topics, ledger, stop) = (topics.clone(), ledger.clone(), stop.clone());
            let splits = splits.clone();
            std::thread::Builder::new()
                .name("bench-feeder".into())
                .spawn(move || feed(&topics, &writers, &splits, &ledger, &stop))
                .map_err(failed("starting a thread"))?
        };
        let (server, bag) = serve(&recorder, &container, false)?;
        let copying = serve(&recorder, &container, true)?;
        Ok(Self {
            topics,
            ledger,
            server,
            bag,
            copying,
            splits,
            recorder: Some(recorder),
            stop,
            feeder: Some(feeder),
        })
    }

    /// Place of a topic.
    pub fn place(&self, name: &str) -> usize {
        self.topics.iter().position(|topic| topic.name == name).unwrap_or_default()
    }

    /// Log times published of some topics between two times, both included.
    pub fn published(&self, names: &[&str], from: u64, to: u64) -> usize {
        let count = |name: &&str| {
            let times =
                self.ledger[self.place(name)].read().unwrap_or_else(PoisonError::into_inner);
            // An answer may be newer than its question: then nothing lies between.
            let before = times.partition_point(|&time| time < from);
            times.partition_point(|&time| time <= to).saturating_sub(before)
        };
        names.iter().map(count).sum()
    }

    /// Newest log time published of some topics.
    pub fn newest(&self, names: &[&str]) -> u64 {
        let last = |name: &&str| {
            let times =
                self.ledger[self.place(name)].read().unwrap_or_else(PoisonError::into_inner);
            times.last().copied().unwrap_or(0)
        };
        names.iter().map(last).max().unwrap_or(0)
    }

    /// The oldest log time published of some topics that is later than this one.
    pub fn next_after(&self, names: &[&str], nanos: u64) -> Option<u64> {
        let next = |name: &&str| {
            let times =
                self.ledger[self.place(name)].read().unwrap_or_else(PoisonError::into_inner);
            times.get(times.partition_point(|&time| time <= nanos)).copied()
        };
        names.iter().filter_map(next).min()
    }

    /// Oldest log time published.
    pub fn oldest(&self) -> u64 {
        let first = self.ledger[0].read().unwrap_or_else(PoisonError::into_inner);
        first.first().copied().unwrap_or(0)
    }

    /// Ends it, and returns its result.
    pub fn end(mut self) -> Result<Status> {
        self.halt();
        match self.recorder.take() {
            Some(recorder) => recorder.finish().map_err(failed("finishing")),
            None => Ok(Status::default()),
        }
    }

    fn halt(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(feeder) = self.feeder.take() {
            // It has no result.
            let _ = feeder.join();
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.halt();
    }
}

fn feed(
    topics: &[UavTopic],
    writers: &[TopicWriter],
    splits: &[Arc<SplitWriter>],
    ledger: &Ledger,
    stop: &AtomicBool,
) {
    let payload: Arc<[u8]> =
        (0..400_000u32).map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    let begin = clock::monotonic_nanos();
    // Topics begin spread over their periods.
    let mut due: Vec<u64> = topics
        .iter()
        .enumerate()
        .map(|(at, topic)| begin + (1e9 / topic.rate_hz) as u64 * at as u64 / topics.len() as u64)
        .collect();
    let mut sequences = vec![0u64; topics.len()];
    while !stop.load(Ordering::Relaxed) {
        let Some((at, &next)) = due.iter().enumerate().min_by_key(|(_, due)| **due) else { return };
        clock::sleep_until(next);
        due[at] += (1e9 / topics[at].rate_hz) as u64;
        sequences[at] += 1;
        let sequence = sequences[at];
        let log_time_nanos = clock::realtime_nanos();
        let data = &payload[..topics[at].bytes];
        let message =
            Message { log_time_nanos, publish_time_nanos: log_time_nanos, sequence, data };
        // Before it is written: a readable message is always published.
        ledger[at].write().unwrap_or_else(PoisonError::into_inner).push(log_time_nanos);
        // A full queue counts it as lost.
        let _ = writers[at].write_message(&message);
        for split in splits {
            split.write(at, log_time_nanos, sequence, topics[at].bytes, &payload);
        }
    }
}
