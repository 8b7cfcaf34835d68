//! LeRobot datasets. `tests/interop/test_lerobot.py` has them checked by lerobot-doctor.

use std::path::Path;
use std::process::Command;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type};
use livebag::{Event, Message, Overflow, Recorder, RecorderOptions, Topic, TopicWriter, add_event};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};

use crate::common::{run, text};

const SECOND: u64 = 1_000_000_000;
const RULES: &str = "\
fps: 20
task: pick the cube
features:
  observation.state:
    topic: /state
    fields: ['position[0..2]', ok]
  action:
    topic: cmd
    fields: [linear]
    resample: hold
";

/// `/state` each 10 ms, `/cmd` each 100 ms and 5 ms later.
fn record(path: &Path, first: u64, damaged: Option<u64>) {
    record_from(1000 * SECOND, path, first, damaged);
}

fn record_from(start: u64, path: &Path, first: u64, damaged: Option<u64>) {
    let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
    let recorder = Recorder::create(path, options).unwrap();
    let topic = |name: &str| {
        let topic =
            Topic { name: name.into(), message_encoding: "json".into(), ..Topic::default() };
        recorder.topic(topic).unwrap()
    };
    let (state, cmd) = (topic("/state"), topic("/cmd"));
    for at in 0..100 {
        let nanos = start + at * 10_000_000;
        let write = |to: &TopicWriter, nanos, value: Value| {
            let data = value.to_string();
            let data = data.as_bytes();
            to.write_message(&Message {
                log_time_nanos: nanos,
                publish_time_nanos: nanos,
                sequence: at,
                data,
            })
            .unwrap();
        };
        let value = first + at;
        let position =
            if damaged == Some(at) { json!([1]) } else { json!([value, -(value as i64), 7]) };
        write(&state, nanos, json!({"position": position, "ok": true}));
        if at % 10 == 0 {
            write(&cmd, nanos + 5_000_000, json!({"linear": {"x": at / 10}}));
        }
    }
    recorder.finish().unwrap();
}

fn table(path: &Path) -> RecordBatch {
    let file = std::fs::File::open(path).unwrap();
    let mut reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    reader.next().unwrap().unwrap()
}

fn whole(table: &RecordBatch, name: &str) -> Vec<i64> {
    table.column_by_name(name).unwrap().as_primitive::<Int64Type>().values().to_vec()
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn recordings_become_episodes_of_frames_at_fixed_times() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    record(&at("run1"), 0, None);
    record(&at("run2"), 1000, None);
    std::fs::write(at("rules.yaml"), RULES).unwrap();
    let (runs, out, rules) = ([at("run1"), at("run2")], at("out"), at("rules.yaml"));
    let arguments = ["export", text(&runs[0]), text(&runs[1]), "--lerobot", text(&out), "--rules"];
    let arguments = [&arguments[..], &[text(&rules), "--json"]].concat();
    let summary = run(&arguments).expect(0, &[]).json();
    assert_eq!((&summary["episode_count"], &summary["frame_count"]), (&json!(2), &json!(40)));

    let data = table(&out.join("data/chunk-000/file-000.parquet"));
    assert_eq!(data.num_rows(), 40);
    let states = data.column_by_name("observation.state").unwrap().as_fixed_size_list();
    assert_eq!(states.value_length(), 3);
    let states = states.values().as_primitive::<Float32Type>();
    let actions = data.column_by_name("action").unwrap().as_primitive::<Float32Type>();
    let times = data.column_by_name("timestamp").unwrap().as_primitive::<Float32Type>();
    for row in 0..40 {
        let frame = row % 20;
        // The nearest two states are equally far: the earlier one.
        let state = (row / 20 * 1000 + frame * 5) as f32;
        assert_eq!(states.values()[row * 3..row * 3 + 3], [state, -state, 1.0], "{row}");
        assert_eq!(actions.value(row), (frame / 2) as f32, "{row}");
        assert_eq!(times.value(row), frame as f32 / 20.0, "{row}");
    }
    assert_eq!(whole(&data, "index"), (0..40).collect::<Vec<_>>());
    assert_eq!(whole(&data, "frame_index")[20..], (0..20).collect::<Vec<_>>());
    assert_eq!(whole(&data, "episode_index")[19..21], [0, 1]);

    let episodes = table(&out.join("meta/episodes/chunk-000/file-000.parquet"));
    assert_eq!(whole(&episodes, "length"), [20, 20]);
    assert_eq!(whole(&episodes, "dataset_from_index"), [0, 20]);
    assert_eq!(whole(&episodes, "dataset_to_index"), [20, 40]);
    let mean = episodes.column_by_name("stats/action/mean").unwrap().as_list::<i32>().value(1);
    assert_eq!(mean.as_primitive::<Float64Type>().values()[..], [4.5]);
    let stats = read_json(&out.join("meta/stats.json"));
    assert_eq!(stats["observation.state"]["max"], json!([1095.0, 0.0, 1.0]));
    assert_eq!(stats["action"]["q50"], json!([4.5]));
    assert_eq!(stats["action"]["count"], json!([40]));
    let info = read_json(&out.join("meta/info.json"));
    assert_eq!((&info["total_frames"], &info["splits"]["train"]), (&json!(40), &json!("0:2")));
    let names = ["position[0]", "position[1]", "ok"];
    assert_eq!(info["features"]["observation.state"]["names"], json!(names));
    assert_eq!(table(&out.join("meta/tasks.parquet")).num_rows(), 1);

    run(&arguments).expect(1, &["exists already"]);
}

