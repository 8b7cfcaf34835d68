//! Images as files, each named by its log time.

use std::io::Write;
use std::path::{Path, PathBuf};

use livebag::Topic;
use livebag_bags::SourceMessage;

use super::{Format, create};
use crate::files;
use crate::outcome::CliError;

const PNG_MAGIC: &[u8] = b"\x89PNG\r\n\x1a\n";
const JPEG_MAGIC: &[u8] = b"\xff\xd8\xff";

/// Whether this topic's messages are images.
pub fn are_in(topic: &Topic) -> bool {
    matches!(last_name(topic), "Image" | "CompressedImage")
        && topic.type_name.starts_with("sensor_msgs/")
}

fn last_name(topic: &Topic) -> &str {
    topic.type_name.rsplit('/').next().unwrap_or_default()
}

/// The images of one topic.
pub struct Folder {
    path: PathBuf,
    format: Format,
    /// Name and log time of each.
    files: Vec<(String, u64)>,
}

impl Folder {
    /// A folder that is made with its first image.
    pub fn new(path: PathBuf, format: Format) -> Self {
        Self { path, format, files: Vec::new() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names and log times of its images.
    pub fn files(&self) -> &[(String, u64)] {
        &self.files
    }

    /// Adds an image; the inner error says why none was made of the message.
    pub fn add(
        &mut self,
        topic: &Topic,
        message: &SourceMessage,
    ) -> Result<Result<(), String>, CliError> {
        let (bytes, extension) = match picture(topic, &message.data, self.format) {
            Ok(picture) => picture,
            Err(why) => return Ok(Err(why)),
        };
        if self.files.is_empty() {
            files::make_folder(&self.path)?;
        }
        let time = message.log_time_nanos;
        let twins = self.files.iter().rev().take_while(|(_, other)| *other == time).count();
        let name = match twins {
            0 => format!("{time:019}.{extension}"),
            twins => format!("{time:019}-{}.{extension}", twins + 1),
        };
        let path = self.path.join(&name);
        let mut out = create(&path)?;
        let written = out.write_all(&bytes).and_then(|()| out.flush());
        written.map_err(|source| CliError::file("writing", &path, source))?;
        self.files.push((name, time));
        Ok(Ok(()))
    }

    /// Removes it, once a video has been made of it.
    pub fn remove(&self) -> Result<(), CliError> {
        let removed = std::fs::remove_dir_all(&self.path);
        removed.map_err(|source| CliError::file("removing", &self.path, source))
    }
}

/// An image's bytes and how files of its kind are called.
pub fn picture(
    topic: &Topic,
    message: &[u8],
    format: Format,
) -> Result<(Vec<u8>, &'static str), String> {
    if last_name(topic) == "CompressedImage" {
        let data = match &*topic.message_encoding {
            "cdr" => compressed(message, true),
            "ros1" => compressed(message, false),
            other => return Err(format!("messages of encoding {other} are not read")),
        };
        let data = data.ok_or("the message is not a compressed image")?;
        return match data {
            data if data.starts_with(PNG_MAGIC) => Ok((data.to_vec(), "png")),
            data if data.starts_with(JPEG_MAGIC) => Ok((data.to_vec(), "jpg")),
            _ => Err("its data is neither a JPEG nor a PNG".to_owned()),
        };
    }
    drawn(topic, message, format)
}

#[cfg(feature = "http")]
fn drawn(topic: &Topic, message: &[u8], format: Format) -> Result<(Vec<u8>, &'static str), String> {
    use livebag_net::picture::{jpeg, png};
    let mut out = livebag::Buffer::default();
    let (made, extension) = match format {
        Format::Png => (png(topic, message, &mut out), "png"),
        Format::Jpeg => (jpeg(topic, message, &mut out), "jpg"),
    };
    made.map_err(|error| error.to_string())?;
    Ok((out.to_vec(), extension))
}

#[cfg(not(feature = "http"))]
fn drawn(_: &Topic, _: &[u8], _: Format) -> Result<(Vec<u8>, &'static str), String> {
    Err("this build draws no pictures".to_owned())
}

/// The data of a `sensor_msgs/msg/CompressedImage`: header, format and data, in CDR or as ROS 1 has it.
fn compressed(message: &[u8], is_cdr: bool) -> Option<&[u8]> {
    let is_little = !is_cdr || message.get(1)? & 1 == 1;
    let body = message.get(if is_cdr { 4 } else { 0 }..)?;
    // ROS 1 counts headers before their stamp.
    let mut at = if is_cdr { 8 } else { 12 };
    let length = |at: &mut usize| {
        if is_cdr {
            *at = at.next_multiple_of(4);
        }
        let bytes: [u8; 4] = body.get(*at..*at + 4)?.try_into().ok()?;
        *at += 4;
        let length = if is_little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) };
        usize::try_from(length).ok()
    };
    for _frame_id_and_format in 0..2 {
        let skipped = length(&mut at)?;
        at = at.checked_add(skipped)?;
        body.get(at..)?;
    }
    let bytes = length(&mut at)?;
    body.get(at..at.checked_add(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_of_a_compressed_image_is_found() {
        let tail = [&4u32.to_le_bytes()[..], b"\xff\xd8\xff\xe0"].concat();
        let cdr = [
            &b"\0\x01\0\0"[..],
            &[0; 8],
            &3u32.to_le_bytes(),
            b"ab\0\0",
            &5u32.to_le_bytes(),
            b"jpeg\0\0\0\0",
            &tail,
        ]
        .concat();
        assert_eq!(compressed(&cdr, true), Some(&b"\xff\xd8\xff\xe0"[..]));
        let ros1 = [&[0; 12][..], &2u32.to_le_bytes(), b"ab", &4u32.to_le_bytes(), b"jpeg", &tail]
            .concat();
        assert_eq!(compressed(&ros1, false), Some(&b"\xff\xd8\xff\xe0"[..]));
        for cut in 0..cdr.len() {
            assert_eq!(compressed(&cdr[..cut], true), None);
        }
    }
}
