//! An answer as lines of JSON, one for each message.

use std::io::Write;

use livebag::{Bag, Cursor};
use livebag_format::decode::{DecodeOptions, Decoder};
use serde::Serialize;
use serde_json::Value;

use crate::outcome::CliError;

/// A line. Times are nanoseconds since the Unix epoch.
#[derive(Serialize)]
struct Line<'a> {
    topic: &'a str,
    log_time: u64,
    publish_time: u64,
    sequence: u64,
    bytes: usize,
    #[serde(flatten)]
    decoded: Option<Decoded<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Decoded<'a> {
    Value(Value),
    /// Why there is no value.
    Error(&'a str),
}

/// Writes the rest of `cursor`, straight from the time index: no message is read.
pub fn write(bag: &Bag, cursor: &mut Cursor<'_>, out: &mut impl Write) -> Result<(), CliError> {
    while let Some((topic, entry)) = cursor.next_entry()? {
        let line = Line {
            topic: &bag.topics()[topic].topic().name,
            log_time: entry.log_time_nanos,
            publish_time: entry.publish_time_nanos,
            sequence: entry.sequence,
            bytes: entry.data_bytes as usize,
            decoded: None,
        };
        put(&line, out)?;
    }
    Ok(())
}

/// The same with the values of the messages; of long arrays the first `array_items_max` items.
pub fn write_decoded(
    bag: &Bag,
    cursor: &mut Cursor<'_>,
    array_items_max: usize,
    out: &mut impl Write,
) -> Result<(), CliError> {
    let options = DecodeOptions { array_items_max };
    let decoder =
        |topic: &livebag::BagTopic| Decoder::new(topic.topic()).map_err(|error| error.to_string());
    let decoders: Vec<Result<Decoder, String>> = bag.topics().iter().map(decoder).collect();
    while let Some((topic, message)) = cursor.next()? {
        let failed;
        let decoded = match &decoders[topic] {
            Err(error) => Decoded::Error(error),
            Ok(decoder) => match decoder.decode(message.data, &options) {
                Ok(value) => Decoded::Value(value),
                Err(error) => {
                    failed = error.to_string();
                    Decoded::Error(&failed)
                }
            },
        };
        let line = Line {
            topic: &bag.topics()[topic].topic().name,
            log_time: message.log_time_nanos,
            publish_time: message.publish_time_nanos,
            sequence: message.sequence,
            bytes: message.data.len(),
            decoded: Some(decoded),
        };
        put(&line, out)?;
    }
    Ok(())
}

fn put(line: &Line<'_>, out: &mut impl Write) -> Result<(), CliError> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")?;
    Ok(())
}
