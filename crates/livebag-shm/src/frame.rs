//! A frame's properties: as given by the caller, and as words of the slot header.

use crate::error::{PublishError, ReadError};
use crate::kind::Kind;
use crate::layout::slot as at;
use crate::limits::{
    FRAME_ID_BYTES_MAX, PIXEL_ENCODING_BYTES_MAX, POINT_FIELD_NAME_BYTES_MAX, POINT_FIELDS_MAX,
};
use crate::memory::{ReadMemory, WriteMemory};
use crate::slot::Slot;

/// Dimensions of an image, as in `sensor_msgs/msg/Image`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageLayout {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bytes from one row to the next.
    pub step: u32,
    /// Channels and their type, for example `rgb8`; at most 32 bytes.
    pub encoding: String,
    /// Whether channels of more than one byte are big-endian.
    pub is_bigendian: bool,
}

/// One field of a point, as in `sensor_msgs/msg/PointField`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PointField {
    /// For example `x`; at most 32 bytes.
    pub name: String,
    /// Bytes from the start of the point.
    pub offset: u32,
    /// Type as `PointField` numbers it, for example 7 for FLOAT32.
    pub datatype: u8,
    /// Elements.
    pub count: u32,
}

impl PointField {
    /// `PointField::FLOAT32`
    pub const FLOAT32: u8 = 7;

    /// A field of one element.
    pub fn new(name: &str, offset: u32, datatype: u8) -> PointField {
        PointField { name: name.to_owned(), offset, datatype, count: 1 }
    }
}

/// Dimensions of a point cloud, as in `sensor_msgs/msg/PointCloud2`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PointsLayout {
    /// Points of a row; of all, when the cloud is unordered.
    pub width: u32,
    /// Rows; 1 when the cloud is unordered.
    pub height: u32,
    /// Bytes of a point.
    pub point_step: u32,
    /// Bytes of a row.
    pub row_step: u32,
    /// Fields of a point, at most 32.
    pub fields: Vec<PointField>,
    /// Whether the fields are big-endian.
    pub is_bigendian: bool,
    /// Whether all points are valid.
    pub is_dense: bool,
}

impl PointsLayout {
    /// An unordered cloud of `count` points of three FLOAT32 `x`, `y`, `z`, `point_step` bytes apart
    /// (16 in memory of PCL, 12 packed).
    pub fn xyz(count: u32, point_step: u32) -> PointsLayout {
        let field = |name, offset| PointField::new(name, offset, PointField::FLOAT32);
        PointsLayout {
            width: count,
            height: 1,
            point_step,
            row_step: count.saturating_mul(point_step),
            fields: vec![field("x", 0), field("y", 4), field("z", 8)],
            is_bigendian: false,
            is_dense: true,
        }
    }
}

/// Dimensions of a frame, by the kind of its stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FrameLayout {
    /// None.
    #[default]
    Bytes,
    /// Of an image.
    Image(ImageLayout),
    /// Of a point cloud.
    Points(PointsLayout),
}

impl FrameLayout {
    /// The kind of stream that carries such frames.
    pub fn kind(&self) -> Kind {
        match self {
            FrameLayout::Bytes => Kind::Bytes,
            FrameLayout::Image(_) => Kind::Image,
            FrameLayout::Points(_) => Kind::Points,
        }
    }
}

/// A frame's properties from its writer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrameMeta {
    /// Nanoseconds since 1970 at which the source made the frame, 0 included; `None` for now.
    pub publish_time_nanos: Option<u64>,
    /// Dimensions, of the stream's kind.
    pub layout: FrameLayout,
    /// Coordinate frame, `header.frame_id` of the message; at most 255 bytes.
    pub frame_id: String,
}

impl FrameMeta {
    /// A frame of bytes, made now.
    pub fn bytes() -> FrameMeta {
        FrameMeta::default()
    }

    /// An image, made now.
    pub fn image(width: u32, height: u32, step: u32, encoding: &str) -> FrameMeta {
        let encoding = encoding.to_owned();
        let layout = ImageLayout { width, height, step, encoding, is_bigendian: false };
        FrameMeta { layout: FrameLayout::Image(layout), ..FrameMeta::default() }
    }

    /// A point cloud, made now.
    pub fn points(layout: PointsLayout) -> FrameMeta {
        FrameMeta { layout: FrameLayout::Points(layout), ..FrameMeta::default() }
    }

    /// Sets the coordinate frame.
    #[must_use]
    pub fn frame_id(mut self, frame_id: &str) -> FrameMeta {
        frame_id.clone_into(&mut self.frame_id);
        self
    }

