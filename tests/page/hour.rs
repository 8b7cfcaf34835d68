//! A recording of an hour and 78 topics, of small messages: what a long drive asks of the page.

use std::path::Path;

use livebag::{Clock, Message, Overflow, Recorder, RecorderOptions, Topic};
use livebag_format::definitions;

use crate::{Outcome, SECOND};

const TOPICS: u64 = 78;
const SECONDS: u64 = 3600;
/// Messages in ten seconds, of the topics in turn.
const PER_TEN_SECONDS: [u64; 4] = [5, 10, 20, 50];
/// Lost, all of them on `/sensor_07`: from which message on, and how many.
const LOST: (u64, u64) = (9000, 300);

/// Records it at once; it ended a minute ago.
pub fn record(directory: &Path) -> Outcome<()> {
    let options = RecorderOptions {
        profile: "ros2".into(),
        overflow: Overflow::Block,
        count_gaps: true,
        chunk_age_max: None,
        ..RecorderOptions::default()
    };
    let recorder = Recorder::create(directory, options)?;
    let type_name = "std_msgs/msg/Float64";
    let schema = definitions::schema(type_name).unwrap_or_else(|| "float64 data".into());
    let mut writers = Vec::new();
    for number in 0..TOPICS {
        let topic = Topic {
            name: format!("/sensor_{number:02}"),
            type_name: type_name.into(),
            message_encoding: "cdr".into(),
            schema_encoding: "ros2msg".into(),
            schema: schema.clone().into_bytes(),
            ..Topic::default()
        };
        writers.push(recorder.topic(topic)?);
    }
    let start = Clock::system().wall_nanos() - (SECONDS + 60) * SECOND;
    let mut data = [0; 12];
    data[1] = 1;
    for ten in 0..SECONDS / 10 {
        for (number, writer) in writers.iter().enumerate() {
            let count = PER_TEN_SECONDS[number % PER_TEN_SECONDS.len()];
            for at in 0..count {
                let sequence = ten * count + at;
                if number == 7 && (LOST.0..LOST.0 + LOST.1).contains(&sequence) {
                    continue;
                }
                let log_time_nanos = start + ten * 10 * SECOND + at * 10 * SECOND / count;
                let value = (sequence as f64 / 500.0).sin() + number as f64;
                data[4..].copy_from_slice(&value.to_le_bytes());
                let publish_time_nanos = log_time_nanos;
                let message = Message { log_time_nanos, publish_time_nanos, sequence, data: &data };
                writer.write_message(&message)?;
            }
        }
    }
    recorder.finish()?;
    Ok(())
}