#[test]
fn events_become_episodes_and_their_names_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    record(&at("run"), 0, Some(50));
    for (name, from, to) in
        [("grasp", 300, 400), ("grasp", 350, 550), ("other", 0, 900), ("grasp", 5, 5)]
    {
        let nanos = |millis: u64| 1000 * SECOND + millis * 1_000_000;
        let event = Event {
            name: name.into(),
            from_nanos: nanos(from),
            to_nanos: nanos(to),
            ..Event::default()
        };
        add_event(&at("run"), &event).unwrap();
    }
    let rules = RULES.replace("task: pick the cube", "episodes: events grasp");
    std::fs::write(at("rules.yaml"), rules).unwrap();
    let (bag, out, rules) = (at("run"), at("out"), at("rules.yaml"));
    let arguments =
        ["export", text(&bag), "--lerobot", text(&out), "--rules", text(&rules), "--json"];
    let words = ["/state: 1 message not exported", "1 episode left out"];
    let summary = run(&arguments).expect(3, &words).json();
    assert_eq!((&summary["damaged"], &summary["tasks"]), (&json!(1), &json!(["grasp"])));
    let data = table(&out.join("data/chunk-000/file-000.parquet"));
    assert_eq!(whole(&data, "episode_index"), [0, 0, 0, 1, 1, 1, 1, 1]);
    let actions = data.column_by_name("action").unwrap().as_primitive::<Float32Type>();
    // The first is held from before the event.
    assert_eq!(actions.values()[..3], [2.0, 3.0, 3.0]);
    let states = data.column_by_name("observation.state").unwrap().as_fixed_size_list();
    let states = states.values().as_primitive::<Float32Type>();
    assert_eq!([0, 3, 6].map(|row| states.value(row * 3)), [30.0, 35.0, 49.0]);
}

#[test]
fn rules_that_make_no_dataset_are_refused_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    record(&at("run"), 0, None);
    let (bag, out, rules) = (at("run"), at("out"), at("rules.yaml"));
    let arguments = ["export", text(&bag), "--lerobot", text(&out), "--rules", text(&rules)];
    for (from, to, words) in [
        ("fps", "fsp", "the key fsp is not known"),
        ("task: pick the cube", "", "the key task is missing"),
        ("hold", "keep", "expected nearest, hold or linear"),
        ("[0..2]", "[2..0]", "position[0..6]"),
        ("/state", "/stat", "did you mean /state?"),
        ("[linear]", "[angular]", "has no field angular"),
        ("/state", "/state\n    tolerance: 1h", "at most 10s"),
        ("    fields: [linear]\n", "", "/cmd has no images: name the `fields`"),
        ("  action:", "  images:", "`image` only in names of features without `fields`"),
        ("  action:", "  a/b:", "letters, digits"),
    ] {
        assert!(RULES.contains(from));
        std::fs::write(&rules, RULES.replace(from, to)).unwrap();
        run(&arguments).expect(1, &[words]);
        assert!(!out.exists(), "{words}");
    }
    std::fs::write(&rules, RULES).unwrap();
    run(&[&arguments[..], &["-t", "/state"]].concat()).expect(2, &["the rules name the topics"]);
    run(&arguments[..4]).expect(2, &["--rules"]);
    std::fs::remove_file(&rules).unwrap();
    let said = run(&arguments).expect(1, &["reading", "rules.yaml"]).err;
    assert!(!said.contains("mkdir"), "{said}");
}

