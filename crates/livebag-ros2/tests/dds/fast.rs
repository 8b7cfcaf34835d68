//! DDS against Fast DDS, the default of ROS 2 Humble and Jazzy: Debian's package, set up as
//! `rmw_fastrtps` does it (`fast_peer.cpp`).
//!
//! Fast DDS pads messages of one packet to a multiple of four without declaring it, so lengths here are multiples of
//! four.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use livebag_ros2::network::dds::{DdsNetwork, DdsOptions, DiscoveryRange};
use livebag_ros2::network::{Network, Role, TopicRequest};
use livebag_ros2::{Durability, History, Qos, Reliability};

use super::peers::{Collector, wait_for};
use crate::{LATCHED, TYPE, best_effort, domain, keep_all, message, topic};

const RAW_TYPE: &str = "std_msgs::msg::dds_::ByteMultiArray_";
const HASH: &str = "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18";

/// A process with a participant of Fast DDS.
struct Fast {
    child: Child,
    said: BufReader<ChildStdout>,
    ear: Option<ChildStdin>,
}

impl Fast {
    /// Joins the domain; nothing where scripts/setup.sh could not build the program.
    fn join(domain: u32) -> Option<Self> {
        let program = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
            .join("../../build/dds/fast_peer");
        if !program.exists() {
            crate::skipped::skipped(&format!(
                "{} is missing (scripts/setup.sh dds)",
                program.display()
            ));
            return None;
        }
        let mut command = Command::new(program);
        command.arg(domain.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let ear = child.stdin.take();
        Some(Self { child, said, ear })
    }

    fn ask(&mut self, what: &str) -> String {
        let ear = self.ear.as_mut().unwrap();
        writeln!(ear, "{what}").unwrap();
        ear.flush().unwrap();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.said.read_line(&mut line).unwrap() > 0, "the peer of Fast DDS has ended");
        line.trim().to_owned()
    }

    fn number(&mut self, what: &str) -> usize {
        self.ask(what).parse().unwrap()
    }

    /// A publisher or subscriber of a ROS topic: `kind` says which.
    fn endpoint(&mut self, kind: &str, name: &str, qos: &Qos) -> usize {
        let is_reliable = u8::from(qos.reliability == Reliability::Reliable);
        let is_latched = u8::from(qos.durability == Durability::TransientLocal);
        let depth = match qos.history {
            History::KeepLast(depth) => depth,
            History::KeepAll => 0,
        };
        self.number(&format!(
            "{kind} rt{name} {RAW_TYPE} typehash={HASH}; {is_reliable} {is_latched} {depth}"
        ))
    }

    fn write(&mut self, publisher: usize, data: &[u8]) {
        let ear = self.ear.as_mut().unwrap();
        writeln!(ear, "write {publisher} {}", data.len()).unwrap();
        ear.write_all(data).unwrap();
        ear.flush().unwrap();
        assert_eq!(self.line(), "ok");
    }

    fn take(&mut self, subscriber: usize) -> Vec<Vec<u8>> {
        let count = self.number(&format!("take {subscriber}"));
        let mut taken = Vec::new();
        for _ in 0..count {
            let mut data = vec![0; self.line().parse().unwrap()];
            self.said.read_exact(&mut data).unwrap();
            taken.push(data);
        }
        taken
    }

    fn is_matched(&mut self, endpoint: usize) -> bool {
        self.number(&format!("matched {endpoint}")) > 0
    }

    fn wait_for_match(&mut self, endpoint: usize) {
        wait_for("a match with Fast DDS", || self.is_matched(endpoint));
    }
}

impl Drop for Fast {
    fn drop(&mut self) {
        // It leaves the network when its input is closed.
        drop(self.ear.take());
        let _ = self.child.wait();
    }
}

/// Fast DDS knows no tag of Cyclone's to tell programs apart by; so topics have the process in their names.
fn name(of: &str) -> String {
    format!("/fast_{}/{of}", std::process::id())
}

fn options(domain: u32) -> DdsOptions {
    let settings = std::env::var("CYCLONEDDS_URI").ok();
    DdsOptions { domain, range: DiscoveryRange::Localhost, settings, ..DdsOptions::default() }
}

fn join(domain: u32) -> DdsNetwork {
    DdsNetwork::join(&options(domain), "/livebag").unwrap()
}

/// This many messages, whose lengths are multiples of four.
fn messages(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|number| message(number, 4 * (number as usize * 7 % 751))).collect()
}

