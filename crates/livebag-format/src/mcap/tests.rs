use super::*;

#[test]
fn record_sizes_are_what_the_constants_say() {
    let mut out = Vec::new();
    put_message_index(&mut out, 1, [(5, 0), (6, 40)].into_iter());
    assert_eq!(out.len(), MESSAGE_INDEX_HEADER_BYTES + 2 * MESSAGE_INDEX_ENTRY_BYTES);
    let head = chunk_header(1, 2, 100, 0);
    let parsed = ChunkHeader::parse(&head).expect("a chunk");
    assert_eq!((parsed.start_nanos, parsed.end_nanos, parsed.records_bytes), (1, 2, 100));
    let head = message_header(3, 4, 5, 6, 7);
    let parsed = MessageHeader::parse(&head).expect("a message");
    assert_eq!(parsed.data_bytes, 7);
    assert_eq!((parsed.channel_id, parsed.sequence), (3, 4));
}

#[test]
fn padding_is_never_shorter_than_a_record_header() {
    for position in 0..3 * 4096u64 {
        let bytes = padding_bytes(position, 4096);
        assert_eq!((position + bytes) % 4096, 0);
        assert!(bytes == 0 || bytes >= RECORD_HEADER_BYTES as u64);
        let mut out = Vec::new();
        put_padding_to(&mut out, position, 4096);
        assert_eq!(out.len() as u64, bytes);
    }
}

/// A file built record by record is read by the `mcap` crate, message for message.
#[test]
fn the_mcap_crate_reads_a_hand_built_file() {
    let topic = Topic {
        name: "/t".into(),
        type_name: "std_msgs/msg/String".into(),
        message_encoding: "cdr".into(),
        schema_encoding: "ros2msg".into(),
        schema: b"string data".to_vec(),
        ..Topic::default()
    };
    let mut file = Vec::new();
    put_file_start(&mut file, "ros2", "livebag test");
    put_schema(&mut file, 1, &topic);
    put_channel(&mut file, 1, 1, &topic);
    let at = file.len() as u64;
    put_padding_to(&mut file, at, 512);
    let mut chunks = Vec::new();
    for k in 0..3u64 {
        let data = vec![k as u8; 10 + k as usize];
        let records_bytes = (MESSAGE_HEADER_BYTES + data.len()) as u64;
        let offset = file.len() as u64;
        file.extend_from_slice(&chunk_header(k, k, records_bytes, 0));
        file.extend_from_slice(&message_header(1, k, k, k + 1, data.len() as u64));
        file.extend_from_slice(&data);
        put_message_index(&mut file, 1, [(k, 0)].into_iter());
        let at = file.len() as u64;
        put_padding_to(&mut file, at, 512);
        chunks.push(ChunkExtent {
            offset,
            records_bytes,
            start_nanos: k,
            end_nanos: k,
            counts: vec![(1, 1)],
        });
    }
    let mut summary = SummaryBuilder::new(file.len() as u64, [(1u16, &topic)].into_iter());
    for chunk in &chunks {
        summary.chunk(chunk);
        let (at, bytes) = summary.take();
        assert_eq!(at, file.len() as u64);
        file.extend_from_slice(&bytes);
    }
    let (at, bytes) = summary.finish(&[]);
    assert_eq!(at, file.len() as u64);
    file.extend_from_slice(&bytes);

    let read: Vec<_> =
        ::mcap::MessageStream::new(&file).unwrap().map(|message| message.unwrap()).collect();
    assert_eq!(read.len(), 3);
    let summary = ::mcap::Summary::read(&file).unwrap().expect("a summary");
    assert_eq!(summary.chunk_indexes.len(), 3);
    assert_eq!(summary.stats.as_ref().unwrap().message_count, 3);
    for (k, chunk) in summary.chunk_indexes.iter().enumerate() {
        let indexes = summary.read_message_indexes(&file, chunk).unwrap();
        assert_eq!(indexes.values().map(Vec::len).sum::<usize>(), 1);
        let messages: Vec<_> =
            summary.stream_chunk(&file, chunk).unwrap().map(|m| m.unwrap()).collect();
        assert_eq!(messages[0].data.as_ref(), &vec![k as u8; 10 + k][..]);
    }
}
