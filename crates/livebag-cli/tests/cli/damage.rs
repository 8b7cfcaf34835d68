//! Damage is reported, intact data is still read, and recoverable data is recovered.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use livebag_shm::{FrameMeta, StreamOptions};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Recording, run, stream, text, wait_until};

const COUNT: u64 = 60;
const IMAGE_BYTES: usize = 320 * 240;

/// Records frames of 77 kB and messages of 324 B, and ends as `signal` ends it.
fn record(bag: &Path, signal: Signal) {
    record_with(bag, signal, &[]);
}

fn record_with(bag: &Path, signal: Signal, options: &[&str]) {
    let (camera, mut images) = stream(StreamOptions::image(320, 240, 1).slots(64));
    let (imu, mut samples) = stream(StreamOptions::message("sensor_msgs/msg/Imu", 400).slots(64));
    let arguments = [&[camera.as_str(), &imu, "-o", text(bag)], options].concat();
    let recording = Recording::begin(&arguments, 2);
    for number in 0..COUNT {
        let meta = FrameMeta::image(320, 240, 320, "mono8").publish_time_nanos(1000 + number);
        images.publish(&meta, &vec![number as u8; IMAGE_BYTES]).unwrap();
        let meta = FrameMeta::bytes().publish_time_nanos(5000 + number);
        samples.publish(&meta, &[number as u8; 324]).unwrap();
    }
    wait_until("all is recorded", || {
        run(&["info", text(bag), "--json"]).json()["message_count"] == 2 * COUNT
    });
    recording.signal(signal);
    recording.end();
}

fn files(bag: &Path, extension: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir(bag).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        all.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    found.sort_by_key(|path| std::cmp::Reverse(path.metadata().unwrap().len()));
    found
}

/// Changes one bit.
fn rot(file: &Path, offset: u64) {
    let file = std::fs::File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
}

fn verify(path: &Path, code: i32) -> Value {
    run(&["verify", text(path), "--json"]).expect(code, &[]).json()
}

fn damages(report: &Value) -> String {
    let all = report["damage"].as_array().unwrap().iter();
    all.map(|damage| format!("{} {}\n", damage["file"], damage["what"])).collect()
}

fn count(bag: &Path, code: i32) -> u64 {
    let ended = run(&["query", text(bag), "history", "--json"]).expect(code, &[]);
    ended.out.lines().count() as u64
}

#[test]
fn rot_in_a_container_is_named_and_costs_only_what_it_hit() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    record(&bag, Signal::INT);
    let whole = verify(&bag, 0);
    assert_eq!((&whole["whole"], &whole["state"]), (&true.into(), &"closed".into()));
    assert_eq!(whole["message_count"], 2 * COUNT);
    assert_eq!(whole["unproven_messages"], COUNT, "frames have no checksum: {whole}");
    let text_of = run(&["verify", text(&bag)]).expect(0, &[]).out;
    assert!(
        text_of.contains("whole")
            && text_of
                .contains("without a checksum, so that their bytes cannot be proven: 60 messages"),
        "{text_of}"
    );

    // Header, schema, and bytes of gathered messages.
    let brick = files(&bag, "mcap").pop().unwrap();
    for (offset, what) in [(30, "header"), (90, "schema"), (4096 + 2000, "checksum")] {
        rot(&brick, offset);
        let named = damages(&verify(&bag, 1));
        assert!(named.contains(text(&brick)) && named.contains(what), "{named}");
        assert_eq!(count(&bag, 0), 2 * COUNT, "the index tells of every message");
        rot(&brick, offset);
        verify(&bag, 0);
    }

    // An index entry in the middle, the header, and the last one.
    let index = files(&bag, "idx").pop().unwrap();
    for (offset, lost) in [(48 * 30 + 5, 1), (3, 0), (48 * COUNT + 47, 1)] {
        rot(&index, offset);
        let named = damages(&verify(&bag, 1));
        assert!(named.contains(text(&index)), "{named}");
        assert_eq!(count(&bag, if lost > 0 { 3 } else { 0 }), 2 * COUNT - lost);
        rot(&index, offset);
    }

    // The header of a frame's chunk, and the summary.
    let brick = files(&bag, "mcap").remove(0);
    let length = brick.metadata().unwrap().len();
    for offset in [length - 200, length - 30, length - 3] {
        rot(&brick, offset);
        let named = damages(&verify(&bag, 1));
        assert!(named.contains(text(&brick)), "{offset}: {named}");
        assert_eq!(count(&bag, 0), 2 * COUNT);
        rot(&brick, offset);
    }

    // container.yaml: by its checksum.
    let manifest = bag.join("container.yaml");
    let written = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, written.replacen("sensor_msgs/msg/Imu", "sensor_msgs/msg/Imo", 1))
        .unwrap();
    assert!(damages(&verify(&bag, 1)).contains("container.yaml"));
    std::fs::write(&manifest, &written).unwrap();

    // A file that is gone.
    let aside = folder.path().join("aside");
    std::fs::rename(&brick, &aside).unwrap();
    assert!(damages(&verify(&bag, 1)).contains("missing"));
    std::fs::rename(&aside, &brick).unwrap();
    verify(&bag, 0);
}

