//! A catalogue's objects in a store.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt;
use livebag_bucket::{is_damaged_on_the_way, is_lost_on_the_way, path_below};
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions};

use crate::error::{CatalogueError, of_store};
use crate::limits::CREATES_MAX;
use crate::row::Row;
use crate::table;

/// The folder with a catalogue, beside the recordings.
pub const CATALOGUE_FOLDER: &str = "_livebag";
/// The folder in it with merged objects.
pub(crate) const COMPACTED_FOLDER: &str = "compacted";

/// The catalogue of the recordings below a prefix.
#[derive(Clone)]
pub struct Catalogue {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// Of the recordings.
    pub(crate) prefix: Path,
    pub(crate) address: String,
}

/// The catalogue's objects.
pub(crate) struct Listed {
    /// Merged ones, with many recordings.
    pub compacted: Vec<ObjectMeta>,
    /// One recording each, whose ID is the name.
    pub single: Vec<ObjectMeta>,
}

impl Catalogue {
    /// Of the recordings below `prefix` in `store`, which users call `address`.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: Path, address: impl Into<String>) -> Self {
        Self { store, prefix, address: address.into() }
    }

    /// Where the recordings are.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Adds a recording's rows, if it has none; whether it had none.
    ///
    /// # Errors
    /// If the store does not take them.
    pub async fn add(&self, rows: &[Row]) -> Result<bool, CatalogueError> {
        let Some(first) = rows.first() else { return Ok(false) };
        let path = self.path(&format!("{}.parquet", first.recording_id))?;
        self.create(&path, table::encode(rows)?.into()).await
    }

    /// Whether it has a recording.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn contains(&self, recording_id: &str) -> Result<bool, CatalogueError> {
        let path = self.path(&format!("{recording_id}.parquet"))?;
        match self.store.head(&path).await {
            Ok(_) => return Ok(true),
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(self.failed(&path, &error)),
        }
        for object in self.list_folder(&self.path(COMPACTED_FOLDER)?).await? {
            if let Some(opened) = self.open_object(&object, None).await?
                && opened.recording_ids.contains(recording_id)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Creates an object if there is none; whether it surely was created by this call.
    pub(crate) async fn create(&self, path: &Path, bytes: Bytes) -> Result<bool, CatalogueError> {
        for attempt in 1.. {
            let options = PutOptions::from(PutMode::Create);
            match self.store.put_opts(path, bytes.clone().into(), options).await {
                Ok(_) => return Ok(true),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => return Ok(false),
                Err(error) if attempt < CREATES_MAX && is_lost_on_the_way(&error) => {}
                Err(error) if attempt < CREATES_MAX && is_damaged_on_the_way(&error) => {}
                Err(error) => return Err(self.failed(path, &error)),
            }
            // It may have arrived all the same. This request waits for a store that is away.
            match self.store.head(path).await {
                Ok(_) => return Ok(false),
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(self.failed(path, &error)),
            }
        }
        Ok(false)
    }

    pub(crate) async fn list(&self) -> Result<Listed, CatalogueError> {
        let all = self.list_folder(&self.path("")?).await?;
        let in_compacted = format!("/{COMPACTED_FOLDER}/");
        let (compacted, single) =
            all.into_iter().partition(|object| object.location.as_ref().contains(&in_compacted));
        Ok(Listed { compacted, single })
    }

    async fn list_folder(&self, folder: &Path) -> Result<Vec<ObjectMeta>, CatalogueError> {
        let listed: Result<Vec<_>, _> = self.store.list(Some(folder)).try_collect().await;
        let mut listed = match listed {
            Err(Error::NotFound { .. }) if !self.address.contains("://") => Vec::new(),
            listed => listed.map_err(|error| self.failed(folder, &error))?,
        };
        listed.retain(|object| object.location.extension() == Some("parquet"));
        listed.sort_by(|one, other| one.location.cmp(&other.location));
        Ok(listed)
    }

    /// The object of a name in the catalogue.
    pub(crate) fn path(&self, name: &str) -> Result<Path, CatalogueError> {
        let key = match name {
            "" => CATALOGUE_FOLDER.to_owned(),
            name => format!("{CATALOGUE_FOLDER}/{name}"),
        };
        Ok(path_below(&self.prefix, &key)?)
    }

    /// As users call an object.
    pub(crate) fn address_of(&self, path: &Path) -> String {
        let below = path.as_ref().strip_prefix(self.prefix.as_ref()).unwrap_or_default();
        format!("{}/{}", self.address, below.trim_start_matches('/'))
    }

    pub(crate) fn failed(&self, path: &Path, error: &Error) -> CatalogueError {
        of_store(self.address_of(path), error)
    }
}
