//! LeRobot datasets. `tests/interop/test_lerobot.py` has them checked by lerobot-doctor.

use std::path::Path;

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
    ] {
        assert!(RULES.contains(from));
        std::fs::write(&rules, RULES.replace(from, to)).unwrap();
        run(&arguments).expect(1, &[words]);
        assert!(!out.exists(), "{words}");
    }
    std::fs::write(&rules, RULES).unwrap();
    run(&[&arguments[..], &["-t", "/state"]].concat()).expect(2, &["the rules name the topics"]);
    run(&arguments[..4]).expect(2, &["--rules"]);
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
