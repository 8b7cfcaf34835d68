//! Publishing into streams and reading them.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use livebag::{Clock, stream_topic};
use livebag_shm::{
    FrameHeader, FrameLayout, FrameMeta, ImageLayout, Liveness, Owners, PointField, PointsLayout,
    StreamOptions, Wait, Writer,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::channel::{Channel, FieldTuple};
use crate::errors::{self, python};

/// Interval at which a wait checks whether Python was interrupted.
const WAIT_AT_ONCE: Duration = Duration::from_millis(50);
/// A writer that is quiet for this long is not gone.
const QUIET: Duration = Duration::MAX;

/// A slot's memory, for NumPy (`__array_interface__`): keeps the stream mapped while a view lives.
#[pyclass(frozen, module = "livebag._livebag")]
pub struct Slot {
    _writer: Arc<Mutex<Writer>>,
    address: usize,
    bytes: usize,
}

#[pymethods]
impl Slot {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("shape", (self.bytes,))?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("data", (self.address, false))?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }
}

/// What every kind of stream is made with.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Settings {
    slots: u32,
    topic: Option<String>,
    group: Option<String>,
    checksum: bool,
    remove_on_close: bool,
}

/// The one writer of a stream.
#[pyclass(frozen, module = "livebag._livebag")]
pub struct Publisher {
    writer: Mutex<Option<Arc<Mutex<Writer>>>>,
    name: String,
    topic: String,
    payload_bytes_max: usize,
}

impl Publisher {
    fn create(
        py: Python<'_>,
        name: String,
        options: StreamOptions,
        settings: Settings,
    ) -> PyResult<Self> {
        let mut options =
            options.checksum(settings.checksum).remove_on_drop(settings.remove_on_close);
        if settings.slots > 0 {
            options = options.slots(settings.slots);
        }
        options.topic = settings.topic.or(options.topic);
        options.group = settings.group;
        let topic = options.topic.clone().unwrap_or_else(|| format!("/{}", name.replace('.', "/")));
        let writer = py.detach(|| Writer::create(&name, &options)).map_err(errors::stream)?;
        let payload_bytes_max = writer.payload_bytes_max();
        let writer = Mutex::new(Some(Arc::new(Mutex::new(writer))));
        Ok(Self { writer, name, topic, payload_bytes_max })
    }

    fn writer(&self) -> PyResult<Arc<Mutex<Writer>>> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.clone().ok_or_else(|| {
            python::StreamError::new_err(format!("the stream {} has been closed", self.name))
        })
    }

    fn publish(&self, meta: &FrameMeta, bytes: usize) -> PyResult<u64> {
        let writer = self.writer()?;
        let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
        // The slot returned by `slot`, after it was filled.
        writer.loan().publish(meta, bytes).map_err(errors::stream)
    }
}

fn meta(layout: FrameLayout, frame_id: String, stamp: Option<u64>) -> FrameMeta {
    FrameMeta { publish_time_nanos: stamp, layout, frame_id }
}

#[pymethods]
impl Publisher {
    /// A stream of bytes, or of encoded messages.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "what a stream says of itself")]
    fn bytes(
        py: Python<'_>,
        name: String,
        bytes_max: usize,
        type_name: &str,
        message_encoding: &str,
        schema_encoding: &str,
        schema: &[u8],
        settings: Settings,
    ) -> PyResult<Self> {
        let options = StreamOptions::bytes(bytes_max)
            .type_name(type_name)
            .encodings(message_encoding, schema_encoding)
            .schema(schema);
        Self::create(py, name, options, settings)
    }

    /// A stream of images of at most this many pixels, each of this many bytes.
    #[staticmethod]
    fn image(
        py: Python<'_>,
        name: String,
        width: u32,
        height: u32,
        pixel_bytes: u32,
        settings: Settings,
    ) -> PyResult<Self> {
        Self::create(py, name, StreamOptions::image(width, height, pixel_bytes), settings)
    }

