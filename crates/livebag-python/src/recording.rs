//! A recording of any kind, open for reading.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use livebag::internal::warning_of_missing;
use livebag::{Container, ContainerState, Query, Span};
use livebag_bags::RecordingKind;
use livebag_bags::{ConvertError, MessageSource, open_foreign, open_foreign_on};
use livebag_format::container::CONTAINER_FILE;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::account::Account;
use crate::arriving::warn_of;
use crate::attachment::Attachment;
use crate::channel::Channel;
use crate::columns::{ColumnReader, Feed};
use crate::errors::{self, python};
use crate::event::{EventRow, event_row};
use crate::stored::{self, Stored};
use crate::walk::{Foreign, Large, Messages, Step, walk};

/// Totals of a topic's messages.
#[derive(Clone, Copy, Default)]
struct Sum {
    count: u64,
    bytes: u64,
    /// First and last log time.
    range: Option<(u64, u64)>,
}

/// Channel, messages, bytes, first and last log time, account.
type Summary = (Py<Channel>, u64, u64, Option<u64>, Option<u64>, Option<Account>);
/// First and last log time, messages, bytes.
type RangeRow = (u64, u64, u64, u64);
/// Log times before and after a time.
type Neighbours = (Option<u64>, Option<u64>);
type Channels = Arc<Vec<Py<Channel>>>;

enum Way {
    /// Its state at the last use; a live one is refreshed for every query.
    Container(Mutex<(Arc<Container>, Channels)>),
    Foreign {
        kind: String,
        channels: Channels,
        warnings: Mutex<Vec<String>>,
        /// By topic, once all messages have been read.
        sums: Mutex<Option<Arc<Vec<Sum>>>>,
    },
}

impl Way {
    fn foreign(py: Python<'_>, kind: String, source: &dyn MessageSource) -> PyResult<Self> {
        let channels = source.topics().iter().map(|topic| Channel::new(py, topic.clone()));
        Ok(Self::Foreign {
            kind,
            channels: Arc::new(channels.collect::<PyResult<_>>()?),
            warnings: Mutex::new(source.warnings().to_vec()),
            sums: Mutex::default(),
        })
    }
}

/// A container, an MCAP file, a rosbag2 directory or database, or a ROS 1 bag.
#[pyclass(frozen, module = "livebag._livebag")]
pub struct Recording {
    path: PathBuf,
    /// If it is in an object store.
    stored: Option<Stored>,
    way: Way,
    /// What becomes of large messages of a finished container.
    large: Large,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The channels of a container; those already known stay the same objects.
fn channels_of(py: Python<'_>, bag: &Container, known: &[Py<Channel>]) -> PyResult<Channels> {
    let channel = |(at, topic): (usize, &livebag::ContainerTopic)| match known.get(at) {
        Some(known) if known.get().topic == *topic.topic() => Ok(known.clone_ref(py)),
        _ => Channel::new(py, topic.topic().clone()),
    };
    Ok(Arc::new(bag.topics().iter().enumerate().map(channel).collect::<PyResult<_>>()?))
}

fn kind_of(path: &Path) -> String {
    if path.is_dir() { "rosbag2 bag".to_owned() } else { RecordingKind::of_file(path).to_string() }
}

impl Recording {
    /// A recording of another make, from its beginning on.
    fn source(&self) -> Result<Box<dyn MessageSource>, ConvertError> {
        match &self.stored {
            Some(stored) => open_foreign_on(&*stored.disk, &self.path),
            None => open_foreign(&self.path),
        }
    }

    /// The container as it is now.
    fn now(
        &self,
        py: Python<'_>,
        last: &Mutex<(Arc<Container>, Channels)>,
    ) -> PyResult<(Arc<Container>, Channels)> {
        let (bag, channels) = {
            let last = lock(last);
            (last.0.clone(), last.1.clone())
        };
        if bag.state() != ContainerState::Live {
            return Ok((bag, channels));
        }
        let bag = Arc::new(py.detach(|| Container::open(&self.path)).map_err(errors::bag)?);
        let channels = channels_of(py, &bag, &channels)?;
        *lock(last) = (bag.clone(), channels.clone());
        Ok((bag, channels))
    }

