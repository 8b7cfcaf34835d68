//! How exactly a player keeps time: `play_pace [SECONDS [HZ [BYTES [RATE]]]]`; default: 10 s of 1 kHz and 100 bytes.
//!
//! Records messages with even log times, plays them to an output that notes the time of each, and prints the
//! differences between played and recorded intervals.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use livebag::{
    Clock, Message, Output, Overflow, PlayError, PlayOptions, Player, Recorder, RecorderOptions,
    Topic, TopicOutput,
};

/// When each message came, in nanoseconds of the clock.
#[derive(Clone)]
struct Noted {
    clock: Clock,
    times: Arc<Mutex<Vec<u64>>>,
    /// As a transport would copy them.
    copy: Vec<u8>,
}

impl Output for Noted {
    fn open(&mut self, _: &Topic, bytes_max: usize) -> Result<Box<dyn TopicOutput>, PlayError> {
        Ok(Box::new(Self { copy: vec![0; bytes_max], ..self.clone() }))
    }
}

impl TopicOutput for Noted {
    fn publish(&mut self, message: &Message<'_>) -> Result<(), PlayError> {
        self.copy[..message.data.len()].copy_from_slice(message.data);
        if let Ok(mut times) = self.times.lock() {
            times.push(self.clock.monotonic_nanos());
        }
        Ok(())
    }

    fn name(&self) -> &str {
        "noted"
    }

    fn kind(&self) -> &str {
        "noted"
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Result<Vec<f64>, _> = std::env::args().skip(1).map(|text| text.parse()).collect();
    let numbers = numbers?;
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    let (seconds, hz, bytes, rate) =
        (number(0, 10.0), number(1, 1000.0), number(2, 100.0) as usize, number(3, 1.0));
    let folder = tempfile::tempdir()?;
    let bag = folder.path().join("bag");
    let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
    let recorder = Recorder::create(&bag, options)?;
    let writer = recorder.topic(Topic { name: "/even".into(), ..Topic::default() })?;
    let period_nanos = (1e9 / hz) as u64;
    let data = vec![7; bytes];
    for number in 0..(seconds * hz) as u64 {
        let nanos = 1_000_000_000 + number * period_nanos;
        writer.write_message(&Message {
            log_time_nanos: nanos,
            publish_time_nanos: nanos,
            sequence: number + 1,
            data: &data,
        })?;
    }
    recorder.finish()?;

    let clock = Clock::system();
    let mut output = Noted { clock: clock.clone(), times: Arc::default(), copy: Vec::new() };
    let options = PlayOptions { rate, clock, ..PlayOptions::default() };
    let status = Player::open(&[&bag], options, &mut output)?.run(&mut |_| {})?;
    let times = output.times.lock().map_err(|_| "the player has died")?;
    let wanted_nanos = (period_nanos as f64 / rate) as u64;
    let between = times.windows(2).map(|two| (two[1] - two[0]).abs_diff(wanted_nanos));
    let mut errors: Vec<u64> = between.collect();
    errors.sort_unstable();
    let part = |part: f64| {
        let at = (errors.len() as f64 * part) as usize;
        errors.get(at.min(errors.len().saturating_sub(1))).map_or(0.0, |nanos| *nanos as f64 / 1e3)
    };
    let exact = errors.iter().filter(|nanos| **nanos < 1_000_000).count();
    let span = Duration::from_nanos(times[times.len() - 1] - times[0]);
    println!(
        "{} messages in {span:.3?}, {:.0} MB/s; off the recorded time between two: median {:.1} us, \
         99 % {:.1} us, 99.9 % {:.1} us, most {:.1} us; {:.3} % within 1 ms; at most {:.3?} late",
        status.messages,
        status.bytes as f64 / span.as_secs_f64() / 1e6,
        part(0.5),
        part(0.99),
        part(0.999),
        part(1.0),
        exact as f64 / errors.len().max(1) as f64 * 100.0,
        status.late_max
    );
    Ok(())
}
