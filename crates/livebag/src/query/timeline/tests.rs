use std::path::Path;
use std::time::Duration;

use livebag_format::{Message, Topic};

use super::*;
use crate::{Clock, Overflow, Query, Recorder, RecorderOptions};

const START: u64 = 1_700_000_000_000_000_000;
const STEP: u64 = 10_000_000;

fn until(what: &str, is_so: impl Fn() -> bool) {
    let clock = Clock::system();
    let began = clock.monotonic_nanos();
    while !is_so() {
        assert!(clock.monotonic_nanos() - began < 60_000_000_000, "waited too long for {what}");
        clock.sleep(Duration::from_millis(1));
    }
}

/// Two topics at 100 Hz and 33 Hz in three splits. `/a` misses messages 100 to 104 and 250, and says nothing for
/// two seconds behind message 299.
fn record(path: &Path) {
    let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
    let recorder = Recorder::create(path, options).unwrap();
    let topic = |name: &str| recorder.topic(Topic { name: name.into(), ..Topic::default() });
    let (a, b) = (topic("/a").unwrap(), topic("/b").unwrap());
    let mut written = 0;
    for k in 0..600u64 {
        if [200, 400].contains(&k) {
            until("messages", || recorder.status().totals().0 == written);
            let before = recorder.status().splits;
            recorder.split().unwrap();
            until("a split", || recorder.status().splits > before);
        }
        let log_time_nanos = START + k * STEP + if k < 300 { 0 } else { 2_000_000_000 };
        let data = vec![0; (k % 50) as usize];
        let message = Message { log_time_nanos, publish_time_nanos: 1, sequence: k, data: &data };
        if !(100..105).contains(&k) && k != 250 {
            a.write_message(&message).unwrap();
            written += 1;
        }
        if k % 3 == 0 {
            b.write_message(&Message { sequence: k / 3, ..message }).unwrap();
            written += 1;
        }
    }
    recorder.finish().unwrap();
}

/// Counts and bytes from every entry.
fn counted(container: &Container, topic: usize, bins: TimeBins) -> (Vec<u64>, Vec<u64>) {
    let (mut counts, mut bytes) = (vec![0; bins.count()], vec![0; bins.count()]);
    let topics = vec![container.topics()[topic].topic().name.clone()];
    let mut cursor = container.query(&Query { topics, ..Query::default() }).unwrap();
    while let Some((_, entry)) = cursor.next_entry().unwrap() {
        if let Some(bin) = bins.bin_of(entry.log_time_nanos) {
            counts[bin] += 1;
            bytes[bin] += u64::from(entry.data_bytes);
        }
    }
    (counts, bytes)
}

#[test]
fn bins_hold_what_the_entries_say_however_narrow() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    record(&path);
    let container = Container::open(&path).unwrap();
    // With few cells some bins are narrower than the cells.
    for cells_max in [8, 64, 1 << 13] {
        let mut cache = TimelineCache::default();
        container.refresh(&[0, 1], &mut cache).unwrap();
        for summary in cache.topics.values_mut() {
            *summary = Summary::default();
        }
        for (number, summary) in &mut cache.topics {
            summary.refresh(&container.topics()[*number], cells_max).unwrap();
        }
        for (from, to, bins_max) in [
            (None, None, 600),
            (None, None, 2),
            (Some(START + 77 * STEP), Some(START + 93 * STEP), 100),
            (Some(START + 77 * STEP), Some(START + 293 * STEP), 4000),
            (Some(START + 150 * STEP), Some(START + 450 * STEP), 10),
            (Some(0), Some(u64::MAX), 30),
            (Some(START - 9 * STEP), Some(START - 5 * STEP), 7),
        ] {
            let query =
                TimelineQuery { from_nanos: from, to_nanos: to, bins_max, ..Default::default() };
            let timeline = container.timeline(&query, &mut cache).unwrap();
            let bins = timeline.bins;
            assert!(
                bins.count() <= bins_max && (2 * bins.count() >= bins_max || bins.bin_nanos() == 1)
            );
            assert!(bins.start_nanos() <= from.unwrap_or(START));
            for topic in &timeline.topics {
                let expected = counted(&container, topic.topic, bins);
                assert_eq!(
                    (&topic.message_counts, &topic.message_bytes),
                    (&expected.0, &expected.1)
                );
            }
        }
    }
}

