//! From any recording into a container or a rosbag2 bag.

use std::path::PathBuf;

use livebag::convert::{
    SinkCompression, SinkOptions, Sqlite3Options, open_any, to_container, to_mcap, to_sqlite3,
};
use pyo3::prelude::*;

use crate::errors::{self, python};

/// Copies a recording; gives the number of messages, and what could not be read in sentences.
#[pyfunction]
pub fn convert(
    py: Python<'_>,
    source: PathBuf,
    target: PathBuf,
    storage: &str,
    compression: &str,
) -> PyResult<(u64, Vec<String>)> {
    let compression = match compression {
        "none" => SinkCompression::None,
        "lz4" => SinkCompression::Lz4,
        "zstd" => SinkCompression::Zstd,
        other => return Err(unknown("compression", other, "none, lz4 or zstd")),
    };
    if !["container", "mcap", "sqlite3"].contains(&storage) {
        return Err(unknown("storage", storage, "container, mcap or sqlite3"));
    }
    let copied = py.detach(|| {
        let mut source = open_any(&source)?;
        let source = source.as_mut();
        match storage {
            "mcap" => {
                let options = SinkOptions { compression, ..SinkOptions::default() };
                to_mcap(source, &target, options, &mut |_| {}).map(|(copied, _)| copied)
            }
            "sqlite3" => {
                let options = Sqlite3Options::default();
                to_sqlite3(source, &target, options, &mut |_| {}).map(|(copied, _)| copied)
            }
            _ => to_container(source, &target, &mut |_| {}),
        }
    });
    copied.map(|copied| (copied.messages, copied.warnings)).map_err(errors::convert)
}

fn unknown(option: &str, found: &str, known: &str) -> PyErr {
    python::Error::new_err(format!("{option} is {found:?}, expected {known}"))
}