    /// Sets the time at which the source made the frame, in nanoseconds since 1970; `None` for now.
    #[must_use]
    pub fn publish_time_nanos(mut self, nanos: impl Into<Option<u64>>) -> FrameMeta {
        self.publish_time_nanos = nanos.into();
        self
    }

    /// Checks everything that could not be stored.
    pub(crate) fn check(&self, kind: Kind) -> Result<(), PublishError> {
        if self.layout.kind() != kind {
            return Err(PublishError::Kind { found: self.layout.kind(), expected: kind });
        }
        let fits = |field, found, expected| {
            if found <= expected {
                Ok(())
            } else {
                Err(PublishError::TooLong { field, found, expected })
            }
        };
        fits("frame_id", self.frame_id.len(), FRAME_ID_BYTES_MAX)?;
        match &self.layout {
            FrameLayout::Bytes => Ok(()),
            FrameLayout::Image(image) => {
                fits("encoding", image.encoding.len(), PIXEL_ENCODING_BYTES_MAX)
            }
            FrameLayout::Points(points) => {
                fits("field table", points.fields.len(), POINT_FIELDS_MAX)?;
                points.fields.iter().try_for_each(|field| {
                    fits("field name", field.name.len(), POINT_FIELD_NAME_BYTES_MAX)
                })
            }
        }
    }
}

