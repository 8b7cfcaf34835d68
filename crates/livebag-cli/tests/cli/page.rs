//! What the page shows, asked of real recorders and servers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use livebag_shm::{FrameMeta, StreamOptions};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::{Recording, run, stream, text, wait_until};
use crate::remote::serve;

/// Longest wait for an answer's next byte: it only ends a test that would hang.
const DEADLINE: Duration = Duration::from_secs(120);

/// An answer after its head.
fn ask(base: &str, target: &str) -> (String, BufReader<TcpStream>) {
    let address = base.strip_prefix("http://").expect("an address");
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(DEADLINE)).unwrap();
    let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    connection.write_all(head.as_bytes()).unwrap();
    let mut answer = BufReader::new(connection);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(answer.read_line(&mut head).unwrap() > 0, "{target}: {head}");
    }
    assert!(head.starts_with("HTTP/1.1 200"), "{target}: {head}");
    (head.to_ascii_lowercase(), answer)
}

fn body(base: &str, target: &str) -> Vec<u8> {
    let (head, mut answer) = ask(base, target);
    let mut body = Vec::new();
    if !head.contains("transfer-encoding: chunked") {
        answer.read_to_end(&mut body).unwrap();
        return body;
    }
    loop {
        let mut line = String::new();
        answer.read_line(&mut line).unwrap();
        let count = u64::from_str_radix(line.trim(), 16).unwrap();
        answer.by_ref().take(count).read_to_end(&mut body).unwrap();
        answer.read_line(&mut line).unwrap();
        if count == 0 {
            return body;
        }
    }
}

fn get(base: &str, target: &str) -> Value {
    serde_json::from_slice(&body(base, target)).unwrap()
}

/// The events of `/v1/bags/NAME/events`, in order.
struct Statuses(BufReader<TcpStream>);

impl Statuses {
    fn of(base: &str) -> Self {
        Self(ask(base, "/v1/bags/run1/events").1)
    }

    /// The next one that is so; `None` once the recording has ended.
    fn until(&mut self, is_so: impl Fn(&Value) -> bool) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap_or(0) == 0 || line.trim() == "event: end" {
                return None;
            }
            // Between them are the lengths of chunks.
            let data = line.strip_prefix("data: ").map(serde_json::from_str::<Value>);
            if let Some(Ok(status)) = data
                && is_so(&status)
            {
                return Some(status);
            }
        }
    }
}

#[test]
fn a_recorder_and_a_server_beside_it_tell_how_it_goes_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run1");
    let bag = text(&path);
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let recording = Recording::begin(&[&name, "-o", bag, "--serve", "127.0.0.1:0"], 1);
    let url = recording.said().split_whitespace().find(|word| word.starts_with("http://"));
    let own = url.unwrap().strip_suffix("/run1").unwrap().to_owned();
    let (_server, beside) = serve(folder.path());
    let bases = [&*own, &*beside];
    let mut told = bases.map(Statuses::of);
    for number in 0..10 {
        writer.publish(&FrameMeta::bytes(), &[number; 100]).unwrap();
    }
    for (base, statuses) in bases.iter().zip(&mut told) {
        let status = statuses.until(|status| status["message_count"] == 10).unwrap();
        assert_eq!((&status["state"], &status["paused"]), (&json!("live"), &json!(false)));
        assert!(status["cache_bytes"].is_u64() && status["slot_bytes"].is_u64(), "{status}");
        // The bound is known beside the recorder alone.
        assert_eq!(status["cache_bytes_max"].is_u64(), *base == own, "{status}");
        assert_eq!((&status["lost"]["total"], &status["splits"]), (&json!(0), &json!(1)));
        assert_eq!(status["topics"][0]["lost"]["total"], 0);
    }
    run(&["ctl", bag, "pause"]).expect(0, &[]);
    run(&["ctl", bag, "event", "near miss", "--text", "words"]).expect(0, &[]);
    for (base, statuses) in bases.iter().zip(&mut told) {
        statuses.until(|status| status["paused"] == true).unwrap();
        // Its event is marked, and in the file that viewers open, both while it is written.
        let marks = get(base, "/v1/bags/run1/timeline")["marks"].clone();
        assert_eq!((&marks[0]["kind"], &marks[0]["name"]), (&json!("event"), &json!("near miss")));
        let file = folder.path().join("whole.mcap");
        wait_until("the event is in the file", || {
            std::fs::write(&file, body(base, "/bags/run1.mcap")).unwrap();
            let events =
                run(&["info", text(&file), "--json"]).expect(0, &[]).json()["events"].clone();
            events[0]["name"] == "near miss" && events[0]["text"] == "words"
        });
    }
    run(&["ctl", bag, "resume"]).expect(0, &[]);
    run(&["ctl", bag, "split"]).expect(0, &[]);
    writer.publish(&FrameMeta::bytes(), &[1; 100]).unwrap();
    let is_on = |status: &Value| status["paused"] == false && status["splits"] == 2;
    for statuses in &mut told {
        statuses.until(|status| is_on(status) && status["message_count"] == 11).unwrap();
    }
    recording.interrupt().expect(0, &[]);
    let [_, mut beside] = told;
    let last = beside.until(|status| status["state"] == "closed").unwrap();
    assert_eq!(last["message_count"], 11);
    assert_eq!(beside.until(|_| true), None, "it ends with the recording");
}

/// A recorder that is stopped loses what its stream's slots do not hold; the timeline shows it at that time.
#[test]
fn what_a_stalled_recorder_lost_is_shown_where_it_stalled() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run1");
    let bag = text(&path);
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(4));
    let recording = Recording::begin(&[&name, "-o", bag], 1);
    let recorded = || run(&["ctl", bag, "status", "--json"]).json()["message_count"].as_u64();
    let mut publish = |count: u64| {
        for _ in 0..count {
            writer.publish(&FrameMeta::bytes(), &[7; 100]).unwrap();
        }
    };
    publish(1);
    wait_until("the message before", || recorded() == Some(1));
    recording.signal(Signal::STOP);
    wait_until("the recorder stands", || recording.is_stopped());
    publish(50);
    let stalled = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    recording.signal(Signal::CONT);
    wait_until("it has gone on", || recorded() > Some(1));
    publish(1);
    recording.interrupt().expect(3, &[]);

    let (_server, base) = serve(folder.path());
    let timeline = get(&base, "/v1/bags/run1/timeline");
    let info = run(&["info", bag, "--json"]).json();
    let lane = &timeline["topics"][0];
    let spans = lane["lost"].as_array().unwrap();
    let placed: u64 = spans.iter().map(|span| span["count"].as_u64().unwrap()).sum();
    let unplaced = lane["lost_unplaced"]["total"].as_u64().unwrap();
    assert_eq!(json!(placed + unplaced), info["topics"][0]["lost"]["total"], "{lane} {info}");
    assert!(placed >= 40, "of 50 messages four are left: {lane}");
    let time = |value: &Value| value.as_str().unwrap().parse::<u64>().unwrap();
    let is_there =
        |span: &&Value| time(&span["from_time"]) <= stalled && stalled <= time(&span["to_time"]);
    assert!(spans.iter().any(|span| is_there(&span)), "{stalled} is in none of {spans:?}");
}
