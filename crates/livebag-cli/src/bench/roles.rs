//! The processes of a run: the same program under a hidden verb, told what to do on its standard
//! input, one line at a time. Each run has its own, so that memory and processor time are its own.

use std::io::{BufRead, BufReader, Lines, StdinLock, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::producing;
use super::recording::{self, Orders};
use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};
use livebag_bench::usage;

/// Interval at which a wait for a process checks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);
/// Lines that a child may be ahead of its parent.
const LINES_AHEAD: usize = 16;

const READY: &str = "ready";
const GO: &str = "go ";
const STOP: &str = "stop";

/// A process's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Writes the recording.
    Recorder,
    /// Publishes into streams.
    Producers,
}

/// Run one process of a benchmark.
#[derive(clap::Args)]
pub struct Args {
    role: Role,
    parent: u32,
}

/// Executes the parent's orders.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    if !usage::die_with_parent(args.parent) {
        return Err(CliError::failed("the benchmark has ended"));
    }
    let mut parent = Parent { lines: std::io::stdin().lock().lines() };
    let orders: Orders = serde_json::from_str(&parent.line()?)?;
    match args.role {
        Role::Recorder => recording::run(&orders, &mut parent),
        Role::Producers => producing::run(&orders, &mut parent),
    }?;
    Ok(Outcome::Done)
}

/// The other side, as a child sees it.
pub struct Parent {
    lines: Lines<StdinLock<'static>>,
}

impl Parent {
    fn line(&mut self) -> Result<String, CliError> {
        match self.lines.next() {
            Some(Ok(line)) => Ok(line),
            _ => Err(CliError::failed("the benchmark has ended")),
        }
    }

    /// Says that all is ready and waits for the time at which it begins, in nanoseconds of
    /// [`livebag_bench::clock::monotonic_nanos`].
    pub fn ready_and_go(&mut self) -> Result<u64, CliError> {
        say(READY)?;
        let line = self.line()?;
        let start = line.strip_prefix(GO).and_then(|nanos| nanos.parse().ok());
        start.ok_or_else(|| CliError::failed(format!("expected `{GO}` and a time, found {line:?}")))
    }

    /// Waits until all has been published.
    pub fn wait_for_stop(&mut self) -> Result<(), CliError> {
        self.line().map(drop)
    }

    /// Sends the result.
    pub fn answer(&mut self, what: &impl Serialize) -> Result<(), CliError> {
        say(&serde_json::to_string(what)?)
    }
}

fn say(line: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// A process, as the parent sees it. It ends when this is dropped.
pub struct Process<'a> {
    role: Role,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    interrupt: &'a Interrupt,
}

impl<'a> Process<'a> {
    /// Starts it and gives it its orders.
    pub fn start(role: Role, orders: &Orders, interrupt: &'a Interrupt) -> Result<Self, CliError> {
        let failed = |error| CliError::failed(format!("starting a process failed: {error}"));
        let name = if role == Role::Recorder { "recorder" } else { "producers" };
        let mut child = Command::new(std::env::current_exe().map_err(failed)?)
            .args(["bench-role", name, &std::process::id().to_string()])
            // Ctrl-C goes only to the benchmark, which ends the others.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (sender, lines) = sync_channel(LINES_AHEAD);
        if let Some(out) = child.stdout.take() {
            let read = move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    // The receiver is gone: the process is being ended.
                    let _ = sender.send(line);
                }
            };
            std::thread::Builder::new().name("listen".into()).spawn(read).map_err(failed)?;
        }
        let input = child.stdin.take();
        let mut process = Self { role, child, input, lines, interrupt };
        process.say(&serde_json::to_string(orders)?)?;
        Ok(process)
    }

    fn say(&mut self, line: &str) -> Result<(), CliError> {
        let said = self.input.as_mut().map_or(Ok(()), |input| writeln!(input, "{line}"));
        said.map_err(|_| self.gone())
    }

    fn gone(&self) -> CliError {
        let who = if self.role == Role::Recorder { "recorder" } else { "producers" };
        CliError::failed(format!("the {who} of this run failed; what it said is above"))
    }

    fn hear(&mut self) -> Result<String, CliError> {
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
                Err(RecvTimeoutError::Timeout) if self.interrupt.has_come() => {
                    return Err(CliError::failed("interrupted"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Waits until it is ready.
    pub fn wait_ready(&mut self) -> Result<(), CliError> {
        match self.hear()? {
            line if line == READY => Ok(()),
            line => Err(CliError::failed(format!("expected `{READY}`, found {line:?}"))),
        }
    }

    /// Sends it the time to begin.
    pub fn go(&mut self, start_nanos: u64) -> Result<(), CliError> {
        self.say(&format!("{GO}{start_nanos}"))
    }

    /// Informs it that all messages have been published.
    pub fn stop(&mut self) -> Result<(), CliError> {
        self.say(STOP)
    }

    /// Waits for its result.
    pub fn answer<T: DeserializeOwned>(&mut self) -> Result<T, CliError> {
        Ok(serde_json::from_str(&self.hear()?)?)
    }
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        // Its result has been received; errors mean that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
