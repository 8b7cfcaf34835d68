//! What a running recorder is told, by `ctl` and by signals.

use crate::common::{Recording, run, stream, text, wait_until};
use livebag_shm::{FrameMeta, StreamOptions, Writer};
use rustix::process::Signal;
use serde_json::Value;

fn publish(writer: &mut Writer, count: u64) {
    for number in 0..count {
        writer.publish(&FrameMeta::bytes(), &[number as u8; 100]).unwrap();
    }
}

fn status(bag: &str) -> Value {
    run(&["ctl", bag, "status", "--json"]).expect(0, &[]).json()
}

#[test]
fn a_recorder_pauses_splits_and_stops_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let bag = text(&bag);
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let recording = Recording::begin(&[&name, "-o", bag, "--stats", "0.05"], 1);
    publish(&mut writer, 10);
    wait_until("ten messages", || status(bag)["messages"] == 10);

    run(&["ctl", bag, "pause"]).expect(0, &[]);
    assert_eq!(status(bag)["paused"], true);
    publish(&mut writer, 5);
    wait_until("five left out", || status(bag)["skipped"] == 5);
    run(&["ctl", bag, "resume"]).expect(0, &[]);
    assert_eq!(status(bag)["messages"], 10, "what came in the pause is not recorded");

    run(&["ctl", bag, "split"]).expect(0, &[]);
    wait_until("a second split", || status(bag)["splits"] == 2);
    recording.signal(Signal::USR1);
    wait_until("a third split", || status(bag)["splits"] == 3);
    publish(&mut writer, 7);
    wait_until("seven more", || status(bag)["messages"] == 17);

    run(&["ctl", bag, "snapshot"]).expect(1, &["snapshot"]);
    run(&["ctl", bag, "stop"]).expect(0, &[]);
    let ended = recording.end().expect(0, &[]);
    let lines: Vec<Value> =
        ended.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(lines.iter().any(|line| line["paused"] == true), "{}", ended.out);
    assert!(lines.iter().all(|line| line["topics"].is_array()));

    let info = run(&["info", bag, "--json"]).expect(0, &[]).json();
    assert_eq!((&info["state"], &info["message_count"]), (&"closed".into(), &17.into()));
    run(&["ctl", bag, "status"]).expect(1, &["no recorder"]);
    run(&["verify", bag]).expect(0, &[]);
}

#[test]
fn a_ring_goes_to_the_disk_on_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let bag = text(&bag);
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let recording = Recording::begin(&[&name, "-o", bag, "--snapshot-mode"], 1);
    publish(&mut writer, 20);
    wait_until("the ring holds them", || status(bag)["cache_bytes"].as_u64() > Some(20 * 100));
    assert_eq!(status(bag)["messages"], 0);
    recording.signal(Signal::USR2);
    wait_until("the ring is written", || status(bag)["messages"] == 20);
    recording.interrupt().expect(0, &[]);
}

#[test]
fn throttled_messages_are_left_out_and_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let bag = text(&bag);
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let throttle = format!("/{name}=0.001");
    let recording = Recording::begin(&[&name, "-o", bag, "--throttle", &throttle], 1);
    publish(&mut writer, 30);
    wait_until("all but one left out", || status(bag)["skipped"] == 29);
    recording.interrupt().expect(0, &[]);
    let info = run(&["info", bag, "--json"]).expect(0, &[]).json();
    assert_eq!(info["message_count"], 1);
}
