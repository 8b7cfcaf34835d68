//! A stream from the outside, within one process.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::time::Duration;

use common::unique;
use livebag_shm::{
    CreateError, FrameLayout, FrameMeta, ImageLayout, Liveness, OpenError, PointField,
    PointsLayout, PublishError, Reader, StreamOptions, Wait, Writer, list, remove,
};

const MOMENT: Duration = Duration::from_secs(20);

fn bytes(payload_bytes_max: usize) -> StreamOptions {
    StreamOptions::bytes(payload_bytes_max).remove_on_drop(true)
}

#[test]
fn a_frame_arrives_by_every_way_of_reading() {
    let name = unique("ways");
    let mut writer = Writer::create(&name, &bytes(100_000).slots(2)).unwrap();
    let mut reader = Reader::open(&name).unwrap();
    let mut buffer = Vec::new();
    assert_eq!(reader.latest_sequence(), 0);
    assert!(reader.copy_latest(&mut buffer).unwrap().is_none());
    assert!(reader.borrow_latest().is_none());
    assert!(reader.next().frame.is_none());

    let data: Vec<u8> = (0..99_999u32).map(|i| (i % 251) as u8).collect();
    let meta = FrameMeta::bytes().frame_id("map").publish_time_nanos(7);
    assert_eq!(writer.publish(&meta, &data).unwrap(), 1);

    let header = reader.copy_latest(&mut buffer).unwrap().unwrap();
    assert_eq!((header.sequence, header.publish_time_nanos), (1, 7));
    assert_eq!((header.frame_id.as_str(), header.payload_bytes), ("map", 99_999));
    assert_eq!(buffer, data);

    let borrowed = reader.borrow_latest().unwrap();
    assert_eq!(borrowed.header(), &header);
    assert!(borrowed.as_ptr().cast::<[u8; 4096]>().addr().is_multiple_of(4096));
    assert!(borrowed.validate());

    let frame = reader.next().frame.unwrap();
    assert_eq!(frame.header(), &header);
    let mut copy = vec![0; frame.payload_bytes()];
    assert!(frame.copy_to(&mut copy));
    assert_eq!(copy, data);

    let mut fresh = Reader::open(&name).unwrap();
    let received = fresh.receive(&mut buffer, Wait::Futex, MOMENT).unwrap().unwrap();
    assert_eq!(received, header);
    assert_eq!(buffer, data);
    assert!(fresh.receive(&mut buffer, Wait::Futex, Duration::ZERO).unwrap().is_none());
}
