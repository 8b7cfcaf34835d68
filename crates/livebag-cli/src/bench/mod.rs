//! `livebag bench`: rosbag2's performance benchmark over livebag's containers and, for comparison,
//! MCAP files and SQLite databases as rosbag2 writes them.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};
use crate::{parse, text, yaml};

mod benchmark;
mod chart;
mod conditions;
mod csv;
mod html;
mod measure;
mod plan;
mod producers;
mod producing;
mod profiles;
mod progress;
mod recording;
mod report;
mod results;
pub mod roles;
mod schedule;
mod settings;
mod summary;

#[cfg(test)]
mod tests;

use benchmark::{Benchmark, StorageId};
use conditions::Conditions;
use plan::Plan;
use producers::Producers;
use progress::Progress;
use results::Results;

/// Measure recording with rosbag2's benchmark.
///
/// The YAML of rosbag2's performance benchmark, over livebag, MCAP and SQLite.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag bench --profile automotive --quick\n  \
    livebag bench --print-profile automotive > producers.yaml\n  \
    livebag bench --print-profile benchmark > benchmark.yaml\n  \
    livebag bench producers.yaml benchmark.yaml\n  \
    livebag bench --profile mixed_110Mbs --storage livebag,mcap --repeat 3 --transport\n\n\
Files are told apart by their root key: rosbag2_performance_benchmarking_node (producers) and \
rosbag2_performance_benchmarking (what is run over them).\n\n\
Results go to a new folder: the table of results (rosbag2's columns, then more), report.txt, \
report.html, results.json.")]
pub struct Args {
    /// Producer YAML and, once at most, benchmark YAML, in any order.
    #[arg(value_name = "FILE.yaml")]
    files: Vec<PathBuf>,
    /// One of rosbag2's own loads: automotive, 100MBs_raw, 200MBs_raw, 300MBs_raw, mixed_110Mbs,
    /// low_pubs.
    #[arg(long, value_name = "NAME")]
    profile: Vec<String>,
    /// Print the YAML of a load, or of `benchmark`, as a template, and exit.
    #[arg(long, value_name = "NAME")]
    print_profile: Option<String>,
    /// A first look in less than 50 s: once each, few seconds, first values of parameters.
    #[arg(long)]
    quick: bool,
    /// Storages to run, in place of the benchmark's.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ID,…")]
    storage: Vec<StorageId>,
    /// Runs of each combination, in place of the benchmark's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    repeat: Option<u64>,
    /// Publish for this long in each run, in place of the producers' counts: 5, 500ms, 1m.
    #[arg(long, value_name = "TIME", value_parser = parse::duration_above_zero)]
    duration: Option<Duration>,
    /// Publish through shared-memory streams from a separate process (no_transport: false).
    #[arg(long)]
    transport: bool,
    /// Where the folder of results is made [default: the benchmark's bag_root_folder, or
    /// livebag_bench]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The option's earlier name.
    #[arg(long, hide = true, conflicts_with = "output")]
    out: Option<PathBuf>,
    /// Write results also if this command was built from no known commit of livebag's.
    #[arg(long)]
    any_commit: bool,
    /// Print the results as a JSON list: an object for each producer YAML.
    #[arg(long)]
    json: bool,
}

/// Runs it all.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    if let Some(name) = &args.print_profile {
        write!(std::io::stdout(), "{}", profiles::document(name)?)?;
        return Ok(Outcome::Done);
    }
    if !args.any_commit {
        livebag_bench::machine::check_commit().map_err(CliError::usage)?;
    }
    let (mut all, mut benchmark) = read(args)?;
    if !args.storage.is_empty() {
        benchmark.parameters.storage = args.storage.clone();
    }
    let out = parse::renamed(args.out.clone(), "--out", "-o");
    if let Some(out) = out.or_else(|| args.output.clone()) {
        benchmark.bag_root = out;
    }
    benchmark.no_transport &= !args.transport;
    if args.quick {
        benchmark = plan::quick_benchmark(benchmark);
    }
    benchmark.repeat_each = args.repeat.unwrap_or(benchmark.repeat_each);
    let plan = Plan::new(&benchmark)?;
    for producers in &mut all {
        if let Some(duration) = args.duration {
            *producers = producers.clone().lasting(duration.as_secs_f64());
        } else if args.quick {
            let runs = plan.combinations.len() * benchmark.repeat_each as usize;
            *producers = plan::quick_producers(producers.clone(), runs);
        }
    }
    let interrupt = Interrupt::watch()?;
    let mut results = Vec::new();
    for producers in all {
        results.push(run_producers(&benchmark, producers, &plan, args, &interrupt)?);
    }
    if args.json {
        writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&results)?)?;
    }
    Ok(Outcome::Done)
}

