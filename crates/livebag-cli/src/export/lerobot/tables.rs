//! The dataset's Parquet files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, Int64Builder, ListBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, FixedSizeListArray, Float32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde_json::json;

use super::Column;
use super::colours::Colours;
use super::stats::Figures;
use super::video::Camera;
use crate::export::parquet::{Whole, failed};
use crate::files::NewFile;
use crate::outcome::CliError;

/// Files of one folder, as LeRobot counts them.
pub const FILES_PER_CHUNK: u64 = 1000;
/// A data file to which no further episode is added.
const FILE_BYTES: usize = 100 << 20;
const BATCH_ROWS: usize = 4096;
const GROUP_BYTES: usize = 32 << 20;

/// An episode that is written.
pub struct Episode {
    pub task: String,
    pub from_index: u64,
    pub length: u64,
    /// Which data file has it, counted through all chunks.
    pub file: u64,
    /// Of each column, LeRobot's own included.
    pub stats: Vec<(String, Figures)>,
}

struct Open {
    path: PathBuf,
    writer: ArrowWriter<Whole>,
}

/// The rows of all episodes, in files of about 100 MB; an episode is in one file.
pub struct Data {
    directory: PathBuf,
    schema: SchemaRef,
    widths: Vec<usize>,
    open: Option<Open>,
    /// Of the open file, or of the next.
    pub file: u64,
    numbers: Vec<Vec<f32>>,
    timestamps: Vec<f32>,
    /// Frame, episode, index, task.
    counts: [Vec<i64>; 4],
}

impl Data {
    pub fn new(directory: &Path, columns: &[Column]) -> Result<Self, CliError> {
        let mut fields: Vec<_> = columns
            .iter()
            .map(|column| {
                let width = column.names.len();
                let item = Arc::new(Field::new("item", DataType::Float32, true));
                let kind = match i32::try_from(width) {
                    Ok(1) => DataType::Float32,
                    Ok(width) => DataType::FixedSizeList(item, width),
                    Err(_) => return Err(too_wide(&column.key)),
                };
                Ok(Field::new(&column.key, kind, true))
            })
            .collect::<Result<_, CliError>>()?;
        fields.push(Field::new("timestamp", DataType::Float32, true));
        for name in ["frame_index", "episode_index", "index", "task_index"] {
            fields.push(Field::new(name, DataType::Int64, true));
        }
        Ok(Self {
            directory: directory.join("data"),
            schema: Arc::new(Schema::new(fields)),
            widths: columns.iter().map(|column| column.names.len()).collect(),
            open: None,
            file: 0,
            numbers: vec![Vec::new(); columns.len()],
            timestamps: Vec::new(),
            counts: Default::default(),
        })
    }

    /// Adds a row. The first row of an episode stays in memory until there is a second.
    pub fn add(
        &mut self,
        values: &[Vec<f32>],
        timestamp: f32,
        counts: [i64; 4],
    ) -> Result<(), CliError> {
        for (column, values) in self.numbers.iter_mut().zip(values) {
            column.extend_from_slice(values);
        }
        self.timestamps.push(timestamp);
        self.counts.iter_mut().zip(counts).for_each(|(column, value)| column.push(value));
        match self.timestamps.len() >= BATCH_ROWS && counts[0] > 0 {
            true => self.write(),
            false => Ok(()),
        }
    }

    /// Takes the newest row back.
    pub fn remove_last(&mut self) {
        self.timestamps.pop();
        for column in &mut self.counts {
            column.pop();
        }
        for (column, width) in self.numbers.iter_mut().zip(&self.widths) {
            column.truncate(column.len().saturating_sub(*width));
        }
    }

    /// Ends an episode.
    pub fn end_episode(&mut self) -> Result<(), CliError> {
        self.write()?;
        match self.open.as_ref().is_some_and(|open| open.writer.bytes_written() >= FILE_BYTES) {
            true => self.finish(),
            false => Ok(()),
        }
    }

