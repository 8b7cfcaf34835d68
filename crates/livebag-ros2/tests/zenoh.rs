//! ROS 2 over Zenoh: between networks of ours, and with peers that speak rmw_zenoh's wire by hand.
#![cfg(feature = "zenoh")]

use std::sync::Arc;
use std::time::Duration;

use livebag_ros2::network::{
    EndpointId, Network, NetworkError, Receiver, Role, Sample, ServiceRequest, ZenohNetwork,
    ZenohOptions,
};
use livebag_ros2::{Qos, Reliability};
use zenoh::Wait;
use zenoh::qos::CongestionControl;

use crate::zenoh_common::*;

mod zenoh_common;

#[test]
fn what_is_published_arrives_as_it_was_with_its_publisher_count_and_time() {
    let place = Place::new();
    let (one, other) = place.pair();
    let heard = Heard::new();
    let _subscription = one.subscribe(&topic("/chatter"), heard.clone()).unwrap();
    let publication = other.advertise(&topic("/chatter")).unwrap();
    until("the subscription", || publication.subscriptions() == 1);
    let publisher = discovered(&one, Role::Publisher, "/chatter");
    assert_eq!(publisher.type_name, "std_msgs/msg/String");
    assert_eq!(publisher.type_hash.as_deref(), Some(HASH));
    assert_eq!((publisher.node.as_str(), publisher.qos), ("/other", Qos::default()));

    warmed(&heard, || publication.publish(&message(0, 4)).unwrap());
    let before = heard.messages().len();
    // The last is too large for the shared memory.
    let lengths = [4, 5, 3_000, 70_000, 6_000_000, 70_000_000];
    for (number, length) in lengths.into_iter().enumerate() {
        publication.publish(&message(number as u32, length)).unwrap();
    }
    heard.wait("the largest message", |all| all.last().unwrap().data.len() == 70_000_000);
    let messages = heard.messages();
    let last = &messages[messages.len() - lengths.len()..];
    for (number, length) in lengths.into_iter().enumerate() {
        assert!(last[number].data == message(number as u32, length), "message {number}");
    }
    assert!(before >= 1);
    assert!(messages.iter().all(|message| message.publisher == publisher.id));
    assert!(messages.is_sorted_by(|a, b| a.sequence + 1 == b.sequence && a.nanos <= b.nanos));
    assert_eq!(heard.lost_count(), 0);
}

#[test]
fn own_endpoints_are_marked_and_leave_when_dropped() {
    let place = Place::new();
    let (one, other) = place.pair();
    let heard = Heard::new();
    let subscription = one.subscribe(&topic("/t"), heard.clone()).unwrap();
    let publication = one.advertise(&topic("/t")).unwrap();
    assert_eq!(publication.subscriptions(), 1);
    assert!(one.endpoints().iter().all(|endpoint| endpoint.is_own));
    publication.publish(&message(1, 10)).unwrap();
    heard.wait_for(1);
    discovered(&other, Role::Subscription, "/t");
    let generation = other.generation();
    drop(subscription);
    publication.publish(&message(2, 10)).unwrap();
    assert_eq!(publication.subscriptions(), 0);
    until("the subscription to leave", || {
        other.endpoints().iter().all(|endpoint| endpoint.role == Role::Publisher)
    });
    assert_ne!(other.generation(), generation);
    drop(publication);
    until("the publication to leave", || other.endpoints().is_empty());
    assert_eq!(heard.messages().len(), 1);
}

#[test]
fn who_comes_late_gets_what_is_latched_once_and_in_order() {
    let place = Place::new();
    let (one, other) = place.pair();
    for (name, reliability) in
        [("/map", Reliability::Reliable), ("/tf_static", Reliability::BestEffort)]
    {
        let qos = Qos { reliability, ..LATCHED };
        let request = livebag_ros2::network::TopicRequest { qos, ..topic(name) };
        let publication = one.advertise(&request).unwrap();
        for number in 1..=5 {
            publication.publish(&message(number, 100)).unwrap();
        }
        discovered(&other, Role::Publisher, name);
        let heard = Heard::new();
        let _subscription = other.subscribe(&request, heard.clone()).unwrap();
        heard.wait_for(3);
        assert_eq!(heard.sequences(), [3, 4, 5]);
        publication.publish(&message(6, 100)).unwrap();
        heard.wait_for(4);
        assert_eq!(heard.sequences(), [3, 4, 5, 6]);
        assert_eq!(heard.messages()[3].data, message(6, 100));
        assert_eq!(heard.lost_count(), 0);
    }
}

