//! Writes rosbag2's SQLite databases, version 4 of their schema (Iron and later;
//! `rosbag2_storage_sqlite3/sqlite_storage.cpp`, `SqliteStorage::initialize`).
//!
//! A message has one time there and no sequence: publish times and sequences have no place.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use livebag_format::rosbag2::{BagMetadata, MetadataVersion, QosProfile, QosStyle};
use livebag_format::{Message, Topic, definitions};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::bag_metadata::{joined, metadata_of_file};
use super::file::ForeignFile;
use super::{ConvertError, Sqlite3Options, Sqlite3Summary};

/// A transaction is committed at this many bytes of messages …
const TRANSACTION_BYTES_MAX: u64 = 64 << 20;
/// … or at this many messages.
const TRANSACTION_MESSAGES_MAX: u64 = 1 << 14;

const SCHEMA_VERSION: i64 = 4;
const TABLES: &str = "
    CREATE TABLE schema(schema_version INTEGER PRIMARY KEY, ros_distro TEXT NOT NULL);
    CREATE TABLE metadata(id INTEGER PRIMARY KEY, metadata_version INTEGER NOT NULL,
        metadata TEXT NOT NULL);
    CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL,
        serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL,
        type_description_hash TEXT NOT NULL);
    CREATE TABLE message_definitions(id INTEGER PRIMARY KEY, topic_type TEXT NOT NULL,
        encoding TEXT NOT NULL, encoded_message_definition TEXT NOT NULL,
        type_description_hash TEXT NOT NULL);
    CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL,
        timestamp INTEGER NOT NULL, data BLOB NOT NULL);
    CREATE INDEX timestamp_idx ON messages (timestamp ASC);";

/// A database being written. [`finish`](Sqlite3Writer::finish) makes it whole and durable; the
/// first failure ends it.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("bag_0.db3");
/// use livebag_bags::{Sqlite3Options, Sqlite3Writer};
/// use livebag::{Message, Topic};
///
/// let mut writer = Sqlite3Writer::create(&path, Sqlite3Options::default())?;
/// let topic = writer.add_topic(&Topic {
///     name: "/chatter".into(),
///     type_name: "std_msgs/msg/String".into(),
///     message_encoding: "cdr".into(),
///     ..Topic::default()
/// })?;
/// let data = b"\0\x01\0\0\x03\0\0\0hi\0";
/// writer.write(topic, &Message { log_time_nanos: 1, publish_time_nanos: 1, sequence: 0, data })?;
/// assert_eq!(writer.finish()?.metadata.message_count, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sqlite3Writer {
    path: PathBuf,
    options: Sqlite3Options,
    topics: Vec<Topic>,
    /// Id in the database by topic.
    ids: Vec<i64>,
    types_defined: HashSet<String>,
    message_counts: Vec<u64>,
    /// First and last log time.
    span: Option<(u64, u64)>,
    /// Bytes and messages of the open transaction; `None` while there is none.
    open: Option<(u64, u64)>,
    /// `None` after a failure: nothing more is written then.
    database: Option<Connection>,
}

impl Sqlite3Writer {
    /// Begins the database `path`, where nothing may be yet.
    ///
    /// # Errors
    /// If there is a file, the disk refuses, or SQLite does not know a pragma.
    pub fn create(path: &Path, options: Sqlite3Options) -> Result<Self, ConvertError> {
        // SQLite would go on writing a database that is there.
        drop(ForeignFile::create(path)?);
        let mut writer = Sqlite3Writer {
            path: path.to_owned(),
            options,
            topics: Vec::new(),
            ids: Vec::new(),
            types_defined: HashSet::new(),
            message_counts: Vec::new(),
            span: None,
            open: None,
            database: None,
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(path, flags);
        writer.database = Some(database.map_err(|error| writer.refused(error))?);
        writer.with_database(|this, database| this.begin(database))?;
        writer.write_metadata()?;
        Ok(writer)
    }

    fn begin(&mut self, database: &Connection) -> rusqlite::Result<()> {
        let preset = self.options.preset.pragmas().map(str::to_owned);
        for pragma in preset.iter().chain(&self.options.pragmas) {
            // Some answer with a row, some without.
            let mut statement = database.prepare(&format!("PRAGMA {pragma}"))?;
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
        }
        database.execute_batch(TABLES)?;
        database.execute(
            "INSERT INTO schema(schema_version, ros_distro) VALUES(?1, ?2)",
            (SCHEMA_VERSION, &self.options.ros_distro),
        )?;
        Ok(())
    }

    /// Adds a topic and gives its number for [`write`](Self::write). Topics of one name, type and
    /// encoding are one in the database; their QoS profiles are joined.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn add_topic(&mut self, topic: &Topic) -> Result<usize, ConvertError> {
        let topic = topic.clone();
        self.with_database(|this, database| {
            let id = match this.topics.iter().position(|known| is_same(known, &topic)) {
                Some(known) => this.join_qos(database, known, &topic)?,
                None => this.insert_topic(database, &topic)?,
            };
            this.insert_definition(database, &topic)?;
            this.ids.push(id);
            this.message_counts.push(0);
            this.topics.push(topic);
            Ok(this.topics.len() - 1)
        })
    }

