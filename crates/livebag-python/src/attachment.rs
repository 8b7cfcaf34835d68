//! Files stored in a recording.

use std::io::Read;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{self, python};

/// A file stored in a recording (MCAP attachment). Its contents stay in the recording until they are asked for.
#[pyclass(frozen, module = "livebag")]
pub struct Attachment(pub livebag_bags::Attachment);

#[pymethods]
impl Attachment {
    /// File name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Media type; empty if unknown.
    #[getter]
    fn media_type(&self) -> &str {
        &self.0.media_type
    }

    /// When it was recorded, ns.
    #[getter]
    fn log_time(&self) -> u64 {
        self.0.log_time_nanos
    }

    /// When it was made, ns; 0 if unknown.
    #[getter]
    fn create_time(&self) -> u64 {
        self.0.create_time_nanos
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.0.data.bytes()).unwrap_or(usize::MAX)
    }

    /// The contents, read again and checked against their checksum each time.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let damage = py.detach(|| self.0.damage()).map_err(errors::convert)?;
        if let Some(damage) = damage {
            let name = &self.0.name;
            return Err(python::Damaged::new_err(format!("the attachment {name}: {damage}")));
        }
        PyBytes::new_with(py, self.__len__(), |buffer| {
            let read = py.detach(|| self.0.data.reader().read_exact(buffer));
            read.map_err(|error| python::Error::new_err(format!("{}: {error}", self.0.name)))
        })
    }

    fn __repr__(&self) -> String {
        format!("<livebag.Attachment {:?}, {} bytes>", self.0.name, self.0.data.bytes())
    }
}
