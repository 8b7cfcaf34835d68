//! Topics of a (simulated) ROS 2 network in a recording.

mod conformance;

use std::sync::Arc;
use std::time::Duration;

use conformance::{HASH, message, strings, until};
use livebag::{Clock, Container, Query, Recorder, RecorderOptions, Selector, Span, Topic};
use livebag_format::rosbag2::QosProfile;
use livebag_ros2::network::{
    Endpoint, Network, Role, SimulatedHub, SimulatedNetwork, TopicRequest,
};
use livebag_ros2::{
    Durability, FollowOptions, Follower, History, Qos, QosOverrides, Reliability, Selection,
};

/// A network with a node, and a recorder that follows it.
struct World {
    folder: tempfile::TempDir,
    hub: SimulatedHub,
    node: SimulatedNetwork,
    recorder: Recorder,
    follower: Follower,
}

impl World {
    fn new(options: FollowOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let hub = SimulatedHub::new(Clock::system());
        let recorder =
            Recorder::create(&folder.path().join("bag"), RecorderOptions::default()).unwrap();
        let follower = Follower::begin(Arc::new(hub.join("/livebag")), options).unwrap();
        let node = hub.join("/node");
        Self { folder, hub, node, recorder, follower }
    }

    fn look(&mut self) {
        self.follower.look(&self.recorder);
    }

    /// Ends the recording; returns its contents, by topic and type: payloads and sequences.
    fn finish(self) -> Recorded {
        let notices = self.follower.finish(&self.recorder);
        let status = self.recorder.finish().unwrap();
        let bag = Container::open(&self.folder.path().join("bag")).unwrap();
        let mut messages = Vec::new();
        let mut cursor = bag.query(&Query { topics: Vec::new(), span: Span::All }).unwrap();
        while let Some((topic, message)) = cursor.next().unwrap() {
            messages.push((topic, message.data.to_vec()));
        }
        drop(cursor);
        Recorded { bag, messages, lost: status.totals().2.transport, notices }
    }
}

struct Recorded {
    bag: Container,
    /// Place of the topic, and payload.
    messages: Vec<(usize, Vec<u8>)>,
    lost: u64,
    notices: Vec<String>,
}

fn all() -> FollowOptions {
    FollowOptions { selection: Selection::all(), ..FollowOptions::default() }
}

impl Recorded {
    fn topic(&self, at: usize) -> &Topic {
        self.bag.topics()[at].topic()
    }

    fn data(&self) -> Vec<Vec<u8>> {
        self.messages.iter().map(|(_, data)| data.clone()).collect()
    }
}

const LATCHED: Qos = Qos {
    reliability: Reliability::Reliable,
    durability: Durability::TransientLocal,
    history: History::KeepLast(1),
    deadline_nanos: Qos::FOREVER,
    lifespan_nanos: Qos::FOREVER,
    liveliness: livebag_ros2::Liveliness::Automatic,
    lease_nanos: Qos::FOREVER,
};

#[test]
fn topics_are_recorded_as_they_appear_with_type_hash_and_qos() {
    let mut world = World::new(all());
    let first = world.node.advertise(&strings("/first")).unwrap();
    world.look();
    first.publish(&message(5, 1)).unwrap();
    let latched = TopicRequest { qos: LATCHED, ..strings("/late") };
    let late = world.node.advertise(&latched).unwrap();
    late.publish(&message(5, 2)).unwrap();
    world.look();
    late.publish(&message(100_000, 3)).unwrap();
    let recorded = world.finish();
    let mut sent = vec![message(5, 1), message(5, 2), message(100_000, 3)];
    let mut found = recorded.data();
    sent.sort();
    found.sort();
    assert!(sent == found, "{} messages", found.len());
    assert_eq!(recorded.notices, [] as [&str; 0]);
    let topic = recorded.bag.topics().iter().find(|topic| topic.topic().name == "/late").unwrap();
    let topic = topic.topic();
    assert_eq!((&*topic.type_name, &*topic.schema_encoding), ("std_msgs/msg/String", "ros2msg"));
    assert_eq!(topic.metadata["topic_type_hash"], HASH);
    let profiles = QosProfile::parse_list(&topic.metadata["offered_qos_profiles"]).unwrap();
    assert_eq!(Qos::from_profile(&profiles[0]), LATCHED);
}

#[test]
fn what_the_network_loses_is_counted() {
    let mut world = World::new(all());
    let publication = world.node.advertise(&strings("/lossy")).unwrap();
    world.look();
    publication.publish(&message(5, 1)).unwrap();
    world.hub.lose("/lossy", 7);
    (2..=9).for_each(|fill| publication.publish(&message(5, fill)).unwrap());
    let recorded = world.finish();
    assert_eq!(recorded.data(), [message(5, 1), message(5, 9)]);
    assert_eq!(recorded.lost, 7);
    assert_eq!(recorded.bag.lost().transport, 7);
}

