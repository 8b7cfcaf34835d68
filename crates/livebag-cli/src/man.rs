//! `livebag man`: its manual pages, for packages.

use std::path::PathBuf;

use clap::CommandFactory;

use crate::outcome::{CliError, Outcome};

/// Write the manual pages into a folder.
#[derive(clap::Args)]
pub struct Args {
    /// The folder; it is made.
    folder: PathBuf,
}

/// Writes a page for the command, and one for each verb.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    std::fs::create_dir_all(&args.folder)?;
    clap_mangen::generate_to(crate::Cli::command(), &args.folder)?;
    Ok(Outcome::Done)
}
