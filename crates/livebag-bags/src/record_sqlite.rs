//! Recording into a rosbag2 bag of SQLite databases.

use std::collections::BTreeMap;
use std::path::Path;

use livebag::{BagFileWriter, BagWriteError, BagWriter, RecordError, Recorder, RecorderOptions};
use livebag_format::rosbag2::BagMetadata;
use livebag_format::{Message, Topic};

use crate::{
    ConvertError, Sqlite3Options, Sqlite3Writer, joined_metadata, reindex, write_bag_metadata,
};

impl From<ConvertError> for BagWriteError {
    fn from(error: ConvertError) -> Self {
        let what = error.to_string();
        match error {
            ConvertError::Io { source, .. } => Self::new(what, Some(source)),
            _ => Self::new(what, None),
        }
    }
}

/// Records into a new bag: a recorder like any other, whose files are databases, with a `metadata.yaml` at the end.
///
/// # Errors
/// If the directory exists, or the disk or SQLite refuses.
pub fn record_sqlite(
    directory: &Path,
    options: RecorderOptions,
    database: Sqlite3Options,
) -> Result<Recorder, RecordError> {
    Recorder::create_bag(directory, options, Box::new(Databases(database)))
}

struct Databases(Sqlite3Options);

impl BagWriter for Databases {
    fn extension(&self) -> &'static str {
        "db3"
    }

    fn create(
        &mut self,
        path: &Path,
        custom: &BTreeMap<String, String>,
    ) -> Result<Box<dyn BagFileWriter>, BagWriteError> {
        let mut options = self.0.clone();
        options.custom_data.extend(custom.clone());
        Ok(Box::new(Database(Sqlite3Writer::create(path, options)?)))
    }

    fn finish(
        &mut self,
        directory: &Path,
        files: Option<&[BagMetadata]>,
        custom: BTreeMap<String, String>,
    ) -> Result<(), BagWriteError> {
        let version = self.0.metadata_version;
        let Some(files) = files else {
            // The contents of a failed database are read from the file.
            return Ok(reindex(directory, Some(version)).map(drop)?);
        };
        let mut metadata = joined_metadata(files);
        metadata.custom_data.extend(custom);
        Ok(write_bag_metadata(directory, &metadata, version)?)
    }
}

struct Database(Sqlite3Writer);

impl BagFileWriter for Database {
    fn add_topic(&mut self, topic: &Topic) -> Result<(), BagWriteError> {
        Ok(self.0.add_topic(topic).map(drop)?)
    }

    fn write(&mut self, topic: usize, message: &Message<'_>) -> Result<(), BagWriteError> {
        Ok(self.0.write(topic, message)?)
    }

    fn commit(&mut self) -> Result<(), BagWriteError> {
        Ok(self.0.commit()?)
    }

    fn file_bytes(&mut self) -> Result<u64, BagWriteError> {
        Ok(self.0.file_bytes()?)
    }

    fn finish(self: Box<Self>) -> Result<(BagMetadata, u64), BagWriteError> {
        let summary = self.0.finish()?;
        Ok((summary.metadata, summary.file_bytes))
    }
}
