//! Recording more streams, and reading more files, than the process may have open.

use std::path::Path;
use std::process::{Command, Stdio};

use livebag::{Message, Recorder, RecorderOptions, Topic};
use livebag_shm::{FrameMeta, StreamOptions, Writer};
use serde_json::Value;

use crate::common::{Ended, Recording, run, text, wait_until};

const STREAMS: u64 = 60;
/// Messages of each.
const ROUNDS: u64 = 4;

/// `livebag` under a limit of open files that it cannot raise.
fn limited(files: u32, arguments: &[&str]) -> Command {
    let mut command = Command::new("bash");
    let script = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_livebag")]).args(arguments);
    command.stdin(Stdio::null());
    command
}

fn publish(writers: &mut [Writer]) {
    for writer in writers {
        writer.publish(&FrameMeta::bytes(), &[7; 100]).unwrap();
    }
}

#[test]
fn streams_beyond_the_limit_of_files_are_refused_and_the_others_recorded() {
    for (files, storage) in [(64, "container"), (200, "container"), (128, "mcap"), (96, "sqlite3")]
    {
        let folder = tempfile::tempdir().unwrap();
        let prefix = format!("few-files-{}-{storage}-{files}", std::process::id());
        let make = |number| {
            let options = StreamOptions::bytes(128).slots(8).remove_on_drop(true);
            Writer::create(&format!("{prefix}-{number}"), &options).unwrap()
        };
        let mut streams: Vec<_> = (0..STREAMS).map(make).collect();
        let path = folder.path().join("run");
        let pattern = format!("^/{prefix}-");
        let mut arguments = vec!["record", "-e", &pattern, "-o", text(&path), "--json"];
        arguments.extend(["--storage", storage]);
        if storage == "container" {
            // A split every now and then, so that files of two are open at a time.
            arguments.extend(["--max-bag-duration", "200ms"]);
        }
        let mut recording = Recording::begin_command(limited(files, &arguments), 0);
        // Not the word alone: other tests have streams, too.
        recording.said_until(&format!("not recorded: /{prefix}"));
        publish(&mut streams);
        // One that is too many, and appears later.
        streams.push(make(STREAMS));
        recording.said_until(&format!("not recorded: /{prefix}-{STREAMS}"));
        for round in 1..ROUNDS {
            if storage == "container" {
                let split = path.join(format!("split_{round:04}"));
                wait_until("a split", || split.exists());
            }
            publish(&mut streams);
        }
        let limit = format!(" {files} ");
        let words = ["ulimit -n", "LimitNOFILE", "not recorded, or only in part", &limit];
        let ended = recording.interrupt().expect(3, &words);
        let summary = ended.json();
        assert_eq!(summary["failure"], Value::Null, "{ended:?}");
        let account = &summary["account"];
        let of = |count: &Value| count.as_u64().unwrap();
        let (recorded, lost) = (of(&account["recorded"]), of(&account["lost"]["disk"]));
        assert!(recorded >= ROUNDS && lost >= ROUNDS, "{files}: {account}");
        let published = ROUNDS * (STREAMS + 1) - 1;
        assert_eq!(recorded + lost, published, "{files} {storage}: {account}");
        run(&["verify", text(&path)]).expect(0, &[]);
    }
}

/// Topics and splits of a recording with many files.
const TOPICS: u64 = 3;
const SPLITS: u64 = 40;

/// A message of each topic in each split.
fn record_splits(path: &Path, prefix: &str, options: RecorderOptions) {
    let recorder = Recorder::create(path, options).unwrap();
    let make = |number| Topic { name: format!("/{prefix}-{number}"), ..Topic::default() };
    let writers: Vec<_> = (0..TOPICS).map(|k| recorder.topic(make(k)).unwrap()).collect();
    for sequence in 1..=SPLITS {
        for writer in &writers {
            let log_time_nanos = 1000 + sequence;
            let message =
                Message { log_time_nanos, publish_time_nanos: 1, sequence, data: b"hello" };
            writer.write_message(&message).unwrap();
        }
        wait_until("they are recorded", || recorder.status().totals().0 == TOPICS * sequence);
        recorder.split().unwrap();
        wait_until("the split", || u64::from(recorder.status().splits) > sequence);
    }
    recorder.finish().unwrap();
}

#[test]
fn a_recording_of_more_files_than_may_be_open_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let prefix = format!("many-files-{}", std::process::id());
    let (run, parts) = (path("run"), path("parts"));
    record_splits(&run, &prefix, RecorderOptions::default());
    let one_file = Some("parts".to_owned());
    record_splits(&parts, &prefix, RecorderOptions { one_file, ..RecorderOptions::default() });
    let read =
        |arguments: &[&str]| Ended::from(limited(64, arguments).output().unwrap()).expect(0, &[]);
    let (answer, copy, bag) = (path("answer.mcap"), path("copy"), path("bag"));
    let run = text(&run);
    read(&["verify", run]);
    read(&["query", run, "history", "-o", text(&answer)]);
    read(&["convert", run, text(&copy)]);
    read(&["convert", run, text(&bag), "--storage", "mcap"]);
    read(&["play", run, "--rate", "1000"]);
    // It makes the bag of rosbag2 of it.
    read(&["recover", text(&parts)]);
    assert!(parts.join("metadata.yaml").exists());
    for recording in [Path::new(run), &parts, &answer, &copy, &bag] {
        let info = read(&["info", text(recording), "--json"]).json();
        assert_eq!(info["message_count"], TOPICS * SPLITS, "{}: {info}", recording.display());
    }
}
