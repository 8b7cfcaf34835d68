use std::io::Write;

use proptest::prelude::*;

use super::*;

/// Writes bags as rosbag does, as far as readers depend on it.
pub(crate) struct BagWriter {
    bytes: Vec<u8>,
    infos: Vec<Vec<u8>>,
    connections: u32,
}

fn record(op: u8, fields: &[(&str, &[u8])], data: &[u8]) -> Vec<u8> {
    let mut header = Vec::new();
    for (name, value) in [&[("op", &[op][..])], fields].concat() {
        header.extend_from_slice(&((name.len() + 1 + value.len()) as u32).to_le_bytes());
        header.extend_from_slice(name.as_bytes());
        header.push(b'=');
        header.extend_from_slice(value);
    }
    let mut out = (header.len() as u32).to_le_bytes().to_vec();
    out.extend_from_slice(&header);
    out.extend_from_slice(&(data.len() as u32).to_le_bytes());
    out.extend_from_slice(data);
    out
}

fn time(nanos: u64) -> [u8; 8] {
    let (seconds, rest) = ((nanos / 1_000_000_000) as u32, (nanos % 1_000_000_000) as u32);
    (u64::from(rest) << 32 | u64::from(seconds)).to_le_bytes()
}

fn connection(id: u32) -> Vec<u8> {
    let header = record(
        0,
        &[
            ("type", b"std_msgs/String"),
            ("md5sum", b"992ce8a1687cec8c8bd883ec73ca41d1"),
            ("message_definition", b"string data\n"),
            ("callerid", format!("/node{id}").as_bytes()),
        ],
        b"",
    );
    // A connection header is a header without the lengths around it; its `op` does no harm.
    let fields = &header[4..header.len() - 4];
    record(7, &[("conn", &id.to_le_bytes()), ("topic", b"/chatter")], fields)
}

fn bag_header(index_offset: u64, connections: u32, chunks: u32) -> Vec<u8> {
    let fields: [(&str, &[u8]); 3] = [
        ("index_pos", &index_offset.to_le_bytes()),
        ("conn_count", &connections.to_le_bytes()),
        ("chunk_count", &chunks.to_le_bytes()),
    ];
    record(3, &fields, &[b' '; 100])
}

impl BagWriter {
    fn new() -> Self {
        let mut bytes = b"#ROSBAG V2.0\n".to_vec();
        bytes.extend_from_slice(&bag_header(0, 0, 0));
        BagWriter { bytes, infos: Vec::new(), connections: 2 }
    }

    pub(crate) fn chunk(&mut self, compression: &str, messages: &[(u32, u64)]) {
        let mut plain = [connection(0), connection(1)].concat();
        for (id, nanos) in messages {
            let fields: [(&str, &[u8]); 2] = [("conn", &id.to_le_bytes()), ("time", &time(*nanos))];
            plain.extend_from_slice(&record(2, &fields, &nanos.to_le_bytes()));
        }
        let data = match compression {
            "bz2" => {
                let mut to = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
                to.write_all(&plain).unwrap();
                to.finish().unwrap()
            }
            "lz4" => {
                let mut to = lz4_flex::frame::FrameEncoder::new(Vec::new());
                to.write_all(&plain).unwrap();
                to.finish().unwrap()
            }
            _ => plain.clone(),
        };
        let at = self.bytes.len() as u64;
        let size = (plain.len() as u32).to_le_bytes();
        let fields: [(&str, &[u8]); 2] = [("compression", compression.as_bytes()), ("size", &size)];
        self.bytes.extend_from_slice(&record(5, &fields, &data));
        let times = || messages.iter().map(|(_, nanos)| *nanos);
        let fields: [(&str, &[u8]); 5] = [
            ("ver", &1u32.to_le_bytes()),
            ("chunk_pos", &at.to_le_bytes()),
            ("start_time", &time(times().min().unwrap_or(0))),
            ("end_time", &time(times().max().unwrap_or(0))),
            ("count", &1u32.to_le_bytes()),
        ];
        let counts = [0u32.to_le_bytes(), (messages.len() as u32).to_le_bytes()].concat();
        self.infos.push(record(6, &fields, &counts));
    }

    pub(crate) fn close(mut self) -> Vec<u8> {
        let index_offset = self.bytes.len() as u64;
        self.bytes.extend_from_slice(&[connection(0), connection(1)].concat());
        self.bytes.extend_from_slice(&self.infos.concat());
        let header = bag_header(index_offset, self.connections, self.infos.len() as u32);
        self.bytes[13..13 + header.len()].copy_from_slice(&header);
        self.bytes
    }
}

