//! `container.yaml`: the contents of a container. Layout: `docs/container-layout.md`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Account, Topic};

/// Version of the container's layout that this crate writes.
pub const CONTAINER_VERSION: u32 = 1;
/// Name of the file in the container's directory.
pub const CONTAINER_FILE: &str = "container.yaml";
/// Name of the file whose lock says that a recorder is at work.
pub const LOCK_FILE: &str = "container.lock";

/// Name of the MCAP file with a recording's attachments. Nothing but the name: whether there is one says
/// [`Manifest::attachments`].
pub const ATTACHMENTS_FILE: &str = "attachments.mcap";

/// Name of the file that says which messages are on the medium.
pub const SYNCED_FILE: &str = "container.synced";
/// The text before the checksum in the last line of `container.yaml`.
const CHECKSUM_LINE: &str = "# crc32c: ";

/// How a container was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Being written, or its recorder died: the lock tells which.
    Recording,
    /// Closed in order.
    Closed,
    /// Its recorder died; the committed messages have been kept and the container closed.
    Recovered,
}

/// Messages published and not in the recording, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Missing in the source's sequence when they reached livebag.
    #[serde(default)]
    pub transport: u64,
    /// Dropped because the topic's queue was full.
    #[serde(default)]
    pub queue: u64,
    /// Overwritten in the stream's slot before the device had them.
    #[serde(default)]
    pub lapped: u64,
    /// Refused by the disk.
    #[serde(default)]
    pub disk: u64,
    /// Discarded at the end, on request.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub abandoned: u64,
}

impl Losses {
    /// Sum over all causes.
    pub fn total(&self) -> u64 {
        self.transport + self.queue + self.lapped + self.disk + self.abandoned
    }

    /// Adds another topic's losses.
    pub fn add(&mut self, other: &Losses) {
        self.transport += other.transport;
        self.queue += other.queue;
        self.lapped += other.lapped;
        self.disk += other.disk;
        self.abandoned += other.abandoned;
    }
}

/// One topic of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicManifest {
    /// Topic name.
    pub name: String,
    /// Type name; empty if unknown.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Encoding of the messages: `cdr`, `ros1`, …
    pub message_encoding: String,
    /// Encoding of the schema: `ros2msg`, …; empty without schema.
    #[serde(default)]
    pub schema_encoding: String,
    /// The schema, if it is text.
    #[serde(default)]
    pub schema: String,
    /// The schema in hexadecimal, if it is not text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub schema_hex: String,
    /// MCAP channel metadata.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// File name of the time index; empty while there is no message.
    #[serde(default)]
    pub index: String,
    /// File names of the bricks, in the order in which index entries number them.
    #[serde(default)]
    pub bricks: Vec<String>,
    /// MCAP's channel and schema id in the bricks.
    pub channel_id: u16,
    /// Messages recorded, as of the last writing of this file.
    #[serde(default)]
    pub message_count: u64,
    /// Bytes of encoded messages recorded, as of the last writing of this file.
    #[serde(default)]
    pub message_bytes: u64,
    /// How many of `message_count` repeat an earlier message at the head of a split: all others were published, and so
    /// were the lost ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeated: u64,
    /// Losses by cause, as of the last writing of this file.
    #[serde(default)]
    pub lost: Losses,
    /// Messages left out on purpose: while paused, or more often than asked for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: u64,
    /// Messages that had been recorded, and that recovery could not prove: damaged, and left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub damaged: u64,
    /// How often the topic's writer died and came back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub writer_returns: u64,
    /// Why the topic's files could not be made at first, or at all; empty if they could.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refused: String,
}

/// How often the wall clock was set while recording, as log times show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockJumps {
    /// How often.
    pub count: u64,
    /// The largest, forward or back, in nanoseconds.
    pub max_nanos: u64,
}

impl ClockJumps {
    /// Adds one of this many nanoseconds.
    pub fn add(&mut self, nanos: u64) {
        self.count += 1;
        self.max_nanos = self.max_nanos.max(nanos);
    }