#[test]
fn losses_stand_where_they_were_and_sum_up_to_the_account() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    record(&path);
    let container = Container::open(&path).unwrap();
    let mut cache = TimelineCache::default();
    let at = |k: u64| START + k * STEP;
    for (from, to) in [(None, None), (Some(at(95)), Some(at(255)))] {
        let query =
            TimelineQuery { from_nanos: from, to_nanos: to, bins_max: 600, ..Default::default() };
        let timeline = container.timeline(&query, &mut cache).unwrap();
        let cause = Some(LossCause::Transport);
        let lost = [
            LossSpan { from_nanos: at(99), to_nanos: at(105), count: 5, cause },
            LossSpan { from_nanos: at(249), to_nanos: at(251), count: 1, cause },
        ];
        assert_eq!(timeline.topics[0].lost, lost);
        assert_eq!(
            (timeline.topics[0].unplaced_total, timeline.topics[0].unplaced),
            (0, Losses::default())
        );
        assert_eq!(timeline.topics[1].lost, []);
    }
    let timeline = container
        .timeline(&TimelineQuery { bins_max: 600, ..Default::default() }, &mut cache)
        .unwrap();
    assert_eq!(timeline.topics[0].silences, [(at(299), at(300) + 2_000_000_000)]);
    assert_eq!(timeline.splits.len(), 2);
    assert_eq!(timeline.splits[0].1, at(200));
    assert_eq!(timeline.splits[1].1, at(400) + 2_000_000_000);
    let progress = container.progress(&mut cache).unwrap();
    assert_eq!(progress[0].message_count, 594);
    assert_eq!(progress[0].newest_nanos, Some(at(599) + 2_000_000_000));
    assert_eq!(progress[0].silence_nanos, Some(500_000_000));
}

#[test]
fn what_was_left_out_on_purpose_is_no_loss() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let options = RecorderOptions {
        overflow: Overflow::Block,
        count_gaps: false,
        ..RecorderOptions::default()
    };
    let recorder = Recorder::create(&path, options).unwrap();
    let a = recorder.topic(Topic { name: "/a".into(), ..Topic::default() }).unwrap();
    for k in 0..10 {
        let message = Message {
            log_time_nanos: START + k * STEP,
            publish_time_nanos: 1,
            sequence: k * 7,
            data: b"x",
        };
        a.write_message(&message).unwrap();
    }
    // Lost at an unknown place.
    a.lost_in_transport(3);
    recorder.finish().unwrap();
    let container = Container::open(&path).unwrap();
    let query = TimelineQuery { bins_max: 600, ..Default::default() };
    let timeline = container.timeline(&query, &mut TimelineCache::default()).unwrap();
    assert_eq!(timeline.topics[0].lost, []);
    assert_eq!((timeline.topics[0].unplaced_total, timeline.topics[0].unplaced.transport), (3, 3));
}

#[test]
fn a_live_recording_is_read_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
    let recorder = Recorder::create(&path, options).unwrap();
    let a = recorder.topic(Topic { name: "/a".into(), ..Topic::default() }).unwrap();
    let mut cache = TimelineCache::default();
    for round in 1..=3u64 {
        for k in 0..100 {
            let log_time_nanos = START + (round * 100 + k) * STEP;
            let message = Message {
                log_time_nanos,
                publish_time_nanos: 1,
                sequence: round * 100 + k,
                data: b"x",
            };
            a.write_message(&message).unwrap();
        }
        until("messages", || recorder.status().totals().0 == round * 100);
        // Opened again, as a server does.
        let container = Container::peek(&path).unwrap();
        let query = TimelineQuery { bins_max: 600, ..Default::default() };
        let timeline = container.timeline(&query, &mut cache).unwrap();
        assert_eq!(timeline.topics[0].message_counts.iter().sum::<u64>(), round * 100);
        assert_eq!(timeline.topics[0].lost, []);
    }
    recorder.finish().unwrap();
}

#[test]
fn bins_lie_on_a_grid() {
    for (from, to, most) in [(0, u64::MAX, 2), (5, 5, 600), (1 << 63, u64::MAX, 4000), (7, 8, 2)] {
        let bins = TimeBins::new(from, to, most);
        assert!(bins.count() <= most && bins.start_nanos() <= from && bins.last_nanos() >= to);
        assert_eq!(bins.start_nanos() % bins.bin_nanos(), 0);
        assert_eq!(bins.bin_of(from), Some(0));
        assert_eq!(bins.bin_of(to), Some(bins.count() - 1));
    }
}

#[test]
fn several_threads_sum_up_what_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run1");
    record(&path);
    let container = Container::open(&path).unwrap();
    let summed = |threads: usize| {
        let mut summaries: Vec<Summary> = Vec::new();
        summaries.resize_with(container.topics.len(), Summary::default);
        let pairs = container.topics.iter().zip(&mut summaries);
        let work =
            pairs.map(|(topic, summary)| (summary.new_entries(topic).unwrap(), topic, summary));
        sum_up(work.collect(), 100, threads).unwrap();
        let told = |summary: &Summary| {
            let cells = summary.cells.iter().map(|cell| (cell.number, cell.count, cell.bytes));
            (summary.progress(), summary.shift, cells.collect::<Vec<_>>())
        };
        summaries.iter().map(told).collect::<Vec<_>>()
    };
    let alone = summed(1);
    assert_eq!(alone[0].0.message_count, 594);
    assert_eq!(summed(3), alone);
}
