//! What every network promises (`livebag_ros2::network`), checked on two that have joined the same
//! one. A network's test file calls each check with a way to join.
#![allow(dead_code, reason = "each test file calls what it needs of it")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use livebag_ros2::network::{
    Endpoint, EndpointId, Network, NetworkError, Receiver, Role, Sample, TopicRequest,
};
use livebag_ros2::{Durability, History, Qos, Reliability, adapt};

/// Joins as the node of this name.
pub type Join<'a> = &'a dyn Fn(&str) -> Box<dyn Network>;

/// Far longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` holds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "a test's patience is real time")]
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A message as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    pub data: Vec<u8>,
    pub publish_time_nanos: u64,
    pub publisher: EndpointId,
}

/// Keeps everything.
#[derive(Default)]
pub struct Inbox {
    got: Mutex<Vec<Got>>,
    lost: Mutex<u64>,
}

impl Inbox {
    pub fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    pub fn data(&self) -> Vec<Vec<u8>> {
        self.got().into_iter().map(|got| got.data).collect()
    }

    pub fn len(&self) -> usize {
        self.got.lock().unwrap().len()
    }

    pub fn lost_count(&self) -> u64 {
        *self.lost.lock().unwrap()
    }
}

impl Receiver for Inbox {
    fn sample(&self, sample: &Sample<'_>) {
        self.got.lock().unwrap().push(Got {
            data: sample.data.to_vec(),
            publish_time_nanos: sample.publish_time_nanos.expect("a publisher tells the time"),
            publisher: sample.publisher,
        });
    }

    fn lost(&self, _publisher: &EndpointId, count: u64) {
        *self.lost.lock().unwrap() += count;
    }
}

pub const HASH: &str = "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18";

/// A topic of strings under a unique name.
pub fn strings(name: &str) -> TopicRequest {
    TopicRequest {
        name: name.to_owned(),
        type_name: "std_msgs/msg/String".to_owned(),
        type_hash: Some(HASH.to_owned()),
        qos: Qos { history: History::KeepLast(100), ..Qos::default() },
    }
}

/// A CDR string of `len` bytes, told apart by `fill`.
pub fn message(len: usize, fill: u8) -> Vec<u8> {
    let mut data = vec![0, 1, 0, 0];
    data.extend_from_slice(&(len as u32 + 1).to_le_bytes());
    data.resize(8 + len, fill);
    data.push(0);
    data
}

fn find(network: &dyn Network, role: Role, name: &str) -> Option<Endpoint> {
    network.endpoints().into_iter().find(|end| end.role == role && end.name == name)
}

pub fn the_graph_shows_who_is_there(join: Join<'_>) {
    let (here, there) = (join("here"), join("there"));
    let before = there.generation();
    let qos = Qos {
        reliability: Reliability::BestEffort,
        durability: Durability::Volatile,
        history: History::KeepLast(7),
        deadline_nanos: 1_500_000_000,
        ..Qos::default()
    };
    let request = TopicRequest { qos, ..strings("/graph/of_strings") };
    let publication = here.advertise(&request).unwrap();
    until("the publisher", || find(&*there, Role::Publisher, &request.name).is_some());
    assert_ne!(there.generation(), before);
    let seen = find(&*there, Role::Publisher, &request.name).unwrap();
    assert_eq!((seen.type_name.as_str(), seen.is_own), ("std_msgs/msg/String", false));
    assert_eq!(seen.type_hash.as_deref(), Some(HASH));
    assert_eq!(seen.qos.reliability, qos.reliability);
    assert_eq!(seen.qos.durability, qos.durability);
    assert_eq!(seen.qos.deadline_nanos, qos.deadline_nanos);
    until("its own view", || find(&*here, Role::Publisher, &request.name).is_some());
    assert!(find(&*here, Role::Publisher, &request.name).unwrap().is_own);
    let _subscription = there.subscribe(&request, Arc::new(Inbox::default())).unwrap();
    until("the subscription", || find(&*here, Role::Subscription, &request.name).is_some());
    drop(publication);
    until("its going", || find(&*there, Role::Publisher, &request.name).is_none());
}

pub fn bytes_come_as_they_were_published_and_in_order(join: Join<'_>) {
    let (here, there) = (join("here"), join("there"));
    let request = strings("/bytes");
    let inbox = Arc::new(Inbox::default());
    let publication = here.advertise(&request).unwrap();
    let _subscription = there.subscribe(&request, inbox.clone()).unwrap();
    until("the match", || publication.subscriptions() == 1);
    let sizes = [0, 1, 2, 3, 100, 1_399, 65_000, 70_001, 1 << 20, 6_220_800];
    let sent: Vec<_> = sizes.iter().zip(1..).map(|(&len, fill)| message(len, fill)).collect();
    for data in &sent {
        publication.publish(data).unwrap();
    }
    until("all", || inbox.len() >= sent.len());
    assert!(inbox.data() == sent, "other bytes than were published");
    for data in &sent {
        match publication.room(data.len()) {
            Some(mut room) => {
                room.data().copy_from_slice(data);
                room.publish().unwrap();
            }
            None => publication.publish(data).unwrap(),
        }
        drop(publication.room(data.len()));
    }
    until("all of them again", || inbox.len() >= 2 * sent.len());
    assert!(inbox.data()[sent.len()..] == sent, "other bytes than were filled in");
    assert!(
        inbox.got().windows(2).all(|two| two[0].publish_time_nanos <= two[1].publish_time_nanos)
    );
    let seen = find(&*there, Role::Publisher, &request.name).unwrap();
    assert!(inbox.got().iter().all(|got| got.publisher == seen.id && got.publish_time_nanos > 0));
    assert_eq!(inbox.lost_count(), 0);
    assert!(publication.wait_for_acknowledgements(PATIENCE));
}

