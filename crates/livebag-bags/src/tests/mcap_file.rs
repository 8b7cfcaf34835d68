use livebag_format::mcap::opcode;
use proptest::prelude::*;

use super::*;

/// Out of order within a chunk, and chunks that overlap.
const DISORDER: [(usize, u64); 9] =
    [(0, 50), (1, 10), (0, 30), (1, 20), (0, 60), (1, 40), (0, 40), (1, 5), (0, 55)];

fn in_order() -> Vec<(String, u64)> {
    let mut expected = DISORDER;
    expected.sort_by_key(|(_, time)| *time);
    let name = |channel: usize| ["/a", "/b"][channel].to_owned();
    expected.iter().map(|(channel, time)| (name(*channel), *time)).collect()
}

/// A channel that says that its topic's name has 4 GiB, and one schema for all channels.
#[test]
fn what_lengths_say_takes_no_memory_and_shared_schemas_have_a_bound() {
    let directory = tempfile::tempdir().unwrap();
    let record =
        |kind: u8, body: &[u8]| [&[kind][..], &(body.len() as u64).to_le_bytes(), body].concat();
    let text = |text: &[u8]| [&(text.len() as u32).to_le_bytes(), text].concat();
    let lies = record(4, &[&[1, 0, 0, 0][..], &u32::MAX.to_le_bytes(), b"/a"].concat());
    let bytes = [&MCAP_MAGIC[..], &record(1, &[0; 8]), &lies].concat();
    let source = open_foreign(&write_file(directory.path(), "lies.mcap", &bytes)).unwrap();
    assert!(source.warnings().iter().any(|warning| warning.contains("left out")));

    let schema = [&[1, 0][..], &text(b"a/msg/A"), &text(b"ros2msg"), &text(&[b' '; 1 << 20])];
    let mut bytes = [&MCAP_MAGIC[..], &record(1, &[0; 8]), &record(3, &schema.concat())].concat();
    for id in 1..=300u16 {
        let ids = [&id.to_le_bytes()[..], &[1, 0]].concat();
        bytes.extend(record(4, &[ids, text(b"/a"), text(b"cdr"), text(b"")].concat()));
    }
    let error = open_foreign(&write_file(directory.path(), "many.mcap", &bytes)).err().unwrap();
    assert!(error.to_string().contains("256 MiB"), "{error}");
}

#[test]
fn a_summary_names_no_byte_twice() {
    let index = mcap::records::MetadataIndex { offset: 8, length: 60, name: "a".to_owned() };
    let summary = mcap::Summary { metadata_indexes: vec![index; 2], ..Default::default() };
    assert!(crate::mcap_file::is_possible(&summary, 120));
    assert!(!crate::mcap_file::is_possible(&summary, 119));
}

/// Chunks of about three messages.
fn small_chunks() -> mcap::WriteOptions {
    mcap::WriteOptions::new().compression(None).chunk_size(Some(120))
}

fn open(bytes: &[u8]) -> Result<Box<dyn MessageSource>, ConvertError> {
    let directory = tempfile::tempdir().unwrap();
    open_foreign(&write_file(directory.path(), "file.mcap", bytes))
}

#[test]
fn every_way_of_writing_reads_the_same_in_order_of_time() {
    let ways = [
        ("chunked", small_chunks()),
        ("lz4", small_chunks().compression(Some(mcap::Compression::Lz4))),
        ("zstd", small_chunks().compression(Some(mcap::Compression::Zstd))),
        ("unchunked", small_chunks().use_chunks(false)),
        ("without a summary", small_chunks().emit_summary_records(false)),
        ("without chunk indexes", small_chunks().emit_chunk_indexes(false)),
        ("without channels in the summary", small_chunks().repeat_channels(false)),
        ("without message indexes", small_chunks().emit_message_indexes(false)),
        ("without statistics", small_chunks().emit_statistics(false)),
    ];
    for (way, options) in ways {
        let mut source = open(&mcap_bytes(options, &DISORDER)).unwrap();
        assert_eq!(source.profile(), "ros2", "{way}");
        assert_eq!(source.start_time_nanos(), Some(5), "{way}");
        assert_eq!(names_and_times(source.as_mut()), in_order(), "{way}");
        assert_eq!(source.warnings(), &[] as &[String], "{way}");
    }
}