#[test]
fn a_clock_that_starts_at_zero_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // The very first state has too few numbers.
    record_from(0, &at("run"), 0, Some(0));
    std::fs::write(at("rules.yaml"), RULES).unwrap();
    let (bag, out, rules) = (at("run"), at("out"), at("rules.yaml"));
    let arguments =
        ["export", text(&bag), "--lerobot", text(&out), "--rules", text(&rules), "--json"];
    let summary = run(&arguments).expect(3, &["/state: 1 message not exported"]).json();
    assert_eq!((&summary["damaged"], &summary["frame_count"]), (&json!(1), &json!(20)));
}

/// An image of one colour in CDR: its pixel again and again.
fn image(columns: u32, rows: u32, encoding: &str, pixel: &[u8]) -> Vec<u8> {
    let mut out = b"\0\x01\0\0\0\0\0\0\0\0\0\0".to_vec();
    let number = |out: &mut Vec<u8>, number: u32| {
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend(number.to_le_bytes());
    };
    number(&mut out, 1);
    out.push(0);
    number(&mut out, rows);
    number(&mut out, columns);
    number(&mut out, encoding.len() as u32 + 1);
    out.extend(encoding.as_bytes());
    // The text's end, and little-endian.
    out.extend([0, 0]);
    number(&mut out, pixel.len() as u32 * columns);
    number(&mut out, pixel.len() as u32 * columns * rows);
    out.extend(pixel.repeat((columns * rows) as usize));
    out
}

/// `/state`, `/camera` and `/depth` each 100 ms; an image between the second and the third is smaller.
fn record_camera(path: &Path, count: u64, first_red: u8) {
    let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
    let recorder = Recorder::create(path, options).unwrap();
    let topic = |name: &str, type_name: &str, encoding: &str| {
        let (name, type_name, message_encoding) = (name.into(), type_name.into(), encoding.into());
        recorder.topic(Topic { name, type_name, message_encoding, ..Topic::default() }).unwrap()
    };
    let state = topic("/state", "", "json");
    let camera = topic("/camera", "sensor_msgs/msg/Image", "cdr");
    let depth = topic("/depth", "sensor_msgs/msg/Image", "cdr");
    for at in 0..count {
        let log_time_nanos = 1000 * SECOND + at * 100_000_000;
        let write = |to: &TopicWriter, nanos: u64, data: &[u8]| {
            to.write_message(&Message {
                log_time_nanos: nanos,
                publish_time_nanos: nanos,
                sequence: at,
                data,
            })
            .unwrap();
        };
        write(&state, log_time_nanos, json!({"at": at}).to_string().as_bytes());
        let red = first_red + 10 * at as u8;
        write(&camera, log_time_nanos, &image(33, 25, "rgb8", &[red, 100, 200]));
        write(&depth, log_time_nanos, &image(32, 16, "mono16", &[0, red]));
        if at == 1 {
            write(&camera, log_time_nanos + 1, &image(31, 25, "rgb8", &[0; 3]));
        }
    }
    recorder.finish().unwrap();
}

