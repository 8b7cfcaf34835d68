//! Reading a catalogue.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use object_store::{Error, ObjectMeta, ObjectStoreExt};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowFilter,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};

use crate::catalogue::Catalogue;
use crate::error::CatalogueError;
use crate::filter::Filter;
use crate::limits::{GETS_MAX, LISTINGS_MAX, TAIL_BYTES, WHOLE_BYTES_MAX};
use crate::row::Row;
use crate::table::{self, RECORDINGS_KEY};

/// Which columns are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// All.
    All,
    /// All but files and metadata, which are large.
    Brief,
}

/// An object whose columns are in memory.
pub(crate) struct OpenObject {
    metadata: ArrowReaderMetadata,
    contents: Pieces,
    /// The recordings that it has.
    pub recording_ids: HashSet<String>,
}

impl Catalogue {
    /// The rows that fit, as they come. Returns how many objects were read.
    ///
    /// A recording may be in two objects while the catalogue is compacted; its rows come once.
    ///
    /// # Errors
    /// If an object cannot be read.
    pub async fn find(
        &self,
        filter: &Filter,
        columns: Columns,
        on_row: &mut dyn FnMut(&Self, Row),
    ) -> Result<usize, CatalogueError> {
        let mut known = HashSet::new();
        let mut done = HashSet::new();
        let mut objects = 0;
        for _ in 0..LISTINGS_MAX {
            let mut listed = self.list().await?;
            let mut has_gone = false;
            listed.compacted.retain(|object| !done.contains(&object.location));
            for object in listed.compacted {
                let Some(opened) = self.open_object(&object, Some((filter, columns))).await? else {
                    has_gone = true;
                    continue;
                };
                self.read(&object, &opened, filter, columns, &known, on_row)?;
                known.extend(opened.recording_ids);
                done.insert(object.location);
                objects += 1;
            }
            // Merged ones have these recordings too, until they are removed.
            listed.single.retain(|object| !known.contains(recording_id(object)));
            let mut single = stream::iter(listed.single)
                .map(|object| async move {
                    (self.open_object(&object, Some((filter, columns))).await, object)
                })
                .buffered(GETS_MAX);
            while let Some((opened, object)) = single.next().await {
                let Some(opened) = opened? else {
                    has_gone = true;
                    continue;
                };
                self.read(&object, &opened, filter, columns, &known, on_row)?;
                known.extend(opened.recording_ids);
                objects += 1;
            }
            if !has_gone {
                return Ok(objects);
            }
        }
        Err(CatalogueError::Busy { address: self.address.clone() })
    }

    fn read(
        &self,
        object: &ObjectMeta,
        opened: &OpenObject,
        filter: &Filter,
        columns: Columns,
        known: &HashSet<String>,
        on_row: &mut dyn FnMut(&Self, Row),
    ) -> Result<(), CatalogueError> {
        let damaged = |error: &dyn std::fmt::Display| self.damaged(object, error);
        let has_known = opened.recording_ids.iter().any(|id| known.contains(id));
        for batch in opened.batches(filter, columns).map_err(|error| damaged(&error))? {
            let batch = batch.map_err(|error| damaged(&error))?;
            for row in table::rows(&batch).map_err(|error| damaged(&error))? {
                if !(has_known && known.contains(&row.recording_id)) {
                    on_row(self, row);
                }
            }
        }
        Ok(())
    }

