//! From streams of a real writer to the output of the reading verbs.

use crate::common::{Ended, Recording, livebag, run, stream, text, wait_until};
use livebag_shm::{FrameMeta, StreamOptions};
use rustix::process::Signal;

const IMAGES: u64 = 50;
const SAMPLES: u64 = 60;
const WIDTH: u32 = 640;
const HEIGHT: u32 = 480;

/// An image whose every byte is its number.
fn image(number: u64) -> Vec<u8> {
    vec![number as u8; (WIDTH * HEIGHT) as usize]
}

#[test]
fn a_recording_is_read_while_it_runs_and_after_it_was_closed() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let bag = text(&bag);
    let (camera, mut images) = stream(StreamOptions::image(WIDTH, HEIGHT, 1).slots(64));
    let (imu, mut samples) = stream(StreamOptions::message("sensor_msgs/msg/Imu", 400).slots(64));
    let recording = Recording::begin(&[&camera, &imu, "-o", bag, "--json"], 2);
    for number in 0..IMAGES {
        let meta = FrameMeta::image(WIDTH, HEIGHT, WIDTH, "mono8").frame_id("camera");
        images.publish(&meta, &image(number)).unwrap();
    }
    for number in 0..SAMPLES {
        samples.publish(&FrameMeta::bytes(), &[number as u8; 324]).unwrap();
    }

    let total = (IMAGES + SAMPLES).to_string();
    wait_until("everything can be queried while recording", || {
        let answer = run(&["query", bag, "latest", "--last", "1h", "--count"]).expect(0, &[]);
        answer.out.trim() == total
    });
    let info = run(&["info", bag, "--json"]).expect(0, &[]).json();
    assert_eq!(info["state"], "live");
    assert_eq!(info["message_count"], IMAGES + SAMPLES);
    assert!(info["message_bytes"].as_u64().unwrap() > IMAGES * u64::from(WIDTH * HEIGHT));

    let summary = recording.interrupt().expect(0, &["recording into"]).json();
    assert_eq!(summary["message_count"], IMAGES + SAMPLES);
    assert_eq!(summary["lost"]["total"], 0);
    assert_eq!(summary["failure"], serde_json::Value::Null);

    let info = run(&["info", bag, "--json"]).expect(0, &[]).json();
    assert_eq!(info["state"], "closed");
    assert_eq!(info["message_count"], IMAGES + SAMPLES);
    assert_eq!(info["lost"]["lapped"], 0);
    let topics = info["topics"].as_array().unwrap();
    let of = |name: &str| topics.iter().find(|topic| topic["name"] == format!("/{name}")).unwrap();
    assert_eq!(of(&camera)["message_count"], IMAGES);
    assert_eq!(of(&camera)["type"], "sensor_msgs/msg/Image");
    assert_eq!(of(&imu)["message_count"], SAMPLES);
    assert_eq!(of(&imu)["type"], "sensor_msgs/msg/Imu");
    let human = run(&["info", bag]).expect(0, &[]).out;
    assert!(human.contains("closed") && human.contains("sensor_msgs/msg/Image"), "{human}");

    lines_tell_every_message(bag, &camera);
    an_export_holds_every_byte(bag, &camera, folder.path());
}

fn lines_tell_every_message(bag: &str, camera: &str) {
    let topic = format!("/{camera}");
    let answer =
        run(&["query", bag, "history", "--from", "+0", "-t", &topic, "--json"]).expect(0, &[]);
    let mut sequence = 0;
    for line in answer.out.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        sequence += 1;
        assert_eq!(line["topic"], topic);
        assert_eq!(line["sequence"], sequence);
        assert!(line["log_time"].as_str() >= line["publish_time"].as_str());
        assert!(line["bytes"].as_u64().unwrap() > u64::from(WIDTH * HEIGHT));
    }
    assert_eq!(sequence, IMAGES);
    values_are_decoded(bag, &topic);
    let bare = run(&["query", bag, "history", "-t", camera, "--count"]).expect(0, &[]).out;
    assert_eq!(bare.trim(), IMAGES.to_string(), "a topic without its slash");
    let counted = run(&["query", bag, "history", "--count", "--json"]).expect(0, &[]).json();
    assert_eq!(counted["message_count"], IMAGES + SAMPLES);
    assert_eq!(counted["topics"].as_array().unwrap().len(), 2);
    let human = run(&["query", bag, "latest", "--last", "1h"]).expect(0, &[]).out;
    assert!(human.contains("newest message"), "{human}");
}

