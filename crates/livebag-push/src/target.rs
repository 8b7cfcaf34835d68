//! Where recordings are pushed to.

use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use livebag::{Clock, lower_priority};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::error::{self, PushError};
use crate::folder::FolderParts;
use crate::http::PacedConnector;
use crate::limits::{BACKOFF_MAX, CONNECT, GIVE_UP_AFTER_DEFAULT, PART_BYTES, PARTS_MAX, STALL};
use crate::pace::Pacer;
use crate::profile::Profile;

/// How a target is talked to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TargetOptions {
    /// Bytes a second that leave at most; `None` for no limit.
    pub rate_bytes_per_s: Option<u64>,
    /// How long a store that does not answer, or is busy, is asked again.
    pub give_up_after: Duration,
}

impl Default for TargetOptions {
    fn default() -> Self {
        Self { rate_bytes_per_s: None, give_up_after: GIVE_UP_AFTER_DEFAULT }
    }
}

/// A bucket or a folder, and a prefix in it.
pub struct Target {
    address: String,
    prefix: Path,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) parts: Arc<dyn MultipartStore>,
    pub(crate) pacer: Arc<Pacer>,
    /// Connections are kept from one recording to the next, and belong to it.
    pub(crate) runtime: tokio::runtime::Runtime,
    /// Of a folder.
    folder: Option<PathBuf>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Target {
    /// Opens `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` or a folder that exists. Nothing is
    /// sent yet.
    ///
    /// Credentials come from the environment, for S3 also from the profile files of AWS's tools, and from the machine
    /// (instances, tasks, pods).
    ///
    /// # Errors
    /// If the address makes no sense, or options of the environment contradict each other.
    pub fn open(address: &str, options: &TargetOptions) -> Result<Self, PushError> {
        // Fails if there is one, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let pacer = Arc::new(Pacer::new(Clock::system(), options.rate_bytes_per_s));
        match address.split_once("://") {
            None => Self::open_folder(address, pacer),
            Some((scheme, rest)) => Self::open_bucket(address, scheme, rest, options, pacer),
        }
    }

    fn open_folder(address: &str, pacer: Arc<Pacer>) -> Result<Self, PushError> {
        let wrong = |why: String| PushError::Address(format!("{address}: {why}"));
        let root = FilePath::new(address).canonicalize();
        let root = root.map_err(|error| {
            wrong(format!(
                "{error} (make the folder first, with mkdir -p; or is its drive not mounted?)"
            ))
        })?;
        let store =
            LocalFileSystem::new_with_prefix(&root).map_err(|error| wrong(error.to_string()))?;
        Ok(Self {
            address: address.trim_end_matches('/').to_owned(),
            prefix: Path::default(),
            store: Arc::new(store.with_fsync(true)),
            parts: Arc::new(FolderParts { root: root.clone(), pacer: pacer.clone() }),
            pacer,
            runtime: runtime()?,
            folder: Some(root),
        })
    }

    fn open_bucket(
        address: &str,
        scheme: &str,
        rest: &str,
        options: &TargetOptions,
        pacer: Arc<Pacer>,
    ) -> Result<Self, PushError> {
        let wrong = |why: String| PushError::Address(format!("{scheme}://…: {why}"));
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.contains('@') {
            return Err(wrong(
                "credentials do not belong into an address: set them in the environment".to_owned(),
            ));
        }
        if bucket.is_empty() || rest.contains(['?', '#']) {
            return Err(wrong(format!(
                "expected a bucket and a prefix, as in {scheme}://fleet/robot7"
            )));
        }
        let prefix =
            Path::parse(prefix.trim_end_matches('/')).map_err(|error| wrong(error.to_string()))?;
        let settings = Settings { retry: retry(options), client: client(), pacer: pacer.clone() };
        let (store, parts) = match scheme {
            "s3" | "s3a" => both(settings.s3(bucket)),
            "gs" => both(settings.gcs(bucket)),
            "az" | "azure" | "abfs" => both(settings.azure(bucket)),
            _ => return Err(wrong("expected s3://, gs://, az:// or a folder".to_owned())),
        }
        .map_err(|error| error::of_store(address, &error))?;
        let address = address.trim_end_matches('/').to_owned();
        Ok(Self { address, prefix, store, parts, pacer, runtime: runtime()?, folder: None })
    }

    /// As it was given.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The object of a key.
    pub(crate) fn path(&self, key: &str) -> Result<Path, PushError> {
        let path = match self.prefix.as_ref() {
            "" => Path::parse(key),
            prefix => Path::parse(format!("{prefix}/{key}")),
        };
        path.map_err(|error| {
            PushError::Address(format!("{key} cannot be the name of an object: {error}"))
        })
    }

    /// The address of a key.
    pub(crate) fn address_of(&self, key: &str) -> String {
        format!("{}/{key}", self.address)
    }

    /// Where a key lies, if this is a folder.
    pub(crate) fn place_of(&self, key: &str) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(key))
    }

    /// Waits until a small file may be written; requests wait by themselves.
    pub(crate) async fn pacer_for_folders(&self, bytes: usize) {
        if self.folder.is_some() {
            self.pacer.take(bytes).await;
        }
    }

    /// Bytes of each part of an object but the last; the same for every push of it.
    pub(crate) fn part_bytes(&self, object_bytes: u64) -> u64 {
        match self.folder {
            Some(_) => PART_BYTES,
            None => PART_BYTES.max(object_bytes.div_ceil(PARTS_MAX).next_multiple_of(1 << 20)),
        }
    }

    /// Whether an object is sent in one request.
    pub(crate) fn is_sent_whole(&self, object_bytes: u64) -> bool {
        self.folder.is_none() && object_bytes <= PART_BYTES
    }
}

