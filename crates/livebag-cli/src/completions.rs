//! `livebag completions`: what shells need to complete livebag's command lines.

use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::complete;
use crate::outcome::{CliError, Outcome};

/// Print completions for a shell
///
/// Print completions for a shell: verbs, options, and existing streams, recordings and topics.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag completions bash > ~/.local/share/bash-completion/completions/livebag\n  \
    livebag completions zsh > \"${fpath[1]}/_livebag\"\n  \
    livebag completions fish > ~/.config/fish/completions/livebag.fish\n\n\
The script asks the livebag in PATH: print it again after an upgrade.")]
pub struct Args {
    /// The shell.
    shell: Shell,
}

/// Prints the completions.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let name = args.shell.to_string();
    let shells = Shells::builtins();
    let completer = shells
        .completer(&name)
        .ok_or_else(|| CliError::failed(format!("there are no completions for {name}")))?;
    let mut script = Vec::new();
    completer.write_registration(
        complete::VARIABLE,
        "livebag",
        "livebag",
        "livebag",
        &mut script,
    )?;
    std::io::Write::write_all(&mut std::io::stdout().lock(), &script)?;
    Ok(Outcome::Done)
}
