//! Every JSON output and answer keeps to the vocabulary of docs/json.md.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use livebag_shm::{FrameMeta, StreamOptions};
use serde_json::Value;

use crate::common::{Recording, run, stream, text, wait_until};
use crate::remote::serve;

/// The keys of the table's first column.
fn vocabulary() -> BTreeSet<&'static str> {
    let table =
        include_str!("../../../../docs/json.md").lines().filter(|line| line.starts_with("| `"));
    table.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2)).collect()
}

/// Whether the values of this key belong to users: topics, fields, metadata.
fn is_users(key: &str) -> bool {
    matches!(key, "value" | "metadata" | "damaged_by_topic")
}

fn check(what: &str, value: &Value, known: &BTreeSet<&str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| check(what, item, known)),
        Value::Object(fields) => {
            for (key, value) in fields {
                assert!(known.contains(key.as_str()), "{what}: {key} is not in docs/json.md");
                check_shape(what, key, value);
                if !is_users(key) {
                    check(what, value, known);
                }
            }
        }
        _ => {}
    }
}

fn check_shape(what: &str, key: &str, value: &Value) {
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = value.is_null()
        || match key {
            "lost" => value.is_object(),
            _ if key.ends_with("_time") => value.as_str().is_some_and(is_digits),
            "bytes" | "damaged" => value.is_u64(),
            _ if key.ends_with("_nanos") || key.ends_with("_bytes") || key.ends_with("_count") => {
                value.is_u64()
            }
            _ => true,
        };
    assert!(fits, "{what}: {key} is {value}");
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn get(address: &str, path: &str) -> Value {
    let mut server = TcpStream::connect(address).unwrap();
    write!(server, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    server.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).expect(path)
}

#[test]
fn the_same_thing_has_the_same_key_in_every_output() {
    let known = vocabulary();
    let check = |what: &str, value: &Value| check(what, value, &known);
    let folder = tempfile::tempdir().unwrap();
    let (run1, copy) = (folder.path().join("run1"), folder.path().join("copy"));
    let (name, mut writer) = stream(StreamOptions::message("std_msgs/msg/UInt8", 8).slots(64));
    let options = [&name, "-o", text(&run1), "--json", "--stats=100ms"];
    let recording = Recording::begin(&options, 1);
    for number in 0..5 {
        writer.publish(&FrameMeta::bytes(), &[0, 1, 0, 0, number]).unwrap();
    }
    let status = || run(&["ctl", text(&run1), "status", "--json"]).json();
    wait_until("all are recorded", || status()["message_count"] == 5);
    check("ctl", &status());
    check("info, live", &run(&["info", text(&run1), "--json"]).json());
    check("streams", &run(&["streams", "--json"]).json());
    let said = recording.interrupt().expect(0, &[]).out;
    let stream = serde_json::Deserializer::from_str(&said).into_iter::<Value>();
    stream.for_each(|value| check("record", &value.unwrap()));

    for verb in ["info", "verify", "recover"] {
        check(verb, &run(&[verb, text(&run1), "--json"]).json());
    }
    check("convert", &run(&["convert", text(&run1), text(&copy), "-s", "mcap", "--json"]).json());
    check("info, foreign", &run(&["info", text(&copy), "--json"]).json());
    check("ls", &run(&["ls", text(folder.path()), "--json"]).json());
    for more in [&["--json"][..], &["--json", "--decode"]] {
        let asked = run(&[&["query", text(&run1), "history"], more].concat()).expect(0, &[]);
        lines(&asked.out).iter().for_each(|line| check("query", line));
    }
    check("query --summary", &run(&["query", text(&run1), "history", "--count", "--json"]).json());

    let (_server, url) = serve(folder.path());
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    for path in ["/v1/status", "/v1/bags", "/v1/bags/run1", "/v1/bags/run1?schemas=true"] {
        check(path, &get(address, path));
    }
    check("ls of a server", &run(&["ls", &url, "--json"]).json());
    check("info of a server", &run(&["info", &format!("{url}/run1"), "--json"]).json());

    let described: Value =
        serde_json::from_str(include_str!("../../../livebag-net/src/http/openapi.json")).unwrap();
    check_described(&described["components"]["schemas"], &known);
}

/// Every property that openapi.json names.
fn check_described(schema: &Value, known: &BTreeSet<&str>) {
    match schema {
        Value::Object(fields) => {
            for key in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
                assert!(known.contains(key.0.as_str()), "openapi.json: {} is not known", key.0);
            }
            fields.values().for_each(|value| check_described(value, known));
        }
        Value::Array(items) => items.iter().for_each(|item| check_described(item, known)),
        _ => {}
    }
}
