//! A server in a separate process, with a recorder in it, so that its memory and files can be counted.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use livebag::{Clock, RecorderOptions};
use livebag_net::limits::ServerLimits;
use livebag_net::{Catalog, Server, ServerOptions};
use serde_json::{Value, json};

use super::fixture::{Recording, text_topic, watch_for_panics};

/// The environment variable that makes [`server_process`] one: the folder that it serves.
const FOLDER: &str = "LIVEBAG_TEST_SERVE";
/// Its limits that differ: milliseconds for a head, milliseconds without progress, bytes of answers.
const LIMITS: &str = "LIVEBAG_TEST_LIMITS";
/// Prefix of its output.
const MARK: &str = "server process: ";

pub struct Process {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    pub address: SocketAddr,
}

impl Process {
    /// Serves `folder`, and records `live` there.
    pub fn start(folder: &Path, limits: ServerLimits) -> Self {
        let millis = |duration: Duration| duration.as_millis();
        let limits = format!(
            "{} {} {}",
            millis(limits.head_timeout),
            millis(limits.progress_timeout),
            limits.answer_bytes_max
        );
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::server_process", "--ignored", "--nocapture"])
            .env(FOLDER, folder)
            .env(LIMITS, limits)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut this = Self { child, lines, address: "127.0.0.1:1".parse().unwrap() };
        this.address = this.said()["address"].as_str().unwrap().parse().unwrap();
        this
    }

    fn said(&mut self) -> Value {
        for line in self.lines.by_ref() {
            if let Some((_, said)) = line.unwrap().split_once(MARK) {
                return serde_json::from_str(said).unwrap();
            }
        }
        panic!("the server's process has ended");
    }

    /// Physical memory, in bytes.
    pub fn memory(&self) -> u64 {
        self.memory_of("VmRSS:")
    }

    /// The most that it ever had, as the kernel counts it.
    pub fn memory_peak(&self) -> u64 {
        self.memory_of("VmHWM:")
    }

    fn memory_of(&self, line_start: &str) -> u64 {
        let status = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(status).unwrap();
        let line = status.lines().find(|line| line.starts_with(line_start)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Files and sockets that it has open.
    pub fn descriptors(&self) -> usize {
        Path::new(&format!("/proc/{}/fd", self.child.id())).read_dir().unwrap().count()
    }

    /// Ends it: its recording must have lost nothing, and no thread may have panicked.
    pub fn end(mut self) {
        drop(self.child.stdin.take());
        let said = self.said();
        assert_eq!((&said["lost"], &said["recorded"]), (&json!(0), &said["written"]), "{said}");
        assert!(said["written"].as_u64().unwrap() > 0);
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(what: &Value) {
    let mut out = std::io::stdout();
    writeln!(out, "\n{MARK}{what}").unwrap();
    out.flush().unwrap();
}

#[test]
#[ignore = "not a test: the process that others start"]
fn server_process() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let limits = std::env::var(LIMITS).unwrap();
    let limits: Vec<u64> = limits.split(' ').map(|number| number.parse().unwrap()).collect();
    let limits = ServerLimits {
        head_timeout: Duration::from_millis(limits[0]),
        progress_timeout: Duration::from_millis(limits[1]),
        answer_bytes_max: limits[2] as usize,
        ..Default::default()
    };
    watch_for_panics();
    let mut recording = Recording::new(&folder.join("live"), RecorderOptions::default());
    recording.add(text_topic("/beside"));
    let catalog = Catalog::new(std::slice::from_ref(&folder), Clock::system(), None).unwrap();
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let options = ServerOptions { listen, limits, ..Default::default() };
    let server = Server::start(Arc::new(catalog), options).unwrap();
    let ends = Arc::new(AtomicBool::new(false));
    let told = ends.clone();
    // 8 MB/s in 2,000 messages a second.
    let writing = std::thread::Builder::new().spawn(move || {
        let mut written = 0u64;
        let writer = recording.recorder.topic(text_topic("/paced")).unwrap();
        while !told.load(Ordering::Relaxed) {
            for _ in 0..10 {
                writer.write(0, written, &[7; 4096]).unwrap();
                written += 1;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = recording.recorder.finish().unwrap();
        let (recorded, _, lost) = status.totals();
        json!({ "written": written, "recorded": recorded, "lost": lost.total() })
    });
    say(&json!({ "address": server.addresses()[0].to_string() }));
    // Until the test closes it.
    std::io::stdin().lines().for_each(drop);
    ends.store(true, Ordering::Relaxed);
    let said = writing.unwrap().join().unwrap();
    drop(server);
    super::fixture::no_panics();
    say(&said);
}