/// A frame's properties for a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameHeader {
    /// The writer's count; the first frame of a stream is 1.
    pub sequence: u64,
    /// Nanoseconds since 1970 at which the source made the frame.
    pub publish_time_nanos: u64,
    /// Bytes of the payload.
    pub payload_bytes: usize,
    /// Dimensions, of the stream's kind.
    pub layout: FrameLayout,
    /// Coordinate frame.
    pub frame_id: String,
    /// CRC-32C of the payload, when the stream carries one.
    pub crc32c: Option<u32>,
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn unpair(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Writes the header of a frame that has passed [`FrameMeta::check`].
pub(crate) fn encode<M: WriteMemory>(
    slot: &Slot<'_, M>,
    meta: &FrameMeta,
    publish_time_nanos: u64,
    payload_bytes: usize,
    crc32c: Option<u32>,
) {
    let mut flags = if crc32c.is_some() { at::FLAG_CRC } else { 0 };
    let (mut encoding, mut fields): (&str, &[PointField]) = ("", &[]);
    let (mut height, mut width, mut step, mut row_step) = (0, 0, 0, 0);
    match &meta.layout {
        FrameLayout::Bytes => {}
        FrameLayout::Image(image) => {
            (height, width, step) = (image.height, image.width, image.step);
            encoding = &image.encoding;
            flags |= if image.is_bigendian { at::FLAG_BIGENDIAN } else { 0 };
        }
        FrameLayout::Points(points) => {
            (height, width) = (points.height, points.width);
            (step, row_step) = (points.point_step, points.row_step);
            fields = &points.fields;
            flags |= if points.is_bigendian { at::FLAG_BIGENDIAN } else { 0 };
            flags |= if points.is_dense { at::FLAG_DENSE } else { 0 };
        }
    }
    let counts =
        [meta.frame_id.len() as u8, encoding.len() as u8, fields.len() as u8, 0, 0, 0, 0, 0];
    slot.set_header_word(at::PUBLISH_TIME_NANOS, publish_time_nanos);
    slot.set_header_word(at::PAYLOAD_BYTES, payload_bytes as u64);
    slot.set_header_word(at::CRC_AND_FLAGS, pair(crc32c.unwrap_or(0), flags));
    slot.set_header_word(at::HEIGHT_AND_WIDTH, pair(height, width));
    slot.set_header_word(at::STEPS, pair(step, row_step));
    slot.set_header_word(at::COUNTS, u64::from_le_bytes(counts));
    encode_text(slot, at::FRAME_ID, &meta.frame_id);
    encode_text(slot, at::ENCODING, encoding);
    for (index, field) in fields.iter().enumerate() {
        let start = at::FIELDS + index * at::FIELD_BYTES;
        encode_text(slot, start, &field.name);
        slot.set_header_word(start + at::FIELD_OFFSET, pair(field.offset, field.count));
        let kinds = [field.datatype, field.name.len() as u8, 0, 0, 0, 0, 0, 0];
        slot.set_header_word(start + at::FIELD_DATATYPE, u64::from_le_bytes(kinds));
    }
}

/// Stores the checksum into a header that was written with 0, once it is known.
pub(crate) fn encode_crc<M: WriteMemory>(slot: &Slot<'_, M>, crc32c: u32) {
    let (_, flags) = unpair(slot.header_word(at::CRC_AND_FLAGS));
    slot.set_header_word(at::CRC_AND_FLAGS, pair(crc32c, flags));
}

fn encode_text<M: WriteMemory>(slot: &Slot<'_, M>, start: usize, text: &str) {
    for (index, chunk) in text.as_bytes().chunks(8).enumerate() {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        slot.set_header_word(start + index * 8, u64::from_le_bytes(bytes));
    }
}

/// Reads the header of a frame. Between the two checks of the slot protocol: an error means damage
/// only if the frame is still whole afterwards.
pub(crate) fn decode<M: ReadMemory>(
    slot: &Slot<'_, M>,
    sequence: u64,
    kind: Kind,
    payload_bytes_max: usize,
) -> Result<FrameHeader, ReadError> {
    let limit = |field, found: u64, expected: usize| {
        if found <= expected as u64 {
            Ok(found as usize)
        } else {
            Err(ReadError::Damaged { sequence, field, found, expected: expected as u64 })
        }
    };
    let payload_bytes =
        limit("payload_bytes", slot.header_word(at::PAYLOAD_BYTES), payload_bytes_max)?;
    let (crc32c, flags) = unpair(slot.header_word(at::CRC_AND_FLAGS));
    let counts = slot.header_word(at::COUNTS).to_le_bytes();
    let frame_id_bytes = limit("frame_id_bytes", counts[0].into(), FRAME_ID_BYTES_MAX)?;
    let frame_id = decode_text(slot, sequence, "frame_id", at::FRAME_ID, frame_id_bytes)?;
    let is_bigendian = flags & at::FLAG_BIGENDIAN != 0;
    let dimensions = || {
        let (height, width) = unpair(slot.header_word(at::HEIGHT_AND_WIDTH));
        let (step, row_step) = unpair(slot.header_word(at::STEPS));
        (height, width, step, row_step)
    };
    let layout = match kind {
        Kind::Bytes => FrameLayout::Bytes,
        Kind::Image => {
            let (height, width, step, _) = dimensions();
            let bytes = limit("encoding_bytes", counts[1].into(), PIXEL_ENCODING_BYTES_MAX)?;
            let encoding = decode_text(slot, sequence, "encoding", at::ENCODING, bytes)?;
            FrameLayout::Image(ImageLayout { width, height, step, encoding, is_bigendian })
        }
        Kind::Points => {
            let (height, width, point_step, row_step) = dimensions();
            let count = limit("field_count", counts[2].into(), POINT_FIELDS_MAX)?;
            let fields = (0..count)
                .map(|index| decode_field(slot, sequence, index))
                .collect::<Result<Vec<_>, _>>()?;
            let is_dense = flags & at::FLAG_DENSE != 0;
            FrameLayout::Points(PointsLayout {
                width,
                height,
                point_step,
                row_step,
                fields,
                is_bigendian,
                is_dense,
            })
        }
    };
    Ok(FrameHeader {
        sequence,
        publish_time_nanos: slot.header_word(at::PUBLISH_TIME_NANOS),
        payload_bytes,
        layout,
        frame_id,
        crc32c: (flags & at::FLAG_CRC != 0).then_some(crc32c),
    })
}

fn decode_field<M: ReadMemory>(
    slot: &Slot<'_, M>,
    sequence: u64,
    index: usize,
) -> Result<PointField, ReadError> {
    let start = at::FIELDS + index * at::FIELD_BYTES;
    let (offset, count) = unpair(slot.header_word(start + at::FIELD_OFFSET));
    let kinds = slot.header_word(start + at::FIELD_DATATYPE).to_le_bytes();
    let name_bytes = usize::from(kinds[at::FIELD_NAME_BYTES - at::FIELD_DATATYPE]);
    if name_bytes > POINT_FIELD_NAME_BYTES_MAX {
        let (found, expected) = (name_bytes as u64, POINT_FIELD_NAME_BYTES_MAX as u64);
        return Err(ReadError::Damaged { sequence, field: "name_bytes", found, expected });
    }
    let name = decode_text(slot, sequence, "field name", start, name_bytes)?;
    Ok(PointField { name, offset, datatype: kinds[0], count })
}

const _: () = assert!(at::FIELD_COUNT == at::FIELD_OFFSET + 4);

/// `bytes` is at most 255.
fn decode_text<M: ReadMemory>(
    slot: &Slot<'_, M>,
    sequence: u64,
    field: &'static str,
    start: usize,
    bytes: usize,
) -> Result<String, ReadError> {
    if bytes == 0 {
        return Ok(String::new());
    }
    let mut text = [0; FRAME_ID_BYTES_MAX + 1];
    for (index, chunk) in text[..bytes.next_multiple_of(8)].chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&slot.header_word(start + index * 8).to_le_bytes());
    }
    let text = std::str::from_utf8(&text[..bytes]);
    text.map(str::to_owned).map_err(|_| ReadError::Text { sequence, field })
}
