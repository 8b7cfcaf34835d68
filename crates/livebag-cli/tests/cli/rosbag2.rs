//! Bags as `ros2 bag convert` and `reindex` know them: its options, its compression, its errors.

use std::path::{Path, PathBuf};

use livebag::{Message, Overflow, Recorder, RecorderOptions, Topic};
use livebag_bags::{Rosbag2Options, Rosbag2Storage, SinkOptions, open_any, to_rosbag2};
use serde_json::Value;

use crate::common::{run, text};

const COUNT: u64 = 30;

/// A container with `/a` and `/b`, a message each every 100 ms, from `start` on.
fn container(folder: &Path, name: &str, start: u64) -> PathBuf {
    let path = folder.join(name);
    let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
    let recorder = Recorder::create(&path, options).unwrap();
    for name in ["/a", "/b"] {
        let topic = Topic {
            name: name.into(),
            type_name: "std_msgs/msg/String".into(),
            message_encoding: "cdr".into(),
            schema_encoding: "ros2msg".into(),
            schema: b"string data".to_vec(),
            ..Topic::default()
        };
        let writer = recorder.topic(topic).unwrap();
        for number in 0..COUNT {
            let time = start + number * 100_000_000;
            let data = b"\0\x01\0\0\x03\0\0\0hi\0";
            let message =
                Message { log_time_nanos: time, publish_time_nanos: time, sequence: 0, data };
            writer.write_message(&message).unwrap();
        }
    }
    recorder.finish().unwrap();
    path
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn count(bag: &Path) -> Value {
    run(&["info", text(bag), "--json"]).expect(0, &[]).json()["message_count"].clone()
}

#[test]
fn compressed_and_split_bags_are_made_told_verified_and_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let source = container(folder.path(), "source", 1_000_000_000);
    for (storage, mode, suffix) in [
        ("mcap", "file", "mcap.zstd"),
        ("sqlite3", "file", "db3.zstd"),
        ("sqlite3", "message", "db3"),
    ] {
        let bag = folder.path().join(format!("{storage}-{mode}"));
        let how = ["--storage", storage, "--compression-mode", mode, "-d", "1"];
        run(&[&["convert", text(&source), text(&bag)][..], &how].concat()).expect(0, &[]);
        let stem = format!("{storage}-{mode}");
        let mut expected: Vec<_> = (0..3).map(|n| format!("{stem}_{n}.{suffix}")).collect();
        expected.push("metadata.yaml".to_owned());
        expected.sort();
        assert_eq!(names(&bag), expected);
        assert_eq!(count(&bag), 2 * COUNT);
        let info = run(&["info", text(&bag)]).expect(0, &[]).out;
        assert!(info.contains(&format!("compressed by {mode}")), "{info}");
        run(&["verify", text(&bag)]).expect(0, &[]);
        std::fs::remove_file(bag.join("metadata.yaml")).unwrap();
        let listed = run(&["ls", text(folder.path()), "--json"]).expect(0, &[]).out;
        assert!(listed.contains("crashed"), "{listed}");
        let report = run(&["recover", text(&bag), "--json"]).expect(0, &[]).json();
        assert_eq!(
            (&report["action"], &report["message_count"]),
            (&"reindexed".into(), &(2 * COUNT).into())
        );
        let back = folder.path().join("back");
        run(&["convert", text(&bag), text(&back)]).expect(0, &[]);
        assert_eq!(count(&back), 2 * COUNT);
        std::fs::remove_dir_all(&back).unwrap();
    }
}

#[test]
fn several_inputs_and_outputs_by_rosbag2s_yaml() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (
        container(folder.path(), "first", 1_000_000_000),
        container(folder.path(), "second", 2_000_000_000),
    );
    let file = folder.path().join("outputs.yaml");
    let at = folder.path().display();
    let yaml = format!(
        "output_bags:\n- uri: {at}/all\n  storage_id: sqlite3\n  all: true\n  max_cache_size: 1000\n\
         - uri: {at}/part\n  topics: [/a]\n  start_time_ns: 2000000000\n  end_time_ns: 2999999999\n\
         - uri: {at}/ours\n  storage_id: container\n  regex: b$\n"
    );
    std::fs::write(&file, yaml).unwrap();
    let inputs = folder.path().join("inputs.yaml");
    std::fs::write(&inputs, format!("input_bags:\n- {{uri: {at}/second, storage_id: \"\"}}\n"))
        .unwrap();
    let ask = [
        "convert",
        "-i",
        text(&first),
        "container",
        "--input-options",
        text(&inputs),
        "-o",
        text(&file),
    ];
    let ended = run(&[&ask[..], &["--json"]].concat()).expect(0, &[]);
    let counts: Vec<_> =
        ended.json().as_array().unwrap().iter().map(|one| one["message_count"].as_u64()).collect();
    assert_eq!(counts, [Some(4 * COUNT), Some(20), Some(2 * COUNT)]);
    assert_eq!(count(&folder.path().join("ours")), 2 * COUNT);
    run(&ask).expect(1, &["exists already"]);
    // The same without a file of outputs: OUT first, since -i takes two words.
    let out = folder.path().join("merged");
    run(&["convert", text(&out), "-i", text(&first), "-i", text(&second)]).expect(0, &[]);
    assert_eq!(count(&out), 4 * COUNT);
}

