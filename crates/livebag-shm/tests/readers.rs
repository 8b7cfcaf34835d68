//! The table of readers, whose contents can do no harm.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::FileExt;
use std::time::Duration;

use livebag_shm::{FrameMeta, Reader, ReaderInfo, StreamOptions, Wait, Writer};

const TABLE_OFFSET: u64 = 0x100;
const STRIDE_BYTES: u64 = 128;
const ENTRIES: usize = 30;

fn stream(what: &str) -> Writer {
    let name = format!("readers-{}-{what}", std::process::id());
    Writer::create(&name, &StreamOptions::bytes(64).slots(4).remove_on_drop(true)).unwrap()
}

fn open(writer: &Writer) -> Reader {
    Reader::open(writer.name()).unwrap()
}

fn publish(writer: &mut Writer, frames: u64) {
    for _ in 0..frames {
        writer.publish(&FrameMeta::bytes(), b"frame").unwrap();
    }
}

fn shown(writer: &Writer) -> Vec<ReaderInfo> {
    open(writer).readers().unwrap()
}

fn labels(writer: &Writer) -> Vec<String> {
    shown(writer).into_iter().map(|reader| reader.label).collect()
}

#[test]
fn a_reader_is_shown_from_its_first_look_until_it_is_dropped() {
    let mut writer = stream("shown");
    let mut reader = open(&writer).labelled("recorder");
    assert_eq!(shown(&writer), []);
    assert!(reader.next().frame.is_none());
    let seen = shown(&writer);
    assert_eq!((seen[0].pid, &*seen[0].label), (std::process::id(), "recorder"));
    assert_eq!((seen[0].taken, seen[0].lapped, seen[0].behind, seen[0].idle), (0, 0, 0, None));
    assert!(seen[0].start_ticks > 0);
    publish(&mut writer, 3);
    assert_eq!(shown(&writer)[0].behind, 3);
    while reader.next().frame.is_some() {}
    let seen = &shown(&writer)[0];
    assert_eq!((seen.taken, seen.lapped, seen.last_sequence, seen.behind), (3, 0, 3, 0));
    assert!(seen.idle.is_some());
    // Four slots: six of ten are gone.
    publish(&mut writer, 10);
    while reader.next().frame.is_some() {}
    let seen = &shown(&writer)[0];
    assert_eq!((seen.taken, seen.lapped, seen.last_sequence, seen.behind), (7, 6, 13, 0));
    drop(reader);
    assert_eq!(shown(&writer), []);
}

#[test]
fn every_way_to_a_frame_counts_it_once() {
    let mut writer = stream("ways");
    publish(&mut writer, 2);
    let (mut copies, mut receives, borrows) = (open(&writer), open(&writer), open(&writer));
    let mut buffer = Vec::new();
    for round in 0..3 {
        // The first frame is one from before they came.
        publish(&mut writer, if round == 0 { 0 } else { 2 });
        for _ in 0..2 {
            copies.copy_latest(&mut buffer).unwrap();
            assert!(borrows.borrow_latest().is_some());
            let _ = receives.receive(&mut buffer, Wait::Futex, Duration::ZERO).unwrap();
        }
    }
    let seen = shown(&writer);
    assert_eq!(seen.len(), 3);
    for reader in &seen {
        assert_eq!((reader.taken, reader.lapped, reader.last_sequence), (3, 0, 6), "{reader:?}");
    }
    // A waiting reader is listed as well.
    let waits = open(&writer).labelled("waits");
    assert!(!waits.wait(Wait::Futex, 6, Duration::ZERO));
    assert!(labels(&writer).contains(&"waits".to_owned()));
}

#[test]
fn names_clones_and_those_who_only_look() {
    let mut writer = stream("names");
    let mut plain = open(&writer);
    plain.next();
    #[expect(clippy::disallowed_methods, reason = "what the kernel calls this program")]
    let program = std::fs::read_to_string("/proc/self/comm").unwrap();
    assert_eq!(labels(&writer), [program.trim()]);
    let mut renamed = plain.labelled("ein sehr langer Name, viel zu lä\u{1F916}nger");
    renamed.next();
    assert_eq!(labels(&writer), ["ein sehr langer Name, viel zu l"]);
    let mut copy = renamed.clone();
    assert_eq!(shown(&writer).len(), 1);
    copy.next();
    assert_eq!(shown(&writer).len(), 2);
    let mut hidden = open(&writer).unlisted();
    publish(&mut writer, 1);
    assert!(hidden.next().frame.is_some());
    assert_eq!(shown(&writer).len(), 2);
}

#[test]
fn one_more_than_there_is_room_for_reads_without_being_shown() {
    let mut writer = stream("full");
    let mut readers: Vec<Reader> = (0..ENTRIES + 2).map(|_| open(&writer)).collect();
    publish(&mut writer, 1);
    for reader in &mut readers {
        reader.seek(1);
        assert!(reader.next().frame.is_some());
    }
    assert_eq!(shown(&writer).len(), ENTRIES);
    readers.truncate(1);
    assert_eq!(shown(&writer).len(), 1);
    assert!(open(&writer).labelled("another").next().frame.is_none());
}

#[test]
fn streams_for_a_group_have_no_table() {
    let name = format!("readers-{}-group", std::process::id());
    let group = rustix::process::getegid().as_raw().to_string();
    let options = StreamOptions::bytes(64).group(&group).remove_on_drop(true);
    let mut writer = Writer::create(&name, &options).unwrap();
    let mut reader = open(&writer);
    publish(&mut writer, 1);
    reader.seek(1);
    assert!(reader.next().frame.is_some());
    assert_eq!(reader.readers(), None);
}

/// Any contents of the table affect only the display, never a frame.
#[test]
fn nonsense_in_the_table_harms_nobody() {
    let mut writer = stream("nonsense");
    let mut reader = open(&writer).labelled("honest");
    reader.next();
    let path = format!("/dev/shm/livebag.{}.wake", writer.name());
    #[expect(clippy::disallowed_methods, reason = "the damage is done from outside")]
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for round in 0..200u32 {
        let mut noise = vec![0u8; ENTRIES * STRIDE_BYTES as usize];
        for byte in &mut noise {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = if round % 4 == 0 { 0xff } else { (random >> 56) as u8 };
        }
        file.write_all_at(&noise, TABLE_OFFSET).unwrap();
        for seen in shown(&writer) {
            // Only the lock of one entry is held.
            assert!(seen.label.chars().count() <= 32 && !seen.label.contains(char::is_control));
            assert!(seen.behind <= reader.latest_sequence());
        }
        publish(&mut writer, 1);
        let next = reader.next();
        assert_eq!((next.lapped, next.frame.unwrap().sequence()), (0, u64::from(round) + 1));
    }
    // The next owner starts anew.
    drop(reader);
    let mut heir = open(&writer).labelled("heir");
    heir.next();
    assert_eq!(labels(&writer), ["heir"]);
}
