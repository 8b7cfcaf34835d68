//! Which messages are played, from when, in which order, under which names.

use std::collections::BTreeMap;

use livebag_format::rosbag2::{Policy, QosProfile};
use proptest::prelude::*;

use super::*;

fn play(folder: &tempfile::TempDir, options: PlayOptions) -> Vec<(u64, u8)> {
    let (mut player, kept) = keeping(folder, options);
    player.run(&mut |_| {}).unwrap();
    kept.bytes()
}

fn names(folder: &tempfile::TempDir, options: PlayOptions) -> Vec<String> {
    let (player, _) = keeping(folder, options);
    player.topics().iter().map(|played| played.name().to_owned()).collect()
}

#[test]
fn a_part_of_the_recording_is_played() {
    let folder = counted(&[SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND, 5 * SECOND]);
    let half = Duration::from_millis(500);
    let from = PlayOptions { start_offset: half, ..simulated() };
    let (player, _) = keeping(&folder, from.clone());
    assert_eq!((player.message_count(), player.length()), (4, 7 * half));
    assert_eq!(
        play(&folder, from.clone()),
        [(SECOND / 2, 1), (3 * SECOND / 2, 2), (5 * SECOND / 2, 3), (7 * SECOND / 2, 4)]
    );
    let both = PlayOptions { duration: Some(3 * half), ..from.clone() };
    assert_eq!(play(&folder, both.clone()), [(SECOND / 2, 1), (3 * SECOND / 2, 2)]);
    let until = PlayOptions { until_nanos: Some(2 * SECOND), ..from };
    assert_eq!(play(&folder, until), [(SECOND / 2, 1)]);
    let later = PlayOptions { until_nanos: Some(4 * SECOND), ..both };
    assert_eq!(play(&folder, later).len(), 3, "the later end counts");
    let at = |from, until_nanos| PlayOptions { from_nanos: Some(from), until_nanos, ..simulated() };
    assert_eq!(play(&folder, at(3 * SECOND, Some(4 * SECOND))), [(0, 2), (SECOND, 3)]);
    assert_eq!(play(&folder, at(3 * SECOND + 1, None)), [(SECOND - 1, 3), (2 * SECOND - 1, 4)]);
    assert_eq!(play(&folder, at(0, None)).len(), 5, "before the first message");
    assert_eq!(play(&folder, at(6 * SECOND, None)), []);
    let none = PlayOptions { start_offset: Duration::from_secs(100), ..simulated() };
    assert_eq!(play(&folder, none), []);
}

#[test]
fn every_round_begins_where_the_first_does_and_waits() {
    let folder = counted(&[SECOND, 2 * SECOND, 3 * SECOND]);
    let options = PlayOptions {
        start_offset: Duration::from_millis(750),
        delay: Duration::from_secs(10),
        repeat: true,
        ..simulated()
    };
    let (mut player, kept) = keeping(&folder, options);
    let control = player.control();
    player
        .run(&mut |status| {
            if status.messages == 4 {
                control.stop();
            }
        })
        .unwrap();
    let quarter = SECOND / 4;
    let begin = 10 * SECOND;
    // The last message, a period of one second, and the delay.
    let again = begin + 5 * quarter + SECOND + 10 * SECOND;
    assert_eq!(
        kept.bytes(),
        [
            (begin + quarter, 1),
            (begin + 5 * quarter, 2),
            (again + quarter, 1),
            (again + 5 * quarter, 2)
        ]
    );
}