type Both = (Arc<dyn ObjectStore>, Arc<dyn MultipartStore>);

fn both<S: ObjectStore + MultipartStore>(
    store: object_store::Result<S>,
) -> object_store::Result<Both> {
    let store = Arc::new(store?);
    Ok((store.clone(), store))
}

fn runtime() -> Result<tokio::runtime::Runtime, PushError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("livebag-push")
        // Below the recorder, for processors and disks.
        .on_thread_start(lower_priority)
        .enable_all()
        .build()
        .map_err(PushError::Runtime)
}

fn retry(options: &TargetOptions) -> RetryConfig {
    let backoff = BackoffConfig { max_backoff: BACKOFF_MAX, ..BackoffConfig::default() };
    // The time bounds them.
    RetryConfig { backoff, max_retries: 1000, retry_timeout: options.give_up_after }
}

fn client() -> ClientOptions {
    // A part takes as long as the link needs.
    ClientOptions::new()
        .with_timeout_disabled()
        .with_read_timeout(STALL)
        .with_connect_timeout(CONNECT)
}

struct Settings {
    retry: RetryConfig,
    client: ClientOptions,
    pacer: Arc<Pacer>,
}

impl Settings {
    fn s3(self, bucket: &str) -> object_store::Result<object_store::aws::AmazonS3> {
        let mut builder = AmazonS3Builder::from_env();
        // AWS's tools take the environment's credentials before a profile's, unless a profile is named.
        let is_set = |key| builder.get_config_value(&key).is_some();
        let has_keys = is_set(AmazonS3ConfigKey::AccessKeyId);
        let profile =
            Profile::find().filter(|_| !has_keys || std::env::var_os("AWS_PROFILE").is_some());
        if let Some(profile) = profile {
            for (name, key) in [
                ("aws_access_key_id", AmazonS3ConfigKey::AccessKeyId),
                ("aws_secret_access_key", AmazonS3ConfigKey::SecretAccessKey),
                ("aws_session_token", AmazonS3ConfigKey::Token),
                ("region", AmazonS3ConfigKey::Region),
                ("endpoint_url", AmazonS3ConfigKey::Endpoint),
            ] {
                let is_place =
                    matches!(key, AmazonS3ConfigKey::Region | AmazonS3ConfigKey::Endpoint);
                if let Some(value) = profile.get(name)
                    && !(is_place && builder.get_config_value(&key).is_some())
                {
                    builder = builder.with_config(key, value);
                }
            }
        }
        let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint).unwrap_or_default();
        let client = self.client.with_allow_http(endpoint.starts_with("http://"));
        let connector = PacedConnector { pacer: self.pacer };
        builder
            .with_client_options(client)
            .with_retry(self.retry)
            .with_http_connector(connector)
            .with_bucket_name(bucket)
            .build()
    }

    fn gcs(self, bucket: &str) -> object_store::Result<object_store::gcp::GoogleCloudStorage> {
        GoogleCloudStorageBuilder::from_env()
            .with_client_options(self.client)
            .with_retry(self.retry)
            .with_http_connector(PacedConnector { pacer: self.pacer })
            .with_bucket_name(bucket)
            .build()
    }

    fn azure(self, container: &str) -> object_store::Result<object_store::azure::MicrosoftAzure> {
        MicrosoftAzureBuilder::from_env()
            .with_client_options(self.client)
            .with_retry(self.retry)
            .with_http_connector(PacedConnector { pacer: self.pacer })
            .with_container_name(container)
            .build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(address: &str) -> String {
        Target::open(address, &TargetOptions::default()).unwrap_err().to_string()
    }

    #[test]
    fn addresses_that_make_no_sense_are_refused_without_repeating_secrets() {
        assert!(refusal("s3://KEY:SECRET@bucket/x").contains("do not belong"));
        assert!(!refusal("s3://KEY:SECRET@bucket/x").contains("SECRET"));
        assert!(!refusal("az://container/x?sig=SECRET").contains("SECRET"));
        assert!(refusal("s3:///x").contains("expected a bucket"));
        assert!(refusal("ftp://host/x").contains("expected s3://"));
        assert!(refusal("/nonexistent/drive").contains("not mounted"));
    }

    #[test]
    fn no_object_has_more_parts_than_stores_take() {
        let folder = tempfile::tempdir().unwrap();
        let mut target =
            Target::open(folder.path().to_str().unwrap(), &TargetOptions::default()).unwrap();
        target.folder = None;
        for bytes in [1, PART_BYTES, 1 << 30, 80 << 30, 1 << 40, (5 << 40) - 1] {
            let part_bytes = target.part_bytes(bytes);
            assert!(part_bytes >= 5 << 20 && bytes.div_ceil(part_bytes) <= PARTS_MAX, "{bytes}");
        }
    }
}
