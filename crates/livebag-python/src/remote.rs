//! A recording on a server, with the methods of one that is here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use livebag::Topic;
use livebag_net::remote::{self, Question, RemoteOptions};
use livebag_net::tell::{RecordingInfo, TopicRow};
use pyo3::prelude::*;

use crate::account::Account;
use crate::arriving::{Arriving, no_topic};
use crate::attachment::Attachment;
use crate::channel::Channel;
use crate::columns::{ColumnReader, Feed};
use crate::errors::remote as error;
use crate::event::{EventRow, event_row};
use crate::waiting::interruptible;
use crate::walk::{Large, Messages};

pub type Channels = Arc<Vec<Py<Channel>>>;
/// Channel, messages, bytes, first and last log time, account.
pub type Summary = (Py<Channel>, u64, u64, Option<u64>, Option<u64>, Option<Account>);

/// Channels for topics; those already known stay the same objects.
pub fn channels_of(
    py: Python<'_>,
    topics: impl Iterator<Item = Topic>,
    known: &Mutex<Channels>,
) -> PyResult<Channels> {
    let last = known.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let channel = |(at, topic): (usize, Topic)| match last.get(at) {
        Some(known) if known.get().topic == topic => Ok(known.clone_ref(py)),
        _ => Channel::new(py, topic),
    };
    let channels = Arc::new(topics.enumerate().map(channel).collect::<PyResult<Vec<_>>>()?);
    *known.lock().unwrap_or_else(PoisonError::into_inner) = channels.clone();
    Ok(channels)
}

/// Python's data about a topic.
pub fn summary(py: Python<'_>, row: &TopicRow, channel: &Py<Channel>) -> Summary {
    let (count, bytes) = (row.message_count, row.message_bytes);
    let times = (row.start_nanos, row.end_nanos);
    (channel.clone_ref(py), count, bytes, times.0, times.1, Some(Account(row.account())))
}

