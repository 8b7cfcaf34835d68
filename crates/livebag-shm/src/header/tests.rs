use proptest::prelude::*;

use super::*;
use crate::layout::{default_slot_count, slot_header_bytes_min};
use crate::limits::{PAYLOAD_BYTES_MAX, SLOTS_MAX, SLOTS_MIN};

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Bytes), Just(Kind::Image), Just(Kind::Points)]
}

prop_compose! {
    fn headers()(
        kind in kinds(),
        slots in SLOTS_MIN..=SLOTS_MAX,
        payload_bytes_max in prop_oneof![1..=100_000usize, 1..=PAYLOAD_BYTES_MAX],
        schema in proptest::collection::vec(any::<u8>(), 0..300),
        flags in any::<[bool; 2]>(),
        instance in any::<u64>(),
        texts in proptest::array::uniform4("[a-zA-Z/ö]{0,25}"),
    ) -> StaticHeader {
        let [topic, type_name, message_encoding, schema_encoding] = texts;
        StaticHeader {
            kind,
            checksum: flags[0],
            always_wake: flags[1],
            geometry: Geometry::plan(kind, slots, payload_bytes_max, schema.len()),
            created_realtime_nanos: instance / 2,
            instance,
            topic,
            type_name,
            message_encoding,
            schema_encoding,
            schema,
        }
    }
}

/// The page as a reader finds it.
fn page(header: &StaticHeader) -> [u8; PAGE_BYTES] {
    let mut page = header.encode();
    put_u64(&mut page, at::MAGIC, MAGIC_MAIN);
    page
}

fn decode(page: &[u8; PAGE_BYTES], bytes: u64, schema: &[u8]) -> Result<StaticHeader, HeaderError> {
    StaticHeader::decode(page, bytes, |count| {
        let mut found = schema.to_vec();
        found.resize(count, 0);
        found
    })
}

fn assert_inside(geometry: &Geometry, kind: Kind, object_bytes: u64) {
    let mut last_payload_end = 0;
    for sequence in 0..u64::from(geometry.slot_count) {
        let place = geometry.slot(sequence);
        let header_end = place.header + slot_header_bytes_min(kind);
        assert!(place.header >= SCHEMA_OFFSET + geometry.schema_bytes);
        assert!(header_end <= geometry.payloads_offset && place.header.is_multiple_of(64));
        assert!(place.payload >= last_payload_end && place.payload.is_multiple_of(PAGE_BYTES));
        last_payload_end = place.payload + geometry.payload_bytes_max;
    }
    assert!(last_payload_end as u64 <= object_bytes);
}

proptest! {
    #[test]
    fn a_planned_header_survives_the_round_trip(header in headers()) {
        let bytes = header.geometry.total_bytes as u64;
        let found = decode(&page(&header), bytes, &header.schema).unwrap();
        prop_assert_eq!(&found, &header);
        prop_assert!(header.is_continued_by(&found));
        assert_inside(&found.geometry, found.kind, bytes);
        // One byte less, and it is refused.
        prop_assert!(decode(&page(&header), bytes - 1, &header.schema).is_err());
    }

    /// For any field values, even with a correct checksum: an accepted header lies inside the object.
    #[test]
    fn no_header_leads_outside_of_the_object(
        header in headers(),
        wild in proptest::collection::vec((0x010usize..0x058, any::<u8>()), 0..6),
        words in proptest::collection::vec((2usize..11, any::<u64>()), 0..2),
        object_bytes in prop_oneof![Just(None), (0u64..1 << 33).prop_map(Some)],
    ) {
        let mut page = page(&header);
        for (at, byte) in wild {
            page[at] = byte;
        }
        for (word, value) in words {
            put_u64(&mut page, word * 8, value >> (value % 64));
        }
        let schema_bytes = get_u32(&page, at::SCHEMA_BYTES) as usize;
        let mut schema = header.schema.clone();
        schema.resize(schema_bytes.min(SCHEMA_BYTES_MAX), 0);
        let crc = static_crc(&page, &schema);
        put_u32(&mut page, at::STATIC_CRC32C, crc);
        let object_bytes = object_bytes.unwrap_or(header.geometry.total_bytes as u64);
        if let Ok(found) = decode(&page, object_bytes, &schema) {
            assert_inside(&found.geometry, found.kind, object_bytes);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), PAGE_BYTES), size: u64) {
        let mut page = [0; PAGE_BYTES];
        page.copy_from_slice(&bytes);
        prop_assert!(decode(&page, size, &[]).is_err());
        put_u64(&mut page, at::MAGIC, MAGIC_MAIN);
        put_u32(&mut page, at::LAYOUT_VERSION, LAYOUT_VERSION);
        prop_assert!(decode(&page, size, &[]).is_err());
    }
}

#[test]
fn small_frames_get_more_slots() {
    let counts = [1, 4096, 4097, 25_920, 64 << 10, 1 << 20].map(default_slot_count);
    assert_eq!(counts, [64, 64, 32, 9, 4, 4]);
}
