//! DDS against participants that are not ours: the Python package and Debian's C library of Cyclone
//! DDS, and this program once more in another process. All on loopback.
//!
//! `LIVEBAG_DDS_PYTHON` names a Python that has the package `cyclonedds`; without it, the repository's
//! `.venv` is tried. Where there is none, its tests are left out, and say so.

#![cfg(feature = "dds")]

use std::time::Duration;

use livebag_ros2::network::dds::{DdsNetwork, DdsOptions, DiscoveryRange};
use livebag_ros2::network::{Network, NetworkError, Role, ServiceRequest, TopicRequest};
use livebag_ros2::{Durability, History, Qos, Reliability};

mod conformance;
#[path = "../../../tests/skipped.rs"]
mod skipped;
mod dds {
    mod fast;
    pub mod peers;
}

use dds::peers::{C, Collector, Own, Peer, Python, digest, wait_for};

const TYPE: &str = "std_msgs/msg/ByteMultiArray";
const LATCHED: Durability = Durability::TransientLocal;

/// A separate domain for each test: tests of one program differ by `test`, programs by their process.
fn domain(test: u32) -> u32 {
    100 + (std::process::id() * 17 + test) % 100
}

fn options(domain: u32) -> DdsOptions {
    // Other test programs may have hit upon the same domain. Set CYCLONEDDS_URI to debug a test.
    let mut settings = format!(
        "<CycloneDDS><Domain><Discovery><Tag>{}</Tag></Discovery></Domain></CycloneDDS>",
        dds::peers::tag()
    );
    if let Ok(more) = std::env::var("CYCLONEDDS_URI") {
        settings = format!("{settings},{more}");
    }
    let settings = Some(settings);
    DdsOptions { domain, range: DiscoveryRange::Localhost, settings, ..DdsOptions::default() }
}

fn join(domain: u32) -> DdsNetwork {
    DdsNetwork::join(&options(domain), "/livebag").unwrap()
}

fn topic(name: &str, qos: Qos) -> TopicRequest {
    TopicRequest { name: name.to_owned(), type_name: TYPE.to_owned(), type_hash: None, qos }
}

fn keep_all() -> Qos {
    Qos { history: History::KeepAll, ..Qos::default() }
}

fn best_effort() -> Qos {
    Qos { reliability: Reliability::BestEffort, ..Qos::default() }
}

/// A message of `std_msgs/msg/ByteMultiArray` as the peers have it: a number, then bytes.
fn message(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0, 1, 0, 0];
    bytes.extend(number.to_le_bytes());
    bytes.extend((len as u32).to_le_bytes());
    bytes.extend((0..len).map(|at| (at as u32 ^ number) as u8));
    bytes
}

fn wait_for_publishers(network: &DdsNetwork, names: usize) {
    wait_for("publishers", || {
        let found = network.endpoints();
        found.iter().filter(|one| one.role == Role::Publisher && !one.is_own).count() >= names
    });
}

/// Messages of a foreign publisher on several topics arrive byte for byte.
fn topics_come_whole(mut peer: Peer, domain: u32, topics: usize) {
    let network = join(domain);
    peer.wait_for("ready");
    wait_for_publishers(&network, topics);
    let endpoints = network.endpoints();
    let taken: Vec<_> = (0..topics)
        .map(|index| {
            let name = format!("/peer/topic_{index}");
            let found = endpoints.iter().find(|one| one.name == name).unwrap();
            assert_eq!(found.type_name, TYPE);
            assert_eq!(found.qos.reliability, Reliability::Reliable);
            let collector = Collector::new();
            let subscription =
                network.subscribe(&topic(&name, keep_all()), collector.clone()).unwrap();
            (name, collector, subscription)
        })
        .collect();
    let sent = peer.wait_for("sent");
    for (name, collector, _) in &taken {
        let count = sent[name][0].as_u64().unwrap() as usize;
        wait_for(name, || collector.count() >= count);
        assert_eq!(collector.count(), count, "{name}");
        assert_eq!(collector.lost(), 0, "{name}");
        assert_eq!(
            u64::from(digest(&collector.messages())),
            sent[name][1].as_u64().unwrap(),
            "{name}"
        );
        assert!(collector.has_times_and_publishers(), "{name}");
    }
    assert_eq!(network.refused(), 0);
    drop(peer);
    wait_for("the publishers to go", || {
        !network.endpoints().iter().any(|one| one.role == Role::Publisher && !one.is_own)
    });
}

