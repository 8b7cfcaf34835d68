//! The streams that were asked for by name, and whether they have come.

use livebag::{Status, stream_topic};
use livebag_shm::{OpenError, Owners, Reader};

use crate::outcome::CliError;

/// Bytes of the longest topic that a stream can carry (`docs/stream-layout.md`).
const TOPIC_BYTES_MAX: usize = 508;

/// Names that have not been seen yet, each with what is known of it.
pub struct Wanted {
    unseen: Vec<(String, String)>,
    owners: Owners,
}

impl Wanted {
    /// Checks that streams or topics of these names can be.
    pub fn new(names: &[String], owners: Owners) -> Result<Self, CliError> {
        for name in names {
            check(name)?;
        }
        let unseen = |name: &String| (name.clone(), format!("{name} never appeared"));
        Ok(Self { unseen: names.iter().map(unseen).collect(), owners })
    }

    /// Strikes out those that are being recorded.
    pub fn look(&mut self, status: &Status) {
        let recorded = |topic: &str| status.topics.iter().any(|seen| seen.name == topic);
        let owners = self.owners;
        self.unseen.retain_mut(|(name, known)| {
            if recorded(name) {
                return false;
            }
            if name.contains('/') {
                return true;
            }
            match Reader::open_of(name, owners) {
                Ok(reader) => return !recorded(&stream_topic(reader.info()).name),
                Err(OpenError::NotFound { .. }) => {}
                Err(error) => *known = format!("{name} was not recorded: {error}"),
            }
            true
        });
    }

    /// A sentence for each that has not come.
    pub fn missing(self) -> Vec<String> {
        self.unseen.into_iter().map(|(_, known)| known).collect()
    }
}

/// A sentence for each stream of this machine that is there, but cannot be recorded.
pub fn unreadable(owners: Owners) -> Vec<String> {
    let names = livebag_shm::list().unwrap_or_default();
    let refusals = names.iter().filter_map(|name| Reader::open_of(name, owners).err());
    refusals.filter(|error| !error.is_transient()).map(|error| error.to_string()).collect()
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
