//! Pictures of `sensor_msgs/msg/Image`, for people.

use std::borrow::Cow;

use livebag::Buffer;
use livebag_format::{Topic, cdr, ros1};

use crate::limits::PIXELS_MAX;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// Something else than an image.
    #[error(
        "{topic} has messages of type {type_name} ({encoding}): pictures are made of sensor_msgs/msg/Image"
    )]
    NotAnImage {
        /// Its topic.
        topic: String,
        /// Its type.
        type_name: String,
        /// Its encoding.
        encoding: String,
    },
    /// Not one of the encodings that a picture can be made of.
    #[error(
        "no picture is made of encoding `{0}`: expected one of rgb8, bgr8, rgba8, bgra8, mono8, 8UC1, 8UC3, 8UC4, mono16, 16UC1, 32FC1"
    )]
    Encoding(String),
    /// Its sizes contradict each other.
    #[error("the image says {width} x {height} with {step} bytes a row, and has {bytes} bytes")]
    Size {
        /// Columns.
        width: u32,
        /// Rows.
        height: u32,
        /// Bytes a row.
        step: u32,
        /// What there is.
        bytes: usize,
    },
    /// Not a CDR image.
    #[error("the message is not an image: {0}")]
    Decode(#[from] livebag_format::DecodeError),
    /// The encoder refused.
    #[error("making the picture failed: {0}")]
    Encode(String),
}

/// Samples of a picture, row after row without gaps.
struct Samples<'a> {
    width: u32,
    height: u32,
    /// Samples of one pixel: 1, 3 or 4.
    channels: usize,
    /// Big-endian if they have 16 bits.
    bytes: Cow<'a, [u8]>,
    is_wide: bool,
}

fn samples<'a>(
    topic: &Topic,
    message: &'a [u8],
    width_max: Option<usize>,
) -> Result<Samples<'a>, PictureError> {
    let is_image = matches!(&*topic.type_name, "sensor_msgs/msg/Image" | "sensor_msgs/Image");
    let image = match &*topic.message_encoding {
        "cdr" if is_image => cdr::parse_image(message)?,
        "ros1" if is_image => ros1::parse_image(message)?,
        _ => return not_an_image(topic),
    };
    let header = &image.header;
    // Samples, their bytes, and whether blue comes first.
    let (channels, bytes, is_bgr) = match header.encoding {
        "rgb8" | "8UC3" => (3, 1, false),
        "bgr8" => (3, 1, true),
        "rgba8" | "8UC4" => (4, 1, false),
        "bgra8" => (4, 1, true),
        "mono8" | "8UC1" => (1, 1, false),
        "mono16" | "16UC1" => (1, 2, false),
        "32FC1" => (1, 4, false),
        other => return Err(PictureError::Encoding(other.chars().take(40).collect())),
    };
    let (width, height, step) = (header.width, header.height, header.step);
    let wrong = PictureError::Size { width, height, step, bytes: image.data.len() };
    let row_bytes = width as usize * channels * bytes;
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0
        || pixels > PIXELS_MAX
        || (step as usize) < row_bytes
        || u64::from(step) * u64::from(height) > image.data.len() as u64
    {
        return Err(wrong);
    }
    let pixel = Pixel { channels, bytes };
    let is_wider = width_max.is_some_and(|width_max| width as usize > width_max);
    let smaller = width_max.filter(|_| is_wider).map(|width_max| {
        smaller(image.data, (width as usize, height as usize, step as usize), pixel, width_max)
    });
    let (data, width, height, step, row_bytes) = match &smaller {
        Some((data, width, height)) => {
            let row_bytes = width * channels * bytes;
            (&data[..], *width as u32, *height as u32, row_bytes as u32, row_bytes)
        }
        None => (image.data, width, height, step, row_bytes),
    };
    let rows = data.chunks_exact(step as usize).take(height as usize);
    let rows = rows.map(|row| &row[..row_bytes]);
    let is_big_endian = header.is_bigendian;
    let plain = match (bytes, is_bgr) {
        (1, false) if smaller.is_none() && step as usize == row_bytes => {
            Cow::from(&image.data[..row_bytes * height as usize])
        }
        (1, false) => rows.flatten().copied().collect(),
        (1, true) => {
            let mut swapped: Vec<u8> = rows.flatten().copied().collect();
            swapped.chunks_exact_mut(channels).for_each(|pixel| pixel.swap(0, 2));
            swapped.into()
        }
        (2, _) if is_big_endian => rows.flatten().copied().collect(),
        (2, _) => {
            let mut swapped: Vec<u8> = rows.flatten().copied().collect();
            swapped.as_chunks_mut().0.iter_mut().for_each(|sample: &mut [u8; 2]| sample.swap(0, 1));
            swapped.into()
        }
        _ => {
            let floats: Vec<u8> = rows.flatten().copied().collect();
            stretched(&floats, is_big_endian).into()
        }
    };
    Ok(Samples { width, height, channels, bytes: plain, is_wide: bytes > 1 })
}

/// The samples of a picture's pixel.
#[derive(Clone, Copy)]
struct Pixel {
    /// Samples.
    channels: usize,
    /// Bytes of each.
    bytes: usize,
}

