//! A recording on a server, with the methods of one that is here.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use livebag::Topic;
use livebag::convert::{ConvertError, MessageSource, SourceMessage};
use livebag_net::remote::{McapMessages, Question, RemoteBag, RemoteError, RemoteOptions};
use livebag_net::tell::BagInfo;
use pyo3::PyErr;
use pyo3::prelude::*;

use crate::attachment::Attachment;
use crate::channel::Channel;
use crate::columns::{ColumnReader, Feed};
use crate::errors::python;
use crate::walk::{Foreign, Large, Messages};

type Channels = Arc<Vec<Py<Channel>>>;
/// Channel, messages, bytes, first and last log time, messages lost.
type Summary = (Py<Channel>, u64, u64, Option<u64>, Option<u64>, Option<u64>);

fn error(error: RemoteError) -> PyErr {
    let text = error.to_string();
    match error {
        RemoteError::Refused { status: 404, .. } if text.contains("no topic") => {
            python::NoTopic::new_err(text)
        }
        RemoteError::Refused { status: 404, .. } => python::NotFound::new_err(text),
        RemoteError::Nonsense { .. } => python::Damaged::new_err(text),
        _ => python::Error::new_err(text),
    }
}

/// Answers come as they are read, so an error may come in the middle.
struct RemoteSource {
    url: String,
    messages: McapMessages,
    topics: Vec<Topic>,
    /// Place in `topics` by place in the answer's own list.
    places: Vec<Option<usize>>,
}

impl MessageSource for RemoteSource {
    fn topics(&self) -> &[Topic] {
        &self.topics
    }

    fn profile(&self) -> &str {
        ""
    }

    fn next_message(&mut self) -> Result<Option<SourceMessage>, ConvertError> {
        loop {
            let next = self.messages.next_message().map_err(|error| ConvertError::Io {
                action: "read",
                path: PathBuf::from(&self.url),
                source: io::Error::other(error),
            })?;
            let Some(message) = next else { return Ok(None) };
            while self.places.len() < self.messages.topics().len() {
                let topic = &self.messages.topics()[self.places.len()];
                let same = |known: &Topic| {
                    known.name == topic.name
                        && known.type_name == topic.type_name
                        && known.schema == topic.schema
                };
                self.places.push(self.topics.iter().position(same));
            }
            // One that has appeared since the question was asked is told of by the next question.
            let Some(topic) = self.places[message.topic] else { continue };
            return Ok(Some(SourceMessage {
                topic,
                log_time_nanos: message.log_time_nanos,
                publish_time_nanos: message.publish_time_nanos,
                sequence: message.sequence,
                data: message.data,
            }));
        }
    }

    fn start_time_nanos(&self) -> Option<u64> {
        None
    }

    fn warnings(&self) -> &[String] {
        &[]
    }
}

/// A recording on a livebag server.
#[pyclass(frozen, module = "livebag._livebag")]
pub struct RemoteRecording {
    url: String,
    bag: RemoteBag,
    last: Mutex<Channels>,
}

impl RemoteRecording {
    /// What it is now, and its channels; those already known stay the same objects.
    fn now(&self, py: Python<'_>) -> PyResult<(BagInfo, Channels)> {
        let info = py.detach(|| self.bag.definitions()).map_err(error)?;
        let known = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let channel = |(at, topic): (usize, Topic)| match known.get(at) {
            Some(known) if known.get().topic == topic => Ok(known.clone_ref(py)),
            _ => Channel::new(py, topic),
        };
        let topics = info.topics.iter().map(livebag_net::tell::TopicRow::topic);
        let channels = Arc::new(topics.enumerate().map(channel).collect::<PyResult<Vec<_>>>()?);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = channels.clone();
        Ok((info, channels))
    }

    fn ask(
        &self,
        py: Python<'_>,
        question: &Question,
        topics: Option<Vec<String>>,
    ) -> PyResult<(Feed, Channels)> {
        let (_, channels) = self.now(py)?;
        // No topic at all is not the same as all of them.
        if topics.as_ref().is_some_and(Vec::is_empty) {
            return Ok((Feed::Nothing, channels));
        }
        let names = topics.unwrap_or_default();
        let missing = names
            .iter()
            .find(|name| !channels.iter().any(|channel| channel.get().topic.name == **name));
        if let Some(topic) = missing {
            let known = channels.iter().map(|channel| channel.get().topic.name.clone()).collect();
            let topic = topic.clone();
            return Err(crate::errors::bag(livebag::BagError::NoTopic { topic, known }));
        }
        let messages = py.detach(|| self.bag.messages(question, &names)).map_err(error)?;
        let topics: Vec<Topic> =
            channels.iter().map(|channel| channel.get().topic.clone()).collect();
        let wanted = vec![true; topics.len()];
        let places = Vec::new();
        let source = RemoteSource { url: self.url.clone(), messages, topics, places };
        let foreign = Foreign { source: Box::new(source), wanted, span: (0, u64::MAX) };
        Ok((Feed::Foreign(foreign), channels))
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
        let bag = RemoteBag::open(&url, RemoteOptions { token, ca_certificates }).map_err(error)?;
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

    /// What it is, in words.
    #[getter]
    fn kind(&self) -> &'static str {
        "livebag server"
    }

    /// `live`, `closed`, `recovered`, `unrecovered`.
    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<String> {
        Ok(py.detach(|| self.bag.info()).map_err(error)?.row.state)
    }

    /// Not told by servers.
    #[getter]
    fn metadata(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        BTreeMap::new()
    }

    /// Not given by servers.
    fn attachments(&self) -> Vec<Attachment> {
        Vec::new()
    }

    /// What ended the recording early.
    #[getter]
    fn warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(py.detach(|| self.bag.info()).map_err(error)?.failure.into_iter().collect())
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
        let summary = |(row, channel): (&livebag_net::tell::TopicRow, &Py<Channel>)| {
            let (count, bytes) = (row.message_count, row.message_bytes);
            (
                channel.clone_ref(py),
                count,
                bytes,
                row.start_nanos,
                row.end_nanos,
                Some(row.lost.total),
            )
        };
        Ok(rows.map(summary).collect())
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
        let (feed, channels) = self.ask(py, &between(start, end), topics)?;
        Ok(Messages::new(channels, feed, Large::Read))
    }

    /// As many of the newest messages as arrive within so many seconds, newest first; of some topics at
    /// most so many a second (`/topic:HZ`).
    #[pyo3(signature = (within, topics, decimate))]
    fn newest(
        &self,
        py: Python<'_>,
        within: f64,
        topics: Option<Vec<String>>,
        decimate: Vec<String>,
    ) -> PyResult<Messages> {
        let question = Question::auto(&format!("{within:.9}"), None, &decimate);
        let (feed, channels) = self.ask(py, &question, topics)?;
        Ok(Messages::new(channels, feed, Large::Read))
    }

    /// The messages of one topic, as columns.
    fn columns(
        &self,
        py: Python<'_>,
        topic: String,
        start: u64,
        end: u64,
    ) -> PyResult<ColumnReader> {
        let (feed, channels) = self.ask(py, &between(start, end), Some(vec![topic.clone()]))?;
        let mut of_name = channels.iter().map(|channel| &channel.get().topic);
        match of_name.find(|known| known.name == topic) {
            Some(known) => ColumnReader::new(known, feed),
            None => Err(python::NoTopic::new_err(format!("there is no topic {topic}"))),
        }
    }
}
