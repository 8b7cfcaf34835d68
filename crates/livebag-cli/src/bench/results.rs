//! Everything that was found for one producer YAML, and the folder that it is written to.

use std::path::{Path, PathBuf};

use livebag::Clock;
use serde::Serialize;

use super::benchmark::Benchmark;
use super::conditions::Conditions;
use super::measure::Run;
use super::producers::Producers;
use super::{csv, html, report};
use crate::outcome::CliError;
use crate::text;

/// Everything of one producer YAML.
#[derive(Serialize)]
pub struct Results {
    /// The benchmark's name.
    pub benchmark: String,
    /// The published messages.
    pub producers: Producers,
    /// Whether they came through streams, from a separate process.
    pub transport: bool,
    /// Where the reports are.
    pub directory: PathBuf,
    /// The conditions that the figures depend on.
    pub machine: Conditions,
    /// Combinations left out, and why.
    pub left_out: Vec<String>,
    /// Combinations that were run.
    pub runs: Vec<Run>,
}

impl Results {
    /// Writes the table, both reports and all figures, and gives the report in text.
    pub fn write(&self, result_file: &str) -> Result<String, CliError> {
        let report = report::text(self);
        let write = |name: &str, text: &str| write(&self.directory, name, text);
        write(result_file, &csv::table(&self.producers, &self.runs))?;
        write("results.json", &serde_json::to_string_pretty(self)?)?;
        write("report.txt", &report)?;
        write("report.html", &html::page(self)?)?;
        Ok(report)
    }
}

/// Makes `<root>/<benchmark>_<producers>_<transport|no_transport>_<time>`, with the documents in
/// it.
pub fn make_directory(benchmark: &Benchmark, producers: &Producers) -> Result<PathBuf, CliError> {
    let transport = if benchmark.no_transport { "no_transport" } else { "transport" };
    let time = text::stamp(Clock::system().wall_nanos());
    let name = format!("{}_{}_{transport}_{time}", benchmark.name, producers.name);
    let root = &benchmark.bag_root;
    std::fs::create_dir_all(root).map_err(|source| CliError::file("making", root, source))?;
    let directory = make_new(root, &name)?;
    write(&directory, "producers.yaml", &producers.text)?;
    if !benchmark.text.is_empty() {
        write(&directory, "benchmark.yaml", &benchmark.text)?;
    }
    Ok(directory)
}

/// Producers of one name may begin within one second.
fn make_new(root: &Path, name: &str) -> Result<PathBuf, CliError> {
    let mut directory = root.join(name);
    let mut number = 1;
    loop {
        match std::fs::create_dir(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                number += 1;
                directory = root.join(format!("{name}_{number}"));
            }
            Err(error) => return Err(CliError::file("making", &directory, error)),
            Ok(()) => return Ok(directory),
        }
    }
}

fn write(directory: &Path, name: &str, text: &str) -> Result<(), CliError> {
    let path = directory.join(name);
    #[expect(clippy::disallowed_methods, reason = "a report, not a recording")]
    std::fs::write(&path, text).map_err(|source| CliError::file("writing", &path, source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::profiles;

    #[test]
    fn results_of_one_second_have_folders_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let benchmark = Benchmark { bag_root: folder.path().join("new"), ..Benchmark::default() };
        let producers = profiles::producers("low_pubs").unwrap();
        let mut made: Vec<_> =
            (0..3).map(|_| make_directory(&benchmark, &producers).unwrap()).collect();
        made.dedup();
        assert_eq!(made.len(), 3);
        assert!(made.iter().all(|directory| directory.join("producers.yaml").is_file()));
    }
}