/// The documents, told apart by their root keys, and the profiles.
fn read(args: &Args) -> Result<(Vec<Producers>, Benchmark), CliError> {
    let mut all =
        args.profile.iter().map(|name| profiles::producers(name)).collect::<Result<Vec<_>, _>>()?;
    let mut found: Option<Benchmark> = None;
    for path in &args.files {
        let file = path.display().to_string();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = yaml::read(path)?;
        let value = yaml::parse(&file, &text)?;
        if value.has(producers::ROOT) {
            all.push(Producers::parse(&file, &name, &text)?);
        } else if !value.has(benchmark::ROOT) {
            return Err(CliError::failed(format!(
                "{file} is neither producers (root key {}) nor a benchmark (root key {})",
                producers::ROOT,
                benchmark::ROOT
            )));
        } else if found.is_some() {
            return Err(CliError::usage(format!("{file} is a second benchmark: give one")));
        } else {
            found = Some(Benchmark::parse(&file, &name, &text)?);
        }
    }
    if all.is_empty() {
        let known: Vec<_> = profiles::names().collect();
        return Err(CliError::usage(format!(
            "nothing to publish: give a producer YAML, or --profile with one of {}",
            known.join(", ")
        )));
    }
    Ok((all, found.unwrap_or_default()))
}

/// Runs every combination, and writes the reports, even after a failure.
fn run_producers(
    benchmark: &Benchmark,
    producers: Producers,
    plan: &Plan,
    args: &Args,
    interrupt: &Interrupt,
) -> Result<Results, CliError> {
    let directory = results::make_directory(benchmark, &producers)?;
    let runs_count = plan.combinations.len() * benchmark.repeat_each as usize;
    say!(
        "livebag: {}: {}, {} for {:.1} s each, into {}",
        producers.name,
        text::plural(runs_count, "run"),
        text::bytes_per_second(producers.bytes_per_second()),
        producers.seconds(),
        directory.display()
    );
    for why in &plan.left_out {
        say!("livebag: left out: {why}");
    }
    let mut results = Results {
        benchmark: benchmark.name.clone(),
        transport: !benchmark.no_transport,
        machine: Conditions::look(&directory),
        producers,
        directory,
        left_out: plan.left_out.clone(),
        runs: Vec::new(),
    };
    let failure = run_all(benchmark, plan, &mut results, interrupt).err();
    if let Some(failure) = &failure {
        if results.runs.is_empty() {
            // Nothing is in it but copies.
            let _ = std::fs::remove_dir_all(&results.directory);
        }
        let done = results.runs.len();
        results.left_out.push(format!("all runs after {done} of {runs_count}: {failure}"));
    }
    if !results.runs.is_empty() {
        results.machine.look_again(&results.directory);
        let report = results.write(&benchmark.result_file)?;
        if !args.json {
            write!(std::io::stdout(), "{report}")?;
        }
        say!("livebag: charts: {}", results.directory.join("report.html").display());
    }
    failure.map_or(Ok(results), Err)
}

fn run_all(
    benchmark: &Benchmark,
    plan: &Plan,
    results: &mut Results,
    interrupt: &Interrupt,
) -> Result<(), CliError> {
    let runs_count = plan.combinations.len() * benchmark.repeat_each as usize;
    let mut progress = Progress::begin(runs_count);
    let Results { producers, directory, runs, .. } = results;
    // The repeats are the outer loop, so that changes on the machine affect all combinations alike. Every other one
    // goes backwards, so that none always comes after the same.
    for repeat in 1..=benchmark.repeat_each {
        for combination in plan.in_turn(repeat) {
            progress.show(combination, producers.seconds());
            let place = directory.join(run_name(runs.len(), combination));
            let run =
                measure::measure(benchmark, producers, combination, repeat, &place, interrupt)?;
            progress.finished(&run);
            runs.push(run);
        }
    }
    Ok(())
}

/// `run_<i>_<storage>_<cache>_<compression>_<queue>_<threads>_<config>_<size>`.
fn run_name(index: usize, combination: &plan::Combination) -> String {
    let c = combination;
    let name = format!(
        "run_{index}_{}_{}_{}_{}_{}_{}_{}",
        c.storage,
        c.cache_bytes,
        c.compression,
        c.compression_queue,
        c.compression_threads,
        c.config,
        c.bag_bytes
    );
    name.replace(['/', ' '], "-")
}
