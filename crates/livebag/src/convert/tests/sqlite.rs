use rusqlite::Connection;

use super::*;

/// A database as Jazzy makes it, or as Foxy did.
pub(crate) fn database(path: &Path, is_new: bool, messages: &[(i64, i64)]) {
    let database = Connection::open(path).unwrap();
    let (columns, values) = match is_new {
        true => (
            ", offered_qos_profiles TEXT, type_description_hash TEXT",
            ", '- history: 1', 'RIHS01_x'",
        ),
        false => ("", ""),
    };
    let sql = format!(
        "CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT, type TEXT,
             serialization_format TEXT{columns});
         CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER,
             data BLOB);
         CREATE INDEX timestamp_idx ON messages (timestamp ASC);
         INSERT INTO topics VALUES(4, '/a', 'std_msgs/msg/String', 'cdr'{values});
         INSERT INTO topics VALUES(9, '/b', 'acme_msgs/msg/Anvil', 'cdr'{values});"
    );
    database.execute_batch(&sql).unwrap();
    if is_new {
        let sql = "CREATE TABLE message_definitions(id INTEGER PRIMARY KEY, topic_type TEXT,
                 encoding TEXT, encoded_message_definition TEXT, type_description_hash TEXT);
             INSERT INTO message_definitions VALUES(1, 'acme_msgs/msg/Anvil', 'ros2msg',
                 'uint32 kilos', 'RIHS01_y');";
        database.execute_batch(sql).unwrap();
    }
    database.execute_batch("PRAGMA synchronous=OFF; BEGIN").unwrap();
    for (topic, time) in messages {
        let sql = "INSERT INTO messages(topic_id, timestamp, data) VALUES(?1, ?2, ?3)";
        database.execute(sql, (topic, time, &time.to_le_bytes()[..])).unwrap();
    }
    database.execute_batch("COMMIT").unwrap();
}

#[test]
fn old_and_new_databases_are_read_in_order_of_time() {
    let directory = tempfile::tempdir().unwrap();
    for is_new in [true, false] {
        let path = directory.path().join(format!("{is_new}.db3"));
        // More than are fetched at once, several of equal time, some before 1970.
        let messages: Vec<_> =
            (0..3000).map(|n| (if n % 3 == 0 { 4 } else { 9 }, (n * 7919) % 500 - 2)).collect();
        database(&path, is_new, &messages);
        let mut source = open_foreign(&path).unwrap();
        assert_eq!(source.message_count(), Some(3000));
        let read = read_all(source.as_mut());
        assert_eq!(read.len(), 3000);
        assert_eq!(read[0].log_time_nanos, 0);
        let a = &source.topics()[0];
        assert_eq!(a.schema, livebag_format::definitions::schema(&a.type_name).unwrap().as_bytes());
        let b = &source.topics()[1];
        if is_new {
            assert_eq!((&*b.schema_encoding, &*b.schema), ("ros2msg", &b"uint32 kilos"[..]));
            assert_eq!(b.metadata["offered_qos_profiles"], "- history: 1");
            assert_eq!(b.metadata["topic_type_hash"], "RIHS01_x");
            assert_eq!(source.warnings().len(), 1, "{:?}", source.warnings());
        } else {
            assert!(b.schema.is_empty() && b.metadata.is_empty());
            assert!(source.warnings()[0].contains("acme_msgs/msg/Anvil"));
        }
    }
}

/// A view may stand for a query that never ends.
#[test]
fn what_is_computed_is_no_table_of_rosbag2() {
    let directory = tempfile::tempdir().unwrap();
    let views = "DROP TABLE messages; CREATE VIEW messages(id, topic_id, timestamp, data) AS \
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
                 SELECT i, 4, i, zeroblob(1000000) FROM n;";
    let columns = "ALTER TABLE messages ADD COLUMN more BLOB AS (zeroblob(1000000000));";
    for (number, sql) in [views, columns].into_iter().enumerate() {
        let path = directory.path().join(format!("{number}.db3"));
        database(&path, true, &[(4, 1)]);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let error = open_foreign(&path).err().unwrap();
        assert!(matches!(error, ConvertError::Unsupported { .. }), "{error}");
    }
}

#[test]
fn a_damaged_database_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "cut.db3", b"SQLite format 3\0 and no more");
    let error = open_foreign(&path).err().unwrap();
    assert!(matches!(error, ConvertError::Damaged { .. }), "{error}");
    let path = directory.path().join("other.db3");
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE notes(text TEXT)").unwrap();
    let error = open_foreign(&path).err().unwrap();
    assert!(error.to_string().contains("rosbag2"), "{error}");
}

#[test]
fn a_write_ahead_log_is_read_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wal.db3");
    database(&path, true, &[(4, 1)]);
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("PRAGMA journal_mode=WAL").unwrap();
    writer.execute("INSERT INTO messages VALUES(77, 9, 2, x'00')", []).unwrap();
    let mut source = open_foreign(&path).unwrap();
    assert_eq!(read_all(source.as_mut()).len(), 2);
}
