//! A recording of another make whose reading can be stopped.

use livebag::Topic;
use livebag_bags::{
    Attachment, ConvertError, MessageSource, MetadataRecord, SourceMessage, SourceTotals,
};
use livebag_format::rosbag2::BagMetadata;

/// Asks before each message and attachment whether to continue, and counts the bytes.
pub struct Guarded<F> {
    inner: Box<dyn MessageSource>,
    may_go_on: F,
}

impl<F: FnMut(u64) -> Result<(), ConvertError> + Send> Guarded<F> {
    /// Everything of `inner`, as long as `may_go_on` agrees.
    pub fn new(inner: Box<dyn MessageSource>, may_go_on: F) -> Self {
        Self { inner, may_go_on }
    }
}

impl<F: FnMut(u64) -> Result<(), ConvertError> + Send> MessageSource for Guarded<F> {
    fn topics(&self) -> &[Topic] {
        self.inner.topics()
    }

    fn profile(&self) -> &str {
        self.inner.profile()
    }

    fn next_message(&mut self) -> Result<Option<SourceMessage>, ConvertError> {
        let message = self.inner.next_message()?;
        (self.may_go_on)(message.as_ref().map_or(0, |message| message.data.len() as u64))?;
        Ok(message)
    }

    fn skip_before(&mut self, log_time_nanos: u64) {
        self.inner.skip_before(log_time_nanos);
    }

    fn start_time_nanos(&self) -> Option<u64> {
        self.inner.start_time_nanos()
    }

    fn message_count(&self) -> Option<u64> {
        self.inner.message_count()
    }

    fn totals(&self) -> Option<SourceTotals> {
        self.inner.totals()
    }

    fn lost_count(&self) -> u64 {
        self.inner.lost_count()
    }

    fn has_compressed_messages(&self) -> bool {
        self.inner.has_compressed_messages()
    }

    fn warnings(&self) -> &[String] {
        self.inner.warnings()
    }

    fn notes(&self) -> &[String] {
        self.inner.notes()
    }

    fn next_attachment(&mut self) -> Result<Option<Attachment>, ConvertError> {
        let attachment = self.inner.next_attachment()?;
        (self.may_go_on)(attachment.as_ref().map_or(0, |attachment| attachment.data.bytes()))?;
        Ok(attachment)
    }

    fn metadata_records(&self) -> &[MetadataRecord] {
        self.inner.metadata_records()
    }

    fn bag_metadata(&self) -> Option<&BagMetadata> {
        self.inner.bag_metadata()
    }
}
