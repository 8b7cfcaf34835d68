//! `auto`: the newest messages first, as many as arrive in time, and at least one.

use livebag::RecorderOptions;

use super::client::get;
use super::fixture::{Known, Recording, Site, camera_topic, image, of_topic, text, text_topic};

/// In the order of the file.
fn streamed(file: &[u8]) -> Known {
    let messages = mcap::MessageStream::new(file).unwrap().map(|message| {
        let message = message.unwrap();
        (message.channel.topic.clone(), message.log_time, message.data.to_vec())
    });
    messages.collect()
}

#[test]
fn the_newest_comes_first_and_nothing_is_between() {
    let (site, known) = Site::new();
    let answer = get(site.address(), "/v1/bags/run1/auto?within=20s").must(200);
    assert_eq!(answer.header("content-type"), Some("application/mcap"));
    let got = streamed(&answer.body);
    assert!(!got.is_empty());
    // The received messages are the newest part of the recording, chunk by chunk from the newest.
    let mut newest = known[known.len() - got.len()..].to_vec();
    assert!(got.iter().any(|message| message == known.last().unwrap()));
    let mut sorted = got.clone();
    sorted.sort();
    newest.sort();
    assert_eq!(sorted, newest);
    for topic in ["/text", "/camera"] {
        let target = format!("/v1/bags/run1/auto?within=20s&topic={topic}");
        let got = streamed(&get(site.address(), &target).must(200).body);
        let of_topic = of_topic(&known, topic);
        assert!(got.contains(of_topic.last().unwrap()));
    }
}

#[test]
fn one_message_comes_in_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = Recording::new(&folder.path().join("run1"), RecorderOptions::default());
    recording.add(camera_topic("/camera"));
    for number in 0..10 {
        recording.write("/camera", image(number, 640, 480));
    }
    let known = recording.finish();
    let site = Site::over(folder, Default::default());
    for within in ["0.000001", "1ns", "1ms"] {
        let target = format!("/v1/bags/run1/auto?within={within}");
        let got = streamed(&get(site.address(), &target).must(200).body);
        assert_eq!(got.first(), known.last(), "{within}");
    }
}

#[test]
fn older_messages_are_left_out() {
    let (site, known) = Site::new();
    let target = "/v1/bags/run1/auto?within=20s&last=55ms";
    let got = streamed(&get(site.address(), target).must(200).body);
    let oldest = known.last().unwrap().1 - 55_000_000;
    assert!(!got.is_empty() && got.iter().all(|(_, time, _)| *time >= oldest));
}

#[test]
fn a_topic_can_be_thinned_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = Recording::new(&folder.path().join("run1"), RecorderOptions::default());
    recording.add(text_topic("/text"));
    recording.add(text_topic("/other"));
    for number in 0..100 {
        recording.write(if number % 2 == 0 { "/text" } else { "/other" }, text("x"));
    }
    let known = recording.finish();
    let site = Site::over(folder, Default::default());
    // One in 20 ms of each; 5 Hz of one leaves one in ten.
    let target = "/v1/bags/run1/auto?within=20s&decimate=/text:5";
    let got = streamed(&get(site.address(), target).must(200).body);
    let (thin, whole) = (of_topic(&got, "/text"), of_topic(&got, "/other"));
    assert_eq!(thin.len(), 5);
    assert!(thin.contains(of_topic(&known, "/text").last().unwrap()));
    assert_eq!(whole.len(), 50);
}
