mod attachments;
mod copy;
mod mcap_file;
mod mcap_sink;
#[cfg(feature = "sqlite3")]
mod record_sqlite;
mod recordings;
pub(crate) mod ros1_bag;
mod rosbag2_bags;
pub(crate) mod sqlite;
mod sqlite_writer;

use std::path::{Path, PathBuf};

use livebag_format::Topic;
use mcap::records::MessageHeader;

use livebag_format::Message;

use super::*;

/// `LIVEBAG_SHARED`, or the directory beside the repository; `None` (and a word) where there is no such directory.
pub(crate) fn shared_data(path: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("LIVEBAG_SHARED").map(PathBuf::from).unwrap_or_else(|| {
        Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
            .join("../../../shared")
            .to_owned()
    });
    let found = shared.join("data").join(path);
    if !found.exists() {
        println!("SKIPPED: {} is not there", found.display());
        return None;
    }
    Some(found)
}

/// All messages of a source, checked to be in order of time.
fn read_all(source: &mut dyn MessageSource) -> Vec<SourceMessage> {
    let mut messages: Vec<SourceMessage> = Vec::new();
    while let Some(message) = source.next_message().unwrap() {
        if let Some(last) = messages.last() {
            assert!(last.log_time_nanos <= message.log_time_nanos, "out of order");
        }
        messages.push(message);
    }
    messages
}

/// Topic name and log time: what tells messages apart in these tests.
fn names_and_times(source: &mut dyn MessageSource) -> Vec<(String, u64)> {
    let messages = read_all(source);
    let name = |message: &SourceMessage| source.topics()[message.topic].name.clone();
    messages.iter().map(|message| (name(message), message.log_time_nanos)).collect()
}

/// An MCAP in memory: messages `(channel, time)` on the channels `/a` and `/b`, each message
/// holding its own time.
pub(crate) fn mcap_bytes(options: mcap::WriteOptions, messages: &[(usize, u64)]) -> Vec<u8> {
    let mut writer = options.profile("ros2").create(std::io::Cursor::new(Vec::new())).unwrap();
    let schema = writer.add_schema("std_msgs/msg/String", "ros2msg", b"string data").unwrap();
    let metadata = [("key".to_owned(), "value".to_owned())].into();
    let channels = [
        writer.add_channel(schema, "/a", "cdr", &metadata).unwrap(),
        writer.add_channel(schema, "/b", "cdr", &Default::default()).unwrap(),
    ];
    for (number, (channel, time)) in messages.iter().enumerate() {
        let header = MessageHeader {
            channel_id: channels[*channel],
            sequence: number as u32,
            log_time: *time,
            publish_time: time.saturating_sub(1),
        };
        writer.write_to_known_channel(&header, &time.to_le_bytes()).unwrap();
    }
    writer.finish().unwrap();
    writer.into_inner().into_inner()
}

/// What an attachment holds.
fn contents(attachment: &Attachment) -> Vec<u8> {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut attachment.data.reader(), &mut bytes).unwrap();
    bytes
}

fn write_file(directory: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.join(name);
    let mut file = ForeignFile::create(&path).unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
    path
}

fn topic(name: &str) -> Topic {
    Topic {
        name: name.to_owned(),
        type_name: "std_msgs/msg/String".to_owned(),
        message_encoding: "cdr".to_owned(),
        schema_encoding: "ros2msg".to_owned(),
        schema: b"string data".to_vec(),
        metadata: Default::default(),
    }
}

#[test]
fn foreign_files_are_named_for_what_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let cases: [(&[u8], &str); 4] = [
        (b"", "an empty file"),
        (b"hello, world", "text that begins"),
        (&[0x28, 0xb5, 0x2f, 0xfd, 0, 0], "zstd"),
        (&[0xff, 0xd8, 0xff, 0xe0], "ff d8 ff e0"),
    ];
    for (number, (bytes, words)) in cases.into_iter().enumerate() {
        let path = write_file(directory.path(), &format!("file{number}"), bytes);
        let Err(error) = open_foreign(&path) else { panic!("{words} was opened") };
        assert!(matches!(error, ConvertError::Foreign { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let error = open_foreign(&directory.path().join("absent")).err().unwrap();
    assert!(matches!(error, ConvertError::Io { action: "open", .. }), "{error}");
    let empty = directory.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let error = open_foreign(&empty).err().unwrap();
    assert!(matches!(error, ConvertError::Foreign { .. }), "{error}");
}
