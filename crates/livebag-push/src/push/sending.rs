//! Sending files, in parts.

use std::sync::atomic::Ordering;

use futures_util::future::try_join_all;
use livebag_bucket::{BucketError, is_damaged_on_the_way, is_forgotten};
use object_store::multipart::PartId;
use object_store::{Error, ObjectMeta, ObjectStoreExt};

use super::{PushError, Pusher};
use crate::digest::{Digests, Part, PartReader};
use crate::error::of_store;
use crate::journal::Upload;
use crate::limits::SENDS_MAX;
use crate::recording::SourceFile;

impl Pusher<'_> {
    /// The checksums of a file, from the journal or by reading it.
    pub(super) async fn digest(&mut self, file: &SourceFile) -> Result<Digests, PushError> {
        if let Some(digests) = self.journal.digests(file) {
            return Ok(digests);
        }
        let mut reader = self.reader(file)?;
        loop {
            let part;
            // Part by part: a push that is interrupted does not read the rest.
            (reader, part) = read_next(reader).await?;
            if part.is_none() {
                break;
            }
        }
        let digests = reader.finish()?;
        self.journal.set_digests(file, &digests)?;
        Ok(digests)
    }

    fn reader(&self, file: &SourceFile) -> Result<PartReader, PushError> {
        PartReader::open(
            file,
            self.target.part_bytes(file.bytes),
            self.target.is_sent_whole(file.bytes),
        )
    }

    /// Sends a file, from where an earlier push stopped.
    pub(super) async fn send(&mut self, file: &SourceFile) -> Result<Digests, PushError> {
        self.check_hold()?;
        let digests = match self.target.is_sent_whole(file.bytes) {
            true => self.send_whole(file).await?,
            false => self.send_in_parts(file).await?,
        };
        self.journal.set_digests(file, &digests)?;
        self.sent_objects += 1;
        Ok(digests)
    }

    /// Sends small files at once: one by one, most of the time would be the way there and back.
    pub(super) async fn send_together(
        &mut self,
        files: &[SourceFile],
    ) -> Result<Vec<Digests>, PushError> {
        self.check_hold()?;
        let sent = try_join_all(files.iter().map(|file| self.send_whole(file))).await?;
        for (file, digests) in files.iter().zip(&sent) {
            self.journal.set_digests(file, digests)?;
        }
        self.sent_objects += files.len();
        Ok(sent)
    }

    async fn send_whole(&self, file: &SourceFile) -> Result<Digests, PushError> {
        let mut reader = self.reader(file)?;
        let (reader, part) = blocking(move || reader.next().map(|part| (reader, part))).await?;
        let Some(part) = part else { return reader.finish() };
        let path = self.target.path(&file.key)?;
        for attempt in 1..=SENDS_MAX {
            match self.target.store.put(&path, part.bytes.clone().into()).await {
                Ok(put) if self.is_damaged(put.e_tag.as_deref(), &part) && attempt < SENDS_MAX => {}
                // After the last attempt verification reports what is wrong.
                Ok(_) => break,
                Err(error) if is_damaged_on_the_way(&error) && attempt < SENDS_MAX => {}
                Err(error) => return Err(of_store(self.target.address_of(&file.key), &error)),
            }
        }
        self.stored_bytes.fetch_add(file.bytes, Ordering::Relaxed);
        reader.finish()
    }

    async fn send_in_parts(&mut self, file: &SourceFile) -> Result<Digests, PushError> {
        let stored_before = self.stored_bytes.load(Ordering::Relaxed);
        for attempt in 1.. {
            match self.try_parts(file).await? {
                Some(digests) => return Ok(digests),
                // The store removes uploads after some days.
                None if attempt < SENDS_MAX => {
                    self.stored_bytes.store(stored_before, Ordering::Relaxed)
                }
                None => break,
            }
        }
        let found = "the store forgets its uploads in parts".to_owned();
        Err(PushError::NotVerified {
            address: self.target.address_of(&file.key),
            sends: SENDS_MAX,
            found,
        })
    }

    /// `None` if the store no longer knows the upload.
    async fn try_parts(&mut self, file: &SourceFile) -> Result<Option<Digests>, PushError> {
        let path = self.target.path(&file.key)?;
        let failed = |error: Error| of_store(self.target.address_of(&file.key), &error);
        let upload = match self.journal.upload(file) {
            Some(upload) => upload,
            None => {
                // Of what the file was before; the store may have forgotten it.
                if let Some(id) = self.journal.stale_upload(&file.key) {
                    let _ = self.target.parts.abort_multipart(&path, &id).await;
                }
                let id = self.target.parts.create_multipart(&path).await.map_err(failed)?;
                self.journal.begin_upload(file, &id)?;
                Upload { id, parts: Vec::new() }
            }
        };
        let mut ids = Vec::new();
        let mut reader = self.reader(file)?;
        let mut next = read_next(reader);
        loop {
            let part;
            (reader, part) = next.await?;
            let Some(part) = part else { break };
            // The disk is read while the network is written.
            next = read_next(reader);
            let content_id = match upload.parts.get(ids.len()) {
                Some((_, md5)) if *md5 != part.md5 => {
                    return Err(PushError::Changed { path: file.path.clone() });
                }
                Some((content_id, _)) => content_id.clone(),
                None => {
                    self.check_hold()?;
                    let Some(content_id) =
                        self.put_part(file, &upload.id, ids.len(), &part).await?
                    else {
                        self.journal.end_upload(&file.key)?;
                        return Ok(None);
                    };
                    self.journal.add_part(&file.key, &content_id, &part.md5)?;
                    content_id
                }
            };
            ids.push(PartId { content_id });
            self.stored_bytes.fetch_add(part.bytes.len() as u64, Ordering::Relaxed);
        }
        let digests = reader.finish()?;
        match self.target.parts.complete_multipart(&path, &upload.id, ids).await {
            Ok(_) => {}
            // Either the store has forgotten it, or it is complete and the answer was lost.
            Err(error) if is_forgotten(&error) => {
                if self.why_not_stored(file, &digests, None).await?.is_some() {
                    self.journal.end_upload(&file.key)?;
                    return Ok(None);
                }
            }
            Err(error) => return Err(failed(error)),
        }
        self.journal.end_upload(&file.key)?;
        Ok(Some(digests))
    }

    /// `None` if the store no longer knows the upload.
    async fn put_part(
        &self,
        file: &SourceFile,
        id: &str,
        index: usize,
        part: &Part,
    ) -> Result<Option<String>, PushError> {
        let path = self.target.path(&file.key)?;
        let mut found = String::new();
        for _ in 0..SENDS_MAX {
            let data = part.bytes.clone().into();
            match self.target.parts.put_part(&path, &id.to_owned(), index, data).await {
                Ok(sent) if self.is_damaged(Some(&sent.content_id), part) => {
                    found = format!("part {} has the checksum {}", index + 1, sent.content_id);
                }
                Ok(sent) => return Ok(Some(sent.content_id)),
                Err(error) if is_forgotten(&error) => return Ok(None),
                Err(error) if is_damaged_on_the_way(&error) => {
                    found = of_store("part", &error).to_string()
                }
                Err(error) => return Err(of_store(self.target.address_of(&file.key), &error)),
            }
        }
        Err(PushError::NotVerified {
            address: self.target.address_of(&file.key),
            sends: SENDS_MAX,
            found,
        })
    }

    /// Whether the store says that other bytes arrived.
    fn is_damaged(&self, etag: Option<&str>, part: &Part) -> bool {
        let etag = etag.unwrap_or_default().trim_matches('"');
        self.gives_md5 && etag.len() == part.md5.len() && etag != part.md5
    }

    /// Sends a file that may have grown since it was pushed: what is stored must be its beginning.
    pub(super) async fn send_grown(
        &mut self,
        file: &SourceFile,
        there: &ObjectMeta,
    ) -> Result<Digests, PushError> {
        let digests = self.digest(file).await?;
        if self.why_not_stored(file, &digests, Some(there)).await?.is_none() {
            self.stored_bytes.fetch_add(file.bytes, Ordering::Relaxed);
            return Ok(digests);
        }
        let stored = self.get(&file.key).await?.map(|there| there.bytes).unwrap_or_default();
        let here = livebag::ReadDisk::read(&livebag::KernelDisk::for_reading(), &file.path);
        let here = here.map_err(|source| PushError::Read { path: file.path.clone(), source })?;
        match here.starts_with(&stored) {
            true => self.send(file).await,
            false => Err(PushError::Differs {
                address: self.target.address_of(&file.key),
                path: file.path.clone(),
            }),
        }
    }
}

async fn read_next(mut reader: PartReader) -> Result<(PartReader, Option<Part>), PushError> {
    blocking(move || reader.next().map(|part| (reader, part))).await
}

/// In a thread that may wait for a disk.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PushError> + Send + 'static,
) -> Result<T, PushError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| BucketError::Runtime(std::io::Error::other(error)).into()).flatten()
}
