//! Records that describe a file: its header, schemas and channels.

use std::collections::BTreeMap;

use super::opcode;

/// A header, schema or channel, as the specification has it. Bytes behind the fields mean nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    /// What wrote the file, for what.
    Header {
        /// `ros2`, `ros1` or empty.
        profile: String,
        /// What wrote it.
        library: String,
    },
    /// What messages mean.
    Schema {
        /// Number in the file, not 0.
        id: u16,
        /// Of the type.
        name: String,
        /// Language of `data`: `ros2msg`.
        encoding: String,
        /// The text or bytes.
        data: Vec<u8>,
    },
    /// A topic.
    Channel {
        /// Number in the file.
        id: u16,
        /// 0: none.
        schema_id: u16,
        /// Its name.
        topic: String,
        /// `cdr`.
        message_encoding: String,
        /// What else is said of it.
        metadata: BTreeMap<String, String>,
    },
}

impl Definition {
    /// Parses the body of a record with this opcode. `None` if it is none of the three, or damaged.
    pub fn parse(kind: u8, body: &[u8]) -> Option<Self> {
        let mut rest = body;
        let rest = &mut rest;
        match kind {
            opcode::HEADER => Some(Self::Header { profile: text(rest)?, library: text(rest)? }),
            opcode::SCHEMA => {
                let id = number(rest)?;
                (id != 0).then_some(())?;
                let (name, encoding) = (text(rest)?, text(rest)?);
                Some(Self::Schema { id, name, encoding, data: counted(rest)?.to_vec() })
            }
            opcode::CHANNEL => {
                let (id, schema_id) = (number(rest)?, number(rest)?);
                let (topic, message_encoding) = (text(rest)?, text(rest)?);
                Some(Self::Channel { id, schema_id, topic, message_encoding, metadata: map(rest)? })
            }
            _ => None,
        }
    }
}

fn taken<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<u16> {
    taken(rest, 2)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

fn counted<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let bytes = taken(rest, 4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
    taken(rest, bytes as usize)
}

fn text(rest: &mut &[u8]) -> Option<String> {
    Some(std::str::from_utf8(counted(rest)?).ok()?.to_owned())
}

fn map(rest: &mut &[u8]) -> Option<BTreeMap<String, String>> {
    let mut pairs = counted(rest)?;
    let mut map = BTreeMap::new();
    while !pairs.is_empty() {
        let (key, value) = (text(&mut pairs)?, text(&mut pairs)?);
        map.insert(key, value).is_none().then_some(())?;
    }
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topic;
    use crate::mcap::{RECORD_HEADER_BYTES, put_channel, put_schema};

    fn topic() -> Topic {
        Topic {
            name: "/imu".into(),
            type_name: "sensor_msgs/msg/Imu".into(),
            message_encoding: "cdr".into(),
            schema_encoding: "ros2msg".into(),
            schema: b"float64 x".to_vec(),
            metadata: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        }
    }

    #[test]
    fn what_is_written_is_parsed_and_what_is_cut_is_not() {
        let (mut schema, mut channel) = (Vec::new(), Vec::new());
        put_schema(&mut schema, 7, &topic());
        put_channel(&mut channel, 3, 7, &topic());
        for (kind, record) in [(opcode::SCHEMA, &schema), (opcode::CHANNEL, &channel)] {
            let body = &record[RECORD_HEADER_BYTES..];
            let whole = Definition::parse(kind, body).unwrap();
            match &whole {
                Definition::Schema { id, data, .. } => {
                    assert_eq!((*id, &data[..]), (7, &b"float64 x"[..]))
                }
                Definition::Channel { id, schema_id, metadata, .. } => {
                    assert_eq!((*id, *schema_id, metadata["a"].as_str()), (3, 7, "b"));
                }
                Definition::Header { .. } => panic!("not a header"),
            }
            for length in 0..body.len() {
                assert_eq!(Definition::parse(kind, &body[..length]), None, "cut to {length}");
            }
            let longer = [body, b"more"].concat();
            assert_eq!(Definition::parse(kind, &longer), Some(whole), "bytes behind the fields");
        }
        assert_eq!(Definition::parse(opcode::CHANNEL, &[0xff; 64]), None);
        assert_eq!(Definition::parse(opcode::MESSAGE, &schema), None);
    }
}
