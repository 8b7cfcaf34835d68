//! Rows as Parquet, and back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use arrow_array::builder::{
    Int32Builder, Int64Builder, ListBuilder, MapBuilder, MapFieldNames, StringBuilder,
    StructBuilder, TimestampNanosecondBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, StructArray};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use livebag_format::container::Losses;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::limits::GROUP_ROWS;
use crate::row::{Row, StoredFile};

pub const ROBOT: &str = "robot";
pub const RECORDING: &str = "recording";
pub const RECORDING_ID: &str = "recording_id";
pub const TOPIC: &str = "topic";
pub const TYPE: &str = "type";
pub const START: &str = "start_time";
pub const END: &str = "end_time";
pub const LOST: &str = "lost";
pub const FILES: &str = "files";
pub const METADATA: &str = "metadata";

/// Where an object's metadata names the recordings that it has, separated by spaces.
pub const RECORDINGS_KEY: &str = "livebag.recordings";

/// The columns that are asked for most are neighbours, so that few requests fetch them.
pub static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let text = |name: &str, is_optional| Field::new(name, DataType::Utf8, is_optional);
    let number = |name: &str| Field::new(name, DataType::Int64, true);
    let time = |name: &str| {
        Field::new(name, DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), true)
    };
    Arc::new(Schema::new(vec![
        text(ROBOT, true),
        text(RECORDING, false),
        text(RECORDING_ID, false),
        text("kind", false),
        text("state", true),
        Field::new("split", DataType::Int32, false),
        text(TOPIC, true),
        text(TYPE, true),
        time(START),
        time(END),
        number("message_count"),
        number("message_bytes"),
        number(LOST),
        number("lost_transport"),
        number("lost_queue"),
        number("lost_lapped"),
        number("lost_disk"),
        number("lost_abandoned"),
        time("started_time"),
        number("recording_bytes"),
        text("message_encoding", true),
        text("schema_sha256", true),
        Field::new_list(
            FILES,
            Field::new_list_field(DataType::Struct(file_fields()), false),
            false,
        ),
        Field::new_map(
            METADATA,
            "key_value",
            Field::new("key", DataType::Utf8, false),
            Field::new("value", DataType::Utf8, true),
            false,
            false,
        ),
    ]))
});

fn file_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("bytes", DataType::Int64, false),
        Field::new("sha256", DataType::Utf8, true),
    ])
}

/// Columns without the last two, which are large.
pub fn brief_columns() -> Vec<&'static str> {
    let fields = SCHEMA.fields().iter().map(|field| field.name().as_str());
    fields.filter(|name| ![FILES, METADATA].contains(name)).collect()
}

/// The Parquet object with these rows.
pub fn encode(rows: &[Row]) -> Result<Vec<u8>> {
    let mut writer = writer()?;
    for rows in rows.chunks(8 << 10) {
        writer.write(&batch(rows)?)?;
    }
    let ids = rows.iter().map(|row| row.recording_id.clone()).collect();
    finish(writer, &ids)
}

/// An object whose rows come in batches; for [`finish`].
pub fn writer() -> Result<ArrowWriter<Vec<u8>>> {
    let properties = WriterProperties::builder()
        .set_created_by(concat!("livebag ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .build();
    ArrowWriter::try_new(Vec::new(), SCHEMA.clone(), Some(properties))
}

/// Ends an object that has these recordings.
pub fn finish(mut writer: ArrowWriter<Vec<u8>>, ids: &BTreeSet<String>) -> Result<Vec<u8>> {
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    writer.append_key_value_metadata(KeyValue::new(RECORDINGS_KEY.to_owned(), ids.join(" ")));
    writer.into_inner()
}

fn batch(rows: &[Row]) -> std::result::Result<RecordBatch, ArrowError> {
    let text = |value: &dyn Fn(&Row) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(value).collect::<StringArray>())
    };
    let number = |value: &dyn Fn(&Row) -> Option<u64>| -> ArrayRef {
        let mut builder = Int64Builder::new();
        let clamp = |value| i64::try_from(value).unwrap_or(i64::MAX);
        rows.iter().for_each(|row| builder.append_option(value(row).map(clamp)));
        Arc::new(builder.finish())
    };
    let time = |value: &dyn Fn(&Row) -> Option<u64>| -> ArrayRef {
        let mut builder = TimestampNanosecondBuilder::new();
        let nanos = |row| value(row).and_then(|value| i64::try_from(value).ok());
        rows.iter().for_each(|row| builder.append_option(nanos(row)));
        Arc::new(builder.finish().with_timezone("UTC"))
    };
    let lost = |cause: fn(&Losses) -> u64| number(&move |row| row.lost.as_ref().map(cause));
    let mut split = Int32Builder::new();
    rows.iter().for_each(|row| split.append_value(row.split as i32));
    RecordBatch::try_new(
        SCHEMA.clone(),
        vec![
            text(&|row| row.robot.clone()),
            text(&|row| Some(row.recording.clone())),
            text(&|row| Some(row.recording_id.clone())),
            text(&|row| Some(row.kind.clone())),
            text(&|row| row.state.clone()),
            Arc::new(split.finish()),
            text(&|row| row.topic.clone()),
            text(&|row| row.type_name.clone()),
            time(&|row| row.start_nanos),
            time(&|row| row.end_nanos),
            number(&|row| row.message_count),
            number(&|row| row.message_bytes),
            lost(Losses::total),
            lost(|lost| lost.transport),
            lost(|lost| lost.queue),
            lost(|lost| lost.lapped),
            lost(|lost| lost.disk),
            lost(|lost| lost.abandoned),
            time(&|row| row.started_nanos),
            number(&|row| Some(row.recording_bytes)),
            text(&|row| row.message_encoding.clone()),
            text(&|row| row.schema_sha256.clone()),
            files(rows),
            metadata(rows)?,
        ],
    )
}

