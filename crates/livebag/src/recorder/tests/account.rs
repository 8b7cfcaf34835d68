//! Every published message is in exactly one count, whatever becomes of it; the recorder and the recording tell
//! the same.

use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// `gap`: messages that never reached the recorder, as the next one's sequence tells.
    Write {
        topic: usize,
        bytes: usize,
        gap: u64,
    },
    Pause,
    Resume,
    Split,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![0usize..300, 60_000usize..70_000];
    let gap = prop_oneof![4 => Just(0u64), 1 => 1u64..5];
    let write = (0usize..3, bytes, gap);
    let write = write.prop_map(|(topic, bytes, gap)| Step::Write { topic, bytes, gap });
    let step = prop_oneof![
        20 => write, 1 => Just(Step::Pause), 2 => Just(Step::Resume), 2 => Just(Step::Split),
    ];
    prop::collection::vec(step, 0..80)
}

fn options() -> impl Strategy<Value = RecorderOptions> {
    let cache = prop_oneof![Just(200_000u64), Just(64 << 20)];
    let parts = (cache, prop::option::of(1u32..4), any::<bool>(), any::<bool>(), 0u8..4);
    parts.prop_map(|(cache_bytes_max, splits_max, one_file, has_ring, paused)| {
        let latched = TopicSettings { latched: true, ..TopicSettings::default() };
        let seldom = TopicSettings { rate_max_hz: Some(1.0), ..TopicSettings::default() };
        RecorderOptions {
            cache_bytes_max,
            retention: Retention { splits_max, ..Retention::default() },
            one_file: one_file.then(|| "bag".to_owned()),
            snapshot: has_ring.then(SnapshotRing::default),
            start_paused: paused == 0,
            topics: TopicRules(vec![
                TopicRule::named("/topic_1", latched),
                TopicRule::named("/topic_2", seldom),
            ]),
            ..RecorderOptions::default()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_message_is_in_one_count(
        steps in steps(), options in options(), seed in any::<u64>(),
        full_from in prop_oneof![3 => Just(None), 1 => (20u64..200).prop_map(Some)],
    ) {
        let disk = SimulatedDisk::new(seed);
        if let Some(from) = full_from {
            disk.inject(Fault::NoSpaceFrom(from));
        }
        let made = Recorder::create_on(Arc::new(disk.clone()), Path::new(DIRECTORY), options);
        let Ok(recorder) = made else { return Ok(()) };
        let names: Vec<_> = (0..3).map(|at| format!("/topic_{at}")).collect();
        let writers: Vec<_> = names.iter().map(|name| recorder.topic(topic(name))).collect();
        let mut sequences = [0u64; 3];
        let mut published = [0u64; 3];
        for (k, step) in steps.iter().enumerate() {
            match *step {
                Step::Pause => recorder.pause(),
                Step::Resume => recorder.resume(),
                Step::Split => drop(recorder.split()),
                Step::Write { topic, bytes, gap } => {
                    let Ok(writer) = &writers[topic] else { continue };
                    let gap = if sequences[topic] == 0 { 0 } else { gap };
                    let data = bytes_of(topic, k as u64, bytes);
                    let sequence = sequences[topic] + gap + 1;
                    let message = Message { sequence, ..message(k as u64, &data) };
                    // Writing into a recorder that has ended is an error, and is not counted.
                    if !matches!(writer.write_message(&message), Err(WriteError::Closed { .. })) {
                        published[topic] += sequence - sequences[topic];
                        sequences[topic] = sequence;
                    }
                }
            }
        }
        let (status, _) = recorder.finish_with_status();
        for (at, topic) in status.topics.iter().enumerate() {
            prop_assert_eq!(topic.account().published(), published[at], "{:?}", topic);
        }
        let container = Container::open_on(&disk, Path::new(DIRECTORY)).unwrap();
        prop_assert_eq!(read_all(&container).len() as u64, container.account().unwrap().recorded);
        if container.state() == ContainerState::Closed {
            let told = container.accounts().unwrap();
            for (topic, account) in container.topics().iter().zip(told) {
                let status = status.topics.iter().find(|one| one.name == topic.topic().name);
                prop_assert_eq!(account, status.unwrap().account(), "{}", topic.topic().name);
            }
        }
    }
}

/// A wall clock that is set while recording is told by the status and by the container: log times jump there.
#[test]
fn a_clock_that_is_set_is_told() {
    let disk = SimulatedDisk::new(1);
    let clock = crate::clock::Clock::simulated(1_700_000_000_000_000_000);
    let recorder =
        record_with(&disk, RecorderOptions { clock: clock.clone(), ..RecorderOptions::default() });
    // The recorder looks once a second, and needs a first look to compare with: the wall clock stands still.
    super::ending::wait_until("it is told", || {
        clock.advance(std::time::Duration::from_secs(1));
        clock.jump(-1_000_000_000);
        recorder.status().clock_jumps.count > 0
    });
    let (status, ended) = recorder.finish_with_status();
    ended.unwrap();
    assert!(status.clock_jumps.max_nanos >= 1_000_000_000, "{:?}", status.clock_jumps);
    let container = Container::open_on(&disk, Path::new(DIRECTORY)).unwrap();
    assert_eq!(container.clock_jumps(), status.clock_jumps);
}
