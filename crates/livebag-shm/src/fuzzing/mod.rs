//! Fuzz targets: shared memory created by another process. Errors are fine; panics, hanging and access outside of the
//! memory are not.
//!
//! An input is a byte for the kind, then ten for each change: which word (16 bits), and its value.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::cycle::{Cycle, CycleMonitor, remove_cycle_board};
use crate::frame::{FrameMeta, PointsLayout};
use crate::header::seal;
use crate::memory::{Access, Mapped, WriteMemory};
use crate::name::Name;
use crate::object;
use crate::options::StreamOptions;
use crate::reader::Reader;
use crate::registry::remove;
use crate::wait::Wait;
use crate::writer::Writer;

/// Of this thread: tests run in parallel.
fn own_name() -> String {
    let name = format!("fuzz-{}-{:?}", std::process::id(), std::thread::current().id());
    name.replace(['(', ')'], "")
}

fn changes(bytes: &[u8]) -> impl Iterator<Item = (usize, u64)> {
    bytes.as_chunks::<10>().0.iter().map(|change| {
        let (word, value) = change.split_first_chunk::<2>().expect("ten bytes");
        let value = u64::from_le_bytes(value.try_into().expect("eight bytes"));
        (usize::from(u16::from_le_bytes(*word)), value)
    })
}

fn spoil(path: &str, bytes: &[u8]) -> Option<Mapped> {
    let fd = object::open(path, true).ok()?;
    let length = object::bytes_of(&rustix::fs::fstat(&fd).ok()?) as usize;
    let memory = Mapped::new(fd.as_fd(), length, Access::ReadWrite, false).ok()?;
    for (word, value) in changes(bytes) {
        memory.store(word % (length / 8) * 8, value, Relaxed);
    }
    Some(memory)
}

/// A stream: bytes, an image or points, with and without checksums. Half of the inputs get a header whose
/// checksum fits.
pub fn region(bytes: &[u8]) {
    let Some((&kind, bytes)) = bytes.split_first() else { return };
    let name = own_name();
    let options = [
        StreamOptions::bytes(300).schema(b"string data").type_name("a/msg/B"),
        StreamOptions::image(8, 4, 3).topic("/camera"),
        StreamOptions::points(9, 16).checksum(true),
    ];
    let options = options[usize::from(kind % 3)].clone().slots(2);
    let meta = match kind % 3 {
        0 => FrameMeta::bytes(),
        1 => FrameMeta::image(8, 4, 24, "rgb8").frame_id("camera"),
        _ => FrameMeta::points(PointsLayout::xyz(6, 16)).frame_id("lidar"),
    };
    let Ok(mut writer) = Writer::create(&name, &options) else { return };
    for number in 1..=3 {
        writer.publish(&meta, &[number; 96]).expect("a frame that fits");
    }
    writer.close(false);
    let path = Name::new(&name).expect("a name").main_path();
    if let Some(memory) = spoil(&path, bytes)
        && kind & 128 != 0
    {
        seal(&memory);
    }
    read(&name);
    // The next writer continues in it, or creates another.
    if let Ok(mut writer) = Writer::create(&name, &options) {
        let _ = writer.publish(&meta, &[4; 96]);
        read(&name);
    }
    let _ = remove(&name);
}

fn read(name: &str) {
    let Ok(mut reader) = Reader::open(name) else { return };
    let bytes_max = reader.info().payload_bytes_max;
    let _ = (reader.counters(), reader.liveness(Duration::ZERO), reader.silence());
    let mut buffer = Vec::new();
    let _ = reader.borrow_latest().map(|frame| frame.verify_checksum());
    let _ = reader.copy_latest(&mut buffer);
    let _ = reader.receive(&mut buffer, Wait::Futex, Duration::ZERO);
    assert!(buffer.len() <= bytes_max);
    for seek in [Reader::seek_oldest, |reader: &mut Reader| reader.seek(1)] {
        seek(&mut reader);
        for _ in 0..3 {
            let Some(frame) = reader.next().frame else { continue };
            assert!(frame.payload_bytes() <= bytes_max);
            let _ = (frame.frames_left(), frame.verify_checksum());
            buffer.resize(frame.payload_bytes(), 0);
            let _ = frame.copy_to(&mut buffer);
        }
    }
    let _ = reader.readers();
}

/// A cycle board, with an application on it.
pub fn board(bytes: &[u8]) {
    let name = own_name();
    let Ok(mut cycle) = Cycle::join_on(&name, "planner") else { return };
    cycle.begin(3);
    // One that has seen the board whole.
    let mut before = CycleMonitor::open_board(&name).ok();
    let _ = before.as_mut().map(|monitor| monitor.look().len());
    let _ = spoil(&crate::cycle::board_path(&name), bytes);
    cycle.end();
    if let Ok(mut monitor) = CycleMonitor::open_board(&name) {
        look(&mut monitor);
    }
    let _ = before.as_mut().map(look);
    let _ = Cycle::join_on(&name, "another").map(|mut another| another.begin(u32::MAX));
    drop(cycle);
    let _ = remove_cycle_board(&name);
}

fn look(monitor: &mut CycleMonitor) {
    for application in monitor.look() {
        assert!(application.begins >= application.ends && !application.name.is_empty());
    }
}

#[cfg(test)]
mod tests;
