//! rosbag2's own compression: whole files (`bag_0.mcap.zstd`, mode FILE) or each message by itself
//! (mode MESSAGE), with Zstandard.
//!
//! A compressed file is unpacked into a temporary folder, which is removed with the last reader.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use livebag_format::Topic;

use super::file::ForeignFile;
use super::temporary::TemporaryFolder;
use super::{CHUNK_BYTES_MAX, ConvertError, MessageSource, SourceMessage, Warnings, open_file};

/// What compressed files end with.
pub(super) const SUFFIX: &str = "zstd";
/// The first bytes of a Zstandard frame. No CDR message begins with them.
pub(crate) const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// rosbag2's own level.
const LEVEL: i32 = 1;
/// Unpacked files of this size together are kept while a bag is open, in bytes: a file is opened for
/// its topics first, and for its messages later.
const KEPT_BYTES_MAX: u64 = 4 << 30;

/// Whether a file is compressed as a whole.
pub(crate) fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == SUFFIX)
}

/// A file's name without the suffix of its compression.
pub(crate) fn plain_name(path: &Path) -> PathBuf {
    if is_compressed(path) { path.with_extension("") } else { path.to_owned() }
}

/// The same name with the suffix of compression.
fn compressed_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(SUFFIX);
    name.into()
}

/// The file for a name in `metadata.yaml`: that one, or the one with or without the suffix of compression, which some
/// versions of rosbag2 leave out.
pub(crate) fn standing_for(path: &Path) -> Option<PathBuf> {
    let names = [path.to_owned(), plain_name(path), compressed_name(path)];
    names.into_iter().find(|name| name.is_file())
}

/// Compresses a file as rosbag2 does: the compressed one takes its place.
pub(super) fn compress_file(path: &Path) -> Result<PathBuf, ConvertError> {
    let target = compressed_name(path);
    let from = ForeignFile::open(path)?;
    let to = ForeignFile::create(&target)?;
    let compress = || -> io::Result<()> {
        let mut encoder = zstd::stream::write::Encoder::new(&to, LEVEL)?;
        io::copy(&mut from.reader(), &mut encoder)?;
        encoder.finish()?;
        to.sync_all()
    };
    compress().map_err(|source| ConvertError::io("write", &target, source))?;
    rustix::fs::unlink(path).map_err(|error| ConvertError::io("remove", path, error.into()))?;
    Ok(target)
}

/// A message as rosbag2 compresses it in mode MESSAGE.
pub(super) fn compress_message(data: &[u8]) -> io::Result<Vec<u8>> {
    zstd::bulk::compress(data, LEVEL)
}

/// An unpacked file, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Unpacked {
    path: PathBuf,
    bytes: u64,
    /// Why it is not the whole.
    damage: Option<String>,
    _folder: TemporaryFolder,
}

impl Unpacked {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Why it is not the whole, if the compressed file is damaged or cut.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Unpacks a compressed file; a damaged or truncated one as far as possible.
    ///
    /// # Errors
    /// If it cannot be read, or there is no room for it.
    pub(crate) fn new(path: &Path) -> Result<Self, ConvertError> {
        let from = ForeignFile::open(path)?;
        let folder = TemporaryFolder::new()?;
        let target = folder.join(plain_name(path).file_name().unwrap_or_default());
        let decoder = zstd::stream::read::Decoder::new(from.reader())
            .map_err(|source| ConvertError::io("read", path, source))?;
        let refused = || {
            let reason = format!(
                "it is compressed, and there is no room to unpack it in {}: set TMPDIR to a folder \
                 with more, or decompress it first (zstd -d)",
                std::env::temp_dir().display()
            );
            ConvertError::unsupported(path, reason)
        };
        let (bytes, ended_by) = folder.fill(&target, decoder, refused)?;
        let damage = ended_by.map(|error| format!("it does not decompress: {error}"));
        Ok(Unpacked { path: target, bytes, damage, _folder: folder })
    }
}

/// Opens the files of a bag, compressed or not.
#[derive(Default)]
pub(super) struct Unpacker {
    kept: HashMap<PathBuf, Arc<Unpacked>>,
}

