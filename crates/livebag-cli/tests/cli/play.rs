//! A recording, played and recorded again, is the recording.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use livebag::{
    Clock, Container, Message, Overflow, PlayOptions, Query, Recorder, RecorderOptions, Selector,
    Stamp, StreamOutput, Topic,
};
use livebag_shm::{FrameMeta, Kind, PointField, PointsLayout, Reader, StreamOptions, Writer};

use crate::common::{Recording, livebag, run, stream, text, wait_until};
use crate::control::{takes_lines, terminal};

/// As many as the default slots of a stream with large frames, so that no reader can be late.
const FRAMES: u32 = 4;
const TEXTS: u64 = 40;

/// By topic: publish time, sequence and bytes of each message.
type Contents = BTreeMap<String, Vec<(u64, u64, Vec<u8>)>>;

fn contents(path: &Path) -> Contents {
    let bag = Container::open(path).unwrap();
    assert_eq!(bag.lost().total(), 0);
    let mut cursor = bag.query(&Query::default()).unwrap();
    let mut contents = Contents::new();
    while let Some((at, message)) = cursor.next().unwrap() {
        let messages = contents.entry(bag.topics()[at].topic().name.clone()).or_default();
        messages.push((message.publish_time_nanos, message.sequence, message.data.to_vec()));
    }
    contents
}

fn follow(path: &Path, topics: &[String]) -> Recorder {
    let recorder = Recorder::create(path, RecorderOptions::default()).unwrap();
    recorder.follow(Selector::names(topics)).unwrap();
    wait_until("the streams are followed", || recorder.status().topics.len() == topics.len());
    recorder
}

fn finish(recorder: Recorder, messages: u64) {
    wait_until("everything is committed", || recorder.status().totals().0 == messages);
    let status = recorder.finish().unwrap();
    assert_eq!(status.totals().2.total(), 0);
}

fn noise(bytes: usize, seed: u32) -> Vec<u8> {
    (0..bytes as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8 ^ seed as u8).collect()
}

/// Images that change their size, clouds of odd counts, texts.
fn publish(writers: &mut [Writer]) {
    for k in 0..FRAMES {
        let (width, height) = (640 + k, 479 - k);
        let meta = FrameMeta::image(width, height, width * 3 + 5, "rgb8");
        let pixels = noise(((width * 3 + 5) * height) as usize, k);
        let meta =
            meta.frame_id(&format!("camera {k}")).publish_time_nanos(1_000_000_000 + u64::from(k));
        writers[0].publish(&meta, &pixels).unwrap();
        let mut layout = PointsLayout::xyz(1001 + k, 17);
        layout.fields.push(PointField { name: "ring".into(), offset: 12, datatype: 2, count: 5 });
        layout.is_dense = k % 2 == 0;
        let meta = FrameMeta::points(layout).frame_id("lidar").publish_time_nanos(u64::from(k) + 7);
        writers[1].publish(&meta, &noise((1001 + k as usize) * 17, k)).unwrap();
    }
    for k in 0..TEXTS {
        let meta = FrameMeta::bytes().publish_time_nanos(100 + k);
        writers[2].publish(&meta, format!("text number {k}").as_bytes()).unwrap();
    }
}

/// Records the three streams into `path`; gives their topics.
fn record_original(path: &Path) -> Vec<String> {
    let made = [
        StreamOptions::image(650, 480, 4),
        StreamOptions::points(2000, 17),
        StreamOptions::message("std_msgs/msg/String", 100).schema(b"string data"),
    ]
    .map(stream);
    let topics: Vec<_> = made.iter().map(|(name, _)| format!("/{name}")).collect();
    let mut writers: Vec<_> = made.into_iter().map(|(_, writer)| writer).collect();
    let recorder = follow(path, &topics);
    publish(&mut writers);
    finish(recorder, 2 * u64::from(FRAMES) + TEXTS);
    topics
}

#[test]
fn what_is_played_and_recorded_again_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (original, copy) = (folder.path().join("original"), folder.path().join("copy"));
    let topics = record_original(&original);
    let mut player = livebag_bags::open_player(
        &[&original],
        PlayOptions::default(),
        &mut StreamOutput::default(),
    )
    .unwrap();
    let recorder = follow(&copy, &topics);
    let status = player.run(&mut |_| {}).unwrap();
    assert_eq!(status.messages, 2 * u64::from(FRAMES) + TEXTS);
    finish(recorder, status.messages);
    assert_eq!(player.warnings().count(), 0);

    let (original, copy) = (contents(&original), contents(&copy));
    assert_eq!(original.keys().collect::<Vec<_>>(), copy.keys().collect::<Vec<_>>());
    for (topic, messages) in &original {
        assert!(*messages == copy[topic], "{topic}");
    }
}

