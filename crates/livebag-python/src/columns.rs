//! Messages of one topic as an Arrow stream, a batch at a time.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use livebag_format::decode::BatchBuilder;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arriving::{Arrived, Arriving, warn_of_damage};
use crate::errors::python;
use crate::waiting::PATIENCE;
use crate::walk::{Foreign, Step, Walk};

/// Rows of a batch at most, …
const ROWS_MAX: usize = 64 << 10;
/// … and bytes of the messages in it: a larger message gets a separate batch.
const BYTES_MAX: usize = 64 << 20;

/// Where messages come from.
pub enum Feed {
    Container(Walk),
    Foreign(Foreign),
    Arriving(Arriving),
    Nothing,
}

impl Feed {
    /// Messages left out so far because they are damaged, or missing in the recording.
    pub fn damaged(&self) -> u64 {
        match self {
            Feed::Container(walk) => walk.borrow_dependent().damaged(),
            Feed::Foreign(foreign) => foreign.source.lost_count(),
            Feed::Arriving(arriving) => arriving.damaged(),
            Feed::Nothing => 0,
        }
    }

    /// Gives the next message (log time, publish time, data) to `take`; `None` after the last.
    fn next<T>(
        &mut self,
        interrupted: &Mutex<Option<PyErr>>,
        take: impl FnOnce(u64, u64, &[u8]) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        match self {
            Feed::Nothing => Ok(None),
            Feed::Arriving(arriving) => loop {
                match arriving.poll(PATIENCE).map_err(|error| error.to_string())? {
                    Arrived::Waiting => check_signals(interrupted)?,
                    // A table cannot report that a part of it is missing.
                    Arrived::End => match arriving.untold().pop() {
                        Some(loss) => return Err(loss),
                        None => return Ok(None),
                    },
                    Arrived::Message(message) => {
                        let times = (message.log_time_nanos, message.publish_time_nanos);
                        return take(times.0, times.1, &message.data).map(Some);
                    }
                }
            },
            Feed::Container(walk) => walk.with_dependent_mut(|_, cursor| {
                let next = cursor.next().map_err(|error| error.to_string())?;
                let Some((_, message)) = next else { return Ok(None) };
                take(message.log_time_nanos, message.publish_time_nanos, message.data).map(Some)
            }),
            Feed::Foreign(foreign) => loop {
                match foreign.step().map_err(|error| error.to_string())? {
                    Step::Passed => check_signals(interrupted)?,
                    Step::End => return Ok(None),
                    Step::Message(message) => {
                        let times = (message.log_time_nanos, message.publish_time_nanos);
                        return take(times.0, times.1, &message.data).map(Some);
                    }
                }
            },
        }
    }
}

/// Asks for the messages from the first one on.
type Asking = Box<dyn Fn(Python<'_>) -> PyResult<Feed> + Send + Sync>;

/// Gives batches of columns through Arrow's C data interface: each call of `__arrow_c_stream__` begins a new
/// stream, since some readers ask once for the schema and once for the rows.
#[pyclass(frozen, module = "livebag._livebag")]
pub struct ColumnReader {
    topic: livebag::Topic,
    schema: SchemaRef,
    /// The first stream's, until it is asked for.
    first: Mutex<Option<Feed>>,
    ask: Asking,
    failure: Arc<Mutex<Option<String>>>,
    interrupted: Arc<Mutex<Option<PyErr>>>,
}

impl ColumnReader {
    /// The columns of what `feed` gives, and of what `ask` gives for every further stream.
    pub fn new(
        topic: &livebag::Topic,
        feed: Feed,
        ask: impl Fn(Python<'_>) -> PyResult<Feed> + Send + Sync + 'static,
    ) -> PyResult<Self> {
        Ok(Self {
            topic: topic.clone(),
            schema: builder(topic)?.schema(),
            first: Mutex::new(Some(feed)),
            ask: Box::new(ask),
            failure: Arc::default(),
            interrupted: Arc::default(),
        })
    }
}

fn builder(topic: &livebag::Topic) -> PyResult<BatchBuilder> {
    BatchBuilder::new(topic).map_err(|error| {
        python::Unsupported::new_err(format!("{} makes no table: {error}", topic.name))
    })
}

#[pymethods]
impl ColumnReader {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A wish that need not be granted.
        drop(requested_schema);
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let batches = Batches {
            topic: self.topic.name.clone(),
            builder: builder(&self.topic)?,
            feed: first.map_or_else(|| (self.ask)(py), Ok)?,
            schema: self.schema.clone(),
            is_over: false,
            failure: self.failure.clone(),
            interrupted: self.interrupted.clone(),
        };
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        // A consumer takes the stream out; one that was not taken is released with the capsule.
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The exception that a signal raised while waiting for the stream.
    #[getter]
    fn interruption(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let interrupted = self.interrupted.lock().unwrap_or_else(PoisonError::into_inner);
        interrupted.as_ref().map(|error| error.value(py).clone().into_any().unbind())
    }

    /// Why the stream ended early, if it did.
    #[getter]
    fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The caller may not hold Python's lock, and may not check for signals.
fn check_signals(interrupted: &Mutex<Option<PyErr>>) -> Result<(), String> {
    Python::attach(|py| {
        py.check_signals().map_err(|error| {
            *interrupted.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            "interrupted".to_owned()
        })
    })
}

struct Batches {
    topic: String,
    builder: BatchBuilder,
    feed: Feed,
    schema: SchemaRef,
    is_over: bool,
    failure: Arc<Mutex<Option<String>>>,
    interrupted: Arc<Mutex<Option<PyErr>>>,
}

impl Batches {
    /// Says once that messages are missing. A warning that was made an error ends the stream as one.
    fn end(&mut self) -> Result<(), String> {
        let damaged = self.feed.damaged();
        if std::mem::replace(&mut self.is_over, true) || damaged == 0 {
            return Ok(());
        }
        Python::attach(|py| warn_of_damage(py, damaged)).map_err(|error| error.to_string())
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>, String> {
        while self.builder.bytes() < BYTES_MAX && self.builder.rows() < ROWS_MAX {
            let builder = &mut self.builder;
            let taken = self.feed.next(&self.interrupted, |log_time, publish_time, data| {
                builder.push(log_time, publish_time, data).map_err(|error| {
                    format!("the message at log time {log_time} ns does not decode: {error}")
                })
            })?;
            if taken.is_none() {
                self.end()?;
                break;
            }
        }
        if self.builder.rows() == 0 {
            return Ok(None);
        }
        self.builder.take().map(Some).map_err(|error| error.to_string())
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch().transpose().map(|batch| {
            batch.map_err(|failure| {
                let failure = format!("{}: {failure}", self.topic);
                let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert_with(|| failure.clone());
                ArrowError::ExternalError(failure.into())
            })
        })
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