/// Chunk, checksum, message header and data of small messages: whatever is hit, no way out gives one that is
/// damaged, and each says that something is missing.
#[test]
fn every_way_out_leaves_damaged_small_messages_out_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    record(&bag, Signal::INT);
    let (_server, base) = crate::remote::serve(folder.path());
    let url = format!("{base}/bag");
    let export = folder.path().join("export.mcap");
    let copy = folder.path().join("copy");
    let brick = files(&bag, "mcap").pop().unwrap();
    let bytes = std::fs::read(&brick).unwrap();
    // The first chunk: its record begins with its opcode, and its first message's with another.
    let message = (0..bytes.len())
        .find(|at| bytes[*at..].starts_with(&[5, 90, 1, 0, 0, 0, 0, 0, 0]))
        .expect("a message of 324 bytes");
    let kept = |file: &Path| {
        let sound = verify(file, 0)["message_count"].as_u64().unwrap();
        assert!((COUNT..2 * COUNT).contains(&sound), "{sound}");
        sound
    };
    for place in [message - 49, message - 16, message + 20, message + 31 + 100] {
        rot(&brick, place as u64);
        run(&["query", text(&bag), "history", "-o", text(&export)]).expect(3, &["left out"]);
        let sound = kept(&export);
        std::fs::remove_file(&export).unwrap();
        for storage in ["container", "mcap", "sqlite3"] {
            let ended = run(&["convert", text(&bag), text(&copy), "-s", storage]);
            ended.expect(3, &["could be read", "damaged"]);
            assert_eq!(kept(&copy), sound, "{storage}");
            if storage == "container" {
                tells_of_missing_messages(&copy);
                // So does a copy of the copy.
                let again = folder.path().join("again");
                run(&["convert", text(&copy), text(&again), "-s", "container"]).expect(0, &[]);
                tells_of_missing_messages(&again);
                std::fs::remove_dir_all(&again).unwrap();
            }
            std::fs::remove_dir_all(&copy).unwrap();
        }
        run(&["query", &url, "history", "-o", text(&export)]).expect(3, &["left out"]);
        assert_eq!(kept(&export), sound, "by HTTP");
        std::fs::remove_file(&export).unwrap();
        let decoded = run(&["query", &url, "history", "--json", "--decode"]).expect(3, &[]).out;
        assert_eq!(decoded.lines().count() as u64, sound);
        run(&["play", text(&bag), "--rate", "1000"]).expect(3, &["damaged"]);
        rot(&brick, place as u64);
    }
    // Other verbs report the cost of a damaged index entry, too.
    rot(&files(&bag, "idx").pop().unwrap(), 48 * 30 + 5);
    run(&["query", &url, "history", "--json"]).expect(3, &["left out"]);
    run(&["query", &url, "auto", "-o", text(&export)]).expect(3, &["left out"]);
}