#[test]
fn python_publishers_reliable_twenty_topics_nothing_lost() {
    let Some(python) = Python::find() else { return };
    let domain = domain(1);
    let peer = python.peer(&["publish", &domain.to_string(), "20", "400"]);
    topics_come_whole(peer, domain, 20);
}

#[test]
fn debian_c_publishers_reliable_nothing_lost() {
    let Some(c) = C::compiled() else { return };
    let domain = domain(2);
    topics_come_whole(c.peer(&["publish", &domain.to_string(), "5", "400"]), domain, 5);
}

#[test]
fn the_type_hash_is_told() {
    let Some(python) = Python::find() else { return };
    let domain = domain(3);
    let mut peer = python.peer(&["publish", &domain.to_string(), "1", "1"]);
    let network = join(domain);
    peer.wait_for("ready");
    wait_for_publishers(&network, 1);
    let hash = network.endpoints().into_iter().find_map(|one| one.type_hash);
    assert_eq!(hash, Some(format!("RIHS01_{}", "ab".repeat(32))));
}

#[test]
fn those_who_come_late_get_latched_messages() {
    let Some(python) = Python::find() else { return };
    let domain = domain(4);
    let mut peer =
        python.peer(&["latch", &domain.to_string(), "/peer/latched", "one", "second", "third!!"]);
    peer.wait_for("ready");
    let network = join(domain);
    wait_for_publishers(&network, 1);
    let collector = Collector::new();
    let request = TopicRequest {
        type_name: "std_msgs/msg/String".to_owned(),
        ..topic("/peer/latched", Qos { durability: LATCHED, ..keep_all() })
    };
    let _subscription = network.subscribe(&request, collector.clone()).unwrap();
    wait_for("latched messages", || collector.count() >= 3);
    let texts: Vec<_> = collector
        .messages()
        .iter()
        .map(|text| text[8..].split(|&byte| byte == 0).next().unwrap().to_vec())
        .collect();
    assert_eq!(texts, [b"one".to_vec(), b"second".to_vec(), b"third!!".to_vec()]);
}

/// Messages of this process arrive at a foreign subscription.
fn published_messages_arrive(mut peer: Peer, domain: u32) {
    let network = join(domain);
    let publication = network.advertise(&topic("/own/topic", keep_all())).unwrap();
    peer.wait_for("ready");
    wait_for("the subscription", || publication.subscriptions() == 1);
    let messages: Vec<_> =
        (0..500).map(|number| message(number, number as usize * 7 % 3001)).collect();
    for message in &messages {
        publication.publish(message).unwrap();
    }
    let taken = peer.wait_for("taken");
    let taken: Vec<_> = taken
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one[0].as_u64().unwrap(), one[1].as_u64().unwrap()))
        .collect();
    let expected: Vec<_> = messages
        .iter()
        .enumerate()
        .map(|(number, bytes)| (number as u64, u64::from(crc32fast::hash(&bytes[12..]))))
        .collect();
    assert_eq!(taken, expected);
    assert!(publication.wait_for_acknowledgements(Duration::from_secs(60)));
}

#[test]
fn python_subscriptions_take_what_is_published() {
    let Some(python) = Python::find() else { return };
    let domain = domain(5);
    let peer = python.peer(&["listen", &domain.to_string(), "/own/topic", "500"]);
    published_messages_arrive(peer, domain);
}

#[test]
fn debian_c_subscriptions_take_what_is_published() {
    let Some(c) = C::compiled() else { return };
    let domain = domain(6);
    let peer = c.peer(&["listen", &domain.to_string(), "/own/topic", "500"]);
    published_messages_arrive(peer, domain);
}

