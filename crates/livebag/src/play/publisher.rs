//! One topic's way into a stream.

use livebag_format::cdr::{ImageView, PointsView};
use livebag_format::{DecodeError, Message, Topic, cdr, ros1};
use livebag_shm::{
    FrameLayout, FrameMeta, ImageLayout, Kind, PointField, PointsLayout, PublishError,
    SCHEMA_BYTES_MAX, StreamOptions, Writer,
};

use super::{PlayError, TopicOutput};

/// Which time the frames carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// That of the message: its header's stamp if it becomes a native frame, else its publish time.
    Kept,
    /// That of publishing.
    Now,
}

/// The native frame type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Native {
    Image(Encoding),
    Points(Encoding),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Cdr,
    Ros1,
}

impl Native {
    /// `None` for topics whose messages are published as they are.
    fn of(topic: &Topic) -> Option<Self> {
        let encoding = match topic.message_encoding.as_str() {
            "cdr" => Encoding::Cdr,
            "ros1" => Encoding::Ros1,
            _ => return None,
        };
        match topic.type_name.as_str() {
            "sensor_msgs/msg/Image" | "sensor_msgs/Image" => Some(Self::Image(encoding)),
            "sensor_msgs/msg/PointCloud2" | "sensor_msgs/PointCloud2" => {
                Some(Self::Points(encoding))
            }
            _ => None,
        }
    }

    fn type_name(self) -> &'static str {
        match self {
            Self::Image(_) => "sensor_msgs/msg/Image",
            Self::Points(_) => "sensor_msgs/msg/PointCloud2",
        }
    }

    fn decode(self, message: &[u8]) -> Result<(FrameMeta, &[u8]), DecodeError> {
        Ok(match self {
            Self::Image(Encoding::Cdr) => image_frame(cdr::parse_image(message)?),
            Self::Image(Encoding::Ros1) => image_frame(ros1::parse_image(message)?),
            Self::Points(Encoding::Cdr) => points_frame(cdr::parse_points(message)?),
            Self::Points(Encoding::Ros1) => points_frame(ros1::parse_points(message)?),
        })
    }
}

fn image_frame(image: ImageView<'_>) -> (FrameMeta, &[u8]) {
    let header = image.header;
    let layout = FrameLayout::Image(ImageLayout {
        width: header.width,
        height: header.height,
        step: header.step,
        encoding: header.encoding.to_owned(),
        is_bigendian: header.is_bigendian,
    });
    let frame_id = header.frame_id.to_owned();
    (FrameMeta { publish_time_nanos: Some(header.stamp_nanos), layout, frame_id }, image.data)
}

fn points_frame(points: PointsView<'_>) -> (FrameMeta, &[u8]) {
    let fields = points.fields.iter().map(|field| PointField {
        name: field.name.to_owned(),
        offset: field.offset,
        datatype: field.datatype,
        count: field.count,
    });
    let layout = FrameLayout::Points(PointsLayout {
        width: points.width,
        height: points.height,
        point_step: points.point_step,
        row_step: points.row_step,
        fields: fields.collect(),
        is_bigendian: points.is_bigendian,
        is_dense: points.is_dense,
    });
    let frame_id = points.frame_id.to_owned();
    (FrameMeta { publish_time_nanos: Some(points.stamp_nanos), layout, frame_id }, points.data)
}

/// Publishes the messages of one topic into its stream: `Image` and `PointCloud2` (CDR or ROS 1) as native frames,
/// everything else as bytes. The stream is removed when this is dropped.
///
/// A message that is not what its topic's type says goes into a second stream, the name of which
/// ends in `.raw`, as the bytes that it is.
pub(super) struct TopicPublisher {
    topic: Topic,
    native: Option<Native>,
    stamp: Stamp,
    writer: Writer,
    message_bytes_max: usize,
    raw: Option<Writer>,
    warnings: Vec<String>,
}

