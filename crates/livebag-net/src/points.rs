//! Points of `sensor_msgs/msg/PointCloud2`, for drawing.

use livebag::Buffer;
use livebag_format::cdr::{PointField, PointsView};
use livebag_format::{Topic, cdr, ros1};

/// What answers begin with, and the counts of points given and of points there.
const MAGIC: [u8; 4] = *b"LBP1";
/// Bytes before the first point.
const HEAD_BYTES: usize = 12;
/// Four floats.
const POINT_BYTES: usize = 16;

/// Why there are no points.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PointsError {
    /// Something else than a point cloud.
    #[error(
        "{topic} has messages of type {type_name} ({encoding}): points are given of sensor_msgs/msg/PointCloud2"
    )]
    NotPoints {
        /// Its topic.
        topic: String,
        /// Its type.
        type_name: String,
        /// Its encoding.
        encoding: String,
    },
    /// Without a place.
    #[error("the points have no field `{0}` of a known type")]
    Field(&'static str),
    /// Its sizes contradict each other.
    #[error("the cloud says {count} points of {point_step} bytes, and has {bytes} bytes")]
    Size {
        /// Points.
        count: u64,
        /// Bytes a point.
        point_step: u32,
        /// What there is.
        bytes: usize,
    },
    /// Not a point cloud.
    #[error("the message is not a point cloud: {0}")]
    Decode(#[from] livebag_format::DecodeError),
}

/// A number of each point.
#[derive(Clone, Copy)]
struct Value {
    offset: usize,
    datatype: u8,
    is_big_endian: bool,
}

impl Value {
    fn new(cloud: &PointsView<'_>, name: &str) -> Option<Self> {
        let is_it =
            |field: &&PointField<'_>| field.name == name && (1..=8).contains(&field.datatype);
        let field = cloud.fields.iter().find(is_it)?;
        let (offset, datatype) = (field.offset as usize, field.datatype);
        Some(Self { offset, datatype, is_big_endian: cloud.is_bigendian })
    }

    /// Of the point whose bytes begin here; NaN where it ends too early.
    fn of(self, point: &[u8]) -> f32 {
        match self.datatype {
            1 => self.number(point, |[byte]| f32::from(byte as i8)),
            2 => self.number(point, |[byte]| f32::from(byte)),
            3 => self.number(point, |bytes| f32::from(i16::from_le_bytes(bytes))),
            4 => self.number(point, |bytes| f32::from(u16::from_le_bytes(bytes))),
            5 => self.number(point, |bytes| i32::from_le_bytes(bytes) as f32),
            6 => self.number(point, |bytes| u32::from_le_bytes(bytes) as f32),
            7 => self.number(point, f32::from_le_bytes),
            _ => self.number(point, |bytes| f64::from_le_bytes(bytes) as f32),
        }
    }

    fn number<const N: usize>(self, point: &[u8], read: impl Fn([u8; N]) -> f32) -> f32 {
        let bytes = point.get(self.offset..).and_then(|bytes| bytes.first_chunk::<N>());
        let Some(mut bytes) = bytes.copied() else { return f32::NAN };
        if self.is_big_endian {
            bytes.reverse();
        }
        read(bytes)
    }
}

/// Bytes of an answer with this many points.
pub fn bytes_of(points: usize) -> usize {
    HEAD_BYTES + points * POINT_BYTES
}

/// Appends at most `max` points of a message to `out`, chosen evenly, without those that lack coordinates. Gives the
/// frame that they are in.
///
/// # Errors
/// If it is no point cloud, or makes no sense.
pub fn points<'a>(
    topic: &Topic,
    message: &'a [u8],
    max: usize,
    out: &mut Buffer,
) -> Result<&'a str, PointsError> {
    let is_cloud =
        matches!(&*topic.type_name, "sensor_msgs/msg/PointCloud2" | "sensor_msgs/PointCloud2");
    let cloud = match &*topic.message_encoding {
        "cdr" if is_cloud => cdr::parse_points(message)?,
        "ros1" if is_cloud => ros1::parse_points(message)?,
        _ => {
            return Err(PointsError::NotPoints {
                topic: topic.name.clone(),
                type_name: topic.type_name.clone(),
                encoding: topic.message_encoding.clone(),
            });
        }
    };
    let value = |name: &'static str| Value::new(&cloud, name).ok_or(PointsError::Field(name));
    let (x, y, z) = (value("x")?, value("y")?, value("z")?);
    let intensity = Value::new(&cloud, "intensity");
    let count = u64::from(cloud.width) * u64::from(cloud.height);
    let (point_step, width) = (u64::from(cloud.point_step), u64::from(cloud.width));
    // Some leave this empty for a cloud of one row.
    let row_step = u64::from(cloud.row_step).max(width * point_step);
    let end = row_step
        .saturating_mul(u64::from(cloud.height).saturating_sub(1))
        .saturating_add(width * point_step);
    if count > 0 && (point_step == 0 || end > cloud.data.len() as u64) {
        let (point_step, bytes) = (cloud.point_step, cloud.data.len());
        return Err(PointsError::Size { count, point_step, bytes });
    }
    let wanted = count.min(max as u64);
    let start = out.len();
    out.put(&MAGIC);
    out.put(&[0; 8]);
    let mut given = 0u32;
    for number in 0..wanted {
        let number = number * count / wanted;
        let at = (number / width) * row_step + (number % width) * point_step;
        let point = &cloud.data[at as usize..(at + point_step) as usize];
        let place = [x.of(point), y.of(point), z.of(point)];
        if place.iter().all(|value| value.is_finite()) {
            let [x, y, z] = place.map(f32::to_le_bytes);
            let light = intensity.map_or(0.0, |value| value.of(point));
            let light = if light.is_finite() { light } else { 0.0 };
            [x, y, z, light.to_le_bytes()].iter().for_each(|bytes| out.put(bytes));
            given += 1;
        }
    }
    let head = &mut out[start + MAGIC.len()..start + HEAD_BYTES];
    head[..4].copy_from_slice(&given.to_le_bytes());
    head[4..].copy_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    Ok(cloud.frame_id)
}

