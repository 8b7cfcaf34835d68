//! rosbag2's SQLite databases (`.db3`), every version of their schema.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};

use livebag_format::rosbag2::BagMetadata;
use livebag_format::{Topic, definitions};
use rusqlite::{Connection, OptionalExtension};

use super::sqlite_connection::{Database, damaged};
use super::sqlite_pages::{Pages, Row, is_cut};
use super::{ConvertError, MessageSource, SchemaBytes, SourceMessage, SourceTotals, Warnings};

/// Keys fetched at once; the messages themselves are fetched one by one.
const KEYS_AT_ONCE: i64 = 1024;

/// A rosbag2 database.
pub(super) struct SqliteBag {
    path: PathBuf,
    database: Database,
    /// Where SQLite finds damage: what its pages hold.
    pages: Option<Pages>,
    topics: Vec<Topic>,
    /// Topic by its id in the database.
    ids: HashMap<i64, usize>,
    /// Time and id of messages to come.
    keys: VecDeque<(i64, i64)>,
    /// The last key fetched; `None` at the end.
    fetched: Option<(i64, i64)>,
    message_count: u64,
    lost_count: u64,
    bag_metadata: Option<BagMetadata>,
    warnings: Warnings,
    notes: Warnings,
}

impl SqliteBag {
    pub(super) fn open(path: &Path) -> Result<Self, ConvertError> {
        let mut bag = SqliteBag {
            path: path.to_owned(),
            database: Database::open(path)?,
            pages: None,
            topics: Vec::new(),
            ids: HashMap::new(),
            keys: VecDeque::new(),
            fetched: Some((i64::MIN, i64::MIN)),
            message_count: 0,
            lost_count: 0,
            bag_metadata: None,
            warnings: Warnings::default(),
            notes: Warnings::default(),
        };
        bag.check_tables()?;
        bag.read_topics()?;
        bag.bag_metadata = bag.read_bag_metadata();
        if is_cut(path)? && is_cut(bag.database.merged()?)? {
            bag.read_pages("it has lost its end")?;
            return Ok(bag);
        }
        let count = "SELECT count(*) FROM messages";
        match bag.database.query_row(count, [], |row| row.get::<_, i64>(0)) {
            Ok(count) => {
                bag.message_count = count.unsigned_abs();
                bag.fetch_keys()?;
            }
            Err(error) => bag.read_pages(&error.to_string())?,
        }
        Ok(bag)
    }

    /// Takes the messages to come from the database's pages, since its tables cannot be walked.
    fn read_pages(&mut self, reason: &str) -> Result<(), ConvertError> {
        let columns = columns(&self.database, "messages");
        if columns.map_err(|error| damaged(&self.path, &error))?.is_empty() {
            let reason = format!("expected a database of rosbag2: {reason}");
            return Err(ConvertError::damaged(&self.path, reason));
        }
        let pages = Pages::open(self.database.merged()?)?;
        let root = "SELECT rootpage FROM sqlite_master WHERE name = 'messages'";
        let root = self.database.query_row(root, [], |row| row.get(0)).unwrap_or(0);
        self.lost_count = self.lost_count.max(pages.lost_count(root));
        self.message_count = pages.rows().len() as u64;
        self.warnings.say(format!(
            "the database is damaged ({reason}): messages are read from the pages that are there"
        ));
        let given = self.fetched.take();
        let keys = pages.rows().iter().map(Row::key);
        self.keys = keys.filter(|key| given.is_none_or(|given| *key > given)).collect();
        self.pages = Some(pages);
        Ok(())
    }

    /// A message and the id of its topic: from the database's pages once they are known, or where SQLite
    /// does not find it.
    fn message(&mut self, key: (i64, i64)) -> Result<(i64, Vec<u8>), String> {
        let mut reason = "it is gone".to_owned();
        if self.pages.is_none() {
            match self.row(key.1) {
                Ok(Some(row)) => return Ok(row),
                Ok(None) => {}
                Err(error) => reason = error.to_string(),
            }
            let pages = self.database.merged().and_then(Pages::open);
            self.pages = Some(pages.map_err(|error| error.to_string())?);
        }
        self.pages.as_ref().and_then(|pages| pages.message(key)).ok_or(reason)
    }

