//! A shared-memory stream as a source of standard ROS 2 messages.

use std::time::Duration;

use livebag_format::{Topic, cdr, definitions};
use livebag_shm::{
    FrameHeader, FrameLayout, FrameRef, Kind, Liveness, Next, Owners, Reader, StreamInfo,
};

use crate::clock::Clock;
use crate::limits::{AWAITED_BEHIND, AWAITED_PERIOD_MIN, POLL_MAX, POLL_MAX_AWAITED, POLL_MIN};

/// Type that frames of kind `bytes` are recorded as when their stream names none.
const BYTES_TYPE: &str = "std_msgs/msg/UInt8MultiArray";
/// Assumed until two frames have been seen: 200 Hz.
const PERIOD_NANOS_FIRST: u64 = 5_000_000;

/// Which frame of a stream comes first.
#[derive(Clone, Copy)]
pub(crate) enum First {
    /// The next one that is published.
    Next,
    /// The oldest that is still there.
    Oldest,
    /// The one after this; earlier ones that are gone count as lapped.
    After(u64),
}

/// A stream being followed.
pub(crate) struct StreamSource {
    reader: Reader,
    owners: Owners,
    clock: Clock,
    wraps_bytes: bool,
    slots: u64,
    /// How often a writer had attached to the region.
    epoch: u64,
    period_nanos: u64,
    last_publish_nanos: Option<u64>,
    latest_seen_nanos: u64,
}

impl StreamSource {
    /// Follows `reader`. A region that takes its name must belong to one of the `owners`.
    pub(crate) fn new(reader: Reader, owners: Owners, first: First, clock: Clock) -> Self {
        let mut reader = reader.labelled("recorder");
        match first {
            First::Next => reader.seek(reader.latest_sequence() + 1),
            First::Oldest => reader.seek_oldest(),
            First::After(sequence) => reader.seek(sequence + 1),
        }
        let info = reader.info();
        let wraps_bytes = info.kind == Kind::Bytes && info.type_name.is_empty();
        let slots = u64::from(info.slots);
        let epoch = reader.counters().epoch;
        Self {
            reader,
            owners,
            clock,
            wraps_bytes,
            slots,
            epoch,
            period_nanos: PERIOD_NANOS_FIRST,
            last_publish_nanos: None,
            latest_seen_nanos: 0,
        }
    }

    /// The stream's name.
    pub(crate) fn name(&self) -> &str {
        &self.reader.info().name
    }

    /// Whether its writer has died.
    pub(crate) fn is_gone(&self) -> bool {
        self.reader.liveness(Duration::MAX) == Liveness::Gone
    }

    /// Whether another writer has attached to the region since the last call.
    pub(crate) fn take_return(&mut self) -> bool {
        let epoch = self.reader.counters().epoch;
        std::mem::replace(&mut self.epoch, epoch) != epoch
    }

    /// The region that has taken this one's name, if this one's writer is gone and there
    /// is such a region: a driver that came back with frames of another size.
    pub(crate) fn successor(&self) -> Option<Self> {
        if self.reader.liveness(Duration::MAX) != Liveness::Gone {
            return None;
        }
        let reader = Reader::open_of(self.name(), self.owners).ok()?;
        let is_new = reader.info().instance != self.reader.info().instance;
        is_new.then(|| Self::new(reader, self.owners, First::Oldest, self.clock.clone()))
    }

    /// Number of the newest frame: taking frames up to it terminates, however fast new ones come.
    pub(crate) fn newest_sequence(&self) -> u64 {
        self.reader.latest_sequence()
    }

    /// Number of the last frame that is not taken any more.
    pub(crate) fn taken_sequence(&self) -> u64 {
        self.reader.next_sequence() - 1
    }

    /// The topic that the stream is recorded as.
    pub(crate) fn topic(&self) -> Topic {
        stream_topic(self.reader.info())
    }

    /// The next frame in order, and how many before it were overwritten unseen or made no sense.
    pub(crate) fn next(&mut self) -> Next {
        let next = self.reader.next();
        if let Some(frame) = &next.frame {
            let publish_nanos = frame.header().publish_time_nanos;
            let last_nanos = self.last_publish_nanos.replace(publish_nanos);
            let elapsed = last_nanos.map_or(0, |last| publish_nanos.saturating_sub(last));
            if next.lapped == 0 && elapsed > 0 {
                // A quarter of the new value: follows a change within a few frames.
                self.period_nanos = (3 * self.period_nanos + elapsed) / 4;
            }
            self.latest_seen_nanos = self.clock.monotonic_nanos();
        }
        next
    }