#[test]
fn the_command_plays_in_a_loop_until_ctrl_c() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("original");
    let topics = record_original(&bag);
    let mut command = livebag(&["play", text(&bag), "--loop", "--json", "-r", "100"]);
    command.args(["--topics", &topics[2]]);
    let playing = Recording::begin_command(command, 0);
    let stream = &topics[2][1..];
    wait_until("the stream", || Reader::open(stream).is_ok());
    let reader = Reader::open(stream).unwrap();
    assert_eq!(
        (reader.info().kind, reader.info().topic.as_str()),
        (Kind::Bytes, topics[2].as_str())
    );
    wait_until("a second round", || reader.latest_sequence() > TEXTS);
    assert!(Reader::open(&topics[0][1..]).is_err(), "only what was asked for");
    let said = playing.interrupt().expect(0, &["playing", "in a loop"]).json();
    assert_eq!(said["interrupted"], true);
    assert!(said["message_count"].as_u64().unwrap() > TEXTS);
    assert_eq!(said["streams"][0]["name"], stream);
    assert!(Reader::open(stream).is_err(), "the streams go with the player");
}

#[test]
fn what_cannot_be_played_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("original");
    let topics = record_original(&bag);
    run(&["play", text(&bag), "--topics", "/nothing"]).expect(2, &["/nothing", &topics[0]]);
    run(&["play", text(&bag), "--rate", "0"]).expect(2, &["above 0"]);
    run(&["play", text(&folder.path().join("none"))]).expect(1, &["does not exist"]);
    run(&["play", text(folder.path())]).expect(1, &[]);
    let foreign = folder.path().join("foreign");
    std::fs::write(&foreign, "no recording").unwrap();
    run(&["play", text(&foreign)]).expect(1, &["no recording"]);
    let _holder =
        Writer::create(&topics[0][1..], &StreamOptions::bytes(1).remove_on_drop(true)).unwrap();
    run(&["play", text(&bag)]).expect(1, &["live writer"]);
}

#[test]
fn a_real_ros_1_bag_becomes_native_frames_if_shared_data_is_there() {
    let bag = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
        .join("../../../shared/data/do.bag");
    if !bag.exists() {
        println!("SKIPPED: {} is not here", bag.display());
        return;
    }
    let options = PlayOptions { clock: Clock::simulated(1), ..PlayOptions::default() };
    let mut output = StreamOutput::new(&format!("play-test-{}", std::process::id()), Stamp::Now);
    let mut player = livebag_bags::open_player(&[&bag], options, &mut output).unwrap();
    let mut readers: BTreeMap<_, _> = player
        .topics()
        .iter()
        .map(|played| {
            let reader = Reader::open(played.name()).unwrap();
            (played.topic().name.clone(), reader)
        })
        .collect();
    assert_eq!(player.run(&mut |_| {}).unwrap().messages, 6);
    assert_eq!(player.warnings().collect::<Vec<_>>(), Vec::<&str>::new());
    let mut pixels = Vec::new();
    let depth = readers.get_mut("/camera/depth/image").unwrap();
    let header = depth.copy_latest(&mut pixels).unwrap().unwrap();
    let livebag_shm::FrameLayout::Image(layout) = header.layout else { panic!("an image") };
    assert_eq!((layout.width, layout.height, layout.encoding.as_str()), (640, 480, "32FC1"));
    assert_eq!(pixels.len(), 640 * 480 * 4);
    assert_eq!(readers["/tf"].info().message_encoding, "ros1");
}

/// A container of one topic with messages of one byte, counted from 0, at these seconds.
fn record_counted(path: &Path, topic: &str, seconds: &[u64]) {
    let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
    let recorder = Recorder::create(path, options).unwrap();
    let topic = Topic { name: topic.to_owned(), ..Topic::default() };
    let writer = recorder.topic(topic).unwrap();
    for (number, second) in seconds.iter().enumerate() {
        let nanos = second * 1_000_000_000;
        let data = &[number as u8];
        let message =
            Message { log_time_nanos: nanos, publish_time_nanos: nanos, sequence: 0, data };
        writer.write_message(&message).unwrap();
    }
    recorder.finish().unwrap();
}

