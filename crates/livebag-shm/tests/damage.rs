//! Foreign, truncated and damaged regions: refused or counted, never believed.
#![cfg(not(loom))]

mod common;
#[path = "../../../tests/lacks_right.rs"]
mod lacks_right;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::{MOMENT, Removed, bytes, main_path, unique};
use livebag_shm::{
    CreateError, FrameMeta, HeaderError, OpenError, Owners, ReadError, Reader, StreamOptions, Wait,
    Writer,
};

/// Offsets of docs/stream-layout.md that these tests overwrite.
const SLOT_HEADERS_OFFSET: u64 = 0x2000;
const SLOT_HEADER_BYTES: u64 = 512;
const PAYLOAD_BYTES: u64 = 0x018;
const FRAME_ID_BYTES: u64 = 0x038;
const FRAME_ID: u64 = 0x040;

fn open_raw(path: &str) -> File {
    #[expect(clippy::disallowed_methods, reason = "the damage is done from outside")]
    File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

struct Deleted(String);

impl Drop for Deleted {
    fn drop(&mut self) {
        common::delete(&self.0);
    }
}

fn header_error(name: &str) -> HeaderError {
    match Reader::open(name).unwrap_err() {
        OpenError::Header { source, .. } => source,
        other => panic!("{other}"),
    }
}

#[test]
fn foreign_objects_are_refused_and_left_alone() {
    let name = unique("foreign");
    let path = main_path(&name);
    let _deleted = Deleted(path.clone());
    let file = open_raw(&path);
    assert_eq!(header_error(&name), HeaderError::BeingMade);
    file.write_all_at(b"a letter to somebody", 0).unwrap();
    assert_eq!(header_error(&name), HeaderError::TooSmall { found: 20 });
    let refused = Writer::create(&name, &bytes(8)).unwrap_err();
    assert!(matches!(refused, CreateError::ForeignObject { .. }), "{refused}");
    file.write_all_at(&[b'x'; 20_000], 0).unwrap();
    assert!(matches!(header_error(&name), HeaderError::Foreign { .. }));
    let refused = Writer::create(&name, &bytes(8)).unwrap_err();
    assert!(matches!(refused, CreateError::ForeignObject { .. }), "{refused}");
    assert!(Path::new(&path).exists());
}

#[test]
fn a_truncated_region_is_refused_and_made_anew_by_its_writer() {
    let name = unique("truncated");
    let _removed = Removed(name.clone());
    let options = StreamOptions::bytes(10_000);
    drop(Writer::create(&name, &options).unwrap());
    let file = open_raw(&main_path(&name));
    let whole = file.metadata().unwrap().len();
    for bytes in [whole - 1, whole / 2, 12_288, 12_287, 4096, 1] {
        file.set_len(bytes).unwrap();
        let error = header_error(&name);
        let is_named = matches!(
            error,
            HeaderError::Rule { field: "total_bytes", .. } | HeaderError::TooSmall { .. }
        );
        assert!(is_named, "{bytes}: {error}");
    }
    file.set_len(whole - 4096).unwrap();
    // Magic and version are gone with the bytes after the first.
    file.write_all_at(b"LIVEBAGS\x01", 0).unwrap();
    let writer = Writer::create(&name, &options).unwrap();
    assert!(writer.warnings()[0].contains("damaged"), "{:?}", writer.warnings());
    assert!(Reader::open(&name).is_ok());
}

/// Every byte of the static header and of the schema is covered by a check.
#[test]
fn a_flipped_bit_in_the_header_is_found() {
    let name = unique("flipped");
    let options = bytes(100).schema(b"a schema").type_name("a/msg/Type");
    let _writer = Writer::create(&name, &options).unwrap();
    let file = open_raw(&main_path(&name));
    let mut original = vec![0; 4096];
    file.read_exact_at(&mut original, 0).unwrap();
    for at in (0..0x110).chain(0x300..0x310).chain([0xFFF]) {
        for bit in [0, 3, 7] {
            file.write_all_at(&[original[at] ^ 1 << bit], at as u64).unwrap();
            assert!(Reader::open(&name).is_err(), "bit {bit} of byte {at:#x}");
        }
        file.write_all_at(&original[at..=at], at as u64).unwrap();
    }
    file.write_all_at(b"A schema", 0x2000).unwrap();
    assert!(matches!(header_error(&name), HeaderError::Checksum { .. }));
    file.write_all_at(b"a schema", 0x2000).unwrap();
    assert!(Reader::open(&name).is_ok());
}

#[test]
fn another_version_says_so() {
    let name = unique("version");
    let _writer = Writer::create(&name, &bytes(100)).unwrap();
    open_raw(&main_path(&name)).write_all_at(&[2], 8).unwrap();
    assert_eq!(header_error(&name), HeaderError::Version { found: 2 });
}

#[test]
fn a_half_made_region_is_finished_by_the_next_writer() {
    let name = unique("half-made");
    let file = open_raw(&main_path(&name));
    file.set_len(123_456).unwrap();
    assert_eq!(header_error(&name), HeaderError::BeingMade);
    let mut writer = Writer::create(&name, &bytes(100)).unwrap();
    writer.publish(&FrameMeta::bytes(), b"whole").unwrap();
    assert!(Reader::open(&name).is_ok());
}

/// A frame whose header makes no sense is counted as such, and the next one arrives.
#[test]
fn a_damaged_frame_header_is_counted() {
    let name = unique("frame");
    let mut writer = Writer::create(&name, &bytes(100).slots(4)).unwrap();
    let mut reader = Reader::open(&name).unwrap();
    let file = open_raw(&main_path(&name));
    let slot = |sequence: u64| SLOT_HEADERS_OFFSET + sequence % 4 * SLOT_HEADER_BYTES;
    for sequence in 1..=3 {
        let meta = FrameMeta::bytes().frame_id("map");
        assert_eq!(writer.publish(&meta, b"frame").unwrap(), sequence);
    }
    file.write_all_at(&101u64.to_le_bytes(), slot(1) + PAYLOAD_BYTES).unwrap();
    file.write_all_at(&[0xFF], slot(2) + FRAME_ID).unwrap();
    let next = reader.next();
    assert_eq!((next.damaged, next.lapped), (2, 0));
    assert_eq!(next.frame.unwrap().sequence(), 3);

    file.write_all_at(&u64::MAX.to_le_bytes(), slot(3) + PAYLOAD_BYTES).unwrap();
    let error = reader.copy_latest(&mut Vec::new()).unwrap_err();
    assert!(matches!(error, ReadError::Damaged { sequence: 3, field: "payload_bytes", .. }));
    assert!(reader.borrow_latest().is_none());
    file.write_all_at(&5u64.to_le_bytes(), slot(3) + PAYLOAD_BYTES).unwrap();
    file.write_all_at(&[3, 200, 200], slot(3) + FRAME_ID_BYTES).unwrap();
    let header = reader.copy_latest(&mut Vec::new()).unwrap().unwrap();
    assert_eq!(header.frame_id, "map", "counts of other kinds are not looked at");
}

#[test]
fn a_checksum_finds_damaged_bytes() {
    let name = unique("checksum");
    let mut writer = Writer::create(&name, &bytes(100_000).checksum(true).slots(2)).unwrap();
    let mut reader = Reader::open(&name).unwrap();
    let file = open_raw(&main_path(&name));
    let payloads = file.metadata().unwrap().len() - 2 * 102_400;
    let data = vec![7; 100_000];
    let mut buffer = Vec::new();
    for by_loan in [false, true] {
        let sequence = if by_loan {
            let mut loan = writer.loan();
            loan.copy_from_slice(&data);
            loan.publish(&FrameMeta::bytes(), data.len()).unwrap()
        } else {
            writer.publish(&FrameMeta::bytes(), &data).unwrap()
        };
        let header = reader.copy_latest(&mut buffer).unwrap().unwrap();
        assert_eq!((buffer == data, header.sequence), (true, sequence));
        let frame = reader.next().frame.unwrap();
        assert!(frame.verify_checksum());
        let payload = payloads + sequence % 2 * 102_400;
        file.write_all_at(&[8], payload + 99_999).unwrap();
        assert!(frame.is_intact() && !frame.verify_checksum());
        assert!(!reader.borrow_latest().unwrap().verify_checksum());
        let error = reader.copy_latest(&mut buffer).unwrap_err();
        assert!(matches!(error, ReadError::Checksum { .. }), "{error}");
        let mut receiver = Reader::open(&name).unwrap();
        let error = receiver.receive(&mut buffer, Wait::Futex, MOMENT).unwrap_err();
        assert!(matches!(error, ReadError::Checksum { .. }), "{error}");
    }
}

#[test]
fn a_full_shared_memory_is_an_error_at_creation() {
    let name = unique("full");
    // Some petabytes: more than any machine has.
    let error = Writer::create(&name, &bytes((1 << 32) - 1).slots(1024)).unwrap_err();
    let is_named = matches!(error, CreateError::NoSpace { .. } | CreateError::System { .. });
    assert!(is_named, "{error}");
    assert!(!Path::new(&main_path(&name)).exists(), "nothing is left behind");
    assert!(!Path::new(&format!("{}.wake", main_path(&name))).exists());
}

/// A user who can truncate a region can kill its readers: only those are trusted who could do it anyway.
#[test]
fn streams_of_other_users_are_opened_when_asked_for() {
    use std::os::unix::fs::{PermissionsExt, chown};

    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        lacks_right::lacks_right("only root can give a stream to another user");
        return;
    }
    let name = unique("owners");
    let _removed = Removed(name.clone());
    let writer = Writer::create(&name, &StreamOptions::bytes(8)).unwrap();
    let path = main_path(&name);
    let own_group = rustix::process::getegid().as_raw();
    let is_trusted = |owner, group, mode| {
        chown(&path, Some(owner), Some(group)).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        assert!(Reader::open_of(&name, Owners::All).is_ok(), "asked for");
        match Reader::open_of(&name, Owners::Trusted) {
            Ok(_) => true,
            Err(OpenError::Untrusted { owner: found, .. }) => {
                assert_eq!(found, owner);
                false
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert!(is_trusted(0, 0, 0o600));
    assert!(!is_trusted(NOBODY, NOBODY, 0o600));
    assert!(!is_trusted(NOBODY, NOBODY, 0o644), "readable is not harmless");
    assert!(!is_trusted(NOBODY, NOBODY, 0o640), "a group that this process is not in");
    assert!(is_trusted(NOBODY, own_group, 0o640), "shared with this process's group");
    assert!(!is_trusted(NOBODY, own_group, 0o600), "of the group, and not shared with it");
    assert!(!is_trusted(0, 0, 0o602), "everybody may write it");
    assert!(!is_trusted(0, NOBODY, 0o620), "a group may write it");
    chown(&path, Some(0), Some(0)).unwrap();
    // The readers' table in the wake object is mapped too.
    let readers = || Reader::open(&name).unwrap().readers();
    assert!(readers().is_some());
    chown(format!("{path}.wake"), Some(NOBODY), Some(NOBODY)).unwrap();
    assert!(readers().is_none());
    drop(writer);
}
