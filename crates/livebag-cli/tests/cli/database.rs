//! Recording into a bag of SQLite databases.

use std::path::Path;

use crate::common::{Recording, livebag, run, stream, text, wait_until};
use livebag_shm::{FrameMeta, StreamOptions, Writer};
use rustix::process::Signal;
use serde_json::Value;

fn publish(writer: &mut Writer, numbers: std::ops::Range<u64>, bytes: usize) {
    for number in numbers {
        writer.publish(&FrameMeta::bytes(), &vec![number as u8; bytes]).unwrap();
    }
}

fn status(bag: &str) -> Value {
    run(&["ctl", bag, "status", "--json"]).expect(0, &[]).json()
}

fn state_at_a_glance(bag: &str) -> Value {
    run(&["ls", bag, "--json"]).expect(0, &[]).json()[0]["state"].clone()
}

fn metadata_of(bag: &Path) -> String {
    std::fs::read_to_string(bag.join("metadata.yaml")).unwrap()
}

/// Messages of a bag by topic, read back by `convert`.
fn counts(bag: &Path, folder: &Path) -> Vec<(String, u64)> {
    let back = folder.join("back");
    run(&["convert", text(bag), text(&back)]).expect(0, &[]);
    let info = run(&["info", text(&back), "--json"]).expect(0, &[]).json();
    std::fs::remove_dir_all(&back).unwrap();
    let count = |topic: &Value| {
        let name = topic["name"].as_str().unwrap().to_owned();
        (name, topic["message_count"].as_u64().unwrap())
    };
    let mut counts: Vec<_> = info["topics"].as_array().unwrap().iter().map(count).collect();
    counts.sort();
    counts
}

#[test]
fn a_recording_of_databases_is_split_and_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run1");
    let bag = text(&path);
    let (imu, mut samples) = stream(StreamOptions::message("sensor_msgs/msg/Imu", 400).slots(64));
    let (camera, mut images) = stream(StreamOptions::image(640, 480, 1).slots(64));
    let arguments = [
        &*imu,
        &camera,
        "-o",
        bag,
        "--storage",
        "sqlite3",
        "--json",
        "--custom-data",
        "place=Graz",
    ];
    let recording = Recording::begin(&arguments, 2);
    let meta = FrameMeta::image(640, 480, 640, "mono8").frame_id("camera");
    let mut both = |from: u64| {
        publish(&mut samples, from..from + 20, 324);
        for number in from..from + 5 {
            images.publish(&meta, &vec![number as u8; 640 * 480]).unwrap();
        }
        let all = 25 * (from / 20 + 1);
        wait_until("everything is committed", || status(bag)["message_count"] == all);
    };
    both(0);
    assert_eq!(state_at_a_glance(bag), "live");
    run(&["ctl", bag, "split"]).expect(0, &[]);
    wait_until("a second file", || status(bag)["splits"] == 2);
    both(20);
    let summary = recording.interrupt().expect(0, &["recording into"]).json();
    assert_eq!((&summary["message_count"], &summary["lost"]["total"]), (&50.into(), &0.into()));
    assert_eq!(summary["storage"]["method"], "sqlite3");

    let mut files: Vec<_> = std::fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["metadata.yaml", "run1_0.db3", "run1_1.db3"], "and nothing of ours");
    let metadata = metadata_of(&path);
    for wanted in ["storage_identifier: sqlite3", "message_count: 50", "run1_1.db3", "Graz"] {
        assert!(metadata.contains(wanted), "{wanted}: {metadata}");
    }
    run(&["verify", bag]).expect(0, &[]);
    assert_eq!(state_at_a_glance(bag), "closed");
    let wanted = [(format!("/{imu}"), 40), (format!("/{camera}"), 10)];
    let mut wanted = wanted.to_vec();
    wanted.sort();
    assert_eq!(counts(&path, folder.path()), wanted);
}

/// With `--preset resilient` what SQLite has committed outlives the recorder; `recover` makes the
/// metadata anew.
#[test]
fn what_was_committed_outlives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run1");
    let bag = text(&path);
    let (name, mut writer) = stream(StreamOptions::message("sensor_msgs/msg/Imu", 400).slots(64));
    let arguments = [&*name, "-o", bag, "--storage", "sqlite3", "--preset", "resilient"];
    let recording = Recording::begin(&arguments, 1);
    publish(&mut writer, 0..30, 324);
    wait_until("everything is committed", || status(bag)["message_count"] == 30);
    recording.signal(Signal::KILL);
    assert_ne!(recording.end().code, 0);
    assert!(!path.join("metadata.yaml").exists());
    assert_eq!(state_at_a_glance(bag), "crashed");
    run(&["recover", bag]).expect(0, &[]);
    assert!(metadata_of(&path).contains("message_count: 30"), "{}", metadata_of(&path));
    assert_eq!(counts(&path, folder.path()), [(format!("/{name}"), 30)]);
}

