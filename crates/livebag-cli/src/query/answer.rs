//! Source of messages: a container on this machine, or a remote recording.

use std::io::{BufRead, BufReader};

use livebag::{
    Buffer, Container, ContainerError, ContainerState, Cursor, FilePart, NewestFirst, Topic,
};
use livebag_net::remote::{McapMessages, RemoteAnswer, RemoteMessage};
use livebag_net::tell::{DamagedLine, MessageLine};

use crate::outcome::CliError;

/// Properties of a message, known before it is read. Times are nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Place in [`Answer::topics`].
    pub topic: usize,
    /// When the recorder took it.
    pub log_time_nanos: u64,
    /// When the source stamped it.
    pub publish_time_nanos: u64,
    /// The source's count.
    pub sequence: u64,
    /// Length of the encoded message.
    pub bytes: u64,
}

impl From<&RemoteMessage> for Entry {
    fn from(message: &RemoteMessage) -> Self {
        Self {
            topic: message.topic,
            log_time_nanos: message.log_time_nanos,
            publish_time_nanos: message.publish_time_nanos,
            sequence: message.sequence,
            bytes: message.data.len() as u64,
        }
    }
}

/// The messages of a query, one after the other.
pub trait Answer {
    /// Advances to the next message; `None` after the last.
    fn next(&mut self) -> Result<Option<Entry>, CliError>;
    /// That message as it was encoded; `None` if it is damaged.
    fn data(&mut self) -> Result<Option<&[u8]>, CliError>;
    /// The topic of a message that [`Answer::next`] has given.
    fn topic(&self, at: usize) -> &Topic;
    /// MCAP's profile of the messages.
    fn profile(&self) -> &str;
    /// Damaged messages left out so far.
    fn damaged(&self) -> u64 {
        0
    }
}

/// A query's messages in a container on this machine.
pub struct Local<'bag> {
    /// The container.
    pub bag: &'bag Container,
    /// The rest of the query.
    pub cursor: Cursor<'bag>,
    buffer: Buffer,
    /// The message, if it is in place.
    part: Option<FilePart>,
}

impl<'bag> Local<'bag> {
    /// All of a query.
    pub fn new(bag: &'bag Container, cursor: Cursor<'bag>) -> Self {
        Self { bag, cursor, buffer: Buffer::default(), part: None }
    }
}

fn entry((topic, entry): (usize, livebag::IndexEntry)) -> Entry {
    Entry {
        topic,
        log_time_nanos: entry.log_time_nanos,
        publish_time_nanos: entry.publish_time_nanos,
        sequence: entry.sequence,
        bytes: entry.data_bytes.into(),
    }
}

impl Answer for Local<'_> {
    fn next(&mut self) -> Result<Option<Entry>, CliError> {
        Ok(self.cursor.next_entry()?.map(entry))
    }

    fn data(&mut self) -> Result<Option<&[u8]>, CliError> {
        self.part = None;
        // Reading a live container in place could fail with its files (SIGBUS).
        if self.bag.state() != ContainerState::Live {
            self.part = match self.cursor.part() {
                Ok(part) => part,
                Err(ContainerError::Damaged { .. }) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
        }
        if let Some(part) = &self.part {
            #[expect(unsafe_code, reason = "messages are exported from where they lie")]
            // SAFETY: the recording is closed; the user asked this program to read it, and nothing writes it.
            return Ok(Some(unsafe { part.look() }));
        }
        self.buffer.clear();
        Ok(self.cursor.append_to(&mut self.buffer)?.then_some(&*self.buffer))
    }

    fn topic(&self, at: usize) -> &Topic {
        self.bag.topics()[at].topic()
    }

    fn profile(&self) -> &str {
        self.bag.profile()
    }

    fn damaged(&self) -> u64 {
        self.cursor.damaged()
    }
}

/// The same from the newest message on, until it is stopped.
pub struct LocalNewest<'bag, F> {
    bag: &'bag Container,
    messages: NewestFirst<'bag>,
    buffer: Buffer,
    may_go_on: F,
}

impl<'bag, F: FnMut() -> bool> LocalNewest<'bag, F> {
    /// Continues as long as `may_go_on` agrees; the newest message is always returned.
    pub fn new(bag: &'bag Container, messages: NewestFirst<'bag>, may_go_on: F) -> Self {
        Self { bag, messages, buffer: Buffer::default(), may_go_on }
    }
}

impl<F: FnMut() -> bool> Answer for LocalNewest<'_, F> {
    fn next(&mut self) -> Result<Option<Entry>, CliError> {
        if !(self.may_go_on)() {
            return Ok(None);
        }
        Ok(self.messages.next_entry()?.map(entry))
    }

    fn data(&mut self) -> Result<Option<&[u8]>, CliError> {
        self.buffer.clear();
        Ok(self.messages.append_to(&mut self.buffer)?.then_some(&*self.buffer))
    }

    fn topic(&self, at: usize) -> &Topic {
        self.bag.topics()[at].topic()
    }

    fn profile(&self) -> &str {
        self.bag.profile()
    }

    fn damaged(&self) -> u64 {
        self.messages.damaged()
    }
}

/// Messages that a server sends.
pub struct Remote {
    messages: McapMessages,
    current: Option<RemoteMessage>,
    profile: String,
}

impl Remote {
    /// Reads an answer in MCAP.
    pub fn new(messages: McapMessages, profile: String) -> Self {
        Self { messages, current: None, profile }
    }
}

impl Answer for Remote {
    fn next(&mut self) -> Result<Option<Entry>, CliError> {
        self.current = self.messages.next_message()?;
        Ok(self.current.as_ref().map(Entry::from))
    }

    fn data(&mut self) -> Result<Option<&[u8]>, CliError> {
        Ok(self.current.as_ref().map(|message| &*message.data))
    }

    fn topic(&self, at: usize) -> &Topic {
        &self.messages.topics()[at]
    }

    fn profile(&self) -> &str {
        &self.profile
    }

    fn damaged(&self) -> u64 {
        self.messages.damaged().values().sum()
    }
}

/// Only times and sizes, which a server sends as lines.
pub struct RemoteLines {
    lines: BufReader<RemoteAnswer>,
    topics: Vec<Topic>,
    damaged: u64,
}

impl RemoteLines {
    /// Reads an answer in JSON lines, of messages of `topics`.
    pub fn new(answer: RemoteAnswer, topics: Vec<Topic>) -> Self {
        Self { lines: BufReader::new(answer), topics, damaged: 0 }
    }
}

impl Answer for RemoteLines {
    fn next(&mut self) -> Result<Option<Entry>, CliError> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line);
        if read.map_err(|error| self.lines.get_ref().cut(error))? == 0 {
            return Ok(None);
        }
        if let Ok(DamagedLine { damaged }) = serde_json::from_str(&line) {
            self.damaged = damaged.values().sum();
            return Ok(None);
        }
        let line: MessageLine = serde_json::from_str(&line).map_err(|error| {
            CliError::failed(format!(
                "the answer of {} makes no sense: {error}",
                self.lines.get_ref().url()
            ))
        })?;
        let known = self.topics.iter().position(|topic| topic.name == line.topic);
        let topic = known.unwrap_or_else(|| {
            self.topics.push(Topic { name: line.topic, ..Topic::default() });
            self.topics.len() - 1
        });
        Ok(Some(Entry {
            topic,
            log_time_nanos: line.log_time,
            publish_time_nanos: line.publish_time,
            sequence: line.sequence,
            bytes: line.bytes as u64,
        }))
    }

    fn data(&mut self) -> Result<Option<&[u8]>, CliError> {
        Ok(None)
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