    /// A stream of clouds of at most this many points, each of this many bytes.
    #[staticmethod]
    fn points(
        py: Python<'_>,
        name: String,
        points_max: u32,
        point_step: u32,
        settings: Settings,
    ) -> PyResult<Self> {
        Self::create(py, name, StreamOptions::points(points_max, point_step), settings)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn topic(&self) -> &str {
        &self.topic
    }

    #[getter]
    fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max
    }

    /// The next frame's slot, to be filled.
    fn slot(&self) -> PyResult<Slot> {
        let writer = self.writer()?;
        let (address, bytes) = {
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            let mut loan = writer.loan();
            let place = (loan.payload_mut().as_mut_ptr().addr(), loan.len());
            // Dropping it would count a frame as given up; publishing lends the same slot again.
            std::mem::forget(loan);
            place
        };
        Ok(Slot { _writer: writer, address, bytes })
    }

    /// Gives the slot back unpublished.
    fn abandon(&self) -> PyResult<()> {
        let writer = self.writer()?;
        drop(writer.lock().unwrap_or_else(PoisonError::into_inner).loan());
        Ok(())
    }

    fn publish_bytes(&self, bytes: usize, frame_id: String, stamp: Option<u64>) -> PyResult<u64> {
        self.publish(&meta(FrameLayout::Bytes, frame_id, stamp), bytes)
    }

    #[expect(clippy::too_many_arguments, reason = "what a frame says of itself")]
    fn publish_image(
        &self,
        bytes: usize,
        height: u32,
        width: u32,
        step: u32,
        encoding: String,
        frame_id: String,
        stamp: Option<u64>,
    ) -> PyResult<u64> {
        let layout = ImageLayout { width, height, step, encoding, is_bigendian: false };
        self.publish(&meta(FrameLayout::Image(layout), frame_id, stamp), bytes)
    }

    #[expect(clippy::too_many_arguments, reason = "what a frame says of itself")]
    fn publish_points(
        &self,
        bytes: usize,
        count: u32,
        point_step: u32,
        fields: Vec<FieldTuple>,
        is_dense: bool,
        frame_id: String,
        stamp: Option<u64>,
    ) -> PyResult<u64> {
        let field = |(name, offset, datatype, count)| PointField { name, offset, datatype, count };
        let layout = PointsLayout {
            width: count,
            height: 1,
            point_step,
            row_step: count.saturating_mul(point_step),
            fields: fields.into_iter().map(field).collect(),
            is_bigendian: false,
            is_dense,
        };
        self.publish(&meta(FrameLayout::Points(layout), frame_id, stamp), bytes)
    }

    /// Requests that were not granted.
    #[getter]
    fn warnings(&self) -> PyResult<Vec<String>> {
        let writer = self.writer()?;
        let writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(writer.warnings().to_vec())
    }

    /// Ends the stream; while a view of a slot lives, when that ends.
    fn close(&self) {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    #[getter]
    fn closed(&self) -> bool {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

/// A frame of a stream: a complete copy.
#[pyclass(frozen, module = "livebag")]
pub struct Frame {
    channel: Py<Channel>,
    header: FrameHeader,
    data: Py<PyBytes>,
}

#[pymethods]
impl Frame {
    /// The type in a recording of the stream.
    #[getter]
    fn channel(&self, py: Python<'_>) -> Py<Channel> {
        self.channel.clone_ref(py)
    }

    /// `bytes`, `image` or `points`.
    #[getter]
    fn kind(&self) -> String {
        self.header.layout.kind().to_string()
    }

    /// The writer's count; the first frame of a stream is 1.
    #[getter]
    fn sequence(&self) -> u64 {
        self.header.sequence
    }

    /// When the source made it: nanoseconds since 1970.
    #[getter]
    fn publish_time(&self) -> u64 {
        self.header.publish_time_nanos
    }

    /// Its coordinate frame.
    #[getter]
    fn frame_id(&self) -> &str {
        &self.header.frame_id
    }

    /// The payload: pixels, points, or an encoded message.
    #[getter]
    fn data(&self, py: Python<'_>) -> Py<PyBytes> {
        self.data.clone_ref(py)
    }

    /// The pixels: a read-only view.
    #[getter]
    fn image<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("livebag._views")?.call_method1("image_of", (slf,))
    }

    /// The points: a read-only view.
    #[getter]
    fn points<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("livebag._views")?.call_method1("points_of", (slf,))
    }

    /// The encoded message as an object with the definition's fields.
    fn decode<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if this.header.layout != FrameLayout::Bytes {
            return Err(python::Unsupported::new_err(
                "a native image or cloud is no encoded message: see `image` and `points`",
            ));
        }
        Channel::decode(this.channel.bind(py), this.data.bind(py))
    }