#[test]
fn fast_publishers_reliable_nothing_lost_and_their_graph() {
    let domain = domain(30);
    let Some(mut fast) = Fast::join(domain) else { return };
    let network = join(domain);
    let sent = messages(300);
    let mut topics = Vec::new();
    for index in 0..3 {
        let name = name(&format!("topic_{index}"));
        let publisher = fast.endpoint("publisher", &name, &keep_all());
        topics.push((name, publisher, Collector::new()));
    }
    wait_for("its publishers", || {
        network.endpoints().iter().filter(|one| one.type_hash.as_deref() == Some(HASH)).count() == 3
    });
    for endpoint in network.endpoints().iter().filter(|one| !one.is_own) {
        assert_eq!((endpoint.role, endpoint.type_name.as_str()), (Role::Publisher, TYPE));
        assert_eq!(endpoint.qos.reliability, Reliability::Reliable);
        assert_eq!(endpoint.qos.durability, Durability::Volatile);
    }
    let _subscriptions: Vec<_> = topics
        .iter()
        .map(|(name, _, to)| network.subscribe(&topic(name, keep_all()), to.clone()).unwrap())
        .collect();
    for (_, publisher, _) in &topics {
        fast.wait_for_match(*publisher);
    }
    for data in &sent {
        topics.iter().for_each(|(_, publisher, _)| fast.write(*publisher, data));
    }
    for (name, publisher, collector) in &topics {
        assert_eq!(fast.ask(&format!("acked {publisher} 60")), "1");
        wait_for(name, || collector.count() >= sent.len());
        assert!(collector.messages() == sent, "{name}: other bytes than were published");
        assert_eq!(collector.lost(), 0, "{name}");
        assert!(collector.has_times_and_publishers() && collector.is_in_order(), "{name}");
    }
    assert_eq!(network.refused(), 0);
    drop(fast);
    wait_for("the publishers to go", || network.endpoints().iter().all(|one| one.is_own));
}

#[test]
fn large_images_of_fast_dds_arrive_whole() {
    let domain = domain(31);
    let Some(mut fast) = Fast::join(domain) else { return };
    let network = join(domain);
    let (name, collector) = (name("large"), Collector::new());
    let publisher = fast.endpoint("publisher", &name, &keep_all());
    let _subscription = network.subscribe(&topic(&name, keep_all()), collector.clone()).unwrap();
    fast.wait_for_match(publisher);
    // In one packet, and in fragments, which Fast DDS does not pad.
    let sent: Vec<_> =
        [60_000, 65_000, 200_003, 6_000_001, 6_220_800].map(|len| message(9, len)).into();
    sent.iter().for_each(|data| fast.write(publisher, data));
    assert_eq!(fast.ask(&format!("acked {publisher} 60")), "1");
    wait_for("the images", || collector.count() >= sent.len());
    assert!(collector.messages() == sent, "other bytes than were published");
    assert_eq!((collector.lost(), network.refused()), (0, 0));
}

#[test]
fn latched_messages_of_fast_dds_reach_who_comes_later() {
    let domain = domain(32);
    let Some(mut fast) = Fast::join(domain) else { return };
    let network = join(domain);
    let (name, collector) = (name("latched"), Collector::new());
    let latched = Qos { durability: LATCHED, history: History::KeepLast(3), ..Qos::default() };
    let publisher = fast.endpoint("publisher", &name, &latched);
    let sent = messages(5);
    sent.iter().for_each(|data| fast.write(publisher, data));
    let _subscription = network.subscribe(&topic(&name, latched), collector.clone()).unwrap();
    wait_for("the kept ones", || collector.count() >= 3);
    fast.write(publisher, &message(9, 40));
    wait_for("the new one", || collector.messages().last() == Some(&message(9, 40)));
    assert_eq!(collector.messages(), [&sent[2..], &[message(9, 40)]].concat());
    assert_eq!(collector.lost(), 0, "what was before is not lost");
}

#[test]
fn best_effort_losses_of_a_flood_of_fast_dds_are_counted_exactly() {
    let domain = domain(33);
    let Some(mut fast) = Fast::join(domain) else { return };
    let small = DdsOptions { receive_buffer_bytes: 1 << 20, ..options(domain) };
    let network = DdsNetwork::join(&small, "/livebag").unwrap();
    let (name, collector) = (name("flood"), Collector::slow(Duration::from_millis(15)));
    let publisher = fast.endpoint("publisher", &name, &best_effort());
    let _subscription = network.subscribe(&topic(&name, best_effort()), collector.clone()).unwrap();
    fast.wait_for_match(publisher);
    let mut sent = 0;
    while sent < 800 {
        fast.write(publisher, &message(sent, 60_000));
        sent += 1;
    }
    // Losses after the last received message are unknown.
    loop {
        fast.write(publisher, &message(sent, 0));
        sent += 1;
        if collector.comes(|data| data == message(sent - 1, 0)) {
            break;
        }
    }
    let unknown = u64::from(collector.first_number());
    assert_eq!(unknown + collector.count() as u64 + collector.lost(), u64::from(sent));
    assert!(collector.lost() > 0, "the flood must be too much, or nothing is shown");
    println!("{sent} sent, {} lost", collector.lost());
}

