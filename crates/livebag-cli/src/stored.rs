//! Recordings in object stores: `s3://BUCKET/PREFIX/NAME`, `gs://…`, `az://…`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use livebag::{Container, Playable, ReadDisk, SourceError};
use livebag_bags::MessageSource;

use crate::outcome::CliError;

/// A recording in an object store.
pub struct Stored {
    /// Its files.
    pub disk: Arc<dyn ReadDisk>,
    /// Its address.
    pub path: PathBuf,
    is_container: bool,
}

/// Opens anything that can be converted, here or in an object store.
///
/// # Errors
/// If it is not there, or cannot be read.
pub fn open_any(path: &Path) -> Result<Box<dyn MessageSource>, CliError> {
    match is_address(path) {
        true => Stored::open(path)?.source(),
        false => Ok(livebag_bags::open_any(path)?),
    }
}

/// Opens what the player does not know by itself: recordings of other makes, and those in object stores.
///
/// # Errors
/// If it is not there, or cannot be read.
pub fn playable(path: &Path) -> Result<Playable, SourceError> {
    if !is_address(path) {
        return livebag_bags::open_playable(path);
    }
    let stored = Stored::open(path).map_err(|error| error.to_string())?;
    match stored.is_container() {
        true => Ok(Playable::Container(Container::peek_on(stored.disk, &stored.path)?)),
        false => {
            let source = stored.source().map_err(|error| error.to_string())?;
            Ok(livebag_bags::playable(source))
        }
    }
}

/// Refuses an address of an object store where files are changed.
///
/// # Errors
/// If it is one.
pub fn refuse(path: &Path, verb: &str) -> Result<(), CliError> {
    match is_address(path) {
        true => Err(CliError::usage(format!(
            "{}: `livebag {verb}` changes files, and those in object stores are only read: copy the recording here \
             first",
            path.display()
        ))),
        false => Ok(()),
    }
}

/// Whether an argument is the address of an object store.
pub fn is_address(argument: &Path) -> bool {
    let scheme = argument.to_str().and_then(|text| text.split_once("://"));
    scheme
        .is_some_and(|(scheme, _)| matches!(scheme, "s3" | "s3a" | "gs" | "az" | "azure" | "abfs"))
}

impl Stored {
    /// Lists the recording's objects.
    ///
    /// # Errors
    /// If this build cannot, or the store refuses, or there is no recording that can be read there.
    #[cfg(feature = "bucket")]
    pub fn open(address: &Path) -> Result<Self, CliError> {
        use livebag_format::container::CONTAINER_FILE;

        let bucket = livebag_bucket::Bucket::open(&address.to_string_lossy());
        let disk = bucket.and_then(|bucket| bucket.disk()).map_err(|error| match error {
            livebag_bucket::BucketError::Address(_) => CliError::usage(error.to_string()),
            error => CliError::failed(error.to_string()),
        })?;
        let (path, is_container) = (disk.root().to_owned(), disk.has(CONTAINER_FILE));
        if !is_container && !disk.is_one_file() {
            return Err(CliError::failed(format!(
                "{} has no {CONTAINER_FILE}, so it is no recording of livebag: give the address of one recording; \
                 copy a rosbag2 folder here to read it",
                path.display()
            )));
        }
        Ok(Self { disk: Arc::new(disk), path, is_container })
    }

    /// The same in a build that cannot.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "bucket"))]
    pub fn open(_address: &Path) -> Result<Self, CliError> {
        Err(crate::absent::error("bucket"))
    }

    /// Whether it is a container; else it is a single file.
    pub fn is_container(&self) -> bool {
        self.is_container
    }

    /// Opens a container, which is read as it is.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn container(&self) -> Result<Container, CliError> {
        Ok(Container::peek_on(self.disk.clone(), &self.path)?)
    }

    /// The messages of a container or of an MCAP file or a ROS 1 bag.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn source(&self) -> Result<Box<dyn MessageSource>, CliError> {
        Ok(match self.is_container {
            true => livebag_bags::container_source(self.container()?)?,
            false => livebag_bags::open_foreign_on(&*self.disk, &self.path)?,
        })
    }
}
