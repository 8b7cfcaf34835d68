use std::io::Write;

use proptest::prelude::*;

use super::*;

fn field(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = ((name.len() + 1 + value.len()) as u32).to_le_bytes().to_vec();
    out.extend_from_slice(name.as_bytes());
    out.push(b'=');
    out.extend_from_slice(value);
    out
}

fn record(fields: &[Vec<u8>], data: &[u8]) -> Vec<u8> {
    let header = fields.concat();
    let mut out = (header.len() as u32).to_le_bytes().to_vec();
    out.extend_from_slice(&header);
    out.extend_from_slice(&(data.len() as u32).to_le_bytes());
    out.extend_from_slice(data);
    out
}

fn message(time: (u32, u32), data: &[u8]) -> Vec<u8> {
    let time = [time.0.to_le_bytes(), time.1.to_le_bytes()].concat();
    let fields = [field("op", &[2]), field("conn", &3u32.to_le_bytes()), field("time", &time)];
    record(&fields, data)
}

fn head(bytes: &[u8]) -> RecordHead {
    match record_head(bytes).unwrap() {
        HeadRead::Head(head) => head,
        HeadRead::NeedBytes(count) => panic!("{count} bytes wanted"),
    }
}

#[test]
fn a_message_has_its_connection_and_time() {
    let bytes = message((5, 7), b"abc");
    let head = head(&bytes);
    assert_eq!(head.record, Record::Message { connection: 3, time_nanos: 5_000_000_007 });
    assert_eq!(&bytes[head.data_offset..], b"abc");
    assert_eq!(head.data_bytes, 3);
}

#[test]
fn a_cut_header_asks_for_more() {
    let bytes = message((5, 7), b"abc");
    let data_offset = head(&bytes).data_offset;
    assert_eq!(record_head(&bytes[..3]), Ok(HeadRead::NeedBytes(4)));
    assert_eq!(record_head(&bytes[..9]), Ok(HeadRead::NeedBytes(data_offset)));
}

#[test]
fn records_of_a_chunk_come_in_order_and_a_cut_one_is_an_error() {
    let chunk = [message((1, 0), b"one"), message((2, 0), b"")].concat();
    let read: Vec<_> = chunk_records(&chunk).map(|record| record.unwrap().1).collect();
    assert_eq!(read, [&b"one"[..], b""]);
    let cut: Vec<_> = chunk_records(&chunk[..chunk.len() - 1]).collect();
    assert_eq!(cut.len(), 2);
    assert!(cut[1].is_err());
}

#[test]
fn every_compression_gives_the_same_bytes() {
    let plain = b"sensor sensor sensor sensor".repeat(1000);
    let mut bz2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bz2.write_all(&plain).unwrap();
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(&plain).unwrap();
    let compressed =
        [("none", plain.clone()), ("bz2", bz2.finish().unwrap()), ("lz4", lz4.finish().unwrap())];
    let known = |name: &str| name != "bz2" || cfg!(feature = "bzip2");
    for (name, data) in compressed.into_iter().filter(|(name, _)| known(name)) {
        let size = plain.len() as u32;
        assert_eq!(decompress(name, &data, size).unwrap(), plain, "{name}");
        if name != "none" {
            assert!(decompress(name, &data, size - 1).is_err(), "{name} longer than stated");
            assert!(decompress(name, &data, size + 1).is_err(), "{name} shorter than stated");
            assert!(decompress(name, &data[..data.len() / 2], size).is_err(), "{name} cut");
        }
    }
    let error = decompress("zip", &[], 0).unwrap_err();
    assert!(error.to_string().contains("\"zip\""), "{error}");
}

#[test]
fn a_connection_becomes_a_topic_with_all_it_says() {
    let data = [
        field("topic", b"/raw"),
        field("type", b"sensor_msgs/Image"),
        field("md5sum", b"060021388200f6f0f447d0fcd9c64743"),
        field("message_definition", b"uint32 height=5\n"),
        field("callerid", b"/camera"),
        field("latching", b"1"),
    ]
    .concat();
    let topic = connection_topic("/image", &data).unwrap();
    assert_eq!((&*topic.name, &*topic.type_name), ("/image", "sensor_msgs/Image"));
    assert_eq!(topic.schema, b"uint32 height=5\n");
    assert_eq!((&*topic.message_encoding, &*topic.schema_encoding), ("ros1", "ros1msg"));
    let keys: Vec<_> = topic.metadata.keys().collect();
    assert_eq!(keys, ["callerid", "latching", "md5sum", "topic"]);
    assert!(!connection_topic("/raw", &data).unwrap().metadata.contains_key("topic"));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(4u8), any::<u8>()], 0..400),
    ) {
        let _ = record_head(&bytes);
        let _ = chunk_records(&bytes).count();
        let _ = connection_topic("/t", &bytes);
        let _ = decompress("bz2", &bytes, 100);
        let _ = decompress("lz4", &bytes, 100);
    }

    #[test]
    fn a_flipped_byte_does_no_harm(at in 0..200usize, value in any::<u8>()) {
        let mut chunk = [message((1, 0), b"one"), message((2, 0), b"two")].concat();
        let length = chunk.len();
        chunk[at % length] = value;
        let _ = chunk_records(&chunk).count();
    }
}
