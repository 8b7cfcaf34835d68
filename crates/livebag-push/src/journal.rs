//! What has been sent of a recording to a target, in a file beside it: a push that was killed goes on from there.
//!
//! JSON lines that are only appended. A line says what has happened already, so a lost last line costs that a part is
//! sent again. Nothing counts as pushed because the journal says so: the store is asked in every push.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use livebag::{Disk, DiskFile, KernelDisk, Lock, ReadDisk};
use serde::{Deserialize, Serialize};

use crate::digest::{Digests, sha256_of};
use crate::error::PushError;
use crate::recording::SourceFile;

/// Digits of the target's hash in a journal's name.
const HASH_DIGITS: usize = 12;

/// One line. `bytes` and `modified_nanos` tell a file that has changed since.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The file's checksums.
    Digests { key: String, bytes: u64, modified_nanos: u64, sha256: String, etag: String },
    /// An upload in parts has begun.
    Upload { key: String, bytes: u64, modified_nanos: u64, id: String },
    /// The next part has been sent.
    Part { key: String, content_id: String, md5: String },
    /// The upload has ended, or the store has forgotten it.
    UploadEnded { key: String },
    /// The object with this ETag was read back and is the file.
    ReadBack { key: String, etag: String },
    /// The recording, whose files had this fingerprint, is complete in the target.
    Pushed { fingerprint: String },
    /// The claim of a container that was being recorded, and the number of its folder, which copies do not have.
    Claim { sha256: String, folder: u64 },
    /// This split was verified while the container was being recorded.
    Split { key: String },
}

/// An upload in parts that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// The store's name for it.
    pub id: String,
    /// Parts that were sent, in order: the store's name and the MD5 of each.
    pub parts: Vec<(String, String)>,
}

/// What the lines say together.
#[derive(Default)]
struct State {
    digests: HashMap<String, (u64, u64, Digests)>,
    uploads: HashMap<String, (u64, u64, Upload)>,
    read_back: HashMap<String, String>,
    pushed: Option<String>,
    claim: Option<(String, u64)>,
    splits: HashSet<String>,
}

/// An open journal, locked against other processes.
pub struct Journal {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    end: u64,
    state: State,
    _lock: Box<dyn Lock>,
}

impl Journal {
    /// Of pushing `recording` to `target`: in a folder, or beside a file; where that cannot be written, below
    /// `$XDG_STATE_HOME/livebag/push` (`~/.local/state/livebag/push`).
    ///
    /// # Errors
    /// If another process has it, or no place can be written.
    pub fn open(recording: &Path, name: &str, target: &str) -> Result<Self, PushError> {
        let (beside, elsewhere) = places(recording, name, target)?;
        match Self::at(&beside, recording) {
            Err(PushError::Journal { source, .. }) if is_read_only(&source) => {}
            done => return done,
        }
        std::fs::create_dir_all(state_folder())
            .map_err(|source| PushError::Journal { path: elsewhere.clone(), source })?;
        Self::at(&elsewhere, recording)
    }

    /// The fingerprint that the recording's files had when it was pushed; neither locks nor makes a journal.
    pub fn pushed(recording: &Path, name: &str, target: &str) -> Option<String> {
        let disk = KernelDisk::for_reading();
        let (beside, elsewhere) = places(recording, name, target).ok()?;
        let bytes = disk.read(&beside).or_else(|_| disk.read(&elsewhere)).ok()?;
        State::parse(&bytes).pushed
    }

