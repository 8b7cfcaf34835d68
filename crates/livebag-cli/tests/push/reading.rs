//! Recordings read from a store: the same answers as from the disk, with few requests.

use std::os::unix::fs::FileExt;
use std::path::Path;

use livebag::{Message, Overflow, Recorder, RecorderOptions, Topic};

use crate::run::{Ended, in_store, livebag, push, record};
use crate::store::{Fault, Store};

const SECOND: u64 = 1_000_000_000;
const RUN1: &str = "s3://fleet/robot7/run1";

fn ask(store: &Store, arguments: &[&str]) -> Ended {
    in_store(store, livebag(arguments)).output().unwrap().into()
}

fn here(arguments: &[&str]) -> Ended {
    livebag(arguments).output().unwrap().into()
}

/// Ten seconds of two cameras (100 MB) and an IMU at 600 Hz, straight into the store.
fn drive(store: &Store) {
    let path = store.place("robot7/run1");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let options = RecorderOptions {
        overflow: Overflow::Block,
        chunk_age_max: None,
        checksum: true,
        ..RecorderOptions::default()
    };
    let recorder = Recorder::create(&path, options).unwrap();
    let topic = |name: &str| {
        let topic = Topic { name: name.into(), message_encoding: "cdr".into(), ..Topic::default() };
        recorder.topic(topic).unwrap()
    };
    let cameras = [topic("/camera_left"), topic("/camera_right")];
    let imu = topic("/imu");
    let frame = vec![7; 1 << 20];
    for number in 0..6_000 {
        let nanos = SECOND + number * SECOND / 600;
        let sample = [number as u8; 324];
        let message = |sequence, data| Message {
            log_time_nanos: nanos,
            publish_time_nanos: nanos,
            sequence,
            data,
        };
        imu.write_message(&message(number, &sample)).unwrap();
        if number % 120 == 0 {
            let image = message(number / 120, &frame);
            cameras.iter().for_each(|camera| camera.write_message(&image).unwrap());
        }
    }
    recorder.finish().unwrap();
    // As `livebag push` leaves it.
    std::fs::remove_file(path.join("container.lock")).unwrap();
    let _ = std::fs::remove_file(path.join("container.reserve"));
}

fn bytes_of(store: &Store, name: &str) -> u64 {
    std::fs::metadata(store.place(&format!("robot7/run1/{name}"))).unwrap().len()
}

#[test]
fn one_topic_costs_four_requests_and_its_own_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    drive(&store);
    let own = (bytes_of(&store, "imu.mcap") + bytes_of(&store, "imu.idx")) as f64;
    let whole = bytes_of(&store, "camera_left.mcap") as f64 * 2.0 + own;
    assert!(whole > 100e6 && own < whole / 30.0, "{own} of {whole}");
    let out = folder.path().join("imu.mcap");
    let out = out.to_str().unwrap();
    ask(&store, &["query", RUN1, "history", "-t", "imu", "-o", out]).expect(0, &["6,000 messages"]);
    let seen = store.take_seen();
    assert!(seen.len() <= 4, "{seen:#?}");
    let got = store.take_given_bytes() as f64;
    assert!(got <= own * 1.02, "{got} bytes for {own}");
    let local = store.place("robot7/run1");
    let (local, again) = (local.to_str().unwrap(), folder.path().join("again.mcap"));
    let again = again.to_str().unwrap();
    here(&["query", local, "history", "-t", "imu", "-o", again]).expect(0, &[]);
    assert!(std::fs::read(out).unwrap() == std::fs::read(again).unwrap(), "the same file");
}

#[test]
fn a_second_of_a_camera_and_the_newest_messages_cost_what_they_are() {
    let store = Store::start();
    drive(&store);
    let frames = 6 << 20;
    let second = ["history", "-t", "/camera_left", "--from", "1970-01-01T00:00:03Z"];
    let to = ["--to", "1970-01-01T00:00:04Z", "--json", "--decode"];
    let ended = ask(&store, &[&["query", RUN1], &second[..], &to].concat()).expect(0, &[]);
    assert_eq!(ended.out.lines().count(), 6);
    let (requests, got) = (store.take_seen().len(), store.take_given_bytes());
    assert!(requests <= 6 && got < frames + (1 << 20), "{requests} requests, {got} bytes");
    let newest = ["query", RUN1, "latest", "--last", "0s", "--json", "--decode"];
    assert_eq!(ask(&store, &newest).expect(0, &[]).out.lines().count(), 1, "of the IMU");
    let (requests, got) = (store.take_seen().len(), store.take_given_bytes());
    assert!(requests <= 10 && got < 5 << 20, "{requests} requests, {got} bytes");
    // Only the index.
    let count = ["query", RUN1, "history", "-t", "/camera_left", "--count"];
    ask(&store, &count).expect(0, &["50"]);
    let (requests, got) = (store.take_seen().len(), store.take_given_bytes());
    assert!(requests <= 3 && got < 1 << 20, "{requests} requests, {got} bytes");
}