    fn write(&mut self) -> Result<(), CliError> {
        if self.timestamps.is_empty() {
            return Ok(());
        }
        if self.open.is_none() {
            let chunk = self.directory.join(chunk(self.file));
            make_folders(&chunk)?;
            let path = chunk.join(file_name(self.file));
            let writer = writer(&path, &self.schema, Vec::new())?;
            self.open = Some(Open { path, writer });
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let mut arrays: Vec<ArrayRef> = Vec::new();
        let fields = self.schema.fields().iter();
        for (column, field) in self.numbers.iter_mut().zip(fields) {
            let numbers: ArrayRef = Arc::new(Float32Array::from(std::mem::take(column)));
            arrays.push(match field.data_type() {
                DataType::FixedSizeList(item, width) => {
                    let list = FixedSizeListArray::try_new(item.clone(), *width, numbers, None);
                    Arc::new(list.map_err(|error| failed(&open.path, error.into()))?)
                }
                _ => numbers,
            });
        }
        arrays.push(Arc::new(Float32Array::from(std::mem::take(&mut self.timestamps))));
        for column in &mut self.counts {
            arrays.push(Arc::new(Int64Array::from(std::mem::take(column))));
        }
        let batch = RecordBatch::try_new(self.schema.clone(), arrays).map_err(ParquetError::from);
        let written = batch.and_then(|batch| {
            open.writer.write(&batch)?;
            match open.writer.in_progress_size() >= GROUP_BYTES {
                true => open.writer.flush(),
                false => Ok(()),
            }
        });
        written.map_err(|error| failed(&open.path, error))
    }

    /// Completes the open file.
    pub fn finish(&mut self) -> Result<(), CliError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        self.file += 1;
        close(open)
    }
}

/// `meta/tasks.parquet`: pandas takes the task's text as the index.
pub fn write_tasks(directory: &Path, tasks: &[String]) -> Result<(), CliError> {
    let column = |name: &str, pandas: &str, numpy: &str| {
        json!({"name": name, "field_name": name, "pandas_type": pandas, "numpy_type": numpy,
               "metadata": null})
    };
    let pandas = json!({
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [column("task_index", "int64", "int64"), column("task", "unicode", "object")],
        "creator": {"library": "livebag", "version": env!("CARGO_PKG_VERSION")},
        "pandas_version": "2.0.0",
    });
    let pandas = pandas.to_string();
    let fields = vec![
        Field::new("task_index", DataType::Int64, true),
        Field::new("task", DataType::Utf8, true),
    ];
    let metadata = HashMap::from([("pandas".to_owned(), pandas.clone())]);
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    let numbers: Int64Array = (0_i64..).take(tasks.len()).collect();
    let texts: StringArray = tasks.iter().map(Some).collect();
    let path = directory.join("meta/tasks.parquet");
    let arrays: Vec<ArrayRef> = vec![Arc::new(numbers), Arc::new(texts)];
    write_one(&path, schema, arrays, vec![KeyValue::new("pandas".to_owned(), pandas)])
}

