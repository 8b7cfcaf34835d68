//! New messages of a recording on a server, as server-sent events.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use livebag::Topic;
use livebag_net::remote::{Question, RemoteAnswer, RemoteRecording};
use livebag_net::tell::MessageLine;
use serde::Deserialize;

use super::answer::{Answer, Entry};
use super::{Wanted, follow, lines, remote};
use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};

/// Time between two looks whether the command is interrupted.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum events waiting here; the server keeps later ones, and counts those it leaves out.
const EVENTS_MAX: usize = 1024;
/// Events of which the messages are asked for at once.
const BATCH_MAX: usize = 256;

/// An event of a server.
enum Event {
    Message(MessageLine),
    LeftOut(LeftOut),
    /// The recording has ended.
    End,
    Failed(CliError),
}

/// Messages that this command was too slow for.
#[derive(Deserialize)]
struct LeftOut {
    topic: String,
    message_count: u64,
}

/// Gives messages until the recording ends or the command is interrupted.
pub fn run(
    bag: &RemoteRecording,
    topics: &[String],
    last: Option<Duration>,
    wanted: &Wanted,
) -> Result<Outcome, CliError> {
    follow::check(wanted)?;
    let interrupt = Interrupt::watch()?;
    // Before the query for older messages, so that no message falls between the two.
    let events = listen(bag.ask(&Question::follow(), topics, "")?)?;
    let mut answer = Events {
        bag: bag.clone(),
        events,
        needs_data: wanted.decode,
        topics: Vec::new(),
        newest: HashMap::new(),
        ready: VecDeque::new(),
        current: None,
        left_out: 0,
        damaged: 0,
        has_ended: false,
        interrupt,
    };
    if let Some(last) = last {
        answer.begin_with(topics, last)?;
    }
    let mut out = std::io::stdout().lock();
    match (wanted.json, wanted.decode) {
        (true, true) => lines::write_decoded(&mut answer, wanted.array_items, &mut out)?,
        (true, false) => lines::write(&mut answer, &mut out)?,
        _ => follow::print(&mut answer, &mut out)?,
    }
    out.flush()?;
    match answer.left_out {
        0 => Ok(super::remote_outcome(answer.damaged)),
        _ => Ok(Outcome::Loss),
    }
}

/// Reads the events on a separate thread, because a waiting read cannot be interrupted.
fn listen(answer: RemoteAnswer) -> Result<Receiver<Event>, CliError> {
    let (sender, events) = sync_channel(EVENTS_MAX);
    let work = move || {
        if let Err(error) = read(BufReader::new(answer), &sender) {
            // Nothing receives any more.
            let _ = sender.send(Event::Failed(error));
        }
    };
    let thread = std::thread::Builder::new().name("livebag-events".into()).spawn(work);
    thread.map_err(|error| CliError::failed(format!("starting a thread failed: {error}")))?;
    Ok(events)
}

fn read(mut answer: BufReader<RemoteAnswer>, sender: &SyncSender<Event>) -> Result<(), CliError> {
    let mut kind = String::new();
    loop {
        let mut line = String::new();
        let read = answer.read_line(&mut line);
        if read.map_err(|error| answer.get_ref().cut(error))? == 0 {
            let ended = std::io::ErrorKind::UnexpectedEof.into();
            return Err(answer.get_ref().cut(ended).into());
        }
        let line = line.trim_end();
        if let Some(name) = line.strip_prefix("event: ") {
            name.clone_into(&mut kind);
        } else if let Some(data) = line.strip_prefix("data: ") {
            let nonsense = |error: serde_json::Error| {
                let url = answer.get_ref().url();
                CliError::failed(format!("the answer of {url} makes no sense: {error}"))
            };
            let event = match &*kind {
                "" => Event::Message(serde_json::from_str(data).map_err(nonsense)?),
                "left_out" => Event::LeftOut(serde_json::from_str(data).map_err(nonsense)?),
                "end" => Event::End,
                // Of a newer server.
                _ => continue,
            };
            let is_last = matches!(event, Event::End);
            if sender.send(event).is_err() || is_last {
                return Ok(());
            }
        } else if line.is_empty() {
            kind.clear();
        }
    }
}

struct Events {
    bag: RemoteRecording,
    events: Receiver<Event>,
    needs_data: bool,
    topics: Vec<Topic>,
    /// Log time and sequence of the newest message given before the first event, by topic.
    newest: HashMap<String, (u64, u64)>,
    ready: VecDeque<(Entry, Option<Vec<u8>>)>,
    current: Option<Vec<u8>>,
    left_out: u64,
    damaged: u64,
    has_ended: bool,
    interrupt: Interrupt,
}

