//! Between containers, rosbag2 bags and MCAP files: nothing is lost, damage is reported.

use std::path::{Path, PathBuf};

use livebag_shm::{FrameMeta, StreamOptions};
use serde_json::Value;

use crate::common::{Recording, run, stream, text, wait_until};

const COUNT: u64 = 40;

/// Records images and messages into a new container.
fn record(folder: &Path) -> PathBuf {
    let bag = folder.join("bag");
    let (camera, mut images) = stream(StreamOptions::image(320, 240, 1).slots(64));
    let (imu, mut samples) = stream(StreamOptions::message("sensor_msgs/msg/Imu", 400).slots(64));
    let recording = Recording::begin(&[&camera, &imu, "-o", text(&bag)], 2);
    for number in 0..COUNT {
        let meta = FrameMeta::image(320, 240, 320, "mono8").publish_time_nanos(1000 + number);
        images.publish(&meta, &vec![number as u8; 320 * 240]).unwrap();
        let meta = FrameMeta::bytes().publish_time_nanos(5000 + number);
        samples.publish(&meta, &[number as u8; 324]).unwrap();
    }
    wait_until("all is recorded", || {
        run(&["info", text(&bag), "--json"]).json()["message_count"] == 2 * COUNT
    });
    recording.interrupt().expect(0, &[]);
    bag
}

/// Every message of a container: topic, both times, sequence, length, and the values of images.
fn messages(bag: &Path) -> Vec<String> {
    let ask = ["query", text(bag), "history", "--json", "--decode", "--array-items", "100000"];
    let mut lines: Vec<_> = run(&ask).expect(0, &[]).out.lines().map(str::to_owned).collect();
    // Messages of equal log time may come in the order of either container's topics.
    lines.sort();
    lines
}

fn only_mcap(bag: &Path) -> PathBuf {
    let files = std::fs::read_dir(bag).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|e| e == "mcap")).collect();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

#[test]
fn there_and_back_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let bag = record(folder.path());
    let rosbag2 = folder.path().join("rosbag2");
    let ended = run(&["convert", text(&bag), text(&rosbag2), "--compression", "zstd", "--json"]);
    let summary = ended.expect(0, &[]).json();
    assert_eq!(summary["storage"], "mcap");
    assert_eq!(summary["message_count"], 2 * COUNT);
    let yaml = std::fs::read_to_string(rosbag2.join("metadata.yaml")).unwrap();
    assert!(yaml.contains("RIHS01_"), "{yaml}");

    for source in [&rosbag2, &only_mcap(&rosbag2)] {
        let info = run(&["info", text(source), "--json"]).expect(0, &[]).json();
        assert_eq!(info["state"], "foreign");
        assert_eq!(info["lost"]["total"], 0, "as the container tells");
        assert_eq!(info["message_count"], 2 * COUNT);
        assert_eq!(info["topics"].as_array().unwrap().len(), 2);
        run(&["info", text(source)]).expect(0, &[]);
        let back = folder.path().join("back");
        run(&["convert", text(source), text(&back)]).expect(0, &[]);
        assert_eq!(messages(&back), messages(&bag));
        std::fs::remove_dir_all(&back).unwrap();
    }
    refuses_what_is_there(&bag, &rosbag2, folder.path());
    tells_what_a_truncated_file_lacks(&only_mcap(&rosbag2), folder.path());
}

#[test]
fn the_old_storage_holds_every_message() {
    let folder = tempfile::tempdir().unwrap();
    let bag = record(folder.path());
    let old = folder.path().join("old");
    let ended = run(&["convert", text(&bag), text(&old), "--storage", "sqlite3", "--json"]);
    let summary = ended.expect(0, &["publish times"]).json();
    assert_eq!(
        (&summary["storage"], &summary["message_count"]),
        (&"sqlite3".into(), &(2 * COUNT).into())
    );
    assert!(old.join("old_0.db3").is_file());
    let back = folder.path().join("back");
    run(&["convert", text(&old), text(&back)]).expect(0, &[]);
    assert_eq!(contents(&back), contents(&bag));
    let zstd = ["convert", text(&bag), text(&old), "--storage", "sqlite3", "--compression", "zstd"];
    std::fs::remove_dir_all(&old).unwrap();
    run(&zstd).expect(2, &["--storage mcap"]);
}

/// The messages without fields that the old storage cannot hold.
fn contents(bag: &Path) -> Vec<Value> {
    let of_line = |line: &String| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let line = line.as_object_mut().unwrap();
        line.remove("publish_time");
        line.remove("sequence");
        Value::Object(line.clone())
    };
    let mut all: Vec<_> = messages(bag).iter().map(of_line).collect();
    all.sort_by_key(Value::to_string);
    all
}

fn refuses_what_is_there(bag: &Path, there: &Path, folder: &Path) {
    let before = std::fs::read(there.join("metadata.yaml")).unwrap();
    run(&["convert", text(bag), text(there)]).expect(1, &["exists already", "never overwrites"]);
    assert_eq!(std::fs::read(there.join("metadata.yaml")).unwrap(), before);
    let deep = folder.join("not/there");
    run(&["convert", text(bag), text(&deep)]).expect(1, &["does not exist", "mkdir -p"]);
    let new = folder.join("new");
    let compressed = ["convert", text(there), text(&new), "--compression", "lz4"];
    run(&compressed).expect(2, &["--storage mcap"]);
    run(&["convert", text(bag), text(&new), "--metadata-version", "6"]).expect(2, &["5, 7 or 9"]);
    assert!(!new.exists());
}

