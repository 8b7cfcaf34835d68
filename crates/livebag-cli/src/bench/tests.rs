//! Tables and pages of made-up runs.

use super::*;
use crate::bench::benchmark::StorageId;
use crate::bench::measure::Run;
use livebag_bench::stats::Percentiles;

fn results(left_out: &[&str]) -> Results {
    Results {
        benchmark: "b".to_owned(),
        producers: producers(),
        transport: true,
        directory: "there".into(),
        machine: Conditions::look(&std::env::temp_dir()),
        left_out: left_out.iter().map(|why| (*why).to_owned()).collect(),
        runs: runs(),
    }
}

fn run(storage_id: StorageId, parameters: &str, repeat: u64, mb_per_s: f64) -> Run {
    let submit = Some(Percentiles { p50_us: 5.0, p99_us: 900.0, max_us: 1e3 });
    let write = submit.map(|p| Percentiles { p50_us: p.p50_us * 100.0, p99_us: 9e4, max_us: 1e5 });
    Run {
        storage_id,
        parameters: parameters.to_owned(),
        repeat,
        max_cache_size: 100_000_000,
        max_bag_size: 0,
        storage_config: parameters.split_once(", ").map_or(String::new(), |p| p.1.to_owned()),
        compression: String::new(),
        compression_queue_size: 1,
        compression_threads: 0,
        produced: 100,
        recorded: 90,
        recorded_pct: 90.0,
        recorded_bytes: 80 * 508,
        recorded_bytes_pct: 40.0,
        recorded_by_group: vec![80, 10],
        dropped: 10,
        lapped: 0,
        seconds: 2.0,
        mb_per_s,
        cpu_s_per_gb: 1.0 / mb_per_s,
        producer_cpu_pct: 0.0,
        recorder_cpu_pct: 12.5,
        cores_pct: vec![50.0, 25.0],
        submit: (storage_id != StorageId::Sqlite3).then_some(submit).flatten(),
        write,
        memory_peak_bytes: Some(123_456_789),
        device_bytes: None,
        file_bytes: 1 << 30,
        bag: None,
    }
}

fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for repeat in 1..=2 {
        let rate = 100.0 * repeat as f64;
        runs.push(run(StorageId::Livebag, "cache 100 MB", repeat, 3.0 * rate));
        runs.push(run(StorageId::Mcap, "cache 100 MB, <fastwrite>", repeat, rate));
        runs.push(run(StorageId::Sqlite3, "cache 100 MB", repeat, rate / 2.0));
    }
    runs
}

fn producers() -> Producers {
    profiles::producers("low_pubs").unwrap()
}

#[test]
fn the_table_has_rosbag2_s_columns_and_a_row_by_group_and_run() {
    let table = csv::table(&producers(), &runs());
    let lines: Vec<_> = table.lines().collect();
    assert!(lines[0].starts_with(
        "storage_id instances frequency message_size total_messages_sent cache_size \
         max_bagfile_size storage_config compression compression_queue compression_threads \
         total_produced total_recorded_count producer_cpu_usage recorder_cpu_usage core_0 core_1 \
         group"
    ));
    assert_eq!(lines.len(), 1 + 6 * 2);
    let columns = lines[0].split(' ').count();
    assert!(lines.iter().all(|line| line.split(' ').count() == columns), "{table}");
    assert!(lines[1].starts_with(
        "livebag 100 200 500 200000 100000000 0   1 0 100 90 0.00 12.50 50.00 25.00 small 80 40640 1 "
    ));
    assert!(lines[2].starts_with("livebag 1 10 10000000 100 100000000 0   1 0 100 90 "));
}

#[test]
fn storages_are_not_mixed_in_the_report() {
    let report = report::text(&results(&["this"]));
    assert!(report.contains("publisher_groups"), "{report}");
    for storage in StorageId::ALL {
        assert!(report.contains(&format!("storage: {storage}, storage config")), "{report}");
    }
    let average = "cache [100000000] - min: 90.00%, average: 90.00%, max: 90.00%";
    assert_eq!(report.matches(average).count(), 3);
    assert!(report.contains("Repetitions: 2") && report.contains("end of report"));
    // Medians of 300 and 600, of 100 and 200, of 50 and 100.
    for rate in ["450.0", "150.0", "75.0"] {
        assert!(report.contains(rate), "{report}");
    }
    assert!(report.contains("left out: this"));
}

#[test]
fn the_page_has_a_chart_of_every_figure_and_nothing_from_elsewhere() {
    let page = html::page(&results(&[])).unwrap();
    // No run told bytes of the device.
    assert_eq!(page.matches("<svg").count(), 7);
    assert_eq!(page.matches("</svg>").count(), 7);
    for words in
        ["MB/s", "s/GB", "100 µs", "dashed line: 110 published", "messages recorded (%)", "(MB)"]
    {
        assert!(page.contains(words), "{words}");
    }
    assert!(page.contains("livebag · cache 100 MB") && page.contains("&lt;fastwrite&gt;"));
    for foreign in ["<script", "src=", "href=", "@import", "<fastwrite>", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

#[test]
fn names_of_runs_are_names_of_folders() {
    let mut benchmark = Benchmark::default();
    benchmark.parameters.config = vec![benchmark::Config::Preset("fastwrite".to_owned())];
    let plan = Plan::new(&benchmark).unwrap();
    let mut combination = plan.combinations[1].clone();
    assert_eq!(run_name(3, &combination), "run_3_mcap_100000000__1_0_fastwrite_0");
    combination.config = "../a b.yaml".to_owned();
    assert!(!run_name(0, &combination).contains(['/', ' ']));
}
