//! The contents of a recording over time, and its state: the data of a page.

use livebag::{Container, Message, Overflow, Recorder, RecorderOptions, Topic};
use livebag_format::cdr::{PointField, PointsHeader, points_prefix, points_suffix};
use livebag_net::ServerOptions;
use serde_json::{Value, json};

use super::client::{Client, ask, get};
use super::fixture::{
    Known, Recording, START_NANOS, STEP_NANOS, Site, camera_topic, image, record_all, text_topic,
    wait_for,
};

fn number_of(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

fn sum(values: &Value) -> u64 {
    values.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum()
}

/// Counts by bin, as a timeline should have them.
fn counted(known: &Known, topic: &str, timeline: &Value) -> Vec<u64> {
    let (start, bin) =
        (number_of(&timeline["start_time"]), timeline["bin_nanos"].as_u64().unwrap());
    let bins = (number_of(&timeline["end_time"]) - start) / bin;
    let mut counts = vec![0; bins as usize];
    for (name, time, _) in known {
        if name == topic && (start..start + bins * bin).contains(time) {
            counts[((time - start) / bin) as usize] += 1;
        }
    }
    counts
}

#[test]
fn a_timeline_counts_every_message_in_its_bin() {
    let (site, known) = Site::new();
    let at = |k: u64| START_NANOS + k * STEP_NANOS;
    for query in [
        String::new(),
        "?bins=2".to_owned(),
        "?bins=4000".to_owned(),
        "?topic=text".to_owned(),
        format!("?from={}&to={}&bins=50", at(20), at(39)),
        "?from=200ms&to=390ms&topic=/camera".to_owned(),
        "?from=0&to=18446744073709551615&bins=100".to_owned(),
        format!("?from={}&to={}", at(5000), at(6000)),
    ] {
        let target = format!("/v1/bags/run1/timeline{query}");
        let timeline = get(site.address(), &target).must(200).json();
        let lanes = timeline["topics"].as_array().unwrap();
        assert_eq!(lanes.len(), if query.contains("topic") { 1 } else { 2 });
        for lane in lanes {
            let expected = counted(&known, lane["topic"].as_str().unwrap(), &timeline);
            assert_eq!(lane["message_counts"], json!(expected), "{query}");
            assert!(
                expected.len() <= 4000 && lane["bytes"].as_array().unwrap().len() == expected.len()
            );
            let nothing = json!({ "transport": 0, "queue": 0, "lapped": 0, "disk": 0, "abandoned": 0, "total": 0 });
            assert_eq!((&lane["lost"], &lane["lost_unplaced"]), (&json!([]), &nothing));
        }
        assert_eq!(timeline["marks"], json!([]));
        // Summed-up values are the same when requested again.
        assert_eq!(get(site.address(), &target).must(200).json(), timeline);
    }
    let whole = get(site.address(), "/v1/bags/run1/timeline").json();
    let bytes =
        |topic: &str| known.iter().filter(|m| m.0 == topic).map(|m| m.2.len() as u64).sum::<u64>();
    assert_eq!(sum(&whole["topics"][0]["bytes"]), bytes("/text"));
    assert_eq!(sum(&whole["topics"][1]["bytes"]), bytes("/camera"));
}

/// Two topics: `/flood` loses to its queue at known times, `/gaps` on its way here.
fn record_losses(path: &std::path::Path) -> (Vec<u64>, Vec<u64>) {
    let options = RecorderOptions {
        overflow: Overflow::DropNewest,
        cache_bytes_max: 0,
        ..RecorderOptions::default()
    };
    let recorder = Recorder::create(path, options).unwrap();
    let topic = |name: &str| {
        recorder.topic(Topic {
            name: name.into(),
            message_encoding: "raw".into(),
            ..Topic::default()
        })
    };
    let (flood, gaps) = (topic("/flood").unwrap(), topic("/gaps").unwrap());
    let large = vec![7; 1 << 20];
    let (mut dropped, mut missing) = (Vec::new(), Vec::new());
    for k in 0..200u64 {
        let log_time_nanos = START_NANOS + k * STEP_NANOS;
        let is_flooded = (50..54).contains(&k) || k == 120;
        let data: &[u8] = if is_flooded { &large } else { b"small" };
        let message = Message { log_time_nanos, publish_time_nanos: 1, sequence: k, data };
        match flood.write_message(&message) {
            Ok(()) => assert!(!is_flooded, "no queue has room for that"),
            Err(_) => dropped.push(k),
        }
        if (70..80).contains(&k) {
            missing.push(k);
        } else {
            gaps.write_message(&Message { data: b"x", ..message }).unwrap();
        }
    }
    recorder.finish().unwrap();
    (dropped, missing)
}

#[test]
fn losses_are_shown_where_they_happened_and_sum_up_to_what_info_says() {
    let folder = tempfile::tempdir().unwrap();
    let (dropped, missing) = record_losses(&folder.path().join("run1"));
    assert!(dropped.contains(&50) && missing.len() == 10);
    let site = Site::over(folder, ServerOptions::default());
    let at = |k: u64| (START_NANOS + k * STEP_NANOS).to_string();
    let timeline = get(site.address(), "/v1/bags/run1/timeline").must(200).json();
    let info = get(site.address(), "/v1/bags/run1").must(200).json();
    for (lane, row) in
        timeline["topics"].as_array().unwrap().iter().zip(info["topics"].as_array().unwrap())
    {
        let placed: u64 = lane["lost"]
            .as_array()
            .unwrap()
            .iter()
            .map(|lost| lost["count"].as_u64().unwrap())
            .sum();
        let unplaced = lane["lost_unplaced"]["total"].as_u64().unwrap();
        assert_eq!(json!(placed + unplaced), row["lost"]["total"], "{lane}");
        assert_eq!(json!(sum(&lane["message_counts"])), row["message_count"]);
        assert_eq!(json!(sum(&lane["bytes"])), row["message_bytes"]);
    }
    let queue = json!([
        { "from_time": at(49), "to_time": at(54), "count": 4, "cause": "queue" },
        { "from_time": at(119), "to_time": at(121), "count": 1, "cause": "queue" },
    ]);
    assert_eq!(timeline["topics"][0]["lost"], queue);
    let transport =
        json!([{ "from_time": at(69), "to_time": at(80), "count": 10, "cause": "transport" }]);
    assert_eq!(timeline["topics"][1]["lost"], transport);
    // In a time without losses, none are shown.
    let quiet = format!("/v1/bags/run1/timeline?from={}&to={}", at(130), at(190));
    assert_eq!(get(site.address(), &quiet).must(200).json()["topics"][0]["lost"], json!([]));
}

#[test]
fn a_damaged_index_costs_what_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run1");
    record_all(&path, 100);
    let index = path.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let index = index.filter(|path| path.extension().is_some_and(|end| end == "idx"));
    for index in index {
        let mut bytes = std::fs::read(&index).unwrap();
        bytes[48 * 10 + 3] ^= 1;
        std::fs::write(&index, bytes).unwrap();
    }
    let site = Site::over(folder, ServerOptions::default());
    let timeline = get(site.address(), "/v1/bags/run1/timeline").must(200).json();
    for lane in timeline["topics"].as_array().unwrap() {
        assert_eq!((sum(&lane["message_counts"]), &lane["damaged"]), (49, &json!(1)));
    }
}