/// Everything that the publisher sent is in the bag or counted as lost. The receiver is slow, so that
/// the kernel's buffer overflows.
fn losses_are_counted(mut peer: Peer, domain: u32, pace: Duration) -> (u64, u64) {
    // A machine may be set up for more.
    let small = DdsOptions { receive_buffer_bytes: 1 << 20, ..options(domain) };
    let network = DdsNetwork::join(&small, "/livebag").unwrap();
    peer.wait_for("ready");
    wait_for_publishers(&network, 1);
    let collector = Collector::slow(pace);
    let _subscription =
        network.subscribe(&topic("/peer/flood", best_effort()), collector.clone()).unwrap();
    // The publisher's last messages come one by one, each after an answer, until one has arrived.
    peer.say("go");
    let sent = loop {
        let sent = peer.wait_for("sent").as_u64().unwrap();
        let last = sent as u32 - 1;
        if collector.comes(|message| message[4..8] == last.to_le_bytes()) {
            peer.say("enough");
            break sent;
        }
        peer.say("more");
    };
    // Messages before the first received one are unknown. The publisher waited until it knew of the subscription, so
    // there should be none.
    let unknown = u64::from(collector.first_number());
    assert_eq!(unknown + collector.count() as u64 + collector.lost(), sent);
    assert!(unknown < sent / 10, "{unknown} of {sent}");
    (sent, collector.lost())
}

#[test]
fn best_effort_losses_of_a_python_flood_are_counted_exactly() {
    let Some(python) = Python::find() else { return };
    let domain = domain(7);
    let peer = python.peer(&["flood", &domain.to_string(), "800", "60000"]);
    let (sent, lost) = losses_are_counted(peer, domain, Duration::from_millis(15));
    println!("{sent} sent, {lost} lost");
    assert!(lost > 0, "the flood must be too much, or nothing is shown");
}

#[test]
fn best_effort_losses_of_an_own_flood_are_counted_exactly() {
    let domain = domain(8);
    let peer = Own::peer(&["flood", &domain.to_string(), "4000", "60000"]);
    let (sent, lost) = losses_are_counted(peer, domain, Duration::from_millis(1));
    println!("{sent} sent, {lost} lost");
    assert!(lost > 0, "the flood must be too much, or nothing is shown");
}

#[test]
fn large_images_arrive_from_another_process_bytes_equal() {
    let domain = domain(9);
    let network = join(domain);
    let collector = Collector::new();
    let _subscription =
        network.subscribe(&topic("/own/large", keep_all()), collector.clone()).unwrap();
    let mut peer = Own::peer(&["images", &domain.to_string(), "20", "6000001"]);
    peer.wait_for("sent");
    wait_for("the images", || collector.count() >= 20);
    let expected: Vec<_> = (0..20).map(|number| message(number, 6_000_001)).collect();
    assert!(collector.messages() == expected);
    assert_eq!(collector.lost(), 0);
}

#[test]
fn a_slow_subscription_holds_a_reliable_publisher_up_and_nothing_is_lost() {
    let domain = domain(18);
    let network = join(domain);
    let collector = Collector::slow(Duration::from_millis(2));
    let _subscription =
        network.subscribe(&topic("/own/large", keep_all()), collector.clone()).unwrap();
    // More than all queues and buffers between the two hold.
    let mut peer = Own::peer(&["images", &domain.to_string(), "1000", "100001"]);
    peer.wait_for("sent");
    wait_for("the messages", || collector.count() >= 1000);
    assert_eq!((collector.count(), collector.lost()), (1000, 0));
    assert!(collector.is_in_order());
}

#[test]
fn a_publisher_that_is_started_again_goes_on_and_nothing_is_called_lost() {
    let domain = domain(10);
    let network = join(domain);
    let collector = Collector::new();
    let _subscription =
        network.subscribe(&topic("/own/large", keep_all()), collector.clone()).unwrap();
    for round in 1..=2 {
        let mut peer = Own::peer(&["images", &domain.to_string(), "30", "101"]);
        peer.wait_for("sent");
        wait_for("its messages", || collector.count() >= 30 * round);
        drop(peer);
    }
    assert_eq!(collector.publishers(), 2);
    assert_eq!(collector.lost(), 0);
}

