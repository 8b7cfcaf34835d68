//! `livebag catalog`: keeping the catalogue of a store.

use std::io::Write;

use clap::Subcommand;

use crate::find;
use crate::outcome::{CliError, Outcome};
use crate::text;

/// Keep the catalogue of an object store
///
/// Keep the catalogue of an object store or a folder: the Parquet objects below `_livebag/`, of which
/// `livebag push` writes one for each recording.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag catalog compact s3://fleet/robot7\n  \
    livebag catalog rebuild s3://fleet/robot7 --robot r7")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Merge small objects of the catalogue into one, so that it is read faster
    Compact {
        /// s3://BUCKET/PREFIX, gs://…, az://CONTAINER/PREFIX, or a folder.
        #[arg(value_name = "WHERE")]
        place: String,
    },
    /// Make the rows of all recordings that have none, from their manifests
    Rebuild {
        /// s3://BUCKET/PREFIX, gs://…, az://CONTAINER/PREFIX, or a folder.
        #[arg(value_name = "WHERE")]
        place: String,
        /// The robot, where a recording does not name its own [default: none]
        #[arg(long, value_name = "ROBOT")]
        robot: Option<String>,
    },
}

/// Keeps it.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let failed = |error: livebag_catalog::CatalogueError| CliError::failed(error.to_string());
    let mut out = std::io::stdout().lock();
    match &args.verb {
        Verb::Compact { place } => {
            let done = find::open(place)?.compact().map_err(failed)?;
            writeln!(
                out,
                "{place}: {} merged; the catalogue has {} with {}",
                text::plural(done.merged_objects, "object"),
                text::plural(done.objects, "object"),
                text::plural(done.recordings, "recording"),
            )?;
            Ok(Outcome::Done)
        }
        Verb::Rebuild { place, robot } => {
            let done = find::open(place)?.rebuild(robot.as_deref()).map_err(failed)?;
            writeln!(
                out,
                "{place}: {}, {} of them added to the catalogue",
                text::plural(done.recordings, "recording"),
                done.added
            )?;
            let mut outcome = Outcome::Done;
            for failure in done.failures {
                outcome = CliError::failed(failure).report();
            }
            Ok(outcome)
        }
    }
}