fn values_are_decoded(bag: &str, topic: &str) {
    let ask = ["query", bag, "latest", "--last", "0", "-t", topic, "--json", "--decode"];
    let line = run(&[&ask[..], &["--array-items", "3"]].concat()).expect(0, &[]).json();
    let value = &line["value"];
    let fields: Vec<_> = value.as_object().unwrap().keys().take(3).collect();
    assert_eq!(fields, ["header", "height", "width"], "in the definition's order");
    assert_eq!(value["width"], WIDTH);
    assert_eq!(value["header"]["frame_id"], "camera");
    assert_eq!(value["data"]["length"], WIDTH * HEIGHT);
    assert_eq!(value["data"]["first"], serde_json::json!([49, 49, 49]));
}

fn an_export_holds_every_byte(bag: &str, camera: &str, folder: &std::path::Path) {
    let path = folder.join("out.mcap");
    run(&["query", bag, "history", "-o", text(&path)]).expect(0, &[]);
    let bytes = std::fs::read(&path).unwrap();
    let summary = mcap::Summary::read(&bytes).unwrap().expect("a summary");
    assert_eq!(summary.stats.as_ref().unwrap().message_count, IMAGES + SAMPLES);
    assert!(!summary.chunk_indexes.is_empty());
    let mut number = 0;
    let mut last_nanos = 0;
    for message in mcap::MessageStream::new(&bytes).unwrap() {
        let message = message.unwrap();
        assert!(message.log_time >= last_nanos, "in order of log time");
        last_nanos = message.log_time;
        if message.channel.topic == format!("/{camera}") {
            let schema = message.channel.schema.as_ref().expect("a schema");
            assert_eq!(schema.name, "sensor_msgs/msg/Image");
            assert!(!schema.data.is_empty());
            assert!(message.data.ends_with(&image(number)), "image {number}");
            number += 1;
            assert_eq!(u64::from(message.sequence), number);
        }
    }
    assert_eq!(number, IMAGES);
    // Nothing but the container and the export is left.
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 2);
    let again = run(&["query", bag, "history", "-o", text(&path)]);
    again.expect(1, &["exists already", "choose another name"]);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn loss_is_counted_and_is_exit_code_3() {
    const PUBLISHED: u64 = 100;
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("lossy");
    let bag = text(&bag);
    let (name, mut writer) = stream(StreamOptions::image(WIDTH, HEIGHT, 1).slots(2));
    let meta = FrameMeta::image(WIDTH, HEIGHT, WIDTH, "mono8");
    let recording = Recording::begin(&[&name, "-o", bag], 1);
    recording.signal(Signal::STOP);
    wait_until("the recorder stands still", || recording.is_stopped());
    for number in 0..PUBLISHED {
        writer.publish(&meta, &image(number)).unwrap();
    }
    recording.signal(Signal::CONT);
    let ended = recording.interrupt().expect(3, &[]);
    assert!(ended.out.contains("lapped"), "{ended:?}");
    let info = run(&["info", bag, "--json"]).expect(0, &[]).json();
    let lapped = info["lost"]["lapped"].as_u64().unwrap();
    assert!(lapped >= PUBLISHED - 2, "{info}");
    assert_eq!(info["lost"]["total"], lapped);
    assert_eq!(info["message_count"].as_u64().unwrap() + lapped, PUBLISHED);
}