#[test]
fn what_is_not_asked_for_may_be_left_out_and_nothing_else() {
    let ways = [
        small_chunks(),
        small_chunks().use_chunks(false),
        small_chunks().emit_summary_records(false),
    ];
    for (way, options) in ways.into_iter().enumerate() {
        for from in 0..70 {
            let mut source = open(&mcap_bytes(options.clone(), &DISORDER)).unwrap();
            source.skip_before(from);
            let given = names_and_times(source.as_mut());
            let since = |all: Vec<(String, u64)>| -> Vec<_> {
                all.into_iter().filter(|(_, time)| *time >= from).collect()
            };
            // With an index whole chunks are left out.
            assert!(way > 0 || from <= 60 || given.is_empty());
            assert_eq!(since(given), since(in_order()));
        }
    }
}

#[test]
fn messages_and_topics_are_kept_whole() {
    let mut source = open(&mcap_bytes(small_chunks(), &[(1, 7)])).unwrap();
    let message = read_all(source.as_mut()).remove(0);
    assert_eq!(source.message_count(), Some(1));
    assert_eq!(source.topics()[1], topic("/b"));
    assert_eq!(source.topics()[0].metadata["key"], "value");
    let expected = SourceMessage {
        topic: 1,
        log_time_nanos: 7,
        publish_time_nanos: 6,
        sequence: 0,
        data: 7u64.to_le_bytes().to_vec(),
    };
    assert_eq!(message, expected);
}

#[test]
fn equal_times_keep_the_order_of_the_file() {
    let messages: Vec<_> = (0..40).map(|number| (number % 2, 9)).collect();
    let mut source = open(&mcap_bytes(small_chunks(), &messages)).unwrap();
    let sequences: Vec<_> = read_all(source.as_mut()).iter().map(|m| m.sequence).collect();
    assert_eq!(sequences, (0..40).collect::<Vec<_>>());
}

#[test]
fn a_cut_file_gives_what_it_has_and_says_so() {
    let compressions = [None, Some(mcap::Compression::Lz4), Some(mcap::Compression::Zstd)];
    let ways: Vec<_> = compressions
        .into_iter()
        .map(|compression| small_chunks().compression(compression))
        .chain([small_chunks().use_chunks(false)])
        .collect();
    let messages: Vec<_> = (0..50).map(|number| (0, number)).collect();
    for options in ways {
        let bytes = mcap_bytes(options, &messages);
        let mut most = 0;
        for length in (8..bytes.len()).step_by(29) {
            let mut source = open(&bytes[..length]).unwrap();
            let read = read_all(source.as_mut());
            assert!(!source.warnings().is_empty(), "cut to {length} bytes without a word");
            for (number, message) in read.iter().enumerate() {
                assert_eq!(message.data, (number as u64).to_le_bytes());
            }
            assert!(read.len() >= most, "a longer file gave less");
            most = read.len();
        }
        assert_eq!(most, 50);
    }
}

