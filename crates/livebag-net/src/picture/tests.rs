use livebag_format::cdr::{ImageHeader, image_prefix};

use super::*;

fn png(topic: &Topic, message: &[u8]) -> Result<Vec<u8>, PictureError> {
    let mut out = Buffer::default();
    super::png(topic, message, &mut out).map(|()| out.into())
}

fn jpeg(topic: &Topic, message: &[u8]) -> Result<Vec<u8>, PictureError> {
    let mut out = Buffer::default();
    super::jpeg(topic, message, &mut out).map(|()| out.into())
}

fn topic() -> Topic {
    Topic {
        name: "/camera".into(),
        type_name: "sensor_msgs/msg/Image".into(),
        message_encoding: "cdr".into(),
        ..Default::default()
    }
}

fn message(encoding: &str, width: u32, height: u32, step: u32, data: &[u8]) -> Vec<u8> {
    let header = ImageHeader { height, width, encoding, step, ..Default::default() };
    let mut cdr = Vec::new();
    image_prefix(&header, data.len() as u32, &mut cdr);
    cdr.extend_from_slice(data);
    cdr
}

/// Columns, rows and samples of a PNG.
fn read_png(bytes: &[u8]) -> (u32, u32, Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    let mut samples = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut samples).unwrap();
    samples.truncate(info.buffer_size());
    (info.width, info.height, samples)
}

#[test]
fn every_value_is_kept_in_a_png() {
    // Two pixels a row, and padding behind each row.
    let rows = [1, 2, 3, 4, 5, 6, 99, 7, 8, 9, 10, 11, 12, 99];
    let rgb = png(&topic(), &message("rgb8", 2, 2, 7, &rows)).unwrap();
    assert_eq!(read_png(&rgb), (2, 2, vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]));
    let bgr = png(&topic(), &message("bgr8", 2, 2, 7, &rows)).unwrap();
    assert_eq!(read_png(&bgr).2, [3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10]);
    let depth = png(&topic(), &message("16UC1", 2, 1, 4, &[0x34, 0x12, 0x78, 0x56])).unwrap();
    assert_eq!(read_png(&depth), (2, 1, vec![0x12, 0x34, 0x56, 0x78]));
    let floats: Vec<u8> =
        [1.0f32, 3.0, f32::NAN].iter().flat_map(|value| value.to_le_bytes()).collect();
    let stretched = read_png(&png(&topic(), &message("32FC1", 3, 1, 12, &floats)).unwrap()).2;
    assert_eq!(stretched, [0, 1, 255, 255, 0, 0]);
}

#[test]
fn a_jpeg_begins_and_ends_as_one() {
    for encoding in ["rgb8", "bgra8", "mono8", "mono16"] {
        let bytes = [100; 64];
        let jpeg = jpeg(&topic(), &message(encoding, 4, 4, 16, &bytes)).unwrap();
        assert!(jpeg.starts_with(&[0xff, 0xd8]) && jpeg.ends_with(&[0xff, 0xd9]), "{encoding}");
    }
}

#[test]
fn sizes_that_lie_are_refused() {
    for (width, height, step, bytes) in [
        (4, 4, 12, 47),
        (4, 4, 11, 48),
        (0, 4, 12, 48),
        (u32::MAX, u32::MAX, u32::MAX, 48),
        (1 << 30, 1, 12, 48),
    ] {
        let lying = message("rgb8", width, height, step, &vec![0; bytes]);
        assert!(matches!(png(&topic(), &lying), Err(PictureError::Size { .. })));
        assert!(jpeg(&topic(), &lying).is_err());
    }
    let unknown = message("yuv9000", 1, 1, 1, &[0]);
    assert!(matches!(png(&topic(), &unknown), Err(PictureError::Encoding(_))));
    assert!(matches!(png(&topic(), &[0, 1, 0]), Err(PictureError::Decode(_))));
    let other = Topic { type_name: "std_msgs/msg/String".into(), ..topic() };
    assert!(matches!(png(&other, &[]), Err(PictureError::NotAnImage { .. })));
}

#[test]
fn a_smaller_picture_has_at_most_so_many_columns() {
    let small = |message: &[u8], width_max: usize| {
        let mut out = Buffer::default();
        png_within(&topic(), message, Some(width_max), &mut out).unwrap();
        read_png(&out)
    };
    // Columns of 0, 10, 20, … in both rows, and a gap behind each.
    let row: Vec<u8> = (0..8).map(|column| column * 10).chain([99]).collect();
    let gray = message("mono8", 8, 2, 9, &row.repeat(2));
    assert_eq!(small(&gray, 8), (8, 2, row[..8].repeat(2)));
    assert_eq!(small(&gray, 100), (8, 2, row[..8].repeat(2)));
    assert_eq!(small(&gray, 4), (4, 1, vec![5, 25, 45, 65]));
    assert_eq!(small(&gray, 5).0, 4, "whole columns are put together");
    assert_eq!(small(&gray, 1), (1, 1, vec![35]), "two of eight columns stand for all");
    let bgr = message("bgr8", 2, 2, 6, &[10, 20, 30, 20, 30, 40].repeat(2));
    assert_eq!(small(&bgr, 1), (1, 1, vec![35, 25, 15]));
    // A distance is one that was measured.
    let depth = message("16UC1", 2, 1, 4, &[0x34, 0x12, 0, 0]);
    assert_eq!(small(&depth, 1), (1, 1, vec![0x12, 0x34]));
}
