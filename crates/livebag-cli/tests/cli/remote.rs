//! Asking a recorder over HTTP, and a server of finished recordings.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use livebag_shm::{FrameMeta, StreamOptions};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Ended, Recording, livebag, run, stream, text, wait_until};

fn count(address: &str) -> u64 {
    let asked = run(&["query", address, "history", "--count"]);
    asked.out.trim().parse().unwrap_or(0)
}

#[test]
fn a_recorder_answers_while_it_records_and_a_server_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let (small, mut small_writer) = stream(StreamOptions::bytes(100));
    let (large, mut large_writer) = stream(StreamOptions::bytes(100_000));
    let arguments = [&small, &large, "-o", text(&bag), "--serve", "127.0.0.1:0"];
    let recording = Recording::begin(&arguments, 2);
    let url = recording.said().split_whitespace().find(|word| word.starts_with("http://"));
    let url = url.expect("an address").to_owned();
    assert!(url.ends_with("/run1"), "{url}");
    for number in 0..50u8 {
        small_writer.publish(&FrameMeta::default(), &[number; 100]).unwrap();
        large_writer.publish(&FrameMeta::default(), &vec![number; 100_000]).unwrap();
        wait_until("the frames are there", || count(text(&bag)) == 2 * (u64::from(number) + 1));
    }
    // The same questions, asked here and there.
    for question in [
        &["history", "--json"][..],
        &["history", "--from", "+0s", "--to", "+1h", "--json", "-t", &small],
        &["latest", "--last", "1h", "--json", "--decode"],
        &["latest", "--last", "1h", "--count"],
    ] {
        let ask = |bag: &str| run(&[&["query", bag], question].concat()).expect(0, &[]).out;
        let here = ask(text(&bag));
        assert!(!here.is_empty());
        assert_eq!(here, ask(&url), "{question:?}");
    }
    // All of it comes in time, however busy the machine is.
    for (question, name) in [(&["history"][..], "a.mcap"), (&["auto", "--within", "60s"], "b.mcap")]
    {
        let file = folder.path().join(name);
        run(&[&["query", &url], question, &["-o", text(&file)]].concat()).expect(0, &[]);
        let info = run(&["info", text(&file), "--json"]).expect(0, &[]).json();
        assert_eq!(info["message_count"], 100, "{question:?}");
    }
    let newest = run(&["query", &url, "auto", "--within", "10s", "--json"]).expect(0, &[]).out;
    let times: Vec<u64> = newest
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| line["log_time"].as_str().unwrap().parse::<u64>().unwrap())
        .collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "the newest come first");
    run(&["query", &url, "latest", "-t", "/none"]).expect(1, &["no topic /none"]);
    let elsewhere = url.replace("/run1", "/run2");
    run(&["query", &elsewhere, "latest"]).expect(1, &["no recording run2"]);
    run(&["query", "http://", "latest"]).expect(1, &["http://HOST:PORT/NAME"]);

    recording.interrupt().expect(0, &[]);
    run(&["query", &url, "latest"]).expect(1, &["livebag serve"]);
    let (_server, base) = serve(folder.path());
    let base = &*base;
    let url = format!("{base}/run1");
    assert_eq!(count(&url), 100);
    same_as_here(&run(&["info", text(&bag), "--json"]).json(), run(&["info", &url, "--json"]));
    let listed = |address: &str| run(&["ls", address, "--json"]).expect(0, &[]).json();
    let (here, there) = (listed(text(&bag)), listed(base));
    assert_eq!(there, listed(&url));
    assert_eq!(there.as_array().unwrap().len(), 1);
    for name in ["kind", "state", "problem", "start_time", "duration_nanos", "message_count"] {
        assert_eq!(here[0][name], there[0][name], "{name}");
    }
    assert_eq!(there[0]["path"].as_str(), Some(&*url));
    assert!(run(&["ls", base]).expect(0, &[]).out.contains("/run1"));
    let told = run(&["info", &url]).expect(0, &[]).out;
    assert!(told.contains("on a server") && told.contains("100, 5.0"), "{told}");
    run(&["info", base]).expect(2, &["livebag ls"]);
    run(&["info", &format!("{base}/none")]).expect(1, &["no recording none"]);
    run(&["ls", &format!("{base}/none")]).expect(1, &["no recording none"]);
}

