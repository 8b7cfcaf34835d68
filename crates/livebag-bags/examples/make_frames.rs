//! Records frames of many sizes for other projects' readers: `make_frames OUTDIR`.
//!
//! Makes containers, and beside each a file `NAME.expect.json` with the expected results of readers: `{"topics":
//! {TOPIC: {"count", "type", "data_crc32", …}}}`, where `data_crc32` is over the pixels or points of all messages in
//! order. `tests/interop/check_mcap.py` compares.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use livebag::{Clock, PlayOptions, Recorder, RecorderOptions, Selector, Stamp, StreamOutput};
use livebag_bags::{open_foreign, open_player};
use livebag_format::ros1;
use livebag_shm::{
    FrameLayout, FrameMeta, ImageLayout, Kind, PointField, PointsLayout, StreamOptions, Writer,
};
use serde_json::{Map, Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Longest wait for the recorder.
const DEADLINE: Duration = Duration::from_secs(60);
/// Rounds that a real recording is played.
const ROUNDS: u64 = 3;

fn main() -> Outcome<()> {
    let out = std::env::args_os().nth(1).ok_or("usage: make_frames OUTDIR")?;
    let out = PathBuf::from(out);
    std::fs::create_dir_all(&out)?;
    record_streams(&out, "frames", native_sensors())?;
    record_streams(&out, "other", other_sensors())?;
    for name in ["do", "outdoor"] {
        // From the clone's root, where this is run.
        let bag = PathBuf::from(format!("../shared/data/{name}.bag"));
        if bag.exists() {
            record_real(&out, name, &bag)?;
        }
    }
    Ok(())
}

/// The messages of one topic.
struct Sensor {
    topic: String,
    options: StreamOptions,
    metas: Vec<FrameMeta>,
    payloads: Vec<Vec<u8>>,
}

/// Bytes that no two frames share.
fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    // xorshift64 (Marsaglia, 2003).
    let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut data = Vec::with_capacity(bytes + 8);
    while data.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        data.extend_from_slice(&state.to_le_bytes());
    }
    data.truncate(bytes);
    data
}

fn images(
    (width, height): (u32, u32),
    encoding: &str,
    pixel_bytes: u32,
    padding_bytes: u32,
    count: u64,
) -> Sensor {
    let step = width * pixel_bytes + padding_bytes;
    let layout = ImageLayout {
        width,
        height,
        step,
        encoding: encoding.into(),
        is_bigendian: encoding == "mono16",
    };
    let bytes = (step * height) as usize;
    let topic = format!("/image/{encoding}_{width}x{height}");
    let options = StreamOptions { payload_bytes_max: bytes, ..StreamOptions::image(1, 1, 1) };
    let meta = |k: u64| FrameMeta {
        publish_time_nanos: Some(1_700_000_000_000_000_000 + k * 33_333_333),
        layout: FrameLayout::Image(layout.clone()),
        frame_id: format!("camera_{width}"),
    };
    Sensor {
        topic,
        options,
        metas: (0..count).map(meta).collect(),
        payloads: (0..count).map(|k| noise(bytes, k * 7919 + u64::from(width))).collect(),
    }
}

fn points((width, height): (u32, u32), point_step: u32, is_dense: bool) -> Sensor {
    let mut layout = PointsLayout::xyz(width, point_step);
    layout.height = height;
    layout.is_dense = is_dense;
    if point_step >= 17 {
        // uint16, at an odd place, as real drivers pack it.
        layout.fields.push(PointField::new("ring", 13, 4));
    }
    let bytes = (width * height * point_step) as usize;
    let topic = format!("/points/{width}x{height}x{point_step}");
    let options =
        StreamOptions { payload_bytes_max: bytes.max(1), ..StreamOptions::points(1, point_step) };
    let meta = FrameMeta::points(layout).frame_id("lidar");
    Sensor {
        topic,
        options,
        metas: vec![meta; 4],
        payloads: (0..4).map(|k| noise(bytes, k * 104_729 + u64::from(width))).collect(),
    }
}

/// `std_msgs/msg/String` in CDR.
fn texts(count: u64) -> Sensor {
    let text = |k: u64| {
        let text = format!("text {k} {}\0", "x".repeat((k * k % 301) as usize));
        let mut message = vec![0, 1, 0, 0];
        message.extend_from_slice(&(text.len() as u32).to_le_bytes());
        message.extend_from_slice(text.as_bytes());
        message
    };
    Sensor {
        topic: "/text".into(),
        options: StreamOptions::message("std_msgs/msg/String", 512),
        metas: vec![FrameMeta::bytes(); count as usize],
        payloads: (0..count).map(text).collect(),
    }
}

