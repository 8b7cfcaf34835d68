//! Containers on Zenoh, asked by livebag and by others, directly and through a router.
#![cfg(feature = "zenoh")]

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use livebag::{Clock, Container, Message, Overflow, Query, Recorder, RecorderOptions, Topic};
use livebag_net::tell::RobotRow;
use livebag_net::zenoh::{Plan, ZenohAddress, ZenohAsker, ZenohError, ZenohOptions, ZenohServer};
use livebag_net::{Catalog, Server, ServerOptions};
use zenoh::Wait;
use zenoh::config::Config;
use zenoh::query::{ConsolidationMode, ReplyKeyExpr};

type Read = Vec<(String, u64, Vec<u8>)>;

/// A finished container with `count` messages on each of two topics, a millisecond apart.
fn container(path: &Path, count: u64, bytes: usize) {
    let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
    let recorder = Recorder::create(path, options).unwrap();
    for name in ["/imu", "/camera/front"] {
        let topic = Topic {
            name: name.into(),
            type_name: "std_msgs/msg/String".into(),
            message_encoding: "cdr".into(),
            schema_encoding: "ros2msg".into(),
            schema: b"string data".to_vec(),
            ..Topic::default()
        };
        let writer = recorder.topic(topic).unwrap();
        for number in 0..count {
            let log_time_nanos = (number + 1) * 1_000_000;
            let data = vec![number as u8; bytes];
            let message =
                Message { log_time_nanos, publish_time_nanos: 7, sequence: number, data: &data };
            writer.write_message(&message).unwrap();
        }
    }
    recorder.finish().unwrap();
}

fn free_endpoint() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("tcp/127.0.0.1:{}", listener.local_addr().unwrap().port())
}

fn connected(endpoint: &str) -> ZenohOptions {
    ZenohOptions { connect: vec![endpoint.to_owned()], ..ZenohOptions::default() }
}

fn serve(path: PathBuf, robot: &str, options: &ZenohOptions) -> ZenohServer {
    let catalog = Catalog::new(&[path], Clock::system(), None).unwrap();
    ZenohServer::start(Arc::new(catalog), robot, options, Clock::system()).unwrap()
}

/// A robot r1 with a recording run1, and where it listens.
fn robot(folder: &Path, count: u64, bytes: usize) -> (ZenohServer, String) {
    let path = folder.join("run1");
    container(&path, count, bytes);
    let endpoint = free_endpoint();
    let options = ZenohOptions { listen: vec![endpoint.clone()], ..ZenohOptions::default() };
    (serve(path, "r1", &options), endpoint)
}

/// Zenoh as any program has it.
fn foreign(endpoint: &str, mode: &str) -> zenoh::Session {
    let mut config = Config::default();
    let here = if mode == "router" { "listen/endpoints" } else { "connect/endpoints" };
    for (key, value) in [
        ("scouting/multicast/enabled", "false".to_owned()),
        ("listen/endpoints", "[]".to_owned()),
        ("mode", format!("\"{mode}\"")),
        (here, format!("[\"{endpoint}\"]")),
    ] {
        config.insert_json5(key, &value).unwrap();
    }
    zenoh::open(config).wait().unwrap()
}

fn all(asker: &ZenohAsker, address: &str, topics: &[&str], plan: &Plan) -> Read {
    let topics: Vec<String> = topics.iter().map(|&topic| topic.to_owned()).collect();
    let address = ZenohAddress::parse(address).unwrap();
    let mut messages = asker.messages(&address, &topics, plan).unwrap();
    let mut read = Vec::new();
    while let Some(message) = messages.next_message().unwrap() {
        let name = messages.topics()[message.topic].name.clone();
        read.push((name, message.log_time_nanos, message.data));
    }
    assert_eq!(messages.lost(), []);
    read
}

