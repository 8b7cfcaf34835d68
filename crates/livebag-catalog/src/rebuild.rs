//! Rows made anew from what is in the store.

use std::collections::{HashMap, HashSet};

use futures_util::{StreamExt, TryStreamExt, stream};
use livebag_format::container::{CONTAINER_FILE, Manifest};
use livebag_format::index::ENTRY_BYTES;
use livebag_format::rosbag2::BagMetadata;
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt};

use crate::catalogue::{CATALOGUE_FOLDER, Catalogue};
use crate::error::CatalogueError;
use crate::find::recording_id as id_of;
use crate::limits::{GETS_MAX, MANIFEST_BYTES_MAX};
use crate::row::{Row, StoredFile};
use crate::survey::{
    Recorded, Split, entry_time, index_ends, recording_id, rows_of_container, rows_of_file,
    rows_of_rosbag2, sha256_of,
};

/// The manifest of a bag of rosbag2.
const METADATA_FILE: &str = "metadata.yaml";
/// What pushes add to a recording.
const OF_PUSHES: [&str; 2] = [".claim", ".sha256"];

/// What became of the recordings.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Rebuilt {
    /// Complete recordings in the store.
    pub recordings: usize,
    /// Of these, such that had no rows.
    pub added: usize,
    /// Those that cannot be read, and why.
    pub failures: Vec<String>,
}

impl Catalogue {
    /// Adds the rows of all recordings that have none; `robot` is written where a recording does not name its own.
    ///
    /// # Errors
    /// If the store does not answer, or does not take the rows. What makes no sense in a recording is in
    /// [`Rebuilt::failures`].
    pub async fn rebuild(&self, robot: Option<&str>) -> Result<Rebuilt, CatalogueError> {
        let known = self.recording_ids().await?;
        let prefix = Some(&self.prefix).filter(|prefix| !prefix.as_ref().is_empty());
        let there = self.store.list_with_delimiter(prefix).await;
        let there = there.map_err(|error| self.failed(&self.prefix, &error))?;
        let mut rebuilt = Rebuilt::default();
        let folders = there.common_prefixes.iter().filter_map(|folder| folder.filename());
        for name in folders.filter(|name| *name != CATALOGUE_FOLDER) {
            let rows = self.rows_of_folder(name, robot, &known).await;
            self.take(rows, &mut rebuilt).await?;
        }
        for object in &there.objects {
            let name = object.location.filename().unwrap_or_default();
            // A file that was pushed has its checksum beside it.
            if there.objects.iter().any(|other| {
                other.location.as_ref() == format!("{}.sha256", object.location.as_ref())
            }) {
                let rows = self.rows_of_object(name, object.size, robot, &known).await;
                self.take(rows, &mut rebuilt).await?;
            }
        }
        Ok(rebuilt)
    }

    /// Adds the rows of a recording that is complete in the store.
    ///
    /// # Errors
    /// If it makes no sense, or the store does not answer or does not take the rows.
    pub async fn add_stored(&self, name: &str, robot: Option<&str>) -> Result<(), CatalogueError> {
        let rows = self.rows_of_folder(name, robot, &HashSet::new()).await?;
        self.add(&rows.unwrap_or_default()).await.map(drop)
    }