fn bytes(topic: &str, bytes: usize, encoding: &str) -> Sensor {
    let mut options = StreamOptions::bytes(bytes);
    options.message_encoding = encoding.into();
    if encoding == "json" {
        options.type_name = "example/Anything".into();
    }
    let payload = |k: u64| match encoding {
        "json" => json!({ "number": k, "text": "ä" }).to_string().into_bytes(),
        _ => noise(bytes - k as usize, k),
    };
    Sensor {
        topic: topic.into(),
        options,
        metas: vec![FrameMeta::bytes(); 9],
        payloads: (0..9).map(payload).collect(),
    }
}

/// Everything that becomes CDR.
fn native_sensors() -> Vec<Sensor> {
    vec![
        images((640, 480), "rgb8", 3, 0, 6),
        images((641, 479), "mono8", 1, 0, 6),
        images((333, 7), "16UC1", 2, 0, 6),
        images((1920, 1080), "bgr8", 3, 0, 3),
        images((64, 32), "mono8", 1, 0, 20),
        images((1, 1), "mono8", 1, 0, 5),
        images((123, 177), "bgra8", 4, 13, 6),
        images((255, 129), "mono16", 2, 0, 6),
        images((640, 480), "32FC1", 4, 0, 4),
        points((1001, 1), 16, true),
        points((4097, 1), 17, false),
        points((1023, 64), 22, true),
        points((9999, 1), 12, false),
        points((1, 1), 16, true),
        points((0, 1), 16, true),
        texts(60),
        bytes("/bytes/small", 1000, ""),
        bytes("/bytes/large", 100_003, ""),
    ]
}

/// A container with more than ROS 2.
fn other_sensors() -> Vec<Sensor> {
    vec![bytes("/json", 100, "json"), images((320, 241), "rgb8", 3, 1, 5)]
}

fn record_streams(out: &Path, name: &str, sensors: Vec<Sensor>) -> Outcome<()> {
    let mut expected = BTreeMap::new();
    let mut writers = Vec::new();
    let mut names = Vec::new();
    for (number, sensor) in sensors.iter().enumerate() {
        let stream = format!("frames-{}.{number}", std::process::id());
        // A slot for every frame: nothing can be overwritten.
        let options = sensor.options.clone().topic(&sensor.topic).remove_on_drop(true);
        let slots = sensor.payloads.len().max(2) as u32;
        writers.push(Writer::create(&stream, &options.slots(slots))?);
        names.push(stream);
        expected.insert(sensor.topic.clone(), expectation(sensor));
    }
    let recorder = Recorder::create(&out.join(name), RecorderOptions::default())?;
    recorder.follow(Selector::names(&names))?;
    wait(|| recorder.status().topics.len() == sensors.len())?;
    for (sensor, writer) in sensors.iter().zip(&mut writers) {
        for (meta, payload) in sensor.metas.iter().zip(&sensor.payloads) {
            writer.publish(meta, payload)?;
        }
    }
    let count: usize = sensors.iter().map(|sensor| sensor.payloads.len()).sum();
    finish(recorder, count as u64)?;
    write_expectation(out, name, &expected)
}

fn expectation(sensor: &Sensor) -> Value {
    let mut said = Map::new();
    said.insert("count".into(), json!(sensor.payloads.len()));
    let kind = match (sensor.options.kind, sensor.options.type_name.as_str()) {
        (Kind::Bytes, "") => "std_msgs/msg/UInt8MultiArray",
        (_, type_name) => type_name,
    };
    said.insert("type".into(), json!(kind));
    if sensor.options.message_encoding != "json" {
        said.insert("decoded".into(), json!(sensor.payloads.len()));
    }
    let Some(meta) = sensor.metas.last() else { return said.into() };
    match &meta.layout {
        FrameLayout::Image(image) => said.extend(image_keys(image)),
        FrameLayout::Points(points) => {
            said.insert("width".into(), json!(points.width));
            said.insert("height".into(), json!(points.height));
            said.insert("point_step".into(), json!(points.point_step));
            said.insert("row_step".into(), json!(points.row_step));
        }
        FrameLayout::Bytes => return said.into(),
    }
    said.insert("frame_id".into(), json!(meta.frame_id));
    said.insert("data_crc32".into(), json!(crc32(sensor.payloads.iter().map(Vec::as_slice))));
    said.into()
}

