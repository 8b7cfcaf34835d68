//! `record --push`: child processes push the recording, so that nothing can hold up or end the recorder.
//!
//! While it records, `push --watch` sends the closed splits. After the recording is closed, `push` sends the rest.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use livebag_net::tell::PushStatus;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::interrupt::Interrupt;
use crate::{text, verify};

/// Interval at which the end of a child is polled.
const LOOK: Duration = Duration::from_millis(50);

/// What became of it, for the summary.
#[derive(Debug, Serialize)]
pub struct PushReport {
    #[serde(flatten)]
    status: PushStatus,
    /// Whether the whole recording is in the target, verified.
    is_pushed: bool,
    /// Its own address there then.
    address: Option<String>,
    /// Whether it was removed from this disk.
    is_deleted: bool,
}

/// How it goes, for any thread: whoever asks waits for nobody.
#[derive(Clone)]
pub struct PushView(Arc<Mutex<Told>>);

/// What the children have told.
#[derive(Default)]
struct Told {
    status: PushStatus,
    /// The last failure of the child that runs.
    failure: Option<String>,
    /// One that was not said yet.
    unsaid: Option<String>,
    /// How many of the first splits are in the target.
    split_count: u32,
    /// The recording's address in the target, once it is complete there.
    address: Option<String>,
    /// Whether it was removed from this disk then.
    is_deleted: bool,
    /// Where the child that pushes closed splits takes `pause` and `resume`.
    orders: Option<ChildStdin>,
}

/// Pushes a recording while it is made.
pub struct Pushing {
    view: PushView,
    arguments: Vec<String>,
    /// Whether the recording is removed from this disk once it is pushed.
    deletes: bool,
    watch: Option<Pusher>,
    notice: Option<String>,
}

/// A child, and the thread that reads what it prints.
struct Pusher {
    child: Child,
    reader: Option<JoinHandle<()>>,
    view: PushView,
}

/// What is read of a line of `push --json`.
#[derive(Deserialize)]
struct Line {
    state: String,
    #[serde(default)]
    target: String,
    size_bytes: Option<u64>,
    stored_bytes: Option<u64>,
    split_count: Option<u32>,
    error: Option<String>,
}

impl PushReport {
    /// The recording's address in the target, if it is nowhere else.
    pub fn only_place(&self) -> Option<&str> {
        self.address.as_deref().filter(|_| self.is_deleted)
    }

    /// That it is not pushed, or was not removed then, if so.
    pub fn failure(&self, path: &str) -> Option<String> {
        let PushStatus { target, error, .. } = &self.status;
        let error = error.as_deref()?;
        Some(match self.is_pushed {
            true => error.to_owned(),
            false => format!(
                "{path} is not pushed: {error}; `livebag push {path} {target}` goes on with it"
            ),
        })
    }
}

impl Pushing {
    /// Of the recording in `directory`; `options` are those of `push`. If it `has_splits`, the closed ones are pushed
    /// from now on.
    pub fn begin(
        directory: &Path,
        target: &str,
        options: Vec<String>,
        deletes: bool,
        has_splits: bool,
    ) -> Self {
        let words = [directory.display().to_string(), target.to_owned(), "--json".to_owned()];
        let arguments = [&words, &options[..]].concat();
        let view = PushView::new(target);
        let mut this = Self { view, arguments, deletes, watch: None, notice: None };
        if has_splits {
            match Pusher::start(&["push", "--watch"], &this.arguments, &this.view) {
                Ok(watch) => this.watch = Some(watch),
                Err(error) => {
                    this.view.fail(&error);
                    this.notice = Some(error);
                }
            }
        }
        this
    }

    /// How it goes from now on.
    pub fn view(&self) -> PushView {
        self.view.clone()
    }