#[test]
fn a_topic_whose_hash_is_not_known_meets_those_who_know_it() {
    let place = Place::new();
    let (one, other) = place.pair();
    for qos in [Qos::default(), LATCHED] {
        let known = livebag_ros2::network::TopicRequest { qos, ..topic("/t") };
        let unknown = livebag_ros2::network::TopicRequest { type_hash: None, ..known.clone() };
        for (ours, theirs) in [(&unknown, &known), (&known, &unknown), (&unknown, &unknown)] {
            let publication = one.advertise(ours).unwrap();
            publication.publish(&message(1, 10)).unwrap();
            let publisher = discovered(&other, Role::Publisher, "/t");
            assert_eq!(publisher.type_hash, ours.type_hash);
            let heard = Heard::new();
            let _subscription = other.subscribe(theirs, heard.clone()).unwrap();
            if qos == LATCHED {
                heard.wait_for(1);
                assert_eq!(heard.sequences(), [1]);
            }
            until("the subscription", || publication.subscriptions() == 1);
            warmed(&heard, || publication.publish(&message(2, 10)).unwrap());
            publication.publish(&message(3, 10)).unwrap();
            heard.wait("the last", |all| all.last().unwrap().data == message(3, 10));
            assert_eq!(heard.lost_count(), 0);
            drop(publication);
            until("the publisher to go", || {
                other.endpoints().iter().all(|endpoint| endpoint.role != Role::Publisher)
            });
        }
    }
}

#[test]
fn a_latched_publisher_that_comes_later_is_heard_from_its_first_message() {
    let place = Place::new();
    let one = join(&place.listening(), "one");
    let heard = Heard::new();
    let request = livebag_ros2::network::TopicRequest { qos: LATCHED, ..topic("/map") };
    let _subscription = one.subscribe(&request, heard.clone()).unwrap();
    let other = join(&place.connecting(), "other");
    let publication = other.advertise(&request).unwrap();
    publication.publish(&message(1, 100)).unwrap();
    heard.wait_for(1);
    assert_eq!(heard.messages()[0].data, message(1, 100));
}

#[test]
fn large_messages_travel_in_shared_memory() {
    let place = Place::new();
    let one = join(&place.listening(), "one");
    let peer = place.peer();
    let (tell, told) = std::sync::mpsc::sync_channel(16);
    let _subscriber = peer
        .declare_subscriber(key("/image"))
        .callback(move |sample| {
            let shared = sample.payload().as_shm().is_some();
            let _ = tell.send((sample.payload().to_bytes().into_owned(), shared));
        })
        .wait()
        .unwrap();
    let publication = one.advertise(&topic("/image")).unwrap();
    // Until the two know each other the first messages go nowhere.
    let clock = livebag::Clock::system();
    let image = message(1, 1_000_000);
    let may_share = may_lock_memory();
    until("an image, in shared memory where this user may lock it", || {
        publication.publish(&image).unwrap();
        clock.sleep(Duration::from_millis(5));
        told.try_iter().any(|(data, shared)| {
            assert_eq!(data, image);
            shared || !may_share
        })
    });
}

/// A publisher that waits where the network is slow; Zenoh's own default drops.
fn reliable(peer: &zenoh::Session, key: String) -> zenoh::pubsub::Publisher<'static> {
    let publisher = peer.declare_publisher(key).congestion_control(CongestionControl::Block);
    publisher.wait().unwrap()
}

/// Zenoh locks the memory that it shares; ordinary users may often lock 8 MiB only, and then the same
/// messages go through the socket.
#[expect(clippy::disallowed_methods, reason = "what the kernel allows this test")]
fn may_lock_memory() -> bool {
    const CAP_IPC_LOCK: u64 = 1 << 14;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let limit = limits.lines().find(|line| line.starts_with("Max locked memory")).unwrap();
    u64::from_str_radix(capabilities, 16).unwrap() & CAP_IPC_LOCK != 0
        || limit.split_whitespace().nth(3) == Some("unlimited")
}

