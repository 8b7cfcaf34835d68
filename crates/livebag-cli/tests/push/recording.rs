//! `record --push`: the recorder's own pusher, its failures and its death.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use livebag_shm::{FrameMeta, StreamOptions, Writer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::run::{Ended, assert_stored, in_store, livebag, push};
use crate::store::{BUCKET, Fault, Store};

/// A recorder that pushes.
struct Recording {
    child: Option<Child>,
    writer: Writer,
    bag: std::path::PathBuf,
}

impl Recording {
    fn begin(store: &Store, bag: &Path, name: &str, more: &[&str]) -> Self {
        let name = format!("push-test-{}-{name}", std::process::id());
        let options = StreamOptions::bytes(1 << 20).slots(64).remove_on_drop(true);
        let writer = Writer::create(&name, &options).unwrap();
        let target = format!("s3://{BUCKET}/robot7");
        let words = ["record", &name, "-o", bag.to_str().unwrap(), "--push", &target, "--json"];
        let mut command = in_store(store, livebag(&[&words, more].concat()));
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        Self { child: Some(child), writer, bag: bag.to_owned() }
    }

    /// Standard error up to a line with this word.
    fn until_said(&mut self, word: &str) -> String {
        let errors = self.child.as_mut().unwrap().stderr.as_mut().unwrap();
        let mut said = Vec::new();
        // Byte by byte: what follows is read later.
        while !String::from_utf8_lossy(&said).contains(word) || said.last() != Some(&b'\n') {
            let mut byte = [0];
            assert_eq!(errors.read(&mut byte).unwrap(), 1, "never said `{word}`: {said:?}");
            said.push(byte[0]);
        }
        String::from_utf8(said).unwrap()
    }

    /// Some messages, and a new split after them.
    fn fill_split(&mut self) {
        let before = self.status();
        for _ in 0..20 {
            self.writer.publish(&FrameMeta::bytes(), &vec![7; 50_000]).unwrap();
        }
        let count = before["message_count"].as_u64().unwrap() + 20;
        wait_until(|| self.status()["message_count"] == count);
        let split = livebag(&["ctl", self.bag.to_str().unwrap(), "split"]).output().unwrap();
        assert!(split.status.success(), "{split:?}");
        wait_until(|| self.status()["splits"].as_u64() > before["splits"].as_u64());
    }

    /// Two splits, the first of which is pushed; returns the pusher, its only child.
    fn push_splits(&mut self, stored: &Path) -> Pid {
        self.until_said("livebag: recording /");
        self.fill_split();
        self.fill_split();
        wait_until(|| stored.join("split_0001/container.yaml").exists());
        let recorder = self.child.as_ref().unwrap().id();
        let children =
            std::fs::read_to_string(format!("/proc/{recorder}/task/{recorder}/children"));
        Pid::from_raw(children.unwrap().trim().parse().unwrap()).unwrap()
    }

    fn status(&self) -> Value {
        let asked = livebag(&["ctl", self.bag.to_str().unwrap(), "status", "--json"]).output();
        serde_json::from_slice(&asked.unwrap().stdout).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.as_ref().unwrap()), signal).unwrap();
    }

    fn end(mut self) -> Ended {
        self.signal(Signal::INT);
        self.child.take().unwrap().wait_with_output().unwrap().into()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Asks again until the answer is yes. The test's own limit of time ends it otherwise.
fn wait_until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn splits_are_pushed_while_it_records_and_the_rest_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = folder.path().join("run1");
    let mut recording = Recording::begin(&store, &bag, "whole", &[]);
    let stored = store.place("robot7/run1");
    let pusher = recording.push_splits(&stored);
    // A pusher that dies costs nothing but time: another one goes on while it records.
    kill_process(pusher, Signal::KILL).unwrap();
    let said = recording.until_said("it is started again");
    assert!(said.contains("(restart 1)"), "{said}");
    recording.fill_split();
    wait_until(|| stored.join("split_0002/container.yaml").exists());
    let ended = recording.end().expect(0, &["pushing the rest"]);
    let summary: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(
        (&summary["push"]["is_pushed"], &summary["push"]["error"]),
        (&true.into(), &Value::Null)
    );
    assert_stored(&stored, &bag);
}