#[test]
fn splits_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run1");
    let mut recording = Recording::new(&path, RecorderOptions::default());
    recording.add(text_topic("/text"));
    for k in 0..20 {
        if k == 10 {
            recording.settle();
            let before = recording.recorder.status().splits;
            recording.recorder.split().unwrap();
            wait_for("a split", || recording.recorder.status().splits > before);
        }
        recording.write("/text", super::fixture::text("x"));
    }
    recording.finish();
    let site = Site::over(folder, ServerOptions::default());
    let timeline = get(site.address(), "/v1/bags/run1/timeline").must(200).json();
    let time = (START_NANOS + 10 * STEP_NANOS).to_string();
    let mark = &timeline["marks"][0];
    assert_eq!((&mark["kind"], &mark["from_time"]), (&json!("split"), &json!(time)));
    assert_eq!(timeline["marks"].as_array().unwrap().len(), 1);
}

#[test]
fn attachments_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run1");
    let options = RecorderOptions { has_attachments: true, ..RecorderOptions::default() };
    let mut recording = Recording::new(&path, options);
    recording.add(text_topic("/text"));
    (0..10).for_each(|_| recording.write("/text", super::fixture::text("x")));
    let mut file = std::fs::File::create(path.join("attachments.mcap")).unwrap();
    let mut writer = mcap::Writer::new(&mut file).unwrap();
    let log_time = START_NANOS + 5 * STEP_NANOS;
    writer
        .attach(&mcap::Attachment {
            log_time,
            create_time: 1,
            name: "map.pgm".into(),
            media_type: "image/pgm".into(),
            data: (&[1, 2, 3][..]).into(),
        })
        .unwrap();
    writer.finish().unwrap();
    drop(writer);
    recording.finish();
    let site = Site::over(folder, ServerOptions::default());
    let timeline = get(site.address(), "/v1/bags/run1/timeline").must(200).json();
    let log_time = log_time.to_string();
    let mark = json!({
        "kind": "attachment", "name": "map.pgm", "text": "image/pgm",
        "from_time": log_time, "to_time": log_time,
    });
    assert_eq!(timeline["marks"], json!([mark]));
}

