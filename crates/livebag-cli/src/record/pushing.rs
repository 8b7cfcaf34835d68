//! `record --push`: child processes push the recording, so that nothing can hold up or end the recorder.
//!
//! While it records, `push --watch` sends the closed splits. After the recording is closed, `push` sends the rest.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use livebag::Clock;
use livebag_net::tell::PushStatus;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use crate::interrupt::Interrupt;
use crate::outcome::Outcome;
use crate::push_view::{PushView, listen};
use crate::{text, verify};

/// Interval at which the end of a child is polled.
const LOOK: Duration = Duration::from_millis(50);
/// Before a child that has died is replaced; twice as long after each of the next.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// Such pauses grow to about four minutes.
const RESTART_DOUBLINGS_MAX: u32 = 8;

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

/// Pushes a recording while it is made.
pub struct Pushing {
    view: PushView,
    arguments: Vec<String>,
    /// Whether the recording is removed from this disk once it is pushed.
    deletes: bool,
    watch: Option<Pusher>,
    notice: Option<String>,
    clock: Clock,
    /// How often the child that pushes closed splits had to be replaced.
    restart_count: u32,
    /// When it is replaced next.
    restart_nanos: Option<u64>,
}

/// A child, and the thread that reads what it prints.
struct Pusher {
    child: Child,
    reader: Option<JoinHandle<()>>,
    view: PushView,
}

impl PushReport {
    fn of(view: &PushView) -> Self {
        let told = view.told();
        Self {
            status: told.status.clone(),
            is_pushed: told.address.is_some(),
            address: told.address.clone(),
            is_deleted: told.is_deleted,
        }
    }

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
        let mut this = Self {
            view,
            arguments,
            deletes,
            watch: None,
            notice: None,
            clock: Clock::system(),
            restart_count: 0,
            restart_nanos: None,
        };
        if has_splits {
            this.start_watch();
        }
        this
    }

    fn start_watch(&mut self) {
        match Pusher::start(&["push", "--watch"], &self.arguments, &self.view) {
            Ok(watch) => {
                self.watch = Some(watch);
                if self.view.status().paused {
                    self.view.pause(true);
                }
            }
            Err(error) => self.restart_later(&error),
        }
    }

    /// With --delete-pushed, nothing makes room on the disk until a child pushes again.
    fn restart_later(&mut self, error: &str) {
        let pause = RESTART_PAUSE * (1 << self.restart_count.min(RESTART_DOUBLINGS_MAX));
        self.restart_count += 1;
        self.restart_nanos = Some(self.clock.monotonic_nanos() + pause.as_nanos() as u64);
        self.view.fail(error);
        self.notice = Some(format!(
            "{error}; it is started again in {} (restart {})",
            text::duration(pause.as_nanos() as u64),
            self.restart_count
        ));
    }

    /// How it goes from now on.
    pub fn view(&self) -> PushView {
        self.view.clone()
    }

    /// A failure that was not said yet. Replaces a child that has died.
    pub fn take_notice(&mut self) -> Option<String> {
        if self.restart_nanos.is_some_and(|due| self.clock.monotonic_nanos() >= due) {
            self.restart_nanos = None;
            self.start_watch();
        }
        if let Some(watch) = &mut self.watch
            && let Ok(Some(status)) = watch.child.try_wait()
        {
            let ended = || format!("`livebag push` ended: {status}");
            let error = watch.end(status).err().unwrap_or_else(ended);
            self.watch = None;
            match status.code() == Some(Outcome::Usage as i32) {
                false => self.restart_later(&error),
                // It would end in the same way again.
                true => {
                    self.view.fail(&error);
                    let notice = format!("{error}; the recording is pushed when it is closed");
                    self.notice = Some(notice);
                }
            }
        }
        let notice = self.notice.take().or_else(|| self.view.told().unsaid.take());
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
            return PushReport::of(&self.view);
        }
        say!("livebag: pushing the rest to {target}; interrupt again to leave it for later");
        let verb: &[_] = if self.deletes { &["push", "--delete-pushed"] } else { &["push"] };
        let ended = Pusher::start(verb, &self.arguments, &self.view)
            .and_then(|pusher| pusher.wait(interrupt, &gives_up));
        if let Err(error) = &ended {
            self.view.fail(error);
        }
        let report = PushReport::of(&self.view);
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