#[test]
fn several_publishers_of_a_topic_come_each_in_its_order() {
    let domain = domain(11);
    let network = join(domain);
    let collector = Collector::new();
    let _subscription =
        network.subscribe(&topic("/own/large", keep_all()), collector.clone()).unwrap();
    let mut peers: Vec<_> =
        (0..3).map(|_| Own::peer(&["images", &domain.to_string(), "200", "333"])).collect();
    for peer in &mut peers {
        peer.wait_for("sent");
    }
    wait_for("all messages", || collector.count() >= 600);
    assert_eq!((collector.count(), collector.publishers(), collector.lost()), (600, 3, 0));
    assert!(collector.is_in_order());
}

/// ROS 2's nodes print a warning about endpoints that announce less than their own do.
#[test]
fn others_see_the_user_data_of_ros_and_the_history_that_was_asked_for() {
    let Some(python) = Python::find() else { return };
    let domain = domain(19);
    let network = join(domain);
    let hashed = TopicRequest {
        type_hash: Some(format!("RIHS01_{}", "cd".repeat(32))),
        ..topic("/own/hashed", Qos { history: History::KeepLast(7), ..Qos::default() })
    };
    let unhashed = topic("/own/unhashed", Qos { durability: LATCHED, ..keep_all() });
    let _publications =
        [network.advertise(&hashed).unwrap(), network.advertise(&unhashed).unwrap()];
    let _subscriptions =
        [&hashed, &unhashed].map(|request| network.subscribe(request, Collector::new()).unwrap());
    let mut peer = python.peer(&["look", &domain.to_string()]);
    peer.wait_for("ready");
    let mut seen = Vec::new();
    wait_for("six endpoints", || {
        peer.say("look");
        seen = peer.wait_for("seen").as_array().unwrap().clone();
        seen.len() >= 6
    });
    let ids = |network: &DdsNetwork| network.endpoints().iter().filter(|one| one.is_own).count();
    assert_eq!((seen.len(), ids(&network)), (6, 4), "two topics, and that of the nodes: {seen:?}");
    let found = |topic: &str, is_writer: bool| {
        let is_it =
            |one: &&serde_json::Value| one["topic"] == topic && one["is_writer"] == is_writer;
        seen.iter().find(is_it).unwrap_or_else(|| panic!("{topic} is not among {seen:?}"))
    };
    let own_hash = format!("typehash=RIHS01_{};", "cd".repeat(32));
    // As rmw_cyclonedds of Jazzy announces it.
    let nodes_hash =
        "typehash=RIHS01_91a0593bacdcc50ea9bdcf849a938b128412cc1ea821245c663bcd26f83c295e;";
    for is_writer in [false, true] {
        assert_eq!(found("rt/own/hashed", is_writer)["user_data"], own_hash);
        assert_eq!(found("ros_discovery_info", is_writer)["user_data"], nodes_hash);
        let without = found("rt/own/unhashed", is_writer)["user_data"].as_str().unwrap();
        assert!(!without.is_empty() && !without.contains("typehash"), "{without}");
    }
    assert_eq!(found("rt/own/hashed", true)["depth"], 7);
    assert_eq!(found("rt/own/unhashed", true)["depth"], 0, "it keeps all");
}

