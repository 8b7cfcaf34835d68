//! Questions to recordings of every kind, and to one that grows.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use livebag_shm::{FrameMeta, StreamOptions, Writer};
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

/// A live recording `live` of one stream, with its first message.
struct Live {
    folder: tempfile::TempDir,
    name: String,
    writer: Writer,
    recording: Recording,
}

impl Live {
    fn begin() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("live");
        let (name, mut writer) = stream(StreamOptions::message("std_msgs/msg/UInt8", 8).slots(64));
        let recording = Recording::begin(&[&name, "-o", text(&path)], 1);
        Self::publish(&mut writer, 0);
        crate::common::wait_until("the first is recorded", || {
            run(&["info", text(&path), "--json"]).json()["message_count"] == 1
        });
        Self { folder, name, writer, recording }
    }

    fn publish(writer: &mut Writer, number: u8) {
        writer.publish(&FrameMeta::bytes(), &[0, 1, 0, 0, number]).unwrap();
    }
}

#[test]
fn new_messages_are_followed_until_the_recording_ends() {
    let Live { folder, mut writer, recording, .. } = Live::begin();
    let path = folder.path().join("live");
    let mut publish = |number| Live::publish(&mut writer, number);
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

#[test]
fn new_messages_are_followed_on_a_server() {
    let Live { folder, name, mut writer, recording } = Live::begin();
    let mut publish = |number| Live::publish(&mut writer, number);
    let (_server, url) = crate::remote::serve(folder.path());
    let url = format!("{}/live", url.trim_end_matches('/'));
    run(&["query", &url, "follow", "-t", "/none"]).expect(1, &["no topic /none"]);
    run(&["query", &url, "follow", "--count"]).expect(2, &["follow prints"]);
    let begin = |arguments: &[&str]| {
        let mut command = livebag(&["query", &url, "follow", "--last", "0s", "-t", &name]);
        let mut follower = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(follower.stdout.take().unwrap()).lines();
        (follower, lines.map(Result::unwrap))
    };
    let (mut decoded, mut values) = begin(&["--json", "--decode"]);
    let (mut listed, mut lines) = begin(&[]);
    for number in 0..20 {
        if number > 0 {
            publish(number);
        }
        let value: Value = serde_json::from_str(&values.next().unwrap()).unwrap();
        assert_eq!(value["value"]["data"], number);
        assert!(lines.next().unwrap().contains(&name));
    }
    recording.interrupt().expect(0, &[]);
    assert_eq!((values.next(), lines.next()), (None, None));
    assert!(decoded.wait().unwrap().success() && listed.wait().unwrap().success());
}

#[test]
fn a_server_tells_of_new_messages_as_events() {
    use std::io::Write;
    let Live { folder, name, mut writer, recording } = Live::begin();
    let mut publish = |number| Live::publish(&mut writer, number);
    let (_server, url) = crate::remote::serve(folder.path());
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let follow = |topic: &str| {
        let mut server = std::net::TcpStream::connect(address).unwrap();
        let path = format!("/v1/bags/live/follow?topic={topic}");
        write!(server, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").unwrap();
        BufReader::new(server).lines().map(Result::unwrap)
    };
    assert!(follow("none").next().unwrap().contains("404"));
    let mut lines = follow(&name);
    assert!(lines.next().unwrap().contains("200"));
    lines.find(|line| line == ": new messages follow").unwrap();
    let mut sequence = None;
    for number in 1..20 {
        publish(number);
        let line = lines.find(|line| line.starts_with("data: ")).unwrap();
        let told: Value = serde_json::from_str(line.trim_start_matches("data: ")).unwrap();
        assert_eq!(told["bytes"], 5);
        let this = told["sequence"].as_u64().unwrap();
        assert!(sequence.replace(this).is_none_or(|before| before + 1 == this), "{line}");
    }
    recording.interrupt().expect(0, &[]);
    let rest: Vec<String> = lines.filter(|line| line.starts_with(['d', 'e'])).collect();
    assert_eq!(rest, ["event: end", "data: {}"]);
}