/// What tells a message from all others of a recording.
type Key = (String, u64, u64);

fn key(line: &MessageLine) -> Key {
    (line.topic.clone(), line.log_time, line.sequence)
}

impl Events {
    /// Prepends the messages recorded earlier.
    fn begin_with(&mut self, topics: &[String], last: Duration) -> Result<(), CliError> {
        let mut before = self.bag.messages(&Question::latest(&remote::seconds(last)), topics)?;
        while let Some(message) = before.next_message()? {
            let topic = before.topics()[message.topic].clone();
            let newest = (message.log_time_nanos, message.sequence);
            self.newest.insert(topic.name.clone(), newest);
            let topic = self.place_of(topic);
            let entry = Entry { topic, ..Entry::from(&message) };
            self.ready.push_back((entry, Some(message.data)));
        }
        Ok(())
    }

    fn place_of(&mut self, topic: Topic) -> usize {
        let known = self.topics.iter().position(|known| *known == topic);
        known.unwrap_or_else(|| {
            self.topics.push(topic);
            self.topics.len() - 1
        })
    }

    /// Waits for events, at most a moment, and takes all that are there.
    fn look(&mut self) -> Result<(), CliError> {
        let mut batch = Vec::new();
        let mut event = match self.events.recv_timeout(LOOK) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                self.has_ended = true;
                None
            }
        };
        while let Some(next) = event.take() {
            match next {
                Event::Message(line) => {
                    let newest = self.newest.get(&line.topic);
                    if newest.is_none_or(|newest| *newest < (line.log_time, line.sequence)) {
                        batch.push(line);
                    }
                }
                Event::LeftOut(LeftOut { topic, message_count }) => {
                    complain!(
                        "livebag: {topic}: {message_count} messages came faster than this command took them, and \
                         were left out"
                    );
                    self.left_out += message_count;
                }
                Event::End => self.has_ended = true,
                Event::Failed(error) => return Err(error),
            }
            if batch.len() < BATCH_MAX {
                event = self.events.try_recv().ok();
            }
        }
        if self.needs_data && !batch.is_empty() {
            return self.fetch(&batch);
        }
        for line in batch {
            let topic = Topic { name: line.topic, ..Topic::default() };
            let entry = Entry {
                topic: self.place_of(topic),
                log_time_nanos: line.log_time,
                publish_time_nanos: line.publish_time,
                sequence: line.sequence,
                bytes: line.bytes as u64,
            };
            self.ready.push_back((entry, None));
        }
        Ok(())
    }

    /// Asks for the messages of some events.
    fn fetch(&mut self, batch: &[MessageLine]) -> Result<(), CliError> {
        let mut wanted: BTreeSet<Key> = batch.iter().map(key).collect();
        let names: BTreeSet<String> = batch.iter().map(|line| line.topic.clone()).collect();
        let names: Vec<String> = names.into_iter().collect();
        let times = || batch.iter().map(|line| line.log_time);
        let (from, to) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        let asked = Question::history(Some(&from.to_string()), Some(&to.to_string()));
        let mut messages = self.bag.messages(&asked, &names)?;
        while let Some(message) = messages.next_message()? {
            let topic = messages.topics()[message.topic].clone();
            let key = (topic.name.clone(), message.log_time_nanos, message.sequence);
            if wanted.remove(&key) {
                let entry = Entry { topic: self.place_of(topic), ..Entry::from(&message) };
                self.ready.push_back((entry, Some(message.data)));
            }
        }
        // They existed when the server sent the event.
        self.damaged += wanted.len() as u64;
        Ok(())
    }
}

impl Answer for Events {
    fn next(&mut self) -> Result<Option<Entry>, CliError> {
        loop {
            if let Some((entry, data)) = self.ready.pop_front() {
                self.current = data;
                return Ok(Some(entry));
            }
            if self.has_ended || self.interrupt.has_come() {
                return Ok(None);
            }
            self.look()?;
        }
    }

    fn data(&mut self) -> Result<Option<&[u8]>, CliError> {
        Ok(self.current.as_deref())
    }

    fn topic(&self, at: usize) -> &Topic {
        &self.topics[at]
    }

    fn profile(&self) -> &str {
        ""
    }

    fn damaged(&self) -> u64 {
        self.damaged
    }
}
