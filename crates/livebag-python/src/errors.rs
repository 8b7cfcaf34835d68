//! Rust's errors as those of `livebag._errors`, whose classes users catch.

use livebag::{ContainerError, RecordError, WriteError};
use livebag_bags::ConvertError;
use livebag_net::remote::RemoteError;
use livebag_net::zenoh::ZenohError;
use pyo3::PyErr;

/// The classes, as Python defines them.
pub mod python {
    pyo3::import_exception!(livebag._errors, Error);
    pyo3::import_exception!(livebag._errors, NotFound);
    pyo3::import_exception!(livebag._errors, NoTopic);
    pyo3::import_exception!(livebag._errors, Damaged);
    pyo3::import_exception!(livebag._errors, Unsupported);
    pyo3::import_exception!(livebag._errors, DecodeError);
    pyo3::import_exception!(livebag._errors, RecordingError);
    pyo3::import_exception!(livebag._errors, QueueFull);
    pyo3::import_exception!(livebag._errors, StreamError);
}

/// A container cannot be read.
pub fn bag(error: ContainerError) -> PyErr {
    let text = error.to_string();
    match error {
        ContainerError::NotFound(_) => python::NotFound::new_err(text),
        ContainerError::NoTopic { .. } => python::NoTopic::new_err(text),
        ContainerError::Damaged { .. } | ContainerError::Manifest { .. } => {
            python::Damaged::new_err(text)
        }
        ContainerError::NotAContainer(_) => python::Unsupported::new_err(text),
        _ => python::Error::new_err(text),
    }
}

/// A recording of another make cannot be read.
pub fn convert(error: ConvertError) -> PyErr {
    let text = error.to_string();
    match error {
        ConvertError::Container(error) => bag(error),
        ConvertError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            python::NotFound::new_err(text)
        }
        ConvertError::Foreign { .. } | ConvertError::Unsupported { .. } => {
            python::Unsupported::new_err(text)
        }
        ConvertError::Damaged { .. } => python::Damaged::new_err(text),
        _ => python::Error::new_err(text),
    }
}

/// A server did not answer as was asked.
pub fn remote(error: RemoteError) -> PyErr {
    let text = error.to_string();
    match error {
        RemoteError::Refused { status: 404, .. } if text.contains("no topic") => {
            python::NoTopic::new_err(text)
        }
        RemoteError::Refused { status: 404, .. } => python::NotFound::new_err(text),
        RemoteError::Nonsense { .. } => python::Damaged::new_err(text),
        _ => python::Error::new_err(text),
    }
}

/// Zenoh does not answer as was asked.
pub fn zenoh(error: &ZenohError) -> PyErr {
    let text = error.to_string();
    match error {
        ZenohError::Nobody(_) => python::NotFound::new_err(text),
        ZenohError::NotBuilt => python::Unsupported::new_err(format!(
            "{text}: in its sources, run `MATURIN_PEP517_ARGS=\"--features zenoh\" pip install ./python`"
        )),
        _ => python::Error::new_err(text),
    }
}

/// Recording did not begin or did not end well.
pub fn record(error: RecordError) -> PyErr {
    python::RecordingError::new_err(error.to_string())
}

/// A message was not taken.
pub fn write(error: WriteError) -> PyErr {
    let text = error.to_string();
    match error {
        WriteError::Full { .. } => python::QueueFull::new_err(text),
        _ => python::RecordingError::new_err(text),
    }
}

/// A stream cannot be made, opened, written or read.
pub fn stream(error: impl std::fmt::Display) -> PyErr {
    python::StreamError::new_err(error.to_string())
}

/// Anything else.
pub fn other(error: impl std::fmt::Display) -> PyErr {
    python::Error::new_err(error.to_string())
}