    /// A failure that was not said yet.
    pub fn take_notice(&mut self) -> Option<String> {
        let mut notice = self.notice.take().or_else(|| self.view.told().unsaid.take());
        if let Some(watch) = &mut self.watch
            && let Ok(Some(status)) = watch.child.try_wait()
        {
            let error = watch.end(status).err().unwrap_or_default();
            self.view.fail(&error);
            notice = Some(format!("{error}; the recording is pushed when it is closed"));
            self.watch = None;
        }
        Some(format!("pushing to {}: {}", self.view.status().target, notice?))
    }

    /// How many of the first splits are in the target.
    pub fn split_count(&self) -> u32 {
        self.view.told().split_count
    }

    /// Pushes the rest of the recording, which is closed. A further signal gives that up.
    pub fn finish(mut self, interrupt: &Interrupt) -> PushReport {
        let had_come = interrupt.has_come();
        let gives_up = || interrupt.abandons() || (interrupt.has_come() && !had_come);
        if let Some(watch) = self.watch.take() {
            let _ = kill_process(Pid::from_child(&watch.child), Signal::TERM);
            let _ = watch.wait(interrupt, &gives_up);
        }
        let target = self.view.status().target;
        if self.view.status().paused {
            self.view.fail("pushing is paused");
            return self.view.report();
        }
        say!("livebag: pushing the rest to {target}; interrupt again to leave it for later");
        let verb: &[_] = if self.deletes { &["push", "--delete-pushed"] } else { &["push"] };
        let ended = Pusher::start(verb, &self.arguments, &self.view)
            .and_then(|pusher| pusher.wait(interrupt, &gives_up));
        if let Err(error) = &ended {
            self.view.fail(error);
        }
        let report = self.view.report();
        if report.is_pushed {
            let here = if report.is_deleted { ", and removed here" } else { "" };
            say!("livebag: the whole recording is in {target}, verified{here}");
        }
        report
    }
}

impl Pusher {
    fn start(verb: &[&str], arguments: &[String], view: &PushView) -> Result<Self, String> {
        view.told().failure = None;
        let spawn = || {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(verb).args(arguments);
            command.arg(format!("--recorder={}", std::process::id()));
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            // Ctrl-C is for the recorder.
            let mut child = command.process_group(0).spawn()?;
            view.told().orders = child.stdin.take();
            let (lines, shared) = (child.stdout.take(), view.clone());
            let read = move || lines.into_iter().for_each(|lines| listen(lines, &shared));
            let reader = std::thread::Builder::new().name("livebag-pushed".into()).spawn(read);
            // A child that is dropped is ended.
            let mut this = Self { child, reader: None, view: view.clone() };
            this.reader = Some(reader?);
            Ok(this)
        };
        spawn().map_err(|error: std::io::Error| format!("`livebag push` cannot start: {error}"))
    }