    fn is_none(&self) -> bool {
        self.count == 0
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What retention has removed of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedTopic {
    /// Topic name.
    pub name: String,
    /// Messages.
    #[serde(default)]
    pub messages: u64,
    /// Bytes of those.
    #[serde(default)]
    pub bytes: u64,
    /// How many of those messages were repeated at the head of a split.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeated: u64,
    /// Messages left out on purpose while the removed splits were recorded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: u64,
    /// Losses of the removed splits.
    #[serde(default)]
    pub lost: Losses,
}

/// What retention has removed from a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Splits.
    pub splits: u64,
    /// Messages in them.
    pub messages: u64,
    /// Bytes of encoded messages in them.
    pub bytes: u64,
    /// How many of those messages were repeated at the head of a split.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeated: u64,
    /// Their losses.
    pub lost: Losses,
    /// The same by topic; empty if the recorder was older than this field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<RemovedTopic>,
    /// Directories of those splits of which there are copies elsewhere; of the first split, which has none, the empty
    /// name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<String>,
    /// The topics of the first split, if it is among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_split: Vec<TopicManifest>,
}

impl Removed {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Adds a split with these topics.
    pub fn add_split(&mut self, topics: &[TopicManifest]) {
        self.splits += 1;
        for topic in topics {
            self.messages += topic.message_count;
            self.bytes += topic.message_bytes;
            self.repeated += topic.repeated;
            self.lost.add(&topic.lost);
            let known = self.topics.iter().position(|known| known.name == topic.name);
            let at = known.unwrap_or_else(|| {
                let name = topic.name.clone();
                self.topics.push(RemovedTopic { name, ..RemovedTopic::default() });
                self.topics.len() - 1
            });
            let removed = &mut self.topics[at];
            removed.messages += topic.message_count;
            removed.bytes += topic.message_bytes;
            removed.repeated += topic.repeated;
            removed.skipped += topic.skipped;
            removed.lost.add(&topic.lost);
        }
    }
}

impl TopicManifest {
    /// Describes `topic`, whose messages are in `bricks`.
    pub fn new(topic: &Topic, channel_id: u16, index: String, bricks: Vec<String>) -> Self {
        let (schema, schema_hex) = match std::str::from_utf8(&topic.schema) {
            Ok(text) if !text.contains('\r') => (text.to_owned(), String::new()),
            _ => (String::new(), hex_encode(&topic.schema)),
        };
        Self {
            name: topic.name.clone(),
            type_name: topic.type_name.clone(),
            message_encoding: topic.message_encoding.clone(),
            schema_encoding: topic.schema_encoding.clone(),
            schema,
            schema_hex,
            metadata: topic.metadata.clone(),
            index,
            bricks,
            channel_id,
            message_count: 0,
            message_bytes: 0,
            repeated: 0,
            lost: Losses::default(),
            skipped: 0,
            damaged: 0,
            writer_returns: 0,
            refused: String::new(),
        }
    }

    /// The topic as every other format knows it.
    ///
    /// # Errors
    /// If the schema's hexadecimal is damaged.
    pub fn topic(&self) -> Result<Topic, ManifestError> {
        let schema = if self.schema_hex.is_empty() {
            self.schema.clone().into_bytes()
        } else {
            hex_decode(&self.schema_hex).ok_or_else(|| ManifestError::Field {
                field: "schema_hex",
                topic: self.name.clone(),
            })?
        };
        Ok(Topic {
            name: self.name.clone(),
            type_name: self.type_name.clone(),
            message_encoding: self.message_encoding.clone(),
            schema_encoding: self.schema_encoding.clone(),
            schema,
            metadata: self.metadata.clone(),
        })
    }
}

/// Values under a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataEntry {
    /// Their subject.
    pub name: String,
    /// The keys and values.
    pub values: BTreeMap<String, String>,
}

