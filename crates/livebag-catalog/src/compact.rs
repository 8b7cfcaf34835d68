//! Merging small objects into one.
//!
//! A merged object is named by its recordings, so two processes that merge the same write the same object. Only when it
//! has been read back are the objects removed whose recordings it has: whatever others do at the same time, every
//! recording stays in one object at least.

use std::collections::{BTreeSet, HashSet};

use futures_util::{StreamExt, stream};
use object_store::{Error, ObjectMeta, ObjectStoreExt};

use crate::catalogue::{COMPACTED_FOLDER, Catalogue};
use crate::error::CatalogueError;
use crate::filter::Filter;
use crate::find::Columns;
use crate::limits::{GETS_MAX, LISTINGS_MAX, MERGE_BYTES_MAX, MERGED_BYTES_MAX};
use crate::survey::sha256_of;
use crate::table;

/// What became of the objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// Objects that were removed.
    pub merged_objects: usize,
    /// Objects that are there now.
    pub objects: usize,
    /// Their recordings.
    pub recordings: usize,
}

impl Compacted {
    pub(crate) fn add(&mut self, other: Self) {
        self.merged_objects += other.merged_objects;
        self.objects += other.objects;
        self.recordings += other.recordings;
    }
}

impl Catalogue {
    /// Merges small objects, and removes them.
    ///
    /// # Errors
    /// If the store does not take the new object. Nothing is removed then.
    pub async fn compact(&self) -> Result<Compacted, CatalogueError> {
        let mut sum = Compacted::default();
        let mut attempts = 0;
        // Of other columns, written by another version.
        let mut foreign = HashSet::new();
        loop {
            let listed = self.list().await?;
            let all: Vec<_> = listed.compacted.into_iter().chain(listed.single).collect();
            let mut bytes = 0;
            let chosen = all
                .iter()
                .filter(|object| object.size <= MERGED_BYTES_MAX)
                .filter(|object| !foreign.contains(&object.location))
                .take_while(|object| {
                    bytes += object.size;
                    bytes <= MERGE_BYTES_MAX
                });
            let chosen: Vec<_> = chosen.cloned().collect();
            if chosen.len() < 2 {
                return self.count(sum, &all).await;
            }
            match self.merge(&chosen, &mut foreign).await? {
                Some(removed) => sum.merged_objects += removed,
                None if attempts < LISTINGS_MAX => attempts += 1,
                None => return Err(CatalogueError::Busy { address: self.address.clone() }),
            }
        }
    }

    async fn count(
        &self,
        mut sum: Compacted,
        objects: &[ObjectMeta],
    ) -> Result<Compacted, CatalogueError> {
        let mut ids = HashSet::new();
        for object in objects {
            if let Some(opened) = self.open_object(object, None).await? {
                sum.objects += 1;
                ids.extend(opened.recording_ids);
            }
        }
        sum.recordings = ids.len();
        Ok(sum)
    }

    /// Returns how many objects were removed; `None` if another process has removed one meanwhile. Objects of other columns
    /// stay, and become `foreign`.
    async fn merge(
        &self,
        objects: &[ObjectMeta],
        foreign: &mut HashSet<object_store::path::Path>,
    ) -> Result<Option<usize>, CatalogueError> {
        let filter = Filter::default();
        let mut writer = table::writer()?;
        let mut ids = BTreeSet::new();
        let filter = &filter;
        let mut opened = stream::iter(objects)
            .map(|object| async move {
                (self.open_object(object, Some((filter, Columns::All))).await, object)
            })
            .buffered(GETS_MAX);
        while let Some((opened, object)) = opened.next().await {
            let Some(opened) = opened? else { return Ok(None) };
            if !opened.has_our_columns() {
                foreign.insert(object.location.clone());
                continue;
            }
            let damaged = |error: &dyn std::fmt::Display| self.damaged(object, error);
            let missing: Vec<_> =
                opened.recording_ids.iter().filter(|id| !ids.contains(*id)).cloned().collect();
            // All, or those that no object before has.
            let mut filter = Filter::default();
            if missing.len() < opened.recording_ids.len() {
                filter.recording_ids = Some(missing.iter().cloned().collect());
            }
            let batches = opened.batches(&filter, Columns::All).map_err(|error| damaged(&error))?;
            for batch in batches {
                writer.write(&batch.map_err(|error| damaged(&error))?)?;
            }
            ids.extend(missing);
        }
        if ids.is_empty() {
            return Ok(Some(0));
        }
        let bytes = bytes::Bytes::from(table::finish(writer, &ids)?);
        let names: Vec<_> = ids.iter().map(String::as_str).collect();
        let name = &sha256_of(names.join(" ").as_bytes())[..24];
        let path = self.path(&format!("{COMPACTED_FOLDER}/{name}.parquet"))?;
        let is_new = self.create(&path, bytes.clone()).await?;
        let there = match self.store.get(&path).await {
            Ok(there) => there,
            // Merged again by another process, and removed.
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(self.failed(&path, &error)),
        };
        let meta = there.meta.clone();
        let there = there.bytes().await.map_err(|error| self.failed(&path, &error))?;
        let is_right = match is_new {
            true => there == bytes,
            // Another process has merged the same; the order of rows may differ.
            false => self.open_object(&meta, None).await?.is_some_and(|opened| {
                opened.recording_ids.len() == ids.len()
                    && opened.recording_ids.iter().all(|id| ids.contains(id))
            }),
        };
        if !is_right {
            return Err(CatalogueError::NotVerified { address: self.address_of(&path) });
        }
        let merged = objects.iter().map(|object| &object.location);
        let merged = merged.filter(|place| **place != path && !foreign.contains(*place));
        let mut deletions = stream::iter(merged)
            .map(|place| async move { (self.store.delete(place).await, place) })
            .buffer_unordered(GETS_MAX);
        let mut removed = 0;
        while let Some((deleted, place)) = deletions.next().await {
            match deleted {
                Ok(()) => removed += 1,
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(self.failed(place, &error)),
            }
        }
        Ok(Some(removed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::RecordBatch;
    use arrow_schema::Schema;
    use bytes::Bytes;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::row::Row;

    /// An object as another version may write it.
    fn of_other_columns() -> Bytes {
        let fields = table::SCHEMA.fields().iter().take(8).cloned().collect::<Vec<_>>();
        let schema = Arc::new(Schema::new(fields));
        let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), None).unwrap();
        writer.write(&RecordBatch::new_empty(schema)).unwrap();
        writer.into_inner().unwrap().into()
    }

    #[test]
    fn objects_of_other_columns_stay_and_the_others_are_merged() {
        let store = Arc::new(InMemory::new());
        let catalogue = Catalogue::new(store.clone(), Path::from("fleet"), "s3://test/fleet");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for id in ["b", "d", "f"] {
                let row = Row { recording_id: id.to_owned(), ..Row::default() };
                assert!(catalogue.add(&[row]).await.unwrap());
            }
            for id in ["a", "c", "e"] {
                let path = catalogue.path(&format!("{id}.parquet")).unwrap();
                assert!(catalogue.create(&path, of_other_columns()).await.unwrap());
            }
            let compacted = catalogue.compact().await.unwrap();
            let expected = Compacted { merged_objects: 3, objects: 4, recordings: 3 };
            assert_eq!(compacted, expected);
            let again = catalogue.compact().await.unwrap();
            assert_eq!(again, Compacted { merged_objects: 0, ..expected });
        });
    }
}
