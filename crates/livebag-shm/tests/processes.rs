//! Writers and readers in separate processes, killed at any step.
//!
//! The children run the functions named `role_…`; in the test run itself they return at once.
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "frames are read in place")]

mod common;

use std::mem::MaybeUninit;
use std::time::Duration;

use common::{MOMENT, Random, Removed, Role, fill, is_right, open, role_argument, unique, until};
use livebag_shm::{FrameMeta, Liveness, Reader, StreamOptions, Wait, Writer};

const PAYLOAD_BYTES: usize = 200_003;

fn options(slots: u32) -> StreamOptions {
    StreamOptions::bytes(PAYLOAD_BYTES).slots(slots).type_name("livebag/Pattern")
}

fn write_frame(writer: &mut Writer, data: &mut [u8], by_loan: bool) -> u64 {
    let sequence = writer.next_sequence();
    let meta = FrameMeta::bytes().frame_id("pattern");
    let published = if by_loan {
        let mut loan = writer.loan();
        fill(sequence, &mut loan);
        loan.publish(&meta, PAYLOAD_BYTES)
    } else {
        fill(sequence, data);
        writer.publish(&meta, data)
    };
    assert_eq!(published, Ok(sequence));
    sequence
}

/// Publishes as fast as it can, by copy and by loan in turn, sometimes returning a loan, until it is killed or has
/// written a hundred thousand frames.
#[test]
fn role_writer() {
    let Some(name) = role_argument() else { return };
    let mut writer = Writer::create(&name, &options(2)).unwrap();
    let mut data = vec![0; PAYLOAD_BYTES];
    for turn in 0..100_000 {
        write_frame(&mut writer, &mut data, turn % 3 == 0);
        if turn % 7 == 0 {
            writer.loan().fill(0xAA);
        }
    }
}

/// Reads in every way until it is killed or the writer is gone.
#[test]
fn role_reader() {
    let Some(name) = role_argument() else { return };
    let mut reader = open(&name);
    let mut buffer = Vec::new();
    for turn in 0.. {
        if turn % 2 == 0 {
            let received = reader.receive(&mut buffer, Wait::Futex, MOMENT);
            if let Ok(Some(header)) = received {
                assert!(is_right(header.sequence, &buffer));
            }
        } else if let Some(frame) = reader.next().frame {
            buffer.resize(frame.payload_bytes(), 0);
            assert!(!frame.copy_to(&mut buffer) || is_right(frame.sequence(), &buffer));
        }
        if reader.liveness(MOMENT) == Liveness::Gone {
            return;
        }
    }
}

/// The writer is killed at random steps, many times. Its complete frames stay readable, the next writer continues the
/// sequence, and no reader ever accepts a torn frame.
#[test]
fn killing_the_writer_costs_the_frame_in_flight() {
    let name = unique("kill-writer");
    let _removed = Removed(name.clone());
    let mut random = Random(0x5EED);
    let mut buffer = Vec::new();
    let mut lasting: Option<Reader> = None;
    let mut last_before = 0;
    for round in 1..=25 {
        let child = Role::start("role_writer", &name);
        let mut reader = open(&name);
        until("the writer attaches", || reader.counters().epoch == round);
        let target = last_before + 1 + random.below(20);
        let mut seen = last_before;
        while seen < target {
            if let Ok(Some(header)) = reader.receive(&mut buffer, Wait::Futex, MOMENT) {
                assert!(is_right(header.sequence, &buffer), "torn frame {}", header.sequence);
                seen = header.sequence;
            }
        }
        for _ in 0..random.below(3000) {
            std::hint::spin_loop();
        }
        child.kill();
        assert_eq!(reader.liveness(MOMENT), Liveness::Gone);

        let latest = reader.latest_sequence();
        let header = reader.copy_latest(&mut buffer).unwrap().unwrap();
        assert_eq!(header.sequence, latest);
        assert!(is_right(latest, &buffer));

        // A reader of the first hour sees every epoch through the same mapping.
        let lasting = lasting.get_or_insert_with(|| reader.clone());
        assert_eq!(lasting.latest_sequence(), latest);
        let mut writer = Writer::create(&name, &options(2)).unwrap();
        let next = write_frame(&mut writer, &mut vec![0; PAYLOAD_BYTES], false);
        assert!(next == latest + 1 || next == latest + 2, "{next} after {latest}");
        lasting.copy_latest(&mut buffer).unwrap().unwrap();
        assert!(is_right(next, &buffer));
        drop(writer);
        last_before = next;
        // Two writers a round: the child and this process.
        let file = common::main_path(&name);
        reset_epoch(&file, round);
    }
}

/// Counts only the children's epochs, so that the test can wait for the next one.
fn reset_epoch(path: &str, epoch: u64) {
    use std::os::unix::fs::FileExt;
    #[expect(clippy::disallowed_methods, reason = "a hand from outside")]
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&epoch.to_le_bytes(), 0x1198).unwrap();
}