/// A pushed recording with splits, and a copy of it.
fn pushed(folder: &Path, store: &Store) -> String {
    let bag = record(folder, "run1", 30, 1);
    let event = ["event", bag.to_str().unwrap(), "bump", "--from", "+0s"];
    here(&event).expect(0, &[]);
    push(store, &bag, &[]).expect(0, &["verified"]);
    assert!(store.place("robot7/run1/split_0001/container.yaml").exists());
    bag.to_str().unwrap().to_owned()
}

#[test]
fn a_recording_with_splits_answers_as_it_does_on_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = pushed(folder.path(), &store);
    for question in [
        &["query", RUN1, "history", "--json"][..],
        &["query", RUN1, "latest", "--last", "1h", "--json", "-t", "/imu"],
        &["query", RUN1, "history", "--from", "+0s", "--count", "--json"],
    ] {
        let local: Vec<_> = question.iter().map(|w| if *w == RUN1 { &*bag } else { w }).collect();
        let (there, here) = (ask(&store, question).expect(0, &[]), here(&local).expect(0, &[]));
        let without_times = |text: &str| -> String {
            let timed = |line: &&str| !line.contains("_nanos\"") && !line.contains("age");
            text.lines().filter(timed).collect()
        };
        assert_eq!(without_times(&there.out), without_times(&here.out), "{question:?}");
    }
    let info = |ended: Ended| -> serde_json::Value {
        let mut info: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        for changes in ["path", "files", "size_bytes"] {
            info.as_object_mut().unwrap().remove(changes).unwrap();
        }
        info
    };
    let there = ask(&store, &["info", RUN1, "--json"]).expect(0, &[]);
    assert!(there.out.contains("split_0001/imu.mcap"), "{there:?}");
    let there = info(there);
    assert_eq!(there["events"][0]["name"], "bump");
    assert_eq!(there, info(here(&["info", &bag, "--json"])));
    ask(&store, &["info", RUN1]).expect(0, &["s3://fleet/robot7/run1", "in 2 splits"]);
    let follow = ["query", RUN1, "follow"];
    ask(&store, &follow).expect(2, &["does not grow"]);
}

#[test]
fn a_single_file_is_read_by_its_own_index() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 20, 1);
    let file = folder.path().join("drive.mcap");
    let (bag, path) = (bag.to_str().unwrap(), file.to_str().unwrap());
    here(&["query", bag, "history", "-o", path]).expect(0, &[]);
    push(&store, &file, &[]).expect(0, &["verified"]);
    let (there, question) = ("s3://fleet/robot7/drive.mcap", ["history", "-t", "/imu", "--json"]);
    let ended = ask(&store, &[&["query", there], &question[..]].concat()).expect(0, &[]);
    assert_eq!(ended.out, here(&[&["query", path], &question[..]].concat()).out);
    assert_eq!(ended.out.lines().count(), 20);
    ask(&store, &["info", there]).expect(0, &["MCAP file", "/image"]);
    std::fs::write(store.place("robot7/notes.txt"), b"dear diary").unwrap();
    ask(&store, &["info", "s3://fleet/robot7/notes.txt"]).expect(1, &["is no recording"]);
}

#[test]
fn every_failure_of_reading_has_its_word() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 2, 1);
    push(&store, &bag, &[]).expect(0, &["verified"]);
    let question = ["query", RUN1, "history", "--json", "--decode"];
    ask(&store, &question).expect(0, &["/image"]);
    let gone = "s3://fleet/robot7/run2";
    ask(&store, &["info", gone]).expect(1, &["no recording of that name", gone]);
    ask(&store, &["info", "s3://nowhere/run1"]).expect(1, &["no such bucket"]);
    ask(&store, &["info", "s3://fleet/robot7"]).expect(1, &["give the address of one recording"]);
    ask(&store, &["info", "s3://KEY:SECRET@fleet/run1"]).expect(2, &["do not belong"]);
    let secret = |secret: &str| {
        let mut command = in_store(&store, livebag(&["info", RUN1]));
        Ended::from(command.env("AWS_SECRET_ACCESS_KEY", secret).output().unwrap())
    };
    secret("wrong").expect(1, &["does not accept the credentials"]);
    for (status, code, words) in [
        (403, "AccessDenied", "do not allow this"),
        (412, "PreconditionFailed", "replaced in the store"),
        (404, "NoSuchKey", "removed from the store"),
    ] {
        store.fail(move |seen| match seen.what.contains("image.mcap") {
            true => Fault::Refuse(status, code),
            false => Fault::None,
        });
        ask(&store, &question).expect(1, &[words, "s3://fleet/robot7/run1/image.mcap"]);
    }
    // A link that breaks, and a store that is busy for a moment, are asked again.
    for fault in [Fault::CutAfter, Fault::Refuse(503, "SlowDown")] {
        let mut count = 0;
        store.fail(move |_| {
            count += 1;
            if count % 2 == 0 { fault } else { Fault::None }
        });
        ask(&store, &question).expect(0, &["/image"]);
    }
    store.fail(|_| Fault::Refuse(503, "SlowDown"));
    ask(&store, &question).expect(1, &["busy or broken", "asked again in vain"]);
    store.work();
    // An object of another length than was listed.
    let image = store.place("robot7/run1/image.mcap");
    let contents = std::fs::read(&image).unwrap();
    store.fail(move |seen| {
        if seen.what.contains("image.idx") {
            std::fs::write(&image, &contents[1..]).unwrap();
        }
        Fault::None
    });
    ask(&store, &question).expect(1, &["replaced in the store"]);
    store.work();
    std::fs::remove_file(store.place("robot7/run1/container.yaml")).unwrap();
    ask(&store, &["info", RUN1]).expect(1, &["is not complete", "livebag push"]);
}

