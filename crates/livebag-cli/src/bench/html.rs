//! The results as one self-contained page: no script, no font, no picture from elsewhere.

use super::chart::{self, Bar, Range, Scale};
use super::measure::Run;
use super::producers::Producers;
use super::report::{self, MEANINGS};
use super::results::Results;
use super::summary::{self, Line};
use crate::outcome::CliError;
use crate::text;

const STYLE: &str = "body{font-family:sans-serif;color:#222;background:#fff;max-width:1160px;\
    margin:2em auto;padding:0 1em;line-height:1.4}table{border-collapse:collapse;font-size:13px;\
    margin:1em 0}td,th{padding:4px 8px;border-bottom:1px solid #ddd;text-align:left;\
    white-space:nowrap}td.n,th.n{text-align:right}div.wide{overflow-x:auto}\
    figure{margin:1.5em 0}svg{max-width:100%;height:auto}dt{font-weight:bold;margin-top:.6em}";

/// The page.
pub fn page(results: &Results) -> Result<String, CliError> {
    let Results { producers, runs, left_out, transport, machine, .. } = results;
    let lines = summary::lines(runs);
    let title = format!("livebag bench: {}", producers.name);
    let repeats = runs.iter().map(|run| run.repeat).max().unwrap_or(0);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{0}</h1>\n<p>{1} {2}.</p>\n<p>{3}</p>\n",
        escaped(&title),
        escaped(&report::how(producers, *transport)),
        match repeats {
            1 => "Each storage once".to_owned(),
            _ => format!("Each storage {repeats} times, in turn; thin lines show the range"),
        },
        escaped(&machine.describe()),
    );
    if !left_out.is_empty() {
        out += &format!("<p>Left out: {}.</p>\n", escaped(&left_out.join("; ")));
    }
    for (name, chart) in charts(producers, &lines)? {
        out += &format!("<figure aria-label=\"{}\">{chart}</figure>\n", escaped(name));
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
    Ok(out + "</dl>\n</body></html>\n")
}

/// Name and picture of each.
fn charts(producers: &Producers, lines: &[Line]) -> Result<Vec<(&'static str, String)>, CliError> {
    let published = producers.bytes_per_second() / 1e6;
    let up_to = |end, what: &str| Scale { end: Some(end), mark: what.to_owned() };
    let mut charts = vec![
        (
            "Messages recorded (more is better)",
            "messages recorded (%)",
            "%",
            up_to(100.0, ""),
            (|run| Some(run.recorded_pct)) as fn(&Run) -> Option<f64>,
        ),
        (
            "Data recorded (more is better)",
            "bytes of messages recorded (%)",
            "%",
            up_to(100.0, ""),
            |run| Some(run.recorded_bytes_pct),
        ),
        (
            "Throughput (more is better)",
            "recorded and durable (MB/s)",
            "MB/s",
            up_to(published, "published"),
            |run| Some(run.mb_per_s),
        ),
        (
            "Processor time (less is better)",
            "recorder's CPU time by data (s/GB)",
            "s/GB",
            Scale::default(),
            |run| Some(run.cpu_s_per_gb),
        ),
        (
            "Peak memory (less is better)",
            "recorder's resident set (MB)",
            "MB",
            Scale::default(),
            |run| run.memory_peak_bytes.map(|bytes| bytes as f64 / 1e6),
        ),
        (
            "Written (less is better)",
            "bytes sent to the device by byte recorded",
            "B/B",
            Scale::default(),
            Run::device_bytes_by_byte,
        ),
    ]
    .into_iter()
    .map(|(title, axis, unit, scale, of)| Ok((title, bars(lines, title, axis, unit, &scale, of)?)))
    .collect::<Result<Vec<_>, CliError>>()?;
    let submit = "Submit latency, median (disc) to 99th percentile (less is better)";
    let write = "Write latency, median (disc) to 99th percentile (less is better)";
    let of_submit = |run: &Run| run.submit.map(|p| (p.p50_us, p.p99_us));
    let of_write = |run: &Run| run.write.map(|p| (p.p50_us, p.p99_us));
    // Behind processor time, before memory.
    charts.insert(4, (submit, ranges(lines, submit, "time of a producer's call", of_submit)?));
    charts.insert(5, (write, ranges(lines, write, "from due until written", of_write)?));
    charts.retain(|(_, chart)| !chart.is_empty());
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
    scale: &Scale,
    of: fn(&Run) -> Option<f64>,
) -> Result<String, CliError> {
    let row = |line: &Line| {
        let figure = line.figure(of)?;
        let value = format!("{} {unit}", three_digits(figure.median));
        Some(Bar { storage: line.storage, label: label(line), figure, value })
    };
    let rows: Vec<_> = lines.iter().filter_map(row).collect();
    if rows.is_empty() { Ok(String::new()) } else { chart::bars(title, axis, scale, &rows) }
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
        Some(Range {
            storage: line.storage,
            label: label(line),
            p50: above_zero(p50),
            p99: above_zero(p99),
            value: format!("{} to {}", report::latency(p50), report::latency(p99)),
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
                text::bytes(group.encoded_bytes() as f64),
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