    /// The source, from its beginning on, with the topics that are wanted.
    fn foreign(
        &self,
        py: Python<'_>,
        channels: &Channels,
        topics: Option<&[String]>,
        span: (u64, u64),
    ) -> PyResult<Foreign> {
        let names = || channels.iter().map(|channel| &channel.get().topic.name);
        let unknown =
            topics.into_iter().flatten().find(|wanted| !names().any(|name| name == *wanted));
        if let Some(topic) = unknown {
            let known = names().cloned().collect();
            return Err(errors::bag(livebag::ContainerError::NoTopic {
                topic: topic.clone(),
                known,
            }));
        }
        let is_wanted = |name: &String| topics.is_none_or(|topics| topics.contains(name));
        let mut wanted: Vec<bool> = names().map(is_wanted).collect();
        let mut source = py.detach(|| self.source()).map_err(errors::convert)?;
        source.skip_before(span.0);
        wanted.resize(source.topics().len(), false);
        Ok(Foreign { source, wanted, span })
    }

    /// Totals of each topic of a foreign recording: every message is read, once.
    fn sums(&self, py: Python<'_>) -> PyResult<Arc<Vec<Sum>>> {
        let Way::Foreign { channels, warnings, sums, .. } = &self.way else {
            return Ok(Arc::default());
        };
        if let Some(known) = &*lock(sums) {
            return Ok(known.clone());
        }
        let mut foreign = self.foreign(py, channels, None, (0, u64::MAX))?;
        let mut all = vec![Sum::default(); foreign.wanted.len()];
        while py.detach(|| count_on(&mut foreign, &mut all)).map_err(errors::convert)? {
            py.check_signals()?;
        }
        *lock(warnings) = foreign.source.warnings().to_vec();
        let all = Arc::new(all);
        *lock(sums) = Some(all.clone());
        Ok(all)
    }

    fn feed(
        &self,
        py: Python<'_>,
        topics: Option<Vec<String>>,
        span: (u64, u64),
    ) -> PyResult<(Feed, Channels)> {
        match &self.way {
            Way::Container(last) => {
                let (bag, channels) = self.now(py, last)?;
                let span = Span::History(span.0, span.1);
                // No topic at all is not the same as all of them.
                if topics.as_ref().is_some_and(Vec::is_empty) {
                    return Ok((Feed::Nothing, channels));
                }
                let query = Query { topics: topics.unwrap_or_default(), span };
                let walk = py.detach(|| walk(bag, &query)).map_err(errors::bag)?;
                Ok((Feed::Container(walk), channels))
            }
            Way::Foreign { channels, .. } => {
                let foreign = self.foreign(py, channels, topics.as_deref(), span)?;
                Ok((Feed::Foreign(foreign), channels.clone()))
            }
        }
    }
}

impl Recording {
    fn open_stored(py: Python<'_>, path: PathBuf, large: Large) -> PyResult<Self> {
        let stored = py.detach(|| stored::open(&path))?;
        let way = if stored.is_container {
            let opened = py.detach(|| Container::peek_on(stored.disk.clone(), &path));
            let bag = Arc::new(opened.map_err(errors::bag)?);
            warn_of_missing(py, &bag)?;
            let channels = channels_of(py, &bag, &[])?;
            Way::Container(Mutex::new((bag, channels)))
        } else {
            let source = py.detach(|| open_foreign_on(&*stored.disk, &path));
            let kind = RecordingKind::of_file(&path).to_string();
            Way::foreign(py, kind, &*source.map_err(errors::convert)?)?
        };
        Ok(Self { path, stored: Some(stored), way, large })
    }
}

/// Says if files of a container are gone or cut.
fn warn_of_missing(py: Python<'_>, bag: &Container) -> PyResult<()> {
    match warning_of_missing(bag.missing().map_err(errors::bag)?) {
        Some(warning) => warn_of(py, &format!("{}: {warning}", bag.path().display())),
        None => Ok(()),
    }
}

/// Counts some thousand messages; `false` at the end.
fn count_on(foreign: &mut Foreign, sums: &mut [Sum]) -> Result<bool, ConvertError> {
    for _ in 0..4096 {
        match foreign.step()? {
            Step::End => return Ok(false),
            Step::Passed => {}
            Step::Message(message) => {
                let sum = &mut sums[message.topic];
                sum.count += 1;
                sum.bytes += message.data.len() as u64;
                let (first, _) = sum.range.unwrap_or((message.log_time_nanos, 0));
                sum.range = Some((first, message.log_time_nanos));
            }
        }
    }
    Ok(true)
}

#[pymethods]
impl Recording {
    /// Opens `path`, whose kind is recognised by its contents.
    #[staticmethod]
    #[pyo3(signature = (path, is_mapped))]
    fn open(py: Python<'_>, path: PathBuf, is_mapped: Option<bool>) -> PyResult<Self> {
        let large = match is_mapped {
            None => Large::InPlace,
            Some(true) => Large::Shown,
            Some(false) => Large::Read,
        };
        if path.to_str().is_some_and(|text| text.contains("://")) {
            return Self::open_stored(py, path, large);
        }
        if !path.exists() {
            return Err(errors::bag(livebag::ContainerError::NotFound(path)));
        }
        let path = match path.parent() {
            Some(parent) if path.ends_with(CONTAINER_FILE) => parent.to_owned(),
            _ => path,
        };
        if path.join(CONTAINER_FILE).exists() {
            let bag = Arc::new(py.detach(|| Container::open(&path)).map_err(errors::bag)?);
            warn_of_missing(py, &bag)?;
            let channels = channels_of(py, &bag, &[])?;
            let way = Way::Container(Mutex::new((bag, channels)));
            return Ok(Self { path, stored: None, way, large });
        }
        let source = py.detach(|| open_foreign(&path)).map_err(errors::convert)?;
        let way = Way::foreign(py, kind_of(&path), &*source)?;
        Ok(Self { path, stored: None, way, large })
    }

