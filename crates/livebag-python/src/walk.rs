//! Messages of a recording, in order of log time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use livebag::{Container, ContainerError, Cursor, IndexEntry, Query};
use livebag_bags::MessageSource;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arriving::{Arrived, Arriving, warn, warn_of_damage};
use crate::channel::Channel;
use crate::columns::Feed;
use crate::errors;
use crate::message::{Data, InPlace, Message};
use crate::waiting::PATIENCE;

/// Messages from this size on are read straight into the memory that Python gets.
const LARGE_BYTES_MIN: u32 = 64 << 10;
/// Smaller ones are read together, so that Python's lock is released once for many.
const BATCH_MESSAGES: usize = 64;
const BATCH_BYTES: usize = 256 << 10;
/// Messages skipped before checking whether Python was interrupted.
const SKIPPED_AT_ONCE: usize = 4096;

self_cell::self_cell!(
    /// A container's messages; keeps the container open.
    pub struct Walk {
        owner: Arc<Container>,
        #[covariant]
        dependent: Cursor,
    }
);

/// Plans a query of a container.
pub fn walk(bag: Arc<Container>, query: &Query) -> Result<Walk, ContainerError> {
    Walk::try_new(bag, |bag| bag.query(query))
}

/// The messages of a recording of another make that are asked for.
pub struct Foreign {
    pub source: Box<dyn MessageSource>,
    /// By topic, in the order of the source.
    pub wanted: Vec<bool>,
    /// First and last log time.
    pub span: (u64, u64),
}

/// The next item of a source that is skipped a stretch at a time.
pub enum Step {
    Message(livebag_bags::SourceMessage),
    Passed,
    End,
}

impl Foreign {
    /// The next wanted message, unless it is too far away.
    pub fn step(&mut self) -> Result<Step, livebag_bags::ConvertError> {
        for _ in 0..SKIPPED_AT_ONCE {
            match self.source.next_message()? {
                None => return Ok(Step::End),
                Some(message) if message.log_time_nanos > self.span.1 => return Ok(Step::End),
                Some(message) => {
                    if message.log_time_nanos >= self.span.0 && self.wanted[message.topic] {
                        return Ok(Step::Message(message));
                    }
                }
            }
        }
        Ok(Step::Passed)
    }
}

/// Small messages that have been read and not yet been given.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    messages: VecDeque<(usize, IndexEntry, Range<usize>)>,
    /// A large one behind them, which has not been read.
    large: Option<(usize, IndexEntry)>,
}