impl Unpacker {
    pub(super) fn open(&mut self, path: &Path) -> Result<Box<dyn MessageSource>, ConvertError> {
        if !is_compressed(path) {
            return open_file(path);
        }
        let file = match self.kept.get(path) {
            Some(file) => Arc::clone(file),
            None => Arc::new(Unpacked::new(path)?),
        };
        let kept_bytes: u64 = self.kept.values().map(|file| file.bytes).sum();
        if kept_bytes + file.bytes <= KEPT_BYTES_MAX {
            self.kept.insert(path.to_owned(), Arc::clone(&file));
        }
        let inner = open_file(&file.path).map_err(|error| match file.damage() {
            Some(damage) => ConvertError::damaged(path, damage),
            None => error,
        })?;
        let mut warnings = Warnings::default();
        if let Some(damage) = file.damage() {
            warnings.say(format!("{damage}: it is read as far as possible"));
        }
        inner.warnings().iter().for_each(|warning| warnings.say(warning));
        Ok(Box::new(Wrapped { inner, change: Change::None, file: Some(file), warnings, lost: 0 }))
    }
}

/// Opens one compressed file.
pub(super) fn open_compressed(path: &Path) -> Result<Box<dyn MessageSource>, ConvertError> {
    Unpacker::default().open(path)
}

/// A source whose messages of encoding `cdr` may be compressed one by one.
pub(super) fn with_messages_unpacked(inner: Box<dyn MessageSource>) -> Box<dyn MessageSource> {
    let is_cdr = inner.topics().iter().map(|topic| topic.message_encoding == "cdr").collect();
    let change = Change::Messages { is_cdr, any: false };
    Box::new(Wrapped { inner, change, file: None, warnings: Warnings::default(), lost: 0 })
}

enum Change {
    None,
    /// By topic, whether a message that begins as a Zstandard frame is one; and whether any was.
    Messages {
        is_cdr: Vec<bool>,
        any: bool,
    },
}

struct Wrapped {
    inner: Box<dyn MessageSource>,
    change: Change,
    /// Kept while it is read.
    file: Option<Arc<Unpacked>>,
    /// Those of `inner` are taken over as they come.
    warnings: Warnings,
    lost: u64,
}

impl Wrapped {
    fn take_warnings(&mut self) {
        for warning in self.inner.warnings() {
            self.warnings.say(warning);
        }
    }
}

/// One message, decompressed.
fn unpack(data: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    zstd::stream::read::Decoder::new(data)
        .and_then(|decoder| decoder.take(CHUNK_BYTES_MAX + 1).read_to_end(&mut out))
        .map_err(|error| error.to_string())?;
    if out.len() as u64 > CHUNK_BYTES_MAX {
        return Err("it is larger than 1 GiB".to_owned());
    }
    Ok(out)
}

impl MessageSource for Wrapped {
    fn inner(&self) -> Option<&dyn MessageSource> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn MessageSource> {
        Some(&mut *self.inner)
    }

    fn topics(&self) -> &[Topic] {
        self.inner.topics()
    }

    fn profile(&self) -> &str {
        self.inner.profile()
    }

    fn next_message(&mut self) -> Result<Option<SourceMessage>, ConvertError> {
        loop {
            let next = self.inner.next_message();
            let (Change::Messages { is_cdr, any }, Ok(Some(message))) = (&mut self.change, &next)
            else {
                self.take_warnings();
                return next;
            };
            if !is_cdr[message.topic] || !message.data.starts_with(&ZSTD_MAGIC) {
                return next;
            }
            *any = true;
            match (unpack(&message.data), next) {
                (Ok(data), Ok(Some(message))) => {
                    return Ok(Some(SourceMessage { data, ..message }));
                }
                (Err(reason), _) => {
                    self.lost += 1;
                    let warning = format!("compressed messages are left out: {reason}");
                    self.warnings.say(warning);
                }
                (Ok(_), next) => return next,
            }
        }
    }

    fn start_time_nanos(&self) -> Option<u64> {
        self.inner.start_time_nanos()
    }

    fn lost_count(&self) -> u64 {
        self.inner.lost_count() + self.lost
    }

    fn warnings(&self) -> &[String] {
        // Until the first message those of `inner` are all there are.
        if self.warnings.all().is_empty() { self.inner.warnings() } else { self.warnings.all() }
    }

    fn has_compressed_messages(&self) -> bool {
        matches!(self.change, Change::Messages { any: true, .. })
            || (self.file.is_some() && self.inner.has_compressed_messages())
    }
}
