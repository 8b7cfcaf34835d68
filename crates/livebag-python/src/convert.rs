//! From any recording into a container or a rosbag2 bag.

use std::path::PathBuf;

use livebag::Topic;
use livebag_bags::{
    ConvertError, MessageSource, SinkCompression, SinkOptions, SourceMessage, Sqlite3Options,
    open_any, to_container, to_mcap, to_sqlite3,
};
use pyo3::prelude::*;

use crate::errors::{self, python};

/// Messages and bytes that are copied before Python is asked whether it was interrupted.
const MESSAGES_AT_ONCE: u32 = 4096;
const BYTES_AT_ONCE: usize = 16 << 20;

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
    let mut interrupted = None;
    let copied = py.detach(|| {
        let mut source = Interruptible {
            source: open_any(&source)?,
            passed: 0,
            bytes: 0,
            raised: &mut interrupted,
        };
        let source = &mut source;
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
    if let Some(raised) = interrupted {
        return Err(raised);
    }
    copied.map(|copied| (copied.messages, copied.warnings)).map_err(errors::convert)
}

/// A source that ends with an error once Python is interrupted.
struct Interruptible<'a> {
    source: Box<dyn MessageSource>,
    /// Messages and bytes since Python was asked.
    passed: u32,
    bytes: usize,
    raised: &'a mut Option<PyErr>,
}

impl Interruptible<'_> {
    fn check(&mut self, bytes: usize) -> Result<(), ConvertError> {
        (self.passed, self.bytes) = (self.passed + 1, self.bytes + bytes);
        if self.passed < MESSAGES_AT_ONCE && self.bytes < BYTES_AT_ONCE {
            return Ok(());
        }
        (self.passed, self.bytes) = (0, 0);
        Python::attach(|py| py.check_signals()).map_err(|raised| {
            *self.raised = Some(raised);
            let source = std::io::ErrorKind::Interrupted.into();
            ConvertError::Io { action: "read", path: PathBuf::new(), source }
        })
    }
}

impl MessageSource for Interruptible<'_> {
    fn inner(&self) -> Option<&dyn MessageSource> {
        Some(&*self.source)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn MessageSource> {
        Some(&mut *self.source)
    }

    fn topics(&self) -> &[Topic] {
        self.source.topics()
    }

    fn profile(&self) -> &str {
        self.source.profile()
    }

    fn next_message(&mut self) -> Result<Option<SourceMessage>, ConvertError> {
        let next = self.source.next_message()?;
        self.check(next.as_ref().map_or(0, |message| message.data.len()))?;
        Ok(next)
    }

    fn start_time_nanos(&self) -> Option<u64> {
        self.source.start_time_nanos()
    }

    fn warnings(&self) -> &[String] {
        self.source.warnings()
    }
}

fn unknown(option: &str, found: &str, known: &str) -> PyErr {
    python::Error::new_err(format!("{option} is {found:?}, expected {known}"))
}