    /// Where it is: a path, or an address as text.
    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.stored {
            Some(_) => self.path.to_string_lossy().into_bound_py_any(py),
            None => self.path.as_path().into_bound_py_any(py),
        }
    }

    /// Its kind, in words.
    #[getter]
    fn kind(&self) -> &str {
        match &self.way {
            Way::Container(_) => "livebag container",
            Way::Foreign { kind, .. } => kind,
        }
    }

    /// `live`, `closed`, `recovered`, `unrecovered`; `closed` for all that are no containers.
    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<String> {
        match &self.way {
            Way::Container(last) => Ok(self.now(py, last)?.0.state().to_string()),
            Way::Foreign { .. } => Ok(ContainerState::Closed.to_string()),
        }
    }

    /// Names and values stored in the container, by subject.
    #[getter]
    fn metadata(
        &self,
    ) -> std::collections::BTreeMap<String, std::collections::BTreeMap<String, String>> {
        match &self.way {
            Way::Container(last) => {
                let entries = lock(last).0.metadata().to_vec();
                entries.into_iter().map(|entry| (entry.name, entry.values)).collect()
            }
            Way::Foreign { .. } => Default::default(),
        }
    }

    /// Files stored in the recording.
    fn attachments(&self, py: Python<'_>) -> PyResult<Vec<Attachment>> {
        let all = py.detach(|| match &self.way {
            Way::Container(last) => {
                let bag = lock(last).0.clone();
                livebag_bags::attachments(&bag)
            }
            Way::Foreign { .. } => {
                let mut source = self.source()?;
                let mut all = Vec::new();
                while let Some(attachment) = source.next_attachment()? {
                    all.push(attachment);
                }
                Ok(all)
            }
        });
        Ok(all.map_err(errors::convert)?.into_iter().map(Attachment).collect())
    }

    /// Named moments and time ranges: name, text, first and last log time.
    fn events(&self, py: Python<'_>) -> PyResult<Vec<EventRow>> {
        let all = py.detach(|| match &self.way {
            Way::Container(last) => {
                let bag = lock(last).0.clone();
                bag.events().map_err(errors::bag)
            }
            Way::Foreign { .. } => {
                self.source().map(|source| livebag_bags::events(&*source)).map_err(errors::convert)
            }
        });
        Ok(all?.into_iter().map(event_row).collect())
    }

