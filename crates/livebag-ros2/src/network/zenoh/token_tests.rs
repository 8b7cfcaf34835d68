//! Tokens are read as they are written, and nothing that is sent as one does harm.

use proptest::prelude::*;

use super::*;

const HASH: &str = "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18";

fn endpoint_of(token: &str) -> Option<Endpoint> {
    match parse(token)? {
        Announced::Endpoint { endpoint, .. } => Some(endpoint),
        Announced::Node => None,
    }
}

fn talker() -> Endpoint {
    Endpoint {
        id: [0; 16],
        role: Role::Publisher,
        name: "/chatter".into(),
        type_name: "std_msgs/msg/String".into(),
        type_hash: Some(HASH.into()),
        qos: Qos { history: History::KeepLast(7), ..Qos::default() },
        node: "/talker".into(),
        is_own: false,
    }
}

/// The example of rmw_zenoh's design document, with the type's hash added as sent since.
#[test]
fn the_token_of_a_talker_is_read_and_written() {
    let token = format!(
        "@ros2_lv/2/aac3178e146ba6f1fc6e6a4085e77f21/0/10/MP/%/%/talker/%chatter/\
         std_msgs::msg::dds_::String_/{HASH}/::,7:,:,:,,"
    );
    let read = endpoint_of(&token).unwrap();
    assert_eq!(read, Endpoint { id: names::endpoint_id(&token), ..talker() });
    let node = Node {
        domain: 2,
        session: "aac3178e146ba6f1fc6e6a4085e77f21".into(),
        namespace: "/".into(),
        name: "talker".into(),
    };
    assert_eq!(node.token_of(10, &read), token);
    assert_eq!(parse(&node.token()), Some(Announced::Node));
}

#[test]
fn older_and_newer_tokens_are_read() {
    let with = |rest: &str| format!("@ros2_lv/0/a/0/1/MS/%/%ns%sub/n/%t/p%msg%T/{rest}");
    let read = endpoint_of(&with("TypeHashNotSupported/2:1:1,5")).unwrap();
    assert_eq!((read.type_hash, read.node.as_str()), (None, "/ns/sub/n"));
    assert_eq!(read.qos.history, History::KeepLast(5));
    assert_eq!(read.qos.durability, Durability::TransientLocal);
    assert_eq!(read.type_name, "p/msg/T");
    let newer = endpoint_of(&with("EMPTY_TOPIC_HASH/::2,:1,:,5:3,,1/backends")).unwrap();
    assert_eq!(newer.qos.history, History::KeepAll);
    assert_eq!(newer.qos.deadline_nanos, SECOND + Qos::FOREVER % SECOND);
    assert_eq!(newer.qos.liveliness, Liveliness::ManualByTopic);
}

#[test]
fn what_is_no_token_is_refused() {
    let long = "a".repeat(10_000);
    for token in [
        "",
        "@ros2_lv",
        "other/0/a/0/1/NN/%/%/n",
        "@ros2_lv/x/a/0/1/NN/%/%/n",
        "@ros2_lv/0/a/0/1/XX/%/%/n",
        "@ros2_lv/0/a/0/1/MP/%/%/n",
        "@ros2_lv/0/a/0/1/MP/%/%/n/%t/p::msg::dds_::T_/h",
        "@ros2_lv/0/a/0/1/MP/%/%/n/%t/p::msg::dds_::T_/h/9::,",
        "@ros2_lv/0/a/0/1/MP/%/%/n/%t/p::msg::dds_::T_/h/::,x",
        "@ros2_lv/0/a/0/1/MP/%/%/n/%t/p::msg::dds_::T_/h/::,:,:x,:,,",
        "@ros2_lv/0/a/0/1/MP/%/%/n/%t%%x/p::msg::dds_::T_/h/::,:,:,:,,",
        "@ros2_lv/0/a/0/1/MP/%/%/n/%t\u{7}/p::msg::dds_::T_/h/::,:,:,:,,",
        &format!("@ros2_lv/0/a/0/1/MP/%/%/n/%{long}/p::msg::dds_::T_/h/::,:,:,:,,"),
        &format!("@ros2_lv/0/a/0/1/MP/%/%/n/%t/{long}/h/::,:,:,:,,"),
        &format!("@ros2_lv/0/a/0/1/MP/%/%{long}/n/%t/p/h/::,:,:,:,,"),
    ] {
        assert_eq!(parse(token), None, "{token}");
    }
}

fn times() -> impl Strategy<Value = u64> {
    prop_oneof![Just(Qos::FOREVER), 0..Qos::FOREVER]
}

prop_compose! {
    fn any_qos()(
        reliable: bool, latched: bool, manual: bool, all: bool, depth in 1..u32::MAX,
        deadline_nanos in times(), lifespan_nanos in times(), lease_nanos in times(),
    ) -> Qos {
        Qos {
            reliability: if reliable { Reliability::Reliable } else { Reliability::BestEffort },
            durability: if latched { Durability::TransientLocal } else { Durability::Volatile },
            history: if all { History::KeepAll } else { History::KeepLast(depth) },
            deadline_nanos,
            lifespan_nanos,
            liveliness: if manual { Liveliness::ManualByTopic } else { Liveliness::Automatic },
            lease_nanos,
        }
    }
}

prop_compose! {
    fn any_endpoint()(
        name in "(/[a-z_][a-z0-9_]{0,9}){1,4}", package in "[a-z][a-z0-9_]{0,9}",
        interface in "(msg|srv|action)", type_name in "[A-Z][A-Za-z0-9]{0,9}",
        hash in prop::option::of("RIHS01_[1-9a-f]{64}"),
        role in prop::sample::select(vec![
            Role::Publisher, Role::Subscription, Role::Server, Role::Client,
        ]),
        qos in any_qos(), node in "(/[a-z][a-z0-9_]{0,9}){1,3}",
    ) -> Endpoint {
        let type_name = format!("{package}/{interface}/{type_name}");
        Endpoint { id: [0; 16], role, name, type_name, type_hash: hash, qos, node, is_own: false }
    }
}

proptest! {
    #[test]
    fn tokens_come_back(endpoint in any_endpoint(), domain: u32, number: u32) {
        let (namespace, name) = endpoint.node.rsplit_once('/').unwrap();
        let namespace = if namespace.is_empty() { "/" } else { namespace };
        let node = Node {
            domain, session: "1f".into(), namespace: namespace.into(), name: name.into(),
        };
        let token = node.token_of(number, &endpoint);
        let read = endpoint_of(&token).unwrap();
        prop_assert_eq!(read, Endpoint { id: names::endpoint_id(&token), ..endpoint });
    }

    #[test]
    fn anything_is_read_or_refused(token in "\\PC{0,200}") {
        let _ = parse(&token);
    }

    #[test]
    fn damaged_tokens_are_read_or_refused(
        endpoint in any_endpoint(), at in 0..200_usize, with in "[/%:,@*\u{0}a0ä]{0,3}",
    ) {
        let node = Node {
            domain: 0, session: "1f".into(), namespace: "/".into(), name: "n".into(),
        };
        let mut token = node.token_of(1, &endpoint);
        let at = at.min(token.len());
        token.replace_range(at.., &with);
        if let Some(read) = endpoint_of(&token) {
            prop_assert!(names::check(&read.name, &read.type_name).is_ok());
        }
    }
}
