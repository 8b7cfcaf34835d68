//! One benchmark's outcome: the JSON object, the table, and the raw results on disk.

use std::path::{Path, PathBuf};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::clock;
use crate::error::{BenchError, Result};
use crate::files;
use crate::machine::Machine;
use crate::stats::round3;

/// A benchmark's results.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `stream`, `record` or `query`.
    pub bench: &'static str,
    /// The machine.
    pub machine: Machine,
    /// One per system and setting: medians over the repeats.
    pub rows: Vec<Row>,
    /// Every single run, in the order in which they ran. Only in the raw results.
    #[serde(skip)]
    pub runs: Vec<Row>,
    /// Runs that failed, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// Figures by name.
pub type Row = Map<String, Value>;

/// A row of anything that is a JSON object.
pub fn row(figures: &impl Serialize) -> Row {
    match serde_json::to_value(figures) {
        Ok(Value::Object(row)) => row,
        _ => Row::new(),
    }
}

/// A figure cut to three significant digits; `null` where there is none.
pub fn figure(value: Option<f64>) -> Value {
    value.map(round3).and_then(serde_json::Number::from_f64).map_or(Value::Null, Value::Number)
}

impl Report {
    /// Prints the JSON object or the table, and writes the raw results to `directory`.
    pub fn publish(&self, json: bool, columns: &[&str], directory: &Path) -> Result<()> {
        if json {
            let text = serde_json::to_string(self)
                .map_err(|e| BenchError::Usage(format!("the report cannot be written: {e}")))?;
            println!("{text}");
        } else {
            println!("{}", self.title());
            println!("{}", table(&self.rows, columns));
        }
        let path = self.save(directory)?;
        eprintln!("raw results: {}", path.display());
        for failure in &self.failures {
            eprintln!("failed: {failure}");
        }
        Ok(())
    }

    /// Writes `<date>-<bench>.json` with the command, the machine, the rows and every run.
    fn save(&self, directory: &Path) -> Result<PathBuf> {
        let mut whole = row(self);
        whole.insert("date".into(), clock::date_utc().into());
        whole.insert("command".into(), command_line().into());
        whole.insert("runs".into(), self.runs.iter().cloned().map(Value::Object).collect());
        let text = serde_json::to_string_pretty(&whole)
            .map_err(|e| BenchError::Usage(format!("the report cannot be written: {e}")))?;
        files::write_new(directory, &format!("{}-{}", clock::date_utc(), self.bench), &text)
    }

    fn title(&self) -> String {
        let m = &self.machine;
        format!(
            "{} · {} · {} cores · Linux {} · {:.0} GiB · {}",
            self.bench,
            m.cpu,
            m.cores,
            m.kernel,
            m.memory_bytes as f64 / f64::from(1 << 30),
            m.filesystem
        )
    }
}

fn command_line() -> String {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let name = Path::new(&program).file_name().map(|n| n.to_string_lossy().into_owned());
    std::iter::once(name.unwrap_or(program)).chain(words).collect::<Vec<_>>().join(" ")
}

fn table(rows: &[Row], columns: &[&str]) -> Table {
    let shown: Vec<&str> = columns
        .iter()
        .copied()
        .filter(|&name| rows.iter().any(|r| r.get(name).is_some_and(|v| !v.is_null())))
        .collect();
    let mut table = Table::new();
    table
        .load_preset(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(&shown);
    for row in rows {
        table.add_row(shown.iter().map(|&name| cell(row.get(name))));
    }
    for (index, &name) in shown.iter().enumerate() {
        let numeric = rows.iter().any(|r| r.get(name).is_some_and(Value::is_number));
        if let (true, Some(column)) = (numeric, table.column_mut(index)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "–".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(ratio)) => match ratio.get("of_medians").and_then(Value::as_f64) {
            Some(of_medians) => {
                let bound = |n| round3(ratio.get(n).and_then(Value::as_f64).unwrap_or(f64::NAN));
                format!("{} ({}–{})", round3(of_medians), bound("min"), bound("max"))
            }
            None => "–".to_owned(),
        },
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Ratio;

    #[test]
    fn a_table_shows_only_columns_with_figures() {
        let ratio = Ratio { of_medians: 0.51234, min: 0.4, max: 0.6 };
        let first = row(&serde_json::json!({"system": "livebag", "p50_us": 1.5, "x": ratio}));
        let second = row(&serde_json::json!({"system": "floor", "p50_us": null}));
        let text = table(&[first, second], &["system", "p50_us", "x", "never"]).to_string();
        assert!(text.contains("livebag") && text.contains("0.512 (0.4–0.6)"), "{text}");
        assert!(!text.contains("never"), "{text}");
    }

    #[test]
    fn figures_that_are_none_become_null() {
        assert_eq!(figure(None), Value::Null);
        assert_eq!(figure(Some(f64::NAN)), Value::Null);
        assert_eq!(figure(Some(1.23456)), serde_json::json!(1.23));
    }
}
