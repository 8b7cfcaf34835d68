//! Recordings of robots on Zenoh, as one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use livebag::{Clock, Topic};
use livebag_net::tell::{RecordingInfo, TopicRow};
use livebag_net::zenoh::{
    Found, Plan, ZenohAddress, ZenohAsker, ZenohError, ZenohOptions, prefixed, prefixes,
};
use pyo3::prelude::*;

use crate::arriving::{Arriving, no_topic};
use crate::attachment::Attachment;
use crate::channel::Channel;
use crate::columns::{ColumnReader, Feed};
use crate::errors::zenoh as error;
use crate::event::{EventRow, event_row};
use crate::remote::{Channels, Summary, channels_of, columns_of, summary, topics_of};
use crate::waiting::interruptible;
use crate::walk::{Large, Messages};

/// The recordings at an address of Zenoh: those that were there when it was opened.
#[pyclass(frozen, module = "livebag._livebag")]
pub struct RobotsRecording {
    address: String,
    asker: Arc<ZenohAsker>,
    found: Vec<Found>,
    last: Mutex<Channels>,
}

/// The description of every recording, and the topics' names in all of them.
struct Told {
    infos: Vec<Option<RecordingInfo>>,
    rows: Vec<TopicRow>,
    channels: Channels,
}

impl RobotsRecording {
    fn infos(&self, py: Python<'_>) -> PyResult<Vec<Option<RecordingInfo>>> {
        let (asker, found) = (self.asker.clone(), self.found.clone());
        interruptible(py, move || asker.definitions(&found))?.map_err(|e| error(&e))
    }

    /// Their present state.
    fn now(&self, py: Python<'_>) -> PyResult<Told> {
        let infos = self.infos(py)?;
        let mut rows = Vec::new();
        for (info, prefix) in infos.iter().zip(prefixes(&self.found)) {
            for row in info.iter().flat_map(|info| &info.topics) {
                rows.push(TopicRow { name: prefixed(&prefix, &row.name), ..row.clone() });
            }
        }
        let channels = channels_of(py, rows.iter().map(TopicRow::topic), &self.last)?;
        Ok(Told { infos, rows, channels })
    }

    /// Names as in the answer: a recording's own name of a topic selects it in each recording that has it.
    fn names(&self, told: &Told, wanted: &[String]) -> PyResult<Vec<String>> {
        let prefixes = prefixes(&self.found);
        let mut names = Vec::new();
        for name in wanted {
            let known = names.len();
            if told.rows.iter().any(|row| row.name == *name) {
                names.push(name.clone());
            } else {
                for (info, prefix) in told.infos.iter().zip(&prefixes) {
                    let mut topics = info.iter().flat_map(|info| &info.topics);
                    if topics.any(|row| row.name == *name) {
                        names.push(prefixed(prefix, name));
                    }
                }
            }
            if names.len() == known {
                return Err(no_topic(name, &topics_of(&told.channels)));
            }
        }
        Ok(names)
    }

    fn ask(
        &self,
        py: Python<'_>,
        told: &Told,
        plan: Plan,
        topics: Option<Vec<String>>,
    ) -> PyResult<Feed> {
        // No topic at all is not the same as all of them.
        if topics.as_ref().is_some_and(Vec::is_empty) {
            return Ok(Feed::Nothing);
        }
        let names = self.names(told, &topics.unwrap_or_default())?;
        let (asker, found) = (self.asker.clone(), self.found.clone());
        let asked = interruptible(py, move || asker.ask(found, &names, &plan))?;
        let messages = asked.map_err(|e| error(&e))?;
        let topics: Vec<Topic> = topics_of(&told.channels);
        Ok(Feed::Arriving(Arriving::of_robots(self.asker.clone(), messages, topics)))
    }

    fn messages_of(
        &self,
        py: Python<'_>,
        plan: Plan,
        topics: Option<Vec<String>>,
    ) -> PyResult<Messages> {
        let told = self.now(py)?;
        let feed = self.ask(py, &told, plan, topics)?;
        Ok(Messages::new(told.channels, feed, Large::Read))
    }
}

fn between(start: u64, end: u64) -> Plan {
    Plan::History(Some(start.to_string()), Some(end.to_string()))
}

