//! `push --watch`: what is finished is pushed, whatever happens meanwhile.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use livebag::{Recorder, RecorderOptions, SplitRules, Topic};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::run::{PART_BYTES, assert_stored, bytes, in_store, livebag, push, push_command, record};
use crate::store::{BUCKET, Fault, Store};

/// A watching command, and its lines of JSON.
pub struct Watching {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watching {
    pub fn begin(store: &Store, folder: &Path, more: &[&str]) -> Self {
        let options = ["--watch", "--every", "50ms", "--json", "--give-up-after", "10ms"];
        let mut child = push_command(store, folder, &[&options, more].concat()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Lines up to the first of this state for a recording of this name.
    #[track_caller]
    pub fn until(&mut self, state: &str, name: &str) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended after {seen:?}");
            seen.push(serde_json::from_str::<Value>(&line).unwrap());
            let last = seen.last().unwrap();
            if last["state"] == state && last["path"].as_str().unwrap().ends_with(name) {
                return seen;
            }
        }
    }

    pub fn end(mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn failures(lines: &[Value]) -> Vec<&str> {
    let failed = lines.iter().filter(|line| line["state"] == "failed");
    failed.map(|line| line["error"].as_str().unwrap()).collect()
}

#[test]
fn every_recording_is_pushed_once_it_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let data = folder.path().join("data");
    let first = record(&data.join("monday"), "run1", 2, 1);
    let second = data.join("run2");
    let recorder = Recorder::create(&second, RecorderOptions::default()).unwrap();
    // Nobody holds this one's lock: its recorder died.
    let died = Command::new("cp").arg("-r").args([&second, &data.join("died")]).status().unwrap();
    assert!(died.success());

    let mut watching = Watching::begin(&store, &data, &[]);
    let mut lines = watching.until("pushed", "run1");
    assert_stored(&store.place("robot7/run1"), &first);
    assert!(!store.place("robot7/run2").exists(), "it is being recorded");
    recorder.finish().unwrap();
    lines.extend(watching.until("pushed", "run2"));
    assert_stored(&store.place("robot7/run2"), &second);

    // What changes is pushed again; recordings that do not are left alone.
    store.take_seen();
    let event = livebag(&["event", first.to_str().unwrap(), "stop", "--from", "+0s"]).output();
    assert!(event.unwrap().status.success());
    lines.extend(watching.until("pushed", "run1"));
    assert_stored(&store.place("robot7/run1"), &first);
    assert!(store.take_seen().iter().all(|seen| !seen.what.contains("run2")));

    let recovered = livebag(&["recover", data.join("died").to_str().unwrap()]).output().unwrap();
    assert!(recovered.status.success(), "{recovered:?}");
    lines.extend(watching.until("pushed", "died"));
    let [said] = failures(&lines)[..] else { panic!("{lines:?}") };
    assert!(said.contains("died is skipped") && said.contains("livebag recover"), "{said}");
    assert_eq!(watching.end(Signal::TERM).code(), Some(0));

    // The next one knows, and asks nothing about them.
    store.take_seen();
    let third = record(&data, "run3", 1, 3);
    let mut watching = Watching::begin(&store, &data, &[]);
    watching.until("pushed", "run3");
    assert_stored(&store.place("robot7/run3"), &third);
    let asked = store.take_seen();
    assert!(asked.iter().all(|seen| !seen.what.contains("run1") && !seen.what.contains("run2")));
    assert_eq!(watching.end(Signal::INT).code(), Some(0));
}

#[test]
fn a_watch_that_is_killed_or_ended_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let data = folder.path().join("data");
    let bag = record(&data, "run1", 70, 1);
    let mut killed = Watching::begin(&store, &data, &[]);
    store.kill_after(3 * PART_BYTES, Some(Pid::from_child(&killed.child)));
    assert_eq!(killed.child.wait().unwrap().code(), None);

    // At 4 MB/s the rest would take ten seconds.
    let mut ended = Watching::begin(&store, &data, &["--max-rate", "4MB/s"]);
    ended.until("pushing", "run1");
    assert_eq!(ended.end(Signal::TERM).code(), Some(0));
    assert!(!store.place("robot7/run1/container.yaml").exists());

    Watching::begin(&store, &data, &[]).until("pushed", "run1");
    assert_stored(&store.place("robot7/run1"), &bag);
    let sent_again = store.received_bytes().saturating_sub(bytes(&bag));
    assert!(sent_again <= 2 * PART_BYTES + (1 << 20), "{sent_again} bytes after two ends");
}

#[test]
fn a_store_that_refuses_is_asked_again_and_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let data = folder.path().join("data");
    let (first, second) = (record(&data, "run1", 1, 1), record(&data, "run2", 1, 2));
    let mut refusals = 8;
    store.fail(move |_| {
        refusals -= 1;
        if refusals > 0 { Fault::Refuse(503, "SlowDown") } else { Fault::None }
    });
    let mut watching = Watching::begin(&store, &data, &[]);
    let lines = watching.until("pushed", "run2");
    let [said] = failures(&lines)[..] else { panic!("{lines:?}") };
    assert!(said.contains("busy or broken") && said.contains("tried again"), "{said}");
    assert_stored(&store.place("robot7/run1"), &first);
    assert_stored(&store.place("robot7/run2"), &second);

    // One that is refused for itself does not keep the others.
    let other = record(&data.join("copies"), "run1", 1, 3);
    let third = record(&data, "run3", 1, 4);
    let lines = watching.until("pushed", "run3");
    assert!(failures(&lines).iter().all(|error| error.contains("belongs to another recording")));
    assert_stored(&store.place("robot7/run3"), &third);
    std::fs::rename(&other, data.join("run4")).unwrap();
    watching.until("pushed", "run4");
    assert_eq!(watching.end(Signal::TERM).code(), Some(0));
}