#[test]
fn what_is_wrong_in_options_is_named_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let source = container(folder.path(), "source", 1_000_000_000);
    let out = folder.path().join("out");
    let file = folder.path().join("outputs.yaml");
    let refused = |yaml: &str, words: &[&str]| {
        std::fs::write(&file, yaml.replace("OUT", text(&out))).unwrap();
        run(&["convert", "-i", text(&source), "-o", text(&file)]).expect(1, words);
        assert!(!out.exists());
    };
    refused(
        "output_bags:\n- uri: OUT\n  all: true\n  max_bagfile_sise: 1\n",
        &["yaml:4", "max_bagfile_sise"],
    );
    refused("output_bags:\n- uri: OUT\n", &["selection of topics"]);
    refused("output_bags:\n- all: true\n", &["uri is missing"]);
    refused("output_bags:\n- uri: OUT\n  all: true\n  storage_id: tape\n", &["yaml:4", "sqlite3"]);
    refused("output_bags:\n- uri: OUT\n  all: true\n  compression_mode: message\n", &["chunks"]);
    refused("output_bags:\n- uri: OUT\n  regex: \"[\"\n", &["regular expression"]);
    refused("output_bags: []\n", &["at least one"]);
    refused("- uri: OUT\n", &["keys with values"]);
    let ask = |more: &[&str], words: &[&str]| {
        run(&[&["convert", text(&source), text(&out)][..], more].concat()).expect(2, words);
        assert!(!out.exists());
    };
    ask(&["--storage", "mcap", "--compression-mode", "message"], &["sqlite3"]);
    ask(&["--storage", "container", "-b", "1MB"], &["--storage mcap"]);
    ask(&["-o", text(&file)], &["leave", "out"]);
    run(&["convert", text(&source)]).expect(2, &["OUT"]);
    run(&["convert"]).expect(2, &["IN and OUT"]);
}

#[test]
fn ros1_messages_are_re_encoded_and_those_that_cannot_be_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ros1");
    let options = RecorderOptions {
        overflow: Overflow::Block,
        profile: "ros1".into(),
        ..RecorderOptions::default()
    };
    let recorder = Recorder::create(&path, options).unwrap();
    let topic = Topic {
        name: "/chatter".into(),
        type_name: "std_msgs/String".into(),
        message_encoding: "ros1".into(),
        schema_encoding: "ros1msg".into(),
        schema: b"string data".to_vec(),
        ..Topic::default()
    };
    let writer = recorder.topic(topic).unwrap();
    for (time, data) in [(1, &b"\x02\0\0\0hi"[..]), (2, b"\x09\0\0\0hi")] {
        let message = Message { log_time_nanos: time, publish_time_nanos: time, sequence: 0, data };
        writer.write_message(&message).unwrap();
    }
    recorder.finish().unwrap();
    let out = folder.path().join("ros2");
    let ended = run(&["convert", text(&path), text(&out), "--to-ros2", "--json"]);
    let summary = ended.expect(3, &["/chatter", "left out"]).json();
    assert_eq!((&summary["damaged"], &summary["message_count"]), (&1.into(), &1.into()));
    assert_eq!(summary["storage"], "mcap");
    let yaml = std::fs::read_to_string(out.join("metadata.yaml")).unwrap();
    assert!(yaml.contains("std_msgs/msg/String") && yaml.contains("RIHS01_df668c74"), "{yaml}");
    // Kept as they are without the option.
    let kept = folder.path().join("kept");
    let storage = Rosbag2Storage::Mcap(SinkOptions::default());
    to_rosbag2(
        &mut *open_any(&path).unwrap(),
        &kept,
        storage,
        Rosbag2Options::default(),
        &mut |_| {},
    )
    .unwrap();
    let source = open_any(&kept).unwrap();
    assert_eq!((source.profile(), &*source.topics()[0].message_encoding), ("ros1", "ros1"));
}