#[test]
fn topics_are_chosen_by_names_and_patterns() {
    let all = ["/camera/depth", "/camera/left", "/imu", "/scan"];
    let topics = all.map(|name| topic(name, "std_msgs/msg/String"));
    let messages: Vec<_> = topics.iter().zip(1..).map(|(t, time)| (t, time, &b"x"[..])).collect();
    let folder = record(&messages);
    let some = |text: &str| Some(text.to_owned());
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&folder, simulated()), all);
    let camera = PlayOptions { regex: some("camera"), ..simulated() };
    assert_eq!(names(&folder, camera.clone()), all[..2]);
    let both = PlayOptions { topics: list(&["scan"]), ..camera };
    assert_eq!(names(&folder, both.clone()), ["/camera/depth", "/camera/left", "/scan"]);
    let without = PlayOptions { exclude_regex: some("depth$"), ..both };
    assert_eq!(names(&folder, without.clone()), ["/camera/left", "/scan"]);
    let without = PlayOptions { exclude_topics: list(&["/scan", "/none"]), ..without };
    let (player, _) = keeping(&folder, without);
    assert_eq!(player.topics().len(), 1);
    let warnings: Vec<_> = player.warnings().collect();
    assert_eq!(warnings, ["--exclude-topics: the recording has no topic /none"]);

    let refuse = |options| {
        let mut kept = Kept::new(&options);
        let path = folder.path().join("bag");
        Player::open(&[path], options, &mut kept).err().unwrap().to_string()
    };
    let error = refuse(PlayOptions { regex: some("("), ..simulated() });
    assert!(error.contains("not a regular expression"), "{error}");
    let error = refuse(PlayOptions { exclude_regex: some("."), ..simulated() });
    assert!(error.contains("no topic is left") && error.contains("/imu"), "{error}");
    let ticks = Some(ClockTicks::Rate(0.0));
    let error = refuse(PlayOptions { clock_ticks: ticks, ..simulated() });
    assert!(error.contains("the rate of /clock is 0 Hz"), "{error}");
}

#[test]
fn topics_go_out_under_other_names_with_other_qos() {
    let (a, b) = (topic("/a", "std_msgs/msg/String"), topic("/b", "std_msgs/msg/String"));
    let folder = record(&[(&a, 10, b"1"), (&b, 20, b"2"), (&a, 30, b"longer")]);
    let rename = |old: &str, new: &str| (old.to_owned(), new.to_owned());
    let profile =
        QosProfile { reliability: Policy::Name("best_effort".to_owned()), ..QosProfile::default() };
    let options = PlayOptions {
        remap: vec![rename("/a", "/old/a"), rename("b", "/old/a"), rename("/x", "/y")],
        qos_overrides: BTreeMap::from([("/a".to_owned(), profile)]),
        ..simulated()
    };
    let (mut player, kept) = keeping(&folder, options);
    let opened = kept.opened.lock().unwrap().clone();
    assert_eq!(opened.len(), 1, "one name, one way out");
    assert_eq!((opened[0].0.name.as_str(), opened[0].1), ("/old/a", 6));
    let qos = &opened[0].0.metadata["offered_qos_profiles"];
    assert!(qos.contains("best_effort"), "{qos}");
    player.run(&mut |_| {}).unwrap();
    let played: Vec<_> = kept.take().into_iter().map(|p| (p.topic, p.data[0])).collect();
    assert_eq!(played, [b'1', b'2', b'l'].map(|byte| ("/old/a".to_owned(), byte)));
    let warnings: Vec<_> = player.warnings().collect();
    assert_eq!(warnings, ["--remap: the recording has no topic /x"]);
}

/// Reads a `rosgraph_msgs/msg/Clock`.
fn clock_nanos(data: &[u8]) -> u64 {
    let number = |at| u64::from(u32::from_le_bytes(data[at..at + 4].try_into().unwrap()));
    assert_eq!(data[..4], [0, 1, 0, 0]);
    number(4) * SECOND + number(8)
}

