//! Messages of one topic as an Arrow stream, a batch at a time.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, BooleanArray, FixedSizeListArray, ListArray, PrimitiveArray, RecordBatch,
    RecordBatchReader, StringArray, StructArray, TimestampNanosecondArray, new_empty_array,
};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use livebag_format::decode::{Column, ColumnDecoder, NumberKind};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arriving::{Arrived, Arriving, warn_of_damage};
use crate::errors::{self, python};
use crate::waiting::PATIENCE;
use crate::walk::{Foreign, Step, Walk};

/// Rows of a batch at most, …
const ROWS_MAX: usize = 64 << 10;
/// … and bytes of the messages in it: a larger message makes a batch of its own.
const BYTES_MAX: usize = 64 << 20;

/// Where messages come from.
pub enum Feed {
    Container(Walk),
    Foreign(Foreign),
    Arriving(Arriving),
    Nothing,
}

impl Feed {
    /// Messages left out so far because they are damaged, or gone from the recording.
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
                    // A table does not tell that a part of it is missing.
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
        let schema = schema(&decoder(topic)?.shape()).map_err(errors::other)?;
        Ok(Self {
            topic: topic.clone(),
            schema: Arc::new(schema),
            first: Mutex::new(Some(feed)),
            ask: Box::new(ask),
            failure: Arc::default(),
            interrupted: Arc::default(),
        })
    }
}

