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
fn what_was_compressed_comes_out_again() {
    let records: Vec<u8> = (0..100_000u32).flat_map(|k| (k / 7).to_le_bytes()).collect();
    for (compression, level) in
        [(Compression::Lz4, 0), (Compression::Zstd, -5), (Compression::Zstd, 3)]
    {
        let mut stored = Vec::new();
        let mut compressor = Compressor::new(compression, level).expect("tables");
        for _ in 0..2 {
            stored.clear();
            compressor.compress(&records, &mut stored).expect("compressed");
        }
        assert!(stored.len() < records.len() / 2, "{compression:?}");
        let sizes = (records.len() as u64, stored.len() as u64);
        let mut chunk = Vec::new();
        put_compressed_chunk_header(&mut chunk, (1, 2), sizes, 77, compression);
        let head_bytes = chunk.len();
        assert!(head_bytes <= CHUNK_HEADER_BYTES_MAX);
        chunk.extend_from_slice(&stored);
        let header = ChunkHeader::parse(&chunk[..CHUNK_HEADER_BYTES_MAX]).expect("a chunk");
        assert_eq!((header.header_bytes(), header.crc), (head_bytes, 77));
        assert_eq!(header.records(&chunk).expect("whole"), &records[..]);
        // Cut, altered and lying chunks are refused, and do not take what memory they promise.
        assert!(header.records(&chunk[..chunk.len() - 1]).is_err());
        let lying = ChunkHeader { records_bytes: u64::MAX, ..header };
        assert!(lying.records(&chunk).is_err());
        let short = ChunkHeader { records_bytes: header.records_bytes - 1, ..header };
        assert!(short.records(&chunk).is_err());
        for at in (0..stored.len()).step_by(97) {
            let mut altered = chunk.clone();
            altered[head_bytes + at] ^= 0x55;
            // Some alterations show in the checksum only.
            let _ = header.records(&altered);
        }
    }
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
            stored: None,
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
