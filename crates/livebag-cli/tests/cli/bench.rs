//! `livebag bench`: small runs of every storage, their output, and refused options.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{run, text};

const PRODUCERS: &str = "rosbag2_performance_benchmarking_node:
  ros__parameters:
    publishers:
      publisher_groups: [small, images]
      small:
        publishers_count: 3
        topic_root: small
        msg_size_bytes: 200
        msg_count_each: 40
        rate_hz: 100
      images:
        publishers_count: 1
        topic_root: camera/image
        msg_size_bytes: 100000
        msg_type: sensor_msgs::msg::Image
        msg_count_each: 10
        rate_hz: 24
        qos: {qos_depth: 10}
";
const MESSAGES: u64 = 3 * 40 + 10;

fn benchmark(transport: bool, more: &str) -> String {
    format!(
        "rosbag2_performance_benchmarking:
  benchmark_node:
    ros__parameters:
      benchmark:
        summary_result_file: figures.csv
        repeat_each: 1
        no_transport: {}
{more}        parameters:
          storage_id: [livebag, mcap, sqlite3]
          max_cache_size: [50000000]
",
        !transport
    )
}

fn write(folder: &Path, name: &str, contents: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, contents).unwrap();
    path
}

/// Runs both documents; the only result, and its folder.
fn bench(folder: &Path, benchmark: &str, more: &[&str]) -> (Value, PathBuf) {
    let producers = write(folder, "producers.yaml", PRODUCERS);
    let benchmark = write(folder, "bench.yaml", benchmark);
    let out = folder.join("out");
    let mut arguments = vec!["bench", "--any-commit", text(&benchmark), text(&producers), "--json"];
    arguments.extend(["-o", text(&out)]);
    arguments.extend(more);
    let ended = run(&arguments).expect(0, &["recorded", "report.html"]);
    let result = ended.json()[0].clone();
    let directory = PathBuf::from(result["directory"].as_str().unwrap());
    (result, directory)
}

fn file(directory: &Path, name: &str) -> String {
    std::fs::read_to_string(directory.join(name)).unwrap()
}

/// Every message that was not lost with a count is there, for each storage.
fn check_counts(runs: &Value) {
    let runs = runs.as_array().unwrap();
    let ids: Vec<_> = runs.iter().map(|run| run["storage_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["livebag", "mcap", "sqlite3"]);
    for run in runs {
        let count = |key: &str| run[key].as_u64().unwrap();
        assert_eq!(count("produced"), MESSAGES, "{run}");
        assert_eq!(count("recorded") + count("dropped") + count("lapped"), MESSAGES, "{run}");
        let groups = run["recorded_by_group"].as_array().unwrap();
        let sum: u64 = groups.iter().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(sum, count("recorded"));
        let bytes = count("recorded_bytes");
        assert!(bytes > 0 && bytes <= count("file_bytes"), "{run}");
        for key in ["submit", "write"] {
            assert!(run[key]["p99_us"].as_f64().unwrap() >= run[key]["p50_us"].as_f64().unwrap());
        }
        assert!(count("memory_peak_bytes") > 0 && count("file_bytes") > 10 * 100_000);
    }
}

#[test]
fn every_storage_records_what_producers_of_its_process_write() {
    let folder = tempfile::tempdir().unwrap();
    let (result, directory) = bench(folder.path(), &benchmark(false, ""), &[]);
    check_counts(&result["runs"]);
    let name = directory.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("bench_producers_no_transport_2"), "{name}");
    assert_eq!(file(&directory, "producers.yaml"), PRODUCERS);
    assert_eq!(file(&directory, "benchmark.yaml"), benchmark(false, ""));
    assert_eq!(file(&directory, "figures.csv").lines().count(), 1 + 3 * 2);
    assert!(file(&directory, "report.txt").contains("storage: sqlite3"));
    assert_eq!(file(&directory, "report.html").matches("<svg").count(), 8);
    let json: Value = serde_json::from_str(&file(&directory, "results.json")).unwrap();
    assert_eq!(json["runs"], result["runs"]);
    assert_eq!(directory.read_dir().unwrap().count(), 6, "the recordings are gone");
}

#[test]
fn every_storage_records_what_another_process_publishes() {
    let folder = tempfile::tempdir().unwrap();
    let keep = "        preserve_bags: true\n";
    let (result, directory) = bench(folder.path(), &benchmark(false, keep), &["--transport"]);
    check_counts(&result["runs"]);
    assert!(text(&directory).contains("_transport_"));
    for entry in result["runs"].as_array().unwrap() {
        let bag = entry["bag"].as_str().unwrap();
        let info = run(&["info", bag, "--json"]).expect(0, &[]).json();
        assert_eq!(info["message_count"], entry["recorded"]);
        assert_eq!(info["topics"].as_array().unwrap().len(), 4);
    }
}

#[test]
fn without_a_cache_and_with_splits_nothing_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let settings = "          max_bag_size: [300000]\n          storage_config_file: [\"\"]\n";
    let document = benchmark(false, "        preserve_bags: true\n") + settings;
    let document = document.replace("[50000000]", "[0]");
    let (result, _) = bench(folder.path(), &document, &[]);
    check_counts(&result["runs"]);
    for entry in &result["runs"].as_array().unwrap()[1..] {
        assert_eq!(entry["recorded"], MESSAGES, "no cache, no loss");
        let bag = Path::new(entry["bag"].as_str().unwrap());
        assert!(bag.read_dir().unwrap().count() > 3, "it was split");
    }
}

