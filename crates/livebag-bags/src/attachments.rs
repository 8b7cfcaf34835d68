//! Files stored in a recording (MCAP's attachments). They may be larger than memory, so they are named when a recording
//! is read, and copied a piece at a time.

use std::fs::File;
use std::io::{self, BufWriter, Read};
use std::path::Path;
use std::sync::Arc;

use livebag_format::container::ATTACHMENTS_FILE;
use livebag_format::mcap::{AttachmentHead, MAGIC, RECORD_HEADER_BYTES};
use mcap::records::AttachmentHeader;

use super::file::ForeignFile;
use super::{ConvertError, MessageSource, mcap_file};
use livebag::Container;

/// Bytes of an attachment read at once.
const PIECE_BYTES: usize = 1 << 20;

/// A file stored in a recording (MCAP attachment).
#[derive(Clone, Debug, Default)]
pub struct Attachment {
    /// When it was recorded, nanoseconds since the Unix epoch.
    pub log_time_nanos: u64,
    /// When it was made, nanoseconds since the Unix epoch; 0 if unknown.
    pub create_time_nanos: u64,
    /// File name.
    pub name: String,
    /// Media type.
    pub media_type: String,
    /// Contents.
    pub data: AttachmentData,
}

/// The contents of an attachment, in memory or still in the recording.
#[derive(Clone, Default)]
pub struct AttachmentData(Place);

#[derive(Clone)]
enum Place {
    Memory(Arc<[u8]>),
    File(InFile),
    /// The record makes no sense: why.
    None(String),
}

impl Default for Place {
    fn default() -> Self {
        Place::Memory([].into())
    }
}

#[derive(Clone)]
struct InFile {
    file: Arc<ForeignFile>,
    /// Where the body of the record begins, which its checksum covers, and where the data.
    body_offset: u64,
    offset: u64,
    bytes: u64,
}

impl From<Vec<u8>> for AttachmentData {
    fn from(data: Vec<u8>) -> Self {
        AttachmentData(Place::Memory(data.into()))
    }
}

impl std::fmt::Debug for AttachmentData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.bytes())
    }
}

impl AttachmentData {
    /// Length in bytes; 0 if the record is too damaged to tell.
    pub fn bytes(&self) -> u64 {
        match &self.0 {
            Place::Memory(data) => data.len() as u64,
            Place::File(place) => place.bytes,
            Place::None(_) => 0,
        }
    }

    /// The contents from the first byte to the last.
    pub fn reader(&self) -> impl Read + '_ {
        Reader { data: self, at: 0 }
    }
}

struct Reader<'a> {
    data: &'a AttachmentData,
    at: u64,
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.data.bytes() - self.at;
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let buffer = &mut buffer[..wanted];
        let count = match &self.data.0 {
            Place::Memory(data) => {
                buffer.copy_from_slice(&data[self.at as usize..][..wanted]);
                wanted
            }
            Place::File(place) => place.file.read_at(buffer, place.offset + self.at)?,
            Place::None(_) => 0,
        };
        self.at += count as u64;
        Ok(count)
    }
}

impl Attachment {
    /// The attachment record at `offset`, of which nothing but the head is read. One that makes no
    /// sense has no contents, and [`damage`](Self::damage) says why.
    pub(super) fn in_file(file: &Arc<ForeignFile>, offset: u64) -> Result<Self, ConvertError> {
        let head = file.read_up_to(offset, AttachmentHead::BYTES_MAX)?;
        Ok(parse(&head, offset, file).unwrap_or_else(|reason| Attachment {
            name: format!("(at offset {offset})"),
            data: AttachmentData(Place::None(reason.to_owned())),
            ..Attachment::default()
        }))
    }

    /// One that should be there and is not.
    fn missing(name: &str, reason: String) -> Self {
        let data = AttachmentData(Place::None(reason));
        Attachment { name: name.to_owned(), data, ..Attachment::default() }
    }

    /// The damage, if there is any. Reads all of it once for its checksum, if it has one.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn damage(&self) -> Result<Option<String>, ConvertError> {
        let place = match &self.data.0 {
            Place::Memory(_) => return Ok(None),
            Place::None(reason) => return Ok(Some(reason.clone())),
            Place::File(place) => place,
        };
        let end = place.offset + place.bytes;
        let stored = place.file.read(end, 4)?;
        let stored = u32::from_le_bytes(stored.try_into().expect("four bytes"));
        if stored == 0 {
            return Ok(None);
        }
        let mut crc = crc32fast::Hasher::new();
        let mut piece = vec![0; PIECE_BYTES];
        let mut at = place.body_offset;
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(PIECE_BYTES);
            let count = match place.file.read_at(&mut piece[..wanted], at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(ConvertError::io("read", place.file.path(), error)),
                Ok(0) => return Ok(Some("the file was cut while it was read".to_owned())),
                Ok(count) => count,
            };
            crc.update(&piece[..count]);
            at += count as u64;
        }
        let found = crc.finalize();
        Ok((found != stored)
            .then(|| format!("its checksum is {found:#010x}, {stored:#010x} was stored")))
    }

    /// Writes it, a piece at a time.
    pub(super) fn write_to<W: io::Write + io::Seek>(
        &self,
        writer: &mut mcap::Writer<W>,
    ) -> mcap::McapResult<()> {
        let header = AttachmentHeader {
            log_time: self.log_time_nanos,
            create_time: self.create_time_nanos,
            name: self.name.clone(),
            media_type: self.media_type.clone(),
        };
        writer.start_attachment(self.data.bytes(), header)?;
        let mut reader = self.data.reader();
        let mut piece = vec![0; PIECE_BYTES.min(self.data.bytes() as usize)];
        loop {
            match reader.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => writer.put_attachment_bytes(&piece[..count])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        // An error if the file was truncated meanwhile.
        writer.finish_attachment()
    }
}

