//! Shared by the tests of the command.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use livebag_shm::{StreamOptions, Writer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longest wait for anything that should come at once.
const DEADLINE: Duration = Duration::from_secs(60);

/// The command under test.
pub fn livebag(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_livebag"));
    command.args(arguments).stdin(Stdio::null());
    command
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
        let errors = self.errors.as_mut().expect("somebody listens");
        loop {
            let mut line = String::new();
            let count = errors.read_line(&mut line).expect("a line");
            assert!(count > 0, "the recorder has ended, and never said `{word}`: {}", self.said);
            self.said.push_str(&line);
            if line.contains(word) {
                return line;
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
