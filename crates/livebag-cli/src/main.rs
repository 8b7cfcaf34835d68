//! The livebag command: one file per verb, each with its arguments and `run`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Says a line on standard error: see [`text::say`].
macro_rules! say {
    ($($text:tt)*) => {
        $crate::text::say(&format!($($text)*))
    };
}

/// Prints a failure or loss on standard error: see [`text::complain`].
macro_rules! complain {
    ($($text:tt)*) => {
        $crate::text::complain(&format!($($text)*))
    };
}

#[cfg(feature = "bench")]
mod bench;
mod bridge;
#[cfg(feature = "bucket")]
mod catalog;
mod completions;
mod convert;
mod ctl;
#[cfg(feature = "demo")]
mod demo;
mod doctor;
mod event;
mod export;
#[cfg(feature = "bucket")]
mod find;
mod info;
mod json;
mod logger;
mod ls;
mod man;
mod play;
#[cfg(feature = "bucket")]
mod push;
mod query;
mod record;
mod recover;
mod robots;
mod ros2;
mod serve;
mod stored;
mod streams;
mod verify;

// Shared modules.
mod absent;
mod below;
mod color;
mod complete;
mod control;
mod features;
mod files;
mod guarded;
mod interrupt;
mod outcome;
mod parse;
mod place;
mod push_view;
mod report;
mod select;
mod text;
mod yaml;

use outcome::{CliError, Outcome};

/// Record every sensor of a robot at full rate, and read any moment back while it is being written.
#[derive(Parser)]
#[command(
    name = "livebag",
    version,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 finished, but messages were lost."
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
    /// Colour: auto, always, never.
    #[arg(long, global = true, value_name = "WHEN", default_value_t = clap::ColorChoice::Auto)]
    #[arg(display_order = 990)]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    color: clap::ColorChoice,
}

#[derive(Subcommand)]
enum Verb {
    Streams(streams::Args),
    Record(record::Args),
    Ctl(ctl::Args),
    Event(event::Args),
    #[command(visible_alias = "list")]
    Ls(ls::Args),
    Info(info::Args),
    Query(query::Args),
    Serve(serve::Args),
    Robots(robots::Args),
    Convert(convert::Args),
    Export(export::Args),
    #[cfg(feature = "bucket")]
    Push(push::Args),
    #[cfg(not(feature = "bucket"))]
    /// Copy recordings to an object store or a network drive (not in this build)
    Push(absent::Args),
    #[cfg(feature = "bucket")]
    Find(find::Args),
    #[cfg(not(feature = "bucket"))]
    /// Find topics of recordings in an object store (not in this build)
    Find(absent::Args),
    #[cfg(feature = "bucket")]
    Catalog(catalog::Args),
    #[cfg(not(feature = "bucket"))]
    /// Keep the catalogue of an object store (not in this build)
    Catalog(absent::Args),
    Verify(verify::Args),
    #[command(visible_alias = "reindex")]
    Recover(recover::Args),
    Play(play::Args),
    Bridge(bridge::Args),
    Doctor(doctor::Args),
    #[cfg(feature = "bench")]
    Bench(bench::Args),
    #[cfg(feature = "bench")]
    #[command(hide = true)]
    BenchRole(bench::roles::Args),
    #[cfg(not(feature = "bench"))]
    /// Measure recording: livebag, MCAP and SQLite (not in this build)
    Bench(absent::Args),
    #[cfg(feature = "demo")]
    Demo(demo::Args),
    #[cfg(feature = "demo")]
    #[command(hide = true)]
    DemoSensor(demo::sensor::Args),
    #[cfg(not(feature = "demo"))]
    /// Record simulated cameras, and query the recording meanwhile (not in this build)
    Demo(absent::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Man(man::Args),
}

fn run(verb: Verb) -> Result<Outcome, CliError> {
    match verb {
        Verb::Streams(args) => streams::run(&args),
        Verb::Record(args) => record::run(&args),
        Verb::Ctl(args) => ctl::run(&args),
        Verb::Event(args) => event::run(&args),
        Verb::Ls(args) => ls::run(&args),
        Verb::Info(args) => info::run(&args),
        Verb::Query(args) => query::run(&args),
        Verb::Serve(args) => serve::run(&args),
        Verb::Robots(args) => robots::run(&args),
        Verb::Convert(args) => convert::run(&args),
        Verb::Export(args) => export::run(&args),
        #[cfg(feature = "bucket")]
        Verb::Push(args) => push::run(&args),
        #[cfg(not(feature = "bucket"))]
        Verb::Push(_) => Err(absent::error("bucket")),
        #[cfg(feature = "bucket")]
        Verb::Find(args) => find::run(&args),
        #[cfg(feature = "bucket")]
        Verb::Catalog(args) => catalog::run(&args),
        #[cfg(not(feature = "bucket"))]
        Verb::Find(_) | Verb::Catalog(_) => Err(absent::error("bucket")),
        Verb::Verify(args) => verify::run(&args),
        Verb::Recover(args) => recover::run(&args),
        Verb::Play(args) => play::run(&args),
        Verb::Bridge(args) => bridge::run(&args),
        Verb::Doctor(args) => doctor::run(&args),
        #[cfg(feature = "bench")]
        Verb::Bench(args) => bench::run(&args),
        #[cfg(feature = "bench")]
        Verb::BenchRole(args) => bench::roles::run(&args),
        #[cfg(feature = "demo")]
        Verb::Demo(args) => demo::run(&args),
        #[cfg(feature = "demo")]
        Verb::DemoSensor(args) => demo::sensor::run(&args),
        #[cfg(not(feature = "bench"))]
        Verb::Bench(_) => Err(absent::error("bench")),
        #[cfg(not(feature = "demo"))]
        Verb::Demo(_) => Err(absent::error("demo")),
        Verb::Completions(args) => completions::run(&args),
        Verb::Man(args) => man::run(&args),
    }
}

/// clap's tip that a flag it does not know could be meant as a name misleads: nothing is called `--parquet`.
fn without_tip(mut error: clap::Error) -> clap::Error {
    let has_meant = error.get(clap::error::ContextKind::SuggestedArg).is_some();
    if error.kind() == clap::error::ErrorKind::UnknownArgument && !has_meant {
        error.remove(clap::error::ContextKind::Suggested);
    }
    error
}

fn main() -> ExitCode {
    complete::answer();
    livebag::raise_file_limit();
    logger::to_standard_error();
    color::choose(color::asked_for(std::env::args_os()));
    // `exit` ends the process, with exit code 2 when the usage is wrong.
    let line = Cli::try_parse().unwrap_or_else(|error| without_tip(error).exit());
    color::choose(line.color);
    let outcome = run(line.verb).unwrap_or_else(|error| error.report());
    ExitCode::from(outcome)
}