/// The account of a copy does not say that nothing is missing.
fn tells_of_missing_messages(copy: &Path) {
    let info = run(&["info", text(copy), "--json"]).expect(0, &[]).json();
    assert_eq!(info["state"], "closed");
    let account = &info["account"];
    assert_eq!((&account["unknown"], &account["published"]), (&Value::Null, &Value::Null));
    assert_eq!(account["lost"]["total"], Value::Null, "{account}");
    let table = run(&["info", text(copy)]).expect(0, &[]).out;
    assert!(table.contains("lacks messages") && !table.contains("nothing lost"), "{table}");
    let verified = run(&["verify", text(copy)]).expect(0, &[]).out;
    assert!(verified.contains("lacked messages"), "{verified}");
}

/// Files that are gone count like damage: what is made of the rest does not look whole.
#[test]
fn messages_whose_files_are_gone_are_missed_by_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    record(&bag, Signal::INT);
    let copy = folder.path().join("copy");
    for gone in ["mcap", "idx"] {
        let file = files(&bag, gone).remove(0);
        let aside = folder.path().join("aside");
        std::fs::rename(&file, &aside).unwrap();
        for verb in [
            &["query", text(&bag), "history", "-o", text(&copy)][..],
            &["convert", text(&bag), text(&copy)],
            &["convert", text(&bag), text(&copy), "-s", "mcap"],
            &["export", text(&bag), text(&copy), "--parquet"],
            &["play", text(&bag), "--rate", "1000"],
        ] {
            run(verb).expect(3, &[]);
            let _ = std::fs::remove_file(&copy);
            let _ = std::fs::remove_dir_all(&copy);
        }
        run(&["info", text(&bag)]).expect(0, &["60 messages were recorded", "verify"]);
        run(&["ls", text(&bag)]).expect(0, &["60 messages", "cannot be reached"]);
        let account = run(&["info", text(&bag), "--json"]).json()["account"].clone();
        assert_eq!((&account["damaged"], &account["published"]), (&60.into(), &120.into()));
        std::fs::rename(&aside, &file).unwrap();
    }
    assert!(!run(&["info", text(&bag)]).expect(0, &[]).err.contains("cannot be reached"));
    // Of a topic alone, and of all of them, nothing is left to play.
    for count in ["60 messages", "120 messages"] {
        let brick = files(&bag, "mcap").remove(0);
        std::fs::remove_file(&brick).unwrap();
        let topic = format!("/{}", brick.file_stem().unwrap().to_str().unwrap());
        run(&["play", text(&bag), "--topics", &topic])
            .expect(3, &["60 messages", "cannot be reached"]);
        run(&["play", text(&bag), "--rate", "1000"]).expect(3, &[count, "cannot be reached"]);
    }
}

/// A pipe where a file should be holds no verb up, and costs no other topic anything.
#[test]
fn a_pipe_in_place_of_a_file_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    record(&bag, Signal::INT);
    let copy = folder.path().join("copy");
    let manifest = bag.join("container.yaml");
    for file in [files(&bag, "mcap").remove(0), files(&bag, "idx").remove(0), manifest] {
        let aside = folder.path().join("aside");
        std::fs::rename(&file, &aside).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &file, mode).unwrap();
        for verb in [
            &["ls", text(&bag)][..],
            &["info", text(&bag)],
            &["verify", text(&bag)],
            &["query", text(&bag), "history", "-o", text(&copy)],
            &["convert", text(&bag), text(&copy)],
            &["play", text(&bag)],
        ] {
            let ended = run(verb);
            assert!((0..=3).contains(&ended.code), "{verb:?}: {}", ended.code);
            let _ = std::fs::remove_dir_all(&copy);
        }
        if file.extension().is_none_or(|extension| extension != "yaml") {
            assert_eq!(count(&bag, 3), COUNT, "those of the other topic");
        }
        std::fs::remove_file(&file).unwrap();
        std::fs::rename(&aside, &file).unwrap();
    }
    let index = files(&bag, "idx").remove(0);
    std::fs::remove_file(&index).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &index, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    run(&["recover", text(&bag)]).expect(0, &[]);
    assert_eq!(count(&bag, 0), 2 * COUNT, "an index is made again from its brick");
    let pipe = folder.path().join("pipe.mcap");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    for verb in ["info", "verify", "recover"] {
        run(&[verb, text(&pipe)]).expect(1, &[]);
    }
}

