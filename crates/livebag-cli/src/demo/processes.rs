//! The processes of the demonstration.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::Duration;

use livebag::Clock;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::plan::Plan;
use crate::files;
use crate::outcome::CliError;

/// How long a sensor may take to end.
const END_MAX: Duration = Duration::from_secs(5);
/// Interval at which an ending process is polled.
const LOOK: Duration = Duration::from_millis(5);

fn command() -> Result<Command, CliError> {
    let program = std::env::current_exe()
        .map_err(|error| CliError::failed(format!("finding this program failed: {error}")))?;
    let mut command = Command::new(program);
    // Ctrl-C goes only to the demonstration, which ends the others in order.
    command.process_group(0);
    Ok(command)
}

fn spawn(mut command: Command) -> Result<Child, CliError> {
    command
        .spawn()
        .map_err(|error| CliError::failed(format!("starting {command:?} failed: {error}")))
}

/// The publishing processes. They end, and their streams go, when this is dropped.
pub struct Sensors {
    children: Vec<Child>,
    streams: Vec<String>,
}

impl Sensors {
    /// Starts them and waits until each has published something.
    pub fn start(plan: &Plan) -> Result<Self, CliError> {
        let mut this = Self { children: Vec::new(), streams: Vec::new() };
        for sensor in &plan.sensors {
            let mut command = command()?;
            command.arg("demo-sensor").args(&sensor.arguments);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            this.children.push(spawn(command)?);
        }
        for (child, sensor) in this.children.iter_mut().zip(&plan.sensors) {
            let out = child.stdout.take();
            wait_until_ready(out, &mut this.streams).ok_or_else(|| {
                CliError::failed(format!("the process that publishes {} has ended", sensor.topic))
            })?;
        }
        Ok(this)
    }

    /// Names of the streams.
    pub fn streams(&self) -> &[String] {
        &self.streams
    }
}

/// Reads the names of a sensor's streams; `None` if it ends before it is ready.
fn wait_until_ready(out: Option<ChildStdout>, streams: &mut Vec<String>) -> Option<()> {
    for line in BufReader::new(out?).lines() {
        match line.ok()? {
            ready if ready == "ready" => return Some(()),
            name => streams.push(name),
        }
    }
    None
}

impl Drop for Sensors {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Its standard input ends, and with it the sensor.
            drop(child.stdin.take());
        }
        let clock = Clock::system();
        for child in &mut self.children {
            while matches!(child.try_wait(), Ok(None)) {
                if clock.monotonic_nanos() > END_MAX.as_nanos() as u64 {
                    // An error means that it has ended.
                    let _ = child.kill();
                    let _ = child.wait();
                }
                clock.sleep(LOOK);
            }
        }
        for name in &self.streams {
            // Those whose writer ended in order are gone.
            let _ = livebag_shm::remove(name);
        }
    }
}

/// The recorder at work: a `livebag record`.
pub struct RecorderProcess {
    child: Child,
    errors: Option<ChildStderr>,
}

/// How it ended.
pub struct Recorded {
    /// Its processor time, in and out of the kernel, io_uring's own threads included.
    pub cpu_s: Option<f64>,
}

impl RecorderProcess {
    pub fn start(streams: &[String], plan: &Plan) -> Result<Self, CliError> {
        let mut command = command()?;
        command.arg("record").args(streams).arg("-o").arg(&plan.directory);
        command.arg("--duration").arg(plan.duration.as_secs_f64().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = spawn(command)?;
        let errors = child.stderr.take();
        Ok(Self { child, errors })
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Whether it has ended; its figures stay readable.
    pub fn has_ended(&self) -> bool {
        let Some(pid) = self.pid() else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
    }

    /// Ends it as Ctrl-C does.
    pub fn interrupt(&self) {
        if let Some(pid) = self.pid() {
            // An error means that it has ended.
            let _ = kill_process(pid, Signal::INT);
        }
    }

    /// Waits for its end.
    pub fn end(mut self, clock: &Clock) -> Result<Recorded, CliError> {
        while !self.has_ended() {
            clock.sleep(LOOK);
        }
        let cpu_s = cpu_s(self.child.id());
        let ended = self.child.wait();
        let mut said = String::new();
        if let Some(errors) = &mut self.errors {
            // Unreadable output cannot be repeated.
            let _ = errors.read_to_string(&mut said);
        }
        let code = ended.ok().and_then(|status| status.code());
        match code {
            Some(0 | 3) => Ok(Recorded { cpu_s }),
            _ => Err(CliError::failed(format!("the recorder failed:\n{}", said.trim_end()))),
        }
    }
}

impl Drop for RecorderProcess {
    fn drop(&mut self) {
        // It has ended, unless the demonstration failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time of a process that has not been waited for.
fn cpu_s(pid: u32) -> Option<f64> {
    let stat = files::kernel_setting(&format!("/proc/{pid}/stat"))?;
    // proc(5): utime and stime are fields 14 and 15; the name, field 2, may hold anything.
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some((ticks(14)? + ticks(15)?) as f64 / rustix::param::clock_ticks_per_second() as f64)
}
