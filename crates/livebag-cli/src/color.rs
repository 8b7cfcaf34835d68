//! Colour: where it is used, and its meaning. No other module writes escape sequences for it.

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

/// Where a text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Meaning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Lost, damaged, failed.
    Bad,
    /// Needs attention.
    Warning,
    /// The head of a table.
    Heading,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Warning => AnsiColor::Yellow.on_default(),
            Self::Heading => Style::new().bold(),
        }
    }
}

/// When there is colour, for everything that this process prints from now on.
pub fn choose(when: clap::ColorChoice) {
    match when {
        // `anstream` takes a CI for a terminal with colour, whatever TERM says.
        clap::ColorChoice::Auto if std::env::var_os("TERM").is_some_and(|term| term == "dumb") => {
            ColorChoice::Never.write_global();
        }
        // As the environment and the terminal say.
        clap::ColorChoice::Auto => {}
        clap::ColorChoice::Always => ColorChoice::Always.write_global(),
        clap::ColorChoice::Never => ColorChoice::Never.write_global(),
    }
}

/// What `--color` says, before the command line is parsed: clap colours its own help and errors, too.
pub fn asked_for(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> clap::ColorChoice {
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy();
        let value = match text.strip_prefix("--color") {
            Some("") => arguments.next().map(|value| value.to_string_lossy().into_owned()),
            Some(rest) => rest.strip_prefix('=').map(str::to_owned),
            None if text == "--" => break,
            None => None,
        };
        if let Some(when) = value.and_then(|value| clap::ValueEnum::from_str(&value, false).ok()) {
            return when;
        }
    }
    clap::ColorChoice::Auto
}

/// Whether to colour: on a terminal with colours, unless NO_COLOR or `--color` changes it.
pub fn is_on(to: To) -> bool {
    let choice = match to {
        To::Out => AutoStream::choice(&std::io::stdout()),
        To::Err => AutoStream::choice(&std::io::stderr()),
    };
    choice != ColorChoice::Never
}

/// The text as it looks there.
pub fn paint(to: To, tone: Tone, text: &str) -> String {
    let style = tone.style();
    if is_on(to) && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

/// Terminal cells of a line there; `None` without a terminal: lines may have any length.
pub fn width(to: To) -> Option<usize> {
    use rustix::termios::tcgetwinsize;
    let size = match to {
        To::Out => tcgetwinsize(std::io::stdout()),
        To::Err => tcgetwinsize(std::io::stderr()),
    };
    // Serial lines tell 0.
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_found_wherever_it_stands() {
        let of = |line: &str| asked_for(line.split(' ').map(Into::into));
        assert_eq!(of("livebag info run1 --color always"), clap::ColorChoice::Always);
        assert_eq!(of("livebag --color=never info run1"), clap::ColorChoice::Never);
        assert_eq!(of("livebag info run1"), clap::ColorChoice::Auto);
        assert_eq!(of("livebag --colors=never"), clap::ColorChoice::Auto);
        assert_eq!(of("livebag bench -- --color never"), clap::ColorChoice::Auto);
        assert_eq!(of("livebag --color"), clap::ColorChoice::Auto);
    }
}