#[test]
fn a_node_by_hand_is_understood_and_understands() {
    let place = Place::new();
    let one = join(&ZenohOptions { domain: 0, ..place.listening() }, "/robot/livebag");
    let peer = place.peer();
    let token = format!(
        "@ros2_lv/0/{}/0/10/MP/%/%/talker/%chatter/std_msgs::msg::dds_::String_/{HASH}/::,7:,:,:,,",
        peer.zid()
    );
    let _token = peer.liveliness().declare_token(token).wait().unwrap();
    let endpoint = discovered(&one, Role::Publisher, "/chatter");
    assert_eq!(endpoint.node, "/talker");

    let heard = Heard::new();
    let _subscription = one.subscribe(&topic("/chatter"), heard.clone()).unwrap();
    let publisher = reliable(&peer, key("/chatter"));
    let mut sequence = 0;
    let mut publish = |step: i64, data: &[u8]| {
        sequence += step;
        let attachment = attachment(sequence, 1_000 + sequence, endpoint.id);
        publisher.put(data).attachment(attachment).wait().unwrap();
    };
    warmed(&heard, || publish(1, &message(0, 8)));
    publish(1, &message(1, 8));
    publish(3, &message(2, 8));
    publish(0, &message(2, 8));
    publish(1, &message(3, 8));
    heard.wait("the last message", |all| all.iter().any(|one| one.data == message(3, 8)));
    let messages = heard.messages();
    let [.., a, b, c] = messages.as_slice() else { panic!("three messages") };
    assert_eq!([&a.data, &b.data, &c.data], [&message(1, 8), &message(2, 8), &message(3, 8)]);
    assert_eq!((c.nanos, c.publisher), (1_000 + c.sequence, endpoint.id));
    assert_eq!(heard.lost_count(), 2);

    // The other direction.
    let subscriber = peer
        .declare_subscriber("0/answer/std_msgs::msg::dds_::String_/*")
        .with(zenoh::handlers::FifoChannel::new(1000))
        .wait()
        .unwrap();
    let publication = one.advertise(&topic("/answer")).unwrap();
    let mut got = None;
    until("an answer", || {
        publication.publish(&message(9, 33)).unwrap();
        got = subscriber.recv_timeout(Duration::from_millis(20)).ok().flatten();
        got.is_some()
    });
    let got = got.unwrap();
    assert_eq!(got.key_expr().as_str(), key("/answer"));
    assert_eq!(&*got.payload().to_bytes(), message(9, 33));
    let said: (i64, i64, [u8; 16]) = zenoh_ext::z_deserialize(got.attachment().unwrap()).unwrap();
    assert!(said.0 >= 1 && said.1 > 1_700_000_000_000_000_000);
    let own = one.endpoints().into_iter().find(|endpoint| endpoint.name == "/answer").unwrap();
    assert_eq!((said.2, own.node.as_str()), (own.id, "/robot/livebag"));
}

#[test]
fn publishers_that_ask_how_bytes_are_read_are_heard() {
    let place = Place::new();
    let one = join(&place.listening(), "one");
    let peer = place.peer();
    let heard = Heard::new();
    let _subscription = one.subscribe(&topic("/image"), heard.clone()).unwrap();
    let mut said = String::new();
    until("the subscription's token", || {
        let tokens = peer.liveliness().get("@ros2_lv/0/*/*/*/MS/**").wait().unwrap();
        let Ok(token) = tokens.recv() else { return false };
        said = token.into_result().unwrap().key_expr().to_string();
        true
    });
    assert!(said.ends_with("/::,10:,:,:,,/backends:cpu:"), "{said}");
    let publisher = reliable(&peer, format!("{}/_buf_cpu", key("/image")));
    warmed(&heard, || {
        let said = attachment(1, 1, [1; 16]);
        publisher.put(message(1, 8)).attachment(said).wait().unwrap();
    });
    // The same over both ways is one message.
    let said = attachment(2, 2, [1; 16]);
    publisher.put(message(2, 8)).attachment(said.clone()).wait().unwrap();
    peer.put(key("/image"), message(2, 8)).attachment(said).wait().unwrap();
    let said = attachment(3, 3, [1; 16]);
    peer.put(key("/image"), message(3, 8)).attachment(said).wait().unwrap();
    heard.wait_for(3);
    assert_eq!(heard.sequences(), [1, 2, 3]);
}

