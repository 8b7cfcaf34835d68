//! Memory of topics that write seldom. In a separate process: it reads the process's peak memory.

use livebag::{Message, Overflow, Recorder, RecorderOptions, Topic};

#[expect(clippy::disallowed_methods, reason = "the kernel's word on this process")]
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// A file with 60,000 channels took 3.9 GB when it was converted: 50 KiB for each.
#[test]
fn thousands_of_topics_that_write_seldom_take_some_kilobytes_each() {
    const TOPICS: u64 = 3000;
    let folder = tempfile::tempdir().unwrap();
    let options = RecorderOptions {
        overflow: Overflow::Block,
        chunk_age_max: None,
        ..RecorderOptions::default()
    };
    let recorder = Recorder::create(&folder.path().join("run"), options).unwrap();
    let before = peak_bytes();
    let topic = |number| Topic { name: format!("/t{number}"), ..Topic::default() };
    let writers: Vec<_> =
        (0..TOPICS).map(|number| recorder.topic(topic(number)).unwrap()).collect();
    for (number, writer) in writers.iter().enumerate() {
        let log_time_nanos = 1000 + number as u64;
        let message =
            Message { log_time_nanos, publish_time_nanos: 1, sequence: 1, data: b"hello" };
        writer.write_message(&message).unwrap();
    }
    drop(writers);
    let status = recorder.finish().unwrap();
    assert_eq!(status.totals().0, TOPICS);
    let each = (peak_bytes() - before) / TOPICS;
    assert!(each < 24 << 10, "{each} bytes for each topic");
}
