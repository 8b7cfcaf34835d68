#![expect(clippy::disallowed_methods, reason = "the tests spoil files")]

use std::io::Read;

use super::*;
use crate::attachments::AttachmentsFile;
use crate::{Damage, Verified, verify};
use livebag::{Container, Recorder, RecorderOptions};

/// Odd sizes, an empty one, one of several pieces, two of one name; names as people give them.
fn samples() -> Vec<Attachment> {
    let sizes = [0, 1, 7, 4096, (1 << 20) - 1, (2 << 20) + 13];
    let sample = |(number, bytes): (usize, &usize)| Attachment {
        log_time_nanos: 1_000 + number as u64,
        create_time_nanos: [0, u64::MAX][number % 2],
        name: ["calibration.yaml", "", "Plan des Saals (µm).pdf", "a/b\n.bin"][number % 4].into(),
        media_type: ["text/yaml", "", "application/pdf"][number % 3].into(),
        data: (0..*bytes).map(|at| (at * 31 + number) as u8).collect::<Vec<u8>>().into(),
    };
    sizes.iter().enumerate().map(sample).collect()
}

fn records() -> Vec<MetadataRecord> {
    let record = |name: &str, key: &str| MetadataRecord {
        name: name.into(),
        values: [(key.to_owned(), "a: b\n\"c\"".to_owned())].into(),
    };
    // The same name twice, the same record twice, and one that is called as rosbag2's own.
    let same = record("fleet", "robot");
    vec![same.clone(), record("fleet", "site"), same, record("rosbag2", "note"), record("", "")]
}

type Everything = Vec<(u64, u64, String, String, Vec<u8>)>;

fn comparable(attachments: &[Attachment]) -> Everything {
    let all = attachments.iter().map(|a| {
        let (name, media_type) = (a.name.clone(), a.media_type.clone());
        (a.log_time_nanos, a.create_time_nanos, name, media_type, contents(a))
    });
    all.collect()
}

/// An MCAP with messages, the samples and the records.
fn mcap_file(path: &Path, options: mcap::WriteOptions) -> PathBuf {
    let file = ForeignFile::create(path).unwrap();
    let mut writer = options.profile("ros2").create(std::io::BufWriter::new(file)).unwrap();
    let schema = writer.add_schema("std_msgs/msg/String", "ros2msg", b"string data").unwrap();
    let channel = writer.add_channel(schema, "/a", "cdr", &Default::default()).unwrap();
    let samples = samples();
    for (number, sample) in samples.iter().enumerate() {
        let header = MessageHeader {
            channel_id: channel,
            sequence: number as u32,
            log_time: number as u64,
            publish_time: 3,
        };
        writer.write_to_known_channel(&header, &[number as u8]).unwrap();
        sample.write_to(&mut writer).unwrap();
    }
    for record in records() {
        let record = mcap::records::Metadata { name: record.name, metadata: record.values };
        writer.write_metadata(&record).unwrap();
    }
    writer.finish().unwrap();
    path.to_owned()
}

fn attachments_of(path: &Path) -> Vec<Attachment> {
    let mut source = open_any(path).unwrap();
    std::iter::from_fn(|| source.next_attachment().unwrap()).collect()
}

fn damage_of(path: &Path) -> Vec<Damage> {
    let Verified { damage, .. } = verify(path, &mut |_| {}).unwrap();
    damage
}

fn convert_to_container(from: &Path, to: &Path) -> Copied {
    to_container(&mut *open_any(from).unwrap(), to, &mut |_| {}).unwrap()
}

fn convert_to_mcap(from: &Path, to: &Path) -> Copied {
    let options = SinkOptions::default();
    to_mcap(&mut *open_any(from).unwrap(), to, options, &mut |_| {}).unwrap().0
}

