//! Commands to a running recorder: a socket in the container, keys, signals.
//!
//! The socket's protocol: one word and a line feed to the recorder, one line of JSON back. `event` is followed
//! by a space and JSON.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use livebag::{Account, Clock, Event, Recorder, TopicStatus};
use livebag_net::tell::PushStatus;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcsetattr};
use serde::{Deserialize, Serialize};

use crate::outcome::CliError;
use crate::push_view::PushView;

/// Name of the socket in the container's directory.
pub const SOCKET: &str = "control.sock";
/// A client that sends no command in this time is disconnected.
const PATIENCE: Duration = Duration::from_millis(200);
/// A split that takes longer to begin is answered as asked for …
const SPLIT_WAIT: Duration = Duration::from_secs(2);
/// … polled at this interval.
const SPLIT_LOOK: Duration = Duration::from_millis(1);
/// No request is longer.
const REQUEST_BYTES_MAX: u64 = 32 << 10;
/// Maximum size of a status: about 500 bytes for each topic.
#[cfg(feature = "http")]
const STATUS_BYTES_MAX: u64 = 64 << 20;

/// A command to a recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Order {
    /// Stop recording messages
    Pause,
    /// Record messages again
    Resume,
    /// Begin a new split
    Split,
    /// Stop sending what --push pushes, after the part in flight
    PausePush,
    /// Send it again
    ResumePush,
    /// Write the ring of --snapshot-mode to the disk
    Snapshot,
    /// End the recording and close it
    Stop,
    /// Print its status
    Status,
    /// Add a named event: the current moment, or --from and --to
    Event,
    /// A client reads: commit collected messages sooner. Servers say this.
    #[value(skip)]
    Read,
}

impl Order {
    fn word(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Split => "split",
            Self::PausePush => "pause-push",
            Self::ResumePush => "resume-push",
            Self::Snapshot => "snapshot",
            Self::Stop => "stop",
            Self::Status => "status",
            Self::Event => "event",
            Self::Read => "read",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        let all = [
            Self::Pause,
            Self::Resume,
            Self::Split,
            Self::PausePush,
            Self::ResumePush,
            Self::Snapshot,
            Self::Stop,
            Self::Status,
            Self::Read,
        ];
        all.into_iter().find(|order| order.word() == word)
    }
}

/// The recorder's answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    /// Why the order was not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether messages are left out at the moment.
    pub paused: bool,
    /// Splits begun, the first included.
    pub splits: u32,
    /// The split that was asked for has not begun yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_pending: bool,
    /// Messages on the disk.
    #[serde(rename = "message_count")]
    pub messages: u64,
    /// Bytes of those.
    #[serde(rename = "message_bytes")]
    pub bytes: u64,
    /// How many of those messages were repeated at the head of a split.
    #[serde(default)]
    pub repeated: u64,
    /// Messages left out on purpose.
    pub skipped: u64,
    /// Where every message is that was published.
    #[serde(default)]
    pub account: Account,
    /// The same by topic.
    #[serde(default)]
    pub topics: Vec<TopicAnswer>,
    /// Bytes waiting in memory.
    pub cache_bytes: u64,
    /// Bytes of frames waiting in the slots of their streams.
    #[serde(default)]
    pub slot_bytes: u64,
    /// How `--push` goes; null without.
    #[serde(default)]
    pub push: Option<PushStatus>,
    /// What ended the recording early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The event that was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
}

/// An event as it is asked for.
#[derive(Debug, Serialize, Deserialize)]
pub struct NewEvent {
    /// Name of the event.
    pub name: String,
    /// A short text, or nothing.
    #[serde(default)]
    pub text: String,
    /// First and last log time; null for the present moment.
    #[serde(default)]
    pub span: Option<(u64, u64)>,
}

/// One topic of a recorder's answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct TopicAnswer {
    /// Topic name.
    pub name: String,
    /// Where every message is that was published.
    pub account: Account,
    /// Whether its writer has died.
    #[serde(default)]
    pub writer_gone: bool,
}

impl TopicAnswer {
    fn new(topic: &TopicStatus) -> Self {
        let (name, writer_gone) = (topic.name.clone(), topic.writer_gone);
        Self { name, account: topic.account(), writer_gone }
    }
}

