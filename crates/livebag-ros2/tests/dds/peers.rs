//! Processes that tests of DDS talk to, and what takes messages.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use livebag_ros2::network::{EndpointId, Receiver, Sample};

/// Waits for a condition, a minute at most.
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("waited a minute for {what}");
}

/// One number for messages in their order, as peer.py makes it.
pub fn digest(messages: &[Vec<u8>]) -> u32 {
    let mut whole = crc32fast::Hasher::new();
    for message in messages {
        whole.update(&(message.len() as u32).to_le_bytes());
        whole.update(message);
    }
    whole.finalize()
}

/// Distinguishes this program's networks and its peers from those of others.
pub fn tag() -> String {
    std::env::var(TAG).unwrap_or_else(|_| format!("livebag-{}", std::process::id()))
}

const TAG: &str = "LIVEBAG_DDS_TAG";

struct Taken {
    data: Vec<u8>,
    publish_time_nanos: u64,
    sequence: u64,
    publisher: EndpointId,
}

/// Keeps received messages.
pub struct Collector {
    taken: Mutex<Vec<Taken>>,
    lost: AtomicU64,
    /// How long it takes for each message.
    pace: Duration,
}

impl Collector {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { taken: Mutex::default(), lost: AtomicU64::new(0), pace: Duration::ZERO })
    }

    /// One that takes its time with each.
    pub fn slow(pace: Duration) -> Arc<Self> {
        Arc::new(Self { taken: Mutex::default(), lost: AtomicU64::new(0), pace })
    }

    pub fn count(&self) -> usize {
        self.taken.lock().unwrap().len()
    }

    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::SeqCst)
    }

    pub fn messages(&self) -> Vec<Vec<u8>> {
        self.taken.lock().unwrap().iter().map(|one| one.data.clone()).collect()
    }

    pub fn first_number(&self) -> u32 {
        let taken = self.taken.lock().unwrap();
        u32::from_le_bytes(*taken[0].data[4..].first_chunk().unwrap())
    }

    /// Whether such a message comes as last one within a second.
    pub fn comes(&self, is_it: impl Fn(&[u8]) -> bool) -> bool {
        (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            self.taken.lock().unwrap().last().is_some_and(|one| is_it(&one.data))
        })
    }

    pub fn has_times_and_publishers(&self) -> bool {
        let taken = self.taken.lock().unwrap();
        taken.iter().all(|one| one.publish_time_nanos > 0 && one.publisher != [0; 16])
    }

    pub fn publishers(&self) -> usize {
        self.by_publisher().len()
    }

    /// Whether each publisher's numbers go up one by one.
    pub fn is_in_order(&self) -> bool {
        self.by_publisher().values().all(|all| all.windows(2).all(|two| two[0] + 1 == two[1]))
    }

    fn by_publisher(&self) -> BTreeMap<EndpointId, Vec<u64>> {
        let mut all = BTreeMap::<_, Vec<_>>::new();
        for one in self.taken.lock().unwrap().iter() {
            all.entry(one.publisher).or_default().push(one.sequence);
        }
        all
    }
}

impl Receiver for Collector {
    fn sample(&self, sample: &Sample<'_>) {
        if !self.pace.is_zero() {
            std::thread::sleep(self.pace);
        }
        self.taken.lock().unwrap().push(Taken {
            data: sample.data.to_vec(),
            publish_time_nanos: sample.publish_time_nanos.expect("a publisher tells the time"),
            sequence: sample.sequence,
            publisher: sample.publisher,
        });
    }

    fn lost(&self, _publisher: &EndpointId, count: u64) {
        self.lost.fetch_add(count, Ordering::SeqCst);
    }
}

/// Another process; ended when dropped.
pub struct Peer {
    child: Child,
    said: BufReader<ChildStdout>,
    ear: Option<ChildStdin>,
}

impl Peer {
    fn start(command: &mut Command) -> Self {
        let command = command.env(TAG, tag()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let ear = child.stdin.take();
        Self { child, said, ear }
    }

    /// Waits until it says `what`, and gives that.
    pub fn wait_for(&mut self, what: &str) -> serde_json::Value {
        loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "the peer ended before `{what}`");
            // Test programs say other things as well.
            let Some(start) = line.find('{') else { continue };
            if let Ok(mut said) = serde_json::from_str::<serde_json::Value>(&line[start..])
                && said.get(what).is_some()
            {
                return said[what].take();
            }
        }
    }

    /// Sends it a line.
    pub fn say(&mut self, what: &str) {
        let ear = self.ear.as_mut().unwrap();
        writeln!(ear, "{what}").unwrap();
        ear.flush().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends by itself, and leaves the network, when its input is closed.
        drop(self.ear.take());
        for _ in 0..400 {
            if self.child.try_wait().unwrap().is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn folder() -> PathBuf {
    Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("tests/dds")
}

/// A Python that has Cyclone DDS.
pub struct Python(PathBuf);

impl Python {
    pub fn find() -> Option<Self> {
        let own = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
            .join("../../.venv/bin/python");
        let python = std::env::var_os("LIVEBAG_DDS_PYTHON").map_or(own, PathBuf::from);
        let mut check = Command::new(&python);
        let check = check.args(["-c", "import cyclonedds"]).stderr(Stdio::null()).status();
        let is_there = check.is_ok_and(|status| status.success());
        if !is_there {
            crate::skipped::skipped(&format!("{} has no package cyclonedds", python.display()));
        }
        is_there.then_some(Self(python))
    }

    pub fn peer(&self, arguments: &[&str]) -> Peer {
        Peer::start(Command::new(&self.0).arg(folder().join("peer.py")).args(arguments))
    }
}

/// A program in C with the system's Cyclone DDS.
pub struct C {
    program: PathBuf,
    _folder: tempfile::TempDir,
}

impl C {
    pub fn compiled() -> Option<Self> {
        let build = tempfile::tempdir().unwrap();
        let run = |command: &mut Command| {
            let status = command.current_dir(&build).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        };
        let program = build.path().join("peer");
        let is_there = run(Command::new("idlc").arg(folder().join("peer.idl")))
            && run(Command::new("cc")
                .arg(folder().join("peer.c"))
                .args(["peer.c", "-I.", "-O1", "-o", "peer", "-lddsc"]));
        if !is_there {
            crate::skipped::skipped(
                "there is no idlc, C compiler or libddsc (Debian: cyclonedds-dev)",
            );
        }
        is_there.then_some(Self { program, _folder: build })
    }

    pub fn peer(&self, arguments: &[&str]) -> Peer {
        Peer::start(Command::new(&self.program).args(arguments))
    }
}

/// This program in another process.
pub struct Own;

impl Own {
    pub fn peer(arguments: &[&str]) -> Peer {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(program);
        command.args(["--ignored", "--exact", "peer", "--nocapture"]);
        Peer::start(command.env("LIVEBAG_DDS_PEER", arguments.join(" ")))
    }

    pub fn arguments() -> Option<Vec<String>> {
        let arguments = std::env::var("LIVEBAG_DDS_PEER").ok()?;
        Some(arguments.split(' ').map(str::to_owned).collect())
    }

    pub fn say(what: &str, value: u64) {
        println!("{{\"{what}\": {value}}}");
    }

    pub fn heard() -> String {
        let mut line = String::new();
        let _ = std::io::stdin().read_line(&mut line);
        line.trim().to_owned()
    }
}