    /// Refuses views, virtual tables and computed columns: rosbag2 writes none, and a query that stands
    /// behind one may never end.
    fn check_tables(&self) -> Result<(), ConvertError> {
        let odd = "SELECT name FROM sqlite_master WHERE lower(name) IN \
                       ('topics', 'messages', 'message_definitions', 'metadata') \
                       AND (type <> 'table' OR rootpage = 0) \
                   UNION ALL SELECT t.name FROM sqlite_master AS t, pragma_table_xinfo(t.name) AS c \
                       WHERE t.type = 'table' AND t.rootpage > 0 AND c.hidden > 0";
        let odd = self.database.query_row(odd, [], |row| row.get::<_, String>(0)).optional();
        match odd.map_err(|error| damaged(&self.path, &error))? {
            None => Ok(()),
            Some(name) => {
                let reason = format!("{name:?} is not a plain table, as rosbag2 makes them");
                Err(ConvertError::unsupported(&self.path, reason))
            }
        }
    }

    fn read_topics(&mut self) -> Result<(), ConvertError> {
        let definitions = self.definitions().unwrap_or_else(|error| {
            self.warnings.say(format!("its definitions of types cannot be read: {error}"));
            BTreeMap::new()
        });
        let mut schema_bytes = SchemaBytes::default();
        let (rows, error) = self.topic_rows().map_err(|error| damaged(&self.path, &error))?;
        if let Some(error) = error {
            self.warnings.say(format!("not all of its topics can be read: {error}"));
        }
        for row in rows {
            let (schema_encoding, schema) = match definition_of(&definitions, &row.type_name) {
                Some((encoding, text)) => (encoding.clone(), text.clone()),
                None => self.bundled_definition(&row),
            };
            schema_bytes.add(&self.path, schema.len())?;
            let named = [("offered_qos_profiles", row.qos), ("topic_type_hash", row.type_hash)];
            // rosbag2 writes an empty list where it knew of no profile.
            let is_said = |value: &str| !value.is_empty() && value != "[]";
            let filled = named.into_iter().filter(|(_, value)| is_said(value));
            self.ids.insert(row.id, self.topics.len());
            self.topics.push(Topic {
                name: row.name,
                type_name: row.type_name,
                message_encoding: row.format,
                schema_encoding,
                schema,
                metadata: filled.map(|(name, value)| (name.to_owned(), value)).collect(),
            });
        }
        Ok(())
    }

    fn bundled_definition(&mut self, row: &TopicRow) -> (String, Vec<u8>) {
        match definitions::schema(&row.type_name) {
            Some(text) if row.format == "cdr" => ("ros2msg".to_owned(), text.into_bytes()),
            _ => {
                let note = format!(
                    "the bag has no definition of {}, and none is bundled: its messages are kept \
                     but cannot be decoded",
                    row.type_name
                );
                self.notes.say(note.clone());
                self.warnings.say(note);
                (String::new(), Vec::new())
            }
        }
    }

    /// The topics, and the error that kept others from being read.
    fn topic_rows(&self) -> rusqlite::Result<(Vec<TopicRow>, Option<rusqlite::Error>)> {
        // Foxy has no QoS and no hashes, Humble no hashes.
        let column = |name| {
            let known = columns(&self.database, "topics")?.iter().any(|column| column == name);
            Ok::<_, rusqlite::Error>(if known { name } else { "''" })
        };
        let sql = format!(
            "SELECT id, name, type, serialization_format, {}, {} FROM topics ORDER BY id",
            column("offered_qos_profiles")?,
            column("type_description_hash")?,
        );
        let mut statement = self.database.prepare(&sql)?;
        let mut read = statement.query_map([], |row| {
            Ok(TopicRow {
                id: row.get(0)?,
                name: row.get(1)?,
                type_name: row.get(2)?,
                format: row.get(3)?,
                qos: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
                type_hash: row.get::<_, Option<String>>(5)?.unwrap_or_default(),
            })
        })?;
        let mut rows = Vec::new();
        let error = loop {
            match read.next() {
                Some(Ok(row)) => rows.push(row),
                Some(Err(error)) if rows.is_empty() => return Err(error),
                ended => break ended.and_then(Result::err),
            }
        };
        Ok((rows, error))
    }

    /// Encoding and text by type; empty before Iron, which has no such table.
    fn definitions(&self) -> rusqlite::Result<BTreeMap<String, (String, Vec<u8>)>> {
        if columns(&self.database, "message_definitions")?.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut statement = self.database.prepare(
            "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions",
        )?;
        let rows = statement.query_map([], |row| {
            let text: String = row.get(2)?;
            Ok((row.get(0)?, (row.get(1)?, text.into_bytes())))
        })?;
        let mut found: BTreeMap<String, (String, Vec<u8>)> =
            rows.collect::<rusqlite::Result<_>>()?;
        // rosbag2 writes `unknown` and no text where it found no definition; a type without fields has no
        // text either.
        found.retain(|_, (encoding, _)| encoding != "unknown");
        Ok(found)
    }