impl Answer {
    fn new(recording: &Controlled, error: Option<String>) -> Self {
        let status = recording.recorder.status();
        let (messages, bytes, _) = status.totals();
        Self {
            error,
            paused: status.paused,
            splits: status.splits,
            is_pending: false,
            messages,
            bytes,
            repeated: status.topics.iter().map(|topic| topic.repeated).sum(),
            skipped: status.topics.iter().map(|topic| topic.skipped).sum(),
            account: status.account(),
            topics: status.topics.iter().map(TopicAnswer::new).collect(),
            cache_bytes: status.cache_bytes,
            slot_bytes: status.slot_bytes,
            push: recording.push.as_ref().map(PushView::status),
            failure: status.failure.as_ref().map(ToString::to_string),
            event: None,
        }
    }
}

/// A recording that follows orders.
pub struct Controlled<'a> {
    /// What records it.
    pub recorder: &'a Recorder,
    /// Whether it is a ring.
    pub is_ring: bool,
    /// How pushing it goes, if it is pushed.
    pub push: Option<PushView>,
}

/// Follows an order; whether the recording is to end.
pub fn follow(recording: &Controlled, order: Order) -> (Answer, bool) {
    let recorder = recording.recorder;
    let (mut error, mut is_pending) = (None, false);
    match order {
        Order::Pause => recorder.pause(),
        Order::Resume => recorder.resume(),
        Order::Split => {
            let before = recorder.status().splits;
            match recorder.split() {
                Ok(()) => is_pending = !has_split(recorder, before),
                Err(refused) => error = Some(refused.to_string()),
            }
        }
        Order::PausePush | Order::ResumePush => match &recording.push {
            Some(push) => push.pause(order == Order::PausePush),
            None => error = Some("the recording is not pushed: it has no --push".into()),
        },
        Order::Snapshot if recording.is_ring => {
            error = recorder.snapshot().err().map(|error| error.to_string());
        }
        Order::Snapshot => error = Some("the recording has no ring: --snapshot-mode".into()),
        Order::Read => recorder.reader_notice().is_read(),
        Order::Event => error = Some("an event has a name: event {\"name\": …}".into()),
        Order::Stop | Order::Status => {}
    }
    let answer = Answer { is_pending, ..Answer::new(recording, error) };
    (answer, order == Order::Stop)
}

/// Waits a little for a split that was asked for; whether it has begun.
fn has_split(recorder: &Recorder, before: u32) -> bool {
    let clock = Clock::system();
    loop {
        let status = recorder.status();
        if status.splits > before {
            return true;
        }
        if status.failure.is_some() || clock.monotonic_nanos() >= SPLIT_WAIT.as_nanos() as u64 {
            return false;
        }
        clock.sleep(SPLIT_LOOK);
    }
}

/// The recorder's end of the socket.
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

/// Opens a directory, so that a socket in it can be named by a short path: a socket's own has room
/// for 107 bytes only.
fn short_path(directory: &Path) -> std::io::Result<(OwnedFd, PathBuf)> {
    let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::empty())?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd()));
    Ok((opened, path))
}

