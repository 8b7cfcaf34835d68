//! A topic as a table: RFC 4180, a row for each message, a column for each field.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use livebag::Topic;
use livebag_bags::SourceMessage;
use livebag_format::decode::{DecodeOptions, Decoder};
use serde_json::Value;

use super::create;
use crate::outcome::CliError;

/// Columns that every table begins with; times are nanoseconds since 1970.
const HEAD: [&str; 3] = ["log_time", "publish_time", "sequence"];

/// Whether messages of this topic can be rows: images and clouds are megabytes of numbers.
pub fn fits(topic: &Topic) -> bool {
    let bulky = ["Image", "CompressedImage", "PointCloud2", "OccupancyGrid"];
    !topic.type_name.rsplit('/').next().is_some_and(|name| bulky.contains(&name))
}

/// One table.
pub struct Table {
    path: PathBuf,
    out: Option<BufWriter<File>>,
    decoder: Option<Result<Decoder, String>>,
    columns: Vec<String>,
}

impl Table {
    /// A table that is made with its first row.
    pub fn new(path: &Path) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push(".csv");
        Self { path: name.into(), out: None, decoder: None, columns: Vec::new() }
    }

    /// Adds a message; the inner error says why it has no row.
    pub fn add(
        &mut self,
        topic: &Topic,
        message: &SourceMessage,
    ) -> Result<Result<(), String>, CliError> {
        let decoder = self
            .decoder
            .get_or_insert_with(|| Decoder::new(topic).map_err(|error| error.to_string()));
        let decoder = match decoder {
            Ok(decoder) => decoder,
            Err(error) => return Ok(Err(error.clone())),
        };
        let options = DecodeOptions { array_items_max: usize::MAX };
        let value = match decoder.decode(&message.data, &options) {
            Ok(value) => value,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let mut cells = Vec::new();
        flatten("", value, &mut cells);
        let failed = |source| CliError::file("writing", &self.path, source);
        let out = match &mut self.out {
            Some(out) => out,
            none => {
                let out = none.insert(create(&self.path)?);
                self.columns = cells.iter().map(|(name, _)| name.clone()).collect();
                let head = HEAD.iter().copied().chain(self.columns.iter().map(String::as_str));
                write_row(out, head).map_err(failed)?;
                out
            }
        };
        // Only JSON messages can differ from the first one.
        if let Some((new, _)) = cells.iter().find(|(name, _)| !self.columns.contains(name)) {
            return Ok(Err(format!("it has a field that the first message has not: {new}")));
        }
        let numbers = [message.log_time_nanos, message.publish_time_nanos, message.sequence];
        let numbers = numbers.map(|number| number.to_string());
        let is_same = cells.iter().map(|(name, _)| name).eq(&self.columns);
        let fields: Vec<&str> = match is_same {
            true => cells.iter().map(|(_, cell)| cell.as_str()).collect(),
            false => self.columns.iter().map(|column| of(&cells, column)).collect(),
        };
        write_row(out, numbers.iter().map(String::as_str).chain(fields)).map_err(failed)?;
        Ok(Ok(()))
    }

    /// Writes the remaining rows; returns the file's name, if there is a file.
    pub fn finish(&mut self) -> Result<Option<String>, CliError> {
        let Some(out) = &mut self.out else { return Ok(None) };
        out.flush().map_err(|source| CliError::file("writing", &self.path, source))?;
        Ok(Some(self.path.display().to_string()))
    }
}

fn of<'a>(cells: &'a [(String, String)], column: &str) -> &'a str {
    cells.iter().find(|(name, _)| name == column).map_or("", |(_, cell)| cell)
}

/// Nested fields get names with dots; arrays stay JSON.
fn flatten(name: &str, value: Value, cells: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let name = if name.is_empty() { key } else { format!("{name}.{key}") };
                flatten(&name, value, cells);
            }
        }
        Value::Null => cells.push((name.to_owned(), String::new())),
        Value::String(text) => cells.push((name.to_owned(), text)),
        other => cells.push((name.to_owned(), other.to_string())),
    }
}

fn write_row<'a>(
    out: &mut impl Write,
    cells: impl Iterator<Item = &'a str>,
) -> std::io::Result<()> {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        match cell.contains([',', '"', '\n', '\r']) {
            true => write!(out, "\"{}\"", cell.replace('"', "\"\""))?,
            false => out.write_all(cell.as_bytes())?,
        }
    }
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_fields_are_columns_and_arrays_are_cells() {
        let mut cells = Vec::new();
        let value = serde_json::json!({"a": {"b": 1.5, "c": "x,\"y\""}, "d": [1, 2], "e": null});
        flatten("", value, &mut cells);
        let mut out = Vec::new();
        write_row(&mut out, cells.iter().map(|(name, _)| name.as_str())).unwrap();
        write_row(&mut out, cells.iter().map(|(_, cell)| cell.as_str())).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "a.b,a.c,d,e\n1.5,\"x,\"\"y\"\"\",\"[1,2]\",\n");
    }
}