/// The whole of `container.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`CONTAINER_VERSION`] of the writer.
    pub livebag_container: u32,
    /// Program and version that wrote it.
    pub library: String,
    /// MCAP profile of the messages: `ros2`, `ros1` or empty.
    #[serde(default)]
    pub profile: String,
    /// How it was left.
    pub state: State,
    /// When recording began, nanoseconds since the Unix epoch.
    pub started_nanos: u64,
    /// When it was closed; 0 while it is not.
    #[serde(default)]
    pub ended_nanos: u64,
    /// When this file was written, nanoseconds since the Unix epoch; 0 if its writer did not say.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub written_nanos: u64,
    /// Since when losses are not known, nanoseconds since the Unix epoch; 0 if everything is known. Set by recovery: the
    /// recorder counted up to here; losses between here and its death are not counted. Set in a copy of a recording that
    /// lacks messages: when the copy began.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown_since_nanos: u64,
    /// What stopped the recording, if something did: the first failure.
    #[serde(default)]
    pub failure: String,
    /// Names and values stored in the recording: MCAP's metadata records, rosbag2's custom data.
    #[serde(default)]
    pub metadata: Vec<MetadataEntry>,
    /// Name of the MCAP file with the recording's attachments; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub attachments: String,
    /// Whether all topics of a split are in one MCAP file, so that with a `metadata.yaml` it is also a rosbag2 bag.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_file: bool,
    /// Directories of the later splits, each a complete container, in order of time. The first split is in this
    /// directory itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<String>,
    /// How often the wall clock was set while recording.
    #[serde(default, skip_serializing_if = "ClockJumps::is_none")]
    pub clock_jumps: ClockJumps,
    /// What retention has removed.
    #[serde(default, skip_serializing_if = "Removed::is_nothing")]
    pub removed: Removed,
    /// The topics, in the order in which they appeared.
    #[serde(default)]
    pub topics: Vec<TopicManifest>,
}

/// Why a `container.yaml` cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Not YAML, or keys are missing.
    #[error("{CONTAINER_FILE} is damaged or not livebag's: {0}")]
    Yaml(String),
    /// Written by a newer livebag.
    #[error(
        "the container has layout version {found}, and this livebag reads up to \
         {CONTAINER_VERSION}: use a newer livebag"
    )]
    Version {
        /// The version in the file.
        found: u32,
    },
    /// A value makes no sense.
    #[error("{CONTAINER_FILE} has a damaged `{field}` for topic {topic}")]
    Field {
        /// The key.
        field: &'static str,
        /// The topic's name.
        topic: String,
    },
}

impl Manifest {
    /// The manifest of the whole recording, for the place where the copies of its removed splits are. `None` if no split
    /// was removed, or one of which there is no copy.
    pub fn with_released(&self) -> Option<Self> {
        let Removed { splits, released, first_split, .. } = &self.removed;
        if released.is_empty() || released.len() as u64 != *splits {
            return None;
        }
        let mut whole = Self { removed: Removed::default(), ..self.clone() };
        if released.iter().any(String::is_empty) {
            whole.topics.clone_from(first_split);
        }
        let later = released.iter().filter(|folder| !folder.is_empty()).cloned();
        whole.splits.splice(0..0, later);
        Some(whole)
    }

    /// Adds to its topics what the accounts of a recording's topics lack, of which this is a copy. They are in the same
    /// order.
    pub fn inherit(&mut self, accounts: &[Account]) {
        for (topic, account) in self.topics.iter_mut().zip(accounts) {
            topic.lost.add(&account.lost);
            topic.skipped += account.skipped;
            topic.repeated += account.repeated;
            topic.damaged += account.damaged;
            if account.removed > 0 {
                let (name, messages) = (topic.name.clone(), account.removed);
                self.removed.messages += messages;
                self.removed.topics.push(RemovedTopic {
                    name,
                    messages,
                    ..RemovedTopic::default()
                });
            }
            if let Some(since) = account.unknown_since_nanos {
                // 0 means here that everything is known, and there that it is not known since when.
                let since = if since == 0 { self.started_nanos.max(1) } else { since };
                self.unknown_since_nanos = match self.unknown_since_nanos {
                    0 => since,
                    before => before.min(since),
                };
            }
        }
    }