impl Batch {
    fn fill(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ContainerError> {
        self.bytes.clear();
        while self.messages.len() < BATCH_MESSAGES && self.bytes.len() < BATCH_BYTES {
            let Some((topic, entry)) = cursor.next_entry()? else { break };
            if entry.data_bytes >= LARGE_BYTES_MIN {
                self.large = Some((topic, entry));
                break;
            }
            let start = self.bytes.len();
            self.bytes.resize(start + entry.data_bytes as usize, 0);
            match cursor.read_into(&mut self.bytes[start..]) {
                Ok(()) => self.messages.push_back((topic, entry, start..self.bytes.len())),
                Err(ContainerError::Damaged { .. }) => self.bytes.truncate(start),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Iterates over messages, oldest first.
#[pyclass(module = "livebag._livebag")]
pub struct Messages {
    channels: Arc<Vec<Py<Channel>>>,
    feed: Mutex<Feed>,
    batch: Batch,
    large: Large,
    /// Damaged messages that have been warned of.
    told: u64,
}

/// What becomes of large messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Large {
    /// They are read into separate memory.
    Read,
    /// They stay where they are, where that is possible; their `data` is a copy.
    InPlace,
    /// The same, and their `data` is that memory.
    Shown,
}

impl Messages {
    pub fn new(channels: Arc<Vec<Py<Channel>>>, feed: Feed, large: Large) -> Self {
        Self { channels, feed: Mutex::new(feed), batch: Batch::default(), large, told: 0 }
    }

    fn feed(&mut self) -> &mut Feed {
        self.feed.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Messages {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Message>> {
        let channels = self.channels.clone();
        let next = match self.feed.get_mut().unwrap_or_else(PoisonError::into_inner) {
            Feed::Container(walk) => {
                next_of_container(py, walk, &mut self.batch, self.large, &channels)
            }
            Feed::Foreign(foreign) => next_of_foreign(py, foreign, &channels),
            Feed::Arriving(arriving) => next_of_arriving(py, arriving, &channels),
            Feed::Nothing => Ok(None),
        }?;
        if next.is_none() {
            let damaged = self.feed().damaged();
            if std::mem::replace(&mut self.told, damaged) != damaged {
                warn_of_damage(py, damaged)?;
            }
        }
        Ok(next)
    }

    /// Number of remaining messages, if known without reading them.
    fn __length_hint__(&mut self) -> usize {
        let read = self.batch.messages.len() + usize::from(self.batch.large.is_some());
        match self.feed() {
            Feed::Container(walk) => walk.borrow_dependent().remaining() as usize + read,
            Feed::Foreign(_) | Feed::Arriving(_) | Feed::Nothing => 0,
        }
    }

    /// Robots whose answers ended early, in sentences; complete once the last message was given.
    #[getter]
    fn lost(&mut self) -> Vec<String> {
        match self.feed() {
            Feed::Arriving(arriving) => arriving.lost(),
            _ => Vec::new(),
        }
    }

    /// Damaged messages left out so far.
    #[getter]
    fn damaged(&mut self) -> u64 {
        self.feed().damaged()
    }
}

fn next_of_container(
    py: Python<'_>,
    walk: &mut Walk,
    batch: &mut Batch,
    large: Large,
    channels: &[Py<Channel>],
) -> PyResult<Option<Message>> {
    loop {
        if let Some((topic, entry, range)) = batch.messages.pop_front() {
            let data = PyBytes::new(py, &batch.bytes[range]);
            return Ok(Some(message(py, &channels[topic], &entry, Data::Own(data.unbind()))));
        }
        if let Some((topic, entry)) = batch.large.take() {
            if large != Large::Read {
                let part = || walk.with_dependent_mut(|_, cursor| cursor.part());
                match py.detach(part) {
                    Ok(None) => {}
                    Ok(Some(part)) => {
                        let data = Data::Mapped(InPlace::new(part, large == Large::Shown));
                        return Ok(Some(message(py, &channels[topic], &entry, data)));
                    }
                    Err(ContainerError::Damaged { .. }) => continue,
                    Err(error) => return Err(errors::bag(error)),
                }
            }
            let mut is_damaged = false;
            let data = PyBytes::new_with(py, entry.data_bytes as usize, |room| {
                let read = || walk.with_dependent_mut(|_, cursor| cursor.read_into(room));
                match py.detach(read) {
                    Err(ContainerError::Damaged { .. }) => is_damaged = true,
                    other => other.map_err(errors::bag)?,
                }
                Ok(())
            })?;
            if is_damaged {
                continue;
            }
            return Ok(Some(message(py, &channels[topic], &entry, Data::Own(data.unbind()))));
        }
        py.detach(|| walk.with_dependent_mut(|_, cursor| batch.fill(cursor)))
            .map_err(errors::bag)?;
        if batch.messages.is_empty() && batch.large.is_none() {
            if walk.borrow_dependent().remaining() == 0 {
                return Ok(None);
            }
            // Nothing but damaged messages.
            py.check_signals()?;
        }
    }
}

fn message(py: Python<'_>, channel: &Py<Channel>, entry: &IndexEntry, data: Data) -> Message {
    Message {
        channel: channel.clone_ref(py),
        log_time: entry.log_time_nanos,
        publish_time: entry.publish_time_nanos,
        sequence: entry.sequence,
        data,
    }
}

fn next_of_arriving(
    py: Python<'_>,
    arriving: &mut Arriving,
    channels: &[Py<Channel>],
) -> PyResult<Option<Message>> {
    loop {
        let polled = py.detach(|| arriving.poll(PATIENCE));
        warn(py, arriving)?;
        match polled? {
            Arrived::Message(message) => {
                return Ok(Some(Message {
                    channel: channels[message.topic].clone_ref(py),
                    log_time: message.log_time_nanos,
                    publish_time: message.publish_time_nanos,
                    sequence: message.sequence,
                    data: Data::Own(PyBytes::new(py, &message.data).unbind()),
                }));
            }
            Arrived::Waiting => py.check_signals()?,
            Arrived::End => return Ok(None),
        }
    }
}

fn next_of_foreign(
    py: Python<'_>,
    foreign: &mut Foreign,
    channels: &[Py<Channel>],
) -> PyResult<Option<Message>> {
    loop {
        match py.detach(|| foreign.step()).map_err(errors::convert)? {
            Step::Message(message) => {
                return Ok(Some(Message {
                    channel: channels[message.topic].clone_ref(py),
                    log_time: message.log_time_nanos,
                    publish_time: message.publish_time_nanos,
                    sequence: message.sequence,
                    data: Data::Own(PyBytes::new(py, &message.data).unbind()),
                }));
            }
            Step::Passed => py.check_signals()?,
            Step::End => return Ok(None),
        }
    }
}