/// `meta/episodes`: a row for each, with its statistics.
pub fn write_episodes(
    directory: &Path,
    episodes: &[Episode],
    cameras: &[Camera],
    fps: u64,
) -> Result<(), CliError> {
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    let mut whole = |name: &str, value: &dyn Fn(usize, &Episode) -> u64| {
        let values = episodes.iter().enumerate().map(|(at, episode)| value(at, episode) as i64);
        columns.push((name.to_owned(), Arc::new(values.collect::<Int64Array>())));
    };
    whole("episode_index", &|at, _| at as u64);
    whole("length", &|_, episode| episode.length);
    whole("data/chunk_index", &|_, episode| episode.file / FILES_PER_CHUNK);
    whole("data/file_index", &|_, episode| episode.file % FILES_PER_CHUNK);
    whole("dataset_from_index", &|_, episode| episode.from_index);
    whole("dataset_to_index", &|_, episode| episode.from_index + episode.length);
    whole("meta/episodes/chunk_index", &|_, _| 0);
    whole("meta/episodes/file_index", &|_, _| 0);
    let mut tasks = ListBuilder::new(StringBuilder::new());
    for episode in episodes {
        tasks.append_value([Some(&episode.task)]);
    }
    columns.insert(1, ("tasks".to_owned(), Arc::new(tasks.finish())));
    let mut figures: Vec<(String, ListBuilder<Float64Builder>)> = Vec::new();
    let mut counts: Vec<(String, ListBuilder<Int64Builder>)> = Vec::new();
    for episode in episodes {
        let mut figure = 0;
        for (column, (key, stats)) in episode.stats.iter().enumerate() {
            if counts.len() == column {
                counts.push((format!("stats/{key}/count"), ListBuilder::default()));
            }
            counts[column].1.append_value([Some(stats.count as i64)]);
            for (name, values) in &stats.values {
                if figures.len() == figure {
                    figures.push((format!("stats/{key}/{name}"), ListBuilder::default()));
                }
                figures[figure].1.append_value(values.iter().copied().map(Some));
                figure += 1;
            }
        }
    }
    for (name, mut list) in figures {
        columns.push((name, Arc::new(list.finish())));
    }
    for (name, mut list) in counts {
        columns.push((name, Arc::new(list.finish())));
    }
    columns.extend(cameras.iter().flat_map(|camera| of_camera(camera, fps)));
    let field =
        |(name, array): &(String, ArrayRef)| Field::new(name, array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let folder = directory.join("meta/episodes").join(chunk(0));
    make_folders(&folder)?;
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    write_one(&folder.join(file_name(0)), schema, arrays, Vec::new())
}

/// Columns that say where each episode is in a camera's videos, and its statistics: lists of three channels, of one row,
/// of one column.
fn of_camera(camera: &Camera, fps: u64) -> Vec<(String, ArrayRef)> {
    let key = &camera.key;
    let (mut chunks, mut files) = (Int64Builder::new(), Int64Builder::new());
    let (mut from, mut to) = (Float64Builder::new(), Float64Builder::new());
    for span in &camera.spans {
        chunks.append_value((span.file / FILES_PER_CHUNK) as i64);
        files.append_value((span.file % FILES_PER_CHUNK) as i64);
        from.append_value(span.from_frame as f64 / fps as f64);
        to.append_value((span.from_frame + span.length) as f64 / fps as f64);
    }
    let mut columns: Vec<(String, ArrayRef)> = vec![
        (format!("videos/{key}/chunk_index"), Arc::new(chunks.finish())),
        (format!("videos/{key}/file_index"), Arc::new(files.finish())),
        (format!("videos/{key}/from_timestamp"), Arc::new(from.finish())),
        (format!("videos/{key}/to_timestamp"), Arc::new(to.finish())),
    ];
    let mut counts = ListBuilder::new(Int64Builder::new());
    let mut figures: Vec<(String, ListBuilder<ListBuilder<ListBuilder<Float64Builder>>>)> =
        Vec::new();
    for Figures { count, values } in camera.colours.iter().map(Colours::figures) {
        counts.append_value([Some(count as i64)]);
        for (at, (name, channels)) in values.into_iter().enumerate() {
            if figures.len() == at {
                figures.push((format!("stats/{key}/{name}"), ListBuilder::default()));
            }
            figures[at]
                .1
                .append_value(channels.into_iter().map(|value| Some([Some([Some(value)])])));
        }
    }
    columns.push((format!("stats/{key}/count"), Arc::new(counts.finish())));
    for (name, mut list) in figures {
        columns.push((name, Arc::new(list.finish())));
    }
    columns
}

fn write_one(
    path: &Path,
    schema: SchemaRef,
    arrays: Vec<ArrayRef>,
    pairs: Vec<KeyValue>,
) -> Result<(), CliError> {
    let batch = RecordBatch::try_new(schema.clone(), arrays);
    let batch = batch.map_err(|error: ArrowError| failed(path, error.into()))?;
    let mut writer = writer(path, &schema, pairs)?;
    writer.write(&batch).map_err(|error| failed(path, error))?;
    close(Open { path: path.to_owned(), writer })
}

fn writer(
    path: &Path,
    schema: &SchemaRef,
    pairs: Vec<KeyValue>,
) -> Result<ArrowWriter<Whole>, CliError> {
    let properties = WriterProperties::builder()
        .set_created_by(concat!("livebag ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(Default::default()))
        .set_key_value_metadata((!pairs.is_empty()).then_some(pairs))
        .build();
    let file = Whole(NewFile::create(path, false)?);
    ArrowWriter::try_new(file, schema.clone(), Some(properties))
        .map_err(|error| failed(path, error))
}

fn close(Open { path, writer }: Open) -> Result<(), CliError> {
    let Whole(file) = writer.into_inner().map_err(|error| failed(&path, error))?;
    file.publish()
}

pub fn make_folders(path: &Path) -> Result<(), CliError> {
    std::fs::create_dir_all(path).map_err(|source| CliError::file("making", path, source))
}

fn chunk(file: u64) -> String {
    format!("chunk-{:03}", file / FILES_PER_CHUNK)
}

fn file_name(file: u64) -> String {
    format!("file-{:03}.parquet", file % FILES_PER_CHUNK)
}

fn too_wide(key: &str) -> CliError {
    CliError::failed(format!("{key} has too many numbers: choose fewer fields"))
}
