//! Bags as rosbag2 has written them from Dashing to Rolling: `metadata.yaml` of versions 1 to 9, and databases
//! with the tables of their time. Each is read alike.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::Value;

use crate::common::{run, text};

const COUNT: u64 = 20;
const START_NANOS: u64 = 1_577_836_800_000_000_000;
const STEP_NANOS: u64 = 100_000_000;
const QOS: [(&str, u64); 4] =
    [("history", 1), ("reliability", 1), ("durability", 1), ("liveliness", 1)];
const QOS_NAMES: [&str; 4] = ["keep_last", "reliable", "transient_local", "automatic"];

/// A topic's QoS as a version has it: nothing, text with numbers, or a list with names.
fn qos(version: u32) -> String {
    let values = QOS.iter().zip(QOS_NAMES).map(|((policy, number), name)| match version {
        9.. => format!("{policy}: {name}"),
        _ => format!("{policy}: {number}"),
    });
    let times = ["deadline", "lifespan", "liveliness_lease_duration"]
        .map(|time| format!("{time}: {{sec: 0, nsec: 0}}"));
    let rest = ["depth: 7".to_owned(), "avoid_ros_namespace_conventions: false".to_owned()];
    let policies: Vec<_> = values.chain(times).chain(rest).collect();
    format!("[{{{}}}]", policies.join(", "))
}

/// `metadata.yaml` as rosbag2's `metadata_io.cpp` writes it in a version.
fn metadata(version: u32, folder: &str, storage: &str, file: &str) -> String {
    let since = |first: u32, text: String| if version >= first { text } else { String::new() };
    let times = |indent: &str| {
        format!(
            "{indent}starting_time: {{nanoseconds_since_epoch: {START_NANOS}}}\n\
             {indent}duration: {{nanoseconds: {}}}\n",
            (COUNT - 1) * STEP_NANOS
        )
    };
    let topic = |name: &str| {
        let qos = match version {
            ..4 => String::new(),
            4..9 => format!("        offered_qos_profiles: \"{}\"\n", qos(version)),
            9.. => format!("        offered_qos_profiles: {}\n", qos(version)),
        };
        format!(
            "    - topic_metadata:\n        name: {name}\n        type: std_msgs/msg/String\n        \
             serialization_format: cdr\n{qos}{}      message_count: {}\n",
            since(7, "        type_description_hash: RIHS01_x\n".to_owned()),
            COUNT / 2,
        )
    };
    let path = if version < 4 { format!("{folder}/{file}") } else { file.to_owned() };
    let files =
        format!("  files:\n    - path: {file}\n{}      message_count: {COUNT}\n", times("      "));
    [
        format!(
            "rosbag2_bagfile_information:\n  version: {version}\n  storage_identifier: {storage}\n"
        ),
        format!("  relative_file_paths:\n    - {path}\n{}", times("  ")),
        format!("  message_count: {COUNT}\n  topics_with_message_count:\n"),
        topic("/a"),
        topic("/b"),
        since(3, "  compression_format: \"\"\n  compression_mode: \"\"\n".to_owned()),
        since(5, files),
        since(6, "  custom_data: ~\n".to_owned()),
        since(8, "  ros_distro: rosbag2\n".to_owned()),
    ]
    .concat()
}

