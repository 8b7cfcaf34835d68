//! A stream from the outside, within one process.
#![cfg(not(loom))]

mod common;

use std::os::fd::AsFd;
use std::time::Duration;

use common::{MOMENT, Removed, bytes, open, unique, until, until_gone};
use livebag_shm::{
    CreateError, FrameLayout, FrameMeta, ImageLayout, Kind, Liveness, OpenError, Placement,
    PointField, PointsLayout, PublishError, Reader, RemoveError, StreamOptions, Wait, Writer, list,
    remove,
};

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
    assert_eq!(borrowed.as_ptr().addr() % 4096, 0);
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

#[test]
fn images_and_points_keep_their_layout() {
    let name = unique("image");
    let options = StreamOptions::image(4, 3, 2).schema(b"uint32 height").remove_on_drop(true);
    let mut writer = Writer::create(&name, &options).unwrap();
    let mut reader = Reader::open(&name).unwrap();
    let info = reader.info().clone();
    assert_eq!((info.kind, info.topic.as_str()), (Kind::Image, format!("/{name}").as_str()));
    assert_eq!(info.type_name, "sensor_msgs/msg/Image");
    assert_eq!((info.payload_bytes_max, info.schema.as_slice()), (24, b"uint32 height".as_slice()));
    let layout = ImageLayout {
        width: 4,
        height: 3,
        step: 8,
        encoding: "16UC1, the longest one possible.".to_owned(),
        is_bigendian: true,
    };
    let meta = FrameMeta {
        publish_time_nanos: None,
        layout: FrameLayout::Image(layout),
        frame_id: "f".repeat(255),
    };
    writer.publish(&meta, &[9; 24]).unwrap();
    let header = reader.copy_latest(&mut Vec::new()).unwrap().unwrap();
    assert_eq!((&header.layout, &header.frame_id), (&meta.layout, &meta.frame_id));
    assert!(header.publish_time_nanos > 1_600_000_000_000_000_000);

    let name = unique("points");
    let options = StreamOptions::points(10, 20).remove_on_drop(true);
    let mut writer = Writer::create(&name, &options).unwrap();
    let field = |index: u32| PointField {
        name: format!("field-{index}-{}", "x".repeat(20)),
        offset: index * 4,
        datatype: PointField::FLOAT32,
        count: index,
    };
    let layout = PointsLayout {
        fields: (0..32).map(field).collect(),
        is_dense: false,
        ..PointsLayout::xyz(10, 20)
    };
    let mut loan = writer.loan();
    loan.payload_mut().fill(5);
    loan.publish(&FrameMeta::points(layout.clone()), 200).unwrap();
    let frame = Reader::open(&name).unwrap();
    let frame = frame.borrow_latest().unwrap();
    assert_eq!(frame.header().layout, FrameLayout::Points(layout));
    assert_eq!(frame.len(), 200);
}

#[test]
fn what_does_not_fit_is_refused_and_counted() {
    let name = unique("refused");
    let mut writer = Writer::create(&name, &bytes(10)).unwrap();
    let too_large = writer.publish(&FrameMeta::bytes(), &[0; 11]);
    assert_eq!(too_large, Err(PublishError::TooLarge { found: 11, expected: 10 }));
    let image = writer.publish(&FrameMeta::image(1, 1, 1, "mono8"), &[0]);
    assert!(matches!(image, Err(PublishError::Kind { .. })));
    let long = writer.publish(&FrameMeta::bytes().frame_id(&"f".repeat(256)), &[0]);
    assert!(matches!(long, Err(PublishError::TooLong { field: "frame_id", .. })));
    assert!(writer.loan().publish(&FrameMeta::bytes(), 11).is_err());
    drop(writer.loan());
    assert_eq!(writer.publish(&FrameMeta::bytes(), &[1; 10]), Ok(1));
    let counters = Reader::open(&name).unwrap().counters();
    assert_eq!((counters.dropped, counters.abandoned, counters.published), (4, 2, 1));
}