/// A subscription of Fast DDS receives livebag's messages: small and large, reliable or not, and earlier ones if
/// latched.
#[test]
fn subscriptions_of_fast_dds_take_what_is_published() {
    let domain = domain(34);
    let Some(mut fast) = Fast::join(domain) else { return };
    let network = join(domain);
    let mut sent = messages(300);
    sent.extend([65_000, 70_000, 6_220_800].map(|len| message(400, len)));
    let reliable = name("reliable");
    let publication = network.advertise(&topic(&reliable, keep_all())).unwrap();
    let reader = fast.endpoint("subscriber", &reliable, &keep_all());
    fast.wait_for_match(reader);
    wait_for("the subscription", || publication.subscriptions() == 1);
    sent.iter().for_each(|data| publication.publish(data).unwrap());
    let mut taken = Vec::new();
    wait_for("the messages", || {
        taken.extend(fast.take(reader));
        taken.len() >= sent.len()
    });
    assert!(taken == sent, "other bytes than were published");
    assert!(publication.wait_for_acknowledgements(Duration::from_secs(60)));

    let any = name("best_effort");
    let publication = network.advertise(&topic(&any, Qos::default())).unwrap();
    let reader = fast.endpoint("subscriber", &any, &best_effort());
    fast.wait_for_match(reader);
    wait_for("the subscription", || publication.subscriptions() == 1);
    // One at a time: messages that are not resent should not be lost for their number.
    for data in &sent[..20] {
        let mut taken = Vec::new();
        wait_for("a message", || {
            if taken.is_empty() {
                publication.publish(data).unwrap();
            }
            taken.extend(fast.take(reader));
            !taken.is_empty()
        });
        assert!(taken.iter().all(|one| sent[..20].contains(one)));
    }

    let latched = Qos { durability: LATCHED, history: History::KeepLast(3), ..Qos::default() };
    let map = name("map");
    let publication = network.advertise(&topic(&map, latched)).unwrap();
    sent[..5].iter().for_each(|data| publication.publish(data).unwrap());
    let late = fast.endpoint("subscriber", &map, &latched);
    let mut taken = Vec::new();
    wait_for("the kept ones", || {
        taken.extend(fast.take(late));
        taken.len() >= 3
    });
    assert_eq!(taken, sent[2..5]);
}

#[test]
fn fast_dds_sees_the_user_data_of_ros() {
    let domain = domain(35);
    let Some(mut fast) = Fast::join(domain) else { return };
    let network = join(domain);
    let request =
        TopicRequest { type_hash: Some(HASH.to_owned()), ..topic(&name("own"), keep_all()) };
    let _publication = network.advertise(&request).unwrap();
    let _subscription = network.subscribe(&request, Collector::new()).unwrap();
    let nodes = "rmw_dds_common::msg::dds_::ParticipantEntitiesInfo_ \
                 typehash=RIHS01_91a0593bacdcc50ea9bdcf849a938b128412cc1ea821245c663bcd26f83c295e;";
    let mut expected = Vec::new();
    for side in ["r", "w"] {
        expected.push(format!("{side} ros_discovery_info {nodes}"));
        expected.push(format!("{side} rt{} {RAW_TYPE} typehash={HASH};", request.name));
    }
    wait_for("four endpoints", || {
        let count = fast.number("seen");
        let seen: Vec<_> = (0..count).map(|_| fast.line()).collect();
        expected.iter().all(|one| seen.contains(one))
    });
}

/// Nodes tell their endpoints' names with identities of 24 bytes in Humble, and of 16 since Iron.
#[test]
fn the_node_of_a_participant_of_fast_dds_is_known() {
    for (number, id_bytes) in [(36, 24), (37, 16)] {
        let domain = domain(number);
        let Some(mut fast) = Fast::join(domain) else { return };
        let network = join(domain);
        let name = name("of_a_node");
        let publisher = fast.endpoint("publisher", &name, &keep_all());
        let nodes = fast.number(
            "publisher ros_discovery_info rmw_dds_common::msg::dds_::ParticipantEntitiesInfo_ - 1 1 1",
        );
        let mut id = |of: &str| {
            let digits = fast.ask(&format!("guid {of}"));
            let byte = |at: usize| u8::from_str_radix(&digits[2 * at..][..2], 16).unwrap();
            let mut id: Vec<_> = (0..16).map(byte).collect();
            id.resize(id_bytes, 0);
            id
        };
        let mut data = [&[0, 1, 0, 0][..], &id("-1"), &1_u32.to_le_bytes()].concat();
        data.extend(
            [&2_u32.to_le_bytes()[..], b"/\0\0\0", &7_u32.to_le_bytes(), b"camera\0\0"].concat(),
        );
        data.extend([&0_u32.to_le_bytes()[..], &1_u32.to_le_bytes()].concat());
        data.extend(id(&publisher.to_string()));
        fast.write(nodes, &data);
        wait_for("the node's name", || {
            let endpoints = network.endpoints();
            endpoints.iter().any(|one| one.name == name && one.node == "/camera")
        });
    }
}
