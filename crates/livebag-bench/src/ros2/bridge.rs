//! From a stream over a network into a stream, compared with the network's own path.

use livebag_shm::{FrameMeta, Reader, StreamOptions, Wait, Writer};
use serde_json::json;

use super::party::{Found, Party};
use super::rate::{new_way, start};
use super::{Carrier, Ros2Args, failed};
use crate::clock;
use crate::error::{BenchError, Result};
use crate::record::matrix::Outcome;
use crate::report::{Row, figure, row};
use crate::stats::{Durations, median};

/// Images a second.
const HERTZ: f64 = 30.0;
/// A frame that has not arrived by then is lost.
const LOST_NANOS: u64 = 2_000_000_000;

/// Measures it the requested number of times.
pub fn measure(args: &Ros2Args, carrier: Carrier) -> Result<Outcome> {
    let mut runs = Vec::new();
    for _ in 0..args.repeats {
        runs.push(bridged(args, carrier)?);
        runs.push(direct(args, carrier)?);
    }
    let rows = ["stream to stream", "transport alone"].map(|taker| {
        let mine: Vec<_> = runs.iter().filter(|run| run["taker"] == taker).collect();
        let of = |name: &str| {
            let values: Vec<_> = mine.iter().filter_map(|run| run[name].as_f64()).collect();
            figure(median(&values))
        };
        let sum = |name: &str| mine.iter().filter_map(|run| run[name].as_u64()).sum::<u64>();
        row(&json!({
            "what": "bridge",
            "network": carrier.name(),
            "taker": taker,
            "hertz": HERTZ,
            "published": sum("published"),
            "taken": sum("taken"),
            "lost": sum("published").saturating_sub(sum("taken")),
            "p50_us": of("p50_us"),
            "p99_us": of("p99_us"),
        }))
    });
    Ok(Outcome { rows: rows.into(), runs, failures: Vec::new() })
}

fn bridged(args: &Ros2Args, carrier: Carrier) -> Result<Row> {
    let name = format!("bench_bridge_{}", std::process::id());
    let (width, height) = (args.bytes as u32 / 3 / 1080, 1080);
    let options = StreamOptions::image(width, height, 3).remove_on_drop(true);
    let mut writer = Writer::create(&name, &options).map_err(failed("making a stream"))?;
    let way = new_way(carrier)?;
    let mut back = start(&way, true, Party::ToStream { prefix: "back.".to_owned() })?;
    back.go()?;
    let mut out = start(&way, false, Party::FromStream { name: name.clone() })?;
    out.go()?;
    let mut pixels = vec![9_u8; (width * height * 3) as usize];
    let mut meta = FrameMeta::image(width, height, width * 3, "bgr8");
    // The first frames find no subscription, or only create the stream at the far end.
    let far = format!("back.{name}");
    let began = clock::monotonic_nanos();
    let mut reader = loop {
        writer.publish(&meta, &pixels).map_err(failed("publishing"))?;
        clock::sleep(100_000_000);
        if let Ok(reader) = Reader::open(&far) {
            break reader;
        }
        if clock::monotonic_nanos() - began > 60_000_000_000 {
            return Err(BenchError::Child { role: far, problem: "never appeared".to_owned() });
        }
    };
    clock::sleep(500_000_000);
    while reader.next().frame.is_some() {}
    let count = (args.seconds * HERTZ) as u64;
    let (mut delays, mut equal) = (Vec::new(), true);
    let mut copy = vec![0_u8; pixels.len()];
    for number in 1..=count {
        pixels[..8].copy_from_slice(&number.to_le_bytes());
        meta.publish_time_nanos = Some(number);
        let sent = clock::monotonic_nanos();
        writer.publish(&meta, &pixels).map_err(failed("publishing"))?;
        while clock::monotonic_nanos() - sent < LOST_NANOS {
            let seen = reader.next_sequence().saturating_sub(1);
            reader.wait(Wait::Futex, seen, std::time::Duration::from_millis(100));
            let Some(frame) = reader.next().frame else { continue };
            let came = clock::monotonic_nanos();
            if frame.copy_to(&mut copy) && frame.header().publish_time_nanos == number {
                delays.push(came - sent);
                equal &= copy == pixels;
                break;
            }
        }
        clock::sleep_until(sent + (1e9 / HERTZ) as u64);
    }
    back.go()?;
    let _: Found = back.result(60)?;
    out.go()?;
    let _: Found = out.result(60)?;
    let delays_of = Durations::of(delays.iter().copied());
    Ok(row(&json!({
        "what": "bridge",
        "network": carrier.name(),
        "taker": "stream to stream",
        "bytes": args.bytes,
        "published": count,
        "taken": delays.len(),
        "pixels_equal": equal,
        "p50_us": delays_of.percentile_us(50.0),
        "p99_us": delays_of.percentile_us(99.0),
    })))
}

fn direct(args: &Ros2Args, carrier: Carrier) -> Result<Row> {
    let way = new_way(carrier)?;
    let mut idle = start(&way, true, Party::Idle)?;
    idle.go()?;
    let publish = Party::Publish { bytes: args.bytes, hertz: HERTZ, seconds: args.seconds };
    let mut publishing = start(&way, false, publish)?;
    publishing.go()?;
    let published: Found = publishing.result(120 + args.seconds as u64)?;
    clock::sleep(1_000_000_000);
    idle.go()?;
    let taken: Found = idle.result(60)?;
    publishing.go()?;
    Ok(row(&json!({
        "what": "bridge",
        "network": carrier.name(),
        "taker": "transport alone",
        "bytes": args.bytes,
        "published": published.messages,
        "taken": taken.messages,
        "p50_us": taken.p50_us,
        "p99_us": taken.p99_us,
    })))
}
