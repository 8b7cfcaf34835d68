//! What rmw_zenoh sends along with each message: its publisher's count, its time and its publisher.
//!
//! In Zenoh's serialization: two 64-bit integers, little-endian, and 16 bytes after their number.
//! Before February 2025 rmw_zenoh put a name before each of the three; both are understood.

use super::super::EndpointId;

/// Metadata of a message, a request or a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attachment {
    /// The publisher's count, from 1 on.
    pub(super) sequence: i64,
    /// When it was published, nanoseconds since the Unix epoch.
    pub(super) source_nanos: i64,
    /// Its publisher.
    pub(super) publisher: EndpointId,
}

const NAMES: [&[u8]; 3] = [b"sequence_number", b"source_timestamp", b"source_gid"];

impl Attachment {
    /// As rmw_zenoh writes it.
    pub(super) fn encoded(&self) -> [u8; 33] {
        let mut bytes = [0; 33];
        bytes[..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.source_nanos.to_le_bytes());
        bytes[16] = 16;
        bytes[17..].copy_from_slice(&self.publisher);
        bytes
    }

    /// Reads either form; nothing if it is neither.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let is_named = bytes.len() != 33;
        let mut field = |index: usize| {
            if is_named {
                let (length, rest) = bytes.split_first()?;
                bytes = rest.strip_prefix(NAMES[index])?;
                (usize::from(*length) == NAMES[index].len()).then_some(())?;
            }
            if index == 2 {
                bytes = bytes.strip_prefix(&[16])?;
            }
            let (value, rest) = bytes.split_at_checked(if index == 2 { 16 } else { 8 })?;
            bytes = rest;
            Some(value)
        };
        let sequence = i64::from_le_bytes(field(0)?.try_into().ok()?);
        let source_nanos = i64::from_le_bytes(field(1)?.try_into().ok()?);
        let publisher = field(2)?.try_into().ok()?;
        bytes.is_empty().then_some(Self { sequence, source_nanos, publisher })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE: Attachment =
        Attachment { sequence: 7, source_nanos: 1_700_000_000_000_000_000, publisher: [9; 16] };

    #[test]
    fn both_forms_are_read() {
        assert_eq!(Attachment::decode(&ONE.encoded()), Some(ONE));
        let plain = ONE.encoded();
        let mut named = Vec::new();
        for (name, value) in NAMES.iter().zip([&plain[..8], &plain[8..16], &plain[16..]]) {
            named.push(name.len() as u8);
            named.extend_from_slice(name);
            named.extend_from_slice(value);
        }
        assert_eq!(Attachment::decode(&named), Some(ONE));
        named.push(0);
        assert_eq!(Attachment::decode(&named), None);
    }

    #[test]
    fn what_is_written_is_what_zenoh_serializes() {
        let theirs = zenoh_ext::z_serialize(&(ONE.sequence, ONE.source_nanos, ONE.publisher));
        assert_eq!(&*theirs.to_bytes(), ONE.encoded().as_slice());
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Some(read) = Attachment::decode(&bytes) {
                prop_assert_eq!(&read.encoded()[..], &bytes[..]);
            }
        }
    }
}
