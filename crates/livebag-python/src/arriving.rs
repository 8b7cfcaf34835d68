//! Messages that arrive from another process.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use livebag::Topic;
use livebag_format::visible;
use livebag_net::remote::{McapMessages, RemoteError, RemoteMessage};
use livebag_net::zenoh::{Polled, ZenohAsker, ZenohError, ZenohMessages};
use pyo3::prelude::*;

use crate::errors::{self, python};

/// Messages of a server that have arrived and were not taken, at most …
const MESSAGES_WAITING_MAX: usize = 1024;
/// … and their bytes, unless it is one.
const BYTES_WAITING_MAX: usize = 8 << 20;

/// Why an answer is not whole.
#[derive(Debug)]
pub enum ArriveError {
    Remote(RemoteError),
    Zenoh(ZenohError),
}

impl std::fmt::Display for ArriveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Remote(error) => error.fmt(f),
            Self::Zenoh(error) => error.fmt(f),
        }
    }
}

impl From<ArriveError> for PyErr {
    fn from(error: ArriveError) -> Self {
        match error {
            ArriveError::Remote(error) => errors::remote(error),
            ArriveError::Zenoh(error) => errors::zenoh(&error),
        }
    }
}

/// An item that has arrived.
pub enum Arrived {
    /// A message of one of the channels.
    Message(RemoteMessage),
    /// Nothing yet.
    Waiting,
    /// Everything.
    End,
}

/// The messages of an answer.
pub struct Arriving {
    way: Way,
    /// The channels that are known.
    topics: Vec<Topic>,
    /// Place in `topics` by place in the answer's own list.
    places: Vec<Option<usize>>,
    /// As the server tells at the end.
    damaged: u64,
    is_over: bool,
}

enum Way {
    Server(Inbox),
    Robots {
        messages: Box<ZenohMessages>,
        /// Its session is closed when the last of these has gone.
        _asker: Arc<ZenohAsker>,
        /// Losses already reported.
        told: usize,
    },
}

/// Items read by the thread that reads a server's answer, up to a limit. The thread stops reading once it is gone.
struct Inbox(Arc<Waiting>);

#[derive(Default)]
struct Waiting {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    bytes: usize,
    is_closed: bool,
}

