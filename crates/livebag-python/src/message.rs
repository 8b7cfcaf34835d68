//! One message, as Python sees it.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::channel::{self, Channel, ImagePlace, PointsPlace};
use crate::mapping::{Mapped, View};

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
    /// Of its own.
    Own(Py<PyBytes>),
    /// In a mapped file.
    Mapped(View),
}

impl Data {
    fn as_bytes<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        match self {
            Self::Own(bytes) => bytes.as_bytes(py),
            Self::Mapped(view) => view.as_slice(),
        }
    }

    /// As `bytes`, a copy of what is mapped.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        match self {
            Self::Own(bytes) => bytes.bind(py).clone(),
            Self::Mapped(view) => PyBytes::new(py, view.as_slice()),
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

    /// What the recording says of the topic.
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

    /// The encoded message: `bytes`, or, of a mapped file, a read-only `memoryview`.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.data {
            Data::Own(bytes) => Ok(bytes.bind(py).clone().into_any()),
            Data::Mapped(view) => {
                let mapped = Py::new(py, Mapped(view.clone()))?;
                py.import("livebag._views")?.call_method1("memory_of", (mapped,))
            }
        }
    }

    /// The pixels of an Image: a read-only view, `(height, width)` or `(height, width, channels)`.
    #[getter]
    fn image<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("livebag._views")?.call_method1("image_of", (slf,))
    }

    /// The points of a PointCloud2: a read-only view, a structured array with the cloud's fields.
    #[getter]
    fn points<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("livebag._views")?.call_method1("points_of", (slf,))
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
            topic.name, topic.type_name, self.log_time
        )
    }
}
