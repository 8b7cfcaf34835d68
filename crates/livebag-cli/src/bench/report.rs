//! The results as text: as rosbag2's `report_gen.py` has them, the storages kept apart, then the
//! figures that it lacks.

use std::collections::BTreeSet;

use super::measure::Run;
use super::producers::Producers;
use super::results::Results;
use super::summary::{self, Figure, Line};
use crate::text;

/// The meaning of the figures, for both reports.
pub const MEANINGS: [(&str, &str); 9] = [
    (
        "parameters",
        "cache: each half of the peers' double buffer, one cache of both halves' bytes for livebag; no cache: the peers write within the producer's call, and livebag's producers wait while its usual cache is full",
    ),
    (
        "recorded",
        "messages in the recording, counted by opening it, of all that were to be published",
    ),
    (
        "bytes",
        "bytes of the recorded messages, of all that were to be published: a large message that is lost weighs more here",
    ),
    (
        "throughput",
        "recorded bytes of messages by the time from the first message's due time until everything was durable (fdatasync or fsync returned)",
    ),
    (
        "CPU",
        "user and system time of the recording process, io_uring's threads included, by 1e9 recorded bytes of messages; without transport also the producers' calls; the kernel's writing back of the page cache is not in it",
    ),
    (
        "submit latency",
        "how long a producer's call takes: into the recorder without transport, into its stream with transport",
    ),
    (
        "write latency",
        "from a message's due time until it was written: mcap when its writer's call returned, sqlite3 when its transaction was committed, livebag when it could be read from the container (seen by looking every 2 ms and 50 µs a topic, so too long by up to that)",
    ),
    (
        "peak memory",
        "largest resident set of the recording process, mapped streams included; without transport also the producers' messages",
    ),
    (
        "device",
        "bytes that the recording process caused to be sent to the device (write_bytes of /proc/self/io); 0 on a tmpfs",
    ),
];

/// The report.
pub fn text(results: &Results) -> String {
    let Results { producers, runs, left_out, machine, transport, .. } = results;
    let mut out = producers.text.clone();
    if !out.ends_with('\n') {
        out.push('\n');
    }
    let sets: BTreeSet<_> = runs.iter().map(outer).collect();
    for set in sets {
        let of_set: Vec<_> = runs.iter().filter(|run| outer(run) == set).collect();
        out += &block(&of_set);
    }
    out +=
        &format!("\nend of report\n\n{}\n{}\n\n", how(producers, *transport), machine.describe());
    out += &figures(&summary::lines(runs));
    out.push('\n');
    for (name, meaning) in MEANINGS {
        out += &format!("{name}: {meaning}\n");
    }
    for why in left_out {
        out += &format!("left out: {why}\n");
    }
    out
}

/// The load, and how it was delivered.
pub fn how(producers: &Producers, transport: bool) -> String {
    let way = if transport {
        "by a process of their own, through shared-memory streams"
    } else {
        "in the recorder's process, without transport"
    };
    format!(
        "{} published for {:.1} s, {way}.",
        text::bytes_per_second(producers.bytes_per_second()),
        producers.seconds(),
    )
}

/// What `report_gen.py` makes a block of.
fn outer(run: &Run) -> (String, u64, u64, u64) {
    let queue = run.compression_queue_size;
    (run.compression.clone(), queue, run.compression_threads, run.max_bag_size)
}