impl ControlSocket {
    /// Makes the socket; only this user may use it.
    pub fn create(directory: &Path) -> std::io::Result<Self> {
        let (_opened, short) = short_path(directory)?;
        let listener = UnixListener::bind(short)?;
        let path = directory.join(SOCKET);
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, path })
    }

    /// Executes commands received since the last poll; returns whether the recording should end.
    pub fn look(&self, recording: &Controlled) -> bool {
        let mut stop = false;
        while let Ok((stream, _)) = self.listener.accept() {
            // A client that goes away in the middle has asked for nothing.
            stop |= serve(stream, recording).unwrap_or(false);
        }
        stop
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        #[expect(clippy::disallowed_methods, reason = "a socket, not a recording")]
        // A leftover is harmless: nothing listens there.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve(mut stream: UnixStream, recording: &Controlled) -> std::io::Result<bool> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut word = String::new();
    BufReader::new((&stream).take(REQUEST_BYTES_MAX)).read_line(&mut word)?;
    let event = word.trim().strip_prefix("event ");
    let (answer, stop) = match (event, Order::parse(word.trim())) {
        (Some(event), _) => (add_event(recording, event), false),
        (None, Some(order)) => follow(recording, order),
        (None, None) => {
            let error = "expected pause, resume, split, snapshot, pause-push, resume-push, stop, status or event".to_owned();
            (Answer::new(recording, Some(error)), false)
        }
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    Ok(stop)
}

fn add_event(recording: &Controlled, json: &str) -> Answer {
    let added = serde_json::from_str::<NewEvent>(json)
        .map_err(|error| format!("the event is not one: {error}"))
        .and_then(|NewEvent { name, text, span }| {
            recording.recorder.event(&name, &text, span).map_err(|error| error.to_string())
        });
    let (event, error) = match added {
        Ok(event) => (Some(event), None),
        Err(error) => (None, Some(error)),
    };
    Answer { event, ..Answer::new(recording, error) }
}

/// Gives an order to the recorder of a container.
pub fn order(directory: &Path, order: Order) -> Result<Answer, CliError> {
    ask(directory, order.word())
}

/// Has the recorder of a container add an event.
pub fn event(directory: &Path, event: &NewEvent) -> Result<Answer, CliError> {
    ask(directory, &format!("event {}", serde_json::to_string(event)?))
}

fn ask(directory: &Path, request: &str) -> Result<Answer, CliError> {
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
            CliError::failed(format!(
                "no recorder is running in {}: `livebag info {0}` shows its state",
                directory.display()
            ))
        }
        std::io::ErrorKind::PermissionDenied => CliError::failed(format!(
            "the recorder in {} belongs to another user: only its owner may control it",
            directory.display()
        )),
        _ => CliError::failed(format!(
            "asking the recorder in {} failed: {source}",
            directory.display()
        )),
    };
    let (_opened, short) = short_path(directory).map_err(failed)?;
    let mut stream = UnixStream::connect(short).map_err(failed)?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(failed)?;
    stream.write_all(format!("{request}\n").as_bytes()).map_err(failed)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(failed)?;
    serde_json::from_str(&line)
        .map_err(|error| CliError::failed(format!("the recorder's answer makes no sense: {error}")))
}

/// Notifies the recorder of a container, if there is one and it belongs to this user, of a reader. Its answer is not
/// waited for.
pub fn notify_read(directory: &Path) {
    let say = || -> std::io::Result<()> {
        let (_opened, short) = short_path(directory)?;
        let mut stream = UnixStream::connect(short)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(format!("{}\n", Order::Read.word()).as_bytes())
    };
    // Without it the data read is about 50 ms older.
    let _ = say();
}

/// The status of a container's recorder, if there is one, it belongs to this user, and it answers soon.
#[cfg(feature = "http")]
pub fn status(directory: &Path) -> Option<Answer> {
    let (_opened, short) = short_path(directory).ok()?;
    let mut stream = UnixStream::connect(short).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(format!("{}\n", Order::Status.word()).as_bytes()).ok()?;
    let mut line = String::new();
    BufReader::new(stream.take(STATUS_BYTES_MAX)).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

/// The keyboard of a terminal, key by key; the terminal is given back as it was.
pub struct Keyboard {
    before: Termios,
}

impl Keyboard {
    /// Listens, if standard input is a terminal that this process may read.
    pub fn listen() -> Option<Self> {
        let stdin = rustix::stdio::stdin();
        if !isatty(stdin) {
            return None;
        }
        let before = tcgetattr(stdin).ok()?;
        let mut raw = before.clone();
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        tcsetattr(stdin, OptionalActions::Now, &raw).ok()?;
        Some(Self { before })
    }

    /// The keys, in words.
    pub const HELP: &str = "keys: space pauses and resumes, s splits, t takes a snapshot, q ends";

    /// The next byte typed since the last poll.
    pub fn byte(&self) -> Option<u8> {
        let stdin = rustix::stdio::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        let ready = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok()?;
        let mut key = [0];
        if ready == 0 || rustix::io::read(stdin, &mut key).ok()? == 0 {
            return None;
        }
        Some(key[0])
    }

    /// The order of a key that has been pressed since the last look.
    pub fn look(&self, is_paused: bool) -> Option<Order> {
        match self.byte()? {
            b' ' if is_paused => Some(Order::Resume),
            b' ' => Some(Order::Pause),
            b's' => Some(Order::Split),
            b't' => Some(Order::Snapshot),
            b'q' => Some(Order::Stop),
            _ => None,
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        // A terminal that has gone needs no giving back.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
    }
}
