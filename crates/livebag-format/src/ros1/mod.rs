//! ROS 1: its serialisation of `sensor_msgs/Image` and `sensor_msgs/PointCloud2`, its bags, and its
//! messages as ROS 2 has them.

pub mod bag;
mod definition;
mod migrate;
#[cfg(test)]
mod tests;
mod to_cdr;

use crate::sensor::{ImageView, PointsView, image_body, points_body};
use crate::wire::{Cursor, DecodeError};

pub use to_cdr::ToCdr;

/// Reads an Image in place.
pub fn parse_image(message: &[u8]) -> Result<ImageView<'_>, DecodeError> {
    let mut cursor = Cursor::ros1(message);
    let (stamp_nanos, frame_id) = header(&mut cursor)?;
    image_body(&mut cursor, stamp_nanos, frame_id)
}

/// Reads a PointCloud2 in place.
pub fn parse_points(message: &[u8]) -> Result<PointsView<'_>, DecodeError> {
    let mut cursor = Cursor::ros1(message);
    let (stamp_nanos, frame_id) = header(&mut cursor)?;
    points_body(&mut cursor, stamp_nanos, frame_id)
}

/// Stamp and frame of a `std_msgs/Header`, whose `seq` ROS 2 dropped.
fn header<'a>(cursor: &mut Cursor<'a>) -> Result<(u64, &'a str), DecodeError> {
    cursor.u32()?;
    let (seconds, nanoseconds) = (cursor.u32()?, cursor.u32()?);
    Ok((u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds), cursor.str()?))
}