    fn _image_place(&self) -> PyResult<crate::channel::ImagePlace> {
        match &self.header.layout {
            FrameLayout::Image(image) => Ok((
                image.height,
                image.width,
                image.encoding.clone(),
                image.is_bigendian,
                image.step,
                0,
                self.header.payload_bytes,
            )),
            other => Err(is_other("an image", other)),
        }
    }

    fn _points_place(&self) -> PyResult<crate::channel::PointsPlace> {
        match &self.header.layout {
            FrameLayout::Points(points) => {
                let fields = points.fields.iter().cloned();
                let fields = fields.map(|f| (f.name, f.offset, f.datatype, f.count)).collect();
                Ok((
                    points.height,
                    points.width,
                    fields,
                    points.is_bigendian,
                    points.point_step,
                    points.row_step,
                    0,
                    self.header.payload_bytes,
                ))
            }
            other => Err(is_other("a point cloud", other)),
        }
    }

    fn __len__(&self) -> usize {
        self.header.payload_bytes
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let FrameHeader { sequence, payload_bytes, .. } = self.header;
        let name = self.channel.get().name.bind(py);
        let kind = self.header.layout.kind();
        format!("<livebag.Frame {sequence} of {name}: {kind}, {payload_bytes} B>")
    }
}

/// The script that runs, which says more than `python3`; `None` of an interactive Python.
fn program(py: Python<'_>) -> Option<String> {
    let script: String =
        py.import("sys").ok()?.getattr("argv").ok()?.get_item(0).ok()?.extract().ok()?;
    let name = Path::new(&script).file_name()?.to_str()?.to_owned();
    (name != "-c" && name != "-").then_some(name)
}

fn is_other(wanted: &str, found: &FrameLayout) -> PyErr {
    python::Unsupported::new_err(format!("the frame is not {wanted}, but of kind {}", found.kind()))
}

/// A reader of a stream.
#[pyclass(module = "livebag._livebag")]
pub struct Reader {
    reader: Mutex<livebag_shm::Reader>,
    channel: Py<Channel>,
    lapped: u64,
    clock: Clock,
}

#[pymethods]
impl Reader {
    /// Opens a stream; the first frame is the next one published, or the oldest still there.
    #[new]
    #[pyo3(signature = (name, from_oldest = false))]
    fn open(py: Python<'_>, name: &str, from_oldest: bool) -> PyResult<Self> {
        let reader = py.detach(|| livebag_shm::Reader::open(name)).map_err(|error| match error {
            livebag_shm::OpenError::NotFound { .. } => python::NotFound::new_err(error.to_string()),
            other => errors::stream(other),
        });
        let mut reader = match program(py) {
            Some(program) => reader?.labelled(&program),
            None => reader?,
        };
        if from_oldest {
            reader.seek_oldest();
        }
        let channel = Channel::new(py, stream_topic(reader.info()))?;
        Ok(Self { reader: Mutex::new(reader), channel, lapped: 0, clock: Clock::system() })
    }

    #[getter]
    fn channel(&self, py: Python<'_>) -> Py<Channel> {
        self.channel.clone_ref(py)
    }

    #[getter]
    fn name(&mut self) -> String {
        self.reader().info().name.clone()
    }

    #[getter]
    fn kind(&mut self) -> String {
        self.reader().info().kind.to_string()
    }

