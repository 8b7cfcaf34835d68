//! A recording's data about a topic, and the layout of images and clouds in its messages.

use std::collections::BTreeMap;

use livebag::Topic;
use livebag_format::cdr::{self, ImageView, PointsView};
use livebag_format::{DecodeError, ros1, visible};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString};

use crate::errors::python;

/// Name, type and definition of a topic, as the recording or the stream has them.
#[pyclass(frozen, module = "livebag")]
pub struct Channel {
    pub topic: Topic,
    /// Returned with every message.
    pub name: Py<PyString>,
    /// What decodes the topic's messages, made by `livebag._decode` when the first is decoded.
    decoder: PyOnceLock<Py<PyAny>>,
}

impl Channel {
    pub fn new(py: Python<'_>, topic: Topic) -> PyResult<Py<Self>> {
        let name = PyString::new(py, &topic.name).unbind();
        Py::new(py, Self { topic, name, decoder: PyOnceLock::new() })
    }
}

#[pymethods]
impl Channel {
    /// Topic name, e.g. `/camera/image`.
    #[getter]
    fn name(&self, py: Python<'_>) -> Py<PyString> {
        self.name.clone_ref(py)
    }

    /// Type name, e.g. `sensor_msgs/msg/Image`; empty if unknown.
    #[getter]
    fn type_name(&self) -> &str {
        &self.topic.type_name
    }

    /// How messages are encoded: `cdr`, `ros1`, `json`, …
    #[getter]
    fn message_encoding(&self) -> &str {
        &self.topic.message_encoding
    }

    /// How the definition is written: `ros2msg`, `ros1msg`, …; empty if there is none.
    #[getter]
    fn schema_encoding(&self) -> &str {
        &self.topic.schema_encoding
    }

    /// The definition, as it was stored.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.topic.schema)
    }

    /// Further names and values: QoS profiles, type hash, …
    #[getter]
    fn metadata(&self) -> BTreeMap<String, String> {
        self.topic.metadata.clone()
    }

    /// Decodes one message of this topic.
    pub fn decode<'py>(
        slf: &Bound<'py, Self>,
        data: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let make = || {
            let decoder = py.import("livebag._decode")?.call_method1("decoder_for", (slf,))?;
            PyResult::Ok(decoder.unbind())
        };
        slf.get().decoder.get_or_try_init(py, make)?.bind(py).call1((data,))
    }

    fn __repr__(&self) -> String {
        let Topic { name, type_name, .. } = &self.topic;
        format!("<livebag.Channel {} ({})>", visible(name), visible(type_name))
    }
}

/// A message that is said to be of another type than asked for.
fn expect_type(topic: &Topic, wanted: &str) -> PyResult<()> {
    let last = topic.type_name.rsplit('/').next().unwrap_or_default();
    if last == wanted && topic.type_name.starts_with("sensor_msgs/") {
        return Ok(());
    }
    Err(python::Unsupported::new_err(format!(
        "messages of {} are of type {}, not sensor_msgs/msg/{wanted}",
        topic.name, topic.type_name
    )))
}

fn undecodable(topic: &Topic, error: DecodeError) -> PyErr {
    let (name, type_name) = (&topic.name, &topic.type_name);
    python::DecodeError::new_err(format!("a message of {name} is no {type_name}: {error}"))
}

fn encoding_of(topic: &Topic) -> PyResult<bool> {
    match topic.message_encoding.as_str() {
        "cdr" => Ok(false),
        "ros1" => Ok(true),
        other => Err(python::Unsupported::new_err(format!(
            "messages of {} are encoded as {other:?}; pictures and points are read of cdr and ros1",
            topic.name
        ))),
    }
}

/// An Image, in place.
pub fn image<'a>(topic: &Topic, data: &'a [u8]) -> PyResult<ImageView<'a>> {
    expect_type(topic, "Image")?;
    let parse = if encoding_of(topic)? { ros1::parse_image } else { cdr::parse_image };
    parse(data).map_err(|error| undecodable(topic, error))
}