/// What the recorder's server tells of `run1` now.
fn event(url: &str) -> Value {
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/run1").unwrap();
    let mut server = TcpStream::connect(address).unwrap();
    write!(server, "GET /v1/bags/run1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let lines = BufReader::new(server).lines().map(Result::unwrap);
    let data = lines.filter_map(|line| Some(line.strip_prefix("data: ")?.to_owned())).next();
    serde_json::from_str(&data.unwrap()).unwrap()
}

#[test]
fn how_far_it_is_pushed_is_told_while_it_records() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = folder.path().join("run1");
    let mut recording = Recording::begin(&store, &bag, "told", &["--serve", "127.0.0.1:0"]);
    let said = recording.until_said("livebag: recording /");
    let url = said.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    assert_eq!(recording.status()["push"]["state"], "waiting");
    recording.fill_split();
    recording.fill_split();
    let told = || recording.status()["push"].clone();
    wait_until(|| told()["state"] == "splits_pushed" && told() == event(url)["push"]);
    let push = told();
    assert_eq!((&push["target"], &push["error"]), (&"s3://fleet/robot7".into(), &Value::Null));
    assert!(push["size_bytes"].as_u64() > Some(1_000_000), "{push}");
    assert_eq!(push["size_bytes"], push["stored_bytes"]);
    let asked = livebag(&["ctl", bag.to_str().unwrap(), "status"]).output().unwrap();
    let asked = String::from_utf8(asked.stdout).unwrap();
    assert!(asked.contains(" MB pushed to s3://fleet/robot7\n"), "{asked}");

    store.fail(|_| Fault::Refuse(403, "AccessDenied"));
    recording.fill_split();
    wait_until(|| recording.status()["push"]["state"] == "failed");
    let push = event(url)["push"].clone();
    assert!(push["error"].as_str().unwrap().contains("do not allow this"), "{push}");
    store.work();
    let ended = recording.end().expect(0, &["pushing the rest"]);
    let summary: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(
        (&summary["push"]["state"], &summary["push"]["error"]),
        (&"pushed".into(), &Value::Null)
    );
}

#[test]
fn wanted_topics_of_a_split_are_pushed_first() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = folder.path().join("run1");
    let larger = format!("push-test-{}-larger", std::process::id());
    let options = StreamOptions::bytes(1 << 20).slots(64).remove_on_drop(true);
    let mut writer = Writer::create(&larger, &options).unwrap();
    // Small files come first otherwise.
    let more = [&*larger, "--push-first", &format!("/none,/{larger}")];
    let mut recording = Recording::begin(&store, &bag, "smaller", &more);
    wait_until(|| recording.status()["topics"].as_array().is_some_and(|topics| topics.len() == 2));
    for _ in 0..40 {
        writer.publish(&FrameMeta::bytes(), &vec![7; 50_000]).unwrap();
    }
    wait_until(|| recording.status()["message_count"] == 40);
    recording.fill_split();
    recording.fill_split();
    wait_until(|| recording.status()["push"]["state"] == "splits_pushed");
    let seen = store.take_seen();
    let first = seen.iter().find(|seen| seen.puts().is_some() && seen.what.contains(".mcap"));
    assert!(first.is_some_and(|seen| seen.what.contains("larger")), "{first:?}");
    recording.end().expect(0, &["pushing the rest"]);
    assert_stored(&store.place("robot7/run1"), &bag);
}

#[test]
fn pushing_is_paused_and_goes_on_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = folder.path().join("run1");
    let mut recording = Recording::begin(&store, &bag, "paused", &[]);
    recording.until_said("livebag: recording /");
    let tell =
        |order: &str| livebag(&["ctl", bag.to_str().unwrap(), order]).output().unwrap().stdout;
    let said = String::from_utf8(tell("pause-push")).unwrap();
    assert!(said.ends_with("to s3://fleet/robot7; paused\n"), "{said}");
    assert_eq!(recording.status()["push"]["paused"], true);
    recording.fill_split();
    recording.fill_split();
    tell("resume-push");
    assert_eq!(recording.status()["push"]["paused"], false);
    wait_until(|| recording.status()["push"]["state"] == "splits_pushed");
    // The rest waits, too.
    tell("pause-push");
    let ended = recording.end().expect(3, &["pushing is paused; `livebag push"]);
    let summary: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(summary["push"]["is_pushed"], false);
    assert!(!store.place("robot7/run1/container.yaml").exists());
    push(&store, &bag, &[]).expect(0, &["verified"]);
    assert_stored(&store.place("robot7/run1"), &bag);
}