#[test]
fn keys_step_seek_change_the_rate_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    let stream = format!("play-keys-{}", std::process::id());
    record_counted(&bag, &format!("/{stream}"), &[10, 12, 4000]);
    let (mut keys, program) = terminal();
    let mut command = livebag(&["play", text(&bag), "--start-paused", "--json"]);
    command.stdin(program.try_clone().unwrap());
    let playing = Recording::begin_command(command, 0);
    wait_until("the stream", || Reader::open(&stream).is_ok());
    wait_until("it takes key by key", || !takes_lines(&program));
    let mut reader = Reader::open(&stream).unwrap();
    let next = |reader: &mut Reader| {
        let mut payload = [0];
        wait_until("a message", || match reader.next().frame {
            Some(frame) => frame.copy_to(&mut payload),
            None => false,
        });
        payload[0]
    };
    for number in [0, 1] {
        keys.write_all(b"\x1b[C").unwrap();
        assert_eq!(next(&mut reader), number);
    }
    keys.write_all(b",\x1b[C").unwrap();
    assert_eq!(next(&mut reader), 0, "five seconds back are the beginning");
    keys.write_all(b"\x1b[A ").unwrap();
    assert_eq!(next(&mut reader), 1, "it goes on");
    // Keys that mean nothing mean nothing.
    keys.write_all(b"x\n\x1b[5~.q").unwrap();
    let ended = playing.end().expect(0, &["keys: space", "paused"]);
    let said = ended.json();
    assert_eq!(said["message_count"], 4);
    assert_eq!(
        (&said["rate"], &said["length_nanos"]),
        (&1.1.into(), &3_990_000_000_000_u64.into())
    );
    assert_eq!((&said["rounds"], &said["interrupted"]), (&0.into(), &false.into()));
    assert!(takes_lines(&program), "the terminal is as it was");
}

#[test]
fn several_bags_go_out_under_other_names_with_a_clock() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let name = format!("play-merged-{}", std::process::id());
    record_counted(&first, "/a", &[10, 11]);
    record_counted(&second, "/b", &[12, 14]);
    let renamed = [format!("/a:=/{name}.a"), format!("/b:=/{name}.b")];
    let qos = folder.path().join("qos.yaml");
    std::fs::write(&qos, "/a: {reliability: best_effort}\n/none: {depth: 3}\n").unwrap();
    let said = run(&[
        "play",
        text(&first),
        "-i",
        text(&second),
        "-r",
        "100",
        "--json",
        "--clock",
        "1000",
        "--start-offset",
        "0.5",
        "--playback-duration",
        "1.5s",
        "--message-order",
        "sent",
        "--qos-profile-overrides-path",
        text(&qos),
        "--read-ahead-queue-size",
        "1",
        "-m",
        &renamed[0],
        &renamed[1],
    ])
    .expect(0, &["the recording has no topic /none"])
    .json();
    assert_eq!(said["message_count"], 2);
    assert_eq!(said["paths"][1], text(&second));
    assert_eq!(said["streams"][0]["name"], format!("{name}.a"));
    assert_eq!(said["streams"][2]["topic"], "/clock");
    assert!(said["clock_message_count"].as_u64().unwrap() > 0, "{said}");
    assert_eq!(
        (&said["length_nanos"], &said["position_nanos"]),
        (&1_500_000_000_u64.into(), &1_500_000_000_u64.into())
    );
}

#[test]
fn a_part_is_named_by_times_as_in_queries() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let name = format!("play-part-{}", std::process::id());
    record_counted(&first, &format!("/{name}.a"), &[10, 11]);
    record_counted(&second, &format!("/{name}.b"), &[12, 14]);
    let play = |times: &[&str]| {
        let bags = ["play", text(&first), text(&second), "-r", "100", "--json"];
        let said = run(&[&bags, times].concat()).expect(0, &[]).json();
        (said["message_count"].as_u64().unwrap(), said["length_nanos"].as_u64().unwrap())
    };
    assert_eq!(play(&["--from", "+1s", "--to", "+2s"]), (2, 1_000_000_000));
    assert_eq!(play(&["--from", "1970-01-01T00:00:11.5Z"]), (2, 2_500_000_000));
    assert_eq!(play(&["--to", "11000000000"]), (2, 1_000_000_000));
}

#[test]
fn options_that_make_no_sense_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    record_counted(&bag, "/a", &[10, 11]);
    let qos = folder.path().join("qos.yaml");
    std::fs::write(&qos, "/a: {reliability: perhaps}\n").unwrap();
    let none = folder.path().join("none.yaml");
    let wrong: [(&[&str], i32, &str); 13] = [
        (&["--clock", "0"], 2, "/clock is 0 Hz"),
        (&["--clock", "5", "--clock-topics-all"], 2, "cannot be used with"),
        (&["--remap", "/a"], 2, "/scan:=/old/scan"),
        (&["-e", "("], 2, "regular expression"),
        (&["-x", "."], 2, "no topic is left"),
        (&["--playback-until-sec", "soon"], 2, "seconds since 1970"),
        (&["--start-offset=-3"], 2, "not a duration"),
        (&["--from", "+1s", "--start-offset", "1"], 2, "cannot be used with"),
        (&["--to", "+1s", "--playback-duration", "1"], 2, "cannot be used with"),
        (&["--from", "+1s", "--to", "+0s"], 2, "exchange them"),
        (&["--message-order", "reversed"], 2, "received"),
        (&["--qos-profile-overrides-path", text(&qos)], 2, "reliability is perhaps"),
        (&["--qos-profile-overrides-path", text(&none)], 1, "none.yaml"),
    ];
    for (options, code, words) in wrong {
        run(&[&["play", text(&bag)], options].concat()).expect(code, &[words]);
    }
    run(&["play"]).expect(2, &["BAG"]);
}