/// A server of a folder, and its address.
pub fn serve(folder: &Path) -> (Killed, String) {
    serve_with(folder, &[])
}

fn serve_with(folder: &Path, arguments: &[&str]) -> (Killed, String) {
    let mut server = livebag(&["serve", text(folder), "--listen", "127.0.0.1:0", "--json"]);
    server.args(arguments);
    served(server)
}

fn served(mut server: Command) -> (Killed, String) {
    let mut server = Killed(server.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: serde_json::Value = serde_json::from_str(&line).unwrap();
    let base = said["urls"][0].as_str().unwrap().to_owned();
    (server, base)
}

/// A process that ends with its test, however that ends.
pub struct Killed(Child);

impl Killed {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id() as i32).expect("a process id");
        kill_process(pid, signal).expect("it is there");
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It has usually not ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All values of a remote recording equal those of `here`, with the same names.
pub fn same_as_here(here: &Value, told: Ended) {
    let there = told.expect(0, &[]).json();
    let names = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(here), names(&there));
    for name in names(here) {
        match &*name {
            "path" | "storage" => assert_ne!(here[&name], there[&name]),
            "files" | "attachments" => assert!(there[&name].is_null(), "{name}"),
            "topics" => {}
            name => assert_eq!(here[name], there[name], "{name}"),
        }
    }
    let topics = |of: &Value| of["topics"].as_array().unwrap().clone();
    assert_eq!(topics(here).len(), topics(&there).len());
    for (here, there) in topics(here).iter().zip(&topics(&there)) {
        assert_eq!(names(here), names(there));
        for name in names(here) {
            match &*name {
                "files" => assert!(there[&name].is_null(), "{name}"),
                name => assert_eq!(here[name], there[name], "{name}"),
            }
        }
    }
}

#[test]
fn recordings_of_other_makes_are_served() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let (path, topic) = crate::names::recording(folder.path(), "drive");
    let (bag, old) = (folder.path().join("bag"), folder.path().join("more/old"));
    std::fs::create_dir(folder.path().join("more")).unwrap();
    run(&["convert", text(&path), text(&bag)]).expect(0, &[]);
    run(&["convert", text(&path), text(&old), "-s", "sqlite3"]).expect(0, &[]);
    std::fs::copy(bag.join("bag_0.mcap"), folder.path().join("alone.mcap")).unwrap();
    // A database keeps one time of a message, and no sequence.
    let times = |line: &[&str]| -> Vec<String> {
        let lines = run(&[line, &["history", "--json", "-t", &topic]].concat()).expect(0, &[]).out;
        let line =
            |line: &str| serde_json::from_str::<Value>(line).unwrap()["log_time"].to_string();
        lines.lines().map(line).collect()
    };
    let expected = times(&["query", text(&path)]);
    let index = tempfile::tempdir().unwrap();
    let names = ["alone", "bag", "drive", "more.old"];
    let ask_all = |base: &str| {
        for name in names {
            let url = format!("{base}/{name}");
            wait_until("it is copied", || count(&url) == 5);
            assert_eq!(times(&["query", &url]), expected, "{name}");
        }
    };
    // A copy for the while of the server.
    let (server, base) = serve(folder.path());
    ask_all(&base);
    let listed = run(&["ls", &base, "--json"]).expect(0, &[]).json();
    assert_eq!(listed.as_array().unwrap().len(), names.len());
    drop(server);
    // One that stays, and is made anew only if the recording has changed.
    let arguments = ["--index-dir", text(index.path())];
    let stamps = || -> Vec<_> {
        let roots = std::fs::read_dir(index.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut stamps: Vec<_> = roots
            .map(|root| (root.clone(), root.join("source.json").metadata().unwrap().ino()))
            .collect();
        stamps.sort();
        stamps
    };
    let (server, base) = serve_with(folder.path(), &arguments);
    ask_all(&base);
    wait_until("all is done", || {
        std::fs::read_dir(index.path())
            .unwrap()
            .all(|r| r.unwrap().path().join("source.json").exists())
    });
    let first = stamps();
    assert_eq!(first.len(), 3);
    drop(server);
    let (server, base) = serve_with(folder.path(), &arguments);
    ask_all(&base);
    assert_eq!(stamps(), first);
    drop(server);
    std::fs::copy(bag.join("bag_0.mcap"), folder.path().join("alone.mcap")).unwrap();
    let (_server, base) = serve_with(folder.path(), &arguments);
    ask_all(&base);
    wait_until("one is made anew", || {
        let all = std::fs::read_dir(index.path()).unwrap();
        all.filter(|r| r.as_ref().unwrap().path().join("source.json").exists()).count() == 3
            && stamps().iter().zip(&first).filter(|(now, then)| now != then).count() == 1
    });
}