/// Of a cut file it is known that a message is gone if the cut goes through a chunk or a message, and never
/// what came behind the cut.
#[test]
fn what_a_cut_file_lacks_is_counted_or_said_to_be_unknown() {
    let messages: Vec<_> = (1..50).map(|number| (0, number)).collect();
    for options in [small_chunks(), small_chunks().use_chunks(false)] {
        let bytes = mcap_bytes(options, &messages);
        let mut records = Vec::new();
        let mut at = livebag_format::mcap::MAGIC.len();
        while let Some(record) = livebag_format::mcap::RecordHeader::parse(&bytes[at..]) {
            let end = at + record.total_bytes().unwrap() as usize;
            records.push((record.opcode, at..end));
            at = end;
        }
        let end_of_data = records.iter().find(|(kind, _)| *kind == opcode::DATA_END).unwrap();
        for length in (8..bytes.len()).step_by(13) {
            let folder = tempfile::tempdir().unwrap();
            let cut = write_file(folder.path(), "cut.mcap", &bytes[..length]);
            let output = folder.path().join("whole.mcap");
            let saved = salvage(&cut, &output, SinkCompression::None).unwrap();
            let inside = records.iter().find(|(_, at)| at.start < length && length < at.end);
            let has_messages = |kind| [opcode::CHUNK, opcode::MESSAGE].contains(&kind);
            let is_gone = inside.is_some_and(|(kind, _)| has_messages(*kind));
            assert_eq!(saved.lost_messages, u64::from(is_gone), "cut to {length} bytes");
            let is_unknown = length < end_of_data.1.end;
            let since = is_unknown.then_some(saved.messages);
            assert_eq!(saved.unknown_since_nanos, since, "cut to {length} bytes");
        }
    }
}

#[test]
fn a_chunk_with_a_bad_checksum_is_left_out_and_named() {
    let messages: Vec<_> = (0..9).map(|number| (0, number)).collect();
    let mut bytes = mcap_bytes(small_chunks(), &messages);
    // Publish time, then the data.
    let message = [3u64.to_le_bytes(), 4u64.to_le_bytes()].concat();
    let at = bytes.windows(16).position(|window| window == message).unwrap() + 8;
    bytes[at] ^= 0xff;
    let mut source = open(&bytes).unwrap();
    let read = read_all(source.as_mut());
    assert!(read.len() < 9 && read.len() >= 5, "{}", read.len());
    assert!(source.warnings()[0].contains("checksum"), "{:?}", source.warnings());
}

#[test]
fn attachments_and_metadata_are_given() {
    for summary in [true, false] {
        let options = small_chunks().emit_summary_records(summary);
        let mut writer = options.create(std::io::Cursor::new(Vec::new())).unwrap();
        let attachment = mcap::Attachment {
            log_time: 1,
            create_time: 2,
            name: "calibration.yaml".into(),
            media_type: "text/yaml".into(),
            data: b"k: 1".as_slice().into(),
        };
        writer.attach(&attachment).unwrap();
        let values: BTreeMap<_, _> = [("robot".to_owned(), "r2".to_owned())].into();
        let record = mcap::records::Metadata { name: "fleet".into(), metadata: values.clone() };
        writer.write_metadata(&record).unwrap();
        writer.finish().unwrap();
        let mut source = open(&writer.into_inner().into_inner()).unwrap();
        assert_eq!(source.metadata_records(), [MetadataRecord { name: "fleet".into(), values }]);
        let given = source.next_attachment().unwrap().unwrap();
        assert_eq!((&*given.name, contents(&given)), ("calibration.yaml", b"k: 1".to_vec()));
        assert_eq!(given.damage().unwrap(), None);
        assert_eq!((given.log_time_nanos, given.create_time_nanos), (1, 2));
        assert!(source.next_attachment().unwrap().is_none());
        assert_eq!(source.next_message().unwrap(), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is flipped: no panic, and no message that was not written without a warning.
    #[test]
    fn a_flipped_byte_does_no_harm(
        way in 0..4usize, at in any::<prop::sample::Index>(), value in any::<u8>(),
    ) {
        let options = match way {
            0 => small_chunks(),
            1 => small_chunks().compression(Some(mcap::Compression::Zstd)),
            2 => small_chunks().use_chunks(false),
            _ => small_chunks().emit_summary_records(false)
                .compression(Some(mcap::Compression::Lz4)),
        };
        let mut bytes = mcap_bytes(options, &DISORDER);
        let at = at.index(bytes.len());
        bytes[at] = value;
        if let Ok(mut source) = open(&bytes) {
            while let Ok(Some(message)) = source.next_message() {
                prop_assert!(message.topic < source.topics().len());
            }
        }
    }
}
