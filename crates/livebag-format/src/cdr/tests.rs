use proptest::prelude::*;

use super::*;
use crate::golden;

fn image_header() -> ImageHeader<'static> {
    ImageHeader {
        stamp_nanos: 1_700_000_000_123_456_789,
        frame_id: "cam0",
        height: 2,
        width: 3,
        encoding: "rgb8",
        is_bigendian: false,
        step: 9,
    }
}

const FIELDS: [PointField<'static>; 2] = [
    PointField { name: "x", offset: 0, datatype: 7, count: 1 },
    PointField { name: "intensity", offset: 4, datatype: 2, count: 1 },
];

fn points_header() -> PointsHeader<'static> {
    PointsHeader {
        stamp_nanos: 1_000_000_002,
        frame_id: "lidar",
        height: 1,
        width: 2,
        fields: &FIELDS,
        is_bigendian: false,
        point_step: 5,
        row_step: 10,
    }
}

fn image(header: &ImageHeader<'_>, pixels: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    image_prefix(header, pixels.len() as u32, &mut message);
    message.extend_from_slice(pixels);
    message
}

fn points(header: &PointsHeader<'_>, points: &[u8], is_dense: bool) -> Vec<u8> {
    let mut message = Vec::new();
    points_prefix(header, points.len() as u32, &mut message);
    message.extend_from_slice(points);
    message.extend_from_slice(&points_suffix(is_dense));
    message
}

#[test]
fn image_is_written_as_other_writers_do() {
    let pixels: Vec<u8> = (0..18).collect();
    assert_eq!(image(&image_header(), &pixels), golden::bytes(golden::IMAGE_LE));
}

#[test]
fn points_are_written_as_other_writers_do() {
    let data: Vec<u8> = (0..10).collect();
    assert_eq!(points(&points_header(), &data, true), golden::bytes(golden::POINTS_LE));
}

#[test]
fn prefix_is_appended_wherever_the_buffer_ends() {
    let mut out = vec![1, 2, 3];
    image_prefix(&image_header(), 18, &mut out);
    assert_eq!(out[3..], golden::bytes(golden::IMAGE_LE)[..out.len() - 3]);
}

#[test]
fn either_byte_order_is_read() {
    for hex in [golden::IMAGE_LE, golden::IMAGE_BE] {
        let message = golden::bytes(hex);
        let view = parse_image(&message).unwrap();
        assert_eq!(view.header, image_header());
        assert_eq!(view.data, (0..18).collect::<Vec<u8>>());
    }
    for hex in [golden::POINTS_LE, golden::POINTS_BE] {
        let message = golden::bytes(hex);
        let view = parse_points(&message).unwrap();
        assert_eq!(view.header(), points_header());
        assert_eq!((view.data, view.is_dense), (&(0..10).collect::<Vec<u8>>()[..], true));
    }
}

#[test]
fn truncated_messages_are_refused() {
    golden::refuses_every_truncation(&golden::bytes(golden::IMAGE_LE), |bytes| {
        parse_image(bytes).is_ok()
    });
    golden::refuses_every_truncation(&golden::bytes(golden::POINTS_BE), |bytes| {
        parse_points(bytes).is_ok()
    });
}

#[test]
fn foreign_encapsulation_is_named() {
    let error = parse_image(&[0, 3, 0, 0, 1, 2, 3, 4]).unwrap_err();
    assert_eq!(error, DecodeError::Encapsulation { found: 3 });
    assert!(error.to_string().contains("0x0003"), "{error}");
}

#[test]
fn a_field_count_from_outside_allocates_nothing() {
    let mut message = Vec::new();
    points_prefix(&PointsHeader::default(), 0, &mut message);
    let count_at = 4 + 8 + 4 + 4 + 8;
    message[count_at..count_at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(parse_points(&message).is_err());
}

#[test]
fn stamps_past_2038_are_held_at_the_last_instant() {
    let header = ImageHeader { stamp_nanos: u64::MAX, ..image_header() };
    let message = image(&header, &[]);
    let stamp_nanos = parse_image(&message).unwrap().header.stamp_nanos;
    assert_eq!(stamp_nanos, 2_147_483_647_999_999_999);
}

proptest! {
    #[test]
    fn images_come_back(
        seconds in 0..i32::MAX as u64, nanoseconds in 0..1_000_000_000u64,
        frame_id in "[a-zé0-9/_]{0,20}", encoding in "[a-z0-9]{0,12}",
        (height, width, step, is_bigendian) in any::<(u32, u32, u32, bool)>(),
        pixels in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let header = ImageHeader {
            stamp_nanos: seconds * 1_000_000_000 + nanoseconds,
            frame_id: &frame_id, height, width, encoding: &encoding, is_bigendian, step,
        };
        let message = image(&header, &pixels);
        prop_assert_eq!(parse_image(&message).unwrap(), ImageView { header, data: &pixels });
    }

    #[test]
    fn points_come_back(
        frame_id in "[a-z]{0,9}",
        names in prop::collection::vec("[a-z]{0,9}", 0..6),
        (height, width, point_step, row_step) in any::<(u32, u32, u32, u32)>(),
        (is_bigendian, is_dense) in any::<(bool, bool)>(),
        data in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let fields: Vec<_> = names.iter().zip(0..).map(|(name, number)| PointField {
            name, offset: number * 4, datatype: 7, count: 1,
        }).collect();
        let header = PointsHeader {
            stamp_nanos: 5, frame_id: &frame_id, height, width, fields: &fields,
            is_bigendian, point_step, row_step,
        };
        let message = points(&header, &data, is_dense);
        let view = parse_points(&message).unwrap();
        prop_assert_eq!(view.header(), header);
        prop_assert_eq!((view.data, view.is_dense), (&data[..], is_dense));
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        head in prop::sample::select(vec![[0u8, 0, 0, 0], [0, 1, 0, 0]]),
        bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1u8), any::<u8>()], 0..300),
    ) {
        let message = [&head[..], &bytes].concat();
        let _ = parse_image(&message);
        let _ = parse_points(&message);
    }
}
