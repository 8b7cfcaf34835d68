//! Questions to recordings of every kind, and to one that grows.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use livebag_shm::{FrameMeta, StreamOptions};
use serde_json::Value;

use crate::common::{Recording, livebag, run, stream, text};
use crate::names::recording;

#[test]
fn recordings_of_other_makes_are_asked_without_being_converted() {
    let folder = tempfile::tempdir().unwrap();
    let (path, topic) = recording(folder.path(), "drive");
    let (bag, old) = (folder.path().join("bag"), folder.path().join("old"));
    run(&["convert", text(&path), text(&bag)]).expect(0, &[]);
    run(&["convert", text(&path), text(&old), "-s", "sqlite3"]).expect(0, &[]);
    let expected = run(&["query", text(&path), "history", "--json"]).expect(0, &[]).out;
    let first: Value = serde_json::from_str(expected.lines().next().unwrap()).unwrap();
    for source in [&bag, &bag.join("bag_0.mcap"), &old] {
        let count = |arguments: &[&str]| {
            let line = [&["query", text(source)][..], arguments, &["--count"]].concat();
            run(&line).expect(0, &[]).out.trim().to_owned()
        };
        assert_eq!(count(&["history"]), "5", "{}", source.display());
        assert_eq!(count(&["history", "--from", "+1h"]), "0");
        assert_eq!(count(&["latest", "--last", "1h"]), "5");
        assert_eq!(count(&["latest", "--last", "0s", "-t", &topic]), "1");
        let lines = run(&["query", text(source), "history", "--json"]).expect(0, &[]).out;
        let line: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert_eq!(line["log_time"], first["log_time"]);
        let part = folder.path().join("part.mcap");
        run(&["query", text(source), "history", "-o", text(&part)]).expect(0, &[]);
        std::fs::remove_file(&part).unwrap();
        run(&["query", text(source), "auto"]).expect(2, &["latest --last"]);
        run(&["query", text(source), "follow"]).expect(2, &["does not grow"]);
    }
}

#[test]
fn new_messages_are_followed_until_the_recording_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live");
    let (name, mut writer) = stream(StreamOptions::message("std_msgs/msg/UInt8", 8).slots(64));
    let recording = Recording::begin(&[&name, "-o", text(&path)], 1);
    let mut publish = |number| writer.publish(&FrameMeta::bytes(), &[0, 1, 0, 0, number]).unwrap();
    publish(0);
    crate::common::wait_until("the first is recorded", || {
        run(&["info", text(&path), "--json"]).json()["message_count"] == 1
    });
    let mut command =
        livebag(&["query", text(&path), "follow", "--last", "0s", "--json", "--decode"]);
    let mut follower = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut next =
        || -> Option<Value> { Some(serde_json::from_str(&lines.next()?.unwrap()).unwrap()) };
    for number in 0..20 {
        if number > 0 {
            publish(number);
        }
        // It comes while nothing follows it: no line waits in a buffer.
        assert_eq!(next().unwrap()["value"]["data"], number);
    }
    recording.interrupt().expect(0, &[]);
    assert_eq!(next(), None);
    assert!(follower.wait().unwrap().success());
    run(&["query", text(&path), "follow"]).expect(0, &["is not being recorded"]);
}