    /// Time from a frame's publishing to the refilling of its slot, by the rate so far.
    pub(crate) fn lap_nanos(&self) -> u64 {
        (self.slots - 1) * self.period_nanos
    }

    /// When to poll for frames again. Several frames of a fast stream are taken at once; with `together`, those of a
    /// slow one too.
    pub(crate) fn look_in(&self, together: bool) -> Duration {
        let lap = Duration::from_nanos(self.lap_nanos());
        let period = Duration::from_nanos(self.period_nanos);
        if together || period < AWAITED_PERIOD_MIN {
            return (lap / 16).clamp(POLL_MIN, POLL_MAX);
        }
        await_in(period, lap, self.reader.silence())
    }

    /// Whether the slot of `frame` is about to be refilled, or is being refilled already.
    ///
    /// The writer may begin with frame k + N as soon as it has published k + N - 1. The recorder may look
    /// late, and a writer that was late publishes several frames at once. So a frame is in danger once half
    /// of the slots hold newer ones, and half a period after that. A healthy disk has fetched it by then;
    /// for a slow one a needless copy is the lesser evil.
    pub(crate) fn endangers(&self, frame: &FrameRef) -> bool {
        let margin = (self.slots / 2).saturating_sub(1).max(1);
        match frame.frames_left() {
            left if left < margin => true,
            left if left == margin => {
                let waited = self.clock.monotonic_nanos().saturating_sub(self.latest_seen_nanos);
                waited >= self.period_nanos / 2
            }
            _ => false,
        }
    }

    /// How its frames become messages.
    pub(crate) fn encoder(&self) -> Encoder {
        Encoder { wraps_bytes: self.wraps_bytes }
    }
}

/// When to poll for a frame that comes every `period` and whose slot is refilled after a `lap`, `silence` after the
/// last one: just after it is due, so that no poll is in vain and its log time is accurate; if it is late, when it is
/// half as late again. Between two polls at most a sixteenth of a lap passes.
fn await_in(period: Duration, lap: Duration, silence: Duration) -> Duration {
    let due = period + AWAITED_BEHIND;
    let awaited = due.checked_sub(silence).unwrap_or_else(|| (silence - due) / 2);
    awaited.min(lap / 16).clamp(POLL_MIN, POLL_MAX_AWAITED)
}

/// How the frames of a stream become messages.
#[derive(Clone, Copy)]
pub(crate) struct Encoder {
    wraps_bytes: bool,
}

impl Encoder {
    /// What precedes and follows the payload in the encoded message.
    pub(crate) fn wrapping(self, frame: &FrameRef) -> (Vec<u8>, Vec<u8>) {
        wrapping(frame.header(), self.wraps_bytes)
    }

    /// Length of a frame once it is encoded.
    pub(crate) fn encoded_bytes(self, frame: &FrameRef) -> usize {
        let (prefix, suffix) = self.wrapping(frame);
        prefix.len() + frame.payload_bytes() + suffix.len()
    }

    /// Encodes a whole frame into `out`; `false` if it was overwritten meanwhile.
    pub(crate) fn encode(self, frame: &FrameRef, out: &mut Vec<u8>) -> bool {
        let (prefix, suffix) = self.wrapping(frame);
        out.clear();
        out.resize(prefix.len() + frame.payload_bytes() + suffix.len(), 0);
        fill(frame, &prefix, &suffix, out)
    }

    /// Encodes a whole frame into `room`, which has just the right length.
    pub(crate) fn encode_into(self, frame: &FrameRef, room: &mut [u8]) -> bool {
        let (prefix, suffix) = self.wrapping(frame);
        fill(frame, &prefix, &suffix, room)
    }
}

fn fill(frame: &FrameRef, prefix: &[u8], suffix: &[u8], room: &mut [u8]) -> bool {
    let (head, rest) = room.split_at_mut(prefix.len());
    let (payload, tail) = rest.split_at_mut(frame.payload_bytes());
    head.copy_from_slice(prefix);
    tail.copy_from_slice(suffix);
    frame.copy_to(payload)
}