#[test]
fn a_foreign_service_answers() {
    let Some(python) = Python::find() else { return };
    let domain = domain(12);
    let mut peer = python.peer(&["serve", &domain.to_string()]);
    let network = join(domain);
    peer.wait_for("ready");
    let service =
        ServiceRequest { name: "/peer/add", type_name: "example/srv/Add", type_hash: None };
    let request = [&[0, 1, 0, 0][..], &30_i64.to_le_bytes(), &12_i64.to_le_bytes()].concat();
    let answer = network.call(&service, &request, Duration::from_secs(30)).unwrap();
    assert_eq!(answer, [&[0, 1, 0, 0][..], &42_i64.to_le_bytes()].concat());
    assert!(network.endpoints().iter().any(|one| one.role == Role::Server
        && one.name == "/peer/add"
        && one.type_name == "example/srv/Add"));
    let nobody = ServiceRequest { name: "/nobody/here", ..service };
    let error = network.call(&nobody, &request, Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, NetworkError::NoAnswer { .. }), "{error}");
}

#[test]
fn topics_that_are_not_of_ros_come_if_asked_for_with_keys_as_well() {
    let Some(python) = Python::find() else { return };
    let domain = domain(17);
    let mut peer = python.peer(&["shapes", &domain.to_string(), "100"]);
    let foreign = DdsOptions { has_foreign_topics: true, ..options(domain) };
    let network = DdsNetwork::join(&foreign, "/livebag").unwrap();
    peer.wait_for("ready");
    wait_for_publishers(&network, 1);
    let found = network.endpoints().into_iter().find(|one| one.name == "Square").unwrap();
    assert_eq!(found.type_name, "ShapeType");
    let request = TopicRequest { type_name: found.type_name, ..topic("Square", keep_all()) };
    let collector = Collector::new();
    let _subscription = network.subscribe(&request, collector.clone()).unwrap();
    peer.wait_for("sent");
    wait_for("the shapes", || collector.count() >= 100);
    // That instances ended has numbers, too, and is no loss.
    assert_eq!((collector.count(), collector.lost()), (100, 0));
    assert!(join(domain).endpoints().iter().all(|one| one.name != "Square"));
}

#[test]
fn names_and_topics_without_end_are_bounded() {
    let Some(python) = Python::find() else { return };
    let domain = domain(13);
    let mut peer = python.peer(&["crowd", &domain.to_string(), "300"]);
    let network = join(domain);
    peer.wait_for("ready");
    wait_for_publishers(&network, 300);
    wait_for("the name of 10 kB to be refused", || network.refused() >= 1);
    assert!(network.endpoints().iter().all(|one| one.name.len() < 1024));
}

#[test]
fn messages_of_every_length_come_as_they_were_published() {
    let domain = domain(14);
    let network = join(domain);
    let collector = Collector::new();
    let _subscription =
        network.subscribe(&topic("/own/large", keep_all()), collector.clone()).unwrap();
    let mut peer = Own::peer(&["lengths", &domain.to_string()]);
    peer.wait_for("sent");
    wait_for("the messages", || collector.count() >= 20);
    let expected: Vec<_> = (4..24).map(|len| message(7, 20)[..len].to_vec()).collect();
    assert_eq!(collector.messages(), expected);
    assert_eq!((collector.lost(), network.refused()), (0, 0));
}

#[test]
fn two_networks_of_a_process_meet_and_each_knows_its_own() {
    let domain = domain(15);
    let (one, other) = (join(domain), DdsNetwork::join(&options(domain), "/robot/other").unwrap());
    let collector = Collector::new();
    let subscription = one.subscribe(&topic("/meet", keep_all()), collector.clone()).unwrap();
    let publication = other.advertise(&topic("/meet", Qos::default())).unwrap();
    wait_for("the subscription", || publication.subscriptions() == 1);
    let messages: Vec<_> = (0..9).map(|number| message(number, number as usize)).collect();
    for message in &messages {
        publication.publish(message).unwrap();
    }
    wait_for("the messages", || collector.count() >= 9);
    assert_eq!(collector.messages(), messages);
    assert_eq!(collector.lost(), 0);
    wait_for("the other's node", || {
        one.endpoints().iter().any(|found| {
            found.role == Role::Publisher && !found.is_own && found.node == "/robot/other"
        })
    });
    let generation = one.generation();
    drop(subscription);
    publication.publish(&message(10, 10)).unwrap();
    wait_for("the graph to change", || one.generation() != generation);
    assert_eq!(collector.count(), 9);
}

