use proptest::prelude::*;

use super::*;
use crate::{cdr, golden};

#[test]
fn image_reads_as_in_cdr() {
    let (ros1, ros2) = (golden::bytes(golden::IMAGE_ROS1), golden::bytes(golden::IMAGE_LE));
    assert_eq!(parse_image(&ros1), cdr::parse_image(&ros2));
}

#[test]
fn points_read_as_in_cdr() {
    let (ros1, ros2) = (golden::bytes(golden::POINTS_ROS1), golden::bytes(golden::POINTS_LE));
    assert_eq!(parse_points(&ros1), cdr::parse_points(&ros2));
}

#[test]
fn truncated_messages_are_refused() {
    golden::refuses_every_truncation(&golden::bytes(golden::IMAGE_ROS1), |bytes| {
        parse_image(bytes).is_ok()
    });
    golden::refuses_every_truncation(&golden::bytes(golden::POINTS_ROS1), |bytes| {
        parse_points(bytes).is_ok()
    });
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1u8), any::<u8>()], 0..300),
    ) {
        let _ = parse_image(&bytes);
        let _ = parse_points(&bytes);
    }
}