    /// Frames that were overwritten before `next` could take them.
    #[getter]
    fn lapped(&self) -> u64 {
        self.lapped
    }

    /// `live`, or `gone` once the writer has ended and this region gets no more frames.
    #[getter]
    fn state(&mut self) -> &'static str {
        if self.is_gone() { "gone" } else { "live" }
    }

    /// The newest frame, seen before or not; None if there is none yet.
    fn latest(&mut self, py: Python<'_>) -> PyResult<Option<Frame>> {
        let reader = self.reader();
        let mut data = Vec::new();
        let header = py.detach(|| reader.copy_latest(&mut data)).map_err(errors::stream)?;
        let frame = header.map(|header| Frame {
            channel: self.channel.clone_ref(py),
            data: PyBytes::new(py, &data).unbind(),
            header,
        });
        Ok(frame)
    }

    /// The next frame in order; None when `timeout_nanos` are over or the writer is gone.
    #[pyo3(signature = (timeout_nanos))]
    fn next(&mut self, py: Python<'_>, timeout_nanos: Option<u64>) -> PyResult<Option<Frame>> {
        let began = self.clock.monotonic_nanos();
        loop {
            // Before the poll, so that the writer's last frame is not missed.
            let is_gone = self.is_gone();
            if let Some(frame) = self.take(py)? {
                return Ok(Some(frame));
            }
            let waited = self.clock.monotonic_nanos().saturating_sub(began);
            let left = timeout_nanos.map(|nanos| nanos.saturating_sub(waited));
            if is_gone || left == Some(0) {
                return Ok(None);
            }
            let wait =
                left.map_or(WAIT_AT_ONCE, |left| WAIT_AT_ONCE.min(Duration::from_nanos(left)));
            let reader = self.reader();
            let after = reader.next_sequence() - 1;
            py.detach(|| reader.wait(Wait::Futex, after, wait));
            py.check_signals()?;
        }
    }
}

impl Reader {
    fn reader(&mut self) -> &mut livebag_shm::Reader {
        self.reader.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_gone(&mut self) -> bool {
        self.reader().liveness(QUIET) == Liveness::Gone
    }

    /// The next frame that could be copied whole.
    fn take(&mut self, py: Python<'_>) -> PyResult<Option<Frame>> {
        loop {
            let next = self.reader().next();
            self.lapped += next.lapped + next.damaged;
            let Some(frame) = next.frame else { return Ok(None) };
            let mut is_whole = false;
            let data = PyBytes::new_with(py, frame.payload_bytes(), |room| {
                is_whole = py.detach(|| frame.copy_to(room));
                Ok(())
            })?;
            if is_whole {
                let channel = self.channel.clone_ref(py);
                let header = frame.header().clone();
                return Ok(Some(Frame { channel, header, data: data.unbind() }));
            }
            self.lapped += 1;
        }
    }
}

/// Name, topic, type name, kind, whether a writer lives.
type StreamTuple = (String, String, String, String, bool);

/// The streams of this machine.
#[pyfunction]
pub fn streams(py: Python<'_>) -> PyResult<Vec<StreamTuple>> {
    let names = py.detach(livebag_shm::list).map_err(errors::stream)?;
    let mut found = Vec::new();
    for name in names {
        // A stream that has gone meanwhile, or that this user may not read, is left out; another user could end this
        // process by truncating the stream.
        let Ok(reader) = livebag_shm::Reader::open_of(&name, Owners::Trusted) else { continue };
        let topic = stream_topic(reader.info());
        let kind = reader.info().kind.to_string();
        let is_live = reader.liveness(QUIET) != Liveness::Gone;
        found.push((name, topic.name, topic.type_name, kind, is_live));
    }
    Ok(found)
}

/// Removes a stream that has no writer.
#[pyfunction]
pub fn remove_stream(name: &str) -> PyResult<()> {
    livebag_shm::remove(name).map_err(|error| match error {
        livebag_shm::RemoveError::NotFound { .. } => python::NotFound::new_err(error.to_string()),
        other => errors::stream(other),
    })
}
