//! A recording whose queue is flooded: one of its sensors sends faster than its bytes can wait, for a moment.

use std::path::Path;
use std::time::Duration;

use livebag::{Clock, Message, Overflow, Recorder, RecorderOptions, Topic, TopicWriter};
use serde_json::json;

use crate::Outcome;

const TOPIC: &str = "/burst";
/// What the queue holds at most: some of the burst's messages.
const QUEUE_BYTES: u64 = 1 << 20;
const MESSAGE_BYTES: usize = 64 << 10;
/// The burst goes on until so many were dropped.
const DROPPED: u64 = 200;
/// Looks before and after the burst, and the pause between two.
const TICKS: u64 = 30;
const TICK: Duration = Duration::from_millis(50);

/// Records it, and tells what was dropped and when.
pub fn record(directory: &Path) -> Outcome<()> {
    let options = RecorderOptions {
        overflow: Overflow::DropNewest,
        cache_bytes_max: QUEUE_BYTES,
        ..RecorderOptions::default()
    };
    let recorder = Recorder::create(directory, options)?;
    let topic = |name: &str| {
        let (name, message_encoding) = (name.into(), "raw".into());
        recorder.topic(Topic { name, message_encoding, ..Topic::default() })
    };
    let mut flood = Flood {
        burst: topic(TOPIC)?,
        calm: topic("/calm")?,
        clock: Clock::system(),
        sequence: 0,
        calm_sequence: 0,
        dropped: Vec::new(),
    };
    flood.calm_down()?;
    while (flood.dropped.len() as u64) < DROPPED {
        if !flood.write(MESSAGE_BYTES) {
            flood.clock.sleep(Duration::from_millis(1));
        }
    }
    flood.calm_down()?;
    let dropped = flood.dropped;
    recorder.finish()?;
    let time = |nanos: Option<&u64>| nanos.map(u64::to_string);
    let told = json!({
        "topic": TOPIC, "dropped": dropped.len(),
        "from_time": time(dropped.first()), "to_time": time(dropped.last()),
    });
    println!("{told}");
    Ok(())
}

struct Flood {
    burst: TopicWriter,
    calm: TopicWriter,
    clock: Clock,
    /// Of the burst's topic, and of the other.
    sequence: u64,
    calm_sequence: u64,
    /// When its messages were dropped.
    dropped: Vec<u64>,
}

impl Flood {
    /// Whether the queue has taken it.
    fn write(&mut self, bytes: usize) -> bool {
        let log_time_nanos = self.clock.wall_nanos();
        self.sequence += 1;
        let message = Message {
            log_time_nanos,
            publish_time_nanos: log_time_nanos,
            sequence: self.sequence,
            data: &vec![7; bytes],
        };
        let is_taken = self.burst.write_message(&message).is_ok();
        if !is_taken {
            self.dropped.push(log_time_nanos);
        }
        is_taken
    }

    /// Small messages now and then, on both topics.
    fn calm_down(&mut self) -> Outcome<()> {
        for _ in 0..TICKS {
            self.write(100);
            let log_time_nanos = self.clock.wall_nanos();
            let publish_time_nanos = log_time_nanos;
            self.calm_sequence += 1;
            let sequence = self.calm_sequence;
            let data = &[1; 100];
            self.calm.write_message(&Message {
                log_time_nanos,
                publish_time_nanos,
                sequence,
                data,
            })?;
            self.clock.sleep(TICK);
        }
        Ok(())
    }
}
