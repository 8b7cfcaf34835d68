//! Rewrites a damaged MCAP file: intact, indexed, with everything provable.

use std::path::Path;

use livebag_format::rosbag2::MetadataVersion;

use super::attachments::Taken;
use super::mcap_sink::McapSink;
use super::{ConvertError, ForeignFile, MessageSource, SinkCompression, SinkOptions, mcap_file};

/// Result of salvaging a damaged file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Topics, also those without messages.
    pub topics: usize,
    /// Messages saved.
    pub messages: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Attachments saved.
    pub attachments: u64,
    /// Metadata records saved, rosbag2's own left out.
    pub metadata_records: u64,
    /// Known messages of the file that were not saved, a lower bound: the number in a missing end is unknown.
    pub lost_messages: u64,
    /// Of a file that was not closed, or is cut: the last log time that was saved, nanoseconds since the
    /// Unix epoch. What there was behind it is not known.
    pub unknown_since_nanos: Option<u64>,
    /// The damage, as sentences.
    pub damage: Vec<String>,
}

/// Reads the readable parts of the MCAP file `input`, and writes them to the new file `output`. The original is only
/// read. Messages of a chunk with a wrong checksum are not saved.
///
/// # Errors
/// If `input` cannot be read or is no MCAP at all, or `output` exists or cannot be written.
pub fn salvage(
    input: &Path,
    output: &Path,
    compression: SinkCompression,
) -> Result<Salvaged, ConvertError> {
    let mut source = mcap_file::McapFile::open(ForeignFile::open(input)?)?;
    if source.topics().is_empty() && source.message_count() == Some(0) && !begins_as_mcap(input)? {
        let found = "a file without an MCAP's mark and without one whole chunk".to_owned();
        return Err(ConvertError::Foreign { path: input.to_owned(), found });
    }
    let promised = source.message_count();
    let options = SinkOptions {
        profile: source.profile().to_owned(),
        // Humble's has no custom data.
        metadata_version: MetadataVersion::Iron,
        compression,
        custom_data: source.bag_metadata().map(|bag| bag.custom_data.clone()).unwrap_or_default(),
        ros_distro: source.bag_metadata().map(|bag| bag.ros_distro.clone()).unwrap_or_default(),
        ..SinkOptions::default()
    };
    let has_bag_record = source.bag_metadata().is_some();
    let mut sink = McapSink::create_file(output, source.topics(), options, has_bag_record)?;
    let mut saved = Salvaged { topics: source.topics().len(), ..Salvaged::default() };
    saved.unknown_since_nanos = source.is_unclosed().then_some(0);
    while let Some(message) = source.next_message()? {
        if let Some(since) = &mut saved.unknown_since_nanos {
            *since = message.log_time_nanos;
        }
        sink.write(message.topic, &message.as_message())?;
        saved.messages += 1;
        saved.bytes += message.data.len() as u64;
    }
    let mut taken = Taken::default();
    while let Some(attachment) = taken.next(&mut source)? {
        sink.attach(attachment)?;
    }
    saved.attachments = taken.whole;
    for record in source.metadata_records().to_vec() {
        sink.add_metadata(record)?;
        saved.metadata_records += 1;
    }
    let unread = promised.unwrap_or(0).saturating_sub(saved.messages);
    saved.lost_messages = unread.max(source.lost_count());
    if saved.lost_messages > 0 || saved.unknown_since_nanos.is_some() {
        sink.lacks_messages();
    }
    sink.finish()?;
    saved.damage = source.warnings().iter().chain(&taken.warnings).cloned().collect();
    Ok(saved)
}

fn begins_as_mcap(path: &Path) -> Result<bool, ConvertError> {
    let head = ForeignFile::open(path)?.read_up_to(0, super::MCAP_MAGIC.len())?;
    Ok(head == super::MCAP_MAGIC)
}
