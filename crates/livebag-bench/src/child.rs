//! The benchmark's own processes: each writer, reader, producer and recorder is this program
//! again, under a hidden verb.
//!
//! The protocol is lines. The child gets its orders as JSON in its last argument, prints `ready` when it is set up,
//! waits for a line (`go`), and ends with one line of JSON, its result. Its standard error goes to the user.

use std::io::{BufRead, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Serialize, de::DeserializeOwned};

use crate::clock;
use crate::error::{BenchError, Result};
use crate::usage;

/// Set-up of a process: zenoh takes the longest, about a second.
const READY_SECONDS_MAX: u64 = 60;

/// A process of the benchmark, seen from the one that started it. It is killed when dropped.
pub struct Process {
    role: String,
    child: Child,
    orders: Option<ChildStdin>,
    answers: ChildStdout,
    buffered: Vec<u8>,
}

impl Process {
    /// Starts this program again as `role`, with its orders.
    pub fn start(role: &str, orders: &impl Serialize) -> Result<Self> {
        let program = std::env::current_exe()
            .map_err(|e| BenchError::io("finding the benchmark's own program", e))?;
        let orders = serde_json::to_string(orders)
            .map_err(|e| BenchError::Usage(format!("orders for {role}: {e}")))?;
        let mut child = Command::new(program)
            .arg(role)
            .arg(orders)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| BenchError::io(format!("starting the {role} process"), e))?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were piped above")
        };
        Ok(Self {
            role: role.to_owned(),
            child,
            orders: Some(orders),
            answers,
            buffered: Vec::new(),
        })
    }

    /// Waits until the process has said that it is set up.
    pub fn expect_ready(&mut self) -> Result<()> {
        match self.line(READY_SECONDS_MAX)?.as_str() {
            "ready" => Ok(()),
            other => Err(self.problem(format!("was to say \"ready\" and said {other:?}"))),
        }
    }

    /// Tells the process to go on.
    pub fn go(&mut self) -> Result<()> {
        let Some(orders) = &mut self.orders else {
            return Err(self.problem("was told to go on after its end".to_owned()));
        };
        let told = orders.write_all(b"go\n").and_then(|()| orders.flush());
        told.map_err(|e| self.problem(format!("could not be told to go on: {e}")))
    }

    /// Waits for the result, `seconds_max` at most.
    pub fn result<T: DeserializeOwned>(&mut self, seconds_max: u64) -> Result<T> {
        let line = self.line(seconds_max)?;
        serde_json::from_str(&line)
            .map_err(|e| self.problem(format!("gave a result that cannot be read: {e}: {line}")))
    }

    /// Waits for the end of the process.
    pub fn finish(mut self) -> Result<()> {
        drop(self.orders.take());
        let status = self
            .child
            .wait()
            .map_err(|e| BenchError::io(format!("waiting for the {} process", self.role), e))?;
        if status.success() { Ok(()) } else { Err(self.problem(format!("ended with {status}"))) }
    }

    fn line(&mut self, seconds_max: u64) -> Result<String> {
        let deadline = clock::monotonic_nanos() + seconds_max * 1_000_000_000;
        loop {
            if let Some(end) = self.buffered.iter().position(|&b| b == b'\n') {
                let line: Vec<u8> = self.buffered.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            self.wait_readable(deadline, seconds_max)?;
            let mut chunk = [0; 65_536];
            let count = self.answers.read(&mut chunk).map_err(|e| {
                BenchError::io(format!("reading from the {} process", self.role), e)
            })?;
            if count == 0 {
                let how = self.child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
                return Err(self.problem(format!("ended early ({how}); its words are above")));
            }
            self.buffered.extend_from_slice(&chunk[..count]);
        }
    }

    fn wait_readable(&self, deadline_nanos: u64, seconds_max: u64) -> Result<()> {
        let left = deadline_nanos.saturating_sub(clock::monotonic_nanos());
        let timeout = Timespec {
            tv_sec: (left / 1_000_000_000) as i64,
            tv_nsec: (left % 1_000_000_000) as i64,
        };
        let mut set = [PollFd::from_borrowed_fd(self.answers.as_fd(), PollFlags::IN)];
        match poll(&mut set, Some(&timeout)) {
            Ok(0) => Err(self.problem(format!("said nothing for {seconds_max} s"))),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(BenchError::io("waiting for a process", e)),
        }
    }

    fn problem(&self, problem: String) -> BenchError {
        BenchError::Child { role: self.role.clone(), problem }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // After a regular end both fail, which is harmless.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child's side: reads its orders.
pub fn orders<T: DeserializeOwned>(json: &str) -> Result<T> {
    serde_json::from_str(json).map_err(|e| BenchError::Usage(format!("orders: {e}")))
}

/// The child's side: binds this thread, and those that it will start, to one processor.
pub fn bind_to(core: usize) -> Result<()> {
    usage::pin(&[core]).map_err(|e| BenchError::io("binding a process to its processor", e))
}

/// The child's side: goes before others on the processors, where it may.
pub fn go_first() {
    let _ = rustix::process::setpriority_process(None, -20);
}

/// The child's side: reports that it is set up and waits for the start.
pub fn ready_and_wait() -> Result<()> {
    say("ready")?;
    wait_for_go()
}

/// The child's side: waits for the next `go`. The end of the parent ends the wait, too.
pub fn wait_for_go() -> Result<()> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|e| BenchError::io("waiting to be told to go on", e))?;
    Ok(())
}

/// The child's side: hands over its result.
pub fn answer(result: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(result)
        .map_err(|e| BenchError::Usage(format!("a result cannot be written: {e}")))?;
    say(&text)
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|e| BenchError::io("answering the benchmark's main process", e))
}
