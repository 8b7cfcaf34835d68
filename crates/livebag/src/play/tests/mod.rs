use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use livebag_format::{Message, cdr};
use livebag_shm::{FrameLayout, Kind, Reader};

use crate::clock::Clock;
use crate::limits::PLAY_LEAD_IN;

use super::*;
use crate::{Overflow, Recorder, RecorderOptions};

mod control;
mod model;
mod options;

const SECOND: u64 = 1_000_000_000;

/// A topic name that no other test, here or in another process, uses.
fn unique(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("/play-{}-{count}/{name}", std::process::id())
}

fn topic(name: &str, type_name: &str) -> Topic {
    Topic {
        name: name.into(),
        type_name: type_name.into(),
        message_encoding: "cdr".into(),
        schema_encoding: "ros2msg".into(),
        schema: b"string data".to_vec(),
        ..Topic::default()
    }
}

fn image(stamp_nanos: u64, width: u32, height: u32, first: u8) -> Vec<u8> {
    let header = cdr::ImageHeader {
        stamp_nanos,
        frame_id: "camera",
        height,
        width,
        encoding: "mono8",
        is_bigendian: false,
        step: width,
    };
    let mut message = Vec::new();
    cdr::image_prefix(&header, width * height, &mut message);
    message.extend((0..width * height).map(|pixel| first.wrapping_add(pixel as u8)));
    message
}

