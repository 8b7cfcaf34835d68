//! Recording from Python: streams of the machine, and messages of this process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use livebag::{
    ChunkCompression, Compression, MetadataEntry, NewMessage, Overflow, RecorderOptions, Retention,
    Schedule, Selector, SplitRules, Topic,
};
use livebag_format::definitions;
use pyo3::prelude::*;

use crate::account::Account;
use crate::errors::{self, python};
use crate::event::{EventRow, event_row};

/// How to record, as `livebag.Recorder` has checked it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Settings {
    cache_bytes: Option<u64>,
    overflow: String,
    profile: String,
    metadata: BTreeMap<String, BTreeMap<String, String>>,
    split_bytes: Option<u64>,
    split_nanos: Option<u64>,
    splits_max: Option<u32>,
    total_bytes_max: Option<u64>,
    start_paused: bool,
    compression: String,
    checksum: bool,
    schedule: String,
    one_file: Option<String>,
}

fn is_none_of(option: &str, found: &str, known: &str) -> PyErr {
    python::RecordingError::new_err(format!("{option} is {found:?}, expected {known}"))
}

impl Settings {
    fn options(self) -> PyResult<RecorderOptions> {
        let overflow = match self.overflow.as_str() {
            "block" => Overflow::Block,
            "drop-newest" => Overflow::DropNewest,
            "drop-oldest" => Overflow::DropOldest,
            other => {
                return Err(is_none_of("overflow", other, "block, drop-newest or drop-oldest"));
            }
        };
        let compression = match self.compression.as_str() {
            "none" => Compression::None,
            "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd,
            other => return Err(is_none_of("compression", other, "none, lz4 or zstd")),
        };
        let schedule = match self.schedule.as_str() {
            "immediate" => Schedule::Immediate,
            "cycle-aware" => Schedule::CycleAware,
            other => return Err(is_none_of("schedule", other, "immediate or cycle-aware")),
        };
        let metadata = self.metadata.into_iter();
        let metadata = metadata.map(|(name, values)| MetadataEntry { name, values }).collect();
        let defaults = RecorderOptions::default();
        Ok(RecorderOptions {
            cache_bytes_max: self.cache_bytes.unwrap_or(defaults.cache_bytes_max),
            overflow,
            profile: self.profile,
            metadata,
            split: SplitRules {
                bytes_max: self.split_bytes,
                duration_max: self.split_nanos.map(Duration::from_nanos),
            },
            retention: Retention {
                splits_max: self.splits_max,
                bytes_max: self.total_bytes_max,
                ..Retention::default()
            },
            start_paused: self.start_paused,
            compression: ChunkCompression { compression, ..ChunkCompression::default() },
            checksum: self.checksum,
            schedule,
            one_file: self.one_file,
            ..defaults
        })
    }
}

/// By topic: name, type, messages, bytes, lost, skipped, account.
type TopicStatus = (String, String, u64, u64, u64, u64, Account);

/// A recording in progress.
#[pyclass(frozen, module = "livebag._livebag")]
pub struct Recorder {
    recorder: Mutex<Option<livebag::Recorder>>,
}

impl Recorder {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&livebag::Recorder) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
            let recorder = recorder.as_ref();
            act(recorder
                .ok_or_else(|| python::RecordingError::new_err("the recording has been closed"))?)
        })
    }
}

#[pymethods]
impl Recorder {
    #[new]
    fn create(py: Python<'_>, path: PathBuf, settings: Settings) -> PyResult<Self> {
        let options = settings.options()?;
        let recorder = py.detach(|| livebag::Recorder::create(&path, options));
        Ok(Self { recorder: Mutex::new(Some(recorder.map_err(errors::record)?)) })
    }