/// `/imu`: message k has x = k / 4, and no number for each tenth.
fn record_numbers(path: &std::path::Path, count: u64) {
    let mut recording = Recording::new(path, RecorderOptions::default());
    recording.add(Topic {
        type_name: "a_msgs/msg/Imu".into(),
        schema: b"geometry_msgs/Vector3 v\nfloat32[2] pair\nstring s\n================\nMSG: geometry_msgs/Vector3\nfloat64 x\nfloat64 y\nfloat64 z".to_vec(),
        ..text_topic("/imu")
    });
    for k in 0..count {
        let mut cdr = vec![0, 1, 0, 0];
        let x = if k % 10 == 9 { f64::NAN } else { k as f64 / 4.0 };
        [x, 1.0, -1.0].iter().for_each(|value| cdr.extend(value.to_le_bytes()));
        [0.1f32, k as f32].iter().for_each(|value| cdr.extend(value.to_le_bytes()));
        cdr.extend([2, 0, 0, 0, b'x', 0]);
        recording.write("/imu", cdr);
    }
    recording.finish();
}

#[test]
fn few_numbers_are_given_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    record_numbers(&folder.path().join("run1"), 100);
    let site = Site::over(folder, ServerOptions::default());
    let target = "/v1/bags/run1/series?topic=imu&field=v.x&field=pair[0]&from=100ms&to=190ms";
    let series = get(site.address(), target).must(200).json();
    assert_eq!(
        (&series["exact"], &series["every"], &series["topic"]),
        (&json!(true), &json!(1), &json!("/imu"))
    );
    let x = &series["fields"][0];
    let times: Vec<u64> = x["times"].as_array().unwrap().iter().map(number_of).collect();
    assert_eq!(times, (10..20).map(|k| START_NANOS + k * STEP_NANOS).collect::<Vec<_>>());
    assert_eq!(x["values"], json!([2.5, 2.75, 3.0, 3.25, 3.5, 3.75, 4.0, 4.25, 4.5, null]));
    assert_eq!(series["fields"][1]["values"][0], json!(0.1), "with the digits that it has");

    let fields = get(site.address(), "/v1/bags/run1/fields?topic=/imu").must(200).json();
    let row = |field: &str, kind: &str, numeric: bool| json!({ "field": field, "type": kind, "numeric": numeric });
    assert_eq!(fields["fields"][0], row("v.x", "float64", true));
    assert_eq!(
        fields["fields"][3],
        json!({ "field": "pair[]", "type": "float32", "numeric": true, "lengths": [2] })
    );
    assert_eq!(fields["fields"][4], row("s", "string", false));
}

#[test]
fn many_numbers_are_given_by_bin() {
    let folder = tempfile::tempdir().unwrap();
    record_numbers(&folder.path().join("run1"), 3000);
    let site = Site::over(folder, ServerOptions::default());
    let target = "/v1/bags/run1/series?topic=/imu&field=v.x&field=v.z&bins=100";
    let series = get(site.address(), target).must(200).json();
    assert_eq!((&series["exact"], &series["message_count"]), (&json!(false), &json!(3000)));
    let (start, bin) = (number_of(&series["start_time"]), series["bin_nanos"].as_u64().unwrap());
    let bins = ((number_of(&series["end_time"]) - start) / bin) as usize;
    assert!((50..=100).contains(&bins));
    let x = &series["fields"][0];
    let mut expected = vec![Vec::new(); bins];
    for k in (0..3000u64).filter(|k| k % 10 != 9) {
        expected[((START_NANOS + k * STEP_NANOS - start) / bin) as usize].push(k as f64 / 4.0);
    }
    for (at, values) in expected.iter().enumerate() {
        assert_eq!(x["counts"][at], json!(values.len()));
        assert_eq!(
            (&x["min"][at], &x["first"][at]),
            (&json!(values.first()), &json!(values.first()))
        );
        assert_eq!((&x["max"][at], &x["last"][at]), (&json!(values.last()), &json!(values.last())));
    }
    assert_eq!(series["fields"][1]["max"][0], json!(-1.0));
}

