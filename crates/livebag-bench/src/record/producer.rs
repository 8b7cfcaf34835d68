//! The producer process of the sensor workloads: publishes every topic into its stream.

use livebag_shm::Writer;
use serde::{Deserialize, Serialize};

use super::control::Control;
use super::workload::Topic;
use super::{Mode, RunOptions};
use crate::child;
use crate::clock;
use crate::error::{BenchError, Result};
use crate::frame;

/// The hidden verb under which this program is started again.
pub const ROLE: &str = "record-producer";

/// Pause of an unpaced producer that finds every slot taken. Short against the time in which a
/// disk takes a frame (2 ms), so that no slot waits long.
const TAKEN_PAUSE_NANOS: u64 = 50_000;

/// The producer's result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Produced {
    /// Messages of each topic, in the workload's order.
    pub published: Vec<u64>,
    /// The producer's own CPU time, which no recorder is charged with.
    pub cpu_nanos: u64,
    /// How far behind its pace the producer was at worst.
    pub late_nanos_max: u64,
}

/// One topic while it is published.
struct Source {
    topic: Topic,
    writer: Writer,
    published: u64,
    count: u64,
    /// When its cable is free again.
    not_before_nanos: u64,
}

impl Source {
    /// Publishes the next frame. Paced, it is filled like a sensor's, all of it; unpaced, it is
    /// only marked, so that the recorder has the machine to itself.
    fn publish(&mut self, mode: Mode) -> Result<()> {
        let sequence = self.published + 1;
        let bytes = self.topic.shape.bytes();
        let mut loan = self.writer.loan();
        let memory = &mut loan.payload_mut()[..bytes];
        match mode {
            Mode::Paced => frame::fill(memory, sequence),
            Mode::Unpaced => frame::mark(memory, sequence),
        }
        loan.publish(&self.topic.shape.frame_meta(), bytes)
            .map_err(|e| BenchError::system("livebag", "publishing a frame")(&e))?;
        self.published = sequence;
        Ok(())
    }
}

/// The producer process.
pub fn produce(orders: &str) -> Result<()> {
    let options: RunOptions = child::orders(orders)?;
    if let Some(pins) = options.pins {
        child::bind_to(pins.producer)?;
    }
    if options.sensors_first {
        child::go_first();
    }
    let topics = options.workload.topics();
    let control = Control::create(&options.name, topics.len())?;
    let mut sources = Vec::with_capacity(topics.len());
    for topic in topics {
        let writer = Writer::create(&topic.stream_name(&options.name), &topic.stream_options())
            .map_err(|e| BenchError::system("livebag", "creating a stream")(&e))?;
        let count = topic.count(options.seconds);
        sources.push(Source { topic, writer, published: 0, count, not_before_nanos: 0 });
    }
    child::ready_and_wait()?;
    let cpu_start = clock::process_cpu_nanos();
    let late_nanos_max = match options.mode {
        Mode::Paced => paced(&mut sources, &control, options.sensors_first)?,
        Mode::Unpaced => unpaced(&mut sources, &control).map(|()| 0)?,
    };
    child::answer(&Produced {
        published: sources.iter().map(|s| s.published).collect(),
        cpu_nanos: clock::process_cpu_nanos() - cpu_start,
        late_nanos_max,
    })?;
    // The streams live until the recorder has taken their last frames.
    child::wait_for_go()
}

/// Publishes each topic at its rate; topics of one rate are spread over the period, like unsynchronised sensors. A late
/// frame is published at once and none is left out; with `keeps_apart` at least half a period after the one before,
/// since no sensor's cable carries them faster: after a standstill of the machine the ring is not filled in one
/// instant.
fn paced(sources: &mut [Source], control: &Control, keeps_apart: bool) -> Result<u64> {
    let start = clock::monotonic_nanos() + 100_000_000;
    let topics = sources.len() as f64;
    let due = |source: &Source, index: usize| {
        let offset = (index as f64 / topics) / source.topic.rate_hz;
        start + ((source.published as f64 / source.topic.rate_hz + offset) * 1e9) as u64
    };
    let mut late_nanos_max = 0;
    loop {
        let next = sources
            .iter()
            .enumerate()
            .filter(|(_, source)| source.published < source.count)
            .map(|(index, source)| (due(source, index), index))
            .min();
        let Some((due_nanos, index)) = next else { return Ok(late_nanos_max) };
        clock::sleep_until(due_nanos);
        late_nanos_max = late_nanos_max.max(clock::monotonic_nanos() - due_nanos);
        control.start();
        let source = &mut sources[index];
        if keeps_apart {
            clock::sleep_until(source.not_before_nanos);
            source.not_before_nanos =
                clock::monotonic_nanos() + (0.5e9 / source.topic.rate_hz) as u64;
        }
        source.publish(Mode::Paced)?;
    }
}

/// Publishes whatever topic has a free slot until all frames are out.
fn unpaced(sources: &mut [Source], control: &Control) -> Result<()> {
    control.start();
    while sources.iter().any(|source| source.published < source.count) {
        let mut any = false;
        for (index, source) in sources.iter_mut().enumerate() {
            // The slot of the frame being made must not be one that is still being read, nor one about to be copied:
            // livebag copies frames once half of the slots hold newer ones.
            let room = u64::from(source.topic.shape.slots()) / 2;
            let free = source.published < control.done(index) + room;
            if free && source.published < source.count {
                source.publish(Mode::Unpaced)?;
                any = true;
            }
        }
        if !any {
            clock::sleep(TAKEN_PAUSE_NANOS);
        }
    }
    Ok(())
}