#[test]
fn attachments_and_records_survive_every_way() {
    let ways = [
        mcap::WriteOptions::new(),
        mcap::WriteOptions::new().use_chunks(false),
        mcap::WriteOptions::new().emit_summary_records(false),
        mcap::WriteOptions::new().emit_statistics(false).emit_attachment_indexes(false),
        mcap::WriteOptions::new().calculate_attachment_crcs(false),
    ];
    let expected = comparable(&samples());
    for options in ways {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let first = mcap_file(&at("first.mcap"), options);
        let copied = convert_to_container(&first, &at("container"));
        assert_eq!((copied.messages, copied.attachments), (6, 6));
        assert_eq!(copied.warnings, [] as [String; 0]);
        convert_to_mcap(&at("container"), &at("bag"));
        convert_to_mcap(&first, &at("straight"));
        convert_to_container(&at("bag"), &at("again"));
        for path in ["container", "bag", "straight", "again"].map(at) {
            assert_eq!(comparable(&attachments_of(&path)), expected, "{}", path.display());
            assert_eq!(open_any(&path).unwrap().metadata_records(), records());
            assert_eq!(damage_of(&path), []);
        }
    }
}

#[test]
fn a_topic_named_so_keeps_its_file_and_the_manifest_names_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("first.mcap");
    let mut writer = mcap::Writer::new(ForeignFile::create(&path).unwrap()).unwrap();
    let channel = writer.add_channel(0, "/attachments", "cdr", &Default::default()).unwrap();
    let header = MessageHeader { channel_id: channel, sequence: 1, log_time: 1, publish_time: 1 };
    writer.write_to_known_channel(&header, b"message").unwrap();
    samples()[2].write_to(&mut writer).unwrap();
    writer.finish().unwrap();
    let container = folder.path().join("container");
    convert_to_container(&path, &container);
    let bag = Container::open(&container).unwrap();
    assert_eq!(bag.attachments_path(), Some(container.join("attachments.mcap")));
    assert_eq!(bag.topics()[0].bricks(), ["attachments-2.mcap"]);
    assert_eq!(comparable(&attachments_of(&container)), comparable(&samples()[2..3]));
    // The manifest is rebuilt from the files.
    std::fs::write(container.join("container.yaml"), "spoilt: [").unwrap();
    let bag = Container::recover(&container).unwrap();
    assert_eq!(bag.topics()[0].bricks(), ["attachments-2.mcap"]);
    assert_eq!(comparable(&attachments(&bag).unwrap()), comparable(&samples()[2..3]));
    assert_eq!(damage_of(&container), []);
}

#[test]
fn a_conversion_that_was_cut_short_keeps_what_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let first = mcap_file(&folder.path().join("first.mcap"), mcap::WriteOptions::new());
    let container = folder.path().join("container");
    convert_to_container(&first, &container);
    as_if_killed(&container, true);
    let bag = Container::open(&container).unwrap();
    assert_eq!(bag.state(), livebag::ContainerState::Recovered);
    assert_eq!(comparable(&attachments(&bag).unwrap()), comparable(&samples()));
}

/// Makes `container.yaml` say what it says while a recorder is at work; the lock is free.
fn as_if_killed(container: &Path, has_name: bool) {
    let manifest = container.join("container.yaml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let mut open = text.replace("\"state\": \"closed\"", "\"state\": \"recording\"");
    open = open.replace("\"state\": \"recovered\"", "\"state\": \"recording\"");
    if !has_name {
        open = open.replace("\"attachments.mcap\"", "\"\"");
    }
    assert_ne!(open, text);
    std::fs::write(&manifest, open).unwrap();
}

