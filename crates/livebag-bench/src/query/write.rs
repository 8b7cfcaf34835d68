//! The same messages in three formats.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use livebag::{Message, Overflow, Recorder, RecorderOptions};

use super::data::{SOURCES, generate};
use super::ros1_writer::Ros1Writer;
use crate::error::{BenchError, Result};
use crate::files;

/// Where the recordings are.
pub struct Recordings {
    /// The container.
    pub container: PathBuf,
    /// The MCAP file.
    pub mcap: PathBuf,
    /// The ROS 1 bag.
    pub bag: PathBuf,
}

fn failed(what: &str) -> impl Fn(&dyn std::fmt::Display) -> BenchError + '_ {
    move |error| BenchError::Child { role: what.to_owned(), problem: error.to_string() }
}

/// Writes all three below `directory`.
pub fn write_all(directory: &Path, scale: f64) -> Result<Recordings> {
    let recordings = Recordings {
        container: directory.join("container"),
        mcap: directory.join("recording.mcap"),
        bag: directory.join("recording.bag"),
    };
    write_container(&recordings.container, scale)?;
    write_mcap(&recordings.mcap, scale)?;
    write_bag(&recordings.bag, scale)?;
    Ok(recordings)
}

fn write_container(path: &Path, scale: f64) -> Result<()> {
    let failed = failed("writing the container");
    let options = RecorderOptions {
        overflow: Overflow::Block,
        chunk_age_max: None,
        ..RecorderOptions::default()
    };
    let recorder = Recorder::create(path, options).map_err(|e| failed(&e))?;
    let writers = SOURCES
        .iter()
        .map(|source| recorder.topic(source.topic()))
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|e| failed(&e))?;
    generate(scale, |at, log_time_nanos, sequence, data| {
        let publish_time_nanos = log_time_nanos;
        let message = Message { log_time_nanos, publish_time_nanos, sequence, data };
        writers[at].write_message(&message)
    })
    .map_err(|e| failed(&e))?;
    recorder.finish().map_err(|e| failed(&e))?;
    Ok(())
}

fn write_mcap(path: &Path, scale: f64) -> Result<()> {
    let failed = failed("writing the MCAP");
    let file = BufWriter::with_capacity(1 << 20, files::create(path)?);
    let mut writer = mcap::WriteOptions::new()
        .compression(None)
        .profile("ros2")
        .calculate_chunk_crcs(false)
        .create(file)
        .map_err(|e| failed(&e))?;
    let mut channels = Vec::new();
    for source in &SOURCES {
        let schema = writer
            .add_schema(source.type_name, "ros2msg", b"byte[] data")
            .map_err(|e| failed(&e))?;
        let channel = writer
            .add_channel(schema, source.name, "cdr", &BTreeMap::new())
            .map_err(|e| failed(&e))?;
        channels.push(channel);
    }
    generate(scale, |at, log_time, sequence, data| {
        let header = mcap::records::MessageHeader {
            channel_id: channels[at],
            sequence: sequence as u32,
            log_time,
            publish_time: log_time,
        };
        writer.write_to_known_channel(&header, data)
    })
    .map_err(|e| failed(&e))?;
    writer.finish().map_err(|e| failed(&e))?;
    let file = writer.into_inner().into_inner().map_err(|e| failed(&e))?;
    file.sync_all().map_err(|e| failed(&e))
}

fn write_bag(path: &Path, scale: f64) -> Result<()> {
    let failed = failed("writing the ROS 1 bag");
    let file = BufWriter::with_capacity(1 << 20, files::create(path)?);
    let topics: Vec<_> = SOURCES.iter().map(|source| source.name).collect();
    let mut writer = Ros1Writer::new(file, &topics).map_err(|e| failed(&e))?;
    generate(scale, |at, nanos, _, data| writer.write(at as u32, nanos, data))
        .map_err(|e| failed(&e))?;
    let mut file = writer.finish().map_err(|e| failed(&e))?;
    file.flush().map_err(|e| failed(&e))?;
    file.get_ref().sync_all().map_err(|e| failed(&e))
}
