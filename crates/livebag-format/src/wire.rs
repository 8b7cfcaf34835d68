//! A bounds-checked cursor over one encoded message: CDR in either byte order, or ROS 1.
//!
//! CDR version 1 (OMG DDSI-RTPS 2.5 section 10, XTypes 1.3 section 7.4). Version 2, which no RMW writes, puts lengths
//! before sequences of structures and is refused. A message has four bytes of encapsulation, then primitives aligned to
//! their size counted from the end of the encapsulation; the length of a string includes its NUL. ROS 1: little-endian,
//! packed, strings without a NUL.

/// Why bytes are not the message that they were said to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The message ends inside a value.
    #[error(
        "the message ends too early: {wanted} bytes wanted at offset {offset}, {left} are there"
    )]
    Truncated {
        /// Offset of the value, from the start of the message, encapsulation included.
        offset: usize,
        /// Size of the value in bytes.
        wanted: usize,
        /// Bytes that follow `offset`.
        left: usize,
    },
    /// The first two bytes name an encoding that is not read here.
    #[error(
        "expected plain CDR version 1 (representation 0x0000 or 0x0001), found representation {found:#06x}"
    )]
    Encapsulation {
        /// The representation identifier found.
        found: u16,
    },
    /// The schema names types within types without end.
    #[error("the schema nests its types deeper than {depth_max} levels")]
    Depth {
        /// How many are followed.
        depth_max: usize,
    },
    /// The schema makes more values of the message than the message has bytes.
    #[error("the schema makes more values of the message than its {bytes} bytes can hold")]
    Excess {
        /// Length of the message.
        bytes: usize,
    },
    /// More values than were to be kept.
    #[error(
        "the message has more than {values_max} values: ask for fewer items of its arrays, or for its bytes"
    )]
    Values {
        /// How many were to be kept.
        values_max: usize,
    },
    /// More items in one column than its offsets can count.
    #[error("a column takes at most {items_max} items: take fewer messages at once")]
    Items {
        /// How many it takes.
        items_max: usize,
    },
    /// Bytes behind the last value.
    #[error("the message has {bytes} bytes, and its definition accounts for {used} of them")]
    TooLong {
        /// Bytes that the definition accounts for.
        used: usize,
        /// Length of the message.
        bytes: usize,
    },
    /// A type whose encoding is not read here.
    #[error("the field {field} is a wstring, which is not decoded")]
    WideString {
        /// Name of the field.
        field: String,
    },
    /// The message is not valid JSON.
    #[error("expected JSON: {reason}")]
    Json {
        /// The JSON reader's error.
        reason: String,
    },
    /// A string is not UTF-8.
    #[error("the string at offset {offset} is not UTF-8")]
    NotUtf8 {
        /// Offset of the first byte of the string.
        offset: usize,
    },
}

/// How the values of a message are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    little_endian: bool,
    /// Largest alignment: 8 in CDR, 1 in ROS 1.
    align_max: usize,
    /// Strings end in a NUL that their length counts (CDR).
    nul_terminated: bool,
    /// Offset from which alignment counts.
    origin: usize,
}

/// A cursor over one message.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    layout: Layout,
}

macro_rules! number {
    ($name:ident, $type:ty) => {
        pub(crate) fn $name(&mut self) -> Result<$type, DecodeError> {
            const BYTES: usize = size_of::<$type>();
            self.align(BYTES)?;
            let raw = self.take(BYTES)?.try_into().expect("take gives the length asked for");
            Ok(if self.layout.little_endian {
                <$type>::from_le_bytes(raw)
            } else {
                <$type>::from_be_bytes(raw)
            })
        }
    };
}

impl<'a> Cursor<'a> {
    /// A CDR message, encapsulation included.
    pub(crate) fn cdr(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let Some(head) = bytes.first_chunk::<4>() else {
            return Err(DecodeError::Truncated { offset: 0, wanted: 4, left: bytes.len() });
        };
        let little_endian = match u16::from_be_bytes([head[0], head[1]]) {
            0x0000 => false,
            0x0001 => true,
            found => return Err(DecodeError::Encapsulation { found }),
        };
        let layout = Layout { little_endian, align_max: 8, nul_terminated: true, origin: 4 };
        Ok(Cursor { bytes, at: 4, layout })
    }

    /// A message in ROS 1's serialisation.
    pub(crate) fn ros1(bytes: &'a [u8]) -> Self {
        let layout = Layout { little_endian: true, align_max: 1, nul_terminated: false, origin: 0 };
        Cursor { bytes, at: 0, layout }
    }

    /// Whether numbers are little-endian.
    pub(crate) fn is_little_endian(&self) -> bool {
        self.layout.little_endian
    }

    /// Bytes not yet read.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Moves to the next multiple of `size_bytes`, if the layout aligns.
    pub(crate) fn align(&mut self, size_bytes: usize) -> Result<(), DecodeError> {
        let unit = size_bytes.min(self.layout.align_max);
        // Both are powers of two.
        let past = (self.at - self.layout.origin) & (unit - 1);
        if past != 0 {
            self.take(unit - past)?;
        }
        Ok(())
    }

    /// The next `wanted` bytes.
    pub(crate) fn take(&mut self, wanted: usize) -> Result<&'a [u8], DecodeError> {
        let left = self.left();
        if wanted > left {
            return Err(DecodeError::Truncated { offset: self.at, wanted, left });
        }
        let taken = &self.bytes[self.at..self.at + wanted];
        self.at += wanted;
        Ok(taken)
    }

    number!(u8, u8);
    number!(i8, i8);
    number!(u16, u16);
    number!(i16, i16);
    number!(u32, u32);
    number!(i32, i32);
    number!(u64, u64);
    number!(i64, i64);
    number!(f32, f32);
    number!(f64, f64);

    pub(crate) fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.u8()? != 0)
    }

    /// A string's bytes, without the NUL. Writers differ on the empty string (length 0 or 1) and
    /// some leave the NUL out; both are read.
    pub(crate) fn string_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.u32()? as usize;
        let raw = self.take(length)?;
        if self.layout.nul_terminated { Ok(raw.strip_suffix(&[0]).unwrap_or(raw)) } else { Ok(raw) }
    }

    pub(crate) fn str(&mut self) -> Result<&'a str, DecodeError> {
        let raw = self.string_bytes()?;
        let offset = self.at - raw.len();
        str::from_utf8(raw).map_err(|_| DecodeError::NotUtf8 { offset })
    }

    /// A sequence of bytes: its count, then the bytes.
    pub(crate) fn byte_sequence(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.u32()? as usize;
        self.take(length)
    }
}