pub fn latched_messages_reach_those_who_come_later(join: Join<'_>) {
    let (here, there) = (join("here"), join("there"));
    let qos = Qos {
        durability: Durability::TransientLocal,
        history: History::KeepLast(3),
        ..Qos::default()
    };
    let request = TopicRequest { qos, ..strings("/latched") };
    let publication = here.advertise(&request).unwrap();
    let sent: Vec<_> = (1..=5).map(|fill| message(10, fill)).collect();
    sent.iter().for_each(|data| publication.publish(data).unwrap());
    until("the publisher", || find(&*there, Role::Publisher, &request.name).is_some());
    let inbox = Arc::new(Inbox::default());
    let _subscription = there.subscribe(&request, inbox.clone()).unwrap();
    until("the kept ones", || inbox.len() >= 3);
    until("the match", || publication.subscriptions() == 1);
    publication.publish(&message(10, 9)).unwrap();
    until("the new one", || inbox.data().last() == Some(&message(10, 9)));
    assert_eq!(inbox.data(), [&sent[2..], &[message(10, 9)]].concat());
    assert_eq!(inbox.lost_count(), 0, "what was before is not lost");
}

pub fn publishers_of_one_topic_are_told_apart(join: Join<'_>) {
    let (here, other, there) = (join("here"), join("other"), join("there"));
    let request = strings("/of_two");
    let sensor = TopicRequest {
        qos: Qos { reliability: Reliability::BestEffort, ..request.qos },
        ..request.clone()
    };
    let inbox = Arc::new(Inbox::default());
    let publications = [here.advertise(&request).unwrap(), other.advertise(&sensor).unwrap()];
    let asked = TopicRequest { qos: adapt([&request.qos, &sensor.qos]), ..request.clone() };
    let _subscription = there.subscribe(&asked, inbox.clone()).unwrap();
    until("the matches", || publications.iter().all(|one| one.subscriptions() == 1));
    for round in 0..5 {
        for (publication, fill) in publications.iter().zip([10, 20]) {
            publication.publish(&message(8, fill + round)).unwrap();
        }
    }
    until("all", || inbox.len() >= 10);
    let got = inbox.got();
    let of = |fill: u8| {
        let mine = got.iter().filter(|got| got.data[8] / 10 == fill / 10);
        mine.map(|got| (got.publisher, got.data[8])).collect::<Vec<_>>()
    };
    let (first, second) = (of(10), of(20));
    assert_eq!(first.iter().map(|(_, fill)| *fill).collect::<Vec<_>>(), [10, 11, 12, 13, 14]);
    assert_eq!(second.len(), 5);
    assert!(first.iter().all(|(id, _)| *id == first[0].0) && first[0].0 != second[0].0);
    assert_eq!(inbox.lost_count(), 0);
}

pub fn what_is_dropped_is_over(join: Join<'_>) {
    let (here, there) = (join("here"), join("there"));
    let request = strings("/ended");
    let (ended, going_on) = (Arc::new(Inbox::default()), Arc::new(Inbox::default()));
    let publication = here.advertise(&request).unwrap();
    let to_end = there.subscribe(&request, ended.clone()).unwrap();
    let _stays = there.subscribe(&request, going_on.clone()).unwrap();
    until("the match", || publication.subscriptions() >= 1);
    publication.publish(&message(3, 1)).unwrap();
    until("the first", || ended.len() == 1 && going_on.len() == 1);
    drop(to_end);
    publication.publish(&message(3, 2)).unwrap();
    until("the second", || going_on.len() == 2);
    assert_eq!(ended.len(), 1);
    assert_eq!(Arc::strong_count(&ended), 1, "the receiver is still held");
}

pub fn names_that_are_none_are_refused(join: Join<'_>) {
    let here = join("here");
    for name in ["", "no_slash", "/a b", "/a//b", "/*", &format!("/{}", "x".repeat(10_000))] {
        let request = TopicRequest { name: name.to_owned(), ..strings("/x") };
        let refusal = here.advertise(&request).err();
        assert!(matches!(refusal, Some(NetworkError::Name { .. })), "{name}");
        let refusal = here.subscribe(&request, Arc::new(Inbox::default())).err();
        assert!(matches!(refusal, Some(NetworkError::Name { .. })), "{name}");
    }
    let request = TopicRequest { type_name: "**".to_owned(), ..strings("/x") };
    assert!(here.advertise(&request).is_err());
}
