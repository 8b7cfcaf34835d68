//! The published messages.

use livebag_shm::{FrameMeta, PointsLayout, StreamOptions};
use serde::{Deserialize, Serialize};

/// Frames up to this size get the default number of slots; larger ones twice that, as recommended for recording.
const SMALL_BYTES_MAX: usize = 64 * 1024;
const SMALL_SLOTS: u32 = 64;
const LARGE_SLOTS: u32 = 8;

/// A set of sensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Eight FullHD colour cameras at 30 Hz: 1.49 GB/s (Apex.AI).
    Fullhd8,
    /// The rosbag2 report's mix: 6 cameras, 5 LiDARs, radars, GPS, IMU, ultrasonics; 570 MB/s.
    Automotive,
    /// 500 topics of 100 bytes at 200 Hz.
    Small,
    /// This many of SPEED's cameras (Table II): 5,529,600 bytes, there at 36 Hz.
    #[value(skip)]
    Cameras {
        /// How many.
        count: u32,
        /// Frames per second of each.
        rate_hz: u32,
    },
    /// SPEED's mixed workload (section IV-C, Figure 9): 8 cameras and all other sensors of Table II.
    #[value(skip)]
    Mixed,
}

/// One sensor.
#[derive(Debug, Clone)]
pub struct Topic {
    /// Without the run's prefix.
    pub name: String,
    /// Its messages.
    pub shape: Shape,
    /// Messages per second.
    pub rate_hz: f64,
}

/// The form of a message.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// `rgb8` pixels.
    Image {
        /// Columns.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// Points of 16 bytes.
    Points {
        /// How many.
        count: u32,
    },
    /// Bytes without a layout.
    Bytes {
        /// How many.
        bytes: usize,
    },
}

const POINT_BYTES: u32 = 16;
const PIXEL_BYTES: u32 = 3;

/// SPEED's camera: 5,529,600 bytes.
pub const CAMERA: Shape = Shape::Image { width: 1920, height: 960 };
/// Its rate there.
pub const CAMERA_RATE_HZ: u32 = 36;

impl Shape {
    /// Bytes of one message's payload.
    pub fn bytes(self) -> usize {
        match self {
            Self::Image { width, height } => (width * height * PIXEL_BYTES) as usize,
            Self::Points { count } => (count * POINT_BYTES) as usize,
            Self::Bytes { bytes } => bytes,
        }
    }

    fn stream_options(self) -> StreamOptions {
        let options = match self {
            Self::Image { width, height } => StreamOptions::image(width, height, PIXEL_BYTES),
            Self::Points { count } => StreamOptions::points(count, POINT_BYTES),
            Self::Bytes { bytes } => StreamOptions::bytes(bytes),
        };
        options.slots(self.slots()).remove_on_drop(true)
    }

    /// Slots of that stream.
    pub fn slots(self) -> u32 {
        if self.bytes() <= SMALL_BYTES_MAX { SMALL_SLOTS } else { LARGE_SLOTS }
    }