#[test]
fn what_cannot_be_is_refused_with_a_word() {
    let domain = domain(16);
    let absent = DdsOptions { interface: Some("no-such-interface".to_owned()), ..options(domain) };
    let error = DdsNetwork::join(&absent, "/livebag").err().unwrap().to_string();
    assert!(error.contains("no-such-interface"), "{error}");
    let beyond = DdsOptions { domain: 233, ..options(domain) };
    assert!(DdsNetwork::join(&beyond, "/livebag").err().unwrap().to_string().contains("232"));
    let network = join(domain);
    for odd in ["nameless", "/a b", "/"] {
        let error = network.advertise(&topic(odd, Qos::default())).err().unwrap();
        assert!(matches!(error, NetworkError::Name { .. }), "{error}");
    }
    let publication = network.advertise(&topic("/own", Qos::default())).unwrap();
    for odd in [&[][..], &[0, 1], &[0, 99, 0, 0, 1], &[9, 9, 0, 0, 1]] {
        assert!(publication.publish(odd).is_err());
    }
    assert_eq!(publication.subscriptions(), 0);
}

/// What every network promises, of two that have joined in this process.
fn check(test: u32, check: fn(conformance::Join<'_>)) {
    let options = options(domain(test));
    check(&|node: &str| -> Box<dyn Network> {
        Box::new(DdsNetwork::join(&options, node).unwrap())
    });
}

#[test]
fn the_graph_shows_who_is_there() {
    check(20, conformance::the_graph_shows_who_is_there);
}

#[test]
fn bytes_come_as_they_were_published_and_in_order() {
    check(21, conformance::bytes_come_as_they_were_published_and_in_order);
}

#[test]
fn latched_messages_reach_those_who_come_later() {
    check(22, conformance::latched_messages_reach_those_who_come_later);
}

#[test]
fn publishers_of_one_topic_are_told_apart() {
    check(23, conformance::publishers_of_one_topic_are_told_apart);
}

#[test]
fn what_is_dropped_is_over() {
    check(24, conformance::what_is_dropped_is_over);
}

#[test]
fn names_that_are_none_are_refused() {
    check(25, conformance::names_that_are_none_are_refused);
}

/// What [`Own::peer`] runs in its process.
#[test]
#[ignore = "another test's peer"]
fn peer() {
    let Some(arguments) = Own::arguments() else { return };
    let number = |at: usize| arguments[at].parse::<usize>().unwrap();
    let network = join(number(1) as u32);
    match arguments[0].as_str() {
        "flood" => {
            let publication = network.advertise(&topic("/peer/flood", best_effort())).unwrap();
            Own::say("ready", 1);
            Own::heard();
            wait_for("the subscription", || publication.subscriptions() == 1);
            let mut flood = message(0, number(3));
            for count in 0..number(2) as u32 {
                flood[4..8].copy_from_slice(&count.to_le_bytes());
                publication.publish(&flood).unwrap();
            }
            for count in number(2) as u32.. {
                publication.publish(&message(count, 0)).unwrap();
                Own::say("sent", u64::from(count) + 1);
                if Own::heard() == "enough" {
                    break;
                }
            }
        }
        "images" => {
            let publication = network.advertise(&topic("/own/large", keep_all())).unwrap();
            wait_for("the subscription", || publication.subscriptions() == 1);
            for count in 0..number(2) as u32 {
                publication.publish(&message(count, number(3))).unwrap();
            }
            assert!(publication.wait_for_acknowledgements(Duration::from_secs(60)));
            Own::say("sent", 1);
        }
        "lengths" => {
            let publication = network.advertise(&topic("/own/large", keep_all())).unwrap();
            wait_for("the subscription", || publication.subscriptions() == 1);
            for len in 4..24 {
                publication.publish(&message(7, 20)[..len]).unwrap();
            }
            assert!(publication.wait_for_acknowledgements(Duration::from_secs(60)));
            Own::say("sent", 1);
        }
        role => panic!("no role {role}"),
    }
    Own::heard();
}
