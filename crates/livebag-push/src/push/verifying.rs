//! Whether what a store has is what was sent.

use object_store::ObjectMeta;
use ring::digest::{Context, SHA256};

use super::{PushError, Pusher};
use crate::digest::{Digests, hex};
use crate::limits::PART_BYTES;
use crate::recording::SourceFile;

impl Pusher<'_> {
    /// Asks the store; `None` if it has the file. `listed` is what a list says, which may lack the ETag.
    ///
    /// An ETag that is not ours proves nothing: stores that encrypt have others, and so have other part sizes. The
    /// object is read back then.
    pub(super) async fn why_not_stored(
        &mut self,
        file: &SourceFile,
        digests: &Digests,
        listed: Option<&ObjectMeta>,
    ) -> Result<Option<String>, PushError> {
        let there = match listed {
            Some(there) if there.e_tag.is_some() => Some(there.clone()),
            _ => self.head(&file.key).await?,
        };
        let Some(there) = there else { return Ok(Some("there is no such object".to_owned())) };
        if there.size != file.bytes {
            return Ok(Some(format!("it has {} bytes, and {} were sent", there.size, file.bytes)));
        }
        let etag = there.e_tag.unwrap_or_default().trim_matches('"').to_owned();
        if !self.options.read_back && etag == digests.etag {
            return Ok(None);
        }
        if !etag.is_empty() && self.journal.read_back(&file.key) == Some(&etag) {
            return Ok(None);
        }
        match self.read_back(file).await? {
            Some(sha256) if sha256 == digests.sha256 => {
                self.read_back_objects += 1;
                self.journal.set_read_back(&file.key, &etag)?;
                Ok(None)
            }
            Some(sha256) => Ok(Some(format!(
                "its SHA-256 is {sha256}, and that of the file {}",
                digests.sha256
            ))),
            None => Ok(Some("it vanished while it was read back".to_owned())),
        }
    }

    /// The SHA-256 of what is stored; `None` if it is gone.
    async fn read_back(&self, file: &SourceFile) -> Result<Option<String>, PushError> {
        let mut sha256 = Context::new(&SHA256);
        let mut offset = 0;
        while offset < file.bytes {
            self.check_hold()?;
            let range = offset..file.bytes.min(offset + PART_BYTES);
            let Some(bytes) = self.get_range(&file.key, range).await? else { return Ok(None) };
            sha256.update(&bytes);
            offset += bytes.len().max(1) as u64;
        }
        Ok(Some(hex(sha256.finish().as_ref())))
    }
}