/// The messages of one topic as columns.
pub fn columns_of(
    channels: &Channels,
    topic: &str,
    feed: Feed,
    ask: impl Fn(Python<'_>) -> PyResult<Feed> + Send + Sync + 'static,
) -> PyResult<ColumnReader> {
    let mut topics = channels.iter().map(|channel| &channel.get().topic);
    match topics.find(|known| known.name == topic) {
        Some(known) => ColumnReader::new(known, feed, ask),
        None => Err(no_topic(topic, &topics_of(channels))),
    }
}

pub fn topics_of(channels: &Channels) -> Vec<Topic> {
    channels.iter().map(|channel| channel.get().topic.clone()).collect()
}

/// A recording on a livebag server.
#[pyclass(frozen, module = "livebag._livebag")]
pub struct RemoteRecording {
    url: String,
    bag: remote::RemoteRecording,
    last: Mutex<Channels>,
}

impl RemoteRecording {
    /// Its present state, and its channels; known ones stay the same objects.
    fn now(&self, py: Python<'_>) -> PyResult<(RecordingInfo, Channels)> {
        let bag = self.bag.clone();
        let info = interruptible(py, move || bag.definitions())?.map_err(error)?;
        let channels = channels_of(py, info.topics.iter().map(TopicRow::topic), &self.last)?;
        Ok((info, channels))
    }

    fn info(&self, py: Python<'_>) -> PyResult<RecordingInfo> {
        let bag = self.bag.clone();
        interruptible(py, move || bag.info())?.map_err(error)
    }

    fn ask(
        &self,
        py: Python<'_>,
        question: Question,
        topics: Option<Vec<String>>,
    ) -> PyResult<(Feed, Channels)> {
        let (_, channels) = self.now(py)?;
        // No topic at all is not the same as all of them.
        if topics.as_ref().is_some_and(Vec::is_empty) {
            return Ok((Feed::Nothing, channels));
        }
        let names = topics.unwrap_or_default();
        let topics = topics_of(&channels);
        let is_missing = |name: &&String| !topics.iter().any(|topic| topic.name == **name);
        if let Some(missing) = names.iter().find(is_missing) {
            return Err(no_topic(missing, &topics));
        }
        let bag = self.bag.clone();
        let messages = interruptible(py, move || bag.messages(&question, &names))?;
        let arriving = Arriving::of_server(messages.map_err(error)?, topics)?;
        Ok((Feed::Arriving(arriving), channels))
    }
}

fn between(start: u64, end: u64) -> Question {
    Question::history(Some(&start.to_string()), Some(&end.to_string()))
}

#[pymethods]
impl RemoteRecording {
    /// Opens the recording at `url`, http://HOST:PORT/NAME.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        url: String,
        token: Option<String>,
        ca_certificates: Option<PathBuf>,
    ) -> PyResult<Self> {
        let bag = remote::RemoteRecording::open(&url, RemoteOptions { token, ca_certificates })
            .map_err(error)?;
        let this = Self { url, bag, last: Mutex::default() };
        // Says at once if it is not there.
        this.now(py)?;
        Ok(this)
    }

    /// Its address.
    #[getter]
    fn path(&self) -> &str {
        &self.url
    }

    /// Its kind, in words.
    #[getter]
    fn kind(&self) -> &'static str {
        "livebag server"
    }

    /// `live`, `closed`, `recovered`, `unrecovered`.
    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.info(py)?.row.state)
    }

    /// Servers do not send it.
    #[getter]
    fn metadata(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        BTreeMap::new()
    }

    /// Not given by servers.
    fn attachments(&self) -> Vec<Attachment> {
        Vec::new()
    }

    /// Named moments and time ranges: name, text, first and last log time.
    fn events(&self, py: Python<'_>) -> PyResult<Vec<EventRow>> {
        Ok(self.info(py)?.events.into_iter().map(event_row).collect())
    }

    /// What ended the recording early.
    #[getter]
    fn warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.info(py)?.failure.into_iter().collect())
    }

    /// Topics as they are now, without their counts.
    fn channels(&self, py: Python<'_>) -> PyResult<Vec<Py<Channel>>> {
        let (_, channels) = self.now(py)?;
        Ok(channels.iter().map(|channel| channel.clone_ref(py)).collect())
    }

    /// Every topic with its messages, bytes, times and losses.
    fn summaries(&self, py: Python<'_>) -> PyResult<Vec<Summary>> {
        let (info, channels) = self.now(py)?;
        let rows = info.topics.iter().zip(channels.iter());
        Ok(rows.map(|(row, channel)| summary(py, row, channel)).collect())
    }

    /// Messages of `topics` (None: all) from the first to the second log time, both included.
    #[pyo3(signature = (topics, start, end))]
    fn messages(
        &self,
        py: Python<'_>,
        topics: Option<Vec<String>>,
        start: u64,
        end: u64,
    ) -> PyResult<Messages> {
        let (feed, channels) = self.ask(py, between(start, end), topics)?;
        Ok(Messages::new(channels, feed, Large::Read))
    }

    /// The newest messages, as many as arrive within this many seconds, newest first; of some topics at most a given
    /// number a second (`/topic:HZ`).
    #[pyo3(signature = (within, topics, decimate))]
    fn newest(
        &self,
        py: Python<'_>,
        within: f64,
        topics: Option<Vec<String>>,
        decimate: Vec<String>,
    ) -> PyResult<Messages> {
        let question = Question::auto(&format!("{within:.9}"), None, &decimate);
        let (feed, channels) = self.ask(py, question, topics)?;
        Ok(Messages::new(channels, feed, Large::Read))
    }

    /// The messages of one topic, as columns.
    fn columns(
        slf: Py<Self>,
        py: Python<'_>,
        topic: String,
        start: u64,
        end: u64,
    ) -> PyResult<ColumnReader> {
        let name = topic.clone();
        let ask =
            move |py: Python<'_>| slf.get().ask(py, between(start, end), Some(vec![name.clone()]));
        let (feed, channels) = ask(py)?;
        columns_of(&channels, &topic, feed, move |py| ask(py).map(|(feed, _)| feed))
    }
}