#[test]
fn rot_in_compressed_chunks_costs_only_their_messages() {
    let folder = tempfile::tempdir().unwrap();
    for compression in ["lz4", "zstd"] {
        let bag = folder.path().join(compression);
        record_with(&bag, Signal::INT, &["--compression", compression]);
        let whole = verify(&bag, 0);
        assert_eq!(
            (&whole["message_count"], &whole["unproven_messages"]),
            (&120.into(), &0.into())
        );
        for brick in files(&bag, "mcap") {
            // The first bytes of compressed data: some of them have no meaning.
            rot(&brick, 4096 + 54);
            let named = damages(&verify(&bag, 1));
            assert!(named.contains(text(&brick)) && named.contains("chunk"), "{named}");
            let export = folder.path().join("part.mcap");
            let ended = run(&["query", text(&bag), "history", "-o", text(&export)]);
            ended.expect(3, &["left out", "livebag verify"]);
            let kept = verify(&export, 0)["message_count"].as_u64().unwrap();
            assert!((COUNT..2 * COUNT).contains(&kept), "{kept}");
            std::fs::remove_file(&export).unwrap();
            let copy = folder.path().join("copy");
            run(&["convert", text(&bag), text(&copy)]).expect(3, &["could be read", "damaged"]);
            std::fs::remove_dir_all(&copy).unwrap();
            rot(&brick, 4096 + 54);
        }
        verify(&bag, 0);
        let crashed = folder.path().join("crashed");
        record_with(&crashed, Signal::KILL, &["--compression", compression]);
        assert_eq!(damages(&verify(&crashed, 1)).lines().count(), 1, "only that it was not closed");
        run(&["recover", text(&crashed)]).expect(0, &[]);
        assert_eq!(verify(&crashed, 0)["message_count"], 2 * COUNT);
        std::fs::remove_dir_all(&crashed).unwrap();
    }
}

#[test]
fn a_damaged_manifest_is_made_anew_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    record(&bag, Signal::INT);
    let manifest = bag.join("container.yaml");
    std::fs::write(&manifest, "]:{").unwrap();
    run(&["info", text(&bag)]).expect(1, &["damaged", "livebag recover"]);
    assert_eq!(std::fs::read_to_string(&manifest).unwrap(), "]:{");
    assert!(damages(&verify(&bag, 1)).contains("livebag recover"));
    let report = run(&["recover", text(&bag), "--json"]).expect(0, &["made anew"]).json();
    assert_eq!((&report["action"], &report["message_count"]), (&"closed".into(), &120.into()));
    assert_eq!(count(&bag, 0), 2 * COUNT);
    assert_eq!(std::fs::read_to_string(bag.join("container.yaml.damaged")).unwrap(), "]:{");
    verify(&bag, 0);
    let report = run(&["recover", text(&bag), "--json"]).expect(0, &[]).json();
    assert_eq!(report["action"], "none");
}

#[test]
fn a_killed_recorder_is_listed_verified_and_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("runs/crashed");
    std::fs::create_dir(folder.path().join("runs")).unwrap();
    record(&bag, Signal::KILL);
    let list = || run(&["ls", text(folder.path()), "--json"]).expect(0, &[]).json();
    let listed = list();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["state"], "crashed");
    assert_eq!(listed[0]["message_count"], 2 * COUNT);
    assert!(damages(&verify(&bag, 1)).contains("recorder died"));
    assert_eq!(list()[0]["state"], "crashed", "looking changes nothing");
    let report = run(&["recover", text(&bag), "--json"]).expect(0, &[]).json();
    assert_eq!((&report["action"], &report["message_count"]), (&"closed".into(), &120.into()));
    assert_eq!(list()[0]["state"], "recovered");
    assert_eq!(verify(&bag, 0)["message_count"], 2 * COUNT);
}