#[test]
fn a_publisher_that_begins_anew_loses_nothing_but_what_is_missing() {
    let place = Place::new();
    let one = join(&place.listening(), "one");
    let peer = place.peer();
    let heard = Heard::new();
    let any = livebag_ros2::network::TopicRequest { type_hash: None, ..topic("/t") };
    let _subscription = one.subscribe(&any, heard.clone()).unwrap();
    let publisher = reliable(&peer, key("/t"));
    let mut time = 1;
    let mut publish = |sequence, id: u8, text: u32| {
        time += 1;
        let attachment = attachment(sequence, time, [id; 16]);
        publisher.put(message(text, 8)).attachment(attachment).wait().unwrap();
    };
    let mut warm = 0;
    warmed(&heard, || {
        warm += 1;
        publish(warm, 1, 0);
    });
    publish(1_000, 1, 1);
    // A new publisher, then the old one again: some sessions keep their id over a restart.
    publish(500, 2, 2);
    publish(501, 2, 3);
    publish(1, 1, 4);
    publish(2, 1, 5);
    heard.wait("the last message", |all| all.iter().any(|one| one.data == message(5, 8)));
    let messages = heard.messages();
    let texts: Vec<_> = messages[messages.len() - 5..].iter().map(|one| &one.data).collect();
    let expected: Vec<_> = (1..=5).map(|text| message(text, 8)).collect();
    assert_eq!(texts, expected.iter().collect::<Vec<_>>());
    let before = messages[messages.len() - 6].sequence;
    assert_eq!(heard.lost_count(), 999 - before);
}

#[test]
fn services_are_called() {
    let place = Place::new();
    let one = join(&place.listening(), "one");
    let peer = place.peer();
    let key = format!("0/talker/trigger/std_srvs::srv::dds_::Trigger_/{HASH}");
    let _queryable = peer
        .declare_queryable(&key)
        .complete(true)
        .callback(|query| {
            let mut answer = query.payload().unwrap().to_bytes().into_owned();
            answer.reverse();
            let said = query.attachment().unwrap().clone();
            let (sequence, ..): (i64, i64, [u8; 16]) = zenoh_ext::z_deserialize(&said).unwrap();
            assert!(sequence >= 1);
            let key = query.key_expr().clone();
            let key =
                if key.is_wild() { format!("{}", query.parameters()) } else { key.to_string() };
            let _ = query.reply(key, answer).attachment(said).wait();
        })
        .wait()
        .unwrap();
    let token = format!(
        "@ros2_lv/0/{}/0/11/SS/%/%/talker/%talker%trigger/std_srvs::srv::dds_::Trigger_/{HASH}/\
         ::,10:,:,:,,",
        peer.zid()
    );
    let _token = peer.liveliness().declare_token(token).wait().unwrap();
    let server = discovered(&one, Role::Server, "/talker/trigger");
    assert_eq!(server.type_name, "std_srvs/srv/Trigger");
    let service = |type_hash| ServiceRequest {
        name: "/talker/trigger",
        type_name: "std_srvs/srv/Trigger",
        type_hash,
    };
    for hash in [Some(HASH), None] {
        let answer = one.call(&service(hash), &message(1, 40), PATIENCE).unwrap();
        let mut expected = message(1, 40);
        expected.reverse();
        assert_eq!(answer, expected);
    }
    let nobody = ServiceRequest { name: "/nobody", ..service(Some(HASH)) };
    let error = one.call(&nobody, &message(1, 4), Duration::from_millis(100)).unwrap_err();
    assert!(matches!(error, NetworkError::NoAnswer { .. }), "{error}");
}

#[test]
fn nodes_meet_through_a_router() {
    let place = Place::new();
    let router = ZenohOptions {
        overrides: vec![("mode".to_owned(), "\"router\"".to_owned())],
        ..place.listening()
    };
    let _router = join(&router, "router");
    // Peers learn of each other there, clients speak through it.
    for mode in ["\"peer\"", "\"client\""] {
        let with_mode = || {
            let connect = vec![place.endpoint()];
            let overrides = vec![
                ("mode".to_owned(), mode.to_owned()),
                ("listen/endpoints".to_owned(), "{peer: [\"tcp/127.0.0.1:0\"]}".to_owned()),
            ];
            ZenohOptions { connect, overrides, ..Default::default() }
        };
        let one = join(&with_mode(), "one");
        let other = join(&with_mode(), "other");
        let heard = Heard::new();
        let _subscription = one.subscribe(&topic("/t"), heard.clone()).unwrap();
        let publication = other.advertise(&topic("/t")).unwrap();
        until("the subscription", || publication.subscriptions() == 1);
        warmed(&heard, || publication.publish(&message(1, 1_000)).unwrap());
        assert_eq!(heard.messages()[0].data, message(1, 1_000));
    }
}

