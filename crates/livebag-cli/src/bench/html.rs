//! The results as one page that opens from the file alone: no script, no font, no picture from
//! elsewhere.

use super::chart::{self, Bar, Range};
use super::machine;
use super::measure::Run;
use super::producers::Producers;
use super::report::{self, MEANINGS};
use super::summary::{self, Line};
use crate::outcome::CliError;
use crate::text;

const STYLE: &str = "body{font-family:sans-serif;color:#222;background:#fff;max-width:1000px;\
    margin:2em auto;padding:0 1em}table{border-collapse:collapse;font-size:14px;margin:1em 0}\
    td,th{padding:4px 10px;border-bottom:1px solid #ddd;text-align:left;white-space:nowrap}\
    td.n,th.n{text-align:right}div.wide{overflow-x:auto}svg{max-width:100%;height:auto}\
    dt{font-weight:bold;margin-top:.6em}pre{background:#f4f4f4;padding:1em;overflow-x:auto}";

/// The page.
pub fn page(
    producers: &Producers,
    runs: &[Run],
    left_out: &[String],
    transport: bool,
) -> Result<String, CliError> {
    let lines = summary::lines(runs);
    let title = format!("livebag bench: {}", producers.name);
    let repeats = runs.iter().map(|run| run.repeat).max().unwrap_or(0);
    let how = if transport {
        "producers in a process of their own, through shared-memory streams"
    } else {
        "without transport: producers in the recorder's process"
    };
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{0}</h1>\n<p>{1} for {2:.1} s, {3}; {4} each. \
         {5}</p>\n",
        escaped(&title),
        text::bytes_per_second(producers.bytes() as f64 / producers.seconds()),
        producers.seconds(),
        how,
        text::plural(repeats as usize, "run"),
        escaped(&machine::describe()),
    );
    for chart in charts(&lines)? {
        out += &format!("<figure>{chart}</figure>\n");
    }
    out += "<h2>Figures</h2>\n<p>Medians over the runs.</p>\n";
    let rows: Vec<_> = lines.iter().map(|line| report::cells(line).to_vec()).collect();
    out += &table(&report::HEAD, &rows);
    out += "<h2>What publishes</h2>\n";
    out += &publishers(producers);
    out += "<h2>What the figures mean</h2>\n<dl>\n";
    for (name, meaning) in MEANINGS {
        out += &format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(meaning));
    }
    out += "</dl>\n";
    for why in left_out {
        out += &format!("<p>Left out: {}</p>\n", escaped(why));
    }
    Ok(out + "</body></html>\n")
}

fn charts(lines: &[Line]) -> Result<Vec<String>, CliError> {
    let mut charts = vec![
        bars(lines, "Recorded", "messages recorded (%)", "%", |run| Some(run.recorded_pct))?,
        bars(lines, "Throughput", "recorded and durable (MB/s)", "MB/s", |run| Some(run.mb_per_s))?,
        bars(lines, "Processor time", "recorder's CPU time by data (s/GB)", "s/GB", |run| {
            Some(run.cpu_s_per_gb)
        })?,
        ranges(
            lines,
            "Submit latency: median (disc) to 99th percentile",
            "time of a producer's call (µs, logarithmic)",
            |run| run.submit.map(|p| (p.p50_us, p.p99_us)),
        )?,
        ranges(
            lines,
            "Write latency: median (disc) to 99th percentile",
            "due until written (µs, logarithmic)",
            |run| run.write.map(|p| (p.p50_us, p.p99_us)),
        )?,
    ];
    charts.push(bars(lines, "Peak memory", "recorder's resident set (MB)", "MB", |run| {
        run.memory_peak_bytes.map(|bytes| bytes as f64 / 1e6)
    })?);
    charts.push(bars(lines, "Device", "bytes sent to the device (MB)", "MB", |run| {
        run.device_bytes.map(|bytes| bytes as f64 / 1e6)
    })?);
    charts.retain(|chart| !chart.is_empty());
    Ok(charts)
}

fn label(line: &Line) -> String {
    format!("{} · {}", line.storage, line.parameters)
}

/// Empty where no run has the figure.
fn bars(
    lines: &[Line],
    title: &str,
    axis: &str,
    unit: &str,
    of: fn(&Run) -> Option<f64>,
) -> Result<String, CliError> {
    let row = |line: &Line| {
        let figure = line.figure(of)?;
        let value = format!("{} {unit}", three_digits(figure.median));
        Some(Bar { storage: line.storage, label: label(line), figure, value })
    };
    let rows: Vec<_> = lines.iter().filter_map(row).collect();
    if rows.is_empty() { Ok(String::new()) } else { chart::bars(title, axis, &rows) }
}

/// Empty where no run has the figure.
fn ranges(
    lines: &[Line],
    title: &str,
    axis: &str,
    of: fn(&Run) -> Option<(f64, f64)>,
) -> Result<String, CliError> {
    // A logarithm needs something above 0, and a clock tells nothing below a nanosecond.
    let above_zero = |value: f64| value.max(1e-3);
    let row = |line: &Line| {
        let p50 = line.figure(|run| of(run).map(|(p50, _)| p50))?.median;
        let p99 = line.figure(|run| of(run).map(|(_, p99)| p99))?.median;
        let time = |us: f64| text::duration((us * 1e3) as u64);
        Some(Range {
            storage: line.storage,
            label: label(line),
            p50: above_zero(p50),
            p99: above_zero(p99),
            value: format!("{} to {}", time(p50), time(p99)),
        })
    };
    let rows: Vec<_> = lines.iter().filter_map(row).collect();
    if rows.is_empty() { Ok(String::new()) } else { chart::ranges(title, axis, &rows) }
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn publishers(producers: &Producers) -> String {
    let head = ["group", ">publishers", "type", ">message", ">rate", ">messages each"];
    let rows: Vec<_> = producers
        .groups
        .iter()
        .map(|group| {
            vec![
                group.name.clone(),
                group.publishers.to_string(),
                group.type_name.clone(),
                text::bytes(group.message().len() as f64),
                text::hertz(Some(group.rate_hz)),
                text::count(group.messages_each),
            ]
        })
        .collect();
    table(&head, &rows)
}

/// Columns whose head begins with `>` are numbers.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let cell = |tag: &str, column: usize, content: &str| {
        let class = if head[column].starts_with('>') { " class=\"n\"" } else { "" };
        format!("<{tag}{class}>{}</{tag}>", escaped(content))
    };
    let line = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<_> = cells.enumerate().map(|(i, content)| cell(tag, i, content)).collect();
        format!("<tr>{}</tr>\n", cells.concat())
    };
    let mut out = "<div class=\"wide\"><table>\n".to_owned();
    out += &line("th", &mut head.iter().map(|name| name.trim_start_matches('>')));
    for row in rows {
        out += &line("td", &mut row.iter().map(String::as_str));
    }
    out + "</table></div>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
