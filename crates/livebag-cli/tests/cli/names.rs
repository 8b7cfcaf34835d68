//! Habits of `ros2 bag`, names that are almost right, several recordings at once.

use livebag_shm::{FrameMeta, StreamOptions};

use crate::common::{Ended, Recording, livebag, run, stream, text};

/// A closed recording of one topic with five messages; its path, and the name of the topic.
pub fn recording(folder: &std::path::Path, name: &str) -> (std::path::PathBuf, String) {
    let path = folder.join(name);
    let (stream, mut writer) = stream(StreamOptions::message("std_msgs/msg/UInt8", 8).slots(16));
    let recording = Recording::begin(&[&stream, "-o", text(&path)], 1);
    for number in 0..5 {
        writer.publish(&FrameMeta::bytes(), &[0, 1, 0, 0, number]).unwrap();
    }
    crate::common::wait_until("five are recorded", || {
        run(&["info", text(&path), "--json"]).json()["message_count"] == 5
    });
    recording.interrupt().expect(0, &[]);
    let info = run(&["info", text(&path), "--json"]).json();
    (path, info["topics"][0]["name"].as_str().unwrap().to_owned())
}

#[test]
fn names_of_ros2_bag_record_are_taken_or_answered() {
    let profile = |arguments: &[&str]| {
        let mut line = vec!["record", "-a", "--print-profile"];
        line.extend(arguments);
        run(&line)
    };
    let ended = profile(&["-x", "depth", "--storage-preset-profile", "zstd_fast"]).expect(0, &[]);
    assert!(ended.out.contains("exclude-regex: depth"), "{}", ended.out);
    assert!(ended.out.contains("preset: zstd_fast"), "{}", ended.out);
    let file = ["--compression-mode", "file", "--compression-format", "zstd"];
    let ended = profile(&file).expect(0, &["livebag compresses chunks"]);
    assert!(ended.out.contains("compression: zstd"), "{}", ended.out);
    let ignored = ["--compression-queue-size", "1", "--log-level", "debug", "-f", "cdr"];
    profile(&ignored).expect(0, &["--compression-queue-size has no effect", "--log-level has no"]);
    profile(&["--compression-threads", "0", "--compression-format", "zstd"]).expect(0, &[]);
    profile(&["--storage-config-file", "a.yaml"]).expect(2, &["--compression-level"]);
    profile(&["-f", "json"]).expect(2, &["is not cdr"]);
}

#[test]
fn flags_that_were_called_otherwise_are_taken_with_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none");
    run(&["doctor", "--dir", text(&missing)]).expect(1, &["--dir is called", "does not exist"]);
    if cfg!(feature = "demo") {
        let out = missing.join("demo");
        run(&["demo", "--seconds", "1", "--dir", text(&out)])
            .expect(1, &["--seconds is called --duration now", "--dir is called -o now"]);
        run(&["demo", "--seconds", "1", "--duration", "1"]).expect(2, &["cannot be used with"]);
    }
    run(&["record", "-a", "--stats", "cam"]).expect(2, &["--stats=1"]);
    run(&["play", "--clock", "run1"]).expect(2, &["--clock=40"]);
    run(&["record", "--serve", "127.0.0.1:x", "cam"]).expect(2, &["--serve=127.0.0.1:8767"]);
    let profile = run(&["record", "--topics", "/imu", "--print-profile"]).expect(0, &[]).out;
    assert_eq!(run(&["record", "-t", "/imu", "--print-profile"]).expect(0, &[]).out, profile);
    assert_eq!(run(&["record", "--topic", "/imu", "--print-profile"]).expect(0, &[]).out, profile);
}

#[test]
fn a_name_that_is_almost_right_is_answered_with_the_right_one() {
    let folder = tempfile::tempdir().unwrap();
    let (path, topic) = recording(folder.path(), "drive");
    let wrong = folder.path().join("drve");
    for verb in
        [&["info", text(&wrong)][..], &["ls", text(&wrong)], &["query", text(&wrong), "latest"]]
    {
        run(verb).expect(1, &["does not exist", "did you mean", "drive?"]);
    }
    let typo = format!("{topic}x");
    let meant = format!("did you mean {topic}?");
    run(&["query", text(&path), "latest", "-t", &typo]).expect(1, &[&meant]);
    let out = folder.path().join("out");
    run(&["convert", text(&path), text(&out), "-t", &typo]).expect(1, &[&meant]);
    assert!(!out.exists());
}