fn files(rows: &[Row]) -> ArrayRef {
    let item = Field::new_list_field(DataType::Struct(file_fields()), false);
    let structs = StructBuilder::from_fields(file_fields(), rows.len());
    let mut builder = ListBuilder::new(structs).with_field(item);
    for row in rows {
        for file in &row.files {
            let values = builder.values();
            let [key, bytes, sha256] = [0, 1, 2];
            if let Some(key) = values.field_builder::<StringBuilder>(key) {
                key.append_value(&file.key);
            }
            if let Some(bytes) = values.field_builder::<Int64Builder>(bytes) {
                bytes.append_value(i64::try_from(file.bytes).unwrap_or(i64::MAX));
            }
            if let Some(sha256) = values.field_builder::<StringBuilder>(sha256) {
                sha256.append_option(file.sha256.as_deref());
            }
            values.append(true);
        }
        builder.append(true);
    }
    Arc::new(builder.finish())
}

fn metadata(rows: &[Row]) -> std::result::Result<ArrayRef, ArrowError> {
    let names =
        MapFieldNames { entry: "key_value".into(), key: "key".into(), value: "value".into() };
    let mut builder = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
    for row in rows {
        for (key, value) in &row.metadata {
            builder.keys().append_value(key);
            builder.values().append_value(value);
        }
        builder.append(true)?;
    }
    Ok(Arc::new(builder.finish()))
}