#[test]
fn attachments_and_events_outlive_splits_retention_and_recovery() {
    let folder = tempfile::tempdir().unwrap();
    let container = folder.path().join("container");
    let retention = livebag::Retention { splits_max: Some(2), ..Default::default() };
    let options = RecorderOptions { has_attachments: true, retention, ..Default::default() };
    let recorder = Recorder::create(&container, options).unwrap();
    let mut file = AttachmentsFile::create(&container, "ros2").unwrap();
    samples().iter().for_each(|sample| file.add(sample).unwrap());
    file.finish().unwrap();
    recorder.event("begun", "", (1, 2)).unwrap();
    let writer = recorder.topic(topic("/a")).unwrap();
    let until = |condition: &dyn Fn() -> bool| {
        while !condition() {
            std::thread::yield_now();
        }
    };
    for split in 2..=4 {
        writer.write(1, 1, b"message").unwrap();
        until(&|| recorder.status().totals().0 == split - 1);
        recorder.split().unwrap();
        until(&|| u64::from(recorder.status().splits) == split);
    }
    recorder.event("fourth split", "", (3, 3)).unwrap();
    until(&|| !container.join("a.mcap").exists());
    let check = |bag: &Container, what: &str| {
        assert_eq!(comparable(&attachments(bag).unwrap()), comparable(&samples()), "{what}");
        let events: Vec<_> = bag.events().unwrap().into_iter().map(|event| event.name).collect();
        assert_eq!(events, ["begun", "fourth split"], "{what}");
    };
    check(&Container::open(&container).unwrap(), "live, the first split is gone");
    recorder.finish().unwrap();
    check(&Container::open(&container).unwrap(), "closed");
    assert_eq!(damage_of(&container), []);
    as_if_killed(&container, true);
    check(&Container::open(&container).unwrap(), "killed");
    // As recorders wrote it once that had closed their first split.
    as_if_killed(&container, false);
    check(&Container::open(&container).unwrap(), "killed, and not named");
    std::fs::write(container.join("container.yaml"), "spoilt: [").unwrap();
    check(&Container::recover(&container).unwrap(), "made anew");
    assert_eq!(damage_of(&container), []);
}

#[test]
fn recovery_removes_no_file_that_others_have_put_beside() {
    let folder = tempfile::tempdir().unwrap();
    let first = mcap_file(&folder.path().join("first.mcap"), mcap::WriteOptions::new());
    let container = folder.path().join("container");
    convert_to_container(&first, &container);
    let mut writer =
        mcap::Writer::new(ForeignFile::create(&container.join("notes.mcap")).unwrap()).unwrap();
    let metadata = [("by".to_owned(), "hand".to_owned())].into();
    writer.write_metadata(&mcap::records::Metadata { name: "note".into(), metadata }).unwrap();
    writer.finish().unwrap();
    as_if_killed(&container, true);
    Container::open(&container).unwrap();
    assert!(container.join("notes.mcap").exists());
}

#[test]
fn a_damaged_attachment_is_told_and_the_rest_converts() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let first = mcap_file(&at("first.mcap"), mcap::WriteOptions::new());
    let mut bytes = std::fs::read(&first).unwrap();
    let data = contents(&samples()[3]);
    let place = bytes.windows(data.len()).position(|window| window == data).unwrap();
    bytes[place + 4000] ^= 1;
    let second = write_file(folder.path(), "second.mcap", &bytes);
    let expected = comparable(&[&samples()[..3], &samples()[4..]].concat());
    for target in ["container", "bag"] {
        let copied = match target {
            "bag" => convert_to_mcap(&second, &at(target)),
            _ => convert_to_container(&second, &at(target)),
        };
        assert_eq!((copied.messages, copied.attachments, copied.lost_attachments), (6, 5, 1));
        assert!(copied.warnings[0].contains("checksum"), "{:?}", copied.warnings);
        assert_eq!(comparable(&attachments_of(&at(target))), expected);
    }
    assert!(damage_of(&second)[0].what.contains("attachment's checksum"));
    // In a container that was whole once.
    let mut inside = std::fs::read(at("container").join("attachments.mcap")).unwrap();
    let data = contents(&samples()[5]);
    let place = inside.windows(data.len()).position(|window| window == data).unwrap();
    inside[place] ^= 1;
    std::fs::write(at("container").join("attachments.mcap"), inside).unwrap();
    assert!(damage_of(&at("container"))[0].what.contains("attachment's checksum"));
    assert_eq!(convert_to_mcap(&at("container"), &at("again")).lost_attachments, 1);
    std::fs::remove_file(at("container").join("attachments.mcap")).unwrap();
    assert!(damage_of(&at("container"))[0].what.contains("missing"));
    let copied = convert_to_mcap(&at("container"), &at("without"));
    assert_eq!((copied.messages, copied.attachments, copied.lost_attachments), (6, 0, 1));
}