/// A container of (topic, log time, message), publish time one nanosecond earlier.
fn record(messages: &[(&Topic, u64, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bag");
    let options = RecorderOptions {
        chunk_age_max: None,
        overflow: Overflow::Block,
        ..RecorderOptions::default()
    };
    let recorder = Recorder::create(&path, options).unwrap();
    let mut writers = HashMap::new();
    for (sequence, &(topic, log_time_nanos, data)) in messages.iter().enumerate() {
        let writer = writers
            .entry(topic.name.clone())
            .or_insert_with(|| recorder.topic(topic.clone()).unwrap());
        let message = Message {
            log_time_nanos,
            publish_time_nanos: log_time_nanos - 1,
            sequence: sequence as u64 + 1,
            data,
        };
        writer.write_message(&message).unwrap();
    }
    recorder.finish().unwrap();
    folder
}

/// A recording of another make, with the messages of a container.
struct Listed {
    topics: Vec<Topic>,
    messages: std::vec::IntoIter<SourceMessage>,
}

impl Listed {
    fn of(container: &Path) -> Self {
        let container = crate::Container::open(container).unwrap();
        let mut cursor = container.query(&crate::Query::default()).unwrap();
        let mut messages = Vec::new();
        while let Some((topic, message)) = cursor.next().unwrap() {
            messages.push(SourceMessage {
                topic,
                log_time_nanos: message.log_time_nanos,
                publish_time_nanos: message.publish_time_nanos,
                sequence: message.sequence,
                data: message.data.to_vec(),
            });
        }
        let topics = container.topics().iter().map(|topic| topic.topic().clone()).collect();
        Self { topics, messages: messages.into_iter() }
    }

    /// Makes a file that stands for it.
    fn file_in(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("listed");
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        path
    }
}

impl PlaySource for Listed {
    fn topics(&self) -> &[Topic] {
        &self.topics
    }
    fn next_message(&mut self) -> Result<Option<SourceMessage>, SourceError> {
        Ok(self.messages.next())
    }
    fn skip_before(&mut self, _: u64) {}
    fn totals(&self) -> Option<SourceTotals> {
        None
    }
    fn lost_count(&self) -> u64 {
        0
    }
    fn warnings(&self) -> &[String] {
        &[]
    }
}

fn open(folder: &tempfile::TempDir, options: PlayOptions) -> Result<Player, PlayError> {
    Player::open(&[folder.path().join("bag")], options, &mut StreamOutput::default())
}

/// A message as an output got it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Played {
    /// Of the player's clock, from when `run` was called.
    at_nanos: u64,
    topic: String,
    log_time_nanos: u64,
    data: Vec<u8>,
}

/// Keeps played messages, with the player's time.
#[derive(Clone)]
struct Kept {
    clock: Clock,
    start_nanos: u64,
    opened: Arc<Mutex<Vec<(Topic, usize)>>>,
    played: Arc<Mutex<Vec<Played>>>,
}

struct KeptTopic(Kept, String);

impl Kept {
    fn new(options: &PlayOptions) -> Self {
        let clock = options.clock.clone();
        let start_nanos = clock.monotonic_nanos();
        Self { clock, start_nanos, opened: Arc::default(), played: Arc::default() }
    }

    fn take(&self) -> Vec<Played> {
        std::mem::take(&mut self.played.lock().unwrap())
    }

    /// (time of the clock, first byte) of the played messages.
    fn bytes(&self) -> Vec<(u64, u8)> {
        self.take().iter().map(|played| (played.at_nanos, played.data[0])).collect()
    }
}

impl Output for Kept {
    fn open(&mut self, topic: &Topic, bytes_max: usize) -> Result<Box<dyn TopicOutput>, PlayError> {
        self.opened.lock().unwrap().push((topic.clone(), bytes_max));
        Ok(Box::new(KeptTopic(self.clone(), topic.name.clone())))
    }
}

impl TopicOutput for KeptTopic {
    fn publish(&mut self, message: &Message<'_>) -> Result<(), PlayError> {
        self.0.played.lock().unwrap().push(Played {
            at_nanos: self.0.clock.monotonic_nanos() - self.0.start_nanos,
            topic: self.1.clone(),
            log_time_nanos: message.log_time_nanos,
            data: message.data.to_vec(),
        });
        Ok(())
    }

    fn name(&self) -> &str {
        &self.1
    }

    fn kind(&self) -> &str {
        "kept"
    }
}

/// A container of one topic: messages of one byte, counted from 0, at these times.
fn counted(times: &[u64]) -> tempfile::TempDir {
    let topic = topic("/count", "std_msgs/msg/UInt8");
    let data: Vec<_> = (0..times.len() as u8).map(|number| [number]).collect();
    let messages = times.iter().zip(&data);
    record(&messages.map(|(&time, data)| (&topic, time, data.as_slice())).collect::<Vec<_>>())
}

/// Plays a container to an output that keeps everything, without a lead-in.
fn keeping(folder: &tempfile::TempDir, options: PlayOptions) -> (Player, Kept) {
    let options = PlayOptions { lead_in: Duration::ZERO, ..options };
    let mut kept = Kept::new(&options);
    let player = Player::open(&[folder.path().join("bag")], options, &mut kept).unwrap();
    (player, kept)
}

/// A simulated clock: what waits moves time on.
fn simulated() -> PlayOptions {
    PlayOptions { clock: Clock::simulated(SECOND), ..PlayOptions::default() }
}

/// (publish time, layout, payload) of every frame that a reader has not seen yet.
fn drain(reader: &mut Reader) -> Vec<(u64, FrameLayout, Vec<u8>)> {
    let mut frames = Vec::new();
    loop {
        let next = reader.next();
        assert_eq!((next.lapped, next.damaged), (0, 0));
        let Some(frame) = next.frame else { return frames };
        let mut payload = vec![0; frame.payload_bytes()];
        assert!(frame.copy_to(&mut payload));
        let header = frame.header();
        frames.push((header.publish_time_nanos, header.layout.clone(), payload));
    }
}

#[test]
fn messages_become_frames_at_their_times() {
    let (text, camera) = (unique("text"), unique("camera"));
    let text = topic(&text, "std_msgs/msg/String");
    let camera = topic(&camera, "sensor_msgs/msg/Image");
    let (small, large) = (image(77, 3, 5, 1), image(78, 64, 48, 2));
    let folder = record(&[
        (&text, 10 * SECOND, b"one"),
        (&camera, 11 * SECOND, &small),
        (&text, 12 * SECOND, b"two, longer"),
        (&camera, 14 * SECOND, &large),
    ]);
    let options = PlayOptions { rate: 2.0, ..simulated() };
    let clock = options.clock.clone();
    let mut player = open(&folder, options).unwrap();
    assert_eq!((player.message_count(), player.length()), (4, Duration::from_secs(4)));
    let kinds: Vec<_> = player.topics().iter().map(PlayedTopic::kind).collect();
    assert_eq!(kinds, ["bytes", "image"]);
    let mut readers: Vec<_> =
        player.topics().iter().map(|topic| Reader::open(topic.name()).unwrap()).collect();
    assert_eq!(readers[0].info().topic, text.name);
    assert_eq!(readers[0].info().schema, text.schema);

    let start = clock.monotonic_nanos() + PLAY_LEAD_IN.as_nanos() as u64;
    let mut seen = Vec::new();
    let status = player
        .run(&mut |status| {
            if seen.last().is_none_or(|&(messages, _)| messages < status.messages) {
                seen.push((status.messages, clock.monotonic_nanos().saturating_sub(start)));
            }
        })
        .unwrap();
    seen.retain(|&(messages, _)| messages > 0);
    let half = SECOND / 2;
    assert_eq!(seen, [(1, 0), (2, half), (3, 2 * half), (4, 4 * half)]);
    assert_eq!((status.messages, status.rounds, status.late_max), (4, 1, Duration::ZERO));
    assert_eq!(status.position, Duration::from_secs(4));

    let texts = drain(&mut readers[0]);
    assert_eq!(texts[0], (10 * SECOND - 1, FrameLayout::Bytes, b"one".to_vec()));
    assert_eq!(texts[1].2, b"two, longer");
    let images = drain(&mut readers[1]);
    let pixels = cdr::parse_image(&large).unwrap().data;
    assert_eq!((images[1].0, images[1].2.as_slice()), (78, pixels));
    let FrameLayout::Image(layout) = &images[0].1 else { panic!("{:?}", images[0].1) };
    assert_eq!((layout.width, layout.height, layout.step), (3, 5, 3));
    assert_eq!(layout.encoding, "mono8");

    let stream = player.topics()[0].name().to_owned();
    drop(player);
    assert!(Reader::open(&stream).is_err(), "the streams go with the player");
}

#[test]
fn what_is_no_image_is_published_as_it_is_and_said_once() {
    let camera = topic(&unique("camera"), "sensor_msgs/msg/Image");
    let good = image(5, 4, 4, 9);
    let folder = record(&[
        (&camera, 10, &good),
        (&camera, 20, b"no image"),
        (&camera, 30, b"nor this"),
        (&camera, 40, &good),
    ]);
    let mut player = open(&folder, simulated()).unwrap();
    let stream = player.topics()[0].name().to_owned();
    let mut frames = Reader::open(&stream).unwrap();
    player.run(&mut |_| {}).unwrap();
    assert_eq!(drain(&mut frames).len(), 2);
    let mut raw = Reader::open(&format!("{stream}.raw")).unwrap();
    assert_eq!((raw.info().kind, raw.info().topic.as_str()), (Kind::Bytes, camera.name.as_str()));
    raw.seek_oldest();
    let payloads: Vec<_> = drain(&mut raw).into_iter().map(|frame| frame.2).collect();
    assert_eq!(payloads, [b"no image", b"nor this"]);
    let warnings: Vec<_> = player.warnings().collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains(&camera.name) && warnings[0].contains(".raw"), "{warnings:?}");
}

