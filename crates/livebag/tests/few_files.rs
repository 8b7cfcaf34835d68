//! Recording with fewer open files than topics. In a separate process: it lowers the process's limit.

use std::path::Path;
use std::time::Duration;

use livebag::{Container, ContainerState, Message, Overflow, Recorder, RecorderOptions, Topic};
use livebag_bags::{Sqlite3Options, record_sqlite, verify};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn topics_that_are_one_too_many_are_refused_and_the_others_go_on() {
    const TOPICS: u64 = 200;
    let folder = tempfile::tempdir().unwrap();
    // An even and an odd number: a topic's brick or its index is the one file too many.
    for files in [65, 64] {
        let limit = Rlimit { current: Some(files), maximum: Some(files + 1000) };
        setrlimit(Resource::Nofile, limit).unwrap();
        let path = folder.path().join(format!("run{files}"));
        let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
        let recorder = Recorder::create(&path, options).unwrap();
        let make = |number: u64| {
            recorder.topic(Topic { name: format!("/t{number}"), ..Topic::default() }).unwrap()
        };
        let writers: Vec<_> = (0..TOPICS).map(make).collect();
        for sequence in 1..=2 {
            for (number, writer) in (0..).zip(&writers) {
                let log_time_nanos = 1000 * sequence + number;
                let message =
                    Message { log_time_nanos, publish_time_nanos: 1, sequence, data: b"hello" };
                writer.write_message(&message).unwrap();
            }
            // The first half is on its way before the second.
            while recorder.status().account().published() < sequence * TOPICS {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
        let status = recorder.finish().unwrap();
        for topic in &status.topics {
            let refusal = topic.refused.as_deref().map(ToString::to_string);
            assert_eq!(
                (topic.messages, topic.lost.disk),
                if refusal.is_some() { (0, 2) } else { (2, 0) }
            );
            let system = topic.refused.as_ref().and_then(|error| error.io_error()?.raw_os_error());
            assert_eq!(system, refusal.as_ref().map(|_| Errno::MFILE.raw_os_error()));
            assert!(refusal.is_none_or(|text| text.contains("ulimit -n")));
        }
        assert!(verify(&path, &mut |_| {}).unwrap().is_whole());
        let container = Container::open(&path).unwrap();
        assert_eq!(container.state(), ContainerState::Closed);
        let account = container.account().unwrap();
        assert!(account.recorded > 20, "{account:?}");
        assert_eq!(account.recorded + account.lost.disk, 2 * TOPICS, "{account:?}");
        // The limit is the program's to raise, not the recorder's.
        assert_eq!(getrlimit(Resource::Nofile), limit);
    }
    the_next_database_waits_for_files(&folder.path().join("databases"));
    livebag::raise_file_limit();
    let raised = getrlimit(Resource::Nofile);
    assert_eq!(raised.current, raised.maximum);
}

fn the_next_database_waits_for_files(path: &Path) {
    let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
    let recorder = record_sqlite(path, options, Sqlite3Options::default()).unwrap();
    let writer = recorder.topic(Topic { name: "/a".into(), ..Topic::default() }).unwrap();
    let write = |sequence| {
        let log_time_nanos = 1000 + sequence;
        let message = Message { log_time_nanos, publish_time_nanos: 1, sequence, data: b"hello" };
        writer.write_message(&message).unwrap();
        while recorder.status().totals().0 < sequence {
            assert!(recorder.status().failure.is_none(), "{:?}", recorder.status());
            std::thread::park_timeout(Duration::from_millis(1));
        }
    };
    write(1);
    let all: Vec<_> = std::iter::from_fn(|| rustix::io::dup(std::io::stdin()).ok()).collect();
    recorder.split().unwrap();
    (2..100).for_each(write);
    assert_eq!(recorder.status().splits, 1);
    drop(all);
    while recorder.status().splits == 1 {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    write(100);
    assert_eq!(recorder.finish().unwrap().totals().0, 100);
    assert!(verify(path, &mut |_| {}).unwrap().is_whole());
}
