//! Retention: old splits, and messages of low priority.

use std::path::Path;

use crate::common::{Recording, run, stream, text, wait_until};
use livebag_shm::{FrameMeta, StreamOptions, Writer};
use serde_json::Value;

fn publish(writer: &mut Writer, count: u64, bytes: usize) {
    for number in 0..count {
        writer.publish(&FrameMeta::bytes(), &vec![number as u8; bytes]).unwrap();
    }
}

fn status(bag: &str) -> Value {
    run(&["ctl", bag, "status", "--json"]).expect(0, &[]).json()
}

fn info(bag: &str) -> Value {
    run(&["info", bag, "--json"]).expect(0, &[]).json()
}

/// Ten messages, a split, seven messages.
fn two_splits(bag: &str, max_age: &str) -> (Recording, Writer) {
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let recording = Recording::begin(&[&name, "-o", bag, "--max-age", max_age], 1);
    publish(&mut writer, 10, 100);
    wait_until("ten messages", || status(bag)["message_count"] == 10);
    run(&["ctl", bag, "split"]).expect(0, &[]);
    wait_until("a second split", || status(bag)["splits"] == 2);
    publish(&mut writer, 7, 100);
    wait_until("seven more", || status(bag)["message_count"] == 17);
    (recording, writer)
}

#[test]
fn splits_go_when_they_are_too_old() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let (recording, _writer) = two_splits(text(&bag), "0.01");
    wait_until("the first split is told of as gone", || {
        run(&["info", text(&bag)]).err.contains("1 split with 10 messages were removed")
    });
    let bricks = |folder: &Path| {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|end| end == "mcap")).count()
    };
    wait_until("its files are gone", || bricks(&bag) == 0);
    recording.interrupt().expect(0, &[]);
    // However old it is, the split being written stays.
    assert_eq!(bricks(&bag.join("split_0001")), 1);
    let info = info(text(&bag));
    assert_eq!((&info["state"], &info["message_count"]), (&"closed".into(), &7.into()));
    assert_eq!(info["lost"]["total"], 0, "what was removed was recorded");
    run(&["verify", text(&bag)]).expect(0, &[]);
}

#[test]
fn splits_stay_until_they_are_too_old() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let (recording, _writer) = two_splits(text(&bag), "1h");
    recording.interrupt().expect(0, &[]);
    assert_eq!(info(text(&bag))["message_count"], 17);
}

/// A flood of low priority takes no room in the ring from critical topics: a low topic may use half of the common part,
/// a critical one all of it.
#[test]
fn a_flood_of_low_priority_costs_a_critical_topic_nothing() {
    const CRITICAL: u64 = 30;
    const FLOOD: u64 = 300;
    const BYTES: usize = 30_000;
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let bag = text(&bag);
    let options = || StreamOptions::message("std_msgs/msg/UInt8MultiArray", BYTES).slots(512);
    let (flood, mut flooding) = stream(options());
    let (alarm, mut alarming) = stream(options());
    let rules = [format!("/{flood}:priority=low"), format!("/{alarm}:priority=critical")];
    let recording = Recording::begin(
        &[
            &*flood,
            &alarm,
            "-o",
            bag,
            "--snapshot-mode",
            "--max-cache-size",
            "4MiB",
            "--rule",
            &rules[0],
            "--rule",
            &rules[1],
        ],
        2,
    );
    publish(&mut flooding, FLOOD, BYTES);
    wait_until("the flood is in the ring", || status(bag)["cache_bytes"].as_u64() > Some(1 << 20));
    publish(&mut alarming, CRITICAL, BYTES);
    // The recorder takes published messages before it executes this command.
    run(&["ctl", bag, "snapshot"]).expect(0, &[]);
    wait_until("the ring is written", || status(bag)["message_count"].as_u64() > Some(CRITICAL));
    recording.interrupt();
    let info = info(bag);
    let topics = info["topics"].as_array().unwrap();
    let of = |name: &str| topics.iter().find(|topic| topic["name"] == format!("/{name}")).unwrap();
    assert_eq!(of(&alarm)["message_count"], CRITICAL, "{info}");
    assert_eq!(of(&alarm)["lost"]["total"], 0);
    let kept = of(&flood)["message_count"].as_u64().unwrap();
    assert!((1..FLOOD).contains(&kept), "{kept}");
}

/// A latched topic's message is in every split, and is counted once.
#[test]
fn repeated_messages_are_counted_apart() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let bag = text(&bag);
    let (map, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let topic = format!("/{map}");
    let recording = Recording::begin(&[&*map, "-o", bag, "--repeat-latched", &topic, "--json"], 1);
    publish(&mut writer, 3, 100);
    wait_until("three messages", || status(bag)["message_count"] == 3);
    for repeated in 1..=2 {
        run(&["ctl", bag, "split"]).expect(0, &[]);
        wait_until("one more", || status(bag)["repeated"] == repeated);
    }
    assert_eq!(status(bag)["message_count"], 5);
    let ended = recording.interrupt().expect(0, &[]);
    assert_eq!(ended.json()["topics"][0]["repeated"], 2);
    let told = info(bag);
    assert_eq!((&told["message_count"], &told["topics"][0]["repeated"]), (&5.into(), &2.into()));
    let human = run(&["info", bag]).expect(0, &[]).out;
    assert!(human.contains("2 repeated at the head"), "{human}");
    run(&["verify", bag]).expect(0, &[]);
}