    fn at(path: &Path, recording: &Path) -> Result<Self, PushError> {
        let disk = KernelDisk::for_reading();
        let failed = |source| PushError::Journal { path: path.to_owned(), source };
        let Some(lock) = disk.lock(path).map_err(failed)? else {
            return Err(PushError::AlreadyRunning { path: recording.to_owned() });
        };
        let bytes = disk.read(path).map_err(failed)?;
        // What follows the last line feed was cut off.
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let state = State::parse(&bytes[..end]);
        let file = disk.open_for_repair(path).map_err(failed)?;
        file.set_len(end as u64).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file, end: end as u64, state, _lock: lock })
    }

    fn append(&mut self, line: Line) -> Result<(), PushError> {
        let failed = |source| PushError::Journal { path: self.path.clone(), source };
        let mut text = serde_json::to_string(&line).map_err(|error| failed(error.into()))?;
        text.push('\n');
        self.file.write_at(text.as_bytes(), self.end).map_err(failed)?;
        self.end += text.len() as u64;
        self.state.add(line);
        Ok(())
    }

    /// The checksums of a file that has not changed since.
    pub fn digests(&self, file: &SourceFile) -> Option<Digests> {
        let (bytes, modified_nanos, digests) = self.state.digests.get(&file.key)?;
        ((*bytes, *modified_nanos) == (file.bytes, file.modified_nanos)).then(|| digests.clone())
    }

    /// The SHA-256 of a file that may be gone.
    pub fn sha256(&self, key: &str) -> Option<&str> {
        self.state.digests.get(key).map(|(.., digests)| &*digests.sha256)
    }

    /// The length of a file that may be gone.
    pub fn bytes(&self, key: &str) -> Option<u64> {
        self.state.digests.get(key).map(|(bytes, ..)| *bytes)
    }

    /// Files of a split that may be gone, with their lengths.
    pub fn files_in(&self, split: &str) -> impl Iterator<Item = (&str, u64)> {
        let digests = self.state.digests.iter().map(|(key, (bytes, ..))| (&**key, *bytes));
        digests.filter(move |(key, _)| {
            key.strip_prefix(split).is_some_and(|rest| rest.starts_with('/'))
        })
    }

    /// Notes a file's checksums.
    pub fn set_digests(&mut self, file: &SourceFile, digests: &Digests) -> Result<(), PushError> {
        let SourceFile { key, bytes, modified_nanos, .. } = file.clone();
        let Digests { sha256, etag } = digests.clone();
        self.append(Line::Digests { key, bytes, modified_nanos, sha256, etag })
    }

    /// The upload of a file that has not changed since.
    pub fn upload(&self, file: &SourceFile) -> Option<Upload> {
        let (bytes, modified_nanos, upload) = self.state.uploads.get(&file.key)?;
        ((*bytes, *modified_nanos) == (file.bytes, file.modified_nanos)).then(|| upload.clone())
    }

    /// An upload of what the file was before it changed.
    pub fn stale_upload(&self, key: &str) -> Option<String> {
        self.state.uploads.get(key).map(|(.., upload)| upload.id.clone())
    }

    /// Notes that an upload has begun.
    pub fn begin_upload(&mut self, file: &SourceFile, id: &str) -> Result<(), PushError> {
        let SourceFile { key, bytes, modified_nanos, .. } = file.clone();
        self.append(Line::Upload { key, bytes, modified_nanos, id: id.to_owned() })
    }

    /// Notes that its next part has been sent.
    pub fn add_part(&mut self, key: &str, content_id: &str, md5: &str) -> Result<(), PushError> {
        let (content_id, md5) = (content_id.to_owned(), md5.to_owned());
        self.append(Line::Part { key: key.to_owned(), content_id, md5 })
    }

    /// Notes that an upload has ended.
    pub fn end_upload(&mut self, key: &str) -> Result<(), PushError> {
        self.append(Line::UploadEnded { key: key.to_owned() })
    }

    /// The ETag of the object that was read back.
    pub fn read_back(&self, key: &str) -> Option<&str> {
        self.state.read_back.get(key).map(String::as_str)
    }

    /// Notes that an object was read back.
    pub fn set_read_back(&mut self, key: &str, etag: &str) -> Result<(), PushError> {
        self.append(Line::ReadBack { key: key.to_owned(), etag: etag.to_owned() })
    }

    /// Notes that the recording is complete in the target.
    pub fn set_pushed(&mut self, fingerprint: &str) -> Result<(), PushError> {
        match self.state.pushed.as_deref() == Some(fingerprint) {
            true => Ok(()),
            false => self.append(Line::Pushed { fingerprint: fingerprint.to_owned() }),
        }
    }
}

/// Of a container that is being recorded.
impl Journal {
    /// Its claim, if this folder made it.
    pub fn claim(&self, folder: u64) -> Option<&str> {
        let (sha256, own) = self.state.claim.as_ref()?;
        (*own == folder).then_some(sha256)
    }

    /// Notes its claim, durably: without the note, the recording could not be pushed after a power cut.
    pub fn set_claim(&mut self, sha256: &str, folder: u64) -> Result<(), PushError> {
        self.append(Line::Claim { sha256: sha256.to_owned(), folder })?;
        self.file.sync().map_err(|source| PushError::Journal { path: self.path.clone(), source })
    }

    /// Whether a split was pushed.
    pub fn has_split(&self, key: &str) -> bool {
        self.state.splits.contains(key)
    }

    /// Notes that a split was pushed, durably: it may be removed from this disk next.
    pub fn add_split(&mut self, key: &str) -> Result<(), PushError> {
        self.append(Line::Split { key: key.to_owned() })?;
        self.file.sync().map_err(|source| PushError::Journal { path: self.path.clone(), source })
    }
}

impl State {
    fn parse(bytes: &[u8]) -> Self {
        let mut this = Self::default();
        // The first lines say who made the file.
        String::from_utf8_lossy(bytes)
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .for_each(|line| this.add(line));
        this
    }

