//! The catalogue that pushes write.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::run::{Ended, bytes, livebag, push, record};
use crate::store::{BUCKET, Fault, KEY, SECRET, Store};

/// A command on the store.
fn on(store: &Store, arguments: &[&str]) -> Ended {
    let mut command = livebag(arguments);
    command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
    command.env("AWS_ENDPOINT_URL", &store.endpoint);
    command.output().unwrap().into()
}

fn json(store: &Store, arguments: &[&str]) -> Vec<Value> {
    let ended = on(store, &[arguments, &["--json"]].concat()).expect(0, &[]);
    serde_json::from_str(&ended.out).unwrap()
}

fn place() -> String {
    format!("s3://{BUCKET}/robot7")
}

/// The Parquet objects below a folder.
fn objects(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => found.extend(objects(&path)),
            false if path.extension().is_some_and(|end| end == "parquet") => found.push(path),
            false => {}
        }
    }
    found.sort();
    found
}

#[test]
fn a_push_adds_the_recordings_topics_and_find_finds_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let (one, two) = (record(folder.path(), "run1", 30, 1), record(folder.path(), "run2", 1, 2));
    on(&store, &["ls", &place()]).expect(1, &["has no catalogue", "livebag catalog rebuild"]);
    push(&store, &one, &["--robot", "r7"]).expect(0, &["verified"]);
    push(&store, &two, &["--robot", "r8"]).expect(0, &["verified"]);

    let rows = json(&store, &["find", &place()]);
    assert_eq!(rows.len(), 6, "two topics in two splits and in one: {rows:#?}");
    let last = rows.iter().find(|row| row["split"] == 1 && row["topic"] == "/imu").unwrap();
    assert_eq!(last["address"], "s3://fleet/robot7/run1");
    assert_eq!(last["robot"], "r7");
    assert_eq!(last["kind"], "container");
    assert_eq!(last["lost"]["queue"], 0);
    let messages: u64 = rows
        .iter()
        .filter(|row| row["recording"] == "run1" && row["topic"] == "/imu")
        .map(|row| row["message_count"].as_u64().unwrap())
        .sum();
    assert_eq!(messages, 30);
    // Objects, sizes and checksums are those in the store.
    for file in rows.iter().flat_map(|row| row["files"].as_array().unwrap()) {
        let stored = store.place("robot7").join(file["key"].as_str().unwrap());
        assert_eq!(stored.metadata().unwrap().len(), file["bytes"].as_u64().unwrap());
        let sums = std::process::Command::new("sha256sum").arg(&stored).output().unwrap();
        let sums = String::from_utf8(sums.stdout).unwrap();
        assert!(sums.starts_with(file["sha256"].as_str().unwrap()));
    }

    let count = |more: &[&str]| json(&store, &[&["find", &place()], more].concat()).len();
    assert_eq!(count(&["--topic", "imu"]), 3);
    assert_eq!(count(&["--topic", "/im*"]), 6);
    assert_eq!(count(&["--robot", "r8"]), 2);
    assert_eq!(count(&["--recording", "run1", "--topic", "/image"]), 2);
    assert_eq!(count(&["--lost"]), 0);
    assert_eq!(count(&["--type", "sensor_msgs/msg/Image"]), 0);
    // A split may begin between the last messages: the other topic has none in it, and no times.
    let times = |key: &str| -> Vec<_> {
        rows.iter().filter_map(|row| row[key].as_str().map(str::to_owned)).collect()
    };
    let (starts, ends) = (times("start_time"), times("end_time"));
    let (first, end) = (starts.iter().min().unwrap().clone(), ends.iter().max().unwrap());
    assert_eq!(count(&["--from", &first, "--to", end]), starts.len());
    assert_eq!(count(&["--from", "2100-01-01T00:00:00Z"]), 0);
    assert!(count(&["--to", &first]) >= 1 && count(&["--to", &first]) < 6);
    on(&store, &["find", &place(), "--from", "+1s"]).expect(2, &["after a recording's start"]);
    on(&store, &["find", &place(), "--from", "5", "--to", "3"]).expect(2, &["exchange them"]);
    on(&store, &["find", &place()]).expect(0, &["s3://fleet/robot7/run1", "/image", "r8"]);
    // Of all robots of a fleet.
    assert_eq!(json(&store, &["find", "s3://fleet", "--robot", "r7"]).len(), 4);

    let listed = json(&store, &["ls", &place()]);
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0]["path"], "s3://fleet/robot7/run1");
    assert_eq!(listed[0]["message_count"], 60);
    assert_eq!(listed[0]["size_bytes"], bytes(&one));
}