fn block(runs: &[&Run]) -> String {
    let first = runs[0];
    let repeats: BTreeSet<_> = runs.iter().map(|run| run.repeat).collect();
    let compression = match first.compression.as_str() {
        "" => "<default>",
        name => name,
    };
    let mut out = format!(
        "\nResults:\n\tRepetitions: {}\n\tMax bagfile size: {}\n\tCompression: {compression}\n\
         \tCompression threads: {}\n\tCompression queue size: {}\n\
         \tRecorded messages for different caches and storage config:\n",
        repeats.len(),
        first.max_bag_size,
        first.compression_threads,
        first.compression_queue_size,
    );
    let storages: BTreeSet<_> = runs.iter().map(|run| run.storage_id).collect();
    for storage in storages {
        let of_storage = || runs.iter().filter(move |run| run.storage_id == storage);
        let configs: BTreeSet<_> = of_storage().map(|run| &run.storage_config).collect();
        for config in configs {
            let name = if config.is_empty() { "<default>" } else { config };
            out += &format!("\t\tstorage: {storage}, storage config: {name}:\n");
            let of_config = || of_storage().filter(move |run| run.storage_config == *config);
            let caches: BTreeSet<_> = of_config().map(|run| run.max_cache_size).collect();
            for cache in caches {
                let of_cache = of_config().filter(|run| run.max_cache_size == cache);
                out += &cache_line(cache, &of_cache.map(|r| r.recorded_pct).collect::<Vec<_>>());
            }
        }
    }
    out
}

fn cache_line(cache: u64, percents: &[f64]) -> String {
    let min = percents.iter().copied().fold(f64::INFINITY, f64::min);
    let max = percents.iter().copied().fold(0.0, f64::max);
    let average = percents.iter().sum::<f64>() / percents.len() as f64;
    format!("\t\t\tcache [{cache}] - min: {min:.2}%, average: {average:.2}%, max: {max:.2}%\n")
}

/// `0.8 µs`, `12 µs`, `3.4 ms`.
pub fn latency(us: f64) -> String {
    match us {
        us if us < 9.95 => format!("{us:.1} µs"),
        us => text::duration((us * 1e3) as u64),
    }
}

/// Names of the columns of [`cells`]; `>` for numbers.
pub const HEAD: [&str; 13] = [
    "storage",
    "parameters",
    ">recorded",
    ">bytes",
    ">dropped",
    ">lapped",
    ">MB/s",
    ">CPU s/GB",
    ">submit p50/p99",
    ">write p50/p99",
    ">peak memory",
    ">device",
    ">files",
];

fn figures(lines: &[Line]) -> String {
    let rows: Vec<_> = lines.iter().map(|line| cells(line).to_vec()).collect();
    text::table(&HEAD, &rows)
}

/// Medians over the repeats, as people read them.
pub fn cells(line: &Line) -> [String; 13] {
    let shown = |figure: Option<Figure>, show: &dyn Fn(f64) -> String| {
        figure.map_or_else(|| "-".to_owned(), |figure| show(figure.median))
    };
    let number = |of: fn(&Run) -> f64, show: &dyn Fn(f64) -> String| {
        shown(line.figure(|run| Some(of(run))), show)
    };
    let count = |value: f64| text::count(value.round() as u64);
    let percentiles = |p50: Option<Figure>, p99: Option<Figure>| {
        format!("{} / {}", shown(p50, &latency), shown(p99, &latency))
    };
    let bytes = |of: fn(&Run) -> Option<u64>| {
        shown(line.figure(|run| of(run).map(|bytes| bytes as f64)), &text::bytes)
    };
    [
        line.storage.to_string(),
        line.parameters.clone(),
        number(|run| run.recorded_pct, &|value| format!("{value:.2} %")),
        number(|run| run.recorded_bytes_pct, &|value| format!("{value:.2} %")),
        number(|run| run.dropped as f64, &count),
        number(|run| run.lapped as f64, &count),
        number(|run| run.mb_per_s, &|value| format!("{value:.1}")),
        number(|run| run.cpu_s_per_gb, &|value| format!("{value:.3}")),
        percentiles(
            line.figure(|run| run.submit.map(|p| p.p50_us)),
            line.figure(|run| run.submit.map(|p| p.p99_us)),
        ),
        percentiles(
            line.figure(|run| run.write.map(|p| p.p50_us)),
            line.figure(|run| run.write.map(|p| p.p99_us)),
        ),
        bytes(|run| run.memory_peak_bytes),
        bytes(|run| run.device_bytes),
        bytes(|run| Some(run.file_bytes)),
    ]
}
