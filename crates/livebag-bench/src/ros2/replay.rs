//! A recording, played into a network and recorded again.

use std::path::Path;

use livebag::{Container, Message, Overflow, Query, Recorder, RecorderOptions, Span, Topic};
use livebag_format::definitions;
use serde_json::json;

use super::party::{Found, Party};
use super::rate::{new_way, start};
use super::{Carrier, Ros2Args, failed};
use crate::clock;
use crate::error::{BenchError, Result};
use crate::record::matrix::Outcome;
use crate::report::{Row, figure, row};
use crate::stats::{Durations, median};

/// Messages a second.
const HERTZ: u64 = 1000;
/// Their bytes: an IMU's.
const BYTES: usize = 320;
const SETTLE_NANOS: u64 = 1_000_000_000;

/// Measures it the requested number of times.
pub fn measure(args: &Ros2Args, carrier: Carrier) -> Result<Outcome> {
    let mut runs = Vec::new();
    for _ in 0..args.repeats {
        runs.push(run(args, carrier)?);
    }
    let of = |name: &str| {
        let values: Vec<_> = runs.iter().filter_map(|run| run[name].as_f64()).collect();
        figure(median(&values))
    };
    let sum = |name: &str| runs.iter().filter_map(|run| run[name].as_u64()).sum::<u64>();
    let summary = row(&json!({
        "what": "replay",
        "network": carrier.name(),
        "taker": "livebag",
        "hertz": HERTZ,
        "published": sum("published"),
        "taken": sum("taken"),
        "lost": sum("published").saturating_sub(sum("taken")),
        "p50_us": of("p50_us"),
        "p99_us": of("p99_us"),
        "within_1ms_percent": of("within_1ms_percent"),
    }));
    Ok(Outcome { rows: vec![summary], runs, failures: Vec::new() })
}

fn run(args: &Ros2Args, carrier: Carrier) -> Result<Row> {
    let folder = tempfile::tempdir_in(args.place.directory());
    let folder = folder.map_err(|e| BenchError::io("making a folder", e))?;
    let (original, again) = (folder.path().join("original"), folder.path().join("again"));
    write(&original, (args.seconds * HERTZ as f64) as u64)?;
    let way = new_way(carrier)?;
    let mut recording = start(&way, true, Party::Record { container: again.clone() })?;
    recording.go()?;
    let mut playing = start(&way, false, Party::Play { container: original.clone() })?;
    playing.go()?;
    let played: Found = playing.result(120 + args.seconds as u64)?;
    clock::sleep(SETTLE_NANOS);
    recording.go()?;
    let recorded: Found = recording.result(120)?;
    playing.go()?;
    playing.finish()?;
    recording.finish()?;
    let (as_was, as_is) = (read(&original)?, read(&again)?);
    let gaps =
        |times: &[u64]| times.windows(2).map(|two| two[1].abs_diff(two[0])).collect::<Vec<_>>();
    let are_same = as_was.len() == as_is.len()
        && as_was.iter().zip(&as_is).all(|(was, is)| was.data == is.data);
    let off = |time: &dyn Fn(&Kept) -> u64| {
        let was = gaps(&as_was.iter().map(|kept| kept.log_time_nanos).collect::<Vec<_>>());
        let is = gaps(&as_is.iter().map(time).collect::<Vec<_>>());
        was.iter().zip(&is).map(|(was, is)| was.abs_diff(*is)).collect::<Vec<_>>()
    };
    let (logged, sent) = (off(&|kept| kept.log_time_nanos), off(&|kept| kept.publish_time_nanos));
    let within = |off: &[u64]| {
        100.0 * off.iter().filter(|nanos| **nanos <= 1_000_000).count() as f64
            / off.len().max(1) as f64
    };
    let durations = Durations::of(logged.iter().copied());
    Ok(row(&json!({
        "what": "replay",
        "network": carrier.name(),
        "published": played.messages,
        "taken": recorded.messages,
        "lost_told": recorded.lost_transport + recorded.lost_queue + recorded.lost_disk,
        "bytes_equal": are_same,
        "p50_us": durations.percentile_us(50.0),
        "p99_us": durations.percentile_us(99.0),
        "within_1ms_percent": within(&logged),
        "sent_within_1ms_percent": within(&sent),
    })))
}

struct Kept {
    log_time_nanos: u64,
    publish_time_nanos: u64,
    data: Vec<u8>,
}

fn write(container: &Path, count: u64) -> Result<()> {
    let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
    let recorder = Recorder::create(container, options).map_err(failed("making a container"))?;
    let type_name = "std_msgs/msg/String";
    let topic = Topic {
        name: "/imu".to_owned(),
        type_name: type_name.to_owned(),
        message_encoding: "cdr".to_owned(),
        schema_encoding: "ros2msg".to_owned(),
        schema: definitions::schema(type_name).unwrap_or_default().into_bytes(),
        ..Topic::default()
    };
    let writer = recorder.topic(topic).map_err(failed("adding a topic"))?;
    for number in 0..count {
        let text = format!("{number:0BYTES$}");
        let mut data = vec![0, 1, 0, 0];
        data.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
        data.extend_from_slice(text.as_bytes());
        data.push(0);
        let nanos = 1_700_000_000_000_000_000 + number * 1_000_000_000 / HERTZ;
        let message = Message {
            log_time_nanos: nanos,
            publish_time_nanos: nanos,
            sequence: number + 1,
            data: &data,
        };
        writer.write_message(&message).map_err(failed("writing"))?;
    }
    recorder.finish().map_err(failed("closing the container"))?;
    Ok(())
}

fn read(container: &Path) -> Result<Vec<Kept>> {
    let bag = Container::open(container).map_err(failed("opening the container"))?;
    let query = Query { topics: vec!["/imu".to_owned()], span: Span::All };
    let mut cursor = bag.query(&query).map_err(failed("querying"))?;
    let mut kept = Vec::new();
    while let Some((_, message)) = cursor.next().map_err(failed("reading"))? {
        kept.push(Kept {
            log_time_nanos: message.log_time_nanos,
            publish_time_nanos: message.publish_time_nanos,
            data: message.data.to_vec(),
        });
    }
    Ok(kept)
}
