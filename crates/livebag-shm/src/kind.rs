//! Kinds of streams.

use std::fmt;

/// The type of a stream's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Kind {
    /// Bytes in an encoding that the stream names, for example serialised messages.
    Bytes = 0,
    /// Raw pixels, row by row: `sensor_msgs/msg/Image`.
    Image = 1,
    /// Raw points: `sensor_msgs/msg/PointCloud2`.
    Points = 2,
}

impl Kind {
    pub(crate) fn from_number(number: u32) -> Option<Kind> {
        [Kind::Bytes, Kind::Image, Kind::Points].into_iter().find(|kind| *kind as u32 == number)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Bytes => "bytes",
            Kind::Image => "image",
            Kind::Points => "points",
        })
    }
}
