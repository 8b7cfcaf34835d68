//! A recording that is followed gives each message once, however late it comes.

use livebag::{Container, ContainerError, Follow};

use super::*;

/// Publishes nothing, and waits until `count` messages can be read.
fn readable(fixture: &Fixture, count: u64) -> Container {
    loop {
        match Container::open(&fixture.path) {
            Ok(container)
                if container.topics().iter().map(|it| it.message_count().unwrap()).sum::<u64>()
                    == count =>
            {
                return container;
            }
            _ => std::thread::yield_now(),
        }
    }
}

/// Log times by topic, until `count` messages have arrived.
fn gather(follow: &mut Follow, count: usize) -> Vec<(usize, u64)> {
    let mut all = Vec::new();
    while all.len() < count {
        follow.look().unwrap();
        while let Some(message) = follow.next() {
            assert_eq!(message.data.len(), message.data_bytes as usize);
            all.push((message.topic, message.log_time_nanos));
        }
    }
    all
}

fn write(fixture: &Fixture, at: usize, log_time_nanos: u64) {
    let message = Message { log_time_nanos, publish_time_nanos: 5, sequence: 1, data: b"data" };
    fixture.writers[at].write_message(&message).unwrap();
}

#[test]
fn what_is_committed_late_comes_though_another_topic_has_newer_messages() {
    let fixture = Fixture::new(RecorderOptions::default(), &["/early", "/late"]);
    for time in [10, 20, 20] {
        write(&fixture, 0, time);
    }
    write(&fixture, 1, 5);
    let container = readable(&fixture, 4);
    let mut follow = Follow::begin(container, Vec::new(), None).unwrap();
    assert_eq!(follow.next(), None);
    // Of the same time as the newest, and older than another topic's newest.
    write(&fixture, 0, 20);
    write(&fixture, 1, 6);
    let mut came = gather(&mut follow, 2);
    came.sort_unstable();
    assert_eq!(came, [(0, 20), (1, 6)]);

    let named = vec!["late".to_owned(), "/later".to_owned()];
    let container = readable(&fixture, 6);
    let mut last = Follow::begin(container, named, Some(Duration::from_nanos(14))).unwrap();
    let later = fixture.recorder.topic(topic("/later")).unwrap();
    later
        .write_message(&Message {
            log_time_nanos: 7,
            publish_time_nanos: 7,
            sequence: 1,
            data: b"data",
        })
        .unwrap();
    assert_eq!(gather(&mut last, 2), [(1, 6), (2, 7)]);
    assert!(!last.has_ended());
    fixture.recorder.finish().unwrap();
    assert_eq!(gather(&mut follow, 1), [(2, 7)]);
    while !last.has_ended() || !follow.has_ended() {
        last.look().unwrap();
        follow.look().unwrap();
    }
    assert_eq!((last.next(), follow.next()), (None, None));
    let container = Container::open(&fixture.path).unwrap();
    let unknown = Follow::begin(container, vec!["/none".into()], None).err();
    assert!(matches!(unknown, Some(ContainerError::NoTopic { .. })));
}