#[test]
fn recordings_of_other_makes_that_come_or_change_are_served_and_copies_outlive_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, temporary) = (folder.path().join("runs"), folder.path().join("tmp"));
    std::fs::create_dir(&runs).unwrap();
    std::fs::create_dir(&temporary).unwrap();
    let path = crate::names::recording(folder.path(), "drive").0;
    let bags = [&["bag"][..], &["bag", "twice"]].map(|inputs| {
        let bag = folder.path().join(inputs[inputs.len() - 1]);
        let sources = ["-i", text(&path)].repeat(inputs.len());
        run(&[&["convert", "-o", text(&bag)], &sources[..]].concat()).expect(0, &[]);
        std::fs::read_dir(bag).unwrap().map(|entry| entry.unwrap().path())
    });
    let [once, twice] = bags.map(|mut files| {
        files.find(|file| file.extension().is_some_and(|kind| kind == "mcap")).unwrap()
    });
    // Written a while ago: nobody is at it any more.
    let put = |file: &Path, name: &str| {
        let place = runs.join(name);
        std::fs::copy(file, &place).unwrap();
        let file = std::fs::File::options().write(true).open(place).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    };
    let start = || {
        let mut server = livebag(&["serve", text(&runs), "--listen", "127.0.0.1:0", "--json"]);
        server.env("TMPDIR", &temporary);
        served(server)
    };
    let copies = || std::fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().path());
    let (server, base) = start();
    assert_eq!(copies().count(), 0, "there is nothing to copy");
    put(&once, "late.mcap");
    wait_until("one that comes is served", || count(&format!("{base}/late")) == 5);
    put(&twice, "late.mcap");
    wait_until("it is served as it is now", || count(&format!("{base}/late")) == 10);
    let left: Vec<_> = copies().collect();
    assert_eq!(left.len(), 1);
    // It is killed, and cannot remove what it made.
    drop(server);
    assert!(left[0].exists());
    let (server, base) = start();
    wait_until("it is served again", || count(&format!("{base}/late")) == 10);
    assert!(!left[0].exists(), "the next server does");
    server.signal(Signal::INT);
    wait_until("the last server has ended, and its copies are gone", || copies().count() == 0);
}

#[test]
fn what_others_could_read_is_not_served_without_tls_and_token() {
    let folder = tempfile::tempdir().unwrap();
    let here = text(folder.path());
    run(&["serve", here, "--listen", "0.0.0.0:0"])
        .expect(1, &["--tls-cert", "--token-file", "127.0.0.1"]);
    run(&["serve", "/no/such/folder"]).expect(1, &["/no/such/folder"]);
    run(&["serve", here, "--listen", "nonsense:x:y"]).expect(2, &["127.0.0.1:8767"]);
    run(&["serve", here, "--tls-cert", "a.pem"]).expect(2, &["--tls-key"]);
    let token = folder.path().join("token");
    std::fs::write(&token, "short").unwrap();
    run(&["serve", here, "--token-file", text(&token)]).expect(1, &["openssl rand"]);
    if cfg!(feature = "zenoh") {
        let open = ["--zenoh", "--zenoh-listen", "tcp/0.0.0.0:0"];
        run(&[&["serve", here, "--listen", "127.0.0.1:0"], &open[..]].concat())
            .expect(1, &["tls/"]);
    }
}
