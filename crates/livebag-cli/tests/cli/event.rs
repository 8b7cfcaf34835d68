//! Named moments and time ranges, from adding to every place that lists them.

use std::io::Write;

use crate::common::{Ended, Recording, run, stream, text, wait_until};
use livebag_shm::{FrameMeta, StreamOptions};
use serde_json::{Value, json};

fn names(events: &Value) -> Vec<&str> {
    let events = events.as_array().unwrap().iter();
    events.map(|event| event["name"].as_str().unwrap()).collect()
}

#[test]
fn events_are_added_while_recording_and_afterwards_and_listed_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run1");
    let bag = text(&path);
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let recording = Recording::begin(&[&name, "-o", bag], 1);
    writer.publish(&FrameMeta::bytes(), &[7; 100]).unwrap();
    wait_until("the message", || {
        run(&["ctl", bag, "status", "--json"]).expect(0, &[]).json()["message_count"] == 1
    });

    let said = run(&["ctl", bag, "event", "near miss", "--text", "a\nb", "--json"]).expect(0, &[]);
    let event = &said.json()["event"];
    assert_eq!((&event["name"], &event["text"]), (&json!("near miss"), &json!("a\nb")));
    assert_eq!(event["from_time"], event["to_time"]);
    run(&["ctl", bag, "event", "so far", "--from", "+0s"]).expect(0, &[]);
    // The recorder adds it for this command, too.
    run(&["event", bag, "first second", "--from", "+0s", "--to", "+1s"]).expect(0, &[]);
    run(&["ctl", bag, "split"]).expect(0, &[]);
    run(&["ctl", bag, "event", "in the second split"]).expect(0, &[]);
    run(&["ctl", bag, "event"]).expect(2, &["NAME"]);
    run(&["ctl", bag, "event", ""]).expect(1, &["1 to"]);
    run(&["ctl", bag, "pause", "name"]).expect(2, &["event"]);
    let live = run(&["event", bag, "--list", "--json"]).expect(0, &[]).json();
    assert_eq!(live.as_array().unwrap().len(), 4);
    recording.interrupt().expect(0, &[]);

    run(&["event", bag, "afterwards", "--from", "5", "--to", "4"]).expect(2, &["exchange"]);
    let said = run(&["event", bag, "afterwards", "--from", "4", "--text", "words"]).expect(0, &[]);
    assert!(said.out.contains("words"), "{said:?}");
    let events = run(&["event", bag, "--list", "--json"]).expect(0, &[]).json();
    assert_eq!(
        events[0],
        json!({"name": "afterwards", "text": "words", "from_time": "4", "to_time": "4"})
    );
    assert_eq!(names(&events).len(), 5);
    assert_eq!(run(&["info", bag, "--json"]).expect(0, &[]).json()["events"], events);
    assert!(run(&["info", bag]).expect(0, &[]).out.contains("near miss"));
    assert_eq!(run(&["ls", bag, "--json"]).expect(0, &[]).json()[0]["event_count"], 5);
    run(&["verify", bag]).expect(0, &[]);

    // As MCAP's metadata, and back.
    let (mcap, back) = (folder.path().join("mcap"), folder.path().join("back"));
    run(&["convert", bag, text(&mcap)]).expect(0, &[]);
    assert_eq!(run(&["info", text(&mcap), "--json"]).expect(0, &[]).json()["events"], events);
    run(&["convert", text(&mcap), text(&back)]).expect(0, &[]);
    assert_eq!(run(&["event", text(&back), "--list", "--json"]).expect(0, &[]).json(), events);
    let sqlite: Ended =
        run(&["convert", bag, text(&folder.path().join("db")), "--storage", "sqlite3"]);
    sqlite.expect(0, &["livebag.event"]);
}

#[test]
fn a_kill_leaves_events_and_a_cut_line_is_named_and_costs_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run1");
    let bag = text(&path);
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let recording = Recording::begin(&[&name, "-o", bag], 1);
    writer.publish(&FrameMeta::bytes(), &[7; 100]).unwrap();
    run(&["ctl", bag, "event", "before the kill"]).expect(0, &[]);
    recording.signal(rustix::process::Signal::KILL);
    recording.end();
    let file = path.join("container.events");
    let mut cut = std::fs::OpenOptions::new().append(true).open(file).unwrap();
    cut.write_all(b"0123abcd {\"name\":\"cut").unwrap();
    run(&["recover", bag]).expect(0, &[]);
    run(&["event", bag, "after", "--from", "+0s"]).expect(0, &[]);
    let events = run(&["event", bag, "--list", "--json"]).expect(0, &[]).json();
    assert_eq!(names(&events).len(), 2, "{events}");
    let said = run(&["verify", bag]).expect(1, &[]);
    assert!(said.out.contains("container.events: 1 of its lines"), "{said:?}");
}
