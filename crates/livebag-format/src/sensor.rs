//! `sensor_msgs` Image and PointCloud2 as they are in memory, whatever they were encoded in.

use crate::wire::{Cursor, DecodeError};

/// Everything of an Image but its pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageHeader<'a> {
    /// `header.stamp`, nanoseconds since the Unix epoch.
    pub stamp_nanos: u64,
    /// `header.frame_id`.
    pub frame_id: &'a str,
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
    /// Pixel encoding: `rgb8`, `mono16`, …
    pub encoding: &'a str,
    /// Whether the pixels are big-endian.
    pub is_bigendian: bool,
    /// Bytes from one row to the next.
    pub step: u32,
}

/// An Image read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageView<'a> {
    /// Everything but the pixels.
    pub header: ImageHeader<'a>,
    /// The pixels.
    pub data: &'a [u8],
}

/// One field of a point: `sensor_msgs/msg/PointField`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PointField<'a> {
    /// `x`, `intensity`, …
    pub name: &'a str,
    /// Bytes from the start of the point.
    pub offset: u32,
    /// 1 int8, 2 uint8, 3 int16, 4 uint16, 5 int32, 6 uint32, 7 float32, 8 float64.
    pub datatype: u8,
    /// Elements in the field.
    pub count: u32,
}

/// Everything of a PointCloud2 but its points and `is_dense`, which follows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PointsHeader<'a> {
    /// `header.stamp`, nanoseconds since the Unix epoch.
    pub stamp_nanos: u64,
    /// `header.frame_id`.
    pub frame_id: &'a str,
    /// Rows; 1 if the cloud is unordered.
    pub height: u32,
    /// Points in a row.
    pub width: u32,
    /// The fields of a point.
    pub fields: &'a [PointField<'a>],
    /// Whether the points are big-endian.
    pub is_bigendian: bool,
    /// Bytes from one point to the next.
    pub point_step: u32,
    /// Bytes from one row to the next.
    pub row_step: u32,
}

/// A PointCloud2 read in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointsView<'a> {
    /// `header.stamp`, nanoseconds since the Unix epoch.
    pub stamp_nanos: u64,
    /// `header.frame_id`.
    pub frame_id: &'a str,
    /// Rows; 1 if the cloud is unordered.
    pub height: u32,
    /// Points in a row.
    pub width: u32,
    /// The fields of a point.
    pub fields: Vec<PointField<'a>>,
    /// Whether the points are big-endian.
    pub is_bigendian: bool,
    /// Bytes from one point to the next.
    pub point_step: u32,
    /// Bytes from one row to the next.
    pub row_step: u32,
    /// The points.
    pub data: &'a [u8],
    /// Whether no point is invalid.
    pub is_dense: bool,
}

impl PointsView<'_> {
    /// The same without points and `is_dense`, as the writer takes it.
    pub fn header(&self) -> PointsHeader<'_> {
        PointsHeader {
            stamp_nanos: self.stamp_nanos,
            frame_id: self.frame_id,
            height: self.height,
            width: self.width,
            fields: &self.fields,
            is_bigendian: self.is_bigendian,
            point_step: self.point_step,
            row_step: self.row_step,
        }
    }
}

/// The seconds and nanoseconds of a ROS 2 time, which ends in January 2038: later stamps are held
/// at its last nanosecond.
pub(crate) fn ros2_time(nanos: u64) -> (i32, u32) {
    const NANOS_PER_SECOND: u64 = 1_000_000_000;
    match i32::try_from(nanos / NANOS_PER_SECOND) {
        Ok(seconds) => (seconds, (nanos % NANOS_PER_SECOND) as u32),
        Err(_) => (i32::MAX, 999_999_999),
    }
}

/// Nanoseconds since the epoch; before it, 0.
pub(crate) fn ros2_nanos(seconds: i32, nanoseconds: u32) -> u64 {
    u64::try_from(seconds).map_or(0, |seconds| seconds * 1_000_000_000 + u64::from(nanoseconds))
}

/// `height … data` of an Image, which ROS 1 and ROS 2 share.
pub(crate) fn image_body<'a>(
    cursor: &mut Cursor<'a>,
    stamp_nanos: u64,
    frame_id: &'a str,
) -> Result<ImageView<'a>, DecodeError> {
    let header = ImageHeader {
        stamp_nanos,
        frame_id,
        height: cursor.u32()?,
        width: cursor.u32()?,
        encoding: cursor.str()?,
        is_bigendian: cursor.bool()?,
        step: cursor.u32()?,
    };
    Ok(ImageView { header, data: cursor.byte_sequence()? })
}

/// `height … is_dense` of a PointCloud2, which ROS 1 and ROS 2 share.
pub(crate) fn points_body<'a>(
    cursor: &mut Cursor<'a>,
    stamp_nanos: u64,
    frame_id: &'a str,
) -> Result<PointsView<'a>, DecodeError> {
    /// Bytes of a field with an empty name: what bounds the count before anything is allocated.
    const FIELD_BYTES_MIN: usize = 13;
    let (height, width) = (cursor.u32()?, cursor.u32()?);
    let count = cursor.u32()? as usize;
    let mut fields = Vec::with_capacity(count.min(cursor.left() / FIELD_BYTES_MIN));
    for _ in 0..count {
        fields.push(PointField {
            name: cursor.str()?,
            offset: cursor.u32()?,
            datatype: cursor.u8()?,
            count: cursor.u32()?,
        });
    }
    Ok(PointsView {
        stamp_nanos,
        frame_id,
        height,
        width,
        fields,
        is_bigendian: cursor.bool()?,
        point_step: cursor.u32()?,
        row_step: cursor.u32()?,
        data: cursor.byte_sequence()?,
        is_dense: cursor.bool()?,
    })
}
