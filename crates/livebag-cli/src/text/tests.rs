use super::*;

#[test]
fn bytes_have_three_digits() {
    assert_eq!(bytes(0.0), "0 B");
    assert_eq!(bytes(999.0), "999 B");
    assert_eq!(bytes(999.6), "1.00 kB");
    assert_eq!(bytes(6_220_800.0), "6.22 MB");
    assert_eq!(bytes(99_960_000.0), "100 MB");
    assert_eq!(bytes(1.4929e9), "1.49 GB");
}

#[test]
fn counts_are_grouped() {
    assert_eq!(count(0), "0");
    assert_eq!(count(999), "999");
    assert_eq!(count(1000), "1,000");
    assert_eq!(count(12_345_678), "12,345,678");
    assert_eq!([0, 1, 2000].map(messages), ["0 messages", "1 message", "2,000 messages"]);
}

#[test]
fn durations_have_the_fitting_unit() {
    assert_eq!(duration(1_500), "2 µs");
    assert_eq!(duration(3_200_000), "3.2 ms");
    assert_eq!(duration(12_000_000_000), "12.0 s");
    assert_eq!(duration(245_000_000_000), "4 min 05 s");
    assert_eq!(duration(7_800_000_000_000), "2 h 10 min");
}

#[test]
fn a_printed_time_is_read_back() {
    let nanos = 1_700_000_000_123_456_789;
    let time: Timestamp = time(nanos).parse().unwrap();
    assert_eq!(time.as_nanosecond(), i128::from(nanos));
}

#[test]
fn tables_are_aligned() {
    let rows: [Vec<String>; 2] = [vec!["a".into(), "10".into()], vec!["bcd".into(), "7".into()]];
    assert_eq!(table(&["x", ">n"], &rows), "x     n\na    10\nbcd   7\n");
}

#[test]
fn on_a_narrow_terminal_columns_are_left_out_and_names_shortened_in_their_middle() {
    let row = |name: &str| {
        vec![name.to_owned(), "sensor_msgs/msg/Image".into(), "10".into(), "1.00 GB".into()]
    };
    let rows = [row("/robot/arm/camera_front/color/image_raw"), row("/imu")];
    let head = ["topic", "type?1", ">messages", ">size?2"];
    for width in [38, 45, 50, 60, 70, 80, 200] {
        let table = table::table_in(&head, &rows, Some(width));
        for line in table.lines().filter(|line| !line.starts_with("not shown")) {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
        assert!(table.contains("10"), "{width}: {table}");
    }
    let narrow = table::table_in(&head, &rows, Some(50));
    assert_eq!(
        narrow,
        "topic                            messages     size\n\
         /robot/arm/came…color/image_raw        10  1.00 GB\n\
         /imu                                   10  1.00 GB\n\
         not shown here: type\n"
    );
    // In full if it is not on a terminal.
    assert!(
        table::table_in(&head, &rows, None).contains("/robot/arm/camera_front/color/image_raw")
    );
}

/// A foreign name may have a line feed: what follows it does not look like a message of its own.
#[test]
fn no_name_forges_a_line() {
    let said = spoken("livebag: no topic /a\nlivebag: all is well\x1b[2J");
    assert_eq!(said, "livebag: no topic /a\n  livebag: all is well\\u{1b}[2J");
}