#[test]
fn what_makes_no_sense_is_damage_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let first = mcap_file(&folder.path().join("first.mcap"), mcap::WriteOptions::new());
    let whole = std::fs::read(&first).unwrap();
    let summary = mcap::Summary::read(&whole).unwrap().unwrap();
    let at = summary.attachment_indexes[2].offset as usize;
    // Opcode, record length, name length, data length: all of them wrong in turn.
    for (offset, value) in [(0, 0x0c), (3, 1), (25, 0xff), (27, 0xff), (28, 1), (60, 9), (70, 9)] {
        let mut bytes = whole.clone();
        bytes[at + offset] = value;
        let path = write_file(folder.path(), &format!("{offset}.mcap"), &bytes);
        let lost = attachments_of(&path).iter().filter(|a| a.damage().unwrap().is_some()).count();
        // A record may be longer than its fields, which are whole: what follows them is to be ignored.
        assert_eq!(lost, usize::from(offset != 3), "at {offset}");
    }
}

#[test]
fn several_files_parts_and_selections_keep_them_all() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    std::fs::create_dir(&bag).unwrap();
    mcap_file(&bag.join("bag_0.mcap"), mcap::WriteOptions::new());
    mcap_file(&bag.join("bag_1.mcap"), mcap::WriteOptions::new().emit_summary_records(false));
    let twice = comparable(&[samples(), samples()].concat());
    assert_eq!(comparable(&attachments_of(&bag)), twice);
    let filter = TopicFilter { topics: vec!["/none".into()], ..TopicFilter::default() };
    let mut source = selected(open_any(&bag).unwrap(), &filter, Some(1), Some(2));
    let options = Rosbag2Options { file_bytes_max: Some(1), ..Rosbag2Options::default() };
    let target = folder.path().join("part");
    let storage = Rosbag2Storage::Mcap(SinkOptions::default());
    let (copied, _) = to_rosbag2(&mut *source, &target, storage, options, &mut |_| {}).unwrap();
    assert_eq!((copied.messages, copied.attachments), (0, 12));
    assert_eq!(comparable(&attachments_of(&target)), twice);
    let mut source = open_any(&bag).unwrap();
    let databases = folder.path().join("databases");
    let options = Sqlite3Options::default();
    let (copied, _) = to_sqlite3(&mut *source, &databases, options, &mut |_| {}).unwrap();
    let told = copied.warnings.iter().filter(|w| w.contains("sqlite3 bags have none")).count();
    assert_eq!(told, 12 + 5, "{:?}", copied.warnings);
}

#[test]
fn a_reader_gives_pieces() {
    let data = contents(&samples()[5]);
    let folder = tempfile::tempdir().unwrap();
    let path = mcap_file(&folder.path().join("first.mcap"), mcap::WriteOptions::new());
    let attachment = attachments_of(&path).remove(5);
    assert_eq!(attachment.data.bytes(), data.len() as u64);
    let mut reader = attachment.data.reader();
    let mut read = Vec::new();
    let mut piece = [0; 1013];
    loop {
        match reader.read(&mut piece).unwrap() {
            0 => break,
            count => read.extend_from_slice(&piece[..count]),
        }
    }
    assert_eq!(read, data);
}