#[test]
fn a_loop_goes_on_until_it_is_stopped() {
    let text = topic(&unique("text"), "std_msgs/msg/String");
    let folder = record(&[(&text, 100, b"a"), (&text, 200, b"b"), (&text, 300, b"c")]);
    let options = PlayOptions { repeat: true, lead_in: Duration::ZERO, ..simulated() };
    let clock = options.clock.clone();
    let mut player = open(&folder, options).unwrap();
    let (control, start) = (player.control(), clock.monotonic_nanos());
    let status = player
        .run(&mut |status| {
            if status.messages == 7 {
                control.stop();
            }
        })
        .unwrap();
    assert_eq!((status.messages, status.rounds), (7, 2));
    assert_eq!(clock.monotonic_nanos() - start, 600, "two rounds of 200 and a period of 100 each");
}

#[test]
fn only_the_topics_asked_for_are_played() {
    let (one, two) = (unique("one"), unique("two"));
    let (one, two) = (topic(&one, "std_msgs/msg/String"), topic(&two, "std_msgs/msg/String"));
    let folder = record(&[(&one, 100, b"a"), (&two, 200, b"b"), (&two, 300, b"c")]);
    let options = PlayOptions { topics: vec![two.name.clone()], ..simulated() };
    let mut player = open(&folder, options).unwrap();
    assert_eq!(player.topics().len(), 1);
    assert_eq!(player.topics()[0].topic().name, two.name);
    let status = player.run(&mut |_| {}).unwrap();
    assert_eq!((status.messages, status.length), (2, Duration::from_nanos(100)));
}

#[test]
fn mistakes_are_named() {
    let text = topic(&unique("text"), "std_msgs/msg/String");
    let folder = record(&[(&text, 100, b"a")]);
    let asked = PlayOptions { topics: vec!["/none".into()], ..simulated() };
    let error = open(&folder, asked).err().unwrap().to_string();
    assert!(error.contains("/none") && error.contains(&text.name), "{error}");
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = open(&folder, PlayOptions { rate, ..simulated() }).err().unwrap();
        assert!(matches!(error, PlayError::Rate { .. }), "{error}");
    }
    let first = open(&folder, simulated()).unwrap();
    let error = open(&folder, simulated()).err().unwrap();
    assert!(matches!(error, PlayError::Stream { .. }), "a live writer has the stream: {error}");
    drop(first);
    open(&folder, simulated()).unwrap();
}