/// Two files are kept; the metadata tells of those that are there.
#[test]
fn old_databases_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run1");
    let bag = text(&path);
    let (name, mut writer) = stream(StreamOptions::message("sensor_msgs/msg/Imu", 400).slots(64));
    let arguments = [&*name, "-o", bag, "--storage", "sqlite3", "--max-bag-files", "2"];
    let recording = Recording::begin(&arguments, 1);
    for round in 0..3 {
        publish(&mut writer, 10 * round..10 * (round + 1), 324);
        wait_until("ten more", || status(bag)["message_count"] == 10 * (round + 1));
        run(&["ctl", bag, "split"]).expect(0, &[]);
        wait_until("a file more", || status(bag)["splits"] == round + 2);
    }
    wait_until("the oldest are gone", || !path.join("run1_1.db3").exists());
    assert!(!path.join("run1_0.db3").exists());
    recording.interrupt().expect(0, &[]);
    let metadata = metadata_of(&path);
    assert!(metadata.contains("message_count: 10") && !metadata.contains("run1_1"), "{metadata}");
    run(&["verify", bag]).expect(0, &[]);
    assert!(metadata.contains("livebag.removed_splits"), "{metadata}");
    let info = run(&["info", bag, "--json"]).expect(0, &[]).json();
    assert_eq!(info["account"]["removed"], 20, "{info}");
    run(&["info", bag]).expect(0, &["2 splits with 20 messages were removed"]);
    assert_eq!(counts(&path, folder.path()), [(format!("/{name}"), 10)]);
}

/// Losses are in the exit code, the summary, and the metadata.
#[test]
fn losses_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run1");
    let bag = text(&path);
    let (name, mut writer) = stream(StreamOptions::message("sensor_msgs/msg/Imu", 400).slots(2));
    let arguments = [&*name, "-o", bag, "--storage", "sqlite3", "--json"];
    let recording = Recording::begin(&arguments, 1);
    recording.signal(Signal::STOP);
    wait_until("the recorder stands still", || recording.is_stopped());
    publish(&mut writer, 0..100, 324);
    recording.signal(Signal::CONT);
    let summary = recording.interrupt().expect(3, &[]).json();
    let lapped = summary["lost"]["lapped"].as_u64().unwrap();
    assert!(lapped >= 98, "{summary}");
    assert_eq!(summary["message_count"].as_u64().unwrap() + lapped, 100);
    let told = format!("livebag.lost/{name}: lapped {lapped}");
    assert!(metadata_of(&path).contains(&told), "{}", metadata_of(&path));
    let info = run(&["info", bag, "--json"]).expect(0, &[]).json();
    assert_eq!(info["account"], summary["account"], "{info}");
    assert_eq!(info["lost"], summary["lost"], "{info}");
    assert!(run(&["info", bag]).expect(0, &[]).out.contains("lapped"));
    // A copy tells the same, and so does a copy of the copy.
    let mut source = path.clone();
    for (number, storage) in
        ["container", "mcap", "container", "sqlite3", "mcap", "sqlite3", "container"]
            .iter()
            .enumerate()
    {
        let copy = folder.path().join(format!("copy{number}"));
        run(&["convert", text(&source), text(&copy), "-s", storage]).expect(0, &[]);
        let info = run(&["info", text(&copy), "--json"]).expect(0, &[]).json();
        assert_eq!(info["account"], summary["account"], "{storage}: {info}");
        // Of a part it is not known.
        let part = folder.path().join(format!("part{number}"));
        let arguments =
            ["convert", text(&copy), text(&part), "-s", storage, "--from", "2020-01-01T00:00:00Z"];
        run(&arguments).expect(0, &[]);
        let of_part = folder.path().join(format!("part{number}-container"));
        run(&["convert", text(&part), text(&of_part)]).expect(0, &[]);
        for part in [&part, &of_part] {
            let info = run(&["info", text(part), "--json"]).expect(0, &[]).json();
            assert_eq!(info["message_count"], summary["message_count"], "{storage}: {info}");
            assert_eq!(info["account"]["unknown"], serde_json::Value::Null, "{storage}: {info}");
            assert_eq!(info["account"]["lost"]["total"], serde_json::Value::Null, "{info}");
        }
        source = copy;
    }
}

#[test]
fn what_means_nothing_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    for (option, value) in [("--compression", "zstd"), ("--schedule", "cycle-aware")] {
        let command = ["record", "-a", "-o", text(&bag), "--storage", "sqlite3", option, value];
        run(&command).expect(2, &[&option[2..], "sqlite3"]);
    }
    assert!(!bag.exists());
    std::fs::create_dir(&bag).unwrap();
    let mut command = livebag(&["record", "-a", "-o", text(&bag), "--storage", "sqlite3"]);
    let taken = crate::common::Ended::from(command.output().unwrap());
    taken.expect(1, &["exists already"]);
}
