//! Columns as Arrow's record batches, for tables in Python and in Parquet files.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, BooleanArray, FixedSizeListArray, ListArray, PrimitiveArray, RecordBatch,
    StringArray, StructArray, TimestampNanosecondArray, new_empty_array,
};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use super::{Column, ColumnDecoder, NumberKind, SchemaError};
use crate::{DecodeError, Topic};

/// Gathers messages of one topic for record batches: `log_time` and `publish_time` (nanoseconds, UTC), then
/// the columns of [`ColumnDecoder`].
///
/// ```
/// use livebag_format::{Topic, decode::BatchBuilder};
///
/// let topic = Topic {
///     type_name: "std_msgs/msg/Int32".into(),
///     message_encoding: "cdr".into(),
///     ..Default::default()
/// };
/// let mut builder = BatchBuilder::new(&topic)?;
/// builder.push(1, 1, b"\0\x01\0\0\x07\0\0\0")?;
/// let batch = builder.take()?;
/// assert_eq!((batch.num_rows(), batch.schema().field(2).name().as_str()), (1, "data"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BatchBuilder {
    decoder: ColumnDecoder,
    schema: SchemaRef,
    log_times: Vec<i64>,
    publish_times: Vec<i64>,
    bytes: usize,
}

impl BatchBuilder {
    /// A builder for a topic's messages.
    ///
    /// # Errors
    /// As [`ColumnDecoder::new`]; also for an array longer than Arrow's.
    pub fn new(topic: &Topic) -> Result<Self, SchemaError> {
        let decoder = ColumnDecoder::new(topic)?;
        let schema = schema(&decoder.shape())
            .map_err(|error| SchemaError::Arrow { reason: error.to_string() })?;
        Ok(Self {
            decoder,
            schema: Arc::new(schema),
            log_times: Vec::new(),
            publish_times: Vec::new(),
            bytes: 0,
        })
    }

    /// That of every batch.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Adds a row. A message that cannot be decoded adds none.
    ///
    /// # Errors
    /// If it does not match the definition.
    pub fn push(
        &mut self,
        log_time_nanos: u64,
        publish_time_nanos: u64,
        message: &[u8],
    ) -> Result<(), DecodeError> {
        self.decoder.push(message)?;
        self.log_times.push(log_time_nanos as i64);
        self.publish_times.push(publish_time_nanos as i64);
        self.bytes += message.len();
        Ok(())
    }

    /// Rows added since the last [`BatchBuilder::take`].
    pub fn rows(&self) -> usize {
        self.log_times.len()
    }

    /// Bytes of the messages of these rows.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The rows added since the last call.
    ///
    /// # Errors
    /// If Arrow refuses them, which would be a fault of this module.
    pub fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        self.bytes = 0;
        let time = |times: &mut Vec<i64>| -> ArrayRef {
            Arc::new(TimestampNanosecondArray::from(std::mem::take(times)).with_timezone("UTC"))
        };
        let mut arrays = vec![time(&mut self.log_times), time(&mut self.publish_times)];
        for (_, column) in self.decoder.take() {
            arrays.push(array(column)?);
        }
        RecordBatch::try_new(self.schema.clone(), arrays)
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