#[test]
fn a_lost_catalogue_is_made_anew_by_pushing_again_and_from_the_manifests() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 30, 1);
    let file = folder.path().join("drive.mcap");
    std::fs::copy(bag.join("imu.mcap"), &file).unwrap();
    // A store that takes the recording and not its rows.
    store.fail(|seen| match seen.puts() {
        Some(key) if key.starts_with("robot7/_livebag") => Fault::Refuse(403, "AccessDenied"),
        _ => Fault::None,
    });
    push(&store, &bag, &["--robot", "r7"]).expect(1, &["adds it to the catalogue"]);
    store.work();
    push(&store, &bag, &["--robot", "r7"]).expect(0, &["was there already"]);
    push(&store, &file, &["--robot", "r7"]).expect(0, &["verified"]);
    let rows = json(&store, &["find", &place()]);
    let drive = rows.iter().find(|row| row["recording"] == "drive.mcap").unwrap();
    assert_eq!(
        (&drive["topic"], &drive["message_count"]),
        (&Value::from("/imu"), &rows_of(&rows, 0))
    );

    let catalogue = store.place("robot7/_livebag");
    assert_eq!(objects(&catalogue).len(), 2);
    let of_run1 = |rows: &[Value]| -> Vec<Value> {
        rows.iter().filter(|row| row["recording"] == "run1").cloned().collect()
    };
    let before = of_run1(&rows);
    std::fs::remove_dir_all(&catalogue).unwrap();
    on(&store, &["catalog", "rebuild", &place(), "--robot", "r7"])
        .expect(0, &["2 recordings, 2 of them added"]);
    let rebuilt = json(&store, &["find", &place()]);
    assert_eq!(of_run1(&rebuilt), before, "the same rows as from the recording itself");
    assert!(rebuilt.iter().any(|row| row["recording"] == "drive.mcap" && row["topic"].is_null()));
    on(&store, &["catalog", "rebuild", &place()]).expect(0, &["0 of them added"]);
}

/// Messages of `/imu` in the first split.
fn rows_of(rows: &[Value], split: u64) -> Value {
    let is_it = |row: &&Value| {
        row["recording"] == "run1" && row["topic"] == "/imu" && row["split"] == split
    };
    rows.iter().find(is_it).unwrap()["message_count"].clone()
}

#[test]
fn compacting_keeps_every_row_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let catalogue = store.place("robot7/_livebag");
    let bags: Vec<_> =
        (1..=3).map(|n| record(folder.path(), &format!("run{n}"), 1, n as u8)).collect();
    bags.iter().for_each(|bag| drop(push(&store, bag, &[]).expect(0, &["verified"])));
    let before = json(&store, &["find", &place()]);
    let kept = objects(&catalogue);
    let copies: Vec<_> = kept.iter().map(|path| std::fs::read(path).unwrap()).collect();
    on(&store, &["catalog", "compact", &place()])
        .expect(0, &["3 objects merged", "1 object with 3 recordings"]);
    assert_eq!(objects(&catalogue).len(), 1);
    assert_eq!(json(&store, &["find", &place()]), before);
    // Pushed again, they are still in the catalogue.
    push(&store, &bags[0], &[]).expect(0, &["was there already"]);
    assert_eq!(objects(&catalogue).len(), 1);
    // As if the compaction had been killed before it removed what it merged, or another had run beside it.
    for (path, contents) in kept.iter().zip(&copies) {
        std::fs::write(path, contents).unwrap();
    }
    assert_eq!(json(&store, &["find", &place()]), before, "rows come once");
    on(&store, &["catalog", "compact", &place()]).expect(0, &["1 object with 3 recordings"]);
    assert_eq!(objects(&catalogue).len(), 1);
    // One more, merged with what is merged.
    let more = record(folder.path(), "run4", 1, 4);
    push(&store, &more, &[]).expect(0, &["verified"]);
    on(&store, &["catalog", "compact", &place()]).expect(0, &["1 object with 4 recordings"]);
    assert_eq!(json(&store, &["find", &place()]).len(), before.len() + 2);
    // A new object that cannot be written costs no row.
    let other = record(folder.path(), "run5", 1, 5);
    push(&store, &other, &[]).expect(0, &["verified"]);
    store.fail(|seen| match seen.puts() {
        Some(_) => Fault::Refuse(403, "QuotaExceeded"),
        None => Fault::None,
    });
    on(&store, &["catalog", "compact", &place()]).expect(1, &["the store is full"]);
    assert_eq!(json(&store, &["find", &place()]).len(), before.len() + 4);
}

#[test]
fn a_folder_has_a_catalogue_too() {
    let folder = tempfile::tempdir().unwrap();
    let nas = folder.path().join("nas");
    std::fs::create_dir(&nas).unwrap();
    let bag = record(folder.path(), "run1", 1, 1);
    let nas = nas.to_str().unwrap();
    let run = |arguments: &[&str]| Ended::from(livebag(arguments).output().unwrap());
    run(&["push", bag.to_str().unwrap(), nas]).expect(0, &["verified"]);
    run(&["find", nas, "--topic", "/imu"]).expect(0, &["run1", "/imu"]);
    let object = objects(Path::new(nas)).remove(0);
    for number in 0..500 {
        std::fs::copy(&object, object.with_file_name(format!("{number}.parquet"))).unwrap();
    }
    run(&["find", nas]).expect(0, &["the catalogue is in 501 files", "livebag catalog compact"]);
    run(&["catalog", "compact", nas]).expect(0, &["1 object with 1 recording"]);
    let found = run(&["find", nas]).expect(0, &["run1"]);
    assert!(!found.err.contains("compact"), "{found:?}");
    std::fs::write(objects(Path::new(nas))[0].clone(), b"PAR1 no more PAR1").unwrap();
    run(&["find", nas]).expect(1, &["is damaged, or no part of a catalogue"]);
}