#[test]
fn points_of_a_cloud() {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = Recording::new(&folder.path().join("run1"), RecorderOptions::default());
    let schema = livebag_format::definitions::schema("sensor_msgs/msg/PointCloud2").unwrap();
    recording.add(Topic {
        type_name: "sensor_msgs/msg/PointCloud2".into(),
        schema: schema.into_bytes(),
        ..text_topic("/lidar")
    });
    let named = |(at, name)| PointField { name, offset: 4 * at as u32, datatype: 7, count: 1 };
    let fields: Vec<_> = ["x", "y", "z"].into_iter().enumerate().map(named).collect();
    let header = PointsHeader {
        frame_id: "mast",
        height: 1,
        width: 100,
        fields: &fields,
        point_step: 12,
        row_step: 1200,
        ..Default::default()
    };
    let mut cloud = Vec::new();
    points_prefix(&header, 1200, &mut cloud);
    for k in 0..300u32 {
        cloud.extend((k as f32).to_le_bytes());
    }
    cloud.extend(points_suffix(true));
    recording.write("/lidar", cloud);
    recording.finish();
    let site = Site::over(folder, ServerOptions::default());
    let answer = get(site.address(), "/v1/bags/run1/points?topic=/lidar&max=10").must(200);
    assert_eq!(answer.header("livebag-frame-id"), Some("mast"));
    assert_eq!(answer.header("livebag-log-time"), Some(&*START_NANOS.to_string()));
    assert_eq!(answer.body.len(), 12 + 10 * 16);
    assert_eq!(answer.body[..12], [b'L', b'B', b'P', b'1', 10, 0, 0, 0, 100, 0, 0, 0]);
    let second: Vec<f32> = answer.body[28..44]
        .chunks(4)
        .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
        .collect();
    assert_eq!(second, [30.0, 31.0, 32.0, 0.0]);
}

#[test]
fn a_picture_may_be_small_and_a_message_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = Recording::new(&folder.path().join("run1"), RecorderOptions::default());
    recording.add(camera_topic("/camera"));
    (0..5).for_each(|number| recording.write("/camera", image(number, 64, 48)));
    recording.finish();
    let site = Site::over(folder, ServerOptions::default());
    let png =
        get(site.address(), "/v1/bags/run1/message?topic=/camera&format=png&width=16").must(200);
    let info = png::Decoder::new(std::io::Cursor::new(&png.body[..])).read_info().unwrap();
    assert_eq!((info.info().width, info.info().height), (16, 12));
    let whole = get(site.address(), "/v1/bags/run1/message?topic=/camera&format=jpeg").must(200);
    let small =
        get(site.address(), "/v1/bags/run1/message?topic=/camera&format=jpeg&width=8").must(200);
    assert!(small.body.len() < whole.body.len());
    let at = |k: u64| (START_NANOS + k * STEP_NANOS).to_string();
    for (query, expected) in [
        (format!("at={}&step=next", at(1)), Some(2)),
        (format!("at={}&step=previous", at(1)), Some(0)),
        (format!("at={}&step=next", at(4)), None),
        (format!("at={}&step=previous", at(0)), None),
        ("step=previous".to_owned(), Some(3)),
        ("step=next".to_owned(), None),
        ("at=0&step=next".to_owned(), Some(0)),
        ("at=0&step=previous".to_owned(), None),
    ] {
        let answer = get(site.address(), &format!("/v1/bags/run1/message?topic=/camera&{query}"));
        match expected {
            None => assert_eq!(answer.status, 404, "{query}"),
            Some(k) => {
                assert_eq!(answer.must(200).header("livebag-log-time"), Some(&*at(k)), "{query}")
            }
        }
    }
}

/// The events of a stream, until it ends.
fn events(text: &str) -> Vec<(String, Value)> {
    let event = |part: &str| {
        let (name, data) = part.split_once('\n')?;
        let data = serde_json::from_str(data.strip_prefix("data: ")?).ok()?;
        Some((name.strip_prefix("event: ")?.to_owned(), data))
    };
    text.split("\n\n").filter_map(event).collect()
}

