use std::path::Path;

use livebag_format::{Message, Topic};

use crate::{Container, Overflow, Query, Recorder, RecorderOptions, Span, SplitRules, TopicRange};

/// Log times of /a, of which several are equal.
const TIMES: [u64; 12] = [0, 5, 5, 5, 9, 10, 20, 20, 30, 31, 32, 40];

fn record(path: &Path, split: SplitRules) -> Recorder {
    let options = RecorderOptions { split, overflow: Overflow::Block, ..Default::default() };
    let recorder = Recorder::create(path, options).unwrap();
    let writer = recorder.topic(Topic { name: "/a".into(), ..Topic::default() }).unwrap();
    for (k, &time) in TIMES.iter().enumerate() {
        let data = vec![k as u8; 1000 + k % 2];
        let message = Message {
            log_time_nanos: time,
            publish_time_nanos: time,
            sequence: k as u64 + 1,
            data: &data,
        };
        writer.write_message(&message).unwrap();
    }
    recorder
}

fn count(container: &Container, from: u64, to: u64) -> u64 {
    let query = Query { topics: vec!["/a".into()], span: Span::History(from, to) };
    let mut cursor = container.query(&query).unwrap();
    let mut count = 0;
    while cursor.next().unwrap().is_some() {
        count += 1;
    }
    count
}

/// Every message is in exactly one stretch, and the edges are those of the messages.
fn check(container: &Container) {
    const EDGES: [u64; 9] = [0, 1, 5, 9, 20, 25, 32, 40, 41];
    for (at, from) in EDGES.into_iter().enumerate() {
        for &to in &EDGES[at..] {
            for bytes in [1, 999, 2_500, 5_000, 1 << 40] {
                let ranges = container.ranges("/a", from, to, bytes).unwrap();
                let inside: Vec<u64> =
                    TIMES.into_iter().filter(|time| (from..=to).contains(time)).collect();
                let edge = |find: fn(&[TopicRange]) -> Option<u64>| find(&ranges);
                assert_eq!(edge(|all| Some(all.first()?.from_nanos)), inside.first().copied());
                assert_eq!(edge(|all| Some(all.last()?.to_nanos)), inside.last().copied());
                let mut end = None;
                let mut sum = 0;
                for range in &ranges {
                    assert!(end < Some(range.from_nanos) && range.from_nanos <= range.to_nanos);
                    assert_eq!(
                        range.message_count,
                        count(container, range.from_nanos, range.to_nanos)
                    );
                    end = Some(range.to_nanos);
                    sum += range.message_count;
                }
                assert_eq!(sum, inside.len() as u64, "{from}..{to}, {bytes}: {ranges:?}");
                if bytes == 1 {
                    // One log time each.
                    let mut times = inside.clone();
                    times.dedup();
                    assert_eq!(ranges.len(), times.len());
                }
                if bytes == 1 << 40 {
                    assert!(ranges.len() <= 1);
                }
            }
        }
    }
}

#[test]
fn stretches_hold_every_message_once() {
    let folder = tempfile::tempdir().unwrap();
    record(&folder.path().join("one"), SplitRules::default()).finish().unwrap();
    check(&Container::open(&folder.path().join("one")).unwrap());

    let live = record(&folder.path().join("live"), SplitRules::default());
    let path = folder.path().join("live");
    let container = loop {
        let container = Container::open(&path).unwrap();
        let is_there = container.topics().iter().any(|topic| topic.message_count().unwrap() == 12);
        if is_there {
            break container;
        }
        std::thread::yield_now();
    };
    check(&container);
    live.finish().unwrap();
}

#[test]
fn neighbours_of_a_time_are_found() {
    let folder = tempfile::tempdir().unwrap();
    record(&folder.path().join("one"), SplitRules::default()).finish().unwrap();
    let container = Container::open(&folder.path().join("one")).unwrap();
    for nanos in (0..=45).chain([u64::MAX]) {
        let before = TIMES.into_iter().filter(|&time| time <= nanos).max();
        let after = TIMES.into_iter().filter(|&time| time >= nanos).min();
        assert_eq!(container.around("/a", nanos).unwrap(), (before, after), "{nanos}");
    }
    assert!(container.around("/b", 0).is_err());
}