impl Waiting {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room; `false` if the receiver is gone.
    fn put(&self, item: Item) -> bool {
        let mut state = self.state();
        let bytes = item.bytes();
        while !state.is_closed
            && !state.items.is_empty()
            && (state.bytes + bytes > BYTES_WAITING_MAX
                || state.items.len() >= MESSAGES_WAITING_MAX)
        {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.items.push_back(item);
        state.bytes += bytes;
        self.changed.notify_one();
        !state.is_closed
    }

    /// The next, if it comes within `patience`.
    fn take(&self, patience: Duration) -> Option<Item> {
        let mut state = self.state();
        if state.items.is_empty() {
            let waited = self.changed.wait_timeout_while(state, patience, |s| s.items.is_empty());
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let item = state.items.pop_front()?;
        state.bytes -= item.bytes();
        self.changed.notify_one();
        Some(item)
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.changed.notify_one();
    }
}

enum Item {
    Topic(Topic),
    Message(RemoteMessage),
    Failed(RemoteError),
    /// With the messages that the server left out because they are damaged.
    End(u64),
}

impl Item {
    fn bytes(&self) -> usize {
        match self {
            Self::Message(message) => message.data.len(),
            _ => 0,
        }
    }
}

impl Arriving {
    /// A server's answer, read by a separate thread, because reading cannot be interrupted.
    pub fn of_server(messages: McapMessages, topics: Vec<Topic>) -> PyResult<Self> {
        let inbox = Inbox(Arc::default());
        let waiting = inbox.0.clone();
        let work = move || read(messages, &waiting);
        let thread = std::thread::Builder::new().name("livebag-answer".into()).spawn(work);
        thread.map_err(errors::other)?;
        let way = Way::Server(inbox);
        Ok(Self { way, topics, places: Vec::new(), damaged: 0, is_over: false })
    }

    /// The answer of robots.
    pub fn of_robots(asker: Arc<ZenohAsker>, messages: ZenohMessages, topics: Vec<Topic>) -> Self {
        let way = Way::Robots { messages: Box::new(messages), _asker: asker, told: 0 };
        Self { way, topics, places: Vec::new(), damaged: 0, is_over: false }
    }

    /// The next message, if it comes within `patience`.
    pub fn poll(&mut self, patience: Duration) -> Result<Arrived, ArriveError> {
        while !self.is_over {
            let polled = match &mut self.way {
                Way::Server(inbox) => match inbox.0.take(patience) {
                    Some(Item::Topic(topic)) => {
                        self.places.push(place(&self.topics, &topic));
                        continue;
                    }
                    Some(Item::Message(message)) => Polled::Message(message),
                    Some(Item::Failed(error)) => {
                        self.is_over = true;
                        return Err(ArriveError::Remote(error));
                    }
                    Some(Item::End(damaged)) => {
                        self.damaged = damaged;
                        Polled::End
                    }
                    None => Polled::Waiting,
                },
                Way::Robots { messages, .. } => {
                    let polled = messages.poll(patience).map_err(ArriveError::Zenoh)?;
                    for topic in &messages.topics()[self.places.len()..] {
                        self.places.push(place(&self.topics, topic));
                    }
                    polled
                }
            };
            return Ok(match polled {
                // A topic that has appeared since the query was sent is reported by the next query.
                Polled::Message(message) => match self.places[message.topic] {
                    Some(topic) => Arrived::Message(RemoteMessage { topic, ..message }),
                    None => continue,
                },
                Polled::Waiting => Arrived::Waiting,
                Polled::End => {
                    self.is_over = true;
                    Arrived::End
                }
            });
        }
        Ok(Arrived::End)
    }

    /// Whose answers have ended early, in sentences.
    pub fn lost(&self) -> Vec<String> {
        match &self.way {
            Way::Server(_) => Vec::new(),
            Way::Robots { messages, .. } => {
                messages.lost().iter().map(ToString::to_string).collect()
            }
        }
    }

    /// Those not reported yet.
    pub fn untold(&mut self) -> Vec<String> {
        let Way::Robots { messages, told, .. } = &mut self.way else { return Vec::new() };
        let known = std::mem::replace(told, messages.lost().len());
        messages.lost()[known..].iter().map(ToString::to_string).collect()
    }

    /// Damaged messages left out, as far as known.
    pub fn damaged(&self) -> u64 {
        match &self.way {
            Way::Server(_) => self.damaged,
            Way::Robots { messages, .. } => messages.damaged(),
        }
    }
}

fn place(topics: &[Topic], topic: &Topic) -> Option<usize> {
    topics.iter().position(|known| {
        known.name == topic.name
            && known.type_name == topic.type_name
            && known.schema == topic.schema
    })
}

/// Ends with the answer, or when the receiver is gone.
fn read(mut messages: McapMessages, waiting: &Waiting) {
    let mut topics = 0;
    loop {
        let next = messages.next_message();
        for topic in &messages.topics()[topics..] {
            if !waiting.put(Item::Topic(topic.clone())) {
                return;
            }
        }
        topics = messages.topics().len();
        let (item, is_last) = match next {
            Ok(Some(message)) => (Item::Message(message), false),
            Ok(None) => (Item::End(messages.damaged().values().sum()), true),
            Err(error) => (Item::Failed(error), true),
        };
        if !waiting.put(item) || is_last {
            return;
        }
    }
}

/// Says as a warning of Python's whose answers have ended early.
pub fn warn(py: Python<'_>, arriving: &mut Arriving) -> PyResult<()> {
    arriving.untold().iter().try_for_each(|text| warn_of(py, text))
}

/// Issues a Python warning.
pub fn warn_of(py: Python<'_>, text: &str) -> PyResult<()> {
    let text = std::ffi::CString::new(&*visible(text)).map_err(errors::other)?;
    let category = py.get_type::<pyo3::exceptions::PyRuntimeWarning>();
    PyErr::warn(py, &category, &text, 1)
}

/// Says that messages are missing.
pub fn warn_of_damage(py: Python<'_>, damaged: u64) -> PyResult<()> {
    let messages = if damaged == 1 { "message is" } else { "messages are" };
    warn_of(py, &format!("{damaged} {messages} left out: damaged, or gone from the recording"))
}

/// There is no such topic among `topics`.
pub fn no_topic(topic: &str, topics: &[Topic]) -> PyErr {
    let known = topics.iter().map(|topic| topic.name.clone()).collect();
    let error = livebag::ContainerError::NoTopic { topic: topic.to_owned(), known };
    python::NoTopic::new_err(error.to_string())
}