#[test]
fn publishers_of_differing_qos_are_recorded_once_each_and_whole() {
    let mut world = World::new(all());
    let reliable = world.node.advertise(&strings("/mixed")).unwrap();
    world.look();
    reliable.publish(&message(4, 1)).unwrap();
    // It comes later, and the subscription there is cannot hear it.
    let sensor = Qos { reliability: Reliability::BestEffort, ..Qos::default() };
    let late = world.node.advertise(&TopicRequest { qos: sensor, ..strings("/mixed") }).unwrap();
    world.look();
    let latched =
        world.node.advertise(&TopicRequest { qos: LATCHED, ..strings("/mixed") }).unwrap();
    world.look();
    for round in 0..3 {
        reliable.publish(&message(4, 10 + round)).unwrap();
        late.publish(&message(4, 20 + round)).unwrap();
        latched.publish(&message(4, 30 + round)).unwrap();
    }
    let recorded = world.finish();
    let fills: Vec<_> = recorded.data().iter().map(|data| data[8]).collect();
    assert_eq!(fills, [1, 10, 20, 30, 11, 21, 31, 12, 22, 32]);
    assert_eq!(recorded.lost, 0);
    assert_eq!(recorded.bag.topics().len(), 1);
}

#[test]
fn a_type_that_changes_is_another_channel_and_said() {
    let mut world = World::new(all());
    let other = format!("RIHS01_{}", "0".repeat(64));
    let strings = strings("/changing");
    let first = world.node.advertise(&strings).unwrap();
    world.look();
    first.publish(&message(4, 1)).unwrap();
    let with_hash = TopicRequest { type_hash: Some(other.clone()), ..strings.clone() };
    let second = world.node.advertise(&with_hash).unwrap();
    let with_type =
        TopicRequest { type_name: "std_msgs/msg/Int32".into(), type_hash: None, ..strings };
    let third = world.node.advertise(&with_type).unwrap();
    world.look();
    first.publish(&message(4, 1)).unwrap();
    second.publish(&message(4, 2)).unwrap();
    // The definition of the second hash is asked of the node, which has no such service.
    until("the node's silence", || {
        world.follower.look(&world.recorder);
        world.recorder.status().topics.len() == 3
    });
    third.publish(&[0, 1, 0, 0, 7, 0, 0, 0]).unwrap();
    let recorded = world.finish();
    assert_eq!(recorded.bag.topics().len(), 3);
    for (at, data) in &recorded.messages {
        let topic = recorded.topic(*at);
        let hash = topic.metadata.get("topic_type_hash").map(String::as_str);
        match data.get(8) {
            Some(1) => assert_eq!(hash, Some(HASH)),
            Some(_) => {
                assert_eq!((hash, &*topic.schema_encoding), (Some(other.as_str()), ""));
            }
            None => assert_eq!(topic.type_name, "std_msgs/msg/Int32"),
        }
    }
    let notices = recorded.notices.join("\n");
    assert!(notices.contains("each is recorded by itself"), "{notices}");
    assert!(notices.contains("no definition"), "{notices}");
}

#[test]
fn an_unknown_type_is_asked_of_its_node_and_recorded_meanwhile() {
    let mut world = World::new(all());
    let type_name = "my_msgs/msg/Thing";
    let definition = "int32 a\n";
    let hash = livebag_format::definitions::rihs01(type_name, definition).unwrap();
    world.hub.serve("/node/get_type_description", move |request| {
        assert!(request.windows(type_name.len()).any(|part| part == type_name.as_bytes()));
        description_of_thing()
    });
    let request = TopicRequest {
        type_name: type_name.into(),
        type_hash: Some(hash.clone()),
        ..strings("/things")
    };
    let publication = world.node.advertise(&request).unwrap();
    world.look();
    publication.publish(&[0, 1, 0, 0, 1, 0, 0, 0]).unwrap();
    until("the definition", || {
        world.follower.look(&world.recorder);
        !world.recorder.status().topics.is_empty()
    });
    publication.publish(&[0, 1, 0, 0, 2, 0, 0, 0]).unwrap();
    let recorded = world.finish();
    assert_eq!(recorded.data().iter().map(|data| data[4]).collect::<Vec<_>>(), [1, 2]);
    let topic = recorded.topic(0);
    assert_eq!((&*topic.schema_encoding, &*topic.schema), ("ros2msg", definition.as_bytes()));
    assert_eq!(topic.metadata["topic_type_hash"], hash);
    assert_eq!(recorded.notices, [] as [&str; 0]);
}

