//! Losses between a publisher and a subscription are counted: received plus lost messages equal the sent ones.
#![cfg(feature = "zenoh")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use livebag_ros2::network::{Network, Role, TopicRequest, ZenohNetwork, ZenohOptions};
use livebag_ros2::{Qos, Reliability};

use crate::zenoh_common::*;

mod zenoh_common;

/// A link that can be cut and jammed: a relay between two TCP ports.
struct Link {
    port: u16,
    jammed: Arc<AtomicBool>,
    cut: Arc<AtomicBool>,
    ends: Arc<Mutex<Vec<TcpStream>>>,
}

impl Link {
    fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = Self {
            port: listener.local_addr().unwrap().port(),
            jammed: Arc::default(),
            cut: Arc::default(),
            ends: Arc::default(),
        };
        let (jammed, cut, ends) = (link.jammed.clone(), link.cut.clone(), link.ends.clone());
        named("relay", move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                if cut.load(Ordering::Relaxed) {
                    continue;
                }
                let Ok(far) = TcpStream::connect(("127.0.0.1", target)) else { continue };
                ends.lock().unwrap().extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
                for (from, to) in [(near, far), back] {
                    let jammed = jammed.clone();
                    named("relayed", move || carry(from, to, &jammed));
                }
            }
        });
        link
    }

    fn endpoint(&self) -> String {
        format!("tcp/127.0.0.1:{}", self.port)
    }

    fn jam(&self, is_jammed: bool) {
        self.jammed.store(is_jammed, Ordering::Relaxed);
    }

    fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
        for end in self.ends.lock().unwrap().drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    fn mend(&self) {
        self.cut.store(false, Ordering::Relaxed);
    }
}

fn named(name: &str, run: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).unwrap();
}

fn carry(mut from: TcpStream, mut to: TcpStream, jammed: &AtomicBool) {
    let mut buffer = [0; 16 << 10];
    let clock = livebag::Clock::system();
    while let Ok(count) = from.read(&mut buffer) {
        while jammed.load(Ordering::Relaxed) {
            clock.sleep(Duration::from_millis(1));
        }
        if count == 0 || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// A network at either end of a link, without shared memory, which would go around it.
fn linked() -> (ZenohNetwork, ZenohNetwork, Link) {
    let plain = ("transport/shared_memory/enabled".to_owned(), "false".to_owned());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut here =
        ZenohOptions { listen: vec![format!("tcp/127.0.0.1:{port}")], ..Default::default() };
    here.overrides.push(plain.clone());
    let link = Link::to(port);
    let mut there = connecting(&link.endpoint());
    there.overrides.push(plain);
    // Otherwise peers would connect around the link.
    let gossip = ("scouting/gossip/enabled".to_owned(), "false".to_owned());
    here.overrides.push(gossip.clone());
    there.overrides.push(gossip);
    (join(&here, "here"), join(&there, "there"), link)
}

fn camera(reliability: Reliability) -> TopicRequest {
    TopicRequest { qos: Qos { reliability, ..Qos::default() }, ..topic("/image") }
}

/// Received and lost messages are all that were sent since the first received one.
fn account(heard: &Heard, sent: u64) -> u64 {
    let messages = heard.messages();
    let first = messages[0].sequence;
    let lost = heard.lost_count();
    assert!(messages.is_sorted_by(|a, b| a.sequence < b.sequence));
    assert_eq!(messages.len() as u64 + lost, sent - first + 1);
    for message in &messages {
        assert_eq!(message.data, self::message(message.sequence as u32, message.data.len()));
    }
    lost
}

#[test]
fn what_a_jammed_link_drops_is_counted() {
    let (here, there, link) = linked();
    let heard = Heard::new();
    let request = camera(Reliability::BestEffort);
    let _subscription = here.subscribe(&request, heard.clone()).unwrap();
    let publication = there.advertise(&request).unwrap();
    until("the subscription", || publication.subscriptions() == 1);
    let mut sent = 0;
    let mut publish = || {
        sent += 1;
        publication.publish(&message(sent as u32, 200_000)).unwrap();
        sent
    };
    warmed(&heard, || {
        publish();
    });
    link.jam(true);
    // More than sockets and queues hold.
    for _ in 0..300 {
        publish();
    }
    link.jam(false);
    until("the link to be free again", || {
        let last = publish();
        livebag::Clock::system().sleep(Duration::from_millis(10));
        heard.messages().last().unwrap().sequence == last
    });
    let lost = account(&heard, sent);
    assert!(lost > 100, "{lost} lost");
}

#[test]
fn reliable_messages_wait_for_a_jammed_link() {
    let (here, there, link) = linked();
    let heard = Heard::new();
    let request = camera(Reliability::Reliable);
    let _subscription = here.subscribe(&request, heard.clone()).unwrap();
    let publication = there.advertise(&request).unwrap();
    until("the subscription", || publication.subscriptions() == 1);
    let mut sent = 0;
    warmed(&heard, || {
        sent += 1;
        publication.publish(&message(sent, 200_000)).unwrap();
    });
    link.jam(true);
    let from = sent + 1;
    let begun = Arc::new(AtomicBool::new(false));
    let flag = begun.clone();
    let publisher = std::thread::Builder::new().spawn(move || {
        for number in from..from + 100 {
            publication.publish(&message(number, 200_000)).unwrap();
            flag.store(true, Ordering::Relaxed);
        }
        publication
    });
    until("the first message on the jammed link", || begun.load(Ordering::Relaxed));
    assert!(heard.messages().len() < 100);
    link.jam(false);
    let _publication = publisher.unwrap().join().unwrap();
    heard.wait("the last message", |all| all.last().unwrap().sequence == u64::from(from) + 99);
    assert_eq!(account(&heard, u64::from(from) + 99), 0);
}

#[test]
fn what_is_published_while_the_link_is_cut_is_counted() {
    let (here, there, link) = linked();
    let heard = Heard::new();
    let request = camera(Reliability::Reliable);
    let _subscription = here.subscribe(&request, heard.clone()).unwrap();
    let publication = there.advertise(&request).unwrap();
    until("the subscription", || publication.subscriptions() == 1);
    let mut sent = 0;
    let mut publish = || {
        sent += 1;
        publication.publish(&message(sent as u32, 5_000)).unwrap();
        sent
    };
    warmed(&heard, || {
        publish();
    });
    for _ in 0..3 {
        link.cut();
        until("the publisher to be alone", || publication.subscriptions() == 0);
        for _ in 0..50 {
            publish();
        }
        link.mend();
        until("the publisher to be found again", || publication.subscriptions() == 1);
        discovered(&here, Role::Publisher, "/image");
        until("a message", || {
            let last = publish();
            livebag::Clock::system().sleep(Duration::from_millis(5));
            heard.messages().last().unwrap().sequence == last
        });
    }
    let lost = account(&heard, sent);
    assert!(lost >= 150, "{lost} lost");
}