/// A PointCloud2, in place.
pub fn points<'a>(topic: &Topic, data: &'a [u8]) -> PyResult<PointsView<'a>> {
    expect_type(topic, "PointCloud2")?;
    let parse = if encoding_of(topic)? { ros1::parse_points } else { cdr::parse_points };
    parse(data).map_err(|error| undecodable(topic, error))
}

/// Height, width, encoding, whether big-endian, step, then place of the pixels in the data.
pub type ImagePlace = (u32, u32, String, bool, u32, usize, usize);
/// Name, offset, datatype and count of a field.
pub type FieldTuple = (String, u32, u8, u32);
/// Height, width, fields, whether big-endian, point step, row step, then place of the points.
pub type PointsPlace = (u32, u32, Vec<FieldTuple>, bool, u32, u32, usize, usize);

fn place(whole: &[u8], part: &[u8]) -> (usize, usize) {
    (part.as_ptr().addr() - whole.as_ptr().addr(), part.len())
}

pub fn image_place(topic: &Topic, data: &[u8]) -> PyResult<ImagePlace> {
    let image = image(topic, data)?;
    let (offset, bytes) = place(data, image.data);
    let header = image.header;
    let encoding = header.encoding.to_owned();
    Ok((header.height, header.width, encoding, header.is_bigendian, header.step, offset, bytes))
}

pub fn points_place(topic: &Topic, data: &[u8]) -> PyResult<PointsPlace> {
    let points = points(topic, data)?;
    let (offset, bytes) = place(data, points.data);
    let (big, step, row) = (points.is_bigendian, points.point_step, points.row_step);
    let fields = points
        .fields
        .iter()
        .map(|field| (field.name.to_owned(), field.offset, field.datatype, field.count))
        .collect();
    Ok((points.height, points.width, fields, big, step, row, offset, bytes))
}

/// The CDR of a sensor_msgs/msg/Image up to its first pixel.
#[pyfunction]
#[pyo3(signature = (stamp, frame_id, height, width, encoding, is_bigendian, step, data_bytes))]
#[expect(clippy::too_many_arguments, reason = "the fields of the message")]
pub fn image_prefix<'py>(
    py: Python<'py>,
    stamp: u64,
    frame_id: &str,
    height: u32,
    width: u32,
    encoding: &str,
    is_bigendian: bool,
    step: u32,
    data_bytes: u32,
) -> Bound<'py, PyBytes> {
    let header = cdr::ImageHeader {
        stamp_nanos: stamp,
        frame_id,
        height,
        width,
        encoding,
        is_bigendian,
        step,
    };
    let mut prefix = Vec::new();
    cdr::image_prefix(&header, data_bytes, &mut prefix);
    PyBytes::new(py, &prefix)
}

/// The CDR of a sensor_msgs/msg/PointCloud2 up to its first point; behind the points follows one
/// byte, `is_dense`.
#[pyfunction]
#[pyo3(signature = (stamp, frame_id, height, width, fields, point_step, row_step, data_bytes))]
#[expect(clippy::too_many_arguments, reason = "the fields of the message")]
pub fn points_prefix<'py>(
    py: Python<'py>,
    stamp: u64,
    frame_id: &str,
    height: u32,
    width: u32,
    fields: Vec<FieldTuple>,
    point_step: u32,
    row_step: u32,
    data_bytes: u32,
) -> Bound<'py, PyBytes> {
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, offset, datatype, count)| cdr::PointField {
            name,
            offset: *offset,
            datatype: *datatype,
            count: *count,
        })
        .collect();
    let header = cdr::PointsHeader {
        stamp_nanos: stamp,
        frame_id,
        height,
        width,
        fields: &fields,
        is_bigendian: false,
        point_step,
        row_step,
    };
    let mut prefix = Vec::new();
    cdr::points_prefix(&header, data_bytes, &mut prefix);
    PyBytes::new(py, &prefix)
}
