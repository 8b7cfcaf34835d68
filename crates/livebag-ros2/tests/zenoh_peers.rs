//! ROS 2 over Zenoh with nodes of other implementations: PyPI's eclipse-zenoh speaking rmw_zenoh's wire
//! (`peers/zenoh_node.py`), and hiroz (`tests/hiroz-peer`). Run by `tests/interop/run.sh`, which says by
//! `LIVEBAG_PYTHON` and `LIVEBAG_HIROZ_PEER` where they are; left out where they are not.
#![cfg(feature = "zenoh")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use livebag_ros2::network::{Network, Role, ServiceRequest, TopicRequest};

use crate::zenoh_common::*;

mod zenoh_common;

/// Longest time in which a peer executes its first command, unless it hangs.
const HUNG: Duration = Duration::from_secs(15);

/// A node in another process.
struct Peer {
    command: Command,
    child: Child,
    orders: ChildStdin,
    said: Arc<Mutex<Vec<String>>>,
    ready: usize,
}

impl Peer {
    fn start(mut command: Command, place: &Place) -> Self {
        command.arg(place.endpoint()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut peer = Self::spawn(command);
        peer.is_ready();
        peer
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let (lines, output) = (said.clone(), child.stdout.take().unwrap());
        std::thread::Builder::new()
            .name("peer".to_owned())
            .spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    lines.lock().unwrap().push(line);
                }
            })
            .unwrap();
        Self { command, orders: child.stdin.take().unwrap(), child, said, ready: 0 }
    }

    fn is_ready(&mut self) {
        self.ready += 1;
        until("the peer", || self.has_said_ready());
    }

    fn has_said_ready(&self) -> bool {
        self.said.lock().unwrap().iter().filter(|line| *line == "ready").count() >= self.ready
    }

    /// A peer that does not come back from its first order is started again: one of some four hundred
    /// stopped within its library's declaration of a subscriber.
    fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
        if self.ready > 1 {
            return self.is_ready();
        }
        self.ready += 1;
        if !is_within(HUNG, || self.has_said_ready()) {
            eprintln!("`{order}` hangs in the peer, which is started again");
            let command = std::mem::replace(&mut self.command, Command::new("none"));
            *self = Self::spawn(command);
            self.is_ready();
            writeln!(self.orders, "{order}").unwrap();
            self.is_ready();
        }
    }

    fn heard(&self) -> Vec<String> {
        let said = self.said.lock().unwrap();
        said.iter().filter_map(|line| line.strip_prefix("heard ")).map(str::to_owned).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn python(place: &Place) -> Option<Peer> {
    let Some(python) = std::env::var_os("LIVEBAG_PYTHON") else {
        eprintln!("SKIPPED: LIVEBAG_PYTHON names no Python that has eclipse-zenoh");
        return None;
    };
    let script = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
        .join("tests/peers/zenoh_node.py");
    let mut command = Command::new(python);
    command.arg(script);
    Some(Peer::start(command, place))
}

fn hiroz(place: &Place) -> Option<Peer> {
    let Some(peer) = std::env::var_os("LIVEBAG_HIROZ_PEER") else {
        eprintln!("SKIPPED: LIVEBAG_HIROZ_PEER names no build of tests/hiroz-peer");
        return None;
    };
    Some(Peer::start(Command::new(peer), place))
}

type Start = fn(&Place) -> Option<Peer>;
const PEERS: [Start; 2] = [python, hiroz];

/// A std_msgs/msg/String as CDR.
fn text(text: &str) -> Vec<u8> {
    let mut data = vec![0, 1, 0, 0];
    data.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
    data.extend_from_slice(text.as_bytes());
    data.push(0);
    data
}

#[test]
fn what_they_publish_is_heard() {
    for start in PEERS {
        let place = Place::new();
        let one = join(&place.listening(), "one");
        let heard = Heard::new();
        let any = TopicRequest { type_hash: None, ..topic("/chatter") };
        let _subscription = one.subscribe(&any, heard.clone()).unwrap();
        let Some(mut peer) = start(&place) else { continue };
        peer.order("talk /chatter");
        let publisher = discovered(&one, Role::Publisher, "/chatter");
        assert_eq!(publisher.type_name, "std_msgs/msg/String");
        assert_eq!(publisher.type_hash.as_deref(), Some(HASH));
        assert!(publisher.node.starts_with("/elsewhere/"), "{}", publisher.node);
        warmed(&heard, || peer.order("say warm"));
        let before = heard.messages().len();
        for number in 0..20 {
            peer.order(&format!("say Hällo {number}"));
        }
        heard.wait_for(before + 20);
        let messages = heard.messages();
        let last = &messages[messages.len() - 20..];
        for (number, message) in last.iter().enumerate() {
            assert_eq!(message.data, text(&format!("Hällo {number}")));
            assert_eq!(message.publisher, last[0].publisher);
            assert_eq!(message.sequence, last[0].sequence + number as u64);
            assert!(message.nanos > 1_700_000_000_000_000_000);
        }
        assert_eq!(heard.lost_count(), 0);
    }
}

#[test]
fn they_hear_what_is_published() {
    for start in PEERS {
        let place = Place::new();
        let one = join(&place.listening(), "one");
        let publication = one.advertise(&topic("/chatter")).unwrap();
        let Some(mut peer) = start(&place) else { continue };
        peer.order("listen /chatter");
        until("the subscription", || publication.subscriptions() == 1);
        until("the way to be open", || {
            publication.publish(&text("warm")).unwrap();
            !peer.heard().is_empty()
        });
        let before = peer.heard().iter().filter(|heard| *heard != "warm").count();
        for number in 0..20 {
            // One at a time: hiroz keeps the last ten.
            let said = format!("Hällo {number}");
            publication.publish(&text(&said)).unwrap();
            until("the message", || peer.heard().contains(&said));
        }
        let heard = peer.heard();
        let expected: Vec<_> = (0..20).map(|number| format!("Hällo {number}")).collect();
        assert_eq!(before, 0);
        assert_eq!(heard[heard.len() - 20..], expected);
    }
}

#[test]
fn large_messages_reach_and_leave_another_process() {
    let place = Place::new();
    let one = join(&place.listening(), "one");
    let heard = Heard::new();
    let _subscription = one.subscribe(&topic("/in"), heard.clone()).unwrap();
    let publication = one.advertise(&topic("/out")).unwrap();
    let Some(mut peer) = python(&place) else { return };
    peer.order("talk /in");
    peer.order("listen /out");
    warmed(&heard, || peer.order("say warm"));
    peer.order("bytes 6000000");
    heard.wait("the large one", |all| all.iter().any(|one| one.data.len() == 6_000_009));
    assert_eq!(heard.messages().last().unwrap().data, text(&"0".repeat(6_000_000)));
    until("the other way", || {
        publication.publish(&text(&"1".repeat(6_000_000))).unwrap();
        peer.heard().iter().any(|heard| heard == "6000000 signs")
    });
}

#[test]
fn latched_messages_go_both_ways() {
    for start in PEERS {
        let place = Place::new();
        let one = join(&place.listening(), "one");
        let latched = |name: &str| TopicRequest { qos: LATCHED, ..topic(name) };
        let publication = one.advertise(&latched("/ours")).unwrap();
        publication.publish(&text("early")).unwrap();
        let Some(mut peer) = start(&place) else { continue };
        peer.order("listen-latched /ours");
        until("the early message", || peer.heard() == ["early"]);
        publication.publish(&text("late")).unwrap();
        until("the late message", || peer.heard() == ["early", "late"]);

        peer.order("talk-latched /theirs");
        peer.order("say one");
        peer.order("say two");
        discovered(&one, Role::Publisher, "/theirs");
        let heard = Heard::new();
        let _subscription = one.subscribe(&latched("/theirs"), heard.clone()).unwrap();
        heard.wait_for(2);
        peer.order("say three");
        heard.wait_for(3);
        let texts: Vec<_> = heard.messages().into_iter().map(|message| message.data).collect();
        assert_eq!(texts, [text("one"), text("two"), text("three")]);
        assert_eq!(heard.lost_count(), 0);
    }
}

#[test]
fn their_services_are_called() {
    for start in PEERS {
        let place = Place::new();
        let one = join(&place.listening(), "one");
        let Some(mut peer) = start(&place) else { continue };
        peer.order("serve /add");
        let server = discovered(&one, Role::Server, "/add");
        assert_eq!(server.type_name, "example_interfaces/srv/AddTwoInts");
        for type_hash in [server.type_hash.as_deref(), None] {
            let service = ServiceRequest { name: "/add", type_name: &server.type_name, type_hash };
            let mut request = vec![0, 1, 0, 0];
            request.extend_from_slice(&40_i64.to_le_bytes());
            request.extend_from_slice(&2_i64.to_le_bytes());
            let answer = one.call(&service, &request, PATIENCE).unwrap();
            assert_eq!(answer[..4], [0, 1, 0, 0]);
            assert_eq!(answer[4..12], 42_i64.to_le_bytes());
        }
    }
}

#[test]
fn several_publishers_that_skip_come_and_go_are_accounted_for() {
    let place = Place::new();
    let one = join(&place.listening(), "one");
    let heard = Heard::new();
    let _subscription = one.subscribe(&topic("/t"), heard.clone()).unwrap();
    let Some(mut first) = python(&place) else { return };
    let mut second = python(&place).unwrap();
    first.order("talk /t");
    second.order("talk /t");
    second.order("old");
    let is_there = |message: &str| {
        let message = text(message);
        heard.messages().iter().any(|one| one.data == message)
    };
    for (peer, name) in [(&mut first, "warm-1"), (&mut second, "warm-2")] {
        until("the way to be open", || {
            peer.order(&format!("say {name}"));
            is_there(name)
        });
    }
    first.order("skip 7");
    first.order("say after-7");
    second.order("skip 11");
    second.order("say after-11");
    until("both", || is_there("after-7") && is_there("after-11"));
    assert_eq!(heard.lost_count(), 18);
    // The same process as a new publisher, and the same topic from a new process.
    first.order("leave");
    first.order("talk /t");
    until("the new publisher", || {
        first.order("say anew");
        is_there("anew")
    });
    drop(second);
    until("the second to go", || one.endpoints().len() == 2);
    let mut third = python(&place).unwrap();
    third.order("talk /t");
    until("the third", || {
        third.order("say third");
        is_there("third")
    });
    assert_eq!(heard.lost_count(), 18);
    let mut publishers: Vec<_> =
        heard.messages().into_iter().map(|message| message.publisher).collect();
    publishers.sort_unstable();
    publishers.dedup();
    assert_eq!(publishers.len(), 4);
}
