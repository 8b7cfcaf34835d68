//! A recording of another make whose reading can be stopped.

use livebag::Topic;
use livebag_bags::{Attachment, ConvertError, MessageSource, SourceMessage};

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
    fn inner(&self) -> Option<&dyn MessageSource> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn MessageSource> {
        Some(&mut *self.inner)
    }

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

    fn start_time_nanos(&self) -> Option<u64> {
        self.inner.start_time_nanos()
    }

    fn warnings(&self) -> &[String] {
        self.inner.warnings()
    }

    fn next_attachment(&mut self) -> Result<Option<Attachment>, ConvertError> {
        let attachment = self.inner.next_attachment()?;
        (self.may_go_on)(attachment.as_ref().map_or(0, |attachment| attachment.data.bytes()))?;
        Ok(attachment)
    }
}