#[test]
fn what_is_printed_can_be_run() {
    let folder = tempfile::tempdir().unwrap();
    let printed = |name: &str| {
        let text = run(&["bench", "--print-profile", name]).expect(0, &[]).out;
        write(folder.path(), &format!("{name}.yaml"), &text)
    };
    let (load, benchmark) = (printed("automotive"), printed("benchmark"));
    let out = folder.path().join("out");
    let arguments =
        ["bench", "--any-commit", text(&load), text(&benchmark), "--duration", "20ms", "-o"];
    let ended = run(&[&arguments[..], &[text(&out)]].concat()).expect(0, &["[3/3] sqlite3"]);
    assert!(ended.out.contains("topic_root: camera") && ended.out.contains("end of report"));
    run(&["bench", "--print-profile", "car"]).expect(2, &["no profile \"car\"", "benchmark"]);
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let refused = |arguments: &[&str], code: i32, words: &[&str]| {
        let all = [&["bench", "--any-commit", "-o", text(&out)], arguments].concat();
        run(&all).expect(code, words);
        assert!(!out.exists());
    };
    refused(&[], 2, &["nothing to publish", "automotive"]);
    refused(&["--profile", "car"], 2, &["no profile \"car\"", "mixed_110Mbs"]);
    let bench = write(folder.path(), "b.yaml", &benchmark(false, ""));
    let producers = write(folder.path(), "p.yaml", PRODUCERS);
    let other = write(folder.path(), "other.yaml", "a: 1\n");
    refused(&[text(&bench)], 2, &["nothing to publish"]);
    refused(&[text(&producers), text(&bench), text(&bench)], 2, &["second benchmark"]);
    refused(&[text(&other)], 1, &["other.yaml is neither producers", "root key"]);
    refused(&[text(&folder.path().join("none.yaml"))], 1, &["none.yaml"]);
    let wrong = PRODUCERS.replace("rate_hz: 24", "rate_hz: often");
    let wrong = write(folder.path(), "wrong.yaml", &wrong);
    refused(&[text(&wrong)], 1, &["wrong.yaml", "images.rate_hz", "found \"often\""]);
    let wrong = benchmark(false, "        repeat: 3\n");
    let wrong = write(folder.path(), "wrong.yaml", &wrong);
    refused(&[text(&producers), text(&wrong)], 1, &["wrong.yaml", "repeat is not known"]);
}

#[test]
fn an_interrupted_benchmark_reports_the_runs_that_it_has() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;

    use rustix::process::{Pid, Signal, kill_process};

    let folder = tempfile::tempdir().unwrap();
    let producers = write(folder.path(), "p.yaml", PRODUCERS);
    let bench = write(folder.path(), "b.yaml", &benchmark(false, ""));
    let out = folder.path().join("out");
    let arguments =
        ["bench", "--any-commit", text(&producers), text(&bench), "--repeat", "1000", "-o"];
    let mut child = crate::common::livebag(&[&arguments[..], &[text(&out)]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("[1/3000]") {
        assert!(errors.read_line(&mut said).unwrap() > 0, "{said}");
    }
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    errors.read_to_string(&mut said).unwrap();
    let mut report = String::new();
    child.stdout.take().unwrap().read_to_string(&mut report).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("interrupted"), "{said}");
    assert!(report.contains("left out: all runs after"), "{report}");
    let directory = out.read_dir().unwrap().next().unwrap().unwrap().path();
    let json: Value = serde_json::from_str(&file(&directory, "results.json")).unwrap();
    assert!(!json["runs"].as_array().unwrap().is_empty());
    assert!(file(&directory, "report.html").contains("interrupted"));
    let names = directory.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_str().unwrap().starts_with("run_")));
}