#[pymethods]
impl RobotsRecording {
    /// Opens the recordings announced at `address`, zenoh/ROBOT/NAME.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        address: String,
        config: Option<PathBuf>,
        listen: Vec<String>,
        connect: Vec<String>,
    ) -> PyResult<Self> {
        let parsed = ZenohAddress::parse(&address).map_err(|e| error(&e))?;
        let options = ZenohOptions { config, listen, connect };
        let opened = interruptible(py, move || {
            let asker = ZenohAsker::open(&options, Clock::system())?;
            let found = asker.find(&parsed)?;
            match found.is_empty() {
                true => Err(ZenohError::Nobody(parsed.to_string())),
                false => Ok((asker, found)),
            }
        })?;
        let (asker, found) = opened.map_err(|e| error(&e))?;
        let this = Self { address, asker: Arc::new(asker), found, last: Mutex::default() };
        this.now(py)?;
        Ok(this)
    }

    /// Its address.
    #[getter]
    fn path(&self) -> &str {
        &self.address
    }

    /// Its kind, in words.
    #[getter]
    fn kind(&self) -> &'static str {
        "livebag robots"
    }

    /// The addresses of the recordings.
    #[getter]
    fn recordings(&self) -> Vec<String> {
        self.found.iter().map(ToString::to_string).collect()
    }

    /// That of the recordings where it is the same, `live` where one of them is.
    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<String> {
        let infos = self.infos(py)?;
        let mut states: Vec<&str> = infos.iter().flatten().map(|info| &*info.row.state).collect();
        states.sort_unstable();
        states.dedup();
        Ok(match &states[..] {
            [] => "gone".into(),
            states if states.contains(&"live") => "live".into(),
            [one] => (*one).to_owned(),
            several => several.join(", "),
        })
    }

    /// Robots do not send it.
    #[getter]
    fn metadata(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        BTreeMap::new()
    }

    /// Not given by robots.
    fn attachments(&self) -> Vec<Attachment> {
        Vec::new()
    }

    /// Named moments and time ranges of all of them, in order of time: name, text, first and last log time.
    fn events(&self, py: Python<'_>) -> PyResult<Vec<EventRow>> {
        let infos = self.infos(py)?.into_iter().flatten();
        let mut events: Vec<_> = infos.flat_map(|info| info.events).collect();
        events.sort_by_key(|event| event.from_nanos);
        Ok(events.into_iter().map(event_row).collect())
    }

    /// Robots that do not answer, and why recordings ended early.
    #[getter]
    fn warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let infos = self.infos(py)?;
        let told = self.found.iter().zip(infos);
        let warning = |(found, info): (&Found, Option<RecordingInfo>)| match info {
            None => Some(format!("{found} does not answer any more")),
            Some(info) => Some(format!("{found}: {}", info.failure?)),
        };
        Ok(told.filter_map(warning).collect())
    }

    /// Topics as they are now, without their counts.
    fn channels(&self, py: Python<'_>) -> PyResult<Vec<Py<Channel>>> {
        let told = self.now(py)?;
        Ok(told.channels.iter().map(|channel| channel.clone_ref(py)).collect())
    }

    /// Every topic with its messages, bytes, times and losses.
    fn summaries(&self, py: Python<'_>) -> PyResult<Vec<Summary>> {
        let told = self.now(py)?;
        let rows = told.rows.iter().zip(told.channels.iter());
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
        self.messages_of(py, between(start, end), topics)
    }

    /// The last nanoseconds of each recording.
    #[pyo3(signature = (last, topics))]
    fn latest(&self, py: Python<'_>, last: u64, topics: Option<Vec<String>>) -> PyResult<Messages> {
        self.messages_of(py, Plan::Latest(Duration::from_nanos(last)), topics)
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
        let within = Duration::try_from_secs_f64(within).map_err(crate::errors::other)?;
        self.messages_of(py, Plan::Auto { within, last: None, decimate }, topics)
    }

    /// The messages of one topic, as columns.
    fn columns(
        slf: Py<Self>,
        py: Python<'_>,
        topic: String,
        start: u64,
        end: u64,
    ) -> PyResult<ColumnReader> {
        let this = slf.get();
        let told = this.now(py)?;
        let names = this.names(&told, std::slice::from_ref(&topic))?;
        let [name] = &names[..] else {
            let text = format!("{topic} exists more than once: {}", names.join(", "));
            return Err(crate::errors::python::Unsupported::new_err(text));
        };
        let (wanted, asked) = (names.clone(), slf.clone_ref(py));
        let ask = move |py: Python<'_>| {
            let this = asked.get();
            let told = this.now(py)?;
            this.ask(py, &told, between(start, end), Some(wanted.clone()))
        };
        columns_of(&told.channels, name, ask(py)?, ask)
    }
}