/// Where the last chunk of an MCAP file lies: behind it come its message indexes and the summary, which
/// may be more than half of a file of few messages.
fn last_chunk(bytes: &[u8]) -> std::ops::Range<usize> {
    const MAGIC_BYTES: usize = 8;
    const CHUNK: u8 = 0x06;
    let (mut at, mut found) = (MAGIC_BYTES, None);
    while at + MAGIC_BYTES < bytes.len() {
        let length = u64::from_le_bytes(bytes[at + 1..at + 9].try_into().unwrap());
        let end = at + 9 + usize::try_from(length).unwrap();
        if bytes[at] == CHUNK {
            found = Some(at..end);
        }
        at = end;
    }
    found.expect("the file has a chunk")
}

fn tells_what_a_truncated_file_lacks(whole: &Path, folder: &Path) {
    let bytes = std::fs::read(whole).unwrap();
    let cut = folder.join("cut.mcap");
    let chunk = last_chunk(&bytes);
    std::fs::write(&cut, &bytes[..chunk.start + chunk.len() / 2]).unwrap();
    let info = run(&["info", text(&cut), "--json"]).expect(0, &["warning"]).json();
    let readable = info["message_count"].as_u64().unwrap();
    assert!(readable < 2 * COUNT, "{info}");
    let out = folder.join("cut");
    // The chunk that is cut had at least one message more.
    let summary =
        run(&["convert", text(&cut), text(&out), "--json"]).expect(3, &["warning"]).json();
    assert_eq!(summary["message_count"], readable);
    assert_eq!(messages(&out).len() as u64, readable);
    let stub = folder.join("stub.mcap");
    std::fs::write(&stub, &bytes[..10]).unwrap();
    let out = folder.join("stub");
    run(&["convert", text(&stub), text(&out)]).expect(0, &["warning"]);
}

#[test]
fn what_is_no_recording_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let missing = folder.path().join("missing");
    run(&["convert", text(&missing), text(&out)]).expect(1, &["missing", "does not exist"]);
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "no bag at all").unwrap();
    run(&["convert", text(&file), text(&out)]).expect(1, &["notes.txt", "expected", "found text"]);
    std::fs::write(&file, "").unwrap();
    run(&["convert", text(&file), text(&out)]).expect(1, &["an empty file"]);
    std::fs::write(&file, "#ROSBAG V2.0\n").unwrap();
    run(&["convert", text(&file), text(&out)]).expect(1, &["notes.txt", "damaged"]);
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    run(&["convert", text(&empty), text(&out)]).expect(1, &["empty"]);
    assert!(!out.exists());
}

#[test]
fn attachments_are_listed_kept_and_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let (file, bag) = (folder.path().join("file.mcap"), folder.path().join("bag"));
    let mut writer = mcap::Writer::new(std::io::Cursor::new(Vec::new())).unwrap();
    for (name, data) in [("notes\n.txt", "by hand"), ("map.pgm", "P5 1 1")] {
        let attachment = mcap::Attachment {
            log_time: 1_700_000_000_000_000_000,
            create_time: 0,
            name: name.into(),
            media_type: "text/plain".into(),
            data: data.as_bytes().into(),
        };
        writer.attach(&attachment).unwrap();
    }
    writer.finish().unwrap();
    let mut bytes = writer.into_inner().into_inner();
    std::fs::write(&file, &bytes).unwrap();
    let summary = run(&["convert", text(&file), text(&bag), "--json"]).expect(0, &[]).json();
    assert_eq!(
        (&summary["attachment_count"], &summary["damaged_attachments"]),
        (&2.into(), &0.into())
    );
    for path in [&file, &bag] {
        let info = run(&["info", text(path), "--json"]).expect(0, &[]).json();
        assert_eq!(info["attachments"][0]["name"], "notes\n.txt");
        assert_eq!(info["attachments"][1]["bytes"], 6);
        let out = run(&["info", text(path)]).expect(0, &[]).out;
        assert!(out.contains("attachments: notes\\n.txt, 7 B, text/plain"), "{out}");
        assert!(out.contains("\n             map.pgm, 6 B"), "{out}");
        run(&["verify", text(path)]).expect(0, &[]);
    }
    let old = folder.path().join("old");
    let words = ["map.pgm was left out: sqlite3 bags have none"];
    run(&["convert", text(&bag), text(&old), "--storage", "sqlite3"]).expect(0, &words);
    let at = bytes.windows(7).position(|window| window == b"by hand").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    run(&["verify", text(&file)]).expect(1, &[]);
    let again = folder.path().join("again");
    let ended = run(&["convert", text(&file), text(&again)]);
    let out = &ended.expect(3, &["1 attachment could not be read"]).out;
    assert!(out.contains("0 messages, 0 B, 1 attachment in "), "{out}");
}
