//! Completions for a shell: streams, recordings and topics as they are now.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap_complete::CompletionCandidate;
use clap_complete::env::CompleteEnv;
use livebag::{Container, stream_topic};
use livebag_shm::{Owners, Reader};

/// In this variable shells ask for completions.
pub const VARIABLE: &str = "LIVEBAG_COMPLETE";
/// Maximum entries of a folder to check, because the user waits for the answer.
const ENTRIES_MAX: usize = 1000;

/// Answers a shell that asks, and ends the process then.
pub fn answer() {
    CompleteEnv::with_factory(<crate::Cli as clap::CommandFactory>::command)
        .var(VARIABLE)
        .complete();
}

/// Streams of this machine.
pub fn streams(current: &OsStr) -> Vec<CompletionCandidate> {
    let candidate = |name: String| {
        let topic = topic_of(&name).unwrap_or_default();
        CompletionCandidate::new(name).help(Some(topic.into()))
    };
    matching(livebag_shm::list().unwrap_or_default(), current).map(candidate).collect()
}

/// Streams, and once a slash is typed the topics they carry.
pub fn streams_or_topics(current: &OsStr) -> Vec<CompletionCandidate> {
    match current.to_string_lossy().starts_with('/') {
        true => stream_topics(current),
        false => streams(current),
    }
}

fn stream_topics(current: &OsStr) -> Vec<CompletionCandidate> {
    let names = livebag_shm::list().unwrap_or_default();
    let topics = names.iter().filter_map(|name| topic_of(name)).collect();
    matching(topics, current).map(CompletionCandidate::new).collect()
}

fn topic_of(stream: &str) -> Option<String> {
    Some(stream_topic(Reader::open_of(stream, Owners::Trusted).ok()?.info()).name)
}

/// Recordings in the folder that is being typed, and folders that may have some.
pub fn recordings(current: &OsStr) -> Vec<CompletionCandidate> {
    let typed = current.to_string_lossy().into_owned();
    let (folder, prefix) = match typed.rfind('/') {
        Some(slash) => typed.split_at(slash + 1),
        None => ("", &*typed),
    };
    let place = if folder.is_empty() { Path::new(".") } else { Path::new(folder) };
    let entries = place.read_dir().into_iter().flatten().filter_map(Result::ok);
    let mut candidates = Vec::new();
    for entry in entries.take(ENTRIES_MAX) {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_hidden = name.starts_with('.') && !prefix.starts_with('.');
        if !name.starts_with(prefix) || is_hidden {
            continue;
        }
        let path = entry.path();
        let shown = format!("{folder}{name}");
        if let Some(glance) = livebag_bags::glance(&path) {
            let help = format!("{}, {}", glance.kind, glance.state);
            candidates.push(CompletionCandidate::new(shown).help(Some(help.into())));
        } else if path.is_dir() {
            candidates.push(CompletionCandidate::new(shown + "/"));
        }
    }
    candidates.sort();
    candidates
}

/// Topics of the recording that the line names; of this machine's streams where it names none.
pub fn topics(current: &OsStr) -> Vec<CompletionCandidate> {
    let words: Vec<OsString> = std::env::args_os().skip_while(|word| word != "--").collect();
    let paths = words.iter().skip(1).map(PathBuf::from);
    let known = paths.filter(|path| path.exists()).find_map(|path| topics_in(&path));
    match known {
        Some(topics) => matching(topics, current).map(CompletionCandidate::new).collect(),
        None => stream_topics(current),
    }
}

fn topics_in(path: &Path) -> Option<Vec<String>> {
    livebag_bags::glance(path)?;
    if let Ok(container) = Container::peek(path) {
        return Some(container.topics().iter().map(|topic| topic.topic().name.clone()).collect());
    }
    let source = livebag_bags::open_foreign(path).ok()?;
    Some(source.topics().iter().map(|topic| topic.name.clone()).collect())
}

/// Names that begin with the typed text, each once.
fn matching(mut names: Vec<String>, current: &OsStr) -> impl Iterator<Item = String> {
    let typed = current.to_string_lossy().into_owned();
    names.sort();
    names.dedup();
    // Names with control characters cannot be typed.
    let is_plain = |name: &String| !name.contains(char::is_control);
    names.into_iter().filter(is_plain).filter(move |name| name.starts_with(&typed))
}
