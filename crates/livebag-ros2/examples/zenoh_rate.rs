//! Measures images over Zenoh from one process to another: `zenoh_rate receive ENDPOINT`, then
//! `zenoh_rate publish ENDPOINT BYTES HERTZ SECONDS` (0 Hz: as fast as it goes).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use livebag::Clock;
use livebag_ros2::Qos;
use livebag_ros2::network::{
    EndpointId, Network, Receiver, Role, Sample, TopicRequest, ZenohNetwork, ZenohOptions,
};

#[derive(Default)]
struct Sums {
    messages: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    latency_nanos: AtomicU64,
    first_nanos: AtomicU64,
    last_nanos: AtomicU64,
}

impl Receiver for Sums {
    fn sample(&self, sample: &Sample<'_>) {
        let now = Clock::system().wall_nanos();
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(sample.data.len() as u64, Ordering::Relaxed);
        self.latency_nanos.fetch_add(
            now.saturating_sub(sample.publish_time_nanos.unwrap_or(now)),
            Ordering::Relaxed,
        );
        let _ = self.first_nanos.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        self.last_nanos.store(now, Ordering::Relaxed);
    }

    fn lost(&self, _: &EndpointId, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [role, endpoint, numbers @ ..] = arguments.as_slice() else {
        return Err("role, endpoint".into());
    };
    let clock = Clock::system();
    let request = TopicRequest {
        name: "/image".into(),
        type_name: "sensor_msgs/msg/Image".into(),
        type_hash: None,
        qos: Qos::default(),
    };
    let mut options = ZenohOptions::default();
    if role == "receive" {
        options.listen.push(endpoint.clone());
        let network = ZenohNetwork::join(&options, "receiver")?;
        let sums = Arc::new(Sums::default());
        let _subscription = network.subscribe(&request, sums.clone())?;
        let is_there = || network.endpoints().iter().any(|one| one.role == Role::Publisher);
        while !is_there() {
            clock.sleep(Duration::from_millis(10));
        }
        while is_there() {
            clock.sleep(Duration::from_millis(10));
        }
        let of = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        let seconds = (of(&sums.last_nanos) - of(&sums.first_nanos)) as f64 / 1e9;
        println!(
            "received {} messages in {seconds:.2} s, {:.3} GB/s, {} lost, {:.2} ms from publish to receiver",
            of(&sums.messages),
            of(&sums.bytes) as f64 / 1e9 / seconds,
            of(&sums.lost),
            of(&sums.latency_nanos) as f64 / 1e6 / of(&sums.messages) as f64,
        );
        return Ok(());
    }
    let number = |index: usize| numbers[index].parse::<u64>();
    let (bytes, hertz, seconds) = (number(0)?, number(1)?, number(2)?);
    options.connect.push(endpoint.clone());
    let network = ZenohNetwork::join(&options, "publisher")?;
    let hash = format!("RIHS01_{:064x}", 1);
    let publication = network.advertise(&TopicRequest { type_hash: Some(hash), ..request })?;
    while publication.subscriptions() == 0 {
        clock.sleep(Duration::from_millis(10));
    }
    let image = vec![0xa5; bytes as usize];
    let from = clock.monotonic_nanos();
    let mut sent = 0;
    while clock.monotonic_nanos() - from < seconds * 1_000_000_000 {
        publication.publish(&image)?;
        sent += 1;
        if let Some(due) = (sent * 1_000_000_000_u64).checked_div(hertz) {
            let now = clock.monotonic_nanos() - from;
            clock.sleep(Duration::from_nanos(due.saturating_sub(now)));
        }
    }
    println!("sent {sent}");
    Ok(())
}