#[test]
fn bad_names_and_options_are_refused() {
    for bad in ["", ".", "a/b", "..", "a..b", ".hidden", "x.wake", "ö", "a b", &"n".repeat(201)] {
        assert!(matches!(Writer::create(bad, &bytes(1)), Err(CreateError::Name(_))), "{bad:?}");
        assert!(matches!(Reader::open(bad), Err(OpenError::Name(_))), "{bad:?}");
        assert!(matches!(remove(bad), Err(RemoveError::Name(_))), "{bad:?}");
    }
    let name = unique("options");
    let bad = [bytes(0), bytes(1 << 33), bytes(1).slots(1), bytes(1).slots(1025)];
    let long = [
        bytes(1).topic(&"t".repeat(509)),
        bytes(1).type_name(&"t".repeat(253)),
        bytes(1).encodings(&"t".repeat(61), ""),
        bytes(1).schema(&vec![0; (1 << 20) + 1]),
    ];
    for options in bad.iter().chain(&long) {
        let error = Writer::create(&name, options).unwrap_err();
        assert!(matches!(error, CreateError::Option { .. }), "{error}");
    }
    let error = Writer::create(&name, &bytes(1).group("no-such-group")).unwrap_err();
    assert!(matches!(error, CreateError::Group { .. }));
    let error = Reader::open(&name).unwrap_err();
    assert!(matches!(error, OpenError::NotFound { .. }) && error.is_transient());
}

#[test]
fn a_stream_has_one_writer_and_goes_on_after_it() {
    let name = unique("epochs");
    let _removed = Removed(name.clone());
    let options = StreamOptions::bytes(100);
    let mut first = Writer::create(&name, &options).unwrap();
    first.publish(&FrameMeta::bytes(), b"one").unwrap();
    let refused = Writer::create(&name, &options).unwrap_err();
    let own = u64::from(std::process::id());
    assert!(matches!(refused, CreateError::LiveWriter { pid, .. } if pid == own), "{refused}");
    assert!(matches!(remove(&name), Err(RemoveError::LiveWriter { .. })));

    let mut reader = Reader::open(&name).unwrap();
    assert_eq!(reader.liveness(MOMENT), Liveness::Live);
    assert_eq!(reader.liveness(Duration::ZERO), Liveness::Stalled);
    drop(first);
    assert_eq!(reader.liveness(MOMENT), Liveness::Gone);
    let mut buffer = Vec::new();
    assert!(reader.copy_latest(&mut buffer).unwrap().is_some(), "late readers are served");

    let mut second = Writer::create(&name, &options).unwrap();
    assert_eq!(second.epoch(), 2);
    assert_eq!(second.publish(&FrameMeta::bytes(), b"two").unwrap(), 2);
    assert_eq!(reader.liveness(MOMENT), Liveness::Live);
    assert_eq!(reader.copy_latest(&mut buffer).unwrap().unwrap().sequence, 2);
    assert_eq!(buffer, b"two");
    second.close(true);
    assert!(matches!(remove(&name), Err(RemoveError::NotFound { .. })));
}

#[test]
fn another_geometry_makes_another_region() {
    let name = unique("replaced");
    let mut old = Writer::create(&name, &StreamOptions::bytes(100)).unwrap();
    old.publish(&FrameMeta::bytes(), b"old").unwrap();
    drop(old);
    let mut reader = Reader::open(&name).unwrap();
    let mut new = Writer::create(&name, &bytes(200)).unwrap();
    assert_eq!(new.warnings().len(), 1, "{:?}", new.warnings());
    assert_eq!(new.publish(&FrameMeta::bytes(), b"new").unwrap(), 1);
    let mut buffer = Vec::new();
    assert_eq!(reader.liveness(MOMENT), Liveness::Gone);
    assert!(!reader.wait(Wait::Futex, 1, MOMENT), "a replaced region ends the wait");
    reader.copy_latest(&mut buffer).unwrap().unwrap();
    assert_eq!(buffer, b"old", "the old mapping stays");
    let mut reopened = Reader::open(&name).unwrap();
    assert_ne!(reopened.info().instance, reader.info().instance);
    reopened.copy_latest(&mut buffer).unwrap().unwrap();
    assert_eq!(buffer, b"new");
}