#[cfg(feature = "http")]
#[test]
fn images_become_frames_of_videos() {
    let is_there = |name| Command::new(name).arg("-version").output().is_ok();
    if !is_there("ffmpeg") || !is_there("ffprobe") {
        assert!(std::env::var_os("LIVEBAG_REQUIRE").is_none(), "no ffmpeg and ffprobe");
        eprintln!("SKIPPED: no ffmpeg and ffprobe");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // The one between is too short to be an episode.
    let counts: [(&str, u64, u8); 3] = [("run1", 8, 0), ("run2", 1, 240), ("run3", 10, 100)];
    for (name, count, red) in counts {
        record_camera(&at(name), count, red);
    }
    let rules = "fps: 10\ntask: look\nfeatures:\n  observation.state: {topic: /state, fields: [at]}\n  \
                 observation.images.front: {topic: camera}\n  depth: {topic: /depth, resample: hold}\n";
    std::fs::write(at("rules.yaml"), rules).unwrap();
    let (runs, out, rules) = (counts.map(|(name, ..)| at(name)), at("out"), at("rules.yaml"));
    let runs = runs.each_ref().map(|run| text(run));
    let options = ["--lerobot", text(&out), "--rules", text(&rules), "--json"];
    let arguments = [&["export"][..], &runs, &options].concat();
    let words = [
        "/camera: 2 messages not exported: it is 31 x 25 (rgb24), the first image 33 x 25 (rgb24)",
    ];
    let summary = run(&arguments).expect(3, &words).json();
    assert_eq!((&summary["episode_count"], &summary["frame_count"]), (&json!(2), &json!(18)));

    let video = |key: &str| out.join("videos").join(key).join("chunk-000/file-000.mp4");
    // Pixels are given to ffmpeg as they are, those of 16 bits as JPEG.
    for (key, columns, rows, rest) in
        [("observation.images.front", 34, 26, Some([100, 200])), ("depth", 32, 16, None)]
    {
        let video = video(key);
        let decode =
            ["-v", "error", "-i", text(&video), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"];
        let frames = Command::new("ffmpeg").args(decode).output().unwrap().stdout;
        let frame_bytes = columns * rows * 3;
        assert_eq!(frames.len(), 18 * frame_bytes);
        let reds = (0..8).map(|at| 10 * at).chain((0..10).map(|at| 100 + 10 * at));
        for (row, (frame, red)) in frames.chunks(frame_bytes).zip(reds).enumerate() {
            let pixel = &frame[(columns * rows / 2 + columns / 2) * 3..][..3];
            let [green, blue] = rest.unwrap_or([red; 2]);
            let is_close = pixel.iter().zip([red, green, blue]).all(|(a, b)| a.abs_diff(b) <= 8);
            assert!(is_close, "{key}, {row}: {pixel:?}, not {red}");
        }
    }
    let video = video("observation.images.front");
    let probe = ["-v", "error", "-show_entries", "frame=pts_time", "-of", "csv=p=0"];
    let probe = Command::new("ffprobe").args(probe).arg(&video).output().unwrap().stdout;
    let probe = String::from_utf8(probe).unwrap();
    // The encoder's remarks are lines without a time.
    let time = |line: &str| line.split(',').next()?.parse().ok();
    let times: Vec<f64> = probe.lines().filter_map(time).collect();
    let wanted: Vec<f64> = (0..18).map(|at| f64::from(at) / 10.0).collect();
    assert_eq!(times, wanted);

    let episodes = table(&out.join("meta/episodes/chunk-000/file-000.parquet"));
    let times = |name: &str| {
        let column = format!("videos/observation.images.front/{name}");
        episodes.column_by_name(&column).unwrap().as_primitive::<Float64Type>().values().to_vec()
    };
    assert_eq!((times("from_timestamp"), times("to_timestamp")), (vec![0.0, 0.8], vec![0.8, 1.8]));
    let info = read_json(&out.join("meta/info.json"));
    let feature = &info["features"]["observation.images.front"];
    assert_eq!((&feature["dtype"], &feature["shape"]), (&json!("video"), &json!([26, 34, 3])));
    let stats = &read_json(&out.join("meta/stats.json"))["observation.images.front"];
    assert_eq!(stats["count"], json!([18]));
    let green = stats["q50"][1][0][0].as_f64().unwrap();
    assert!((green - 100.0 / 255.0).abs() < 0.03, "{stats}");
    let files = std::fs::read_dir(video.parent().unwrap()).unwrap().count();
    assert_eq!(files, 1);
}
