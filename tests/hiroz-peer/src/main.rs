//! A ROS 2 node of another implementation than livebag's, told what to do by lines on its standard
//! input. Says `ready` after each, `heard TEXT` for each message. Ends with its input.
//!
//! `talk TOPIC`, `talk-latched TOPIC`, `say TEXT`, `listen TOPIC`, `listen-latched TOPIC`, `serve NAME`.

use std::io::BufRead;

use hiroz::context::{ZContext, ZContextBuilder};
use hiroz::qos::{QosDurability, QosProfile};
use hiroz::{Builder, Result};
use hiroz_msgs::example_interfaces::AddTwoIntsResponse;
use hiroz_msgs::example_interfaces::srv::AddTwoInts;
use hiroz_msgs::std_msgs::String as RosString;

fn qos(word: &str) -> QosProfile {
    let durability = match word.ends_with("-latched") {
        true => QosDurability::TransientLocal,
        false => QosDurability::Volatile,
    };
    QosProfile { durability, ..Default::default() }
}

fn context(endpoint: &str) -> Result<ZContext> {
    ZContextBuilder::default()
        .disable_multicast_scouting()
        .with_mode("peer")
        .with_connect_endpoints([endpoint])
        .with_listen_endpoints::<[&str; 0], &str>([])
        .build()
}

#[tokio::main]
async fn main() -> Result<()> {
    let endpoint = std::env::args().nth(1).expect("an endpoint to connect to");
    let context = context(&endpoint)?;
    let node = context.create_node("hiroz_peer").with_namespace("/elsewhere").build()?;
    let mut publisher = None;
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match word {
            "talk" | "talk-latched" => {
                publisher =
                    Some(node.create_pub::<RosString>(rest).with_qos(qos(word)).build()?);
            }
            "say" => {
                let publisher = publisher.as_ref().expect("`talk` first");
                publisher.publish(&RosString { data: rest.to_owned() })?;
            }
            "listen" | "listen-latched" => {
                let subscription =
                    node.create_sub::<RosString>(rest).with_qos(qos(word)).build()?;
                std::thread::spawn(move || {
                    while let Ok(message) = subscription.recv() {
                        println!("heard {}", message.data);
                    }
                });
            }
            "serve" => {
                let mut server = node.create_service::<AddTwoInts>(rest).build()?;
                std::thread::spawn(move || {
                    while let Ok(request) = server.take_request() {
                        let (a, b) = (request.message().a, request.message().b);
                        let _ = request.reply_blocking(&AddTwoIntsResponse { sum: a + b });
                    }
                });
            }
            _ => panic!("unknown: {line}"),
        }
        println!("ready");
    }
    Ok(())
}
