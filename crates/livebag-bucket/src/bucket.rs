//! A place in a store whose recordings are read.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::TryStreamExt;
use livebag_format::container::CONTAINER_FILE;
use object_store::client::ReqwestConnector;
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use crate::address::{Address, path_below};
use crate::cache::Cache;
use crate::connection::Connection;
use crate::disk::BucketDisk;
use crate::error::BucketError;
use crate::limits::{LISTED_MAX, OBJECTS_MAX, READ_GIVE_UP_AFTER};
use crate::store::open_store;

/// What `livebag push` writes first into a folder.
const CLAIM: &str = "container.claim";

/// A place in a store whose recordings are read: `s3://BUCKET/PREFIX`. They share a cache in memory and the bound on
/// requests under way.
pub struct Bucket {
    address: Address,
    connection: Arc<Connection>,
    cache: Arc<Cache>,
}

impl Bucket {
    /// Opens it. Nothing is sent yet.
    ///
    /// # Errors
    /// If it is no address, or there is no thread for requests.
    pub fn open(address: &str) -> Result<Arc<Self>, BucketError> {
        let address = Address::parse(address)?;
        let store = open_store(&address, READ_GIVE_UP_AFTER, ReqwestConnector::default())?;
        let connection = Connection::new(store.objects)?;
        Ok(Arc::new(Self { address, connection, cache: Arc::default() }))
    }

    /// The same of a store in memory.
    #[cfg(test)]
    pub(crate) fn of(address: &str, objects: Arc<dyn ObjectStore>) -> Arc<Self> {
        let address = Address::parse(address).unwrap();
        let connection = Connection::new(objects).unwrap();
        Arc::new(Self { address, connection, cache: Arc::default() })
    }

    /// Where it is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The recording at this very address, as a disk with its files: a folder's, or one file. Its objects are listed
    /// once; what is added later is not seen.
    ///
    /// # Errors
    /// If there is none, or the store refuses.
    pub fn disk(self: &Arc<Self>) -> Result<BucketDisk, BucketError> {
        self.disk_of(self.address.prefix(), self.address.as_str())
    }

    /// The same of the recording called `name` below this address.
    ///
    /// # Errors
    /// If there is none, or the store refuses.
    pub fn disk_below(self: &Arc<Self>, name: &str) -> Result<BucketDisk, BucketError> {
        if name.is_empty() {
            return self.disk();
        }
        let prefix = path_below(self.address.prefix(), name)?;
        self.disk_of(&prefix, &format!("{}/{name}", self.address))
    }

    /// Whether a complete container is at this very address.
    ///
    /// # Errors
    /// If the store refuses.
    pub fn is_container(&self) -> Result<bool, BucketError> {
        let manifest = path_below(self.address.prefix(), CONTAINER_FILE)?;
        let store = self.connection.objects().clone();
        match self.connection.wait(async move { store.head(&manifest).await }) {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(BucketError::of_store(self.address.as_str(), &error)),
        }
    }

    /// The names of the complete containers below this address, in order; an empty one stands for the address itself.
    /// It lists all objects there: a request for each thousand.
    ///
    /// # Errors
    /// If the store refuses, or has too many objects there.
    pub fn containers(&self) -> Result<Vec<String>, BucketError> {
        let (store, prefix) = (self.connection.objects().clone(), self.address.prefix().clone());
        let place = self.address.as_str();
        let found = self.connection.wait(async move { marks(&*store, &prefix).await });
        let (listed, marks) = found.map_err(|error| BucketError::of_store(place, &error))?;
        match listed > LISTED_MAX {
            true => Err(BucketError::TooManyListed(place.to_owned())),
            false => Ok(containers_of(&marks)),
        }
    }

    fn disk_of(self: &Arc<Self>, prefix: &Key, place: &str) -> Result<BucketDisk, BucketError> {
        let (store, below) = (self.connection.objects().clone(), prefix.clone());
        let listed = self.connection.wait(async move { list(&*store, &below).await });
        let mut listed = listed.map_err(|error| BucketError::of_store(place, &error))?;
        if listed.len() > OBJECTS_MAX {
            return Err(BucketError::TooManyObjects(place.to_owned()));
        }
        if listed.is_empty() && !prefix.as_ref().is_empty() {
            // A recording of one file.
            let (store, key) = (self.connection.objects().clone(), prefix.clone());
            match self.connection.wait(async move { store.head(&key).await }) {
                Ok(object) => listed.push(object),
                Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(BucketError::of_store(place, &error)),
            }
        }
        if listed.is_empty() {
            return Err(BucketError::Nothing(place.to_owned()));
        }
        let disk =
            BucketDisk::new(&self.connection, &self.cache, PathBuf::from(place), prefix, listed);
        match disk.has(CLAIM) && !disk.has(CONTAINER_FILE) {
            true => Err(BucketError::Incomplete(place.to_owned())),
            false => Ok(disk),
        }
    }

    #[cfg(test)]
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    #[cfg(test)]
    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }
}

/// The folders below a prefix with a container's manifest (`true`), or only with what a push writes first.
type Marks = BTreeMap<String, bool>;

/// The count of all objects, of which at most one more than is bearable is looked at, and the marks among them.
async fn marks(store: &dyn ObjectStore, prefix: &Key) -> object_store::Result<(usize, Marks)> {
    let (mut listed, mut marks) = (0, Marks::new());
    let mut objects = store.list((!prefix.as_ref().is_empty()).then_some(prefix));
    while let Some(object) = objects.try_next().await? {
        listed += 1;
        if listed > LISTED_MAX {
            break;
        }
        let is_manifest = match object.location.filename() {
            Some(CONTAINER_FILE) => true,
            Some(CLAIM) => false,
            _ => continue,
        };
        let Some(parts) = object.location.prefix_match(prefix) else { continue };
        let parts: Vec<_> = parts.map(|part| part.as_ref().to_owned()).collect();
        let folder = parts[..parts.len() - 1].join("/");
        *marks.entry(folder).or_default() |= is_manifest;
    }
    Ok((listed, marks))
}

/// Splits are containers in a container, also where that is not complete yet.
fn containers_of(marks: &Marks) -> Vec<String> {
    let is_outer = |folder: &str| {
        let inside = folder.match_indices('/').map(|(end, _)| &folder[..end]);
        !inside.chain([""]).any(|outer| outer != folder && marks.contains_key(outer))
    };
    let complete = marks.iter().filter(|(folder, is_complete)| **is_complete && is_outer(folder));
    complete.map(|(folder, _)| folder.clone()).collect()
}

/// At most one object more than a recording may have.
async fn list(store: &dyn ObjectStore, prefix: &Key) -> object_store::Result<Vec<ObjectMeta>> {
    let mut listed = Vec::new();
    let mut objects = store.list((!prefix.as_ref().is_empty()).then_some(prefix));
    while let Some(object) = objects.try_next().await? {
        listed.push(object);
        if listed.len() > OBJECTS_MAX {
            break;
        }
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_and_unfinished_pushes_are_no_recordings() {
        let marks = [
            ("a/run1", true),
            ("a/run1/split_0001", true),
            ("a/run10", true),
            // Its manifest is written last.
            ("b", false),
            ("b/split_0001", true),
        ];
        let marks: Marks = marks.map(|(folder, whole)| (folder.to_owned(), whole)).into();
        assert_eq!(containers_of(&marks), ["a/run1", "a/run10"]);
        let one: Marks = [("", true), ("split_0001", true)].map(|(f, w)| (f.to_owned(), w)).into();
        assert_eq!(containers_of(&one), [""]);
    }
}