/// A database with the tables that rosbag2 made when it wrote that version.
fn database(path: &Path, version: u32) {
    let database = Connection::open(path).unwrap();
    let with_qos = if version >= 4 { ", offered_qos_profiles TEXT NOT NULL" } else { "" };
    let with_hash = if version >= 7 { ", type_description_hash TEXT NOT NULL" } else { "" };
    let sql = format!(
        "CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, \
             serialization_format TEXT NOT NULL{with_qos}{with_hash});
         CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, \
             timestamp INTEGER NOT NULL, data BLOB NOT NULL);
         CREATE INDEX timestamp_idx ON messages (timestamp ASC);
         BEGIN"
    );
    database.execute_batch(&sql).unwrap();
    if version >= 7 {
        let sql =
            "CREATE TABLE schema(schema_version INTEGER PRIMARY KEY, ros_distro TEXT NOT NULL);
             INSERT INTO schema VALUES(4, 'rosbag2');
             CREATE TABLE metadata(id INTEGER PRIMARY KEY, metadata_version INTEGER NOT NULL, \
                 metadata TEXT NOT NULL);
             CREATE TABLE message_definitions(id INTEGER PRIMARY KEY, topic_type TEXT NOT NULL, \
                 encoding TEXT NOT NULL, encoded_message_definition TEXT NOT NULL, \
                 type_description_hash TEXT NOT NULL);
             INSERT INTO message_definitions VALUES(1, 'std_msgs/msg/String', 'ros2msg', \
                 'string data', 'RIHS01_x');";
        database.execute_batch(sql).unwrap();
    }
    for (id, name) in [(1, "/a"), (2, "/b")] {
        let qos = if version >= 4 { format!(", '{}'", qos(version)) } else { String::new() };
        let hash = if version >= 7 { ", 'RIHS01_x'" } else { "" };
        let values = format!("({id}, '{name}', 'std_msgs/msg/String', 'cdr'{qos}{hash})");
        database.execute_batch(&format!("INSERT INTO topics VALUES{values}")).unwrap();
    }
    for number in 0..COUNT {
        let data = [&b"\0\x01\0\0\x03\0\0\0m"[..], &[b'a' + number as u8], b"\0"].concat();
        let sql = "INSERT INTO messages(topic_id, timestamp, data) VALUES(?1, ?2, ?3)";
        let time = (START_NANOS + number * STEP_NANOS) as i64;
        let row = (1 + number as i64 % 2, time, data);
        database.execute(sql, row).unwrap();
    }
    database.execute_batch("COMMIT").unwrap();
}

/// A bag of a version in either storage.
fn bag(folder: &Path, version: u32, storage: &str) -> PathBuf {
    let name = format!("{storage}{version}");
    let path = folder.join(&name);
    std::fs::create_dir(&path).unwrap();
    let file = match storage {
        "sqlite3" => {
            let file = format!("{name}_0.db3");
            database(&path.join(&file), version);
            file
        }
        _ => {
            let (from, made) = (folder.join("from.db3"), folder.join("made"));
            database(&from, version);
            let to_mcap = ["convert", text(&from), text(&made), "--storage", "mcap"];
            run(&to_mcap).expect(0, &[]);
            let file = format!("{name}_0.mcap");
            std::fs::rename(made.join("made_0.mcap"), path.join(&file)).unwrap();
            std::fs::remove_dir_all(&made).unwrap();
            std::fs::remove_file(&from).unwrap();
            file
        }
    };
    let yaml = metadata(version, &name, storage, &file);
    std::fs::write(path.join("metadata.yaml"), yaml).unwrap();
    path
}

/// A bag's contents, according to `info`, `convert` and `query`.
fn told(bag: &Path, folder: &Path) -> (Value, Value, String) {
    run(&["verify", text(bag)]).expect(0, &[]);
    let info = run(&["info", text(bag), "--json"]).expect(0, &[]).json();
    assert_eq!(info["warnings"], Value::Array(Vec::new()), "{bag:?}");
    assert_eq!(info["message_count"], COUNT, "{bag:?}");
    let listed = run(&["ls", text(bag), "--json"]).expect(0, &[]).json();
    let row = &listed[0];
    assert_eq!((&row["state"], &row["message_count"]), (&"closed".into(), &COUNT.into()), "{row}");
    let back = folder.join("back");
    run(&["convert", text(bag), text(&back)]).expect(0, &[]);
    let lines = run(&["query", text(&back), "history", "--json", "--decode"]).expect(0, &[]).out;
    std::fs::remove_dir_all(&back).unwrap();
    (info["topics"].clone(), info["duration_nanos"].clone(), lines)
}

#[test]
fn bags_of_every_version_are_read_alike() {
    let folder = tempfile::tempdir().unwrap();
    let newest = told(&bag(folder.path(), 9, "sqlite3"), folder.path());
    assert_eq!(newest.0.as_array().unwrap().len(), 2, "{}", newest.0);
    let lines: Vec<Value> =
        newest.2.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len() as u64, COUNT);
    assert_eq!(lines[3]["value"]["data"], "md", "{}", lines[3]);
    assert_eq!(lines[3]["log_time"], (START_NANOS + 3 * STEP_NANOS).to_string());
    // The storage mcap came with Galactic.
    let older = (1..9).map(|version| (version, "sqlite3"));
    for (version, storage) in older.chain((4..=9).map(|version| (version, "mcap"))) {
        let bag = bag(folder.path(), version, storage);
        assert_eq!(told(&bag, folder.path()), newest, "{bag:?}");
        // The existing one equals a new metadata.yaml.
        let report = run(&["recover", text(&bag), "--json"]).expect(0, &[]).json();
        assert_eq!(report["action"], "none", "{report}");
    }
}
