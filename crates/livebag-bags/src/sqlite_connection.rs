//! Connections to foreign databases. Reading creates and changes no file beside a database, and takes its `-wal` or
//! `-journal` into account:
//!
//! | file beside it | how it is read |
//! | --- | --- |
//! | nothing, and no write-ahead log is named in its header | plainly |
//! | no `-wal`, though its header names a write-ahead log | as `immutable`, or SQLite would make a `-wal` |
//! | `-wal` and `-shm` | with `readonly_shm`: SQLite reads the log and locks out its writer's checkpoints |
//! | `-wal` without `-shm`, which every writer has | with the log's index in this process's memory |
//! | a `-journal` to be rolled back, or `-wal` with a damaged database | from a private copy |

use std::ffi::OsString;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::ConvertError;
use super::file::ForeignFile;
use super::temporary::TemporaryFolder;

/// Files that SQLite keeps beside a database until it is consistent.
const COMPANIONS: [&str; 2] = ["-wal", "-journal"];

/// Parameters by which SQLite keeps the index of a write-ahead log private: no locks, so that its exclusive mode, which
/// needs no file for the index, needs no write permission either.
const UNSHARED: &str = "?vfs=unix-none";

/// A database, open for reading.
pub(super) struct Database {
    connection: Connection,
    path: PathBuf,
    /// Dropped after the connection.
    copy: Option<Copy>,
}

struct Copy {
    path: PathBuf,
    _folder: TemporaryFolder,
}

impl Deref for Database {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Database {
    pub(super) fn open(path: &Path) -> Result<Self, ConvertError> {
        // SQLite would wait forever at a pipe.
        let head = ForeignFile::open(path)?.read_up_to(0, 20)?;
        let has_log = beside(path, "-wal").exists();
        let parameters = if has_log && beside(path, "-shm").exists() {
            "?readonly_shm=1"
        } else if has_log && has_bytes(&beside(path, "-wal")) {
            UNSHARED
        } else if head.get(19) == Some(&2) {
            "?immutable=1"
        } else {
            ""
        };
        match connect(path, parameters, OpenFlags::SQLITE_OPEN_READ_ONLY) {
            Ok(connection) => Ok(Database { connection, path: path.to_owned(), copy: None }),
            Err(error) if is_in_use(&error) || !has_companion(path) => Err(damaged(path, &error)),
            Err(_) => Self::open_copy(path),
        }
    }

    fn open_copy(path: &Path) -> Result<Self, ConvertError> {
        let copy = Copy::new(path)?;
        let connection = connect(&copy.path, "", OpenFlags::SQLITE_OPEN_READ_WRITE)
            .map_err(|error| damaged(path, &error))?;
        Ok(Database { connection, path: path.to_owned(), copy: Some(copy) })
    }

    /// The file that has all of the database's pages, those of a write-ahead log too.
    pub(super) fn merged(&mut self) -> Result<&Path, ConvertError> {
        if self.copy.is_none() && has_companion(&self.path) {
            *self = Self::open_copy(&self.path)?;
        }
        let Some(copy) = &self.copy else { return Ok(&self.path) };
        // Where this fails, too, the pages of the database itself are what there is.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        Ok(&copy.path)
    }
}

impl Copy {
    fn new(path: &Path) -> Result<Self, ConvertError> {
        let before = stamps(path);
        let folder = TemporaryFolder::new()?;
        let target = folder.join("copy.db3");
        copy_file(&folder, path, &target)?;
        for suffix in COMPANIONS {
            let companion = beside(path, suffix);
            if companion.exists() {
                copy_file(&folder, &companion, &beside(&target, suffix))?;
            }
        }
        if stamps(path) != before {
            let reason = "it is being written: try again when its writer has closed it";
            return Err(ConvertError::unsupported(path, reason));
        }
        Ok(Copy { path: target, _folder: folder })
    }
}

fn copy_file(folder: &TemporaryFolder, from: &Path, to: &Path) -> Result<(), ConvertError> {
    let refused = || {
        let reason = format!(
            "its last transactions lie beside it, and there is no room in {} for the copy that they are \
             put into: set TMPDIR to a folder with more",
            std::env::temp_dir().display()
        );
        ConvertError::unsupported(from, reason)
    };
    match folder.fill(to, ForeignFile::open(from)?.reader(), refused)? {
        (_, None) => Ok(()),
        (_, Some(source)) => Err(ConvertError::io("read", from, source)),
    }
}

/// Lengths and times of the database and of the files beside it.
fn stamps(path: &Path) -> Vec<Option<(u64, SystemTime)>> {
    let names = [path.to_owned()].into_iter().chain(COMPANIONS.map(|suffix| beside(path, suffix)));
    let stamp = |name: PathBuf| {
        let metadata = name.metadata().ok()?;
        Some((metadata.len(), metadata.modified().ok()?))
    };
    names.map(stamp).collect()
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn has_companion(path: &Path) -> bool {
    COMPANIONS.into_iter().any(|suffix| has_bytes(&beside(path, suffix)))
}

fn has_bytes(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.len() > 0)
}

fn is_in_use(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn connect(path: &Path, parameters: &str, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => uri.push(*byte as char),
            byte if byte.is_ascii_alphanumeric() => uri.push(*byte as char),
            byte => uri += &format!("%{byte:02x}"),
        }
    }
    uri += parameters;
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(uri, flags)?;
    if parameters == UNSHARED {
        connection.query_row("PRAGMA locking_mode=EXCLUSIVE", [], |_| Ok(()))?;
    }
    // Without this SQLite refuses a database that is shorter than its header says, with all that is in it.
    connection.execute_batch("PRAGMA writable_schema=ON")?;
    connection.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
    Ok(connection)
}

pub(super) fn damaged(path: &Path, error: &rusqlite::Error) -> ConvertError {
    ConvertError::damaged(path, format!("expected a database of rosbag2: {error}"))
}

/// What SQLite finds wrong with a database; nothing for a whole one.
pub(crate) fn check_integrity(path: &Path) -> Result<Vec<String>, ConvertError> {
    let database = Database::open(path)?;
    let read = || {
        let mut statement = database.prepare("PRAGMA integrity_check")?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
        rows.collect::<rusqlite::Result<Vec<_>>>()
    };
    let mut found = read().map_err(|error| damaged(path, &error))?;
    found.retain(|line| line != "ok");
    Ok(found)
}