#[test]
fn streams_are_chosen_by_pattern_also_when_they_come_late() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("chosen");
    let bag = text(&bag);
    let (first, _writer) = stream(StreamOptions::bytes(100));
    let (left_out, _other) = stream(StreamOptions::bytes(100));
    let topic = format!("/late/{}", std::process::id());
    let pattern = format!("^({first}|{left_out})$|^{topic}$");
    let exclude = format!("^{left_out}$");
    let recording =
        Recording::begin(&["-e", &pattern, "--exclude-regex", &exclude, "-o", bag, "--json"], 1);
    let (_, mut late) = stream(StreamOptions::bytes(100).topic(&topic));
    late.publish(&FrameMeta::bytes(), b"the first frame counts").unwrap();
    wait_until("the late stream is recorded", || {
        run(&["info", bag, "--json"]).json()["message_count"] == 1
    });
    let summary = recording.interrupt().expect(0, &[]).json();
    let topics = summary["topics"].as_array().unwrap();
    let mut names: Vec<_> = topics.iter().map(|topic| topic["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    let first = format!("/{first}");
    assert_eq!(names, [first.as_str(), topic.as_str()]);
}

#[test]
fn a_duration_ends_it_and_a_name_that_never_came_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("nothing");
    let bag = text(&bag);
    let name = format!("cli-test-never-{}", std::process::id());
    let ended = run(&["record", &name, "/never/here", "-o", bag, "--duration", "0.1"]);
    let told = format!("{name} never appeared");
    let ended = ended.expect(3, &[&told, "/never/here never appeared"]);
    assert!(ended.out.contains("nothing was recorded"), "{ended:?}");
    run(&["info", bag]).expect(0, &[]);
    let latest = run(&["query", bag, "latest", "--last", "1s", "--count"]);
    assert_eq!(latest.expect(0, &["no messages"]).out, "0\n");
    let path = folder.path().join("empty.mcap");
    run(&["query", bag, "history", "-o", text(&path)]).expect(0, &["was not made"]);
    assert!(!path.exists());
}

#[test]
fn the_default_name_is_a_new_folder_here() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = livebag(&["record", "-e", "^no such stream$", "--duration", "0.05"]);
    let ended: Ended = command.current_dir(folder.path()).output().unwrap().into();
    ended.expect(3, &["recording into livebag_"]);
    let entries: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    let name = entries[0].as_ref().unwrap().file_name().into_string().unwrap();
    assert_eq!(entries.len(), 1);
    assert!(name.starts_with("livebag_20"), "{name}");
}

#[test]
fn streams_tells_rate_and_whether_the_writer_lives() {
    let (name, mut writer) = stream(StreamOptions::message("sensor_msgs/msg/Imu", 400));
    writer.publish(&FrameMeta::bytes(), &[7; 324]).unwrap();
    let find = || {
        let rows = run(&["streams", "--json", "--deadline", "1h"]).expect(0, &[]).json();
        rows.as_array().unwrap().iter().find(|row| row["name"] == name.as_str()).cloned()
    };
    let row = find().expect("it is listed");
    assert_eq!(row["writer"], "live");
    assert_eq!(row["writer_pid"], std::process::id());
    assert_eq!(row["type"], "sensor_msgs/msg/Imu");
    assert_eq!(row["published"], 1);
    assert!(row["newest_age_nanos"].is_u64());
    let human = run(&["streams"]).expect(0, &[]).out;
    assert!(human.contains(&name), "{human}");
    run(&["streams", "remove", &name]).expect(1, &["live writer"]);
    writer.close(false);
    assert_eq!(find().expect("it is still listed")["writer"], "gone");
    run(&["streams", "remove", &name]).expect(0, &[]);
    assert!(find().is_none());
}

#[test]
fn streams_shows_who_reads_and_what_was_missed() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    let (name, mut writer) = stream(StreamOptions::bytes(100).slots(4));
    let readers = || {
        let rows = run(&["streams", "--json", "--deadline", "1h"]).expect(0, &[]).json();
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name.as_str());
        row.unwrap()["readers"].clone()
    };
    assert_eq!(readers(), serde_json::json!([]), "the command itself is none");
    let mut slow = livebag_shm::Reader::open(&name).unwrap().labelled("slow\nviewer");
    slow.next();
    let recording = Recording::begin(&[&name, "-o", text(&bag)], 1);
    for _ in 0..20 {
        writer.publish(&FrameMeta::bytes(), b"frame").unwrap();
    }
    slow.next();
    let found = |label: &str| {
        let all = readers();
        let found = all.as_array().unwrap().iter().find(|reader| reader["label"] == label);
        found.cloned().unwrap_or_default()
    };
    let viewer = found("slow\u{fffd}viewer");
    assert_eq!(viewer["pid"], std::process::id());
    let counts = ["taken", "lapped", "behind", "last_sequence"].map(|key| viewer[key].as_u64());
    assert_eq!(counts, [1, 16, 3, 17].map(Some), "{viewer}");
    wait_until("the recorder has come to the last frame", || {
        let recorder = found("recorder");
        recorder["behind"] == 0 && recorder["last_sequence"] == 20
    });
    let human = run(&["streams"]).expect(0, &[]).out;
    let line = human.lines().find(|line| line.contains("viewer")).unwrap();
    assert!(line.starts_with(&name) && line.contains("  16  "), "{human}");
    recording.interrupt();
    assert_eq!(found("recorder"), serde_json::Value::Null, "it is gone");
}