    /// Adds a topic of this process's own. Of a CDR topic whose type is bundled, the definition may
    /// be left out.
    #[expect(clippy::too_many_arguments, reason = "what a container says of a topic")]
    fn topic(
        &self,
        py: Python<'_>,
        name: String,
        type_name: String,
        message_encoding: String,
        schema_encoding: String,
        schema: Vec<u8>,
        metadata: BTreeMap<String, String>,
    ) -> PyResult<TopicWriter> {
        let mut topic =
            Topic { name, type_name, message_encoding, schema_encoding, schema, metadata };
        if topic.message_encoding == "cdr" && topic.schema.is_empty() {
            let text = definitions::schema(&topic.type_name).ok_or_else(|| {
                python::RecordingError::new_err(format!(
                    "no definition of {:?} is bundled: give one as `schema`",
                    topic.type_name
                ))
            })?;
            topic.schema_encoding = "ros2msg".into();
            topic.schema = text.into_bytes();
            let hash = definitions::type_hash(&topic.type_name);
            topic.metadata.extend(hash.map(|hash| ("topic_type_hash".into(), hash.into())));
        }
        let writer = self.with(py, |recorder| recorder.topic(topic).map_err(errors::record))?;
        Ok(TopicWriter { writer })
    }

    /// Follows the streams that are named (None: all), or whose name or topic a pattern matches.
    fn follow(
        &self,
        py: Python<'_>,
        names: Option<Vec<String>>,
        regex: Option<&str>,
        exclude: Option<&str>,
    ) -> PyResult<()> {
        let mut selector = match (names, regex) {
            (Some(names), _) => Selector::names(names),
            (None, Some(regex)) => Selector::regex(regex).map_err(errors::other)?,
            (None, None) => Selector::all(),
        };
        if let Some(exclude) = exclude {
            selector = selector.excluding(exclude).map_err(errors::other)?;
        }
        self.with(py, |recorder| recorder.follow(selector).map_err(errors::record))
    }

    fn pause(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |recorder| {
            recorder.pause();
            Ok(())
        })
    }

    fn resume(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |recorder| {
            recorder.resume();
            Ok(())
        })
    }

    fn split(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |recorder| recorder.split().map_err(errors::record))
    }

    /// Names the present moment, or a time range.
    fn event(
        &self,
        py: Python<'_>,
        name: &str,
        text: &str,
        span: Option<(u64, u64)>,
    ) -> PyResult<EventRow> {
        let add =
            |recorder: &livebag::Recorder| recorder.event(name, text, span).map_err(errors::record);
        self.with(py, add).map(event_row)
    }

    /// By topic; and the first failure, if there was one.
    fn status(&self, py: Python<'_>) -> PyResult<(Vec<TopicStatus>, Option<String>)> {
        self.with(py, |recorder| Ok(told(recorder.status())))
    }

    /// Closes the container and returns its counts.
    fn finish(&self, py: Python<'_>) -> PyResult<(Vec<TopicStatus>, Option<String>)> {
        let recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner).take();
        let recorder = recorder
            .ok_or_else(|| python::RecordingError::new_err("the recording has been closed"))?;
        py.detach(|| recorder.finish()).map(told).map_err(errors::record)
    }
}

fn told(status: livebag::Status) -> (Vec<TopicStatus>, Option<String>) {
    let topics = status.topics.into_iter().map(|topic| {
        let lost = topic.lost.total();
        let account = Account(topic.account());
        (topic.name, topic.type_name, topic.messages, topic.bytes, lost, topic.skipped, account)
    });
    (topics.collect(), status.failure.map(|failure| failure.to_string()))
}

/// The way in for messages of this process.
#[pyclass(frozen, module = "livebag._livebag")]
pub struct TopicWriter {
    writer: livebag::TopicWriter,
}

#[pymethods]
impl TopicWriter {
    /// Records a message; log time None is now, publish time None is the log time.
    fn write(
        &self,
        py: Python<'_>,
        data: &[u8],
        log_time_nanos: Option<u64>,
        publish_time_nanos: Option<u64>,
        sequence: u64,
    ) -> PyResult<()> {
        let message = NewMessage { log_time_nanos, publish_time_nanos, sequence, data };
        py.detach(|| self.writer.write_message(message)).map_err(errors::write)
    }
}