/// Readers are killed at random steps, asleep or in the middle of a copy. Neither the writer nor another reader is
/// affected.
#[test]
fn killing_readers_harms_nobody() {
    let name = unique("kill-reader");
    let _removed = Removed(name.clone());
    let mut writer = Writer::create(&name, &options(64)).unwrap();
    let mut witness = Reader::open(&name).unwrap();
    let mut random = Random(0xDEAD);
    let mut data = vec![0; PAYLOAD_BYTES];
    let mut buffer = vec![0; PAYLOAD_BYTES];
    for _ in 0..6 {
        let victims = [Role::start("role_reader", &name), Role::start("role_reader", &name)];
        for _ in 0..5 + random.below(40) {
            let sequence = write_frame(&mut writer, &mut data, false);
            let next = witness.next();
            let frame = next.frame.expect("published a moment ago");
            assert_eq!((next.lapped, frame.sequence()), (0, sequence));
            assert!(frame.copy_to(&mut buffer) && is_right(sequence, &buffer));
        }
        victims.into_iter().for_each(Role::kill);
    }
    assert_eq!(witness.liveness(MOMENT), Liveness::Live);
}

/// A reader that is much slower than a writer with two slots: it is lapped, and gets nothing torn.
/// The same copy without the check does get torn frames, so the test can fail.
#[test]
fn a_slow_reader_is_lapped_and_never_gets_a_torn_frame() {
    let name = unique("slow");
    let _removed = Removed(name.clone());
    let child = Role::start("role_writer", &name);
    let mut reader = open(&name);
    let (mut delivered, mut rejected, mut lapped, mut torn_unchecked) = (0, 0, 0, 0);
    let mut buffer = vec![0; PAYLOAD_BYTES];
    until("laps, rejected copies and unchecked torn ones", || {
        for _ in 0..20 {
            reader.wait(Wait::Futex, reader.next_sequence() - 1, MOMENT);
            let next = reader.next();
            lapped += next.lapped;
            let Some(frame) = next.frame else { continue };
            // A copy with a pause in the middle, as by a reader that loses its core.
            let half = PAYLOAD_BYTES / 2 / 8 * 8;
            copy_unchecked(&frame, &mut buffer, 0..half);
            std::thread::sleep(Duration::from_micros(100));
            copy_unchecked(&frame, &mut buffer, half..PAYLOAD_BYTES);
            let right = is_right(frame.sequence(), &buffer);
            torn_unchecked += u64::from(!right);
            if frame.is_intact() {
                assert!(right, "torn frame {} passed the check", frame.sequence());
                delivered += 1;
            } else {
                rejected += 1;
            }
        }
        lapped > 0 && rejected > 0 && torn_unchecked > 0
    });
    assert!(rejected >= torn_unchecked, "{delivered} {rejected} {torn_unchecked}");
    child.kill();
}

/// What SIM's protocol does: copies, and does not look again.
fn copy_unchecked(frame: &livebag_shm::FrameRef, buffer: &mut [u8], range: std::ops::Range<usize>) {
    for at in range {
        // SAFETY: within the payload, which is mapped while `frame` exists; volatile, because it may change meanwhile.
        let byte = unsafe { frame.payload_ptr().add(at).cast::<MaybeUninit<u8>>().read_volatile() };
        // SAFETY: bytes of a mapping are initialised.
        buffer[at] = unsafe { byte.assume_init() };
    }
}

/// Many laps by every way of reading, against a writer at full speed with two slots.
#[test]
fn no_way_of_reading_accepts_a_torn_frame() {
    let name = unique("stress");
    let _removed = Removed(name.clone());
    let child = Role::start("role_writer", &name);
    let mut reader = open(&name);
    let mut buffer = Vec::new();
    let mut delivered = [0u64; 4];
    until("frames by every way, over many laps", || {
        if let Ok(Some(header)) = reader.receive(&mut buffer, Wait::Spin, MOMENT) {
            assert!(is_right(header.sequence, &buffer));
            delivered[0] += 1;
        }
        if let Ok(Some(header)) = reader.copy_latest(&mut buffer) {
            assert!(is_right(header.sequence, &buffer));
            delivered[1] += 1;
        }
        if let Some(borrowed) = reader.borrow_latest() {
            // SAFETY: the last byte of the payload is mapped; volatile as above.
            let last = unsafe { borrowed.as_ptr().add(borrowed.len() - 1).read_volatile() };
            buffer.resize(PAYLOAD_BYTES, 0);
            fill(borrowed.header().sequence, &mut buffer);
            let right = Some(&last) == buffer.last();
            if borrowed.validate() {
                assert!(right);
                delivered[2] += 1;
            }
        }
        if let Some(frame) = reader.next().frame {
            buffer.resize(frame.payload_bytes(), 0);
            if frame.copy_to(&mut buffer) {
                assert!(is_right(frame.sequence(), &buffer));
                delivered[3] += 1;
            }
        }
        delivered.iter().all(|&count| count >= 20) && reader.latest_sequence() > 500
    });
    child.kill();
}
