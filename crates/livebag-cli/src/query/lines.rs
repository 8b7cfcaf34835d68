//! An answer as lines of JSON, one for each message.

use std::io::Write;

use livebag_format::decode::{DecodeOptions, Decoder};
use serde::Serialize;
use serde_json::Value;

use super::answer::{Answer, Entry};
use crate::outcome::CliError;

/// A line. Times are nanoseconds since the Unix epoch.
#[derive(Serialize)]
struct Line<'a> {
    topic: &'a str,
    #[serde(with = "livebag_format::json_time")]
    log_time: u64,
    #[serde(with = "livebag_format::json_time")]
    publish_time: u64,
    sequence: u64,
    bytes: usize,
    #[serde(flatten)]
    decoded: Option<Decoded<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Decoded<'a> {
    Value(&'a Value),
    /// Why there is no value.
    Error(&'a str),
}

/// Writes the rest of an answer; messages are not read.
pub fn write(answer: &mut dyn Answer, out: &mut impl Write) -> Result<(), CliError> {
    while let Some(entry) = answer.next()? {
        put(&line(answer, &entry, None), out)?;
    }
    Ok(())
}

fn line<'a>(answer: &'a dyn Answer, entry: &Entry, decoded: Option<Decoded<'a>>) -> Line<'a> {
    Line {
        topic: &answer.topic(entry.topic).name,
        log_time: entry.log_time_nanos,
        publish_time: entry.publish_time_nanos,
        sequence: entry.sequence,
        bytes: entry.bytes as usize,
        decoded,
    }
}

/// The same with the values of the messages; of long arrays the first `array_items_max` items.
pub fn write_decoded(
    answer: &mut dyn Answer,
    array_items_max: usize,
    out: &mut impl Write,
) -> Result<(), CliError> {
    let options = DecodeOptions { array_items_max };
    let mut decoders: Vec<Option<Result<Decoder, String>>> = Vec::new();
    while let Some(entry) = answer.next()? {
        if decoders.len() <= entry.topic {
            decoders.resize_with(entry.topic + 1, || None);
        }
        let decoder = decoders[entry.topic].get_or_insert_with(|| {
            Decoder::new(answer.topic(entry.topic)).map_err(|error| error.to_string())
        });
        let decoded = match (&*decoder, answer.data()?) {
            // It is counted as damaged.
            (_, None) => continue,
            (Err(error), _) => Err(error.clone()),
            (Ok(decoder), Some(data)) => {
                decoder.decode(data, &options).map_err(|error| error.to_string())
            }
        };
        let decoded = match &decoded {
            Ok(value) => Decoded::Value(value),
            Err(error) => Decoded::Error(error),
        };
        put(&line(answer, &entry, Some(decoded)), out)?;
    }
    Ok(())
}

fn put(line: &Line<'_>, out: &mut impl Write) -> Result<(), CliError> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")?;
    Ok(())
}
