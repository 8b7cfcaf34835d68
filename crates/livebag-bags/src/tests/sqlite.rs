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

/// Names, bytes and times of all files in a folder.
fn contents_of(folder: &Path) -> Vec<(PathBuf, Vec<u8>, std::time::SystemTime)> {
    let mut all: Vec<_> = folder
        .read_dir()
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let bytes = ForeignFile::open(&path).unwrap().read_all(1 << 24).unwrap();
            let changed = path.metadata().unwrap().modified().unwrap();
            (path, bytes, changed)
        })
        .collect();
    all.sort();
    all
}

/// Copies the files of a folder, as a crash would leave them: no process has the copies open.
fn left_behind(from: &Path, without: &str) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for (path, bytes, _) in contents_of(from) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if without.is_empty() || !name.ends_with(without) {
            write_file(to.path(), name, &bytes);
        }
    }
    to
}

/// Reads the database by all that read one, and sees to it that nothing in its folder changes.
fn count_untouched(folder: &Path) -> usize {
    let path = folder.join("bag.db3");
    let before = contents_of(folder);
    let read = read_all(open_foreign(&path).unwrap().as_mut()).len();
    assert!(crate::verify(&path, &mut |_| {}).unwrap().is_whole());
    assert_eq!(crate::glance(&path).unwrap().message_count, Some(read as u64));
    assert_eq!(contents_of(folder), before);
    read
}

#[test]
fn nothing_beside_a_database_is_made_or_changed() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("bag.db3");
    database(&path, true, &[(4, 1)]);
    assert_eq!(count_untouched(home.path()), 1);
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("PRAGMA journal_mode=WAL").unwrap();
    assert_eq!(count_untouched(left_behind(home.path(), "").path()), 1);
    assert_eq!(count_untouched(left_behind(home.path(), "-wal").path()), 1);
    writer.execute("INSERT INTO messages VALUES(77, 9, 2, x'00')", []).unwrap();
    // With its log and the log's index, and without the index.
    assert_eq!(count_untouched(left_behind(home.path(), "").path()), 2);
    assert_eq!(count_untouched(left_behind(home.path(), "-shm").path()), 2);
    // A log that has been taken into the database is empty.
    writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    assert_eq!(count_untouched(left_behind(home.path(), "").path()), 2);
    assert_eq!(count_untouched(left_behind(home.path(), "-shm").path()), 2);
    drop(writer);
    assert_eq!(contents_of(home.path()).len(), 1, "the log is in the database");
    assert_eq!(count_untouched(home.path()), 2);
}

/// A writer that dies within a transaction leaves a journal by which it is undone.
#[test]
fn a_journal_is_rolled_back_in_a_copy() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("bag.db3");
    let messages: Vec<_> = (0..200).map(|time| (4, time)).collect();
    database(&path, true, &messages);
    let writer = Connection::open(&path).unwrap();
    let sql = "PRAGMA journal_mode=DELETE; PRAGMA cache_size=1; BEGIN; UPDATE messages SET data = zeroblob(3000);";
    writer.execute_batch(sql).unwrap();
    let crashed = left_behind(home.path(), "");
    assert_eq!(contents_of(crashed.path()).len(), 2);
    assert_eq!(count_untouched(crashed.path()), 200);
    let mut source = open_foreign(&crashed.path().join("bag.db3")).unwrap();
    assert!(read_all(source.as_mut()).iter().all(|message| message.data.len() == 8));
}

/// A log of transactions does not get lost with the end of the database.
#[test]
fn a_cut_database_is_read_together_with_its_log() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("bag.db3");
    let messages: Vec<_> = (0..2000).map(|time| (4, time)).collect();
    database(&path, true, &messages);
    let writer = Connection::open(&path).unwrap();
    let sql = "PRAGMA journal_mode=WAL; INSERT INTO messages VALUES(2001, 9, 9000, x'01')";
    writer.execute_batch(sql).unwrap();
    let crashed = left_behind(home.path(), "bag.db3");
    let whole = ForeignFile::open(&path).unwrap().read_all(1 << 24).unwrap();
    write_file(crashed.path(), "bag.db3", &whole[..whole.len() / 2]);
    let before = contents_of(crashed.path());
    let mut source = open_foreign(&crashed.path().join("bag.db3")).unwrap();
    let read = read_all(source.as_mut());
    assert_eq!(read.last().unwrap().log_time_nanos, 9000);
    assert!((500..1500).contains(&read.len()), "{}", read.len());
    assert_eq!(read.len() as u64 + source.lost_count(), 2001);
    assert_eq!(contents_of(crashed.path()), before);
}
