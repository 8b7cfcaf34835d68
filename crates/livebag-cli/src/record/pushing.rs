//! `record --push`: child processes push the recording, so that nothing can hold up or end the recorder.
//!
//! While it records, `push --watch` sends the closed splits. After the recording is closed, `push` sends the rest.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::interrupt::Interrupt;

/// Interval at which the end of a child is polled.
const LOOK: Duration = Duration::from_millis(50);

/// What became of it, for the summary.
#[derive(Debug, Serialize)]
pub struct PushReport {
    target: String,
    /// Whether the whole recording is in the target, verified.
    is_pushed: bool,
    /// Why not.
    error: Option<String>,
}

/// Pushes a recording while it is made.
pub struct Pushing {
    target: String,
    arguments: Vec<String>,
    watch: Option<Pusher>,
    notice: Option<String>,
}

/// A child, and the thread that reads what it prints.
struct Pusher {
    child: Child,
    reader: Option<JoinHandle<()>>,
    failures: Arc<Mutex<Failures>>,
}

#[derive(Default)]
struct Failures {
    last: Option<String>,
    unsaid: Option<String>,
}

/// What is read of a line of `push --json`.
#[derive(Deserialize)]
struct Line {
    error: Option<String>,
}

impl PushReport {
    /// That it is not pushed, if so.
    pub fn failure(&self, path: &str) -> Option<String> {
        let Self { target, error, .. } = self;
        let error = error.as_deref().filter(|_| !self.is_pushed)?;
        Some(format!(
            "{path} is not pushed: {error}; `livebag push {path} {target}` goes on with it"
        ))
    }
}

impl Pushing {
    /// Of the recording in `directory`; `options` are those of `push`. If it `has_splits`, the closed ones are pushed
    /// from now on.
    pub fn begin(directory: &Path, target: &str, options: Vec<String>, has_splits: bool) -> Self {
        let words = [directory.display().to_string(), target.to_owned(), "--json".to_owned()];
        let arguments = [&words, &options[..]].concat();
        let mut this = Self { target: target.to_owned(), arguments, watch: None, notice: None };
        if has_splits {
            match Pusher::start(&["push", "--watch"], &this.arguments) {
                Ok(watch) => this.watch = Some(watch),
                Err(error) => this.notice = Some(error),
            }
        }
        this
    }

    /// A failure that was not said yet.
    pub fn take_notice(&mut self) -> Option<String> {
        let watch = self.watch.as_mut();
        let mut notice = self.notice.take().or_else(|| watch?.failures().unsaid.take());
        if let Some(watch) = &mut self.watch
            && let Ok(Some(status)) = watch.child.try_wait()
        {
            let error = watch.end(status).err().unwrap_or_default();
            notice = Some(format!("{error}; the recording is pushed when it is closed"));
            self.watch = None;
        }
        Some(format!("pushing to {}: {}", self.target, notice?))
    }

    /// Pushes the rest of the recording, which is closed. A further signal gives that up.
    pub fn finish(mut self, interrupt: &Interrupt) -> PushReport {
        let had_come = interrupt.has_come();
        let gives_up = || interrupt.abandons() || (interrupt.has_come() && !had_come);
        if let Some(watch) = self.watch.take() {
            let _ = kill_process(Pid::from_child(&watch.child), Signal::TERM);
            let _ = watch.wait(interrupt, &gives_up);
        }
        say!("livebag: pushing the rest to {}; interrupt again to leave it for later", self.target);
        let pushed = Pusher::start(&["push"], &self.arguments)
            .and_then(|pusher| pusher.wait(interrupt, &gives_up));
        if pushed.is_ok() {
            say!("livebag: the whole recording is in {}, verified", self.target);
        }
        PushReport { target: self.target, is_pushed: pushed.is_ok(), error: pushed.err() }
    }
}

impl Pusher {
    fn start(verb: &[&str], arguments: &[String]) -> Result<Self, String> {
        let failures = Arc::new(Mutex::new(Failures::default()));
        let spawn = || {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(verb).args(arguments);
            command.arg(format!("--recorder={}", std::process::id()));
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            // Ctrl-C is for the recorder.
            let mut child = command.process_group(0).spawn()?;
            let (lines, shared) = (child.stdout.take(), failures.clone());
            let read = move || lines.into_iter().for_each(|lines| listen(lines, &shared));
            let reader = std::thread::Builder::new().name("livebag-pushed".into()).spawn(read);
            // A child that is dropped is ended.
            let mut this = Self { child, reader: None, failures: failures.clone() };
            this.reader = Some(reader?);
            Ok(this)
        };
        spawn().map_err(|error: std::io::Error| format!("`livebag push` cannot start: {error}"))
    }

    /// Waits for the end; an error says why not all is pushed.
    fn wait(mut self, interrupt: &Interrupt, gives_up: &dyn Fn() -> bool) -> Result<(), String> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return self.end(status),
                Ok(None) if gives_up() => return Err("it was interrupted".to_owned()),
                Ok(None) => interrupt.wait_for_next(LOOK),
                Err(error) => return Err(error.to_string()),
            };
        }
    }

    /// What a child that has ended has said.
    fn end(&mut self, status: ExitStatus) -> Result<(), String> {
        if let Some(reader) = self.reader.take() {
            // A panic there has been reported by the thread itself.
            let _ = reader.join();
        }
        let said = self.failures().last.take();
        let ended = || format!("`livebag push` ended: {status}");
        if status.success() { Ok(()) } else { Err(said.unwrap_or_else(ended)) }
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        // Its journal says what was sent. Nothing happens if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen(lines: impl Read, failures: &Mutex<Failures>) {
    for line in BufReader::new(lines).lines().map_while(Result::ok) {
        let Ok(Line { error: Some(error) }) = serde_json::from_str(&line) else { continue };
        let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
        (failures.last, failures.unsaid) = (Some(error.clone()), Some(error));
    }
}