    /// A frame's properties.
    pub fn frame_meta(self) -> FrameMeta {
        match self {
            Self::Image { width, height } => {
                FrameMeta::image(width, height, width * PIXEL_BYTES, "rgb8")
            }
            Self::Points { count } => FrameMeta::points(PointsLayout::xyz(count, POINT_BYTES)),
            Self::Bytes { .. } => FrameMeta::bytes(),
        }
    }
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fullhd8, Self::Automotive, Self::Small];

    /// The sensors.
    pub fn topics(self) -> Vec<Topic> {
        let groups: &[(&str, usize, Shape, f64)] = match self {
            Self::Fullhd8 => &[("camera", 8, Shape::Image { width: 1920, height: 1080 }, 30.0)],
            // "Performance improvements in rosbag2", the configuration "Automotive".
            Self::Automotive => &[
                ("lidar_secondary", 4, Shape::Points { count: 10_000 }, 25.0),
                ("lidar_main", 1, Shape::Points { count: 40_000 }, 25.0),
                ("camera", 6, Shape::Image { width: 1250, height: 1000 }, 24.0),
                ("radar", 5, Shape::Bytes { bytes: 1600 }, 50.0),
                ("gps", 1, Shape::Bytes { bytes: 200 }, 25.0),
                ("imu", 1, Shape::Bytes { bytes: 400 }, 100.0),
                ("ultrasonic", 12, Shape::Bytes { bytes: 150 }, 40.0),
            ],
            Self::Small => &[("state", 500, Shape::Bytes { bytes: 100 }, 200.0)],
            Self::Cameras { count, rate_hz } => {
                &[("camera", count as usize, CAMERA, f64::from(rate_hz))]
            }
            Self::Mixed => &[
                ("camera", 8, CAMERA, 36.0),
                ("lidar_main", 1, Shape::Points { count: 40_000 }, 25.0),
                ("lidar_secondary", 4, Shape::Points { count: 10_000 }, 25.0),
                ("radar", 5, Shape::Bytes { bytes: 1600 }, 50.0),
                ("gps", 1, Shape::Bytes { bytes: 200 }, 25.0),
                ("imu", 1, Shape::Bytes { bytes: 400 }, 100.0),
                ("ultrasonic", 12, Shape::Bytes { bytes: 150 }, 40.0),
            ],
        };
        let mut topics = Vec::new();
        for &(root, count, shape, rate_hz) in groups {
            topics.extend((1..=count).map(|i| Topic {
                name: format!("{root}_{i}"),
                shape,
                rate_hz,
            }));
        }
        topics
    }

    /// Whether messages come through streams from another process.
    pub fn by_streams(self) -> bool {
        self != Self::Small
    }

    /// Seconds of a run, where the user names none: SPEED's and Apex.AI's lengths, less than
    /// 20 GB each.
    pub fn seconds_default(self, mode: super::Mode) -> f64 {
        match (self, mode) {
            (Self::Fullhd8, super::Mode::Paced) => 13.0,
            (Self::Fullhd8, super::Mode::Unpaced) => 12.0,
            (Self::Automotive, _) => 13.0,
            (Self::Small, _) => 10.0,
            // SPEED's runs (section IV-C).
            (Self::Cameras { .. } | Self::Mixed, _) => 10.0,
        }
    }

    /// Messages and bytes of a run.
    pub fn volume(self, seconds: f64) -> (u64, u64) {
        self.topics().iter().fold((0, 0), |(messages, bytes), topic| {
            let count = topic.count(seconds);
            (messages + count, bytes + count * topic.shape.bytes() as u64)
        })
    }
}

impl Topic {
    /// A stream for it, which goes with its writer.
    pub fn stream_options(&self) -> StreamOptions {
        self.shape.stream_options().topic(&self.topic_name())
    }

    /// Messages in a run of `seconds`.
    pub fn count(&self, seconds: f64) -> u64 {
        (self.rate_hz * seconds).round() as u64
    }

    /// Its name in a recording.
    pub fn topic_name(&self) -> String {
        format!("/{}", self.name)
    }

    /// Its stream's name in a run.
    pub fn stream_name(&self, prefix: &str) -> String {
        format!("{prefix}.{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_those_of_the_sources() {
        let (messages, bytes) = Workload::Fullhd8.volume(1.0);
        assert_eq!((messages, bytes), (240, 240 * 6_220_800));
        let (_, bytes) = Workload::Automotive.volume(1.0);
        assert!((570_000_000..580_000_000).contains(&bytes), "{bytes}");
        assert_eq!(Workload::Automotive.topics().len(), 30);
        assert_eq!(Workload::Small.volume(10.0).0, 1_000_000);
        // SPEED, Table II: messages in ten seconds.
        let cameras = Workload::Cameras { count: 8, rate_hz: CAMERA_RATE_HZ };
        assert_eq!(cameras.volume(10.0), (8 * 360, 8 * 360 * 5_529_600));
        let others = 250 + 4 * 250 + 5 * 500 + 250 + 1000 + 12 * 400;
        assert_eq!(Workload::Mixed.volume(10.0).0, 8 * 360 + others);
    }
}