#[test]
fn recordings_are_listed_with_kind_and_state() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    run(&["ls", text(folder.path())]).expect(0, &["no recordings"]);
    record(&path("a"), Signal::INT);
    run(&["convert", text(&path("a")), text(&path("b"))]).expect(0, &[]);
    run(&["convert", text(&path("a")), text(&path("c")), "-s", "sqlite3"]).expect(0, &[]);
    std::fs::create_dir(path("deep")).unwrap();
    let bytes = std::fs::read(files(&path("b"), "mcap").pop().unwrap()).unwrap();
    std::fs::write(path("deep/whole.mcap"), &bytes).unwrap();
    std::fs::write(path("deep/cut.mcap"), &bytes[..bytes.len() - 100]).unwrap();
    std::fs::write(path("deep/notes.txt"), "no bag").unwrap();
    std::fs::write(path("deep/notes.zstd"), "no bag").unwrap();
    // What is in it is not looked at.
    std::fs::write(path("deep/whole.db3.zstd"), b"\x28\xb5\x2f\xfd and so on").unwrap();
    std::fs::write(path("deep/wrong.mcap.zstd"), "no bag").unwrap();
    let (camera, _writer) = stream(StreamOptions::image(320, 240, 1));
    let live = Recording::begin(&[&camera, "-o", text(&path("live"))], 1);
    let listed = run(&["ls", text(folder.path()), "--json"]).expect(0, &[]).json();
    let rows: Vec<(&str, &str, Option<u64>)> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let name = row["path"].as_str().unwrap().strip_prefix(text(folder.path())).unwrap();
            (name, row["state"].as_str().unwrap(), row["message_count"].as_u64())
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("/a", "closed", Some(2 * COUNT)),
            ("/b", "closed", Some(2 * COUNT)),
            ("/c", "closed", Some(2 * COUNT)),
            ("/deep/cut.mcap", "crashed", None),
            ("/deep/whole.db3.zstd", "closed", None),
            ("/deep/whole.mcap", "closed", Some(2 * COUNT)),
            ("/deep/wrong.mcap.zstd", "damaged", None),
            ("/live", "live", Some(0)),
        ]
    );
    let compressed = path("deep/whole.db3.zstd");
    let one = run(&["ls", text(&compressed), "--json"]).expect(0, &[]).json();
    assert_eq!(one[0]["kind"], "rosbag2 database");
    run(&["recover", text(&compressed)]).expect(1, &["zstd -d"]);
    let verified = verify(&path("live"), 0);
    assert_eq!(verified["state"], "live");
    run(&["recover", text(&path("live"))]).expect(1, &["being written"]);
    let table = run(&["ls", text(folder.path())]).expect(0, &["no end mark"]).out;
    assert!(table.contains("rosbag2 bag") && table.contains("crashed"), "{table}");
    live.interrupt().expect(3, &["no message came"]);
    let one = run(&["ls", text(&path("live")), "--json"]).expect(0, &[]).json();
    assert_eq!(one[0]["state"], "closed");
    run(&["ls", text(&path("none"))]).expect(1, &["none"]);
    run(&["ls", text(&path("deep/notes.txt"))]).expect(1, &["no recording"]);
}

