//! An image that is to be a frame of a video.

use livebag::Topic;
use livebag_format::{cdr, ros1};

/// A whole JPEG or PNG file, or pixels.
pub struct Picture {
    pub form: Form,
    pub bytes: Vec<u8>,
}

/// What the pictures of a video have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// ffmpeg's name of the decoder, or of the order of a pixel's bytes.
    pub format: &'static str,
    pub columns: u32,
    pub rows: u32,
}

impl Form {
    /// Whether pictures are pixels, row after row.
    pub fn is_raw(&self) -> bool {
        !matches!(self.format, "mjpeg" | "png")
    }
}

impl Picture {
    /// The pixels of a message, as ffmpeg takes them; `None` if only a JPEG can be made of it, if anything.
    pub fn raw(topic: &Topic, message: &[u8]) -> Option<Self> {
        let image = match &*topic.message_encoding {
            "cdr" => cdr::parse_image(message).ok()?,
            "ros1" => ros1::parse_image(message).ok()?,
            _ => return None,
        };
        let (format, pixel_bytes) = match image.header.encoding {
            "rgb8" | "8UC3" => ("rgb24", 3),
            "bgr8" => ("bgr24", 3),
            "rgba8" | "8UC4" => ("rgba", 4),
            "bgra8" => ("bgra", 4),
            "mono8" | "8UC1" => ("gray", 1),
            _ => return None,
        };
        let (columns, rows) = (image.header.width, image.header.height);
        let (step, row_bytes) = (image.header.step as usize, columns as usize * pixel_bytes);
        let is_whole = step >= row_bytes && step.checked_mul(rows as usize)? <= image.data.len();
        if columns == 0 || rows == 0 || !is_whole {
            return None;
        }
        let mut bytes = Vec::with_capacity(row_bytes * rows as usize);
        for row in image.data.chunks_exact(step).take(rows as usize) {
            bytes.extend_from_slice(&row[..row_bytes]);
        }
        Some(Self { form: Form { format, columns, rows }, bytes })
    }

    /// Reads its size; ffmpeg would replace what is missing at its end by something.
    pub fn file(bytes: Vec<u8>, extension: &str) -> Result<Self, String> {
        let (format, size) = match extension {
            "png" => ("png", png_size(&bytes)),
            _ => ("mjpeg", jpeg_size(&bytes)),
        };
        let size = size.filter(|(columns, rows)| *columns > 0 && *rows > 0);
        let (columns, rows) = size.ok_or("its image is damaged, or cut off")?;
        Ok(Self { form: Form { format, columns, rows }, bytes })
    }
}

/// Columns and rows (PNG specification, 5.3 and 11.2.1).
fn png_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let end = bytes.len().checked_sub(8)?;
    (&bytes[end..end + 4] == b"IEND").then_some(())?;
    Some((number(16)?, number(20)?))
}

/// Columns and rows of the frame header (ITU-T T.81, B.2.2).
fn jpeg_size(bytes: &[u8]) -> Option<(u32, u32)> {
    // Some cameras fill up after the end.
    let tail = &bytes[bytes.len().saturating_sub(64)..];
    tail.windows(2).any(|marker| marker == [0xff, 0xd9]).then_some(())?;
    let number = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let mut at = 2;
    loop {
        let [0xff, marker] = bytes.get(at..at + 2)? else { return None };
        match marker {
            // Any number of these may be before a marker.
            0xff => at += 1,
            0xc4 | 0xc8 | 0xcc => at += 2 + usize::from(number(at + 2)?),
            0xc0..=0xcf => return Some((number(at + 7)?.into(), number(at + 5)?.into())),
            _ => at += 2 + usize::from(number(at + 2)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_cut_files_refused() {
        let png = [
            &b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x02\0\0\0abcd"[..],
            b"\0\0\0\0IEND\xaeB`\x82",
        ]
        .concat();
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc4\0\x02\xff\xc0\0\x11\x08\x01\xe0\x02\x80\x03\xff\xd9";
        for (bytes, extension) in [(&png[..], "png"), (&jpeg[..], "jpg")] {
            let form = Picture::file(bytes.to_vec(), extension).unwrap().form;
            assert_eq!((form.columns, form.rows), (640, 480));
            for cut in 0..bytes.len() {
                assert!(Picture::file(bytes[..cut].to_vec(), extension).is_err(), "{cut}");
            }
        }
    }
}