#[test]
fn several_recordings_are_shown_listed_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let (one, topic) = recording(folder.path(), "one");
    let (two, _) = recording(folder.path(), "two");
    let infos = run(&["info", text(&one), text(&two), "--json"]).expect(0, &[]).json();
    assert_eq!(infos.as_array().unwrap().len(), 2);
    let rows = run(&["ls", text(&one), text(&two), "--json"]).expect(0, &[]).json();
    assert_eq!(rows.as_array().unwrap().len(), 2);
    let reports = run(&["verify", text(&one), text(&two), "--json"]).expect(0, &[]).json();
    assert!(reports.as_array().unwrap().iter().all(|report| report["whole"] == true));
    let gone = folder.path().join("gone");
    let ended = run(&["info", text(&gone), text(&two), "--json"]).expect(1, &["does not exist"]);
    assert_eq!(ended.json()[0]["message_count"], 5);
    let bare = topic.trim_start_matches('/');
    let sorted = ["info", text(&one), "-t", bare, "--sort", "count", "-s", "mcap", "--json"];
    assert_eq!(run(&sorted).expect(0, &[]).json()["topics"][0]["name"], topic);
}

#[test]
fn convert_chooses_topics_and_times_as_query_does() {
    let folder = tempfile::tempdir().unwrap();
    let (path, topic) = recording(folder.path(), "drive");
    let converted = |name: &str, arguments: &[&str]| {
        let out = folder.path().join(name);
        let mut line = vec!["convert", text(&path), "-o", text(&out), "--json"];
        line.extend(arguments);
        run(&line).expect(0, &[]).json()["message_count"].as_u64().unwrap()
    };
    assert_eq!(converted("all", &["-t", topic.trim_start_matches('/')]), 5);
    assert_eq!(converted("late", &["--from", "+1h"]), 0);
    assert_eq!(converted("early", &["--from", "+0s", "--to", "+1h"]), 5);
    assert_eq!(converted("none", &["-x", "cli"]), 0);
    let file = folder.path().join("file.mcap");
    run(&["convert", text(&path), text(&file)]).expect(2, &["leave .mcap out", "livebag query"]);
}

#[test]
fn an_empty_answer_makes_no_file_and_force_replaces_one() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = recording(folder.path(), "drive");
    let part = folder.path().join("part.mcap");
    let ask = |more: &[&str]| {
        run(&[&["query", text(&path), "history", "-o", text(&part)], more].concat())
    };
    ask(&["--from", "+1h"]).expect(0, &["was not made"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    ask(&[]).expect(0, &[]);
    ask(&[]).expect(1, &["exists already", "--force"]);
    ask(&["--force"]).expect(0, &[]);
}

#[test]
fn what_dead_programs_left_is_no_topic_and_can_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (live, mut writer) = stream(StreamOptions::message("std_msgs/msg/UInt8", 8).slots(16));
    let dead = format!("{live}-dead");
    let options = StreamOptions::message("std_msgs/msg/UInt8", 8).slots(16);
    drop(livebag_shm::Writer::create(&dead, &options).unwrap());
    let path = folder.path().join("run");
    let recording = Recording::begin(&["-e", &live, "-o", text(&path), "--throttle", "/nope=5"], 1);
    writer.publish(&FrameMeta::bytes(), &[0, 1, 0, 0, 7]).unwrap();
    crate::common::wait_until("it is recorded", || {
        run(&["info", text(&path), "--json"]).json()["message_count"] == 1
    });
    // Its writer restarts: then it is a topic.
    let mut back = livebag_shm::Writer::create(&dead, &options).unwrap();
    crate::common::wait_until("the other one is recorded, too", || {
        back.publish(&FrameMeta::bytes(), &[0, 1, 0, 0, 8]).unwrap();
        let info = run(&["info", text(&path), "--json"]).json();
        info["topics"].as_array().unwrap().len() == 2
    });
    recording.interrupt().expect(0, &["--throttle /nope had no effect"]);
    drop(back);
    // Only these two: other tests have dead streams.
    let ended = run(&["streams", "remove", "--gone", &dead, &live]).expect(0, &[]);
    assert!(ended.out.contains(&dead), "{ended:?}");
    assert!(livebag_shm::list().unwrap().contains(&live));
    run(&["record", "-a", "-o", ""]).expect(2, &["--output is empty"]);
}

/// A path is bytes, and need not be UTF-8.
#[test]
fn a_recording_may_be_called_anything() {
    use std::os::unix::ffi::OsStringExt;
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = recording(folder.path(), "run");
    let odd = folder.path().join(std::ffi::OsString::from_vec(b"a b\xff\n".to_vec()));
    std::fs::rename(&path, &odd).unwrap();
    for arguments in [&["info"][..], &["ls"], &["verify"], &["query"], &["play"]] {
        let mut command = livebag(arguments);
        command.arg(&odd);
        if arguments == ["query"] {
            command.args(["history", "--count"]);
        }
        Ended::from(command.output().unwrap()).expect(0, &[]);
    }
}