/// The rows of a batch; columns that it lacks are empty.
pub fn rows(batch: &RecordBatch) -> std::result::Result<Vec<Row>, ArrowError> {
    let mut rows = vec![Row::default(); batch.num_rows()];
    let text = |column| -> std::result::Result<Vec<Option<String>>, ArrowError> {
        if batch.column_by_name(column).is_none() {
            return Ok(vec![None; batch.num_rows()]);
        }
        Ok(texts(batch, column)?.iter().map(|value| value.map(str::to_owned)).collect())
    };
    let unsigned = |column| -> std::result::Result<Vec<Option<u64>>, ArrowError> {
        let values = numbers(batch, column)?;
        Ok(values
            .into_iter()
            .map(|value| value.and_then(|value| u64::try_from(value).ok()))
            .collect())
    };
    macro_rules! fill {
        ($values:expr, |$row:ident, $value:ident| $set:expr) => {
            for ($row, $value) in rows.iter_mut().zip($values) {
                $set;
            }
        };
    }
    fill!(text(ROBOT)?, |row, value| row.robot = value);
    fill!(text(RECORDING)?, |row, value| row.recording = value.unwrap_or_default());
    fill!(text(RECORDING_ID)?, |row, value| row.recording_id = value.unwrap_or_default());
    fill!(text("kind")?, |row, value| row.kind = value.unwrap_or_default());
    fill!(text("state")?, |row, value| row.state = value);
    fill!(unsigned("split")?, |row, value| row.split = value.unwrap_or_default() as u32);
    fill!(text(TOPIC)?, |row, value| row.topic = value);
    fill!(text(TYPE)?, |row, value| row.type_name = value);
    fill!(unsigned(START)?, |row, value| row.start_nanos = value);
    fill!(unsigned(END)?, |row, value| row.end_nanos = value);
    fill!(unsigned("message_count")?, |row, value| row.message_count = value);
    fill!(unsigned("message_bytes")?, |row, value| row.message_bytes = value);
    fill!(unsigned(LOST)?, |row, value| row.lost = value.map(|_| Losses::default()));
    type Cause = fn(&mut Losses) -> &mut u64;
    let causes: [(&str, Cause); 5] = [
        ("lost_transport", |lost| &mut lost.transport),
        ("lost_queue", |lost| &mut lost.queue),
        ("lost_lapped", |lost| &mut lost.lapped),
        ("lost_disk", |lost| &mut lost.disk),
        ("lost_abandoned", |lost| &mut lost.abandoned),
    ];
    for (column, cause) in causes {
        fill!(unsigned(column)?, |row, value| if let Some(lost) = &mut row.lost {
            *cause(lost) = value.unwrap_or_default();
        });
    }
    fill!(unsigned("started_time")?, |row, value| row.started_nanos = value);
    fill!(unsigned("recording_bytes")?, |row, value| row.recording_bytes =
        value.unwrap_or_default());
    fill!(text("message_encoding")?, |row, value| row.message_encoding = value);
    fill!(text("schema_sha256")?, |row, value| row.schema_sha256 = value);
    if let Some(lists) = batch.column_by_name(FILES) {
        let lists = lists.as_list_opt::<i32>().ok_or_else(|| other(FILES))?;
        for (number, row) in rows.iter_mut().enumerate() {
            row.files = read_files(&lists.value(number))?;
        }
    }
    if let Some(maps) = batch.column_by_name(METADATA) {
        let maps = maps.as_map_opt().ok_or_else(|| other(METADATA))?;
        for (number, row) in rows.iter_mut().enumerate() {
            row.metadata = read_map(&maps.value(number))?;
        }
    }
    Ok(rows)
}

fn read_files(list: &ArrayRef) -> std::result::Result<Vec<StoredFile>, ArrowError> {
    let list = list.as_struct_opt().ok_or_else(|| other(FILES))?;
    let text = |name| list.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
    let bytes = list.column_by_name("bytes").and_then(|c| c.as_primitive_opt::<Int64Type>());
    let (Some(keys), Some(bytes), Some(sums)) = (text("key"), bytes, text("sha256")) else {
        return Err(other(FILES));
    };
    let file = |number| StoredFile {
        key: keys.value(number).to_owned(),
        bytes: u64::try_from(bytes.value(number)).unwrap_or_default(),
        sha256: sums.is_valid(number).then(|| sums.value(number).to_owned()),
    };
    Ok((0..list.len()).map(file).collect())
}

fn read_map(entries: &StructArray) -> std::result::Result<BTreeMap<String, String>, ArrowError> {
    let text = |at: usize| entries.column(at).as_string_opt::<i32>().ok_or_else(|| other(METADATA));
    let (keys, values) = (text(0)?, text(1)?);
    let pair = |at| (keys.value(at).to_owned(), values.value(at).to_owned());
    Ok((0..entries.len()).map(pair).collect())
}

/// A column of texts.
pub fn texts<'a>(
    batch: &'a RecordBatch,
    column: &str,
) -> std::result::Result<&'a StringArray, ArrowError> {
    let values = batch.column_by_name(column).and_then(|values| values.as_string_opt::<i32>());
    values.ok_or_else(|| other(column))
}

/// A column of numbers or times; without values if the batch lacks it.
pub fn numbers(
    batch: &RecordBatch,
    column: &str,
) -> std::result::Result<Vec<Option<i64>>, ArrowError> {
    let Some(values) = batch.column_by_name(column) else {
        return Ok(vec![None; batch.num_rows()]);
    };
    if let Some(values) = values.as_primitive_opt::<Int64Type>() {
        return Ok(values.iter().collect());
    }
    if let Some(values) = values.as_primitive_opt::<TimestampNanosecondType>() {
        return Ok(values.iter().collect());
    }
    let values = values.as_primitive_opt::<Int32Type>().ok_or_else(|| other(column))?;
    Ok(values.iter().map(|value| value.map(i64::from)).collect())
}

fn other(column: &str) -> ArrowError {
    ArrowError::SchemaError(format!("the column {column} is missing, or of another type"))
}