/// Chunks that overlap in time, one of each compression, one of them empty.
pub(crate) fn bag() -> BagWriter {
    let mut bag = BagWriter::new();
    bag.chunk("none", &[(0, 3_000_000_000), (1, 1_000_000_000), (0, 7_500_000_000)]);
    bag.chunk("bz2", &[(1, 2_000_000_000), (0, 7_000_000_000)]);
    bag.chunk("lz4", &[(1, 5_000_000_001), (1, 5_000_000_000)]);
    bag
}

const TIMES: [u64; 7] = [
    1_000_000_000,
    2_000_000_000,
    3_000_000_000,
    5_000_000_000,
    5_000_000_001,
    7_000_000_000,
    7_500_000_000,
];

fn open(bytes: &[u8]) -> Result<Box<dyn MessageSource>, ConvertError> {
    let directory = tempfile::tempdir().unwrap();
    open_foreign(&write_file(directory.path(), "file.bag", bytes))
}

fn times(source: &mut dyn MessageSource) -> Vec<u64> {
    names_and_times(source).into_iter().map(|(_, time)| time).collect()
}

#[test]
fn every_compression_is_read_in_order_of_time() {
    let mut source = open(&bag().close()).unwrap();
    assert_eq!(source.profile(), "ros1");
    assert_eq!(source.start_time_nanos(), Some(TIMES[0]));
    assert_eq!(source.message_count(), Some(7));
    assert_eq!(times(source.as_mut()), TIMES);
    assert_eq!(source.warnings(), &[] as &[String]);
}

#[test]
fn publishers_of_one_topic_stay_apart() {
    let mut source = open(&bag().close()).unwrap();
    let topics = source.topics();
    assert_eq!(topics.len(), 2);
    assert_eq!(topics[0].name, topics[1].name);
    assert_eq!(topics[1].metadata["callerid"], "/node1");
    assert_eq!(topics[1].schema, b"string data\n");
    let first = source.next_message().unwrap().unwrap();
    assert_eq!((first.topic, first.data), (1, TIMES[0].to_le_bytes().to_vec()));
}

#[test]
fn a_bag_that_was_not_closed_is_read_with_a_word() {
    let bytes = bag().bytes;
    let mut source = open(&bytes).unwrap();
    assert_eq!(source.message_count(), Some(7));
    assert_eq!(times(source.as_mut()), TIMES);
    assert!(source.warnings()[0].contains("no complete index"), "{:?}", source.warnings());
}

#[test]
fn a_cut_bag_gives_its_whole_chunks() {
    let bytes = bag().close();
    for length in (13..bytes.len() - 1).step_by(11) {
        let Ok(mut source) = open(&bytes[..length]) else { continue };
        let read = times(source.as_mut());
        assert!(read.iter().all(|time| TIMES.contains(time)));
        assert!(!source.warnings().is_empty(), "cut to {length} bytes without a word");
    }
    let cut = open(&bag().bytes[..bag().bytes.len() - 1]).map(|mut s| times(s.as_mut())).unwrap();
    assert_eq!(cut.len(), 5);
}

#[test]
fn older_formats_and_encrypted_bags_are_refused_with_a_cure() {
    let error = open(b"#ROSBAG V1.2\nwhatever").err().unwrap();
    assert!(matches!(error, ConvertError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("ROSBAG V1.2"), "{error}");
    let error = open(b"#ROSBAG V2.0\n").err().unwrap();
    assert!(matches!(error, ConvertError::Damaged { .. }), "{error}");
    let fields: [(&str, &[u8]); 4] = [
        ("index_pos", &[0; 8]),
        ("conn_count", &[0; 4]),
        ("chunk_count", &[0; 4]),
        ("encryptor", b"rosbag/AesCbcEncryptor"),
    ];
    let bytes = [&b"#ROSBAG V2.0\n"[..], &record(3, &fields, b"")].concat();
    let error = open(&bytes).err().unwrap();
    assert!(error.to_string().contains("encrypted"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_flipped_byte_does_no_harm(at in any::<prop::sample::Index>(), value in any::<u8>()) {
        let mut bytes = bag().close();
        let at = at.index(bytes.len());
        bytes[at] = value;
        if let Ok(mut source) = open(&bytes) {
            while let Ok(Some(message)) = source.next_message() {
                prop_assert!(message.topic < source.topics().len());
            }
        }
    }
}
