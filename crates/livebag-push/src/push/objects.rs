//! Objects of a target: list, get, create, replace.

use std::collections::HashMap;
use std::ops::Range;

use futures_util::TryStreamExt;
use livebag_bucket::{BucketError, StoreFailure, is_damaged_on_the_way, is_lost_on_the_way};
use object_store::{Error, GetOptions, ObjectMeta, ObjectStoreExt, PutMode, PutOptions};

use super::{PushError, Pusher};
use crate::digest::{hex, md5_of};
use crate::error::of_store;
use crate::limits::{SENDS_MAX, SMALL_OBJECT_BYTES_MAX};

/// A small object.
pub struct Small {
    /// Its contents.
    pub bytes: Vec<u8>,
    /// The store's name for them.
    pub etag: Option<String>,
}

impl Small {
    /// Whether the store names contents by their MD5.
    pub(super) fn has_md5(&self) -> bool {
        let md5 = hex(&md5_of(&self.bytes));
        self.etag.as_ref().is_some_and(|etag| etag.trim_matches('"') == md5)
    }
}

impl Pusher<'_> {
    /// Objects below `NAME/`, by key.
    pub(super) async fn list(&self, name: &str) -> Result<HashMap<String, ObjectMeta>, PushError> {
        let prefix = self.target.path(name)?;
        let listed: Result<Vec<_>, _> = self.target.store.list(Some(&prefix)).try_collect().await;
        let listed = listed.map_err(|error| of_store(self.target.address_of(name), &error))?;
        let key = |meta: &ObjectMeta| {
            let rest = meta.location.as_ref().strip_prefix(prefix.as_ref()).unwrap_or_default();
            format!("{name}{rest}")
        };
        Ok(listed.into_iter().map(|meta| (key(&meta), meta)).collect())
    }

    /// Size and ETag of an object, if there is one.
    pub(super) async fn head(&self, key: &str) -> Result<Option<ObjectMeta>, PushError> {
        match self.target.store.head(&self.target.path(key)?).await {
            Ok(meta) => Ok(Some(meta)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(of_store(self.target.address_of(key), &error)),
        }
    }

    /// A small object, if there is one.
    pub(super) async fn get(&self, key: &str) -> Result<Option<Small>, PushError> {
        let failed = |error: Error| of_store(self.target.address_of(key), &error);
        let got = match self.target.store.get(&self.target.path(key)?).await {
            Ok(got) => got,
            Err(error @ Error::NotFound { .. }) => {
                // A bucket that is not there is no object that is not there.
                let failure = failed(error);
                return match &failure {
                    PushError::Bucket(BucketError::Store {
                        failure: StoreFailure::NoBucket,
                        ..
                    }) => Err(failure),
                    _ => Ok(None),
                };
            }
            Err(error) => return Err(failed(error)),
        };
        if got.meta.size > SMALL_OBJECT_BYTES_MAX {
            let why = format!("an object of {} bytes", got.meta.size);
            return Err(self.another(key, &why));
        }
        let etag = got.meta.e_tag.clone();
        let bytes = got.bytes().await.map_err(failed)?.to_vec();
        Ok(Some(Small { bytes, etag }))
    }

    /// A range of an object; with `None` if it is gone.
    pub(super) async fn get_range(
        &self,
        key: &str,
        range: Range<u64>,
    ) -> Result<Option<bytes::Bytes>, PushError> {
        let failed = |error: Error| of_store(self.target.address_of(key), &error);
        let options = GetOptions { range: Some(range.into()), ..GetOptions::default() };
        match self.target.store.get_opts(&self.target.path(key)?, options).await {
            Ok(got) => Ok(Some(got.bytes().await.map_err(failed)?)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Creates an object if there is none, and reads it back; `why` says what another one means.
    ///
    /// A store that replaces objects all the same is found out here unless the other writer comes later.
    pub(super) async fn create(
        &mut self,
        key: &str,
        bytes: &[u8],
        why: &str,
    ) -> Result<(), PushError> {
        let path = self.target.path(key)?;
        for attempt in 1.. {
            self.target.pacer_for_folders(bytes.len()).await;
            let options = PutOptions::from(PutMode::Create);
            match self.target.store.put_opts(&path, bytes.to_vec().into(), options).await {
                Ok(_) | Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {}
                // It may have arrived all the same.
                Err(error) if is_lost_on_the_way(&error) && attempt < SENDS_MAX => {}
                Err(error) if is_damaged_on_the_way(&error) && attempt < SENDS_MAX => {}
                Err(error) => return Err(of_store(self.target.address_of(key), &error)),
            }
            match self.get(key).await? {
                Some(there) if there.bytes == bytes => {
                    self.gives_md5 = there.has_md5();
                    return Ok(());
                }
                None if attempt < SENDS_MAX => {}
                None => {
                    let found = "there is no such object after it was created".to_owned();
                    let address = self.target.address_of(key);
                    return Err(PushError::NotVerified { address, sends: attempt, found });
                }
                Some(_) => return Err(self.another(key, why)),
            }
        }
        Ok(())
    }

    /// Claims the recording's name.
    pub(super) async fn claim(&mut self, key: &str, claim: &[u8]) -> Result<(), PushError> {
        self.create(
            key,
            claim,
            "another push has begun there; if nobody goes on with it, remove what it has sent",
        )
        .await
    }

    /// Writes a small object, whatever was there, and reads it back.
    pub(super) async fn replace(&mut self, key: &str, bytes: &[u8]) -> Result<(), PushError> {
        let path = self.target.path(key)?;
        for attempt in 1.. {
            self.target.pacer_for_folders(bytes.len()).await;
            match self.target.store.put(&path, bytes.to_vec().into()).await {
                Ok(_) => break,
                Err(error) if is_damaged_on_the_way(&error) && attempt < SENDS_MAX => {}
                Err(error) => return Err(of_store(self.target.address_of(key), &error)),
            }
        }
        match self.get(key).await? {
            Some(there) if there.bytes == bytes => Ok(()),
            _ => Err(PushError::NotVerified {
                address: self.target.address_of(key),
                sends: 1,
                found: "it has other contents when it is read back".to_owned(),
            }),
        }
    }
}
