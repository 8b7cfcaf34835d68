//! The account of messages: the same everywhere, and never 0 if it is unknown.

use livebag_shm::{FrameMeta, StreamOptions};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Recording, run, stream, text, wait_until};

/// The equation, with the printed numbers.
#[track_caller]
fn check(account: &Value) {
    let of = |name: &str| account[name].as_u64().unwrap_or_else(|| panic!("{name}: {account}"));
    let kept = of("recorded") + of("removed") + of("damaged") - of("repeated");
    let rest = of("skipped") + account["lost"]["total"].as_u64().unwrap() + of("unknown");
    assert_eq!(of("published"), kept + rest, "{account}");
}

#[test]
fn every_place_tells_the_same_account() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let bag = text(&bag);
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let arguments = [&name, "-o", bag, "--max-bag-files", "2", "--stats", "0.05", "--json"];
    let recording = Recording::begin(&arguments, 1);
    let status = || run(&["ctl", bag, "status", "--json"]).expect(0, &[]).json();
    let mut published = 0;
    let mut publish = |count: u64| {
        for _ in 0..count {
            writer.publish(&FrameMeta::bytes(), &[7; 100]).unwrap();
            published += 1;
        }
        let expected = published;
        wait_until("all are counted", || status()["account"]["published"] == expected);
    };
    publish(10);
    for count in [20, 30] {
        run(&["ctl", bag, "split"]).expect(0, &[]);
        publish(count);
    }
    wait_until("the first split is removed", || status()["account"]["removed"] == 10);
    run(&["ctl", bag, "pause"]).expect(0, &[]);
    publish(5);
    let told = status();
    check(&told["account"]);
    assert_eq!(told["topics"][0]["account"], told["account"], "one topic is all of it");
    run(&["ctl", bag, "stop"]).expect(0, &[]);
    let ended = recording.end().expect(0, &[]);
    // The lines of --stats, and then the summary over several lines.
    let (lines, summary) = ended.out.split_at(ended.out.find("\n{\n").unwrap() + 1);
    let summary: Value = serde_json::from_str(summary).unwrap();
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    check(&last["topics"][0]["account"]);
    let info = run(&["info", bag, "--json"]).expect(0, &[]).json();
    for whole in [&summary, &info] {
        assert_eq!(whole["account"], told["account"], "{whole}");
        assert_eq!(whole["topics"][0]["account"], told["account"], "{whole}");
    }
    let of = |name: &str| told["account"][name].as_u64().unwrap();
    assert_eq!(["published", "recorded", "removed", "skipped"].map(of), [65, 50, 10, 5]);
    assert_eq!(summary["removed_splits"], 1);
    let shown = run(&["info", bag]).expect(0, &[]).out;
    assert!(shown.contains("10 removed with old splits, 5 left out"), "{shown}");
}

#[test]
fn what_a_dead_recorder_lost_is_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let bag = text(&bag);
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let mut recording = Recording::begin(&[&name, "-o", bag], 1);
    writer.publish(&FrameMeta::bytes(), &[7; 100]).unwrap();
    wait_until("it is there", || run(&["query", bag, "latest", "--count"]).out == "1\n");
    recording.signal(Signal::KILL);
    wait_until("it is dead", || recording.has_ended());
    let info = run(&["info", bag, "--json"]).expect(0, &[]).json();
    assert_eq!(info["state"], "recovered");
    let account = &info["account"];
    assert!(account["published"].is_null() && account["unknown"].is_null(), "{account}");
    assert!(account["unknown_since_time"].is_string(), "{account}");
    assert!(info["lost"]["total"].is_null(), "{info}");
    let shown = run(&["info", bag]).expect(0, &[]).out;
    assert!(shown.contains("not known"), "{shown}");
    assert!(!shown.contains("nothing lost"), "{shown}");
}

#[test]
fn what_does_not_come_is_said_while_it_can_be_mended() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let (name, _writer) = stream(StreamOptions::bytes(1000));
    let typo = format!("{name}x");
    let mut command = crate::common::livebag(&["record", &name, &typo, "-o", text(&bag)]);
    command.arg("--json");
    let mut recording = Recording::begin_command(command, 1);
    recording.said_until(&format!("waiting for {typo}"));
    let ended = recording.interrupt().expect(3, &["never appeared", "no message came"]);
    assert!(ended.err.contains(&format!("did you mean /{name}?")), "{ended:?}");
    assert_eq!(ended.json()["missing"].as_array().unwrap().len(), 2);
}