#[test]
fn nodes_of_one_machine_meet_without_being_told_where() {
    // A separate domain: nodes of this machine may be there.
    let domain = 1_000_000 + std::process::id();
    let alone = || ZenohOptions { domain, ..Default::default() };
    let (one, other) = (join(&alone(), "one"), join(&alone(), "other"));
    let heard = Heard::new();
    let _subscription = one.subscribe(&topic("/t"), heard.clone()).unwrap();
    let publication = other.advertise(&topic("/t")).unwrap();
    until("the subscription", || publication.subscriptions() == 1);
    warmed(&heard, || publication.publish(&message(1, 10)).unwrap());
    assert!(one.describe().contains("multicast"), "{}", one.describe());
}

#[test]
fn what_is_published_before_leaving_arrives() {
    let place = Place::new();
    for length in [10, 100_000] {
        let (one, other) = place.pair();
        let heard = Heard::new();
        let _subscription = one.subscribe(&topic("/t"), heard.clone()).unwrap();
        let publication = other.advertise(&topic("/t")).unwrap();
        until("the subscription", || publication.subscriptions() == 1);
        warmed(&heard, || publication.publish(&message(0, 10)).unwrap());
        for number in 1..=500 {
            publication.publish(&message(number, length)).unwrap();
        }
        drop((publication, other));
        // Those that warmed it up may be on their way still.
        let last = message(500, length);
        heard.wait("the last message", |all| all.last().unwrap().data == last);
        assert_eq!(heard.lost_count(), 0);
    }
}

/// Reads too slowly for the connection: it is full when the publisher leaves.
struct Slow(Arc<Heard>);

impl Receiver for Slow {
    fn sample(&self, sample: &Sample<'_>) {
        std::thread::park_timeout(Duration::from_millis(2));
        self.0.sample(sample);
    }

    fn lost(&self, publisher: &EndpointId, count: u64) {
        self.0.lost(publisher, count);
    }
}

#[test]
fn a_slow_reader_gets_the_end_as_well() {
    let place = Place::new();
    for length in [1_000, 100_000, 1_000_000] {
        let (one, other) = place.pair();
        let heard = Heard::new();
        let _subscription = one.subscribe(&topic("/t"), Arc::new(Slow(heard.clone()))).unwrap();
        let publication = other.advertise(&topic("/t")).unwrap();
        until("the subscription", || publication.subscriptions() == 1);
        warmed(&heard, || publication.publish(&message(0, 10)).unwrap());
        for number in 1..=200 {
            publication.publish(&message(number, length)).unwrap();
        }
        drop((publication, other));
        let last = message(200, length);
        heard.wait("the last message", |all| all.last().unwrap().data == last);
        assert_eq!(heard.lost_count(), 0);
    }
}

#[test]
fn domains_do_not_meet() {
    let place = Place::new();
    let one = join(&ZenohOptions { domain: 7, ..place.listening() }, "one");
    let other = join(&place.connecting(), "other");
    let same = join(&ZenohOptions { domain: 7, ..place.connecting() }, "same");
    let _publications = [other.advertise(&topic("/a")), same.advertise(&topic("/b"))];
    discovered(&one, Role::Publisher, "/b");
    assert!(one.endpoints().iter().all(|endpoint| endpoint.name == "/b"));
    assert!(one.describe().contains("domain 7"), "{}", one.describe());
}