fn parse(head: &[u8], at: u64, file: &Arc<ForeignFile>) -> Result<Attachment, &'static str> {
    let head = AttachmentHead::parse(head)?;
    if at.checked_add(head.record_bytes).is_none_or(|end| end > file.length_bytes()) {
        return Err("its record is cut");
    }
    let data = InFile {
        file: Arc::clone(file),
        body_offset: at + RECORD_HEADER_BYTES as u64,
        offset: at + head.data_offset,
        bytes: head.data_bytes,
    };
    Ok(Attachment {
        log_time_nanos: head.log_time_nanos,
        create_time_nanos: head.create_time_nanos,
        name: head.name,
        media_type: head.media_type,
        data: AttachmentData(Place::File(data)),
    })
}

/// The attachments of a container, in the order in which they were added; damaged ones included. Of each only the head
/// is read.
///
/// # Errors
/// If the file cannot be read. One that is missing is a damaged attachment.
pub fn attachments(bag: &Container) -> Result<Vec<Attachment>, ConvertError> {
    let Some(path) = bag.attachments_path() else { return Ok(Vec::new()) };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let file = match ForeignFile::open_on(&**bag.disk(), &path) {
        Ok(file) => file,
        Err(ConvertError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(vec![Attachment::missing(&name, "the file is missing".to_owned())]);
        }
        Err(error) => return Err(error),
    };
    if file.read_up_to(0, MAGIC.len())? != MAGIC {
        let reason = "the file does not begin as an MCAP".to_owned();
        return Ok(vec![Attachment::missing(&name, reason)]);
    }
    let mut source = mcap_file::McapFile::open(file)?;
    let mut all = Vec::new();
    while let Some(attachment) = source.next_attachment()? {
        all.push(attachment);
    }
    for warning in source.warnings() {
        all.push(Attachment::missing(&name, warning.clone()));
    }
    Ok(all)
}

/// What became of the attachments of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) whole: u64,
    /// Damaged ones, which were left out.
    pub(super) lost: u64,
    pub(super) warnings: Vec<String>,
}

impl Taken {
    const WARNINGS_MAX: usize = 100;

    /// Adds a warning about one attachment.
    pub(super) fn say(&mut self, warning: String) {
        match self.warnings.len() {
            ..Self::WARNINGS_MAX => self.warnings.push(warning),
            Self::WARNINGS_MAX => {
                self.warnings
                    .push("more attachments were left out, which are not listed".to_owned());
            }
            _ => {}
        }
    }

    /// The next intact attachment of a source; damaged ones are counted and reported.
    pub(super) fn next(
        &mut self,
        source: &mut dyn MessageSource,
    ) -> Result<Option<Attachment>, ConvertError> {
        while let Some(attachment) = source.next_attachment()? {
            let Some(damage) = attachment.damage()? else {
                self.whole += 1;
                return Ok(Some(attachment));
            };
            self.lost += 1;
            let name = attachment.name;
            self.say(format!("the attachment {name} is damaged and left out: {damage}"));
        }
        Ok(None)
    }
}

/// A container's file of attachments, being written: an MCAP with nothing else in it.
pub(super) struct AttachmentsFile {
    path: std::path::PathBuf,
    writer: mcap::Writer<BufWriter<File>>,
}

impl AttachmentsFile {
    pub(super) fn create(container: &Path, profile: &str) -> Result<Self, ConvertError> {
        let path = container.join(ATTACHMENTS_FILE);
        let file = BufWriter::with_capacity(PIECE_BYTES, ForeignFile::create(&path)?);
        let options = mcap::WriteOptions::new()
            .profile(profile)
            .library(concat!("livebag ", env!("CARGO_PKG_VERSION")))
            .use_chunks(false);
        let writer = options.create(file).map_err(|error| refused(&path, error))?;
        Ok(AttachmentsFile { path, writer })
    }

    pub(super) fn add(&mut self, attachment: &Attachment) -> Result<(), ConvertError> {
        attachment.write_to(&mut self.writer).map_err(|error| refused(&self.path, error))
    }

    /// Ends the file and makes it durable.
    pub(super) fn finish(mut self) -> Result<(), ConvertError> {
        self.writer.finish().map_err(|error| refused(&self.path, error))?;
        let io = |source| ConvertError::io("write", &self.path, source);
        let file = self.writer.into_inner().into_inner().map_err(|error| io(error.into_error()))?;
        file.sync_all().map_err(io)
    }
}

/// Why an MCAP cannot be written.
pub(super) fn refused(path: &Path, error: mcap::McapError) -> ConvertError {
    match error {
        mcap::McapError::Io(source) => ConvertError::io("write", path, source),
        error => ConvertError::Write { path: path.to_owned(), reason: error.to_string() },
    }
}