#[test]
fn closed_splits_are_pushed_while_the_next_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let data = folder.path().join("data");
    let bag = data.join("run1");
    let recorder = begin(&bag);
    let mut watching = Watching::begin(&store, &data, &[]);
    fill_splits(&recorder, 3);
    // Whichever splits were closed when it looked: the first two at the end.
    let stored = store.place("robot7/run1");
    while !stored.join("split_0001/container.yaml").exists() {
        watching.until("splits_pushed", "run1");
    }
    let split = format!("s3://{BUCKET}/robot7/run1/split_0001");
    let info = in_store(&store, livebag(&["info", &split, "--json"])).output().unwrap();
    assert!(info.status.success(), "{info:?}");
    assert!(!stored.join("container.yaml").exists(), "the recording is not complete");
    // The claim keeps others out.
    let other = record(&folder.path().join("b"), "run1", 1, 2);
    push(&store, &other, &[]).expect(1, &["belongs to another recording"]);
    // A copy of it is another one, even with its journal.
    let copy = folder.path().join("c").join("run1");
    std::fs::create_dir(copy.parent().unwrap()).unwrap();
    assert!(Command::new("cp").arg("-r").args([&bag, &copy]).status().unwrap().success());
    assert!(livebag(&["recover", copy.to_str().unwrap()]).output().unwrap().status.success());
    push(&store, &copy, &[]).expect(1, &["belongs to another recording"]);

    // A watch that was killed goes on, and the rest comes with the end.
    watching.end(Signal::KILL);
    store.take_seen();
    let mut watching = Watching::begin(&store, &data, &[]);
    recorder.finish().unwrap();
    watching.until("pushed", "run1");
    assert_stored(&stored, &bag);
    let again: Vec<_> = store.take_seen();
    let again: Vec<_> = again.iter().filter_map(|seen| seen.puts()).collect();
    assert!(!again.iter().any(|key| key.contains("run1/split_0001/")), "sent again: {again:?}");
    assert_eq!(watching.end(Signal::TERM).code(), Some(0));
}

#[test]
fn a_recorder_that_died_between_splits_is_pushed_after_recovery() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let data = folder.path().join("data");
    let bag = data.join("run1");
    let recorder = begin(&bag);
    let mut watching = Watching::begin(&store, &data, &[]);
    fill_splits(&recorder, 2);
    watching.until("splits_pushed", "run1");
    // As after a power cut: the folder is the same, and nobody holds its lock.
    let (kept, cut) = (folder.path().join("kept"), folder.path().join("cut"));
    watching.end(Signal::KILL);
    assert!(Command::new("cp").arg("-r").args([&bag, &cut]).status().unwrap().success());
    recorder.finish().unwrap();
    std::fs::create_dir(&kept).unwrap();
    for entry in bag.read_dir().unwrap().map(Result::unwrap) {
        std::fs::rename(entry.path(), kept.join(entry.file_name())).unwrap();
    }
    for entry in cut.read_dir().unwrap().map(Result::unwrap) {
        std::fs::rename(entry.path(), bag.join(entry.file_name())).unwrap();
    }
    assert!(livebag(&["recover", bag.to_str().unwrap()]).output().unwrap().status.success());
    push(&store, &bag, &[]).expect(0, &["verified"]);
    assert_stored(&store.place("robot7/run1"), &bag);
}

/// A recorder of splits that are a mebibyte large.
fn begin(bag: &Path) -> Recorder {
    std::fs::create_dir_all(bag.parent().unwrap()).unwrap();
    let split = SplitRules { bytes_max: Some(1 << 20), duration_max: None };
    Recorder::create(bag, RecorderOptions { split, ..RecorderOptions::default() }).unwrap()
}

/// Records until so many splits have begun after the first.
fn fill_splits(recorder: &Recorder, splits: u32) {
    let topic = Topic { name: "/image".into(), message_encoding: "cdr".into(), ..Topic::default() };
    let image = recorder.topic(topic).unwrap();
    for number in 0.. {
        if recorder.status().splits > splits {
            break;
        }
        image.write(None, number, &vec![number as u8; 100_000]).unwrap();
        while recorder.status().totals().0 <= number {
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}

#[test]
fn nothing_is_sent_beside_a_recorder_if_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let data = folder.path().join("data");
    let first = record(&data, "run1", 1, 1);
    let second = data.join("run2");
    let recorder = begin(&second);
    fill_splits(&recorder, 3);
    let options = ["--watch", "--every", "50ms", "--json", "--not-while-recording"];
    let mut command = push_command(&store, &data, &options);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut watching = Watching { child, lines };
    let why = said.find(|line| line.contains("sending again when")).unwrap();
    assert!(why.contains("run2 is being recorded"), "{why}");
    assert!(store.take_seen().is_empty());
    recorder.finish().unwrap();
    assert!(said.any(|line| line == "livebag: sending again"));
    watching.until("pushed", "run2");
    assert_stored(&store.place("robot7/run1"), &first);
    assert_stored(&store.place("robot7/run2"), &second);
    assert_eq!(watching.end(Signal::TERM).code(), Some(0));
}

#[test]
fn a_folder_that_is_not_there_is_no_folder_to_watch() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let ended = push_command(&store, &folder.path().join("nothing"), &["--watch"]).output();
    crate::run::Ended::from(ended.unwrap()).expect(1, &["nothing does not exist"]);
}