#[test]
fn liars_are_left_out_counted_and_do_no_harm() {
    let place = Place::new();
    let one = join(&place.listening(), "one");
    let heard = Heard::new();
    let _subscription = one.subscribe(&topic("/t"), heard.clone()).unwrap();
    let peer = place.peer();
    let long = "a".repeat(10_000);
    let zid = peer.zid();
    let own = one.endpoints().pop().unwrap();
    let tokens = [
        format!("@ros2_lv/0/{zid}/0/1/MP/%/%/n/%{long}/p::msg::dds_::T_/h/::,:,:,:,,"),
        format!("@ros2_lv/0/{zid}/0/1/MP/%/%/{long}/%t/p::msg::dds_::T_/h/::,:,:,:,,"),
        format!("@ros2_lv/0/{zid}/0/1/MP/%/%/n/%t/{long}/h/::,:,:,:,,"),
        format!("@ros2_lv/0/{zid}/0/1/XX/%/%/n/%t/p::msg::dds_::T_/h/::,:,:,:,,"),
        format!("@ros2_lv/0/{zid}/0/1/MP/%/%/n"),
        format!("@ros2_lv/0/{zid}/0/1/MP/%/%/n/%t%%u/p::msg::dds_::T_/h/::,:,:,:,,"),
        "@ros2_lv/0/x".to_owned(),
    ];
    let tokens: Vec<_> =
        tokens.iter().map(|token| peer.liveliness().declare_token(token).wait().unwrap()).collect();
    until("seven refusals", || one.refused() == tokens.len() as u64);
    assert_eq!(one.endpoints(), [own]);

    // More would take Zenoh itself minutes in a debug build: it compares each with all.
    let flood: Vec<_> = (0..2_000)
        .map(|number| {
            let token =
                format!("@ros2_lv/0/{zid}/0/9/MP/%/%/n/%t{number}/p::msg::dds_::T_/h/::,:,:,:,,");
            peer.liveliness().declare_token(token).wait().unwrap()
        })
        .collect();
    until("2,000 topics", || one.endpoints().len() == 2_001);

    let publisher = reliable(&peer, key("/t"));
    let refused = one.refused();
    let mut rounds = 0;
    warmed(&heard, || {
        rounds += 1;
        for bad in [&b""[..], b"x", &[0; 32], &[255; 33][..32], long.as_bytes()] {
            publisher.put(message(1, 8)).attachment(bad).wait().unwrap();
        }
        let time = i64::MIN;
        publisher.put(message(1, 3)).attachment(attachment(1, time, [1; 16])).wait().unwrap();
        publisher.put("").attachment(attachment(1, time, [1; 16])).wait().unwrap();
        publisher.put(message(2, 8)).attachment(attachment(-5, time, [1; 16])).wait().unwrap();
    });
    heard.wait("a message", |all| all.iter().any(|one| one.data == message(2, 8)));
    assert!(heard.messages().iter().all(|one| one.data == message(2, 8)));
    assert_eq!((heard.messages()[0].sequence, heard.messages()[0].nanos), (0, 0));
    assert!(one.refused() > refused, "{rounds} rounds");

    // A peer that sends the highest number in another's name does not silence it.
    let put = |sequence, time, text| {
        let said = attachment(sequence, time, [3; 16]);
        publisher.put(message(text, 8)).attachment(said).wait().unwrap();
    };
    put(10, 100, 10);
    put(i64::MAX, 101, 11);
    put(11, 102, 12);
    heard.wait("the honest one", |all| all.iter().any(|one| one.data == message(12, 8)));
    drop((flood, tokens));
    until("the flood to go", || one.endpoints().len() == 1);
}

#[test]
fn what_cannot_be_is_refused_with_a_word() {
    let place = Place::new();
    let one = join(&place.listening(), "one");
    for bad in ["t", "/t/*", "/t//u", "/t$", ""] {
        let error = one.subscribe(&topic(bad), Heard::new()).err().unwrap().to_string();
        assert!(error.contains("no name of a ROS 2 topic"), "{error}");
        assert!(one.advertise(&topic(bad)).is_err());
    }
    let request =
        livebag_ros2::network::TopicRequest { type_hash: Some("**".into()), ..topic("/t") };
    assert!(one.advertise(&request).err().unwrap().to_string().contains("RIHS01"));
    let error = ZenohNetwork::join(&place.connecting(), "a b").err().unwrap().to_string();
    assert!(error.contains("no name of a node"), "{error}");
    let endpoint = "tcp/0.0.0.0:0".to_owned();
    let open = ZenohOptions { listen: vec![endpoint], ..Default::default() };
    assert!(ZenohNetwork::join(&open, "a").err().unwrap().to_string().contains("encryption"));
}