#[test]
fn a_store_that_refuses_ends_no_recording() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    store.fail(|_| Fault::Refuse(403, "AccessDenied"));
    let bag = folder.path().join("run1");
    let mut recording = Recording::begin(&store, &bag, "refused", &[]);
    recording.until_said("livebag: recording /");
    recording.fill_split();
    recording.fill_split();
    let said = recording.until_said("pushing to s3://fleet/robot7");
    assert!(said.contains("do not allow this"), "{said}");
    let ended = recording.end().expect(3, &["is not pushed", "livebag push"]);
    let summary: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(summary["push"]["is_pushed"], false);
    assert!(summary["push"]["error"].as_str().unwrap().contains("do not allow this"), "{summary}");
    assert_eq!((&summary["message_count"], &summary["lost"]["total"]), (&40.into(), &0.into()));
    store.work();
    push(&store, &bag, &[]).expect(0, &["verified"]);
    assert_stored(&store.place("robot7/run1"), &bag);
}

#[test]
fn a_recorder_that_is_killed_leaves_what_a_push_goes_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = folder.path().join("run1");
    let mut recording = Recording::begin(&store, &bag, "killed", &[]);
    let stored = store.place("robot7/run1");
    let pusher = recording.push_splits(&stored);
    recording.signal(Signal::KILL);
    drop(recording);
    // Its pusher ends, too. What it leaves may be a zombie where nobody collects orphans.
    wait_until(|| {
        let stat = std::fs::read_to_string(format!("/proc/{pusher}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    });
    let recovered = livebag(&["recover", bag.to_str().unwrap()]).output().unwrap();
    assert!(recovered.status.success(), "{recovered:?}");
    push(&store, &bag, &[]).expect(0, &["verified"]);
    assert_stored(&stored, &bag);
}

#[test]
fn a_bag_for_rosbag2_is_pushed_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = folder.path().join("run1");
    let mut recording = Recording::begin(&store, &bag, "mcap", &["--storage", "mcap"]);
    recording.until_said("livebag: recording /");
    recording.fill_split();
    recording.fill_split();
    recording.end().expect(0, &["pushing the rest"]);
    assert_stored(&store.place("robot7/run1"), &bag);
}

#[test]
fn splits_are_removed_once_they_are_pushed_and_the_pushed_recording_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = folder.path().join("run1");
    let options = ["--delete-pushed", "--max-bag-files", "1"];
    let mut recording = Recording::begin(&store, &bag, "freed", &options);
    recording.until_said("livebag: recording /");
    let stored = store.place("robot7/run1");
    let first = recording.status()["topics"][0]["name"].as_str().unwrap().to_owned();
    recording.fill_split();
    recording.fill_split();
    recording.fill_split();
    // The first split's files, and the second's folder.
    wait_until(|| !bag.join("split_0001").exists());
    let bricks = |folder: &Path| {
        let names = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().ends_with(".mcap")).count()
    };
    assert_eq!(bricks(&bag), 0);
    assert!(bricks(&stored) == 1 && stored.join("split_0001/container.yaml").exists());
    recording.fill_split();
    let ended = recording.end().expect(0, &["and removed here"]);
    let summary: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(summary["push"]["is_deleted"], true, "{summary}");
    assert!(!bag.exists());

    let address = summary["push"]["address"].as_str().unwrap();
    assert_eq!(address, format!("s3://{BUCKET}/robot7/run1"));
    let ask =
        |words: &[&str]| -> Ended { in_store(&store, livebag(words)).output().unwrap().into() };
    let info: Value =
        serde_json::from_str(&ask(&["info", address, "--json"]).expect(0, &[]).out).unwrap();
    assert_eq!(
        (&info["message_count"], &info["account"]["removed"]),
        (&80.into(), &0.into()),
        "{info}"
    );
    ask(&["verify", address]).expect(0, &[]);
    let messages = ask(&["query", address, "history", "-t", &first, "--json"]).expect(0, &[]).out;
    assert_eq!(messages.lines().count(), 80);
    let rows = ask(&["find", &format!("s3://{BUCKET}/robot7"), "--json"]).expect(0, &[]).out;
    let rows: Vec<Value> = serde_json::from_str(&rows).unwrap();
    let count: u64 = rows.iter().map(|row| row["message_count"].as_u64().unwrap()).sum();
    assert_eq!(count, 80, "{rows:?}");
    let sums = std::process::Command::new("sha256sum")
        .args(["-c", "container.sha256"])
        .current_dir(&stored)
        .output()
        .unwrap();
    assert!(sums.status.success(), "{sums:?}");
    let names = std::fs::read_to_string(stored.join("container.sha256")).unwrap();
    assert!(names.contains("split_0001/container.yaml"), "{names}");
}