    async fn take(
        &self,
        rows: Result<Option<Vec<Row>>, CatalogueError>,
        rebuilt: &mut Rebuilt,
    ) -> Result<(), CatalogueError> {
        match rows {
            Ok(None) => {}
            Ok(Some(rows)) => {
                rebuilt.recordings += 1;
                rebuilt.added += usize::from(self.add(&rows).await?);
            }
            Err(error @ CatalogueError::Manifest { .. }) => {
                rebuilt.failures.push(error.to_string());
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// All recordings that have rows.
    async fn recording_ids(&self) -> Result<HashSet<String>, CatalogueError> {
        let listed = self.list().await?;
        let mut ids: HashSet<_> =
            listed.single.iter().map(|object| id_of(object).to_owned()).collect();
        for object in &listed.compacted {
            let opened = self.open_object(object, None).await?;
            ids.extend(opened.into_iter().flat_map(|opened| opened.recording_ids));
        }
        Ok(ids)
    }

    /// Of a recording in a folder: `None` if it is not complete, no rows if it has some already.
    async fn rows_of_folder(
        &self,
        name: &str,
        robot: Option<&str>,
        known: &HashSet<String>,
    ) -> Result<Option<Vec<Row>>, CatalogueError> {
        let mut found = None;
        for file in [CONTAINER_FILE, METADATA_FILE] {
            if found.is_none() {
                let manifest = self.small(&format!("{name}/{file}")).await?;
                found = manifest.map(|manifest| (file, manifest));
            }
        }
        let Some((file, manifest)) = found else { return Ok(None) };
        let sha256 = sha256_of(&manifest);
        if known.contains(&recording_id(name, &sha256)) {
            return Ok(Some(Vec::new()));
        }
        let text = self.text(&format!("{name}/{file}"), manifest)?;
        let sums_key = format!("{name}/{}.sha256", file.trim_end_matches(".yaml"));
        let sums = match self.small(&sums_key).await? {
            Some(sums) => self.text(&sums_key, sums)?,
            None => String::new(),
        };
        let files = self.files(name, &sums).await?;
        let recorded =
            Recorded { name: name.to_owned(), robot: robot.map(str::to_owned), sha256, files };
        let wrong = |error: &dyn std::fmt::Display| self.wrong(&format!("{name}/{file}"), error);
        if file == METADATA_FILE {
            let bag = BagMetadata::parse(&text).map_err(|error| wrong(&error))?;
            return Ok(Some(rows_of_rosbag2(&recorded, &bag)));
        }
        let manifest = Manifest::parse(&text).map_err(|error| wrong(&error))?;
        let mut splits = vec![Split { folder: String::new(), manifest: manifest.clone() }];
        for folder in manifest.splits {
            let key = format!("{name}/{folder}/{CONTAINER_FILE}");
            let Some(bytes) = self.small(&key).await? else {
                return Err(self.wrong(&key, &"there is no such object"));
            };
            let manifest = Manifest::parse(&self.text(&key, bytes)?);
            let manifest = manifest.map_err(|error| self.wrong(&key, &error))?;
            splits.push(Split { folder, manifest });
        }
        let indexes: Vec<_> =
            recorded.files.iter().filter(|file| file.key.ends_with(".idx")).cloned().collect();
        let times: HashMap<String, Option<(u64, u64)>> = stream::iter(indexes)
            .map(|file| async { self.times(&file).await.map(|times| (file.key, times)) })
            .buffer_unordered(GETS_MAX)
            .try_collect()
            .await?;
        let mut times_of = |file: &StoredFile| Ok(times.get(&file.key).copied().flatten());
        rows_of_container(&recorded, &splits, &mut times_of).map(Some)
    }

    async fn rows_of_object(
        &self,
        name: &str,
        bytes: u64,
        robot: Option<&str>,
        known: &HashSet<String>,
    ) -> Result<Option<Vec<Row>>, CatalogueError> {
        let key = format!("{name}.sha256");
        let Some(sums) = self.small(&key).await? else { return Ok(None) };
        let sums = self.text(&key, sums)?;
        let sha256 = sums.split_whitespace().next().unwrap_or_default().to_owned();
        if known.contains(&recording_id(name, &sha256)) {
            return Ok(Some(Vec::new()));
        }
        let file = StoredFile { key: name.to_owned(), bytes, sha256: Some(sha256.clone()) };
        let recorded = Recorded {
            name: name.to_owned(),
            robot: robot.map(str::to_owned),
            sha256,
            files: vec![file],
        };
        Ok(Some(rows_of_file(&recorded, &[], None, &[])))
    }

    /// A recording's objects, with the checksums that its list has.
    async fn files(&self, name: &str, sums: &str) -> Result<Vec<StoredFile>, CatalogueError> {
        let folder = self.key(name)?;
        let listed: Result<Vec<_>, _> = self.store.list(Some(&folder)).try_collect().await;
        let listed = listed.map_err(|error| self.failed(&folder, &error))?;
        let sums: HashMap<&str, &str> = sums
            .lines()
            .filter_map(|line| line.split_once("  "))
            .map(|(sum, key)| (key, sum))
            .collect();
        let file = |meta: object_store::ObjectMeta| {
            let below = meta.location.as_ref().strip_prefix(folder.as_ref())?.strip_prefix('/')?;
            let is_extra = OF_PUSHES.iter().any(|end| below.ends_with(end)) && !below.contains('/');
            let sha256 = sums.get(below).map(|sum| (*sum).to_owned());
            (!is_extra).then(|| StoredFile {
                key: format!("{name}/{below}"),
                bytes: meta.size,
                sha256,
            })
        };
        let mut files: Vec<_> = listed.into_iter().filter_map(file).collect();
        files.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(files)
    }

    /// The log times of a time index's first and last entry.
    async fn times(&self, index: &StoredFile) -> Result<Option<(u64, u64)>, CatalogueError> {
        let Some(ends) = index_ends(index.bytes) else { return Ok(None) };
        let path = self.key(&index.key)?;
        let ranges = ends.map(|start| start..start + ENTRY_BYTES as u64);
        let entries = self.store.get_ranges(&path, &ranges).await;
        let entries = entries.map_err(|error| self.failed(&path, &error))?;
        let times: Vec<_> = entries.iter().filter_map(|entry| entry_time(entry)).collect();
        Ok(match times[..] {
            [first, last] => Some((first, last)),
            _ => None,
        })
    }

    /// A small object, if there is one.
    async fn small(&self, key: &str) -> Result<Option<Vec<u8>>, CatalogueError> {
        let path = self.key(key)?;
        let got = match self.store.get(&path).await {
            Ok(got) => got,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(self.failed(&path, &error)),
        };
        if got.meta.size > MANIFEST_BYTES_MAX {
            return Err(self.wrong(key, &format!("it has {} bytes", got.meta.size)));
        }
        let bytes = got.bytes().await.map_err(|error| self.failed(&path, &error))?;
        Ok(Some(bytes.to_vec()))
    }

    fn text(&self, key: &str, bytes: Vec<u8>) -> Result<String, CatalogueError> {
        String::from_utf8(bytes).map_err(|error| self.wrong(key, &error))
    }

    fn key(&self, key: &str) -> Result<Path, CatalogueError> {
        Ok(livebag_bucket::path_below(&self.prefix, key)?)
    }

    fn wrong(&self, key: &str, why: &dyn std::fmt::Display) -> CatalogueError {
        CatalogueError::Manifest {
            address: format!("{}/{key}", self.address),
            why: why.to_string(),
        }
    }
}
