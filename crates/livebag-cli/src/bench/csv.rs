//! rosbag2's table of results: one row by group of publishers and run, separated by spaces, with
//! columns of ours behind its own.

use super::measure::Run;
use super::producers::{Group, Producers};

const THEIRS: &str = "storage_id instances frequency message_size total_messages_sent cache_size \
    max_bagfile_size storage_config compression compression_queue compression_threads \
    total_produced total_recorded_count producer_cpu_usage recorder_cpu_usage";
const OURS: &str = "group group_recorded_count recorded_bytes repeat dropped lapped mb_per_s cpu_s_per_gb \
    submit_p50_us submit_p99_us submit_max_us write_p50_us write_p99_us write_max_us memory_peak_bytes device_bytes \
    file_bytes seconds";

/// The whole table.
pub fn table(producers: &Producers, runs: &[Run]) -> String {
    let cores = runs.first().map_or(0, |run| run.cores_pct.len());
    let mut out = THEIRS.to_owned();
    for core in 0..cores {
        out += &format!(" core_{core}");
    }
    out += &format!(" {OURS}\n");
    for run in runs {
        for (index, group) in producers.groups.iter().enumerate() {
            out += &row(run, group, run.recorded_by_group[index]);
        }
    }
    out
}

fn row(run: &Run, group: &Group, recorded: u64) -> String {
    let percent = |value: f64| format!("{value:.2}");
    let mut cells = vec![
        run.storage_id.to_string(),
        group.publishers.to_string(),
        group.rate_hz.to_string(),
        group.message_bytes.to_string(),
        (group.publishers * group.messages_each).to_string(),
        run.max_cache_size.to_string(),
        run.max_bag_size.to_string(),
        run.storage_config.clone(),
        run.compression.clone(),
        run.compression_queue_size.to_string(),
        run.compression_threads.to_string(),
        run.produced.to_string(),
        run.recorded.to_string(),
        percent(run.producer_cpu_pct),
        percent(run.recorder_cpu_pct),
    ];
    cells.extend(run.cores_pct.iter().map(|value| percent(*value)));
    let time = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.1}"));
    let count = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    cells.extend([
        group.name.clone(),
        recorded.to_string(),
        run.recorded_bytes.to_string(),
        run.repeat.to_string(),
        run.dropped.to_string(),
        run.lapped.to_string(),
        percent(run.mb_per_s),
        format!("{:.4}", run.cpu_s_per_gb),
        time(run.submit.map(|submit| submit.p50_us)),
        time(run.submit.map(|submit| submit.p99_us)),
        time(run.submit.map(|submit| submit.max_us)),
        time(run.write.map(|write| write.p50_us)),
        time(run.write.map(|write| write.p99_us)),
        time(run.write.map(|write| write.max_us)),
        count(run.memory_peak_bytes),
        count(run.device_bytes),
        run.file_bytes.to_string(),
        format!("{:.3}", run.seconds),
    ]);
    // An empty cell shows as two spaces, as in rosbag2's. A space within one would be two cells.
    let cells: Vec<_> = cells.iter().map(|cell| cell.replace(char::is_whitespace, "_")).collect();
    cells.join(" ") + "\n"
}
