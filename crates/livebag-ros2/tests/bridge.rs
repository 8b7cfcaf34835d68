//! Streams and topics of a (simulated) network, there and back.

mod conformance;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use conformance::until;
use livebag::Clock;
use livebag_ros2::network::{Network, SimulatedHub};
use livebag_ros2::{FollowOptions, Follower, QosOverrides, Selection, StreamSink, ToRos2};
use livebag_shm::{FrameLayout, FrameMeta, Reader, StreamOptions, Writer};

/// A name that no other test has, of this run or another.
fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("lb_{what}_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A published stream, and one made from its topic.
struct Bridged {
    name: String,
    out: ToRos2,
    follower: Follower,
    sink: StreamSink,
}

impl Bridged {
    fn new(name: &str, rate: Option<f64>) -> Self {
        let clock = Clock::system();
        let hub = SimulatedHub::new(clock.clone());
        let (here, there) = (hub.join("/here"), Arc::new(hub.join("/there")));
        let reader = Reader::open(name).unwrap();
        let overrides = QosOverrides::default();
        let out = ToRos2::begin(&here as &dyn Network, reader, rate, &overrides, clock.clone());
        let selection = Selection { all_topics: true, ..Selection::default() };
        let options = FollowOptions { selection, ..FollowOptions::default() };
        let mut follower = Follower::begin(there, options).unwrap();
        let sink = StreamSink::new("back.", BTreeMap::new(), clock);
        follower.look(&sink);
        Self { name: name.to_owned(), out: out.unwrap(), follower, sink }
    }

    /// Waits for the stream at the other end.
    fn reader(&self) -> Reader {
        let name = format!("back.{}", self.name);
        let mut found = None;
        until("the stream", || {
            found = Reader::open(&name).ok();
            found.is_some()
        });
        found.unwrap()
    }

    fn passed(&self) -> u64 {
        self.sink.counts().iter().map(|(_, counts)| counts.messages).sum()
    }

    /// Ends it; returns the warnings.
    fn finish(self) -> Vec<String> {
        drop(self.out);
        let mut warnings = self.follower.finish(&self.sink);
        warnings.extend(self.sink.warnings());
        warnings
    }
}

fn newest(reader: &mut Reader) -> (FrameMeta, Vec<u8>) {
    let mut data = Vec::new();
    let header = reader.copy_latest(&mut data).unwrap().unwrap();
    let meta = FrameMeta {
        publish_time_nanos: Some(header.publish_time_nanos),
        layout: header.layout,
        frame_id: header.frame_id,
    };
    (meta, data)
}

#[test]
fn an_image_comes_back_with_the_same_pixels() {
    let name = unique("image");
    let options = StreamOptions::image(640, 480, 3).remove_on_drop(true);
    let mut writer = Writer::create(&name, &options).unwrap();
    let bridged = Bridged::new(&name, None);
    let mut reader = None;
    for frame in 0..5_u8 {
        let pixels: Vec<u8> = (0..640 * 480 * 3_u32).map(|at| (at % 251) as u8 ^ frame).collect();
        let meta = FrameMeta::image(640, 480, 640 * 3, "bgr8").frame_id("front");
        let meta = meta.publish_time_nanos(1_000_000_000 + u64::from(frame));
        writer.publish(&meta, &pixels).unwrap();
        until("the frame", || bridged.passed() == u64::from(frame) + 1);
        let reader = reader.get_or_insert_with(|| bridged.reader());
        let (back, data) = newest(reader);
        assert!(data == pixels, "other pixels");
        assert_eq!(
            (back.frame_id.as_str(), back.publish_time_nanos),
            ("front", meta.publish_time_nanos)
        );
        let FrameLayout::Image(layout) = back.layout else { panic!("no image") };
        assert_eq!((layout.width, layout.height, layout.step), (640, 480, 1920));
        assert_eq!(layout.encoding, "bgr8");
    }
    assert_eq!(bridged.out.counts().lost, 0);
    assert_eq!(bridged.finish(), [] as [String; 0]);
}

#[test]
fn messages_come_back_and_a_larger_one_makes_the_stream_anew() {
    let name = unique("text");
    let options = StreamOptions::message("std_msgs/msg/String", 100_000)
        .encodings("cdr", "ros2msg")
        .remove_on_drop(true);
    let mut writer = Writer::create(&name, &options).unwrap();
    let bridged = Bridged::new(&name, None);
    for (count, len) in [(1, 10), (2, 3000), (3, 50_000), (4, 60_000), (5, 7)] {
        let message = conformance::message(len, count as u8);
        writer.publish(&FrameMeta::bytes(), &message).unwrap();
        until("the message", || bridged.passed() == count);
        assert_eq!(newest(&mut bridged.reader()).1, message);
    }
    assert_eq!(bridged.finish(), [] as [String; 0]);
}

#[test]
fn a_limited_rate_leaves_frames_out_and_counts_them() {
    let name = unique("fast");
    let options = StreamOptions::message("std_msgs/msg/String", 100)
        .encodings("cdr", "ros2msg")
        .slots(64)
        .remove_on_drop(true);
    let mut writer = Writer::create(&name, &options).unwrap();
    // One in a day.
    let bridged = Bridged::new(&name, Some(1.0 / 86_400.0));
    for fill in 0..20 {
        writer.publish(&FrameMeta::bytes(), &conformance::message(4, fill)).unwrap();
    }
    until("all", || bridged.out.counts().skipped == 19);
    assert_eq!(bridged.out.counts().messages, 1);
    drop(writer);
    until("the stream's end", || bridged.out.is_over());
}

#[test]
fn a_stream_that_is_no_ros_message_is_refused_in_words() {
    let name = unique("json");
    let options =
        StreamOptions::message("x/Y", 100).encodings("json", "jsonschema").remove_on_drop(true);
    let _writer = Writer::create(&name, &options).unwrap();
    let hub = SimulatedHub::new(Clock::system());
    let reader = Reader::open(&name).unwrap();
    let here = hub.join("/here");
    let refusal = ToRos2::begin(&here, reader, None, &QosOverrides::default(), Clock::system());
    let refusal = refusal.err().unwrap().to_string();
    assert!(refusal.contains("`json`, not CDR"), "{refusal}");
}