    fn insert_topic(&self, database: &Connection, topic: &Topic) -> rusqlite::Result<i64> {
        let value = |key| topic.metadata.get(key).map_or("", String::as_str);
        database.execute(
            "INSERT INTO topics(name, type, serialization_format, offered_qos_profiles, \
             type_description_hash) VALUES(?1, ?2, ?3, ?4, ?5)",
            (
                &topic.name,
                &topic.type_name,
                &topic.message_encoding,
                self.qos(value("offered_qos_profiles")),
                value("topic_type_hash"),
            ),
        )?;
        Ok(database.last_insert_rowid())
    }

    fn join_qos(
        &self,
        database: &Connection,
        known: usize,
        topic: &Topic,
    ) -> rusqlite::Result<i64> {
        let id = self.ids[known];
        let sql = "SELECT offered_qos_profiles FROM topics WHERE id = ?1";
        let first: String = database.query_row(sql, [id], |row| row.get(0))?;
        let second = topic.metadata.get("offered_qos_profiles").cloned().unwrap_or_default();
        let sql = "UPDATE topics SET offered_qos_profiles = ?2 WHERE id = ?1";
        database.execute(sql, (id, self.qos(&joined(&first, second))))?;
        Ok(id)
    }

    /// Profiles as rosbag2 reads them with this version of the metadata.
    fn qos(&self, text: &str) -> String {
        let style = match self.options.metadata_version {
            MetadataVersion::Jazzy => QosStyle::Names,
            MetadataVersion::Humble | MetadataVersion::Iron => QosStyle::Numbers,
        };
        match QosProfile::parse_list(text) {
            // rosbag2's players refuse an empty text.
            Ok(profiles) if profiles.is_empty() => "[]".to_owned(),
            Ok(profiles) => QosProfile::write_list(&profiles, style),
            Err(_) => text.to_owned(),
        }
    }

    fn insert_definition(&mut self, database: &Connection, topic: &Topic) -> rusqlite::Result<()> {
        if !self.types_defined.insert(topic.type_name.clone()) {
            return Ok(());
        }
        let bundled = (topic.schema.is_empty() && topic.message_encoding == "cdr")
            .then(|| definitions::schema(&topic.type_name))
            .flatten();
        let (encoding, text) = match &bundled {
            Some(text) => ("ros2msg", text.as_str().into()),
            // No row: not every reader knows an encoding for it.
            None if topic.schema_encoding.is_empty() => return Ok(()),
            None => (topic.schema_encoding.as_str(), String::from_utf8_lossy(&topic.schema)),
        };
        let hash = topic.metadata.get("topic_type_hash").map_or("", String::as_str);
        database.execute(
            "INSERT INTO message_definitions(topic_type, encoding, encoded_message_definition, \
             type_description_hash) VALUES(?1, ?2, ?3, ?4)",
            (&topic.type_name, encoding, text.as_ref(), hash),
        )?;
        Ok(())
    }

    /// Writes the next message of a topic, into the transaction that is open, or a new one.
    ///
    /// # Errors
    /// If the disk refuses, the message is larger than SQLite takes (1 GB), or a write failed
    /// before.
    ///
    /// # Panics
    /// If `topic` is not from [`add_topic`](Self::add_topic).
    pub fn write(&mut self, topic: usize, message: &Message<'_>) -> Result<(), ConvertError> {
        let id = self.ids[topic];
        let time = message.log_time_nanos;
        let Ok(timestamp) = i64::try_from(time) else {
            return Err(ConvertError::Write {
                path: self.path.clone(),
                reason: format!(
                    "a message's log time is {time} ns, and databases hold times before 2^63 ns (the year \
                     2262): choose another storage"
                ),
            });
        };
        let (bytes, messages) = self.with_database(|this, database| {
            if this.open.is_none() {
                database.execute_batch("BEGIN")?;
            }
            let sql = "INSERT INTO messages(timestamp, topic_id, data) VALUES(?1, ?2, ?3)";
            database.prepare_cached(sql)?.execute((timestamp, id, message.data))?;
            Ok(this.open.unwrap_or_default())
        })?;
        let open = (bytes + message.data.len() as u64, messages + 1);
        self.open = Some(open);
        self.message_counts[topic] += 1;
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
        if open.0 >= TRANSACTION_BYTES_MAX || open.1 >= TRANSACTION_MESSAGES_MAX {
            self.commit()?;
        }
        Ok(())
    }

