//! `push --watch`: what is finished is pushed, whatever happens meanwhile.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus};

use livebag::{Recorder, RecorderOptions};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::run::{PART_BYTES, assert_stored, bytes, livebag, push_command, record};
use crate::store::{Fault, Store};

/// A watching command, and its lines of JSON.
struct Watching {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watching {
    fn begin(store: &Store, folder: &Path, more: &[&str]) -> Self {
        let options = ["--watch", "--every", "50ms", "--json", "--give-up-after", "10ms"];
        let mut child = push_command(store, folder, &[&options, more].concat()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Lines up to the first of this state for a recording of this name.
    #[track_caller]
    fn until(&mut self, state: &str, name: &str) -> Vec<Value> {
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

    fn end(mut self, signal: Signal) -> ExitStatus {
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

fn failures(lines: &[Value]) -> Vec<&str> {
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
fn a_folder_that_is_not_there_is_no_folder_to_watch() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let ended = push_command(&store, &folder.path().join("nothing"), &["--watch"]).output();
    crate::run::Ended::from(ended.unwrap()).expect(1, &["nothing does not exist"]);
}