#[test]
fn every_kind_of_question_has_the_containers_own_answer() {
    let folder = tempfile::tempdir().unwrap();
    // 1,500 messages of 20 kB: several pages.
    let (_server, endpoint) = robot(folder.path(), 750, 20_000);
    let asker = ZenohAsker::open(&connected(&endpoint), Clock::system()).unwrap();
    let found = asker.find(&ZenohAddress::parse("zenoh").unwrap()).unwrap();
    assert_eq!((&*found[0].robot, &*found[0].recording), ("r1", "run1"));
    let info = asker.info(&found[0]).unwrap().unwrap();
    assert_eq!((info.row.message_count, info.topics.len()), (1500, 2));

    let container = Container::open(&folder.path().join("run1")).unwrap();
    let mut cursor = container.query(&Query::default()).unwrap();
    let mut expected = Vec::new();
    while let Some((topic, message)) = cursor.next().unwrap() {
        let name = container.topics()[topic].topic().name.clone();
        expected.push((name, message.log_time_nanos, message.data.to_vec()));
    }
    let whole = all(&asker, "zenoh/r1/run1", &[], &Plan::History(None, None));
    assert!(whole == expected, "pages and merging lose and change nothing");
    let part = Plan::History(Some("100000000".into()), Some("+0.2s".into()));
    let part = all(&asker, "zenoh/*/*", &["imu"], &part);
    assert_eq!(part.len(), 102);
    assert!(part.iter().all(|(name, time, _)| name == "/imu" && *time >= 100_000_000));
    let latest = all(&asker, "zenoh/r1/*", &[], &Plan::Latest(Duration::from_millis(10)));
    assert!(latest == expected[expected.len() - 22..]);
    let in_time = |decimate: &[&str]| Plan::Auto {
        within: Duration::from_secs(60),
        last: None,
        decimate: decimate.iter().map(|&rate| rate.to_owned()).collect(),
    };
    let mut newest = all(&asker, "zenoh/r1/*", &[], &in_time(&[]));
    assert!(newest.is_sorted_by_key(|(_, time, _)| std::cmp::Reverse(*time)));
    newest.sort_by_key(|(name, time, _)| (*time, name.clone()));
    let mut sorted = expected.clone();
    sorted.sort_by_key(|(name, time, _)| (*time, name.clone()));
    assert!(newest == sorted, "with time enough everything comes");
    // 750 messages of 1 kHz at 100 Hz, over several pages, the other topic as it is.
    let fewer = all(&asker, "zenoh/r1/*", &[], &in_time(&["camera/front:100"]));
    let times = |topic: &str| -> Vec<u64> {
        let of_topic = fewer.iter().filter(|(name, _, _)| name == topic);
        of_topic.map(|(_, time, _)| *time / 1_000_000).collect()
    };
    assert_eq!(times("/imu").len(), 750);
    let expected_times: Vec<u64> = (1..=75).rev().map(|number| number * 10).collect();
    assert_eq!(times("/camera/front"), expected_times);
    let address = ZenohAddress::parse("zenoh/r1/run1").unwrap();
    let wrong = asker.messages(&address, &[], &in_time(&["camera"])).map(drop);
    assert!(matches!(wrong, Err(ZenohError::Ask(_))));

    let everything = Plan::History(None, None);
    let nobody = asker.messages(&ZenohAddress::parse("zenoh/r9").unwrap(), &[], &everything);
    assert!(matches!(nobody, Err(ZenohError::Nobody(_))));
    let mut refused = asker.messages(&address, &["/none".into()], &everything).unwrap();
    assert!(refused.next_message().unwrap().is_none());
    assert!(refused.lost()[0].why.contains("/none"), "{:?}", refused.lost());
}