#[test]
fn laps_are_counted_exactly() {
    let name = unique("laps");
    let mut writer = Writer::create(&name, &bytes(8).slots(4)).unwrap();
    let mut reader = Reader::open(&name).unwrap();
    for _ in 0..10 {
        writer.publish(&FrameMeta::bytes(), b"frame").unwrap();
    }
    let next = reader.next();
    let frame = next.frame.unwrap();
    assert_eq!((next.lapped, frame.sequence()), (6, 7));
    assert_eq!(frame.frames_left(), 0);
    assert!(frame.is_intact());
    // Filling frame 11 in place takes only the slot of frame 7.
    let loan = writer.loan();
    assert!(!frame.is_intact());
    assert!(!frame.copy_to(&mut [0; 5]));
    drop(loan);
    let rest: Vec<_> = std::iter::from_fn(|| reader.next().frame).collect();
    assert_eq!(rest.iter().map(|frame| frame.sequence()).collect::<Vec<_>>(), [8, 9, 10]);
    assert!(rest.iter().all(|frame| frame.is_intact()));
    reader.seek(1);
    let next = reader.next();
    assert_eq!((next.lapped, next.frame.unwrap().sequence()), (7, 8));
    reader.seek_oldest();
    // Frame 7 counts: its slot was taken by the loan.
    assert_eq!(reader.next().lapped, 1);
}

#[test]
fn an_event_loop_is_told() {
    let name = unique("event");
    let mut writer = Writer::create(&name, &bytes(8)).unwrap();
    let reader = Reader::open(&name).unwrap();
    let event = reader.event().unwrap();
    assert_eq!(event.drain(), 0);
    for _ in 0..3 {
        writer.publish(&FrameMeta::bytes(), b"frame").unwrap();
        let mut fds = [rustix::event::PollFd::new(&event, rustix::event::PollFlags::IN)];
        let timeout = rustix::time::Timespec { tv_sec: 20, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut fds, Some(&timeout)).unwrap(), 1);
        assert!(event.drain() > 0);
    }
    assert!(rustix::io::fcntl_getfd(event.as_fd()).is_ok());
}

#[test]
fn sleepers_wake_with_and_without_a_wake_object() {
    let without = unique("no-wake");
    let mut cases = vec![(unique("wake"), bytes(200_000)), (without.clone(), bytes(200_000))];
    let own_group = rustix::process::getegid().as_raw().to_string();
    cases.push((unique("group"), bytes(200_000).group(&own_group)));
    for (name, options) in cases {
        let mut writer = Writer::create(&name, &options).unwrap();
        if name == without {
            common::delete(&format!("{}.wake", common::main_path(&name)));
        }
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let mut reader = Reader::open(&name).unwrap();
                common::spawn(move || {
                    let mut buffer = Vec::new();
                    let mut seen = 0;
                    while seen < 30 {
                        let header = reader.receive(&mut buffer, Wait::Futex, MOMENT).unwrap();
                        seen = header.expect("a frame in time").sequence;
                        assert!(common::is_right(seen, &buffer));
                        assert!(reader.wait(Wait::Futex, seen - 1, MOMENT));
                    }
                })
            })
            .collect();
        let mut data = vec![0; 200_000];
        for sequence in 1..=30 {
            common::fill(sequence, &mut data);
            assert_eq!(writer.publish(&FrameMeta::bytes(), &data), Ok(sequence));
            std::thread::yield_now();
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    }
}

#[test]
fn a_group_may_read_and_nothing_more() {
    use std::os::unix::fs::MetadataExt;
    let name = unique("rights");
    let _writer = Writer::create(&name, &bytes(8)).unwrap();
    let mode = |path: String| std::fs::metadata(path).map(|data| data.mode() & 0o777).ok();
    let wake = |name: &str| format!("{}.wake", common::main_path(name));
    assert_eq!(mode(common::main_path(&name)), Some(0o600));
    assert_eq!(mode(wake(&name)), Some(0o600));
    let name = unique("group-rights");
    let own_group = rustix::process::getegid().as_raw().to_string();
    let _writer = Writer::create(&name, &bytes(8).group(&own_group)).unwrap();
    assert_eq!(mode(common::main_path(&name)), Some(0o640));
    assert_eq!(mode(wake(&name)), None);
}

