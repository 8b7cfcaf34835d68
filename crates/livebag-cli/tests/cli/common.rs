//! Shared by the tests of the command.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use livebag_shm::{StreamOptions, Writer};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::Timespec;
use serde_json::Value;

/// Longest wait for anything that should come at once.
const DEADLINE: Duration = Duration::from_secs(60);

/// The command under test.
pub fn livebag(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_livebag"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// For tests of output that the environment would change: livebag's usual storage, and a locale that is everywhere.
pub fn without_settings(command: &mut Command) {
    command.env_remove("LIVEBAG_STORAGE").env("LC_ALL", "C");
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ended {
    /// Standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Fails unless the exit code is `code` and standard error has every one of `words`.
    #[track_caller]
    pub fn expect(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "no `{word}` in {self:?}");
        }
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }
}

/// Runs it to its end.
pub fn run(arguments: &[&str]) -> Ended {
    livebag(arguments).output().expect("the command runs").into()
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path of UTF-8")
}

/// Asks until the answer is yes.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < DEADLINE, "waited in vain for: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// A stream of this test's own, gone when the writer is dropped.
pub fn stream(options: StreamOptions) -> (String, Writer) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("cli-test-{}-{number}", std::process::id());
    let writer = Writer::create(&name, &options.remove_on_drop(true)).expect("a stream");
    (name, writer)
}

/// A `livebag record` at work; killed when dropped.
pub struct Recording {
    child: Child,
    /// `None` once it is closed.
    errors: Option<BufReader<ChildStderr>>,
    said: String,
}

impl Recording {
    /// Begins it and waits until it says that it records `topics` topics.
    pub fn begin(arguments: &[&str], topics: usize) -> Self {
        let mut command = livebag(&["record"]);
        command.args(arguments);
        Self::begin_command(command, topics)
    }

    /// The same with any command.
    pub fn begin_command(mut command: Command, topics: usize) -> Self {
        let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.expect("the command runs");
        let errors = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut this = Self { child, errors: Some(errors), said: String::new() };
        const WORD: &str = "livebag: recording ";
        let mut seen = 0;
        while seen < topics {
            let line = this.said_until(WORD);
            let what = line.split(WORD).nth(1).unwrap_or_default();
            // A line for each topic, or `20 topics: …`; and one that says into which folder.
            let count = what.split(' ').next().and_then(|word| word.parse().ok());
            seen += if what.starts_with('/') { 1 } else { count.unwrap_or(0) };
        }
        this
    }

    /// Reads its output up to the next line with `word`, which it returns.
    #[track_caller]
    pub fn said_until(&mut self, word: &str) -> String {
        self.said_within(DEADLINE, word)
    }

    #[track_caller]
    fn said_within(&mut self, limit: Duration, word: &str) -> String {
        let began = Instant::now();
        let errors = self.errors.as_mut().expect("somebody listens");
        let mut line = Vec::new();
        loop {
            if errors.buffer().is_empty() {
                let left = limit.saturating_sub(began.elapsed());
                let left = Timespec::try_from(left).expect("a minute at most");
                let mut polled = [PollFd::new(errors.get_ref(), PollFlags::IN)];
                let ready = retry_on_intr(|| poll(&mut polled, Some(&left))).expect("a pipe");
                assert!(ready > 0, "waited in vain for `{word}`; it said: {}", self.said);
            }
            let bytes = errors.fill_buf().expect("bytes");
            assert!(!bytes.is_empty(), "it has ended, and never said `{word}`: {}", self.said);
            let end = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let taken = end.unwrap_or(bytes.len());
            line.extend_from_slice(&bytes[..taken]);
            errors.consume(taken);
            if end.is_some() {
                let whole = String::from_utf8(std::mem::take(&mut line)).expect("text");
                self.said.push_str(&whole);
                if whole.contains(word) {
                    return whole;
                }
            }
        }
    }

    /// Closes its output.
    pub fn hang_up(&mut self) {
        self.errors = None;
    }

    /// Its standard error until it recorded.
    pub fn said(&self) -> &str {
        &self.said
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process id");
        kill_process(pid, signal).expect("the recorder is there");
    }

    /// Whether the kernel has stopped it (state T of proc(5)).
    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        stat.is_ok_and(|text| text.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T")))
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Waits for its end.
    pub fn end(mut self) -> Ended {
        use std::io::Read;
        // Standard error first: it is the longer one, and ends with the process.
        if let Some(mut errors) = self.errors.take() {
            errors.read_to_string(&mut self.said).expect("text");
        }
        let mut out = String::new();
        self.child.stdout.take().expect("a pipe").read_to_string(&mut out).expect("text");
        let code = self.child.wait().expect("a child").code().unwrap_or(-1);
        Ended { code, out, err: std::mem::take(&mut self.said) }
    }

    /// Ends it as Ctrl-C does.
    pub fn interrupt(self) -> Ended {
        self.signal(Signal::INT);
        self.end()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // It has usually ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[should_panic(expected = "waited in vain for `closing`; it said: livebag: recording /imu")]
fn a_word_that_does_not_come_is_not_waited_for_for_ever() {
    let mut command = Command::new("sh");
    command.args(["-c", "echo 'livebag: recording /imu' >&2; exec sleep 60"]);
    let mut recording = Recording::begin_command(command, 1);
    recording.said_within(Duration::from_millis(1), "closing");
}