#[test]
fn what_is_not_pushed_stays_whatever_the_limits_are() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    store.fail(|_| Fault::Refuse(403, "AccessDenied"));
    let bag = folder.path().join("run1");
    let options = ["--delete-pushed", "--max-bag-files", "1"];
    let mut recording = Recording::begin(&store, &bag, "unfreed", &options);
    recording.until_said("livebag: recording /");
    recording.fill_split();
    recording.fill_split();
    recording.fill_split();
    recording.until_said("do not allow this");
    recording.end().expect(3, &["is not pushed"]);
    let info = livebag(&["info", bag.to_str().unwrap(), "--json"]).output().unwrap();
    let info: Value = serde_json::from_slice(&info.stdout).unwrap();
    assert_eq!(info["message_count"], 60, "{info}");
    // The same command as the advice, which removes it then.
    store.work();
    push(&store, &bag, &["--delete-pushed"]).expect(0, &["removed from this disk"]);
    assert!(!bag.exists());
}

/// A recording whose first splits were pushed and then removed; the rest is not pushed yet.
fn record_with_removed_splits(store: &Store, bag: &Path, name: &str) {
    let mut recording =
        Recording::begin(store, bag, name, &["--delete-pushed", "--max-bag-files", "1"]);
    recording.until_said("livebag: recording /");
    for _ in 0..3 {
        recording.fill_split();
    }
    wait_until(|| !bag.join("split_0001").exists());
    let told = livebag(&["ctl", bag.to_str().unwrap(), "pause-push"]).output().unwrap();
    assert!(told.status.success(), "{told:?}");
    recording.end().expect(3, &["pushing is paused"]);
}

#[test]
fn the_rest_of_a_recording_stays_until_it_is_where_its_removed_splits_are() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let (bag, nas) = (folder.path().join("run1"), folder.path().join("nas"));
    std::fs::create_dir(&nas).unwrap();
    record_with_removed_splits(&store, &bag, "elsewhere");
    // To another target, and under another name.
    let words = ["push", bag.to_str().unwrap(), nas.to_str().unwrap(), "--delete-pushed"];
    let kept: Ended = livebag(&words).output().unwrap().into();
    kept.expect(1, &["is pushed, and was not removed", "split"]);
    push(&store, &bag, &["--delete-pushed", "--name", "run2"])
        .expect(1, &["is pushed, and was not removed", "split"]);
    push(&store, &bag, &["--delete-pushed"]).expect(0, &["removed from this disk"]);
    let address = format!("s3://{BUCKET}/robot7/run1");
    let info: Ended =
        in_store(&store, livebag(&["info", &address, "--json"])).output().unwrap().into();
    let info: Value = serde_json::from_str(&info.expect(0, &[]).out).unwrap();
    assert_eq!(info["message_count"], 60, "{info}");
}

#[test]
fn what_the_store_lost_of_removed_splits_is_not_in_its_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = folder.path().join("run1");
    record_with_removed_splits(&store, &bag, "lost");
    let stored = store.place("robot7/run1");
    let files = stored.join("split_0001").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let brick = files.filter(|path| path.extension().is_some_and(|end| end == "mcap")).last();
    std::fs::remove_file(brick.unwrap()).unwrap();
    push(&store, &bag, &["--delete-pushed"]).expect(1, &["is pushed, and was not removed"]);
    let manifest = std::fs::read(stored.join("container.yaml")).unwrap();
    assert_eq!(manifest, std::fs::read(bag.join("container.yaml")).unwrap());
}

#[test]
fn a_split_that_the_store_lost_is_pushed_again_while_it_records() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = folder.path().join("run1");
    let mut recording = Recording::begin(&store, &bag, "again", &[]);
    let stored = store.place("robot7/run1");
    recording.push_splits(&stored);
    wait_until(|| recording.status()["push"]["state"] == "splits_pushed");
    std::fs::remove_dir_all(stored.join("split_0001")).unwrap();
    recording.fill_split();
    wait_until(|| stored.join("split_0002/container.yaml").exists());
    assert!(stored.join("split_0001/container.yaml").exists());
    recording.end().expect(0, &["pushing the rest"]);
    assert_stored(&stored, &bag);
}

#[test]
fn to_remove_what_is_pushed_something_must_be_pushed_while_recording() {
    let refused = |words: &[&str], why: &str| {
        let words = [&["record", "-a", "--delete-pushed"], words].concat();
        Ended::from(livebag(&words).output().unwrap()).expect(2, &[why]);
    };
    refused(&[], "--push");
    let mcap = ["--push", "s3://fleet", "--storage", "mcap", "--max-bag-files", "2"];
    refused(&mcap, "pushed at the end");
}
