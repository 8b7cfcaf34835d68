//! CDR of `sensor_msgs/msg/Image` and `sensor_msgs/msg/PointCloud2` as *prefix · raw data ·
//! suffix*, so that a frame in shared memory becomes a ROS 2 message without being copied.
//!
//! Written is plain CDR version 1, little-endian (encapsulation `00 01 00 00`); read is the same
//! in either byte order. Neither type has a value after its data that needs alignment:
//! an Image ends with its pixels, a PointCloud2 with one byte, `is_dense`.
//!
//! ```
//! use livebag_format::cdr::{ImageHeader, image_prefix, parse_image};
//!
//! let header = ImageHeader { height: 1, width: 2, encoding: "mono8", step: 2, ..Default::default() };
//! let mut message = Vec::new();
//! image_prefix(&header, 2, &mut message);
//! message.extend_from_slice(&[17, 42]); // the pixels
//! assert_eq!(parse_image(&message)?.data, [17, 42]);
//! # Ok::<(), livebag_format::DecodeError>(())
//! ```

#[cfg(test)]
mod tests;

pub use crate::sensor::{ImageHeader, ImageView, PointField, PointsHeader, PointsView};

use crate::sensor::{image_body, points_body, ros2_nanos, ros2_time};
use crate::wire::{Cursor, DecodeError};

/// Plain CDR version 1, little-endian, no options.
const ENCAPSULATION: [u8; 4] = [0x00, 0x01, 0x00, 0x00];

/// Appends the CDR of an Image up to its first pixel; `data_bytes` pixels follow, then nothing.
pub fn image_prefix(header: &ImageHeader<'_>, data_bytes: u32, out: &mut Vec<u8>) {
    let mut to = Sink::start(out);
    to.stamp_and_frame(header.stamp_nanos, header.frame_id);
    to.u32(header.height);
    to.u32(header.width);
    to.string(header.encoding);
    to.u8(u8::from(header.is_bigendian));
    to.u32(header.step);
    to.u32(data_bytes);
}

/// Appends the CDR of a PointCloud2 up to its first point; `data_bytes` of points follow, then
/// [`points_suffix`].
pub fn points_prefix(header: &PointsHeader<'_>, data_bytes: u32, out: &mut Vec<u8>) {
    let mut to = Sink::start(out);
    to.stamp_and_frame(header.stamp_nanos, header.frame_id);
    to.u32(header.height);
    to.u32(header.width);
    to.u32(header.fields.len() as u32);
    for field in header.fields {
        to.string(field.name);
        to.u32(field.offset);
        to.u8(field.datatype);
        to.u32(field.count);
    }
    to.u8(u8::from(header.is_bigendian));
    to.u32(header.point_step);
    to.u32(header.row_step);
    to.u32(data_bytes);
}

/// What follows the points.
pub fn points_suffix(is_dense: bool) -> [u8; 1] {
    [u8::from(is_dense)]
}

/// Reads an Image in place. A stamp before 1970 is given as 0.
pub fn parse_image(cdr: &[u8]) -> Result<ImageView<'_>, DecodeError> {
    let mut cursor = Cursor::cdr(cdr)?;
    let (stamp_nanos, frame_id) = stamp_and_frame(&mut cursor)?;
    image_body(&mut cursor, stamp_nanos, frame_id)
}

/// Reads a PointCloud2 in place. A stamp before 1970 is given as 0.
pub fn parse_points(cdr: &[u8]) -> Result<PointsView<'_>, DecodeError> {
    let mut cursor = Cursor::cdr(cdr)?;
    let (stamp_nanos, frame_id) = stamp_and_frame(&mut cursor)?;
    points_body(&mut cursor, stamp_nanos, frame_id)
}

fn stamp_and_frame<'a>(cursor: &mut Cursor<'a>) -> Result<(u64, &'a str), DecodeError> {
    let stamp_nanos = ros2_nanos(cursor.i32()?, cursor.u32()?);
    Ok((stamp_nanos, cursor.str()?))
}

/// Appends one CDR message to a buffer that may already hold other bytes.
struct Sink<'a> {
    out: &'a mut Vec<u8>,
    /// Offset from which alignment counts: the end of the encapsulation.
    origin: usize,
}

impl<'a> Sink<'a> {
    fn start(out: &'a mut Vec<u8>) -> Self {
        out.extend_from_slice(&ENCAPSULATION);
        let origin = out.len();
        Sink { out, origin }
    }

    fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    fn u32(&mut self, value: u32) {
        let padding = (self.origin.wrapping_sub(self.out.len())) % 4;
        self.out.extend_from_slice(&[0; 3][..padding]);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    fn string(&mut self, text: &str) {
        self.u32(text.len() as u32 + 1);
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(0);
    }

    fn stamp_and_frame(&mut self, stamp_nanos: u64, frame_id: &str) {
        let (seconds, nanoseconds) = ros2_time(stamp_nanos);
        self.u32(seconds as u32);
        self.u32(nanoseconds);
        self.string(frame_id);
    }
}
