//! The forms in which messages come.

use livebag::{ChunkCompression, Compression, RecorderOptions};
use serde_json::json;

use super::client::get;
use super::fixture::{
    Recording, START_NANOS, STEP_NANOS, Site, camera_topic, image, messages, of_topic, pixel, text,
    text_topic,
};

#[test]
fn lines_tell_times_and_sizes() {
    let (site, known) = Site::new();
    let answer = get(site.address(), "/v1/bags/run1/history?format=jsonl").must(200);
    assert_eq!(answer.header("content-type"), Some("application/jsonl"));
    let lines = answer.lines();
    assert_eq!(lines.len(), known.len());
    for (at, (line, (topic, time, data))) in lines.iter().zip(&known).enumerate() {
        let expected = json!({
            "topic": topic, "log_time": time.to_string(), "publish_time": (time - 5).to_string(),
            "sequence": at / 2, "bytes": data.len(),
        });
        assert_eq!(*line, expected);
    }
}

#[test]
fn lines_tell_values_where_they_are_asked_for() {
    let (site, known) = Site::new();
    let target = "/v1/bags/run1/history?decode=true&array_items=2";
    for (at, line) in get(site.address(), target).must(200).lines().iter().enumerate() {
        match &*known[at].0 {
            "/text" => assert_eq!(line["value"]["data"], format!("text {at}")),
            _ => {
                assert_eq!(line["value"]["width"], 4);
                let first = pixel(at as u64, 0, 0);
                let data = json!({ "length": 24, "first": [first[0], first[1]] });
                assert_eq!(line["value"]["data"], data);
            }
        }
    }
}

#[test]
fn a_message_that_cannot_be_decoded_says_so_in_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = Recording::new(&folder.path().join("odd"), RecorderOptions::default());
    recording.add(text_topic("/text"));
    recording.write("/text", text("fine"));
    recording.write("/text", vec![0, 1, 0, 0, 255, 255, 255, 255]);
    recording.finish();
    let site = Site::over(folder, Default::default());
    let lines = get(site.address(), "/v1/bags/odd/latest?decode=1").must(200).lines();
    assert_eq!(lines[0]["value"]["data"], "fine");
    assert!(lines[1]["value"].is_null() && lines[1]["error"].is_string(), "{}", lines[1]);
    let refused = get(site.address(), "/v1/bags/odd/message?topic=/text&format=json").must(422);
    assert!(refused.error().contains("/text"));
}

#[test]
fn one_message_comes_in_every_form() {
    let (site, known) = Site::new();
    let newest = known.last().unwrap();
    let raw = get(site.address(), "/v1/bags/run1/message?topic=/camera").must(200);
    assert_eq!(raw.header("content-type"), Some("application/octet-stream"));
    assert_eq!(raw.header("livebag-log-time"), Some(&*newest.1.to_string()));
    assert_eq!(raw.header("livebag-publish-time"), Some(&*(newest.1 - 5).to_string()));
    assert_eq!(raw.header("livebag-type"), Some("sensor_msgs/msg/Image"));
    assert_eq!(raw.body, newest.2);

    let target = "/v1/bags/run1/message?topic=/camera&format=json&array_items=1";
    let json = get(site.address(), target).must(200);
    assert_eq!(json.header("content-type"), Some("application/json"));
    assert_eq!(json.json()["value"]["encoding"], "bgr8");
    assert_eq!(json.json()["bytes"], newest.2.len());

    let png = get(site.address(), "/v1/bags/run1/message?topic=/camera&format=png").must(200);
    assert_eq!(png.header("content-type"), Some("image/png"));
    let mut reader = png::Decoder::new(std::io::Cursor::new(png.body)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((frame.width, frame.height), (4, 2));
    let [blue, green, red] = pixel(99, 2, 1);
    assert_eq!(pixels[(4 + 2) * 3..][..3], [red, green, blue]);

    let jpeg = get(site.address(), "/v1/bags/run1/message?topic=/camera&format=jpeg").must(200);
    assert_eq!(jpeg.header("content-type"), Some("image/jpeg"));
    assert!(jpeg.body.starts_with(&[0xff, 0xd8]) && jpeg.body.ends_with(&[0xff, 0xd9]));
}

#[test]
fn one_message_is_the_last_up_to_a_time() {
    let (site, known) = Site::new();
    for (at, number) in [("%2B0", 0), ("%2B0.03", 2), ("39ms", 2), ("10s", 98)] {
        let target = format!("/v1/bags/run1/message?topic=/text&at={at}");
        assert_eq!(get(site.address(), &target).must(200).body, known[number].2, "{at}");
    }
    let before = START_NANOS - 1;
    let target = format!("/v1/bags/run1/message?topic=/text&at={before}");
    get(site.address(), &target).must(404);
}

#[test]
fn compressed_recordings_answer_like_others() {
    for compression in [Compression::Zstd, Compression::Lz4] {
        let folder = tempfile::tempdir().unwrap();
        let compression = ChunkCompression { compression, ..Default::default() };
        let options = RecorderOptions { compression, ..Default::default() };
        let mut recording = Recording::new(&folder.path().join("run1"), options);
        recording.add(text_topic("/text"));
        recording.add(camera_topic("/camera"));
        for number in 0..20 {
            recording.write("/text", text(&format!("{number}").repeat(100)));
            recording.write("/camera", image(number, 64, 64));
        }
        let known = recording.finish();
        let site = Site::over(folder, Default::default());
        let all = get(site.address(), "/v1/bags/run1/history").must(200);
        assert_eq!(messages(&all.body), known);
        let file = get(site.address(), "/bags/run1.mcap?topic=/camera&from=100ms").must(200);
        let since = START_NANOS + 10 * STEP_NANOS;
        let expected: Vec<_> =
            of_topic(&known, "/camera").into_iter().filter(|message| message.1 >= since).collect();
        assert_eq!(messages(&file.body), expected);
    }
}