#[test]
fn a_cut_mcap_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    record(&bag, Signal::INT);
    let rosbag2 = folder.path().join("rosbag2");
    run(&["convert", text(&bag), text(&rosbag2), "--compression", "zstd"]).expect(0, &[]);
    let file = files(&rosbag2, "mcap").pop().unwrap();
    assert_eq!(verify(&file, 0)["message_count"], 2 * COUNT);
    let report = run(&["recover", text(&file), "--json"]).expect(0, &[]).json();
    assert_eq!(report["action"], "none");

    let bytes = std::fs::read(&file).unwrap();
    let cut = folder.path().join("cut.mcap");
    std::fs::write(&cut, &bytes[..bytes.len() - 300]).unwrap();
    verify(&cut, 1);
    let report = run(&["recover", text(&cut), "--json"]).expect(0, &["not closed"]).json();
    let whole = folder.path().join("cut.recovered.mcap");
    assert_eq!(report["output"], text(&whole));
    assert_eq!(report["message_count"], 2 * COUNT, "only the summary was cut off");
    assert_eq!(report["unknown_since_time"], Value::Null);
    assert_eq!(verify(&whole, 0)["message_count"], 2 * COUNT);
    assert!(!run(&["info", text(&whole)]).expect(0, &[]).err.contains("lacks messages"));
    assert_eq!(std::fs::read(&cut).unwrap().len(), bytes.len() - 300);
    run(&["recover", text(&cut)]).expect(1, &["exists already", "-o"]);

    // Cut between two records: no message is known to be gone, and none to have been the last.
    let summary = mcap::Summary::read(&bytes).unwrap().unwrap();
    let chunk = &summary.chunk_indexes[0];
    let other = folder.path().join("other.mcap");
    let behind = (chunk.chunk_start_offset + chunk.chunk_length) as usize;
    std::fs::write(&cut, &bytes[..behind]).unwrap();
    let recovered = run(&["recover", text(&cut), "-o", text(&other), "--json"]);
    let report = recovered.expect(0, &["is not known"]).json();
    assert_eq!(report["damaged"], 0);
    assert_eq!(report["unknown_since_time"], chunk.message_end_time.to_string());
    lacks_messages(&other);
    std::fs::remove_file(&other).unwrap();

    // A damaged chunk: its messages are lost, and counted.
    std::fs::write(&cut, &bytes).unwrap();
    rot(&cut, chunk.chunk_start_offset + chunk.chunk_length / 2);
    let found = damages(&verify(&cut, 1));
    assert!(found.contains("damaged"), "{found}");
    let recovered = run(&["recover", text(&cut), "-o", text(&other), "--json"]);
    let report = recovered.expect(3, &["cannot be read"]).json();
    let (kept, lost) = (&report["message_count"], &report["damaged"]);
    assert_eq!(kept.as_u64().unwrap() + lost.as_u64().unwrap(), 2 * COUNT, "{report}");
    assert!(lost.as_u64().unwrap() > 0);
    verify(&other, 0);
    lacks_messages(&other);
}

/// A recovered file says that messages are missing, and so do copies of it.
fn lacks_messages(file: &Path) {
    run(&["info", text(file)]).expect(0, &["lacks messages"]);
    let copy = tempfile::tempdir().unwrap();
    let copy = copy.path().join("copy");
    run(&["convert", text(file), text(&copy), "-s", "container"]).expect(0, &[]);
    tells_of_missing_messages(&copy);
}

#[test]
fn a_rosbag2_folder_gets_its_metadata_again() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    record(&bag, Signal::INT);
    for storage in ["mcap", "sqlite3"] {
        let rosbag2 = folder.path().join(storage);
        run(&["convert", text(&bag), text(&rosbag2), "-s", storage]).expect(0, &[]);
        let report = verify(&rosbag2, 0);
        assert_eq!(
            (&report["kind"], &report["message_count"]),
            (&"rosbag2 bag".into(), &120.into())
        );
        let metadata = rosbag2.join("metadata.yaml");
        let written = std::fs::read_to_string(&metadata).unwrap();
        std::fs::remove_file(&metadata).unwrap();
        let listed = run(&["ls", text(&rosbag2), "--json"]).expect(0, &[]).json();
        assert_eq!(listed[0]["state"], "crashed", "{listed}");
        assert!(damages(&verify(&rosbag2, 1)).contains("missing"));
        let report = run(&["recover", text(&rosbag2), "--json"]).expect(0, &[]).json();
        assert_eq!(report["action"], "reindexed");
        assert_eq!(verify(&rosbag2, 0)["message_count"], 2 * COUNT);
        std::fs::write(&metadata, written.replacen("message_count: 60", "message_count: 61", 1))
            .unwrap();
        assert!(damages(&verify(&rosbag2, 1)).contains("metadata.yaml"));
        run(&["recover", text(&rosbag2)]).expect(0, &["damaged1"]);
        verify(&rosbag2, 0);
    }
    let database = files(&folder.path().join("sqlite3"), "db3").pop().unwrap();
    verify(&database, 0);
    rot(&database, 4096 * 3 + 5);
    verify(&database, 1);
}

