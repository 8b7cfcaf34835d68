//! One message, as Python sees it.

use livebag::FilePart;
use livebag_format::visible;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::channel::{self, Channel, ImagePlace, PointsPlace};
use crate::mapping::{Mapped, bytes_of};

/// A message of a recording.
#[pyclass(frozen, module = "livebag")]
pub struct Message {
    pub channel: Py<Channel>,
    pub log_time: u64,
    pub publish_time: u64,
    pub sequence: u64,
    pub data: Data,
}

/// The encoded message.
pub enum Data {
    /// Its own.
    Own(Py<PyBytes>),
    /// In a mapped file.
    Mapped(InPlace),
}

/// A message in a mapped file.
pub struct InPlace {
    part: FilePart,
    /// Whether Python is given its memory, or a copy, as of every other message.
    is_shown: bool,
    copy: PyOnceLock<Py<PyBytes>>,
}

impl InPlace {
    pub fn new(part: FilePart, is_shown: bool) -> Self {
        Self { part, is_shown, copy: PyOnceLock::new() }
    }

    /// As memory.
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mapped = Py::new(py, Mapped(self.part.clone()))?;
        py.import("livebag._views")?.call_method1("memory_of", (mapped,))
    }

    fn copy<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let copy = self.copy.get_or_init(py, || PyBytes::new(py, bytes_of(&self.part)).unbind());
        copy.bind(py).clone()
    }
}

impl Data {
    fn as_bytes<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        match self {
            Self::Own(bytes) => bytes.as_bytes(py),
            Self::Mapped(mapped) => bytes_of(&mapped.part),
        }
    }

    /// The memory of views.
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Own(bytes) => Ok(bytes.bind(py).clone().into_any()),
            Self::Mapped(mapped) => mapped.memory(py),
        }
    }

    /// As `bytes`: a copy of mapped memory.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        match self {
            Self::Own(bytes) => bytes.bind(py).clone(),
            Self::Mapped(mapped) => mapped.copy(py),
        }
    }
}

#[pymethods]
impl Message {
    /// Topic name.
    #[getter]
    fn topic(&self, py: Python<'_>) -> Py<PyString> {
        self.channel.get().name.clone_ref(py)
    }

    /// Type name, e.g. `sensor_msgs/msg/Image`.
    #[getter]
    fn type_name(&self) -> &str {
        &self.channel.get().topic.type_name
    }

    /// The recording's data about the topic.
    #[getter]
    fn channel(&self, py: Python<'_>) -> Py<Channel> {
        self.channel.clone_ref(py)
    }

    /// When it was recorded: nanoseconds since 1970.
    #[getter]
    fn log_time(&self) -> u64 {
        self.log_time
    }

    /// When its source stamped it: nanoseconds since 1970.
    #[getter]
    fn publish_time(&self) -> u64 {
        self.publish_time
    }

    /// The source's count; 0 where there is none.
    #[getter]
    fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The encoded message: `bytes`, or, with `mapped=True`, a read-only `memoryview`.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.data {
            Data::Mapped(mapped) if mapped.is_shown => mapped.memory(py),
            data => Ok(data.to_bytes(py).into_any()),
        }
    }

    /// The pixels of an Image: a read-only view, `(height, width)` or `(height, width, channels)`.
    #[getter]
    fn image<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let memory = slf.get().data.memory(slf.py())?;
        slf.py().import("livebag._views")?.call_method1("image_of", (slf, memory))
    }

    /// The points of a PointCloud2: a read-only view, a structured array with the cloud's fields.
    #[getter]
    fn points<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let memory = slf.get().data.memory(slf.py())?;
        slf.py().import("livebag._views")?.call_method1("points_of", (slf, memory))
    }

    /// The message as an object with the definition's fields.
    fn decode<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        Channel::decode(this.channel.bind(py), &this.data.to_bytes(py))
    }

    fn _image_place(&self, py: Python<'_>) -> PyResult<ImagePlace> {
        channel::image_place(&self.channel.get().topic, self.data.as_bytes(py))
    }

    fn _points_place(&self, py: Python<'_>) -> PyResult<PointsPlace> {
        channel::points_place(&self.channel.get().topic, self.data.as_bytes(py))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.data.as_bytes(py).len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.data.to_bytes(py)
    }

    /// `for topic, message, t in …`, as the rosbag API has it.
    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        let name = this.channel.get().name.bind(py).as_any();
        let time = this.log_time.into_pyobject(py)?.into_any();
        PyTuple::new(py, [name, slf.as_any(), &time])?.into_any().call_method0("__iter__")
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let topic = &self.channel.get().topic;
        let bytes = self.data.as_bytes(py).len();
        format!(
            "<livebag.Message {} ({}), {bytes} B, log_time {}>",
            visible(&topic.name),
            visible(&topic.type_name),
            self.log_time
        )
    }
}
