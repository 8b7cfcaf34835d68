//! The streams requested by name, and whether they have appeared.

use std::collections::HashSet;

use livebag::{Status, stream_topic};
use livebag_format::Visible;
use livebag_shm::{OpenError, Owners, Reader};

use crate::outcome::CliError;

/// Bytes of the longest topic that a stream can carry (`docs/stream-layout.md`).
const TOPIC_BYTES_MAX: usize = 508;

/// Names that were asked for.
pub struct Wanted {
    /// Those that have not been seen yet, each with why it cannot be recorded, if that is so.
    unseen: Vec<(String, Option<String>)>,
    /// Those that are recorded, each with its topic.
    seen: Vec<(String, String)>,
    owners: Owners,
}

impl Wanted {
    /// Checks that streams or topics of these names can be.
    pub fn new(names: &[String], owners: Owners) -> Result<Self, CliError> {
        for name in names {
            check(name)?;
        }
        let unseen = names.iter().map(|name| (name.clone(), None)).collect();
        Ok(Self { unseen, seen: Vec::new(), owners })
    }

    /// Strikes out those that are being recorded.
    pub fn look(&mut self, status: &Status) {
        let recorded = |topic: &str| status.topics.iter().any(|seen| seen.name == topic);
        let owners = self.owners;
        let seen = &mut self.seen;
        self.unseen.retain_mut(|(name, refusal)| {
            if recorded(name) {
                seen.push((name.clone(), name.clone()));
                return false;
            }
            if name.contains('/') {
                return true;
            }
            match Reader::open_of(name, owners) {
                Ok(reader) => {
                    let topic = stream_topic(reader.info()).name;
                    let is_recorded = recorded(&topic);
                    if is_recorded {
                        seen.push((name.clone(), topic));
                    }
                    return !is_recorded;
                }
                Err(OpenError::NotFound { .. }) => {}
                Err(error) => *refusal = Some(format!("{name} was not recorded: {error}")),
            }
            true
        });
    }

    /// Those that have not been seen yet, each with why it cannot be recorded, if that is so.
    pub fn unseen(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.unseen.iter().map(|(name, refusal)| (name.as_str(), refusal.as_deref()))
    }

    /// A sentence for each that has not come, or of which no message has.
    pub fn missing(&self, status: &Status) -> Vec<String> {
        let unseen = self.unseen().map(|(name, refusal)| match refusal {
            Some(refusal) => refusal.to_owned(),
            None => format!("{} never appeared", Visible(name)),
        });
        let is_silent = |topic: &str| {
            let mut same = status.topics.iter().filter(|status| status.name == topic);
            same.all(|status| status.account().published() == 0)
        };
        let silent = self.seen.iter().filter(|(_, topic)| is_silent(topic));
        unseen
            .chain(silent.map(|(name, _)| format!("{}: no message came", Visible(name))))
            .collect()
    }
}

/// Streams of this machine that are there, but cannot be recorded.
pub struct Unreadable {
    owners: Owners,
    /// Regions that were looked at.
    known: HashSet<(String, u64)>,
}

impl Unreadable {
    pub fn new(owners: Owners) -> Self {
        Self { owners, known: HashSet::new() }
    }

    /// A sentence for each that has appeared since the last look.
    pub fn look(&mut self) -> Vec<String> {
        let regions = livebag_shm::list_regions().unwrap_or_default();
        self.known.retain(|known| regions.contains(known));
        let mut refusals = Vec::new();
        for region in regions {
            if self.known.contains(&region) {
                continue;
            }
            let opened = Reader::open_of(&region.0, self.owners);
            // One that is being made is looked at again.
            if opened.as_ref().is_err_and(OpenError::is_transient) {
                continue;
            }
            refusals.extend(opened.err().map(|error| error.to_string()));
            self.known.insert(region);
        }
        refusals
    }
}

/// Whether `name` can be the name of a stream or a topic.
fn check(name: &str) -> Result<(), CliError> {
    if name.contains('/') {
        let is_topic = name.starts_with('/')
            && name.len() <= TOPIC_BYTES_MAX
            && name[1..].split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        return if is_topic {
            Ok(())
        } else {
            Err(CliError::usage(format!(
                "`{name}` is neither a stream's name (no `/` in it) nor a topic (begins with `/`, no \
                 empty part and no `..`, at most {TOPIC_BYTES_MAX} bytes); -e matches any topic"
            )))
        };
    }
    match Reader::open_of(name, Owners::Trusted) {
        Err(OpenError::Name(error)) => Err(CliError::usage(format!("`{name}`: {error}"))),
        _ => Ok(()),
    }
}