/// The answer of a node whose type is `int32 a`.
fn description_of_thing() -> Vec<u8> {
    let mut cdr = vec![0, 1, 0, 0, 1, 0, 0, 0];
    let text = |cdr: &mut Vec<u8>, text: &str| {
        cdr.resize(cdr.len().next_multiple_of(4), 0);
        cdr.extend((text.len() as u32 + 1).to_le_bytes());
        cdr.extend(text.as_bytes());
        cdr.push(0);
    };
    let word = |cdr: &mut Vec<u8>, word: u32| {
        cdr.resize(cdr.len().next_multiple_of(4), 0);
        cdr.extend(word.to_le_bytes());
    };
    text(&mut cdr, "");
    text(&mut cdr, "my_msgs/msg/Thing");
    word(&mut cdr, 1);
    text(&mut cdr, "a");
    cdr.push(6);
    // Two numbers of eight bytes, aligned behind the four bytes of encapsulation.
    cdr.resize((cdr.len() - 4).next_multiple_of(8) + 4 + 16, 0);
    text(&mut cdr, "");
    text(&mut cdr, "");
    (0..3).for_each(|_| word(&mut cdr, 0));
    cdr
}

#[test]
fn overrides_win_and_what_they_cannot_hear_is_said() {
    let overrides = QosOverrides::parse("/volatile: {durability: transient_local}").unwrap();
    let mut world = World::new(FollowOptions { overrides, ..all() });
    let publication = world.node.advertise(&strings("/volatile")).unwrap();
    world.look();
    publication.publish(&message(4, 1)).unwrap();
    let recorded = world.finish();
    assert!(recorded.messages.is_empty());
    assert!(recorded.notices[0].contains("more than /node offers"), "{:?}", recorded.notices);
}

#[test]
fn log_times_come_from_the_clock_of_the_simulation() {
    let mut world = World::new(FollowOptions { use_sim_time: true, ..all() });
    let clock = TopicRequest {
        type_name: "rosgraph_msgs/msg/Clock".into(),
        type_hash: None,
        ..strings("/clock")
    };
    let clock = world.node.advertise(&clock).unwrap();
    let tell = |sec: u32| {
        let cdr = [&[0, 1, 0, 0], &sec.to_le_bytes()[..], &[0; 4]].concat();
        clock.publish(&cdr).unwrap();
    };
    let publication = world.node.advertise(&strings("/data")).unwrap();
    world.look();
    publication.publish(&message(4, 1)).unwrap();
    tell(100);
    world.look();
    publication.publish(&message(4, 2)).unwrap();
    tell(200);
    publication.publish(&message(4, 3)).unwrap();
    let notices = world.follower.take_notices();
    assert!(notices[0].contains("/clock"), "{notices:?}");
    let recorded = world.finish();
    let of_data: Vec<_> =
        recorded.messages.iter().filter(|(at, _)| recorded.topic(*at).name == "/data").collect();
    assert_eq!(of_data.len(), 2, "nothing is recorded before the clock tells the time");
    let range = recorded.bag.time_range().unwrap();
    assert_eq!(range, Some((100_000_000_000, 200_000_000_000)));
}

#[test]
fn a_node_that_announces_ten_thousand_topics_breaks_nothing() {
    let mut world = World::new(all());
    for number in 0..10_000_u128 {
        world.hub.announce(Endpoint {
            id: (number + 1_000_000).to_le_bytes(),
            role: Role::Publisher,
            name: format!("/topic_{number}"),
            type_name: "std_msgs/msg/String".into(),
            type_hash: None,
            qos: Qos::default(),
            node: "/liar".into(),
            is_own: false,
        });
    }
    let honest = world.node.advertise(&strings("/honest")).unwrap();
    world.look();
    honest.publish(&message(4, 1)).unwrap();
    // A poll takes no longer than permitted, and continues where the one before ended.
    while !world.follower.follows("/topic_9999") {
        world.look();
    }
    let recorded = world.finish();
    assert_eq!(recorded.data(), [message(4, 1)]);
    assert_eq!(recorded.bag.topics().len(), 10_001);
}

#[test]
fn what_is_not_selected_is_left_alone() {
    let selection =
        Selection { selectors: vec![Selector::names(["/wanted"])], ..Selection::default() };
    let mut world = World::new(FollowOptions { selection, ..FollowOptions::default() });
    let publications: Vec<_> = ["/wanted", "/other"]
        .map(|name| world.node.advertise(&strings(name)).unwrap())
        .into_iter()
        .collect();
    world.look();
    assert_eq!(publications.iter().map(|one| one.subscriptions()).collect::<Vec<_>>(), [1, 0]);
    assert!(world.follower.follows("/wanted") && !world.follower.follows("/other"));
}

#[test]
fn discovery_may_end() {
    let options = FollowOptions { discover_for: Some(Duration::ZERO), ..all() };
    let mut world = World::new(options);
    let _first = world.node.advertise(&strings("/first")).unwrap();
    world.look();
    let _second = world.node.advertise(&strings("/second")).unwrap();
    world.look();
    assert!(world.follower.follows("/first") && !world.follower.follows("/second"));
}