fn image_keys(image: &ImageLayout) -> [(String, Value); 4] {
    [
        ("width".into(), json!(image.width)),
        ("height".into(), json!(image.height)),
        ("encoding".into(), json!(image.encoding)),
        ("step".into(), json!(image.step)),
    ]
}

fn crc32<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    pieces.for_each(|piece| hasher.update(piece));
    hasher.finalize()
}

/// Plays a real recording for some rounds, and records that.
fn record_real(out: &Path, name: &str, bag: &Path) -> Outcome<()> {
    let options = PlayOptions { repeat: true, rate: 4.0, ..PlayOptions::default() };
    let prefix = format!("frames-{}", std::process::id());
    let mut player = open_player(&[bag], options, &mut StreamOutput::new(&prefix, Stamp::Now))?;
    let names: Vec<_> = player.topics().iter().map(|topic| topic.name().to_owned()).collect();
    let recorder = Recorder::create(&out.join(name), RecorderOptions::default())?;
    recorder.follow(Selector::names(&names))?;
    wait(|| recorder.status().topics.len() == names.len())?;
    let (control, total) = (player.control(), ROUNDS * player.message_count());
    player.run(&mut |status| {
        if status.messages == total {
            control.stop();
        }
    })?;
    finish(recorder, total)?;
    write_expectation(out, name, &real_expectation(bag)?)
}

/// The contents of a real recording's topic.
#[derive(Default)]
struct RealTopic {
    said: Map<String, Value>,
    frames: Vec<Vec<u8>>,
}

/// From the bag itself: what its images and clouds must have become.
fn real_expectation(bag: &Path) -> Outcome<BTreeMap<String, Value>> {
    let mut source = open_foreign(bag)?;
    let topics = source.topics().to_vec();
    let mut found: BTreeMap<String, RealTopic> = BTreeMap::new();
    while let Some(message) = source.next_message()? {
        let topic = &topics[message.topic];
        let (said, data) = match topic.type_name.as_str() {
            "sensor_msgs/Image" => {
                let image = ros1::parse_image(&message.data)?;
                let header = image.header;
                let layout = ImageLayout {
                    width: header.width,
                    height: header.height,
                    step: header.step,
                    encoding: header.encoding.into(),
                    is_bigendian: header.is_bigendian,
                };
                let mut said = Map::from_iter(image_keys(&layout));
                said.insert("type".into(), json!("sensor_msgs/msg/Image"));
                (said, image.data.to_vec())
            }
            "sensor_msgs/PointCloud2" => {
                let points = ros1::parse_points(&message.data)?;
                let keys = [
                    ("width".into(), json!(points.width)),
                    ("point_step".into(), json!(points.point_step)),
                    ("type".into(), json!("sensor_msgs/msg/PointCloud2")),
                ];
                (Map::from_iter(keys), points.data.to_vec())
            }
            _ => (Map::new(), Vec::new()),
        };
        let seen = found.entry(topic.name.clone()).or_default();
        seen.said = said;
        seen.frames.push(data);
    }
    Ok(found.into_iter().map(|(topic, seen)| (topic, seen.expectation())).collect())
}

impl RealTopic {
    fn expectation(mut self) -> Value {
        self.said.insert("count".into(), json!(self.frames.len() as u64 * ROUNDS));
        if self.said.contains_key("type") {
            let rounds = (0..ROUNDS).flat_map(|_| self.frames.iter().map(Vec::as_slice));
            self.said.insert("data_crc32".into(), json!(crc32(rounds)));
        }
        self.said.into()
    }
}

fn wait(mut condition: impl FnMut() -> bool) -> Outcome<()> {
    let clock = Clock::system();
    while !condition() {
        if clock.monotonic_nanos() > DEADLINE.as_nanos() as u64 {
            return Err("the recorder does not keep up".into());
        }
        clock.sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn finish(recorder: Recorder, count: u64) -> Outcome<()> {
    wait(|| recorder.status().totals().0 == count)?;
    let (messages, _, lost) = recorder.finish()?.totals();
    if messages != count || lost.total() > 0 {
        return Err(format!("{messages} of {count} messages recorded: {lost:?}").into());
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "what is written is for a test, not a recording")]
fn write_expectation(out: &Path, name: &str, topics: &BTreeMap<String, Value>) -> Outcome<()> {
    let text = serde_json::to_string_pretty(&json!({ "topics": topics }))?;
    Ok(std::fs::write(out.join(format!("{name}.expect.json")), text + "\n")?)
}
