//! Containers with known messages, and servers for them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use livebag::{Clock, Container, Message, Overflow, Recorder, RecorderOptions, Topic, TopicWriter};
use livebag_format::cdr::{ImageHeader, image_prefix};
use livebag_net::limits::CATALOG_INTERVAL;
use livebag_net::{Catalog, Server, ServerOptions};

use super::client::DEADLINE;

/// Log time of the first message.
pub const START_NANOS: u64 = 1_700_000_000_000_000_000;
/// Between two messages of [`record_all`].
pub const STEP_NANOS: u64 = 10_000_000;

/// Topic, log time, data.
pub type Known = Vec<(String, u64, Vec<u8>)>;

pub fn text_topic(name: &str) -> Topic {
    Topic {
        name: name.into(),
        type_name: "std_msgs/msg/String".into(),
        message_encoding: "cdr".into(),
        schema_encoding: "ros2msg".into(),
        schema: b"string data".to_vec(),
        ..Default::default()
    }
}

pub fn camera_topic(name: &str) -> Topic {
    let type_name = "sensor_msgs/msg/Image".to_owned();
    let schema = livebag_format::definitions::schema(&type_name).unwrap().into_bytes();
    Topic { type_name, schema, ..text_topic(name) }
}

pub fn text(text: &str) -> Vec<u8> {
    let mut cdr = vec![0, 1, 0, 0];
    cdr.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
    cdr.extend_from_slice(text.as_bytes());
    cdr.push(0);
    cdr
}

/// Blue, green, red of pixel (column, row) of the picture `number`.
pub fn pixel(number: u64, column: u32, row: u32) -> [u8; 3] {
    [number as u8, column as u8, row as u8]
}

pub fn image(number: u64, width: u32, height: u32) -> Vec<u8> {
    let header =
        ImageHeader { height, width, encoding: "bgr8", step: width * 3, ..Default::default() };
    let mut cdr = Vec::new();
    image_prefix(&header, width * height * 3, &mut cdr);
    for row in 0..height {
        (0..width).for_each(|column| cdr.extend_from_slice(&pixel(number, column, row)));
    }
    cdr
}

/// A container being written.
pub struct Recording {
    pub path: PathBuf,
    pub recorder: Recorder,
    writers: Vec<(String, TopicWriter)>,
    pub known: Known,
}

impl Recording {
    pub fn new(path: &Path, options: RecorderOptions) -> Self {
        let options = RecorderOptions { overflow: Overflow::Block, ..options };
        let recorder = Recorder::create(path, options).unwrap();
        Self { path: path.to_owned(), recorder, writers: Vec::new(), known: Vec::new() }
    }

    pub fn add(&mut self, topic: Topic) {
        let name = topic.name.clone();
        self.writers.push((name, self.recorder.topic(topic).unwrap()));
    }

    /// Writes a message, [`STEP_NANOS`] after the one before. It gives way to the recorder's thread
    /// rather than to lose it.
    pub fn write(&mut self, topic: &str, data: Vec<u8>) {
        let log_time_nanos = START_NANOS + self.known.len() as u64 * STEP_NANOS;
        let sequence = self.known.iter().filter(|(known, ..)| known == topic).count() as u64;
        let (_, writer) = self.writers.iter().find(|(name, _)| name == topic).unwrap();
        let message = Message {
            log_time_nanos,
            publish_time_nanos: log_time_nanos - 5,
            sequence,
            data: &data,
        };
        writer.write_message(&message).unwrap();
        self.known.push((topic.to_owned(), log_time_nanos, data));
    }

    /// Until everything written can be read.
    pub fn settle(&self) {
        let count = |container: &Container| -> u64 {
            container.topics().iter().map(|topic| topic.message_count().unwrap()).sum()
        };
        wait_for("everything to be readable", || {
            Container::peek(&self.path)
                .is_ok_and(|container| count(&container) == self.known.len() as u64)
        });
    }