#[test]
fn others_ask_by_keys_and_zenohs_own_times() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, endpoint) = robot(folder.path(), 100, 10);
    let session = foreign(&endpoint, "peer");
    let ask = |selector: &str, keys: ReplyKeyExpr| {
        let replies = session
            .get(selector)
            .consolidation(ConsolidationMode::None)
            .accept_replies(keys)
            .timeout(Duration::from_secs(20))
            .wait()
            .unwrap();
        let mut count = (0, 0);
        while let Ok(reply) = replies.recv() {
            match reply.into_result() {
                Ok(_) => count.0 += 1,
                Err(_) => count.1 += 1,
            }
        }
        count
    };
    // A session that was opened just now may not know of the queryable yet.
    while ask("livebag/r1/run1/imu", ReplyKeyExpr::MatchingQuery).0 == 0 {
        std::thread::yield_now();
    }
    let keyed = |selector: &str| ask(selector, ReplyKeyExpr::MatchingQuery);
    assert_eq!(keyed("livebag/*/*/imu"), (100, 0));
    assert_eq!(keyed("livebag/r1/run1/camera/*"), (100, 0));
    assert_eq!(keyed("livebag/r1/**"), (200, 0));
    assert_eq!(keyed("livebag/r1/run1/imu?latest=9ms"), (10, 0));
    let times = "[1970-01-01T00:00:00.010Z..1970-01-01T00:00:00.019Z]";
    assert_eq!(keyed(&format!("livebag/r1/run1/imu?_time={times}")), (10, 0));
    assert_eq!(keyed("livebag/r1/run1/imu?_time=[now(-1h)..]"), (0, 0));
    assert_eq!(keyed("livebag/r1/run1/none"), (0, 0));
    assert_eq!(keyed("livebag/r1/run1/imu?messages=3;order=newest"), (3, 0));
    assert_eq!(keyed("livebag/r1/run1/imu?order=newest;decimate=/imu:100"), (10, 0));
    for wrong in [
        "latest=never",
        "order=any",
        "bytes=-1",
        "latest=1s;from=0",
        "decimate=/imu:5",
        "_time=[x]",
        "x=1",
    ] {
        assert_eq!(keyed(&format!("livebag/r1/run1/imu?{wrong}")), (0, 1), "{wrong}");
    }
    // With the word that ends an answer.
    assert_eq!(ask("livebag/r1/run1/imu", ReplyKeyExpr::Any), (101, 0));
    session.close().wait().unwrap();
}

#[test]
fn robots_are_reached_through_a_router() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = free_endpoint();
    let router = foreign(&endpoint, "router");
    let mut servers = Vec::new();
    for robot in ["r1", "r2", "r3"] {
        let path = folder.path().join(format!("run-{robot}"));
        container(&path, 50, 100);
        servers.push(serve(path, robot, &connected(&endpoint)));
    }
    let asker = ZenohAsker::open(&connected(&endpoint), Clock::system()).unwrap();
    // Announcements travel through the router.
    while asker.find(&ZenohAddress::parse("zenoh").unwrap()).unwrap().len() < 3 {}
    let read = all(&asker, "zenoh", &[], &Plan::History(None, None));
    assert_eq!(read.len(), 300);
    assert!(read.is_sorted_by_key(|(_, time, _)| *time), "merged in order of time");
    for robot in ["r1", "r2", "r3"] {
        let of_robot = read.iter().filter(|(name, _, _)| *name == format!("/{robot}/imu"));
        assert_eq!(of_robot.count(), 50);
    }
    drop(servers);
    drop(asker);
    router.close().wait().unwrap();
}

#[test]
fn a_server_lists_what_others_record_and_not_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (own, endpoint) = robot(folder.path(), 5, 100);
    let others = own.others();
    let path = folder.path().join("run2");
    container(&path, 20, 100);
    let other = serve(path.clone(), "r2", &connected(&endpoint));
    let until = |what: &str, is_so: &dyn Fn(&[RobotRow]) -> bool| {
        let clock = Clock::system();
        let began = clock.monotonic_nanos();
        while !is_so(&others.recordings().unwrap()) {
            assert!(clock.monotonic_nanos() - began < 60_000_000_000, "waited too long for {what}");
            clock.sleep(Duration::from_millis(50));
        }
    };
    until("the other robot", &|rows| !rows.is_empty());
    let rows = others.recordings().unwrap();
    assert_eq!((rows.len(), &*rows[0].robot, &*rows[0].name), (1, "r2", "run2"));
    let row = rows[0].recording.as_ref().unwrap();
    assert_eq!((row.message_count, row.topic_count), (40, 2));
    assert!(row.size_bytes > Some(0));

    // As the page gets it.
    let catalog = Catalog::new(&[folder.path().join("run1")], Clock::system(), None).unwrap();
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let options = ServerOptions { listen, robots: Some(own.others()), ..Default::default() };
    let server = Server::start(Arc::new(catalog), options).unwrap();
    assert!(server.status().robots);
    let mut answer = String::new();
    let mut connection = std::net::TcpStream::connect(server.addresses()[0]).unwrap();
    let head = "GET /v1/robots HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    connection.write_all(head.as_bytes()).unwrap();
    connection.read_to_string(&mut answer).unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(serde_json::from_str::<Vec<RobotRow>>(body).unwrap(), *rows);

    drop(other);
    until("its end", &|rows| rows.is_empty());
}