impl TopicPublisher {
    /// Makes the stream `name` for messages of up to `message_bytes_max` bytes.
    ///
    /// # Errors
    /// If the name breaks the rules, a live writer owns the stream, or the system refuses.
    pub fn create(
        name: &str,
        topic: &Topic,
        message_bytes_max: usize,
        stamp: Stamp,
    ) -> Result<Self, PlayError> {
        let native = Native::of(topic);
        let message_bytes_max = message_bytes_max.max(1);
        let mut warnings = Vec::new();
        let mut options = bytes_options(topic, message_bytes_max, &mut warnings);
        if let Some(native) = native {
            options.kind = match native {
                Native::Image(_) => Kind::Image,
                Native::Points(_) => Kind::Points,
            };
            // The type that a native frame represents; ROS 1's definition would contradict it.
            options = options.type_name(native.type_name()).encodings("cdr", "ros2msg");
            if topic.schema_encoding != "ros2msg" {
                options.schema = Vec::new();
            }
        }
        let writer = create_writer(name, topic, &options)?;
        warnings.extend(writer.warnings().iter().cloned());
        Ok(Self {
            topic: topic.clone(),
            native,
            stamp,
            writer,
            message_bytes_max,
            raw: None,
            warnings,
        })
    }

    fn publish_raw(
        &mut self,
        time_nanos: Option<u64>,
        message: &[u8],
        why: &str,
    ) -> Result<(), PlayError> {
        let meta = FrameMeta::bytes().publish_time_nanos(time_nanos);
        let raw = match &mut self.raw {
            Some(raw) => raw,
            None => {
                let name = format!("{}.raw", self.writer.name());
                self.warnings.push(format!(
                    "{}: a message is no {} that a frame can hold ({why}); such messages go as \
                     bytes into the stream {name}",
                    self.topic.name, self.topic.type_name
                ));
                let options =
                    bytes_options(&self.topic, self.message_bytes_max, &mut self.warnings);
                self.raw.insert(create_writer(&name, &self.topic, &options)?)
            }
        };
        raw.publish(&meta, message).map(drop).map_err(|source| self.refused(source))
    }

    fn refused(&self, source: PublishError) -> PlayError {
        PlayError::Publish { topic: self.topic.name.clone(), source }
    }
}

impl TopicOutput for TopicPublisher {
    /// # Errors
    /// If the message is longer than was said, or the stream for undecodable messages cannot be made.
    fn publish(&mut self, message: &Message<'_>) -> Result<(), PlayError> {
        let time_nanos = match self.stamp {
            Stamp::Kept => Some(message.publish_time_nanos),
            Stamp::Now => None,
        };
        let Some(native) = self.native else {
            let meta = FrameMeta::bytes().publish_time_nanos(time_nanos);
            let published = self.writer.publish(&meta, message.data);
            return published.map(drop).map_err(|source| self.refused(source));
        };
        let why = match native.decode(message.data) {
            Ok((mut meta, data)) => {
                if self.stamp == Stamp::Now {
                    meta.publish_time_nanos = None;
                }
                match self.writer.publish(&meta, data) {
                    Ok(_) => return Ok(()),
                    Err(error) => error.to_string(),
                }
            }
            Err(error) => error.to_string(),
        };
        self.publish_raw(time_nanos, message.data, &why)
    }

    fn name(&self) -> &str {
        self.writer.name()
    }

    fn kind(&self) -> &str {
        match self.native {
            Some(Native::Image(_)) => "image",
            Some(Native::Points(_)) => "points",
            None => "bytes",
        }
    }

    fn heartbeat(&mut self) {
        self.writer.heartbeat();
        if let Some(raw) = &self.raw {
            raw.heartbeat();
        }
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

fn create_writer(name: &str, topic: &Topic, options: &StreamOptions) -> Result<Writer, PlayError> {
    Writer::create(name, options)
        .map_err(|source| PlayError::Stream { topic: topic.name.clone(), source })
}

fn bytes_options(
    topic: &Topic,
    message_bytes_max: usize,
    warnings: &mut Vec<String>,
) -> StreamOptions {
    let mut options = StreamOptions::bytes(message_bytes_max)
        .topic(&topic.name)
        .type_name(&topic.type_name)
        .encodings(&topic.message_encoding, &topic.schema_encoding)
        .remove_on_drop(true);
    if topic.schema.len() <= SCHEMA_BYTES_MAX {
        options.schema.clone_from(&topic.schema);
    } else {
        let warning = format!(
            "{}: its schema of {} bytes is longer than the {SCHEMA_BYTES_MAX} that a stream \
             carries, and is left out",
            topic.name,
            topic.schema.len()
        );
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    options
}