#[cfg(test)]
mod tests {
    use livebag_format::cdr::{PointsHeader, points_prefix, points_suffix};

    use super::*;

    fn topic() -> Topic {
        Topic {
            name: "/lidar".into(),
            type_name: "sensor_msgs/msg/PointCloud2".into(),
            message_encoding: "cdr".into(),
            ..Default::default()
        }
    }

    /// Points (k, k + 0.5, -k) of doubles, shorts and floats in an odd layout; each fifth has no place.
    fn cloud(rows: u32, width: u32, is_bigendian: bool) -> Vec<u8> {
        let field = |name, offset, datatype| PointField { name, offset, datatype, count: 1 };
        let fields =
            [field("z", 1, 3), field("x", 3, 8), field("intensity", 11, 2), field("y", 12, 7)];
        let (point_step, row_step) = (17, 17 * width + 5);
        let header = PointsHeader {
            frame_id: "lidar",
            height: rows,
            width,
            fields: &fields,
            is_bigendian,
            point_step,
            row_step,
            ..Default::default()
        };
        let mut message = Vec::new();
        points_prefix(&header, row_step * rows, &mut message);
        let ordered = |mut bytes: Vec<u8>| {
            if is_bigendian {
                bytes.reverse();
            }
            bytes
        };
        for k in 0..rows * width {
            message.push(0xff);
            message.extend(ordered((-(k as i16)).to_le_bytes().to_vec()));
            let x = if k % 5 == 4 { f64::NAN } else { f64::from(k) };
            message.extend(ordered(x.to_le_bytes().to_vec()));
            message.push(k as u8);
            message.extend(ordered((k as f32 + 0.5).to_le_bytes().to_vec()));
            message.push(0xff);
            if k % width == width - 1 {
                message.extend([0xee; 5]);
            }
        }
        message.extend(points_suffix(false));
        message
    }

    #[test]
    fn any_layout_is_read_and_thinned_out_evenly() {
        for is_bigendian in [false, true] {
            let message = cloud(3, 10, is_bigendian);
            for (max, expected) in [(100, 24), (30, 24), (15, 12), (1, 1), (0, 0)] {
                let mut out = Buffer::default();
                assert_eq!(points(&topic(), &message, max, &mut out).unwrap(), "lidar");
                assert_eq!(out.len(), bytes_of(expected));
                assert_eq!(out[..4], *b"LBP1");
                assert_eq!(out[4..8], (expected as u32).to_le_bytes());
                assert_eq!(out[8..12], 30u32.to_le_bytes());
                for point in out[HEAD_BYTES..].chunks(POINT_BYTES) {
                    let float =
                        |at: usize| f32::from_le_bytes(point[at..at + 4].try_into().unwrap());
                    let k = float(0);
                    assert_eq!((float(4), float(8), float(12)), (k + 0.5, -k, k));
                    assert!(k as u32 % 5 != 4 && (max != 15 || (k as u32).is_multiple_of(2)));
                }
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let whole = cloud(3, 10, false);
        for bytes in 0..whole.len() {
            assert!(points(&topic(), &whole[..bytes], 9, &mut Buffer::default()).is_err());
        }
        let image = Topic { type_name: "sensor_msgs/msg/Image".into(), ..topic() };
        assert!(points(&image, &whole, 9, &mut Buffer::default()).is_err());
        let header = PointsHeader { width: 1 << 31, height: 1 << 31, ..Default::default() };
        let mut message = Vec::new();
        points_prefix(&header, 0, &mut message);
        message.extend(points_suffix(true));
        assert!(points(&topic(), &message, 9, &mut Buffer::default()).is_err());
    }
}
