use super::*;

/// One group in rosbag2's shape; `lines` are the group's own.
fn document(lines: &[&str]) -> String {
    let mut text = format!(
        "{ROOT}:\n  ros__parameters:\n    publishers:\n      publisher_groups: [ \"10Mbs_a\" ]\n      \
         wait_for_subscriptions: True\n      10Mbs_a:\n"
    );
    for line in lines {
        text += &format!("        {line}\n");
    }
    text
}

const WHOLE: [&str; 5] = [
    "publishers_count:   2",
    "topic_root:         \"benchmarking_small\"",
    "msg_size_bytes:     100",
    "msg_count_each:     2000",
    "rate_hz:            200",
];

fn parse(lines: &[&str]) -> Result<Producers, String> {
    Producers::parse("p.yaml", "p", &document(lines)).map_err(|error| error.to_string())
}

/// `WHOLE` with the line of one key replaced, or left out.
fn with(key: &str, line: &str) -> Result<Producers, String> {
    let mut lines: Vec<_> = WHOLE.iter().copied().filter(|line| !line.starts_with(key)).collect();
    lines.push(line);
    parse(&lines)
}

#[test]
fn the_shape_that_rosbag2_ships_is_read() {
    let mut lines = WHOLE.to_vec();
    lines.extend(["qos: # a comment", "  qos_depth: 5", "  qos_reliability: \"best_effort\""]);
    let producers = parse(&lines).unwrap();
    assert!(producers.waits_for_subscriptions);
    assert_eq!((producers.threads, producers.messages()), (0, 4000));
    let group = &producers.groups[0];
    assert_eq!((group.qos_depth, group.rate_hz), (5, 200.0));
    assert_eq!(group.encoded_bytes(), 108);
    assert_eq!(group.message(1), group.message(1));
    assert_ne!(group.message(1)[8..], group.message(2)[8..]);
    let topics = producers.topics();
    assert_eq!(topics[1].topic.name, "/benchmarking_small_2");
    assert_eq!(topics[1].topic.type_name, "rosbag2_performance_benchmarking_msgs/msg/ByteArray");
    assert_eq!(topics[1].period_nanos, 5e6);
    assert_eq!(producers.seconds(), 10.0);
}

#[test]
fn types_with_a_size_of_their_own_need_none() {
    let imu = ["publishers_count: 1", "topic_root: imu", "msg_type: sensor_msgs::msg::Imu"];
    let imu = [&imu[..], &["msg_count_each: 5", "rate_hz: 0.5"]].concat();
    let group = &parse(&imu).unwrap().groups[0];
    assert_eq!(group.type_name, "sensor_msgs/msg/Imu");
    // Encapsulation; stamp, an empty string and padding; 37 numbers.
    assert_eq!(group.encoded_bytes(), 4 + 16 + 8 * 37);
    let image = with("msg_type", "msg_type: sensor_msgs/msg/Image").unwrap();
    assert!(image.groups[0].encoded_bytes() > 100);
}

#[test]
fn what_is_wrong_is_named_with_file_and_key() {
    let path = format!("{ROOT}.ros__parameters.publishers.10Mbs_a");
    let cases = [
        (with("rate_hz", ""), "the key rate_hz is missing"),
        (with("rate_hz", "rate_hz: fast"), "rate_hz: expected a number above 0, found \"fast\""),
        (with("rate_hz", "rate_hz: -1"), "found -1"),
        (with("publishers_count", "publishers_count: 0"), "at least 1, found 0"),
        (with("msg_size_bytes", "msg_size_bytes: 0"), "at least 1, found 0"),
        (with("msg_size_bytes", ""), "msg_size_bytes is missing"),
        (with("msg_type", "msg_type: acme::msg::Anvil"), "common interfaces"),
        (with("topic_root", "topic_root: \"a b\""), "letters, digits"),
        (with("rate", "rate: 5"), "the key rate is not known"),
        (with("qos", "qos: {qos_reliability: maybe}"), "reliable or best_effort"),
    ];
    for (parsed, words) in cases {
        let error = parsed.unwrap_err();
        assert!(error.contains(words), "{words}: {error}");
        let (place, what) = error.split_once(": ").unwrap();
        let line = place.strip_prefix("p.yaml:").unwrap().parse::<u64>().unwrap();
        // The group begins in line 6, and has 6 keys at most.
        assert!((6..=12).contains(&line) && what.contains(&path), "{error}");
    }
    let error = Producers::parse("p.yaml", "p", "a: [").unwrap_err().to_string();
    assert!(error.contains("p.yaml is not YAML"), "{error}");
    let error = Producers::parse("p.yaml", "p", &format!("{ROOT}: 5")).unwrap_err().to_string();
    assert!(error.contains("expected keys with values, found 5"), "{error}");
    let group = document(&WHOLE).replace("[ \"10Mbs_a\" ]", "[a, b]");
    let error = Producers::parse("p.yaml", "p", &group).unwrap_err().to_string();
    assert!(error.contains("the key a is missing"), "{error}");
}

#[test]
fn two_groups_cannot_have_one_topic() {
    let second = document(&WHOLE);
    let (_, second) = second.split_once("      10Mbs_a:\n").unwrap();
    let text = document(&WHOLE).replace("[ \"10Mbs_a\" ]", "[10Mbs_a, b]");
    let text = format!("{text}      b:\n{second}");
    let error = Producers::parse("p.yaml", "p", &text).unwrap_err().to_string();
    assert!(error.contains("/benchmarking_small_1"), "{error}");
}