#[test]
fn a_damaged_stream_is_told_and_does_not_stop_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("others");
    let (name, mut writer) = stream(StreamOptions::bytes(100));
    let damaged = format!("cli-test-damaged-{}", std::process::id());
    let object = format!("/dev/shm/livebag.{damaged}");
    std::fs::write(&object, vec![0x55; 20_000]).unwrap();
    let listed = run(&["streams", "--json"]);
    let recording = Recording::begin(&[&damaged, &name, "-o", text(&bag), "--json"], 1);
    writer.publish(&FrameMeta::bytes(), b"here").unwrap();
    let ended = recording.interrupt();
    // With a pattern, a damaged stream that appears later is named in a warning, once.
    let later = format!("{damaged}-later");
    let pattern = format!("^/{name}");
    let mut recording =
        Recording::begin(&["-e", &pattern, "-o", text(&folder.path().join("pattern"))], 1);
    let later_object = format!("/dev/shm/livebag.{later}");
    std::fs::write(&later_object, vec![0x55; 20_000]).unwrap();
    let line = recording.said_until(&later);
    assert!(line.contains("not recorded"), "{line}");
    let told = recording.interrupt();
    std::fs::remove_file(&later_object).unwrap();
    assert!(!told.err[told.err.find(&later).unwrap() + later.len()..].contains(&later), "{told:?}");
    std::fs::remove_file(&object).unwrap();
    let rows = listed.expect(0, &[]).json();
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == damaged.as_str());
    assert!(row.unwrap()["error"].as_str().unwrap().contains("not a livebag stream"), "{rows}");
    let told = [&*damaged, "not recorded", "not a livebag stream"];
    let summary = ended.expect(3, &told).json();
    assert_eq!(summary["missing"].as_array().unwrap().len(), 1);
}

/// With `--storage mcap` a recording is a bag of rosbag2 as well: one file for each split, and a
/// `metadata.yaml` that tells of them.
#[test]
fn a_direct_recording_is_a_rosbag2_bag_too() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let bag = text(&bag);
    let (camera, mut images) = stream(StreamOptions::image(WIDTH, HEIGHT, 1).slots(64));
    let (imu, mut samples) = stream(StreamOptions::message("sensor_msgs/msg/Imu", 400).slots(64));
    let recording = Recording::begin(&[&camera, &imu, "-o", bag, "--storage", "mcap"], 2);
    let mut publish = |from: u64| {
        for number in from..from + 10 {
            let meta = FrameMeta::image(WIDTH, HEIGHT, WIDTH, "mono8").frame_id("camera");
            images.publish(&meta, &image(number)).unwrap();
            samples.publish(&FrameMeta::bytes(), &[number as u8; 324]).unwrap();
        }
        wait_until("everything is committed", || {
            let answer = run(&["query", bag, "latest", "--last", "1h", "--count"]).expect(0, &[]);
            answer.out.trim() == (2 * (from + 10)).to_string()
        });
    };
    publish(0);
    run(&["ctl", bag, "split"]).expect(0, &[]);
    publish(10);
    recording.interrupt().expect(0, &[]);

    let files = ["run1_0.mcap", "split_0001/run1_1.mcap"];
    for file in files {
        assert!(folder.path().join("run1").join(file).is_file(), "{file}");
    }
    run(&["verify", bag]).expect(0, &[]);
    let metadata = std::fs::read_to_string(folder.path().join("run1/metadata.yaml")).unwrap();
    let files = ["run1_0.mcap", "run1_1.mcap"];
    for wanted in ["storage_identifier: mcap", "message_count: 40", files[0], files[1]] {
        assert!(metadata.contains(wanted), "{wanted}: {metadata}");
    }
    // Without livebag's own files it is still a whole bag.
    let copy = folder.path().join("copy");
    std::fs::create_dir_all(&copy).unwrap();
    for file in files.iter().chain(&["metadata.yaml"]) {
        std::fs::copy(folder.path().join("run1").join(file), copy.join(file)).unwrap();
    }
    let info = run(&["convert", text(&copy), text(&folder.path().join("back"))]).expect(0, &[]);
    drop(info);
    let info = run(&["info", text(&folder.path().join("back")), "--json"]).expect(0, &[]).json();
    assert_eq!(info["message_count"], 40);
}

