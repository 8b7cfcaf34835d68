//! Compression of a chunk's records: MCAP's `lz4` (frames) and `zstd`.

use std::io::{self, Read, Write};

/// How the records of a chunk are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// LZ4 frames: fast, and little is gained.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// MCAP's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The compression of this name in MCAP.
    pub fn by_name(name: &[u8]) -> Option<Self> {
        [Self::None, Self::Lz4, Self::Zstd].into_iter().find(|c| c.name().as_bytes() == name)
    }
}

/// Compresses chunk after chunk with the same tables.
pub struct Compressor {
    compression: Compression,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Compressor {
    /// `level` applies only to zstd: from -7 (fast) to 22 (small).
    ///
    /// # Errors
    /// If there is no memory for the tables.
    pub fn new(compression: Compression, level: i32) -> io::Result<Self> {
        let zstd = match compression {
            Compression::Zstd => Some(zstd::bulk::Compressor::new(level)?),
            Compression::None | Compression::Lz4 => None,
        };
        Ok(Self { compression, zstd })
    }

    /// Appends `records`, compressed, to `out`.
    ///
    /// # Errors
    /// If the library fails, for example for lack of memory.
    pub fn compress(&mut self, records: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        match (self.compression, &mut self.zstd) {
            (Compression::Zstd, Some(zstd)) => {
                let at = out.len();
                out.resize(at + zstd::zstd_safe::compress_bound(records.len()), 0);
                let bytes = zstd.compress_to_buffer(records, &mut out[at..])?;
                out.truncate(at + bytes);
                Ok(())
            }
            (Compression::Lz4, _) => {
                let mut encoder = lz4_flex::frame::FrameEncoder::new(out);
                encoder.write_all(records)?;
                encoder.finish().map(drop).map_err(io::Error::other)
            }
            _ => out.write_all(records),
        }
    }
}

/// Why a chunk's bytes are not its records.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecompressError {
    /// The library says why.
    #[error("not {name} data: {source}")]
    Damaged {
        /// The compression.
        name: &'static str,
        /// The library's error.
        source: io::Error,
    },
    /// It ends too early, or late.
    #[error("expected {expected} bytes of records, found {found} or more")]
    Length {
        /// As the chunk's header says.
        expected: u64,
        /// The decompressed length.
        found: u64,
    },
}

/// Decompresses the records of a chunk, which must be `records_bytes` long. Memory is taken as
/// data comes out, not as the header promises.
///
/// # Errors
/// See [`DecompressError`].
pub fn decompress(
    compression: Compression,
    stored: &[u8],
    records_bytes: u64,
) -> Result<Vec<u8>, DecompressError> {
    let (records, outcome) = decompress_start(compression, stored, records_bytes);
    outcome.map(|()| records)
}

/// The same, with the output before an error.
pub fn decompress_start(
    compression: Compression,
    stored: &[u8],
    records_bytes: u64,
) -> (Vec<u8>, Result<(), DecompressError>) {
    // A hundred times is more than sensors' data ever shrink: room for those, without copying.
    let likely = records_bytes.min(100 * stored.len() as u64) as usize;
    let mut records = Vec::with_capacity(likely);
    let read = reader(compression, stored)
        .and_then(|reader| reader.take(records_bytes.saturating_add(1)).read_to_end(&mut records));
    let found = records.len() as u64;
    let outcome = match read {
        Err(source) => Err(DecompressError::Damaged { name: compression.name(), source }),
        Ok(_) if found != records_bytes => {
            Err(DecompressError::Length { expected: records_bytes, found })
        }
        Ok(_) => Ok(()),
    };
    (records, outcome)
}

fn reader(compression: Compression, stored: &[u8]) -> io::Result<Box<dyn Read + '_>> {
    Ok(match compression {
        Compression::None => Box::new(stored),
        Compression::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(stored)),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(stored)?),
    })
}