#[test]
fn damage_in_the_store_is_found_and_left_out() {
    let store = Store::start();
    drive(&store);
    let brick = store.place("robot7/run1/camera_left.mcap");
    let brick = std::fs::OpenOptions::new().write(true).open(brick).unwrap();
    brick.write_all_at(b"damage", 20 << 20).unwrap();
    let index = store.place("robot7/run1/camera_right.idx");
    std::fs::write(index, [0; 480]).unwrap();
    let question = ["query", RUN1, "history", "-t", "/camera_left", "--json", "--decode"];
    let ended = ask(&store, &question).expect(3, &["damaged: 1 message"]);
    assert_eq!(ended.out.lines().count(), 49);
    // An index that makes no sense costs its topic's messages, and no other topic anything.
    let question = ["query", RUN1, "history", "--count", "--json"];
    let ended = ask(&store, &question).expect(3, &["damaged: 50 messages"]);
    assert!(ended.out.contains("\"message_count\": 6050"), "{ended:?}");
}

#[test]
fn a_recording_in_a_store_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 2, 1);
    push(&store, &bag, &[]).expect(0, &["verified"]);
    let bag = bag.to_str().unwrap();
    let verified = |ended: Ended| -> serde_json::Value {
        let mut verified: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        for changes in ["path", "elapsed_nanos"] {
            verified.as_object_mut().unwrap().remove(changes).unwrap();
        }
        verified
    };
    let there = verified(ask(&store, &["verify", RUN1, "--json"]).expect(0, &[]));
    assert_eq!(there, verified(here(&["verify", bag, "--json"]).expect(0, &[])));
    let file = folder.path().join("drive.mcap");
    here(&["query", bag, "history", "-o", file.to_str().unwrap()]).expect(0, &[]);
    push(&store, &file, &[]).expect(0, &["verified"]);
    let there = "s3://fleet/robot7/drive.mcap";
    ask(&store, &["verify", there]).expect(0, &["whole", "MCAP file"]);
    // A byte is changed in the store.
    let index = store.place("robot7/run1/imu.idx");
    let index = std::fs::OpenOptions::new().write(true).open(index).unwrap();
    index.write_all_at(b"damage", 100).unwrap();
    ask(&store, &["verify", RUN1]).expect(1, &["damaged in", "imu.idx"]);
    std::fs::write(store.place("robot7/a.db3"), b"SQLite format 3\0 and more").unwrap();
    for verb in ["verify", "info"] {
        ask(&store, &[verb, "s3://fleet/robot7/a.db3"]).expect(1, &["copy it here first"]);
    }
}

#[test]
fn a_recording_in_a_store_is_converted_and_played_but_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = pushed(folder.path(), &store);
    let out = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (there, copy) = (out("there"), out("here"));
    ask(&store, &["convert", RUN1, &there]).expect(0, &[]);
    here(&["convert", &bag, &copy]).expect(0, &[]);
    let lines = |bag: &str| here(&["query", bag, "history", "--json"]).expect(0, &[]).out;
    assert_eq!(lines(&there), lines(&copy));
    ask(&store, &["export", RUN1, &out("tables"), "--csv", "-t", "/nothing"])
        .expect(1, &["no topic /nothing"]);
    let remap = format!("/imu:=/played_{}", std::process::id());
    let play = ["play", RUN1, "-t", "/imu", "--rate", "100", "--json", "-m", &remap];
    ask(&store, &play).expect(0, &["\"message_count\": 30"]);
    ask(&store, &["event", RUN1, "--list"]).expect(0, &["bump"]);
    for changing in [&["recover", RUN1][..], &["event", RUN1, "x", "--from", "+0s"]] {
        ask(&store, changing).expect(2, &["are only read", "copy the recording here"]);
    }
}
