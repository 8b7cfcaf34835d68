//! Recordings in object stores.

use std::path::Path;
use std::sync::Arc;

use livebag::ReadDisk;
use pyo3::PyErr;

use crate::errors::python;

/// A recording's files in a store.
pub struct Stored {
    pub disk: Arc<dyn ReadDisk>,
    pub is_container: bool,
}

/// Lists the objects of the recording at an address.
#[cfg(feature = "bucket")]
pub fn open(address: &Path) -> Result<Stored, PyErr> {
    use livebag_bucket::{Bucket, BucketError};
    use livebag_format::container::CONTAINER_FILE;

    let bucket = Bucket::open(&address.to_string_lossy());
    let disk = bucket.and_then(|bucket| bucket.disk()).map_err(|error| match error {
        BucketError::Nothing(_) => python::NotFound::new_err(error.to_string()),
        error => python::Error::new_err(error.to_string()),
    })?;
    let is_container = disk.has(CONTAINER_FILE);
    if !is_container && !disk.is_one_file() {
        return Err(python::Unsupported::new_err(format!(
            "{} has no {CONTAINER_FILE}, so it is no recording of livebag: give the address of one recording; copy a \
             rosbag2 folder here to read it",
            address.display()
        )));
    }
    Ok(Stored { disk: Arc::new(disk), is_container })
}

/// The same in a build that cannot.
#[cfg(not(feature = "bucket"))]
pub fn open(address: &Path) -> Result<Stored, PyErr> {
    Err(python::Unsupported::new_err(format!(
        "{}: this livebag was built without object stores: in its sources, run `MATURIN_PEP517_ARGS=\"--features \
         bucket\" pip install ./python`",
        address.display()
    )))
}