    fn add(&mut self, line: Line) {
        match line {
            Line::Digests { key, bytes, modified_nanos, sha256, etag } => {
                // Other contents were read back.
                let digests = Digests { sha256, etag };
                if self.digests.get(&key).is_some_and(|(.., before)| *before != digests) {
                    self.read_back.remove(&key);
                }
                self.digests.insert(key, (bytes, modified_nanos, digests));
            }
            Line::Upload { key, bytes, modified_nanos, id } => {
                self.uploads.insert(key, (bytes, modified_nanos, Upload { id, parts: Vec::new() }));
            }
            Line::Part { key, content_id, md5 } => {
                if let Some((.., upload)) = self.uploads.get_mut(&key) {
                    upload.parts.push((content_id, md5));
                }
            }
            Line::UploadEnded { key } => {
                self.uploads.remove(&key);
            }
            Line::ReadBack { key, etag } => {
                self.read_back.insert(key, etag);
            }
            Line::Pushed { fingerprint } => self.pushed = Some(fingerprint),
            Line::Claim { sha256, folder } => self.claim = Some((sha256, folder)),
            Line::Split { key } => {
                self.splits.insert(key);
            }
        }
    }
}

/// Beside the recording, and where that place cannot be written.
pub fn places(recording: &Path, name: &str, target: &str) -> Result<(PathBuf, PathBuf), PushError> {
    let read = |source| PushError::Read { path: recording.to_owned(), source };
    let real = recording.canonicalize().map_err(read)?;
    let hash = sha256_of(format!("{target}\n{name}").as_bytes());
    let beside = match real.is_dir() {
        true => real.join(format!(".push-{}", &hash[..HASH_DIGITS])),
        false => {
            let file_name = real.file_name().unwrap_or_default().to_string_lossy();
            real.with_file_name(format!(".{file_name}.push-{}", &hash[..HASH_DIGITS]))
        }
    };
    let hash = sha256_of(format!("{}\n{target}\n{name}", real.display()).as_bytes());
    Ok((beside, state_folder().join(&hash[..16])))
}

/// The journals of a recording that are beside it, whatever their targets.
pub fn journals_beside(real: &Path) -> io::Result<Vec<PathBuf>> {
    let (folder, start) = match real.is_dir() {
        true => (real, ".".to_owned()),
        false => {
            let name = real.file_name().unwrap_or_default().to_string_lossy();
            (real.parent().unwrap_or(Path::new("/")), format!(".{name}."))
        }
    };
    let mut paths = KernelDisk::for_reading().list(folder)?;
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix(&start).is_some_and(|rest| is_journal(&format!(".{rest}")))
    });
    Ok(paths)
}

/// Whether a folder's file of this name is a journal.
pub fn is_journal(name: &str) -> bool {
    name.strip_prefix(".push-").is_some_and(|hash| {
        hash.len() == HASH_DIGITS && hash.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn state_folder() -> PathBuf {
    let home =
        || std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default().join(".local/state");
    let state = std::env::var_os("XDG_STATE_HOME").map_or_else(home, PathBuf::from);
    state.join("livebag/push")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: u64) -> SourceFile {
        SourceFile { path: "x".into(), key: "run/x".into(), bytes, modified_nanos: 7, grows: false }
    }

    #[test]
    fn a_journal_that_was_cut_anywhere_says_what_was_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".push-0123456789ab");
        let mut journal = Journal::at(&path, folder.path()).unwrap();
        journal.begin_upload(&file(9), "id").unwrap();
        (0..5).for_each(|part| journal.add_part("run/x", &format!("p{part}"), "md5").unwrap());
        let end = journal.end;
        drop(journal);
        let disk = KernelDisk::for_reading();
        for length in (0..=end).rev() {
            disk.open_for_repair(&path).unwrap().set_len(length).unwrap();
            let journal = Journal::at(&path, folder.path()).unwrap();
            let parts = journal.upload(&file(9)).map(|upload| upload.parts);
            let names: Vec<_> = parts.iter().flatten().map(|(name, _)| name.clone()).collect();
            assert_eq!(names, (0..names.len()).map(|part| format!("p{part}")).collect::<Vec<_>>());
            assert_eq!(names.len() == 5, length == end);
        }
    }

    #[test]
    fn a_file_that_changed_is_sent_from_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path(), "run", "s3://bucket").unwrap();
        journal.begin_upload(&file(9), "id").unwrap();
        let digests = Digests { sha256: "s".into(), etag: "e".into() };
        journal.set_digests(&file(9), &digests).unwrap();
        assert_eq!((journal.upload(&file(8)), journal.digests(&file(8))), (None, None));
        assert_eq!(journal.digests(&file(9)), Some(digests.clone()));
        journal.set_read_back("run/x", "e").unwrap();
        journal.set_digests(&file(9), &Digests { sha256: "t".into(), ..digests }).unwrap();
        assert_eq!(journal.read_back("run/x"), None, "other contents were read back");
    }

    #[test]
    fn one_process_pushes_a_recording_to_a_target() {
        let folder = tempfile::tempdir().unwrap();
        let first = Journal::open(folder.path(), "run", "s3://bucket").unwrap();
        let refused = Journal::open(folder.path(), "run", "s3://bucket").err().unwrap().to_string();
        assert!(refused.contains("by another process"), "{refused}");
        assert!(Journal::open(folder.path(), "run", "s3://other").is_ok(), "another target");
        drop(first);
        assert!(Journal::open(folder.path(), "run", "s3://bucket").is_ok());
    }
}
