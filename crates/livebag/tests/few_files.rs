//! Recording with fewer open files than topics. In a process of its own: it lowers the process's limit.

use livebag::{Container, ContainerState, Message, Overflow, Recorder, RecorderOptions, Topic};
use livebag_bags::verify;
use rustix::process::{Resource, Rlimit, setrlimit};

#[test]
fn a_recording_with_more_topics_than_files_is_closed_and_counted() {
    const TOPICS: u64 = 200;
    let folder = tempfile::tempdir().unwrap();
    // An even and an odd number: a topic's brick or its index is the one file too many.
    for files in [65, 64] {
        setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum: Some(files) }).unwrap();
        let path = folder.path().join(format!("run{files}"));
        let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
        let recorder = Recorder::create(&path, options).unwrap();
        for number in 0..TOPICS {
            let topic = Topic { name: format!("/t{number}"), ..Topic::default() };
            let log_time_nanos = 1000 + number;
            let message =
                Message { log_time_nanos, publish_time_nanos: 1, sequence: 1, data: b"hello" };
            recorder.topic(topic).unwrap().write_message(&message).unwrap();
        }
        let error = recorder.finish().unwrap_err().to_string();
        assert!(error.contains("hard limit"), "{error}");
        assert!(!error.contains("closing it failed too"), "{error}");
        assert!(verify(&path, &mut |_| {}).unwrap().is_whole());
        let container = Container::open(&path).unwrap();
        assert_eq!(container.state(), ContainerState::Closed);
        let account = container.account().unwrap();
        assert!(account.recorded > 20, "{account:?}");
        assert_eq!(account.recorded + account.lost.disk, TOPICS, "{account:?}");
    }
}