/// A smaller picture of at most `width_max` columns, its columns and rows: each pixel represents a square of N × N
/// pixels. For 8-bit samples it is the mean of four of them; for others it is one of them, because a missing
/// distance must not enter a mean.
fn smaller(
    data: &[u8],
    (width, height, step): (usize, usize, usize),
    Pixel { channels, bytes }: Pixel,
    width_max: usize,
) -> (Vec<u8>, usize, usize) {
    let side = width.div_ceil(width_max);
    let (columns, lines) = (width / side, (height / side).max(1));
    let pixel_bytes = channels * bytes;
    let (near, far) = (side / 4, side - 1 - side / 4);
    let mut out = Vec::with_capacity(columns * lines * pixel_bytes);
    for line in 0..lines {
        let row = |offset: usize| {
            let at = (line * side + offset).min(height - 1) * step;
            &data[at..at + width * pixel_bytes]
        };
        let (upper, lower) = (row(near), row(far));
        for column in 0..columns {
            let left = (column * side + near) * pixel_bytes;
            if bytes > 1 {
                out.extend_from_slice(&upper[left..left + pixel_bytes]);
                continue;
            }
            let right = (column * side + far) * pixel_bytes;
            for channel in 0..channels {
                let four = [upper, lower]
                    .map(|row| u16::from(row[left + channel]) + u16::from(row[right + channel]));
                out.push(((four[0] + four[1] + 2) / 4) as u8);
            }
        }
    }
    (out, columns, lines)
}

fn not_an_image<T>(topic: &Topic) -> Result<T, PictureError> {
    Err(PictureError::NotAnImage {
        topic: topic.name.clone(),
        type_name: topic.type_name.clone(),
        encoding: topic.message_encoding.clone(),
    })
}

/// Floats as 16 bits, scaled from the least to the greatest of the picture; values that are not finite become 0.
fn stretched(bytes: &[u8], is_big_endian: bool) -> Vec<u8> {
    let floats = bytes.as_chunks().0.iter().map(|&bytes: &[u8; 4]| match is_big_endian {
        true => f32::from_be_bytes(bytes),
        false => f32::from_le_bytes(bytes),
    });
    let (mut least, mut most) = (f32::INFINITY, f32::NEG_INFINITY);
    for value in floats.clone().filter(|value| value.is_finite()) {
        (least, most) = (least.min(value), most.max(value));
    }
    let span = f64::from(most) - f64::from(least);
    let scale = if span > 0.0 { 65534.0 / span } else { 0.0 };
    floats
        .flat_map(|value| {
            let scaled = 1.0 + (f64::from(value) - f64::from(least)) * scale;
            (if value.is_finite() { scaled as u16 } else { 0 }).to_be_bytes()
        })
        .collect()
}

/// What making a picture takes at most, for each byte of the message: itself, its samples twice, the picture.
pub const BYTES_FOR_EACH: usize = 4;

/// The message as a PNG, appended to `out`: every value of integer images is kept, floats are stretched to 16 bits.
///
/// # Errors
/// If no picture can be made of it.
pub fn png(topic: &Topic, message: &[u8], out: &mut Buffer) -> Result<(), PictureError> {
    png_within(topic, message, None, out)
}

/// The same with at most this many columns.
///
/// # Errors
/// If no picture can be made of it.
pub fn png_within(
    topic: &Topic,
    message: &[u8],
    width_max: Option<usize>,
    out: &mut Buffer,
) -> Result<(), PictureError> {
    let samples = samples(topic, message, width_max)?;
    let failed = |error: png::EncodingError| PictureError::Encode(error.to_string());
    let mut encoder = png::Encoder::new(out, samples.width, samples.height);
    encoder.set_color(match samples.channels {
        1 => png::ColorType::Grayscale,
        3 => png::ColorType::Rgb,
        _ => png::ColorType::Rgba,
    });
    encoder.set_depth(if samples.is_wide { png::BitDepth::Sixteen } else { png::BitDepth::Eight });
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&samples.bytes).map_err(failed)?;
    writer.finish().map_err(failed)
}

/// The message as a JPEG, appended to `out`: samples of 16 bits give their upper eight.
///
/// # Errors
/// If no picture can be made of it.
pub fn jpeg(topic: &Topic, message: &[u8], out: &mut Buffer) -> Result<(), PictureError> {
    jpeg_within(topic, message, None, out)
}

/// The same with at most this many columns.
///
/// # Errors
/// If no picture can be made of it.
pub fn jpeg_within(
    topic: &Topic,
    message: &[u8],
    width_max: Option<usize>,
    out: &mut Buffer,
) -> Result<(), PictureError> {
    let samples = samples(topic, message, width_max)?;
    let (Ok(width), Ok(height)) = (samples.width.try_into(), samples.height.try_into()) else {
        return Err(PictureError::Encode("a JPEG has at most 65535 rows and columns".into()));
    };
    let bytes = match samples.is_wide {
        true => samples.bytes.iter().step_by(2).copied().collect(),
        false => samples.bytes,
    };
    let color = match samples.channels {
        1 => jpeg_encoder::ColorType::Luma,
        3 => jpeg_encoder::ColorType::Rgb,
        _ => jpeg_encoder::ColorType::Rgba,
    };
    let encoder = jpeg_encoder::Encoder::new(out, 85);
    let encoded = encoder.encode(&bytes, width, height, color);
    encoded.map_err(|error| PictureError::Encode(error.to_string()))
}

#[cfg(test)]
mod tests;