    /// Waits for the end; an error says why not all is pushed.
    fn wait(mut self, interrupt: &Interrupt, gives_up: &dyn Fn() -> bool) -> Result<(), String> {
        let bar = verify::bar();
        loop {
            let status = self.view.status();
            bar.set_length(status.size_bytes);
            bar.set_position(status.stored_bytes);
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
        let said = self.view.told().failure.take();
        let ended = || format!("`livebag push` ended: {status}");
        if status.success() { Ok(()) } else { Err(said.unwrap_or_else(ended)) }
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        // Its journal says what was sent. Nothing happens if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl PushView {
    fn new(target: &str) -> Self {
        let (target, state) = (target.to_owned(), "waiting".to_owned());
        let status = PushStatus { target, state, ..PushStatus::default() };
        Self(Arc::new(Mutex::new(Told { status, ..Told::default() })))
    }

    /// How it goes now.
    pub fn status(&self) -> PushStatus {
        self.told().status.clone()
    }

    /// Has what is sent wait after the part in flight, or go on.
    pub fn pause(&self, paused: bool) {
        let mut told = self.told();
        told.status.paused = paused;
        let order: &[u8] = if paused { b"pause\n" } else { b"resume\n" };
        // A child that has died pauses as well.
        let _ = told.orders.as_mut().map(|orders| orders.write_all(order));
    }

    fn report(&self) -> PushReport {
        let told = self.told();
        PushReport {
            status: told.status.clone(),
            is_pushed: told.address.is_some(),
            address: told.address.clone(),
            is_deleted: told.is_deleted,
        }
    }

    fn fail(&self, error: &str) {
        fail(&mut self.told().status, error);
    }

    /// Held for moments only.
    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a child says.
    fn take(&self, line: Line) {
        let Line { state, target, size_bytes, stored_bytes, split_count, error } = line;
        let mut told = self.told();
        told.split_count = split_count.unwrap_or(told.split_count);
        match &*state {
            "pushed" => told.address = Some(target),
            "deleted" => {
                told.is_deleted = true;
                return;
            }
            _ => {}
        }
        if let Some(error) = error {
            fail(&mut told.status, &error);
            (told.failure, told.unsaid) = (Some(error.clone()), Some(error));
            return;
        }
        let status = &mut told.status;
        let stored_bytes = stored_bytes.unwrap_or_default();
        // A failure that lasts is said once, while what failed is tried again and again.
        if status.error.is_none() || state != "pushing" || stored_bytes > status.stored_bytes {
            let size_bytes = size_bytes.unwrap_or_default();
            (status.size_bytes, status.stored_bytes) = (size_bytes, stored_bytes);
            (status.state, status.error) = (state, None);
        }
    }
}

fn fail(status: &mut PushStatus, error: &str) {
    (status.state, status.error) = ("failed".to_owned(), Some(error.to_owned()));
}

fn listen(lines: impl Read, view: &PushView) {
    for line in BufReader::new(lines).lines().map_while(Result::ok) {
        if let Ok(line) = serde_json::from_str(&line) {
            view.take(line);
        }
    }
}

/// `1.2 GB of 3.4 GB pushed`.
pub fn amount(push: &PushStatus) -> String {
    let bytes = |bytes: u64| text::bytes(bytes as f64);
    match push.size_bytes {
        0 => "nothing pushed yet".to_owned(),
        size if size == push.stored_bytes => format!("{} pushed", bytes(size)),
        size => format!("{} of {} pushed", bytes(push.stored_bytes), bytes(size)),
    }
}

/// How it goes, in a sentence.
pub fn words(push: &PushStatus) -> String {
    let paused = if push.paused { "; paused" } else { "" };
    let failure = push.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    format!("{} to {}{paused}{failure}", amount(push), push.target)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tell(view: &PushView, line: serde_json::Value) -> PushStatus {
        view.take(serde_json::from_value(line).unwrap());
        view.status()
    }

    #[test]
    fn a_failure_is_shown_until_more_has_arrived() {
        let view = PushView::new("s3://fleet/robot7");
        assert_eq!(words(&view.status()), "nothing pushed yet to s3://fleet/robot7");
        let pushing = |stored: u64| json!({"state": "pushing", "size_bytes": 3_400_000, "stored_bytes": stored});
        let status = tell(&view, pushing(1_200_000));
        assert_eq!(words(&status), "1.20 MB of 3.40 MB pushed to s3://fleet/robot7");
        let failed = tell(&view, json!({"state": "failed", "error": "the store is full"}));
        assert_eq!(failed.state, "failed");
        assert_eq!(
            words(&failed),
            "1.20 MB of 3.40 MB pushed to s3://fleet/robot7: the store is full"
        );
        assert_eq!(view.told().unsaid.take().as_deref(), Some("the store is full"));
        // It is tried again, and fails again.
        assert_eq!(tell(&view, pushing(0)), failed);
        assert_eq!(tell(&view, pushing(1_200_000)), failed);
        let status = tell(&view, pushing(1_200_001));
        assert_eq!((&*status.state, status.error), ("pushing", None));
        tell(&view, json!({"state": "failed", "error": "the store is full"}));
        let done = json!({"state": "splits_pushed", "size_bytes": 1000, "stored_bytes": 1000});
        let status = tell(&view, done);
        assert_eq!((amount(&status), status.error), ("1.00 kB pushed".to_owned(), None));
    }
}