    /// The last row of the table `metadata`; older databases have none.
    fn read_bag_metadata(&self) -> Option<BagMetadata> {
        let sql = "SELECT metadata FROM metadata ORDER BY id DESC LIMIT 1";
        let text: String = self.database.query_row(sql, [], |row| row.get(0)).ok()?;
        BagMetadata::parse_mcap_record(&text).ok()
    }

    fn fetch_keys(&mut self) -> Result<(), ConvertError> {
        let Some(after) = self.fetched else { return Ok(()) };
        let fetch = || {
            let mut statement = self.database.prepare_cached(
                "SELECT timestamp, id FROM messages WHERE (timestamp, id) > (?1, ?2) \
                 ORDER BY timestamp, id LIMIT ?3",
            )?;
            let keys = statement.query_map((after.0, after.1, KEYS_AT_ONCE), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
            keys.collect::<rusqlite::Result<VecDeque<_>>>()
        };
        match fetch() {
            Ok(keys) => self.keys = keys,
            Err(error) => return self.read_pages(&error.to_string()),
        }
        self.fetched = self.keys.back().copied();
        Ok(())
    }

    fn row(&self, id: i64) -> rusqlite::Result<Option<(i64, Vec<u8>)>> {
        let mut statement =
            self.database.prepare_cached("SELECT topic_id, data FROM messages WHERE id = ?1")?;
        statement.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional()
    }
}

/// rosbag2 has the definition of a service's events under the service's own type.
fn definition_of<'a>(
    definitions: &'a BTreeMap<String, (String, Vec<u8>)>,
    type_name: &str,
) -> Option<&'a (String, Vec<u8>)> {
    let service = type_name.strip_suffix("_Event").filter(|name| name.contains("/srv/"));
    definitions.get(type_name).or_else(|| definitions.get(service?))
}

struct TopicRow {
    id: i64,
    name: String,
    type_name: String,
    format: String,
    qos: String,
    type_hash: String,
}

impl MessageSource for SqliteBag {
    fn topics(&self) -> &[Topic] {
        &self.topics
    }

    fn profile(&self) -> &str {
        "ros2"
    }

    fn next_message(&mut self) -> Result<Option<SourceMessage>, ConvertError> {
        loop {
            let Some((timestamp, id)) = self.keys.pop_front() else { return Ok(None) };
            let row = self.message((timestamp, id));
            if self.keys.is_empty() {
                self.fetch_keys()?;
            }
            let (topic_id, data) = match row {
                Ok(row) => row,
                Err(reason) => {
                    self.warnings.say(format!("messages cannot be read: {reason}"));
                    self.lost_count += 1;
                    continue;
                }
            };
            let Some(topic) = self.ids.get(&topic_id) else {
                self.warnings.say(format!("messages of the unknown topic {topic_id} are left out"));
                self.lost_count += 1;
                continue;
            };
            let log_time_nanos = u64::try_from(timestamp).unwrap_or_else(|_| {
                self.warnings.say("messages have times before 1970, which become 1970".to_owned());
                0
            });
            return Ok(Some(SourceMessage {
                topic: *topic,
                log_time_nanos,
                publish_time_nanos: log_time_nanos,
                sequence: 0,
                data,
            }));
        }
    }

    fn start_time_nanos(&self) -> Option<u64> {
        self.keys.front().map(|(timestamp, _)| u64::try_from(*timestamp).unwrap_or(0))
    }

    fn message_count(&self) -> Option<u64> {
        Some(self.message_count)
    }

    fn lost_count(&self) -> u64 {
        self.lost_count
    }

    fn totals(&self) -> Option<SourceTotals> {
        let sql = "SELECT topic_id, count(*), min(timestamp), max(timestamp) FROM messages GROUP BY topic_id";
        let mut statement = self.database.prepare(sql).ok()?;
        let mut rows = statement.query([]).ok()?;
        let mut totals = SourceTotals { counts: vec![0; self.topics.len()], times_nanos: None };
        while let Some(row) = rows.next().ok()? {
            let number = |column: usize| row.get::<_, i64>(column).ok();
            let topic = *self.ids.get(&number(0)?)?;
            totals.counts[topic] += u64::try_from(number(1)?).ok()?;
            let (first, last) = (u64::try_from(number(2)?).ok()?, u64::try_from(number(3)?).ok()?);
            totals.add_times(first, last);
        }
        Some(totals)
    }

    fn bag_metadata(&self) -> Option<&BagMetadata> {
        self.bag_metadata.as_ref()
    }

    fn warnings(&self) -> &[String] {
        self.warnings.all()
    }

    fn notes(&self) -> &[String] {
        self.notes.all()
    }
}

/// Names of a table's columns; none if there is no such table.
fn columns(database: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = database.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let names = statement.query_map([table], |row| row.get(0))?;
    names.collect()
}