/// The topic that a stream is recorded as: native images and point clouds become their standard ROS 2 messages, encoded
/// messages stay as they are, other bytes become byte arrays.
pub fn stream_topic(info: &StreamInfo) -> Topic {
    let native = match info.kind {
        Kind::Image => Some("sensor_msgs/msg/Image"),
        Kind::Points => Some("sensor_msgs/msg/PointCloud2"),
        Kind::Bytes if info.type_name.is_empty() => Some(BYTES_TYPE),
        Kind::Bytes => None,
    };
    let type_name = native.unwrap_or(&info.type_name).to_owned();
    let standard = native.is_some() || info.message_encoding == "cdr";
    let mut topic = Topic {
        name: info.topic.clone(),
        message_encoding: if native.is_some() {
            "cdr".into()
        } else {
            info.message_encoding.clone()
        },
        schema_encoding: info.schema_encoding.clone(),
        schema: info.schema.clone(),
        ..Topic::default()
    };
    if standard
        && (native.is_some() || topic.schema.is_empty())
        && let Some(schema) = definitions::schema(&type_name)
    {
        topic.schema_encoding = "ros2msg".into();
        topic.schema = schema.into_bytes();
    }
    if standard && let Some(hash) = definitions::type_hash(&type_name) {
        topic.metadata.insert("topic_type_hash".into(), hash.into());
    }
    topic.type_name = type_name;
    topic
}

/// The bytes before and after a frame's payload in its message ([`stream_topic`]): CDR. Both are empty for messages
/// that are passed on as they are.
pub fn around_frame(info: &StreamInfo, header: &FrameHeader) -> (Vec<u8>, Vec<u8>) {
    wrapping(header, info.type_name.is_empty())
}

fn wrapping(header: &FrameHeader, wraps_bytes: bool) -> (Vec<u8>, Vec<u8>) {
    let mut prefix = Vec::new();
    let mut suffix = Vec::new();
    let data_bytes = header.payload_bytes as u32;
    match &header.layout {
        FrameLayout::Image(image) => {
            let image = cdr::ImageHeader {
                stamp_nanos: header.publish_time_nanos,
                frame_id: &header.frame_id,
                height: image.height,
                width: image.width,
                encoding: &image.encoding,
                is_bigendian: image.is_bigendian,
                step: image.step,
            };
            cdr::image_prefix(&image, data_bytes, &mut prefix);
        }
        FrameLayout::Points(points) => {
            let fields: Vec<_> = points
                .fields
                .iter()
                .map(|field| cdr::PointField {
                    name: &field.name,
                    offset: field.offset,
                    datatype: field.datatype,
                    count: field.count,
                })
                .collect();
            let cloud = cdr::PointsHeader {
                stamp_nanos: header.publish_time_nanos,
                frame_id: &header.frame_id,
                height: points.height,
                width: points.width,
                fields: &fields,
                is_bigendian: points.is_bigendian,
                point_step: points.point_step,
                row_step: points.row_step,
            };
            cdr::points_prefix(&cloud, data_bytes, &mut prefix);
            suffix.extend_from_slice(&cdr::points_suffix(points.is_dense));
        }
        FrameLayout::Bytes if wraps_bytes => {
            // Encapsulation (little-endian CDR), an empty layout: no dimensions, data_offset 0.
            prefix.extend_from_slice(&[0, 1, 0, 0]);
            prefix.extend_from_slice(&[0; 8]);
            prefix.extend_from_slice(&data_bytes.to_le_bytes());
        }
        FrameLayout::Bytes => {}
    }
    (prefix, suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_looked_for_when_it_is_due() {
        const MILLI: u64 = 1000;
        let await_in = |period_us, lap_us, silence_us| {
            let [period, lap, silence] = [period_us, lap_us, silence_us].map(Duration::from_micros);
            await_in(period, lap, silence).as_micros() as u64
        };
        // A camera of 50 Hz whose lap is long enough: when the next one is due, and a little.
        assert_eq!(await_in(20 * MILLI, 620 * MILLI, 10 * MILLI), 10_300);
        // Late by 2.7 ms: again in 1.35.
        assert_eq!(await_in(20 * MILLI, 620 * MILLI, 23 * MILLI), 1350);
        // Not again at once, and not later than is safe, or than anything is worth.
        assert_eq!(await_in(20 * MILLI, 620 * MILLI, 20 * MILLI), 500);
        assert_eq!(await_in(20 * MILLI, 60 * MILLI, MILLI), 3750);
        assert_eq!(await_in(1000 * MILLI, 63_000 * MILLI, MILLI), 16_000);
        assert_eq!(await_in(20 * MILLI, 620 * MILLI, 100_000 * MILLI), 16_000);
    }
}