#[test]
fn the_clock_ticks_also_while_paused() {
    let folder = counted(&[SECOND, 3 * SECOND]);
    let options =
        PlayOptions { clock_ticks: Some(ClockTicks::Rate(10.0)), rate: 2.0, ..simulated() };
    let (mut player, kept) = keeping(&folder, options);
    let clock_topic = player.clock_topic().unwrap();
    assert_eq!(clock_topic.topic().type_name, "rosgraph_msgs/msg/Clock");
    assert!(!clock_topic.topic().schema.is_empty());
    assert!(clock_topic.topic().metadata["topic_type_hash"].starts_with("RIHS01_"));
    assert!(clock_topic.topic().metadata["offered_qos_profiles"].contains("best_effort"));
    let (control, clock) = (player.control(), player.options.clock.clone());
    let (mut is_paused, mut is_resumed) = (false, false);
    let status = player
        .run(&mut |_| {
            let now_nanos = clock.monotonic_nanos() - kept.start_nanos;
            if !is_paused && now_nanos >= SECOND / 2 {
                is_paused = true;
                control.pause();
            } else if !is_resumed && now_nanos >= SECOND {
                is_resumed = true;
                control.resume();
            }
        })
        .unwrap();
    let played = kept.take();
    let ticks: Vec<_> = played
        .iter()
        .filter(|played| played.topic == "/clock")
        .map(|played| (played.at_nanos, clock_nanos(&played.data)))
        .collect();
    assert_eq!(status.clock_messages, ticks.len() as u64);
    assert_eq!(
        ticks[..3],
        [(0, SECOND), (SECOND / 10, SECOND + SECOND / 5), (SECOND / 5, SECOND + 2 * SECOND / 5)]
    );
    assert!(ticks.windows(2).all(|two| two[1].0 - two[0].0 == SECOND / 10), "{ticks:?}");
    assert!(ticks.windows(2).all(|two| two[1].1 >= two[0].1), "{ticks:?}");
    let still = ticks.windows(2).filter(|two| two[0].1 == two[1].1).count();
    assert!((3..=5).contains(&still), "half a second of standing still: {ticks:?}");
    assert_eq!(played.len() as u64, status.messages + status.clock_messages);
}

#[test]
fn the_clock_announces_messages() {
    let (a, b) = (topic("/a", "std_msgs/msg/String"), topic("/b", "std_msgs/msg/String"));
    let own = topic("/clock", "rosgraph_msgs/msg/Clock");
    let folder = record(&[(&a, 10, b"1"), (&own, 15, b"old"), (&b, 20, b"2"), (&a, 30, b"3")]);
    let play = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let ticks = Some(ClockTicks::Topics(names));
        let (mut player, kept) =
            keeping(&folder, PlayOptions { clock_ticks: ticks, ..simulated() });
        player.run(&mut |_| {}).unwrap();
        let played = kept.take().into_iter();
        played
            .map(|played| match played.topic.as_str() {
                "/clock" => (played.topic, clock_nanos(&played.data)),
                _ => (played.topic, played.log_time_nanos),
            })
            .collect::<Vec<_>>()
    };
    let named = |all: &[(&str, u64)]| {
        all.iter().map(|&(name, time)| (name.to_owned(), time)).collect::<Vec<_>>()
    };
    assert_eq!(
        play(&["/b"]),
        named(&[("/a", 10), ("/clock", 20), ("/b", 20), ("/a", 30)]),
        "the recording's own clock gives way"
    );
    let all = [("/clock", 10), ("/a", 10), ("/clock", 20), ("/b", 20), ("/clock", 30), ("/a", 30)];
    assert_eq!(play(&[]), named(&all));
}

#[test]
fn several_recordings_are_played_as_one() {
    let (a, b) = (topic("/a", "std_msgs/msg/String"), topic("/b", "std_msgs/msg/String"));
    let first = record(&[(&a, 10, b"1"), (&a, 30, b"4"), (&b, 50, b"6")]);
    let second = record(&[(&b, 20, b"2"), (&a, 30, b"5 and more"), (&b, 70, b"8")]);
    let third = record(&[(&a, 25, b"3"), (&a, 60, b"7")]);
    let container = third.path().join("bag");
    let listed = Listed::file_in(third.path());
    let paths = [first.path().join("bag"), second.path().join("bag"), listed];
    let options = PlayOptions { lead_in: Duration::ZERO, ..simulated() };
    let mut kept = Kept::new(&options);
    let open = move |_: &Path| Ok(Playable::Source(Box::new(Listed::of(&container))));
    let mut player = Player::open_with(&paths, options, &mut kept, open).unwrap();
    player.run(&mut |_| {}).unwrap();
    let played = kept.bytes();
    assert_eq!(played.iter().map(|p| p.1).collect::<Vec<_>>(), *b"12345678");
    assert_eq!(played.iter().map(|p| p.0).collect::<Vec<_>>(), [0, 10, 15, 20, 20, 40, 50, 60]);
    let opened = kept.opened.lock().unwrap();
    let sizes: BTreeMap<_, _> = opened.iter().map(|(t, bytes)| (t.name.as_str(), *bytes)).collect();
    assert_eq!(sizes, BTreeMap::from([("/a", 10), ("/b", 1)]));
}