    /// Fetches an object's metadata, and the columns that are `wanted`; `None` if it is gone.
    pub(crate) async fn open_object(
        &self,
        object: &ObjectMeta,
        wanted: Option<(&Filter, Columns)>,
    ) -> Result<Option<OpenObject>, CatalogueError> {
        let path = &object.location;
        let get = async |range: Range<u64>| match self.store.get_range(path, range).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(path, &error)),
        };
        let damaged = |error: &dyn std::fmt::Display| self.damaged(object, error);
        let tail_start = match object.size {
            0..=WHOLE_BYTES_MAX => 0,
            size => size - TAIL_BYTES,
        };
        let Some(mut tail) = get(tail_start..object.size).await? else { return Ok(None) };
        let mut contents = Pieces { length: object.size, pieces: Vec::new() };
        let mut reader = ParquetMetaDataReader::new();
        match reader.try_parse_sized(&tail, object.size) {
            Err(ParquetError::NeedMoreData(bytes)) if (bytes as u64) < object.size => {
                let start = object.size - bytes as u64;
                let Some(longer) = get(start..object.size).await? else { return Ok(None) };
                tail = longer;
                reader.try_parse_sized(&tail, object.size).map_err(|error| damaged(&error))?;
            }
            parsed => parsed.map_err(|error| damaged(&error))?,
        }
        let metadata = reader.finish().map_err(|error| damaged(&error))?;
        if tail_start > 0
            && let Some((filter, columns)) = wanted
        {
            let ranges = wanted_ranges(&metadata, filter, columns);
            let pieces = match self.store.get_ranges(path, &ranges).await {
                Ok(pieces) => pieces,
                Err(Error::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(self.failed(path, &error)),
            };
            contents.pieces = ranges.iter().map(|range| range.start).zip(pieces).collect();
        }
        contents.pieces.push((object.size - tail.len() as u64, tail));
        let recording_ids = ids_of(&metadata);
        let metadata = ArrowReaderMetadata::try_new(Arc::new(metadata), ArrowReaderOptions::new())
            .map_err(|error| damaged(&error))?;
        Ok(Some(OpenObject { metadata, contents, recording_ids }))
    }

    pub(crate) fn damaged(
        &self,
        object: &ObjectMeta,
        error: &dyn std::fmt::Display,
    ) -> CatalogueError {
        CatalogueError::Damaged {
            address: self.address_of(&object.location),
            why: error.to_string(),
        }
    }
}

impl OpenObject {
    /// The rows that fit.
    pub(crate) fn batches(
        &self,
        filter: &Filter,
        columns: Columns,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
            self.contents.clone(),
            self.metadata.clone(),
        );
        let schema = self.metadata.metadata().file_metadata().schema_descr_ptr();
        let of_filter = filter.columns();
        if !of_filter.is_empty() {
            let mask = ProjectionMask::columns(&schema, of_filter);
            let filter = filter.clone();
            let predicate = ArrowPredicateFn::new(mask, move |batch| filter.chosen(&batch));
            builder = builder.with_row_filter(RowFilter::new(vec![Box::new(predicate)]));
        }
        if columns == Columns::Brief {
            builder =
                builder.with_projection(ProjectionMask::columns(&schema, table::brief_columns()));
        }
        builder.with_batch_size(8 << 10).build()
    }

    /// Whether its rows can be copied into a new object.
    pub(crate) fn has_our_columns(&self) -> bool {
        self.metadata.schema().fields() == table::SCHEMA.fields()
    }
}

/// The ID in the name of an object with one recording.
pub(crate) fn recording_id(object: &ObjectMeta) -> &str {
    object.location.filename().unwrap_or_default().trim_end_matches(".parquet")
}

fn ids_of(metadata: &ParquetMetaData) -> HashSet<String> {
    let values = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    let ids = values.filter(|value| value.key == RECORDINGS_KEY);
    let ids = ids.filter_map(|value| value.value.as_deref()).flat_map(str::split_whitespace);
    ids.map(str::to_owned).collect()
}

/// Neighbours are fetched together.
fn wanted_ranges(metadata: &ParquetMetaData, filter: &Filter, columns: Columns) -> Vec<Range<u64>> {
    let mut names = filter.columns();
    names.extend(table::brief_columns());
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let root = column.column_path().parts().first().map_or("", String::as_str);
        if columns == Columns::Brief && !names.contains(&root) {
            continue;
        }
        let (start, length) = column.byte_range();
        match ranges.last_mut() {
            Some(last) if last.end == start => last.end += length,
            _ => ranges.push(start..start + length),
        }
    }
    ranges
}

/// Parts of an object.
#[derive(Clone)]
struct Pieces {
    length: u64,
    /// Place and contents.
    pieces: Vec<(u64, Bytes)>,
}

impl Pieces {
    fn from(&self, start: u64) -> Result<Bytes, ParquetError> {
        let holds = |(at, bytes): &&(u64, Bytes)| (*at..=at + bytes.len() as u64).contains(&start);
        // The longest: a range may end where another begins.
        let rest = |(at, bytes): &(u64, Bytes)| bytes.slice((start - at) as usize..);
        let found = self.pieces.iter().filter(holds).map(rest).max_by_key(Bytes::len);
        found.ok_or_else(|| ParquetError::EOF(format!("nothing was fetched at {start}")))
    }
}

impl Length for Pieces {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Pieces {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(bytes::Buf::reader(self.from(start)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let bytes = self.from(start)?;
        if bytes.len() < length {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} are too many")));
        }
        Ok(bytes.slice(..length))
    }
}
