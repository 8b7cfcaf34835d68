//! `livebag completions`: what shells need to complete livebag's command lines.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::outcome::{CliError, Outcome};

/// Print completions for a shell.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag completions bash > ~/.local/share/bash-completion/completions/livebag\n  \
    livebag completions zsh > \"${fpath[1]}/_livebag\"\n  \
    livebag completions fish > ~/.config/fish/completions/livebag.fish")]
pub struct Args {
    /// The shell.
    shell: Shell,
}

/// Prints the completions.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "livebag", &mut script);
    std::io::Write::write_all(&mut std::io::stdout().lock(), &script)?;
    Ok(Outcome::Done)
}