    /// Warnings, as sentences.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        match &self.way {
            Way::Container(last) => lock(last).0.failure().map(str::to_owned).into_iter().collect(),
            Way::Foreign { warnings, .. } => lock(warnings).clone(),
        }
    }

    /// Topics as they are now, without their counts.
    fn channels(&self, py: Python<'_>) -> PyResult<Vec<Py<Channel>>> {
        let channels = match &self.way {
            Way::Container(last) => self.now(py, last)?.1,
            Way::Foreign { channels, .. } => channels.clone(),
        };
        Ok(channels.iter().map(|channel| channel.clone_ref(py)).collect())
    }

    /// Every topic with its messages, bytes, times and losses. The first call reads every message unless this is a
    /// container.
    fn summaries(&self, py: Python<'_>) -> PyResult<Vec<Summary>> {
        let summary = |channel: &Py<Channel>, sum: Sum, account| {
            let (start, end) = sum.range.unzip();
            (channel.clone_ref(py), sum.count, sum.bytes, start, end, account)
        };
        match &self.way {
            Way::Container(last) => {
                let (bag, channels) = self.now(py, last)?;
                let accounts = bag.accounts().map_err(errors::bag)?;
                let all = bag.topics().iter().zip(channels.iter()).zip(accounts);
                let all = all.map(|((topic, channel), account)| {
                    let (count, range) = (account.recorded, topic.time_range()?);
                    let sum = Sum { count, bytes: topic.message_bytes(), range };
                    Ok(summary(channel, sum, Some(Account(account))))
                });
                all.collect::<Result<_, livebag::ContainerError>>().map_err(errors::bag)
            }
            Way::Foreign { channels, .. } => {
                let sums = self.sums(py)?;
                let all = channels.iter().zip(sums.iter());
                Ok(all.map(|(channel, sum)| summary(channel, *sum, None)).collect())
            }
        }
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
        let (feed, channels) = self.feed(py, topics, (start, end))?;
        // A live recording is read with copies: reading it in place could fail with its files (SIGBUS), and a robot's
        // disk is not that of a finished recording.
        let is_live =
            self.large != Large::Read && self.state(py)? == ContainerState::Live.to_string();
        let large = if is_live { Large::Read } else { self.large };
        Ok(Messages::new(channels, feed, large))
    }

    /// Bytes of a topic of an unclosed container, whose manifest does not have them: the whole index is read. None
    /// where `summaries` tells.
    fn live_size(&self, py: Python<'_>, topic: String) -> PyResult<Option<u64>> {
        let Way::Container(last) = &self.way else { return Ok(None) };
        let (bag, _) = self.now(py, last)?;
        if matches!(bag.state(), ContainerState::Closed | ContainerState::Recovered) {
            return Ok(None);
        }
        let sum = py.detach(|| {
            let mut cursor = bag.query(&Query { topics: vec![topic], ..Query::default() })?;
            let mut sum = 0;
            while let Some((_, entry)) = cursor.next_entry()? {
                sum += u64::from(entry.data_bytes);
            }
            Ok(sum)
        });
        sum.map(Some).map_err(errors::bag)
    }

    /// A topic's messages in stretches of about `bytes` each: first and last log time, messages, bytes. None unless this
    /// is a container.
    fn ranges(
        &self,
        py: Python<'_>,
        topic: &str,
        start: u64,
        end: u64,
        bytes: u64,
    ) -> PyResult<Option<Vec<RangeRow>>> {
        let Way::Container(last) = &self.way else { return Ok(None) };
        let (bag, _) = self.now(py, last)?;
        let ranges = py.detach(|| bag.ranges(topic, start, end, bytes)).map_err(errors::bag)?;
        let row = |range: livebag::TopicRange| {
            (range.from_nanos, range.to_nanos, range.message_count, range.message_bytes)
        };
        Ok(Some(ranges.into_iter().map(row).collect()))
    }

    /// Log times of a topic's newest message at or before a time and of its oldest at or after it. None unless this is
    /// a container.
    fn around(&self, py: Python<'_>, topic: &str, time: u64) -> PyResult<Option<Neighbours>> {
        let Way::Container(last) = &self.way else { return Ok(None) };
        let (bag, _) = self.now(py, last)?;
        py.detach(|| bag.around(topic, time)).map(Some).map_err(errors::bag)
    }

    /// The same of one topic, as columns.
    fn columns(
        slf: Py<Self>,
        py: Python<'_>,
        topic: String,
        start: u64,
        end: u64,
    ) -> PyResult<ColumnReader> {
        let this = slf.clone_ref(py);
        let name = topic.clone();
        let ask = move |py: Python<'_>| this.get().feed(py, Some(vec![name.clone()]), (start, end));
        let (feed, channels) = ask(py)?;
        let mut of_name = channels.iter().map(|channel| &channel.get().topic);
        let mut of_name = of_name.by_ref().filter(|known| known.name == topic);
        let Some(first) = of_name.next() else {
            return Err(python::NoTopic::new_err(format!("there is no topic {topic}")));
        };
        let same = |other: &livebag::Topic| {
            (&first.type_name, &first.message_encoding, &first.schema)
                == (&other.type_name, &other.message_encoding, &other.schema)
        };
        if !of_name.all(same) {
            return Err(python::Unsupported::new_err(format!(
                "{topic} was published with several definitions, which make no one table: read it \
                 with read_messages"
            )));
        }
        ColumnReader::new(first, feed, move |py| ask(py).map(|(feed, _)| feed))
    }
}