/// A message that a recorder adds while the player runs has no prepared place.
#[test]
fn of_a_running_recording_is_played_what_was_there() {
    let (a, b) = (topic("/a", "std_msgs/msg/String"), topic("/b", "std_msgs/msg/String"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bag");
    let recorder = Recorder::create(&path, RecorderOptions::default()).unwrap();
    let [a, b] = [a, b].map(|topic| recorder.topic(topic).unwrap());
    let write = |writer: &crate::TopicWriter, log_time_nanos, data| {
        let publish_time_nanos = log_time_nanos;
        let message = Message { log_time_nanos, publish_time_nanos, sequence: 0, data };
        writer.write_message(&message).unwrap();
    };
    let readable = || {
        let container = crate::Container::open(&path).unwrap();
        container.topics().iter().map(|topic| topic.message_count().unwrap()).sum::<u64>()
    };
    let wait = |count| {
        while readable() < count {
            std::thread::yield_now();
        }
    };
    write(&a, 10, b"0");
    write(&a, 100, b"1");
    write(&b, 20, b"2");
    wait(3);
    let (mut player, kept) = keeping(&folder, simulated());
    write(&b, 30, b"3");
    write(&b, 40, b"larger than any");
    write(&a, 101, b"4");
    wait(6);
    let status = player.run(&mut |_| {}).unwrap();
    let played: Vec<_> = kept.bytes().iter().map(|played| played.1).collect();
    // The player has the indexes open: what lies within its time is there.
    assert!(played == *b"021" || played == *b"0231", "{played:?}");
    assert_eq!(status.left_out > 0, player.warnings().count() > 0);
    recorder.finish().unwrap();
}

/// A container of (log time, publish time), numbered.
fn stamped(times: &[(u64, u64)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let options = RecorderOptions {
        chunk_age_max: None,
        overflow: Overflow::Block,
        ..RecorderOptions::default()
    };
    let recorder = Recorder::create(&folder.path().join("bag"), options).unwrap();
    let writer = recorder.topic(topic("/count", "std_msgs/msg/UInt8")).unwrap();
    for (number, &(log_time_nanos, publish_time_nanos)) in times.iter().enumerate() {
        let data = &[number as u8];
        let message = Message { log_time_nanos, publish_time_nanos, sequence: 0, data };
        writer.write_message(&message).unwrap();
    }
    recorder.finish().unwrap();
    folder
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_order_of_sending_is_that_of_the_stamps(
        times in proptest::collection::vec((0u64..100, 0u64..1000), 1..40),
        from_ms in prop_oneof![Just(0u64), 0u64..100],
        seek_ms in 0u64..1000,
    ) {
        let log_times = times.iter().scan(SECOND, |time, (step, _)| {
            *time += step * 1_000_000;
            Some(*time)
        });
        let times: Vec<_> =
            log_times.zip(&times).map(|(log, (_, publish))| (log, 7 + publish * 1_000_000)).collect();
        let folder = stamped(&times);
        let options = PlayOptions {
            order: MessageOrder::Sent,
            start_offset: Duration::from_millis(from_ms),
            ..simulated()
        };
        let mut sorted: Vec<_> = times.iter().map(|(_, publish)| *publish).zip(0u8..).collect();
        sorted.sort_unstable();
        let begin_nanos = sorted[0].0 + from_ms * 1_000_000;
        sorted.retain(|(publish, _)| *publish >= begin_nanos);
        let played = play(&folder, options.clone());
        let expected = sorted.iter().map(|(publish, number)| (publish - begin_nanos, *number));
        prop_assert_eq!(&played, &expected.collect::<Vec<_>>());

        let (mut player, kept) = keeping(&folder, options);
        player.control().seek(PlaySeek::Time(seek_ms * 1_000_000));
        player.run(&mut |_| {}).unwrap();
        if let Some((last, _)) = sorted.last() {
            let seek_nanos = (seek_ms * 1_000_000).clamp(begin_nanos, *last);
            let rest = sorted.iter().filter(|(publish, _)| *publish >= seek_nanos);
            let played: Vec<_> = kept.bytes().iter().map(|played| played.1).collect();
            prop_assert_eq!(played, rest.map(|(_, number)| *number).collect::<Vec<_>>());
        }
    }
}
