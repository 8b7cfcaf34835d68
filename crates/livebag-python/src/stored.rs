//! Recordings in object stores.

use std::path::Path;
use std::sync::Arc;

use livebag::ReadDisk;
use pyo3::prelude::*;

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
    Err(absent(&address.to_string_lossy()))
}

/// Address, robot and topics of a recording, as far as a catalogue knows them.
type Known = (String, Option<String>, Option<Vec<String>>);

/// The recordings at a place in a store or in a folder that was pushed to, in order of their addresses: that of its
/// catalogue, or else the containers that are listed below it. None if there is no container and no catalogue.
#[pyfunction]
pub fn stored_recordings(py: Python<'_>, place: &str) -> PyResult<Vec<Known>> {
    py.detach(|| recordings(place))
}

#[cfg(feature = "bucket")]
fn recordings(place: &str) -> PyResult<Vec<Known>> {
    use livebag_bucket::{Bucket, GIVE_UP_AFTER_DEFAULT};
    use livebag_catalog::{CatalogueError, Columns, Filter, Opened};
    use std::collections::BTreeMap;

    let failed = |error: &dyn std::fmt::Display| python::Error::new_err(error.to_string());
    let bucket = match place.contains("://") {
        true => Some(Bucket::open(place).map_err(|error| failed(&error))?),
        false => None,
    };
    if let Some(bucket) = &bucket
        && bucket.is_container().map_err(|error| failed(&error))?
    {
        return Ok(vec![(place.to_owned(), None, None)]);
    }
    let mut known = BTreeMap::<String, (Option<String>, Option<Vec<String>>)>::new();
    let catalogue = Opened::open(place, GIVE_UP_AFTER_DEFAULT).map_err(|error| failed(&error))?;
    let found = catalogue.find(&Filter::default(), Columns::Brief, &mut |catalogue, row| {
        let address = format!("{}/{}", catalogue.address(), row.recording);
        let (_, topics) = known.entry(address).or_insert((row.robot, Some(Vec::new())));
        match (row.topic, &mut *topics) {
            (Some(topic), Some(topics)) => topics.push(topic),
            // Only containers are known to have none.
            (None, _) if row.kind != "container" => *topics = None,
            _ => {}
        }
    });
    match found {
        Ok(_) => {
            let known = known.into_iter();
            Ok(known.map(|(address, (robot, topics))| (address, robot, topics)).collect())
        }
        Err(CatalogueError::Missing { .. }) => {
            let Some(bucket) = bucket else { return Ok(Vec::new()) };
            let names = bucket.containers().map_err(|error| failed(&error))?;
            let address = |name| (format!("{}/{name}", bucket.address()), None, None);
            Ok(names.into_iter().map(address).collect())
        }
        Err(error) => Err(failed(&error)),
    }
}

#[cfg(not(feature = "bucket"))]
fn recordings(place: &str) -> PyResult<Vec<Known>> {
    Err(absent(place))
}

#[cfg(not(feature = "bucket"))]
fn absent(place: &str) -> PyErr {
    python::Unsupported::new_err(format!(
        "{place}: this livebag was built without object stores: in its sources, run \
         `MATURIN_PEP517_ARGS=\"--features bucket\" pip install ./python`"
    ))
}