/// A direct recording that is killed becomes a bag of rosbag2 by `recover`.
#[test]
fn a_direct_recording_that_was_killed_is_made_a_bag() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let bag = text(&bag);
    let (name, mut writer) = stream(StreamOptions::message("sensor_msgs/msg/Imu", 400).slots(64));
    let recording = Recording::begin(&[&name, "-o", bag, "--storage", "mcap"], 1);
    for number in 0..20 {
        writer.publish(&FrameMeta::bytes(), &[number; 324]).unwrap();
    }
    wait_until("everything is committed", || {
        let answer = run(&["query", bag, "latest", "--last", "1h", "--count"]).expect(0, &[]);
        answer.out.trim() == "20"
    });
    recording.signal(Signal::KILL);
    assert_ne!(recording.end().code, 0);
    let metadata = folder.path().join("run1/metadata.yaml");
    assert!(!metadata.exists());
    run(&["recover", bag]).expect(0, &[]);
    let said = std::fs::read_to_string(metadata).unwrap();
    assert!(said.contains("message_count: 20") && said.contains("run1_0.mcap"), "{said}");
    run(&["verify", bag]).expect(0, &[]);
}

/// Another user's stream could end the recording: the kernel kills a reader of memory that its owner has truncated.
#[test]
fn another_users_stream_cannot_end_a_recording() {
    use std::os::unix::fs::chown;

    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        crate::lacks_right::lacks_right("only root can give a stream to another user");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let (own, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let (foreign, mut attacker) = stream(StreamOptions::bytes(1000).slots(64));
    let region = format!("/dev/shm/livebag.{foreign}");
    chown(&region, Some(NOBODY), Some(NOBODY)).unwrap();
    let pattern = format!("^({own}|{foreign})$");
    let recording = Recording::begin(&["-e", &pattern, &foreign, "-o", text(&bag), "--json"], 1);
    attacker.publish(&FrameMeta::bytes(), &[0; 1000]).unwrap();
    std::fs::File::options().write(true).open(&region).unwrap().set_len(0).unwrap();
    let listed = run(&["streams", "--json"]).expect(0, &[]);
    assert!(!listed.out.contains(&format!("\"topic\": \"/{foreign}\"")), "{listed:?}");
    for _ in 0..10 {
        writer.publish(&FrameMeta::bytes(), &[1; 1000]).unwrap();
    }
    wait_until("its own stream is recorded all the same", || {
        run(&["info", text(&bag), "--json"]).json()["message_count"] == 10
    });
    let ended = recording.interrupt();
    assert!(ended.err.contains("belongs to the user 65534"), "{ended:?}");
    std::mem::forget(attacker);
    std::fs::remove_file(&region).unwrap();
    let _ = std::fs::remove_file(format!("{region}.wake"));
}

#[test]
fn streams_of_all_users_are_recorded_when_asked_for() {
    use std::os::unix::fs::chown;

    if !rustix::process::geteuid().is_root() {
        crate::lacks_right::lacks_right("only root can give a stream to another user");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let (foreign, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    chown(format!("/dev/shm/livebag.{foreign}"), Some(65_534), Some(65_534)).unwrap();
    let recording = Recording::begin(&[&foreign, "--all-users", "-o", text(&bag)], 1);
    writer.publish(&FrameMeta::bytes(), &[0; 1000]).unwrap();
    wait_until("it is recorded", || {
        run(&["info", text(&bag), "--json"]).json()["message_count"] == 1
    });
    recording.interrupt().expect(0, &[]);
}