#[test]
fn a_finished_recording_has_one_status() {
    let (site, known) = Site::new();
    let answer = get(site.address(), "/v1/bags/run1/events").must(200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let events = events(&answer.text());
    let names: Vec<&str> = events.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["status", "end"]);
    let status = &events[0].1;
    assert_eq!(
        (&status["state"], &status["message_count"]),
        (&json!("closed"), &json!(known.len()))
    );
    assert_eq!(status["end_time"], known.last().unwrap().1.to_string());
    assert!(status["size_bytes"].as_u64().unwrap() > 0 && status["free_bytes"].is_u64());
    assert_eq!((&status["full_in_nanos"], &status["bytes_per_s"]), (&Value::Null, &Value::Null));
    assert_eq!(status["topics"][0]["state"], "idle");
    assert_eq!(status["topics"][0]["lost"]["total"], 0);
    let refused = ask(site.address(), "HEAD", "/v1/bags/run1/events", &[]).must(405);
    assert_eq!(refused.header("allow"), Some("GET"));
}

#[test]
fn a_live_recording_tells_how_it_goes_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run1");
    let mut recording = Recording::new(&path, RecorderOptions::default());
    recording.add(text_topic("/text"));
    (0..20).for_each(|_| recording.write("/text", super::fixture::text("x")));
    recording.settle();
    let site = Site::over(folder, ServerOptions::default());
    let mut client = Client::connect(site.address());
    client.send("GET", "/v1/bags/run1/events", &[]);
    assert_eq!(client.head().unwrap().status, 200);
    let mut text = String::new();
    type IsThere<'a> = &'a dyn Fn(&[(String, Value)]) -> bool;
    let mut read = |client: &mut Client, is_there: IsThere| {
        while !is_there(&events(&text)) {
            text.push_str(&client.chunk().unwrap());
        }
        events(&text)
    };
    let first = read(&mut client, &|events| !events.is_empty());
    assert_eq!((&first[0].1["state"], &first[0].1["message_count"]), (&json!("live"), &json!(20)));
    assert!(first[0].1["bytes_per_s"].is_null());
    recording.write("/text", super::fixture::text("y"));
    // Its messages are of the year 2023: it appears stalled.
    let grown = read(&mut client, &|events| events.last().unwrap().1["message_count"] == 21);
    let status = &grown.last().unwrap().1;
    assert!(status["topics"][0]["rate_hz"].as_f64().unwrap() > 0.0);
    assert!(status["full_in_nanos"].as_u64().unwrap() > 0);
    assert_eq!(status["topics"][0]["state"], "stalled");
    recording.finish();
    site.later();
    let all = read(&mut client, &|events| events.iter().any(|(name, _)| name == "end"));
    assert_eq!(all[all.len() - 2].1["state"], "closed");
    drop(Container::peek(&path).unwrap());
}

#[test]
fn what_is_wrong_is_said() {
    let (site, _) = Site::new();
    for (target, status, word) in [
        ("timeline?bins=1", 400, "from 2 to 4000"),
        ("timeline?bins=4001", 400, "4000"),
        ("timeline?bins=x", 400, "`x`"),
        ("timeline?bins=%2B5", 400, "bins"),
        ("timeline?from=9&to=5", 400, "after"),
        ("timeline?topic=/none", 404, "/none"),
        ("timeline?bin=5", 400, "`bin`"),
        ("series", 400, "0 topics"),
        ("series?topic=/text", 400, "0 fields"),
        ("series?topic=/text&field=", 400, "field"),
        ("series?topic=/none&field=x", 404, "/none"),
        ("series?topic=/text&field=none", 422, "no field `none`"),
        ("series?topic=/text&field=data", 422, "no number"),
        ("series?topic=/camera&field=data", 422, "item"),
        ("series?topic=/camera&field=height&bins=0", 400, "bins"),
        ("fields", 400, "0 topics"),
        ("fields?topic=/none", 404, "/none"),
        ("points?topic=/camera", 422, "PointCloud2"),
        ("points?topic=/camera&max=0", 400, "max"),
        ("points?topic=/camera&max=200001", 400, "200000"),
        ("message?topic=/camera&format=jpeg&width=0", 400, "width"),
        ("message?topic=/camera&width=10", 400, "pictures"),
        ("message?topic=/camera&step=up", 400, "next or previous"),
        ("events?topic=/text", 400, "`topic`"),
    ] {
        let refused = get(site.address(), &format!("/v1/bags/run1/{target}"));
        assert_eq!(refused.status, status, "{target}: {}", refused.text());
        assert!(refused.error().contains(word), "{target}: {}", refused.error());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let none = get(site.address(), &format!("/v1/bags/run2/{path}?{query}"));
        assert!(matches!(none.status, 400 | 404));
    }
    let many = format!("/v1/bags/run1/series?topic=/camera{}", "&field=height".repeat(17));
    assert!(get(site.address(), &many).must(400).error().contains("17 fields"));
}
