//! Too many open files: what cannot be done then is done later, or refused alone.

use livebag_shm::{FrameMeta, StreamOptions, Writer};

use super::ending::wait_until;
use super::*;
use crate::clock::Clock;
use crate::recorder::discovery::{Appeared, Discovery};
use crate::recorder::files_left::FilesLeft;
use crate::source::Selector;

#[test]
fn a_topic_whose_files_cannot_be_made_is_refused_alone() {
    let disk = SimulatedDisk::new(3);
    let recorder = record_with(&disk, RecorderOptions::default());
    let writers = ["/a", "/b"].map(|name| recorder.topic(topic(name)).unwrap());
    writers[0].write_message(&message(0, b"first")).unwrap();
    wait_until("the first topic's files are made", || recorder.status().totals().0 == 1);
    // Existing files: the reserve, a brick and an index.
    disk.inject(Fault::TooManyFilesFrom(3));
    for sequence in 1..100 {
        let at = (sequence % 2) as usize;
        let data = vec![at as u8; if sequence % 10 < 2 { 70_000 } else { 100 }];
        let message = Message { sequence: sequence / 2 + 1, ..message(sequence, &data) };
        writers[at].write_message(&message).unwrap();
    }
    let status = recorder.finish().unwrap();
    let [first, second] = &status.topics[..] else { panic!("two topics") };
    assert_eq!((first.messages, first.lost.total()), (50, 0));
    assert_eq!((second.messages, second.lost.disk), (0, 50));
    let system = second.refused.as_ref().and_then(|error| error.io_error()?.raw_os_error());
    assert_eq!((first.refused.is_some(), system), (false, Some(libc::EMFILE)));
    let container = Container::open_on(&disk, Path::new(DIRECTORY)).unwrap();
    assert_eq!(container.state(), ContainerState::Closed);
    assert_eq!((read_all(&container).len(), container.lost().disk), (50, 50));
    let text = disk.read(&Path::new(DIRECTORY).join("container.yaml")).unwrap();
    assert!(String::from_utf8_lossy(&text).contains("Too many open files"));
}

#[test]
fn old_splits_that_cannot_be_removed_at_once_are_removed_later() {
    let disk = SimulatedDisk::new(4);
    let retention = Retention { splits_max: Some(2), ..Retention::default() };
    let recorder = record_with(&disk, RecorderOptions { retention, ..RecorderOptions::default() });
    let writer = recorder.topic(topic("/a")).unwrap();
    disk.inject(Fault::TooManyFilesToListAt(0));
    let is_there = |name: &str| disk.read(&Path::new(DIRECTORY).join(name)).is_ok();
    for split in 0..4 {
        writer.write_message(&message(split, b"hello")).unwrap();
        wait_until("it is recorded", || recorder.status().totals().0 == split + 1);
        if split == 1 {
            // One of the files to be removed is gone before.
            disk.remove(&Path::new(DIRECTORY).join("a.idx")).unwrap();
        }
        recorder.split().unwrap();
        wait_until("the split", || u64::from(recorder.status().splits) == split + 2);
    }
    wait_until("they are gone", || {
        assert!(recorder.status().failure.is_none(), "{:?}", recorder.status().failure);
        !is_there("a.mcap") && !is_there("split_0001/a.mcap")
    });
    let status = recorder.finish().unwrap();
    assert_eq!(status.topics[0].removed, 3);
    let container = Container::open_on(&disk, Path::new(DIRECTORY)).unwrap();
    assert_eq!(container.state(), ContainerState::Closed);
    assert_eq!(read_all(&container).len(), 1);
}

#[test]
fn messages_of_a_refused_stream_that_is_gone_are_counted() {
    let (disk, clock) = (SimulatedDisk::new(5), Clock::system());
    let name = format!("refused-{}", std::process::id());
    let options = StreamOptions::bytes(100).slots(2).remove_on_drop(true);
    let mut writer = Writer::create(&name, &options).unwrap();
    let mut discovery = Discovery::new();
    discovery.follow(Selector::names([&name]));
    let mut look = || {
        let mut files = FilesLeft::new(&disk, 1, u64::MAX);
        discovery.look(0, &clock, &mut files)
    };
    let first = look();
    assert!(matches!(&first[..], [Appeared::Refused { name: refused, .. }] if *refused == name));
    for _ in 0..3 {
        writer.publish(&FrameMeta::bytes(), b"hello").unwrap();
    }
    assert!((0..10).all(|_| look().is_empty()));
    // This one nobody sees.
    writer.publish(&FrameMeta::bytes(), b"hello").unwrap();
    drop(writer);
    assert!(look().is_empty());
    assert_eq!(discovery.missed(), [(name, 3)]);
}

#[test]
fn recovery_that_cannot_list_a_split_hides_none() {
    let disk = SimulatedDisk::new(6);
    let recorder = record_with(&disk, RecorderOptions::default());
    let writer = recorder.topic(topic("/a")).unwrap();
    for number in 0..3 {
        writer.write_message(&message(number, b"hello")).unwrap();
        wait_until("it is recorded", || recorder.status().totals().0 > number);
        recorder.split().unwrap();
        wait_until("a split begins", || u64::from(recorder.status().splits) > number + 1);
    }
    let crashed = disk.crash();
    crashed.remove(&Path::new(DIRECTORY).join("container.yaml")).unwrap();
    let mut refused = 0;
    for number in 0..20 {
        let now = crashed.crash();
        now.inject(Fault::TooManyFilesToListAt(number));
        match Container::recover_on(&now, Path::new(DIRECTORY)) {
            Ok(container) => assert_eq!(read_all(&container).len(), 3, "listing {number}"),
            Err(_) => refused += 1,
        }
    }
    assert!((1..20).contains(&refused), "{refused}");
}

#[test]
fn recovery_that_cannot_open_a_file_is_tried_again() {
    let disk = SimulatedDisk::new(6);
    let recorder = record_with(&disk, RecorderOptions::default());
    for name in ["/a", "/b"] {
        recorder.topic(topic(name)).unwrap().write_message(&message(0, b"hello")).unwrap();
    }
    wait_until("both are recorded", || recorder.status().totals().0 == 2);
    let crashed = disk.crash();
    for name in ["a.idx", "a.mcap"] {
        let now = crashed.crash();
        now.inject(Fault::TooManyFilesToOpen(name));
        assert!(Container::open_on(&now, Path::new(DIRECTORY)).is_err());
        // Nothing says that it has been recovered.
        let later = now.crash();
        let container = Container::open_on(&later, Path::new(DIRECTORY)).unwrap();
        assert!(container.is_mended(), "{name}");
        assert_eq!((container.failure(), read_all(&container).len()), (None, 2), "{name}");
    }
}
