//! Streams written by older versions are read and continued: `tests/older/COMMIT.tar.gz` has their memory as
//! that commit's programs left it.
#![cfg(not(loom))]

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use livebag_shm::{FrameLayout, FrameMeta, Kind, Reader, StreamOptions, Writer};

mod common;
use common::{Removed, is_right, main_path, unique};

/// `stream_tool write NAME --slots 4 --payload 3000 --frames 6 --checksum` and the C++ tool's samples, 2026-11-22.
const ARCHIVE: &str = "tests/older/03c6097.tar.gz";
const PAYLOAD_BYTES: usize = 3000;
const FRAMES: u64 = 6;

fn restore(stored: &str) -> Removed {
    let name = unique("older");
    let directory = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    for end in ["", ".wake"] {
        let mut tar = Command::new("tar");
        tar.arg("-xzOf").arg(Path::new(&directory).join(ARCHIVE)).arg(format!("{stored}{end}"));
        let unpacked = tar.output().expect("tar runs");
        assert!(unpacked.status.success(), "{}", String::from_utf8_lossy(&unpacked.stderr));
        let mut options = std::fs::OpenOptions::new();
        let path = format!("{}{end}", main_path(&name));
        #[expect(clippy::disallowed_methods, reason = "memory as another program left it")]
        let mut object = options.write(true).create_new(true).mode(0o600).open(path).unwrap();
        object.write_all(&unpacked.stdout).unwrap();
    }
    Removed(name)
}

fn frames_are_read_and_the_sequence_continues(language: &str) {
    let stream = restore(&format!("03c6097/{language}/bytes"));
    let mut reader = Reader::open(&stream.0).unwrap();
    assert_eq!((reader.info().kind, reader.info().slots), (Kind::Bytes, 4));
    reader.seek(1);
    let (mut read, mut lapped) = (Vec::new(), 0);
    loop {
        let next = reader.next();
        lapped += next.lapped;
        let Some(frame) = next.frame else { break };
        let mut data = vec![0; PAYLOAD_BYTES];
        assert!(frame.copy_to(&mut data) && frame.verify_checksum());
        assert!(is_right(frame.sequence(), &data), "frame {}", frame.sequence());
        read.push(frame.sequence());
    }
    assert_eq!((lapped, &*read), (2, &[3, 4, 5, 6][..]));

    // The same options, with the topic of the stream's name then.
    let options = StreamOptions::bytes(PAYLOAD_BYTES).slots(4).topic("/lbhouse-bytes");
    let options = options.type_name("livebag/Pattern").checksum(true);
    let mut writer = Writer::create(&stream.0, &options).unwrap();
    assert_eq!(writer.publish(&FrameMeta::bytes(), &[7; 9]).unwrap(), FRAMES + 1);
}

#[test]
fn a_stream_of_an_older_cpp_writer_is_read_and_continued() {
    frames_are_read_and_the_sequence_continues("cpp");
}

#[test]
fn images_and_points_of_an_older_writer_are_read() {
    for kind in [Kind::Image, Kind::Points] {
        let stream = restore(&format!("03c6097/cpp/{kind}"));
        let mut reader = Reader::open(&stream.0).unwrap();
        assert_eq!(reader.info().topic, format!("/topic/of/{kind}"));
        assert_eq!(reader.info().schema, "uint8[] data\n# schéma\n".as_bytes());
        let mut data = Vec::new();
        let header = reader.copy_latest(&mut data).unwrap().unwrap();
        assert_eq!(header.publish_time_nanos, 1_234_567_890_123_456_789);
        assert!(data.len() == 777 && is_right(1, &data), "{kind}");
        match header.layout {
            FrameLayout::Image(image) => {
                assert_eq!((image.width, image.height, image.step), (7, 5, 23));
            }
            FrameLayout::Points(points) => {
                assert_eq!((points.point_step, points.row_step), (26, 79));
                assert_eq!(points.fields.len(), 32);
            }
            FrameLayout::Bytes => panic!("{kind} was read as bytes"),
        }
    }
}