    /// Reads `container.yaml`, as livebag writes it or as any other YAML.
    ///
    /// # Errors
    /// See [`ManifestError`]. File names that would leave the container's directory are refused.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let (above, _) = text.rsplit_once(CHECKSUM_LINE).unwrap_or((text, ""));
        let manifest: Self = match serde_json::from_str(above) {
            Ok(manifest) => manifest,
            // Of another hand or an older livebag.
            Err(_) => {
                crate::yaml::read(text).map_err(|error| ManifestError::Yaml(error.to_string()))?
            }
        };
        if manifest.livebag_container > CONTAINER_VERSION {
            return Err(ManifestError::Version { found: manifest.livebag_container });
        }
        for topic in manifest.topics.iter().chain(&manifest.removed.first_split) {
            let index = Some(&topic.index).filter(|name| !name.is_empty());
            if topic.bricks.iter().chain(index).any(|name| !is_file_name(name)) {
                let field = "index or bricks";
                return Err(ManifestError::Field { field, topic: topic.name.clone() });
            }
        }
        if !manifest.attachments.is_empty() && !is_file_name(&manifest.attachments) {
            return Err(ManifestError::Field { field: "attachments", topic: String::new() });
        }
        let released = manifest.removed.released.iter().filter(|name| !name.is_empty());
        if manifest.splits.iter().chain(released).any(|name| !is_file_name(name)) {
            return Err(ManifestError::Field { field: "splits", topic: String::new() });
        }
        Ok(manifest)
    }

    /// The file's text. It is JSON, which is YAML too, and is read in a tenth of the time: opening a
    /// container is little else.
    ///
    /// # Errors
    /// If the JSON library refuses, which it has no known cause for.
    pub fn to_yaml(&self) -> Result<String, ManifestError> {
        let json = serde_json::to_string_pretty(self)
            .map_err(|error| ManifestError::Yaml(error.to_string()))?;
        let mut text = String::with_capacity(json.len() + 1);
        for sign in json.chars() {
            match sign {
                // JSON allows them in strings, YAML requires escapes.
                '\u{7f}'..='\u{9f}'
                | '\u{2028}'
                | '\u{2029}'
                | '\u{feff}'
                | '\u{fffe}'
                | '\u{ffff}' => {
                    text.push_str(&format!("\\u{:04x}", u32::from(sign)));
                }
                sign => text.push(sign),
            }
        }
        text.push('\n');
        let crc = crc32c::crc32c(text.as_bytes());
        Ok(format!("{text}{CHECKSUM_LINE}{crc:08x}\n"))
    }

    /// Whether the checksum in the last line of `container.yaml` is that of the lines above; `None`
    /// if there is none. A file changed by hand is still read; one that a power cut left is not.
    pub fn checksum_fits(text: &[u8]) -> Option<bool> {
        let line_bytes = CHECKSUM_LINE.len() + 9;
        let (above, line) = text.split_at_checked(text.len().checked_sub(line_bytes)?)?;
        let hex = line.strip_prefix(CHECKSUM_LINE.as_bytes())?.strip_suffix(b"\n")?;
        let stored = u32::from_str_radix(str::from_utf8(hex).ok()?, 16).ok()?;
        Some(stored == crc32c::crc32c(above))
    }
}

/// Which messages are on the medium: what `container.synced` says.
///
/// A recorder that syncs while it records counts the entries of each index, then syncs the bricks,
/// then the indexes, and then replaces this file durably with those counts. A power cut can cost
/// nothing below them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncMark {
    /// Entries on the medium together with their messages, by name of the index file.
    pub entries: BTreeMap<String, u64>,
}

impl SyncMark {
    const FIRST_LINE: &str = "livebag-synced 1\n";

    /// The file's text.
    pub fn to_text(&self) -> String {
        let mut text = Self::FIRST_LINE.to_owned();
        for (index, count) in &self.entries {
            text.push_str(&format!("{count} {index}\n"));
        }
        let crc = crc32c::crc32c(text.as_bytes());
        format!("{text}crc32c {crc:08x}\n")
    }

    /// Reads the text; `None` if it is damaged.
    pub fn parse(text: &str) -> Option<Self> {
        let (lines, crc) = text.strip_suffix('\n')?.rsplit_once("crc32c ")?;
        if u32::from_str_radix(crc, 16).ok()? != crc32c::crc32c(lines.as_bytes()) {
            return None;
        }
        let mut mark = Self::default();
        for line in lines.strip_prefix(Self::FIRST_LINE)?.lines() {
            let (count, index) = line.split_once(' ')?;
            mark.entries.insert(index.to_owned(), count.parse().ok()?);
        }
        Some(mark)
    }
}

/// Whether a name stays within its directory.
fn is_file_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && !name.starts_with('.')
}

fn hex_encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hex_decode(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests;