    /// Ends the transaction: other processes can read its messages now.
    ///
    /// # Errors
    /// If the disk refuses, or a write failed before.
    pub fn commit(&mut self) -> Result<(), ConvertError> {
        if self.open.take().is_some() {
            self.with_database(|_, database| database.execute_batch("COMMIT"))?;
        }
        Ok(())
    }

    /// Size of the database on the disk according to SQLite, in bytes: for splitting.
    ///
    /// # Errors
    /// If SQLite does not tell.
    pub fn file_bytes(&mut self) -> Result<u64, ConvertError> {
        self.with_database(|_, database| {
            let number = |sql| database.query_row(sql, [], |row| row.get::<_, i64>(0));
            let bytes = number("PRAGMA page_count")? * number("PRAGMA page_size")?;
            Ok(bytes.unsigned_abs())
        })
    }

    /// Writes the last metadata, closes the database and makes it durable.
    ///
    /// # Errors
    /// If the disk refuses, or a write failed before.
    pub fn finish(mut self) -> Result<Sqlite3Summary, ConvertError> {
        self.commit()?;
        self.write_metadata()?;
        let Some(database) = self.database.take() else { return Err(self.given_up()) };
        database.close().map_err(|(_, error)| self.refused(error))?;
        ForeignFile::sync(&self.path)?;
        if let Some(directory) = self.path.parent().filter(|path| !path.as_os_str().is_empty()) {
            ForeignFile::sync(directory)?;
        }
        let file_bytes = ForeignFile::open(&self.path)?.length_bytes();
        Ok(Sqlite3Summary { metadata: self.metadata(), path: self.path, file_bytes })
    }

    /// rosbag2 reads the last row; it writes one when it opens a database and one when it closes it.
    fn write_metadata(&mut self) -> Result<(), ConvertError> {
        let version = self.options.metadata_version;
        let yaml = self.metadata().to_mcap_record(version);
        let sql = "INSERT INTO metadata(metadata_version, metadata) VALUES(?1, ?2)";
        self.with_database(|_, database| database.execute(sql, (version.number(), &yaml)))?;
        Ok(())
    }

    fn metadata(&self) -> BagMetadata {
        let (topics, counts) = (&self.topics, &self.message_counts);
        BagMetadata {
            version: self.options.metadata_version.number(),
            storage_identifier: "sqlite3".to_owned(),
            custom_data: self.options.custom_data.clone(),
            ros_distro: self.options.ros_distro.clone(),
            ..metadata_of_file(&self.path, self.span, topics, counts)
        }
    }

    /// Runs `work`; after its first failure nothing is written any more.
    fn with_database<T>(
        &mut self,
        work: impl FnOnce(&mut Self, &Connection) -> rusqlite::Result<T>,
    ) -> Result<T, ConvertError> {
        let Some(database) = self.database.take() else { return Err(self.given_up()) };
        let done = work(self, &database).map_err(|error| self.refused(error))?;
        self.database = Some(database);
        Ok(done)
    }

    fn refused(&self, error: rusqlite::Error) -> ConvertError {
        let kind = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => io::ErrorKind::StorageFull,
            Some(ErrorCode::PermissionDenied) => io::ErrorKind::PermissionDenied,
            Some(ErrorCode::ReadOnly) => io::ErrorKind::ReadOnlyFilesystem,
            _ => {
                let reason = error.to_string();
                return ConvertError::Write { path: self.path.clone(), reason };
            }
        };
        ConvertError::io("write", &self.path, kind.into())
    }

    fn given_up(&self) -> ConvertError {
        ConvertError::GivenUp { path: self.path.clone() }
    }
}

/// Whether both are one row in the database.
fn is_same(a: &Topic, b: &Topic) -> bool {
    (&a.name, &a.type_name, &a.message_encoding) == (&b.name, &b.type_name, &b.message_encoding)
}
