use std::collections::BTreeMap;
use std::path::PathBuf;

use rusqlite::Connection;

use super::super::{MessageSource, SourceMessage, open_foreign};
use super::*;

const PAGE_BYTES: usize = 512;
const MESSAGES: i64 = 300;

/// A database of small pages, so that its tables have levels, which hold small messages and some of
/// several pages. Its tables' texts are short enough for the first page.
fn database(path: &Path) -> BTreeMap<u64, Vec<u8>> {
    let database = Connection::open(path).unwrap();
    let sql = "PRAGMA page_size=512;
        CREATE TABLE topics(id INTEGER PRIMARY KEY,name,type,serialization_format,offered_qos_profiles);
        INSERT INTO topics VALUES(1, '/a', 'std_msgs/msg/String', 'cdr', '');
        CREATE TABLE messages(id INTEGER PRIMARY KEY,topic_id,timestamp,data);
        CREATE INDEX timestamp_idx ON messages (timestamp ASC);
        BEGIN";
    database.execute_batch(sql).unwrap();
    let mut messages = BTreeMap::new();
    for number in 1..=MESSAGES {
        let bytes =
            if number % 7 == 0 { 1500 + number as usize } else { 20 + number as usize % 60 };
        let data = vec![number as u8 | 1; bytes];
        let time = 1_700_000_000_000_000_000 + number * 3;
        let sql = "INSERT INTO messages(topic_id, timestamp, data) VALUES(1, ?1, ?2)";
        database.execute(sql, (time, &data)).unwrap();
        messages.insert(time as u64, data);
    }
    database.execute_batch("COMMIT").unwrap();
    messages
}

fn write(path: &Path, bytes: &[u8]) -> PathBuf {
    // Tests may replace their own files; a foreign file is only created.
    let _ = rustix::fs::unlink(path);
    std::io::Write::write_all(&mut ForeignFile::create(path).unwrap(), bytes).unwrap();
    path.to_owned()
}

fn read(mut source: Box<dyn MessageSource>) -> (BTreeMap<u64, Vec<u8>>, u64) {
    let mut messages = BTreeMap::new();
    while let Some(SourceMessage { log_time_nanos, data, .. }) = source.next_message().unwrap() {
        assert!(messages.last_key_value().is_none_or(|(last, _)| *last < log_time_nanos));
        messages.insert(log_time_nanos, data);
    }
    (messages, source.lost_count())
}

impl Pages {
    /// The pages that a message lies on.
    fn pages_of(&self, row: &Row) -> Vec<u32> {
        let mut pages = vec![row.page];
        let leaf = self.page(row.page).unwrap();
        let mut next = self.cell(&leaf, row.cell).unwrap().overflow.unwrap_or(0);
        while next != 0 {
            pages.push(next);
            next = number_at(&self.page(next).unwrap(), 0);
        }
        pages
    }
}

/// Messages by log time, and the pages that each lies on.
struct Whole {
    bytes: Vec<u8>,
    places: Vec<(u64, Vec<u32>)>,
    messages: BTreeMap<u64, Vec<u8>>,
}

fn whole(folder: &Path) -> Whole {
    let path = folder.join("whole.db3");
    let messages = database(&path);
    let pages = Pages::open(&path).unwrap();
    let keys: Vec<_> = pages.rows().iter().map(|row| row.timestamp as u64).collect();
    assert!(keys.iter().eq(messages.keys()));
    for row in pages.rows() {
        let (topic, data) = pages.message(row.key()).unwrap();
        assert_eq!((topic, &data), (1, &messages[&(row.timestamp as u64)]));
    }
    let places = pages.rows().iter().map(|row| (row.timestamp as u64, pages.pages_of(row)));
    let bytes = pages.file.read_all(1 << 24).unwrap();
    let sql = "SELECT rootpage FROM sqlite_master WHERE name = 'messages'";
    let root = Connection::open(&path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(pages.lost_count(root), 0);
    Whole { bytes, places: places.collect(), messages }
}

#[test]
fn every_message_before_a_cut_is_read_and_the_rest_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let Whole { bytes, places, messages } = whole(folder.path());
    let count = bytes.len() / PAGE_BYTES;
    // The first two pages hold what the tables are, and the topics.
    for cut in 2..count {
        let bytes = &bytes[..cut * PAGE_BYTES + cut % PAGE_BYTES];
        let path = write(&folder.path().join("cut.db3"), bytes);
        let (given, lost) = read(open_foreign(&path).unwrap());
        let is_there = |pages: &[u32]| pages.iter().all(|page| *page as usize <= cut);
        let expected = places.iter().filter(|(_, pages)| is_there(pages));
        let expected: BTreeMap<_, _> =
            expected.map(|(time, _)| (*time, messages[time].clone())).collect();
        assert!(given.keys().eq(expected.keys()), "cut after page {cut} of {count}");
        assert!(given == expected, "cut after page {cut} of {count}");
        let missing = (messages.len() - given.len()) as u64;
        assert!((1..=missing.max(1)).contains(&lost), "page {cut}: {lost} lost, {missing} missing");
    }
}

#[test]
fn a_lost_page_costs_no_message_but_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let Whole { bytes, places, messages } = whole(folder.path());
    for page in 3..=bytes.len() / PAGE_BYTES {
        let mut bytes = bytes.clone();
        bytes[(page - 1) * PAGE_BYTES..page * PAGE_BYTES].fill(0);
        let path = write(&folder.path().join("lost.db3"), &bytes);
        let source = open_foreign(&path).unwrap_or_else(|error| panic!("page {page}: {error}"));
        let (given, lost) = read(source);
        for (time, pages) in &places {
            let is_there = !pages.contains(&(page as u32));
            assert!(given.contains_key(time) || !is_there, "page {page} cost {time}");
            // In overflow pages, zeros look like the end of a message.
            let may_be_zeros = !is_there && pages.last() == Some(&(page as u32));
            let is_right = given.get(time).is_none_or(|data| *data == messages[time]);
            assert!(is_right || may_be_zeros, "page {page}");
        }
        assert_eq!(lost > 0, given.len() < messages.len(), "page {page}: {lost} lost");
    }
}

#[test]
fn what_was_deleted_does_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deleted.db3");
    database(&path);
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("DELETE FROM messages WHERE id > 10").unwrap();
    drop(connection);
    assert_eq!(Pages::open(&path).unwrap().rows().len(), 10);
}

#[test]
fn numbers_are_those_of_the_file_format() {
    assert_eq!(varint(&[0x7f]), Some((127, 1)));
    assert_eq!(varint(&[0x81, 0x00]), Some((128, 2)));
    assert_eq!(varint(&[0xff; 9]), Some((u64::MAX, 9)));
    assert_eq!(varint(&[0xff; 8]), None);
    assert_eq!(integer(1, &[0xfe]), Some((-2, 1)));
    assert_eq!(integer(3, &[1, 0, 0]), Some((65536, 3)));
    assert_eq!(integer(5, &[0x80, 0, 0, 0, 0, 0]), Some((-(1 << 47), 6)));
    assert_eq!((integer(8, &[]), integer(9, &[])), (Some((0, 0)), Some((1, 0))));
    assert_eq!((integer(0, &[]), integer(7, &[0; 8]), integer(6, &[0; 7])), (None, None, None));
}
