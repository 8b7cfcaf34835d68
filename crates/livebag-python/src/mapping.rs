//! Messages in place, for NumPy.

use livebag::FilePart;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The bytes in a mapped file. docs/python.md explains the risk to users: files of a recording must not be truncated or
/// changed while their messages are used.
#[expect(unsafe_code, reason = "messages are given where they lie")]
pub fn bytes_of(part: &FilePart) -> &[u8] {
    // SAFETY: the recording is closed, and nothing writes it.
    unsafe { part.look() }
}

/// Bytes in a mapped file, for NumPy (`__array_interface__`): keeps the file mapped.
#[pyclass(frozen, module = "livebag._livebag")]
pub struct Mapped(pub FilePart);

#[pymethods]
impl Mapped {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let bytes = bytes_of(&self.0);
        let interface = PyDict::new(py);
        interface.set_item("shape", (bytes.len(),))?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("data", (bytes.as_ptr().addr(), true))?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }
}