fn decoder(topic: &livebag::Topic) -> PyResult<ColumnDecoder> {
    ColumnDecoder::new(topic).map_err(|error| {
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
            decoder: decoder(&self.topic)?,
            feed: first.map_or_else(|| (self.ask)(py), Ok)?,
            schema: self.schema.clone(),
            is_over: false,
            failure: self.failure.clone(),
            interrupted: self.interrupted.clone(),
        };
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        // A consumer takes the stream out; one that nobody took is released with the capsule.
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// What a signal raised while the stream was waited for.
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

/// Whoever asked for columns need not hold Python's lock, nor look for signals.
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
    decoder: ColumnDecoder,
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
        let (mut log_times, mut publish_times, mut bytes) = (Vec::new(), Vec::new(), 0);
        while bytes < BYTES_MAX && log_times.len() < ROWS_MAX {
            let decoder = &mut self.decoder;
            let taken = self.feed.next(&self.interrupted, |log_time, publish_time, data| {
                decoder.push(data).map_err(|error| {
                    format!("the message at log time {log_time} ns does not decode: {error}")
                })?;
                log_times.push(log_time as i64);
                publish_times.push(publish_time as i64);
                Ok(data.len())
            })?;
            let Some(taken) = taken else {
                self.end()?;
                break;
            };
            bytes += taken;
        }
        if log_times.is_empty() {
            return Ok(None);
        }
        let time = |times: Vec<i64>| -> ArrayRef {
            Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"))
        };
        let mut arrays = vec![time(log_times), time(publish_times)];
        for (_, column) in self.decoder.take() {
            arrays.push(array(column).map_err(|error| error.to_string())?);
        }
        let batch = RecordBatch::try_new(self.schema.clone(), arrays);
        batch.map(Some).map_err(|error| error.to_string())
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

fn schema(shape: &[(String, Column)]) -> Result<Schema, ArrowError> {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let mut fields =
        vec![Field::new("log_time", time.clone(), false), Field::new("publish_time", time, false)];
    for (name, column) in shape {
        fields.push(Field::new(name, data_type(column)?, false));
    }
    Ok(Schema::new(fields))
}

fn fixed(length: usize) -> Result<i32, ArrowError> {
    i32::try_from(length).map_err(|_| {
        ArrowError::InvalidArgumentError(format!("an array of {length} items is too long"))
    })
}

fn item(items: &Column) -> Result<Arc<Field>, ArrowError> {
    Ok(Arc::new(Field::new("item", data_type(items)?, false)))
}

fn members(fields: &[(String, Column)]) -> Result<Fields, ArrowError> {
    fields.iter().map(|(name, field)| Ok(Field::new(name, data_type(field)?, false))).collect()
}

fn data_type(column: &Column) -> Result<DataType, ArrowError> {
    Ok(match column {
        Column::Numbers { kind, .. } => match kind {
            NumberKind::Bool => DataType::Boolean,
            NumberKind::U8 => DataType::UInt8,
            NumberKind::I8 => DataType::Int8,
            NumberKind::U16 => DataType::UInt16,
            NumberKind::I16 => DataType::Int16,
            NumberKind::U32 => DataType::UInt32,
            NumberKind::I32 => DataType::Int32,
            NumberKind::U64 => DataType::UInt64,
            NumberKind::I64 => DataType::Int64,
            NumberKind::F32 => DataType::Float32,
            NumberKind::F64 => DataType::Float64,
        },
        Column::Text { .. } => DataType::Utf8,
        Column::List { items, .. } => DataType::List(item(items)?),
        Column::Array { length, items, .. } => {
            DataType::FixedSizeList(item(items)?, fixed(*length)?)
        }
        Column::Structure { fields, .. } => DataType::Struct(members(fields)?),
    })
}

fn array(column: Column) -> Result<ArrayRef, ArrowError> {
    Ok(match column {
        Column::Numbers { kind, bytes } => numbers(kind, bytes),
        Column::Text { ends, bytes } => {
            Arc::new(StringArray::try_new(offsets(ends), Buffer::from_vec(bytes), None)?)
        }
        Column::List { ends, items } => {
            let field = item(&items)?;
            Arc::new(ListArray::try_new(field, offsets(ends), array(*items)?, None)?)
        }
        Column::Array { length, rows, items } => {
            let (field, size) = (item(&items)?, fixed(length)?);
            let items =
                if length == 0 { new_empty_array(field.data_type()) } else { array(*items)? };
            Arc::new(FixedSizeListArray::try_new_with_length(field, size, items, None, rows)?)
        }
        Column::Structure { rows, fields } => {
            let members = members(&fields)?;
            let arrays = fields.into_iter().map(|(_, field)| array(field));
            let arrays = arrays.collect::<Result<_, _>>()?;
            Arc::new(StructArray::try_new_with_length(members, arrays, None, rows)?)
        }
    })
}

fn offsets(mut ends: Vec<i32>) -> OffsetBuffer<i32> {
    ends.insert(0, 0);
    OffsetBuffer::new(ScalarBuffer::from(ends))
}

fn numbers(kind: NumberKind, bytes: Vec<u8>) -> ArrayRef {
    match kind {
        NumberKind::Bool => {
            Arc::new(bytes.into_iter().map(|byte| Some(byte != 0)).collect::<BooleanArray>())
        }
        NumberKind::U8 => primitive::<UInt8Type>(bytes),
        NumberKind::I8 => primitive::<Int8Type>(bytes),
        NumberKind::U16 => primitive::<UInt16Type>(bytes),
        NumberKind::I16 => primitive::<Int16Type>(bytes),
        NumberKind::U32 => primitive::<UInt32Type>(bytes),
        NumberKind::I32 => primitive::<Int32Type>(bytes),
        NumberKind::U64 => primitive::<UInt64Type>(bytes),
        NumberKind::I64 => primitive::<Int64Type>(bytes),
        NumberKind::F32 => primitive::<Float32Type>(bytes),
        NumberKind::F64 => primitive::<Float64Type>(bytes),
    }
}

/// The numbers themselves, not a copy, wherever the allocator has aligned them (it does).
fn primitive<T: ArrowPrimitiveType>(bytes: Vec<u8>) -> ArrayRef {
    let is_aligned = bytes.as_ptr().addr().is_multiple_of(align_of::<T::Native>());
    let buffer = if is_aligned { Buffer::from_vec(bytes) } else { Buffer::from_slice_ref(&bytes) };
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(buffer), None))
}