    pub fn finish(self) -> Known {
        let status = self.recorder.finish().unwrap();
        assert_eq!(status.totals().2.total(), 0, "the recording has lost something");
        self.known
    }
}

/// Polls until it is so; a minute is the machine's fault or the code's.
#[track_caller]
pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !is_so() {
        assert!(began.elapsed() < DEADLINE, "waited too long for {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// `/text` and `/camera` in turn: `count` messages, the pictures of 4 x 2 pixels.
pub fn write_all(recording: &mut Recording, count: u64) {
    for _ in 0..count {
        let number = recording.known.len() as u64;
        match number % 2 {
            0 => recording.write("/text", text(&format!("text {number}"))),
            _ => recording.write("/camera", image(number, 4, 2)),
        }
    }
}

pub fn record_all(path: &Path, count: u64) -> Known {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut recording = Recording::new(path, RecorderOptions::default());
    recording.add(text_topic("/text"));
    recording.add(camera_topic("/camera"));
    write_all(&mut recording, count);
    recording.finish()
}

/// Panics on a server's threads, in all tests of this process.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// A thread of the server that panics takes one connection with it, which no asker could tell from
/// an answer that was cut off.
pub fn watch_for_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name().is_some_and(|name| name.starts_with("livebag-serve")) {
                PANICS.fetch_add(1, Ordering::Relaxed);
            }
            before(info);
        }));
    });
}

impl Drop for Site {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            no_panics();
        }
    }
}

pub fn no_panics() {
    assert_eq!(PANICS.load(Ordering::Relaxed), 0, "a thread of the server has panicked");
}

/// A server on this machine. Its catalog's time stands until it is moved.
pub struct Site {
    pub folder: tempfile::TempDir,
    pub clock: Clock,
    pub server: Server,
}

impl Site {
    pub fn over(folder: tempfile::TempDir, options: ServerOptions) -> Self {
        watch_for_panics();
        let clock = Clock::simulated(1);
        let roots = [folder.path().to_owned()];
        let catalog = Arc::new(Catalog::new(&roots, clock.clone(), None).unwrap());
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        let server = Server::start(catalog, ServerOptions { listen, ..options }).unwrap();
        Self { folder, clock, server }
    }

    /// Serves `run1`, a finished recording of 100 messages.
    pub fn new() -> (Self, Known) {
        Self::with(ServerOptions::default())
    }

    pub fn with(options: ServerOptions) -> (Self, Known) {
        let folder = tempfile::tempdir().unwrap();
        let known = record_all(&folder.path().join("run1"), 100);
        (Self::over(folder, options), known)
    }

    pub fn address(&self) -> SocketAddr {
        self.server.addresses()[0]
    }

    /// The catalog looks again at what there is, and virtual files go on.
    pub fn later(&self) {
        self.clock.advance(2 * CATALOG_INTERVAL);
    }
}

/// The messages of an MCAP file in its order, and by its index the same ones.
pub fn messages(file: &[u8]) -> Known {
    let streamed = mcap::MessageStream::new(file).unwrap().map(|message| {
        let message = message.unwrap();
        (message.channel.topic.clone(), message.log_time, message.data.to_vec())
    });
    let streamed: Known = streamed.collect();
    let mut indexed = Known::new();
    let summary = mcap::Summary::read(file).unwrap().unwrap();
    for chunk in &summary.chunk_indexes {
        for (channel, entries) in summary.read_message_indexes(file, chunk).unwrap() {
            for entry in entries {
                let message = summary.seek_message(file, chunk, &entry).unwrap();
                indexed.push((channel.topic.clone(), message.log_time, message.data.to_vec()));
            }
        }
    }
    assert!(sorted(&streamed) == sorted(&indexed), "stream and index tell the same");
    streamed
}

pub fn sorted(messages: &Known) -> Known {
    let mut sorted = messages.clone();
    sorted.sort();
    sorted
}

pub fn of_topic(messages: &Known, topic: &str) -> Known {
    messages.iter().filter(|(name, ..)| name == topic).cloned().collect()
}
