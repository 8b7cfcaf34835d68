//! The messages: ROSfs's Table 2, a handheld RGB-D camera's topics over 45 seconds.

use livebag::Topic;

/// Length of the recording in seconds at scale 1.
pub const SECONDS: f64 = 45.0;
/// Log time of the first message: 2026-11-21, 00:00 UTC.
pub const START_NANOS: u64 = 1_795_219_200_000_000_000;

/// One topic of the workload.
pub struct Source {
    /// Topic name.
    pub name: &'static str,
    /// ROS 2 type.
    pub type_name: &'static str,
    /// Length of each message.
    pub message_bytes: usize,
    /// Messages at scale 1.
    pub count: u64,
}

/// Counts and sizes as measured in `../shared/peers.md`, so that figures can be compared.
pub const SOURCES: [Source; 5] = [
    Source { name: "/imu", type_name: "sensor_msgs/msg/Imu", message_bytes: 320, count: 26_500 },
    Source {
        name: "/markers",
        type_name: "visualization_msgs/msg/MarkerArray",
        message_bytes: 670,
        count: 10_600,
    },
    Source {
        name: "/camera_info",
        type_name: "sensor_msgs/msg/CameraInfo",
        message_bytes: 371,
        count: 1_335,
    },
    Source {
        name: "/depth/image",
        type_name: "sensor_msgs/msg/Image",
        message_bytes: 1_228_867,
        count: 1_335,
    },
    Source {
        name: "/rgb/image",
        type_name: "sensor_msgs/msg/Image",
        message_bytes: 921_666,
        count: 1_335,
    },
];

impl Source {
    /// Messages at `scale`, at least one.
    pub fn count_at(&self, scale: f64) -> u64 {
        ((self.count as f64 * scale) as u64).max(1)
    }

    /// The topic as recorders take it; the definition does not matter to a reader of bytes.
    pub fn topic(&self) -> Topic {
        Topic {
            name: self.name.into(),
            type_name: self.type_name.into(),
            message_encoding: "cdr".into(),
            schema_encoding: "ros2msg".into(),
            schema: b"byte[] data".to_vec(),
            ..Topic::default()
        }
    }
}

/// Bytes of all messages at `scale`.
pub fn total_bytes(scale: f64) -> u64 {
    SOURCES.iter().map(|source| source.count_at(scale) * source.message_bytes as u64).sum()
}

/// Calls `each` for every message in the order of time: place in [`SOURCES`], log time, sequence
/// from 1, data.
pub fn generate<E>(
    scale: f64,
    mut each: impl FnMut(usize, u64, u64, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut buffers: Vec<Vec<u8>> = SOURCES.iter().map(|s| vec![0; s.message_bytes]).collect();
    let mut next = [0u64; SOURCES.len()];
    loop {
        let time_of = |at: usize| {
            let (done, count) = (next[at], SOURCES[at].count_at(scale));
            (done < count).then(|| (SECONDS * scale * 1e9 / count as f64 * done as f64) as u64)
        };
        let earliest = (0..SOURCES.len()).filter_map(|at| Some((time_of(at)?, at))).min();
        let Some((nanos, at)) = earliest else { return Ok(()) };
        next[at] += 1;
        let buffer = &mut buffers[at];
        let mark = next[at].to_le_bytes();
        buffer[..8].copy_from_slice(&mark);
        if let Some(end) = buffer.last_chunk_mut::<8>() {
            *end = mark;
        }
        each(at, START_NANOS + nanos, next[at], &buffers[at])?;
    }
}