#[test]
fn streams_are_listed_and_removed() {
    let name = unique("listed");
    let writer = Writer::create(&name, &StreamOptions::bytes(8)).unwrap();
    assert!(list().unwrap().contains(&name));
    let reader = open(&name);
    drop(writer);
    until_gone(&reader);
    remove(&name).unwrap();
    assert!(!list().unwrap().contains(&name));
}

#[test]
fn a_wish_that_is_not_granted_is_a_warning() {
    let name = unique("placement");
    let placement = Placement {
        numa_node: Some(1000),
        cpu: Some(1023),
        fifo_priority: Some(1000),
        ..Placement::default()
    };
    let mut writer = Writer::create(&name, &bytes(8).placement(placement)).unwrap();
    let warnings = writer.warnings().join("\n");
    for cure in ["numactl", "lscpu", "CAP_SYS_NICE"] {
        assert!(warnings.contains(cure), "{warnings}");
    }
    writer.publish(&FrameMeta::bytes(), b"frame").unwrap();
}

#[test]
fn large_streams_work_with_and_without_huge_pages() {
    use livebag_shm::HugePages;
    for huge_pages in [HugePages::Auto, HugePages::Off] {
        let name = unique("huge");
        let placement = Placement { huge_pages, ..Placement::default() };
        let payload_bytes = (3 << 20) + 17;
        let options = bytes(payload_bytes).slots(3).placement(placement);
        let mut writer = Writer::create(&name, &options).unwrap();
        let mut reader = Reader::open(&name).unwrap();
        let mut data = vec![0; payload_bytes];
        let mut buffer = Vec::new();
        for sequence in 1..=5 {
            common::fill(sequence, &mut data);
            writer.publish(&FrameMeta::bytes(), &data).unwrap();
            let frame = reader.next().frame.unwrap();
            assert_eq!(frame.payload_ptr().addr() % 4096, 0);
            reader.copy_latest(&mut buffer).unwrap().unwrap();
            assert!(buffer == data);
        }
    }
}

#[test]
fn the_heartbeat_and_the_counters_tell() {
    let name = unique("beat");
    let mut writer = Writer::create(&name, &bytes(8)).unwrap();
    let reader = Reader::open(&name).unwrap();
    let before = reader.counters();
    writer.heartbeat();
    writer.count_dropped(3);
    writer.publish(&FrameMeta::bytes(), b"12345").unwrap();
    until("a gap of a millisecond", || {
        writer.publish(&FrameMeta::bytes(), b"12345").unwrap();
        reader.counters().publish_gap_max_nanos > 1_000_000
    });
    let after = reader.counters();
    assert_eq!(after.dropped, 3);
    assert!(after.heartbeats > before.heartbeats + 2);
    assert!(after.heartbeat_monotonic_nanos >= before.heartbeat_monotonic_nanos);
    assert_eq!(after.payload_bytes_published, 5 * after.published);
    assert!(after.writer_start_ticks > 0 && after.epoch == 1);
}

#[test]
fn readers_and_frames_may_go_to_other_threads() {
    fn is_send<T: Send + 'static>() {}
    is_send::<Reader>();
    is_send::<Writer>();
    is_send::<livebag_shm::FrameRef>();
    let name = unique("threads");
    let mut writer = Writer::create(&name, &bytes(8)).unwrap();
    let mut reader = Reader::open(&name).unwrap();
    writer.publish(&FrameMeta::bytes(), b"whole").unwrap();
    let frame = reader.next().frame.unwrap();
    drop((reader, writer));
    // The frame keeps the memory, after stream and reader are gone.
    let copy = common::spawn(move || {
        let mut copy = vec![0; frame.payload_bytes()];
        (frame.copy_to(&mut copy), copy)
    });
    assert_eq!(copy.join().unwrap(), (true, b"whole".to_vec()));
}