/// The rest of a truncated database is read by every verb, and missing messages are counted.
#[test]
fn a_cut_database_gives_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    record(&bag, Signal::INT);
    let cut = folder.path().join("cut");
    run(&["convert", text(&bag), text(&cut), "-s", "sqlite3"]).expect(0, &[]);
    let database = files(&cut, "db3").pop().unwrap();
    let bytes = std::fs::metadata(&database).unwrap().len();
    let file = std::fs::OpenOptions::new().write(true).open(&database).unwrap();
    file.set_len(bytes / 2 + 77).unwrap();
    for (number, path) in [&cut, &database].into_iter().enumerate() {
        verify(path, 1);
        let info = run(&["info", text(path), "--json"]).expect(0, &[]).json();
        let given = info["message_count"].as_u64().unwrap();
        assert!((1..120).contains(&given), "{given}");
        let back = folder.path().join(format!("back{number}"));
        let report =
            run(&["convert", text(path), text(&back), "--json"]).expect(3, &["lost its end"]);
        assert_eq!(report.json()["message_count"], given);
        assert!(report.json()["damaged"].as_u64().unwrap() > 0);
        verify(&back, 0);
        tells_of_missing_messages(&back);
    }
    let report = run(&["recover", text(&cut), "--json"]).expect(3, &["cannot be read"]).json();
    assert!(report["damaged"].as_u64().unwrap() > 0, "{report}");
    run(&["recover", text(&database)]).expect(1, &["livebag convert"]);
}

#[test]
fn what_cannot_be_checked_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let notes = folder.path().join("notes.txt");
    std::fs::write(&notes, "no bag at all").unwrap();
    for verb in ["verify", "recover"] {
        run(&[verb, text(&missing)]).expect(1, &["missing", "does not exist"]);
        run(&[verb, text(&notes)]).expect(1, &["notes.txt", "expected"]);
        run(&[verb, text(folder.path())]).expect(1, &[text(folder.path())]);
    }
    let bag = folder.path().join("bag");
    run(&["record", "-e", "^no such stream$", "--duration", "0.05", "-o", text(&bag)])
        .expect(3, &[]);
    run(&["recover", text(&bag), "-o", text(&missing)]).expect(2, &["--output", "in its place"]);
    verify(&bag, 0);
}

#[test]
fn two_recorders_cannot_take_the_same_folder() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    let (camera, mut writer) = stream(StreamOptions::bytes(100_000).slots(16));
    let first = Recording::begin(&[&camera, "-o", text(&bag)], 1);
    for _ in 0..3 {
        run(&["record", &camera, "-o", text(&bag)]).expect(1, &["exists already"]);
    }
    // Neither does recovering or converting into it.
    run(&["recover", text(&bag)]).expect(1, &["being written"]);
    run(&["convert", text(&bag), text(&bag)]).expect(1, &["exists already"]);
    writer.publish(&FrameMeta::bytes(), &vec![1; 100_000]).unwrap();
    wait_until("the message is there", || {
        run(&["info", text(&bag), "--json"]).json()["message_count"] == 1
    });
    first.interrupt().expect(0, &[]);
    verify(&bag, 0);
    // Many at once: one wins, and records nothing, as nothing is published.
    let race = folder.path().join("race");
    let ended: Vec<i32> = std::thread::scope(|scope| {
        let begin = || {
            scope.spawn(|| run(&["record", &camera, "-o", text(&race), "--duration", "0.3"]).code)
        };
        let all: Vec<_> = (0..8).map(|_| begin()).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(ended.iter().filter(|code| **code == 3).count(), 1, "{ended:?}");
    assert_eq!(ended.iter().filter(|code| **code == 1).count(), 7, "{ended:?}");
    verify(&race, 0);
}
