//! Stores, opened with the credentials that are there.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::client::HttpConnector;
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use object_store::multipart::MultipartStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::address::{Address, Kind};
use crate::error::BucketError;
use crate::limits::{BACKOFF_MAX, CONNECT, STALL};
use crate::profile::Profile;

/// An open bucket.
#[derive(Clone)]
pub struct Store {
    /// Its objects.
    pub objects: Arc<dyn ObjectStore>,
    /// The same store, for uploads in parts.
    pub parts: Arc<dyn MultipartStore>,
}

impl<S: ObjectStore + MultipartStore> From<S> for Store {
    fn from(store: S) -> Self {
        let store = Arc::new(store);
        Self { objects: store.clone(), parts: store }
    }
}

/// Opens the bucket of an address. Nothing is sent yet.
///
/// Credentials come from the environment, for S3 also from the profile files of AWS's tools, and from the machine
/// (instances, tasks, pods). A store that does not answer or is busy is asked again for `give_up_after`.
///
/// # Errors
/// If options of the environment contradict each other.
pub fn open_store(
    address: &Address,
    give_up_after: Duration,
    connector: impl HttpConnector,
) -> Result<Store, BucketError> {
    // Fails if there is one, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let backoff = BackoffConfig { max_backoff: BACKOFF_MAX, ..BackoffConfig::default() };
    // The time bounds them.
    let retry = RetryConfig { backoff, max_retries: 1000, retry_timeout: give_up_after };
    // A part takes as long as the link needs.
    let client = ClientOptions::new()
        .with_timeout_disabled()
        .with_read_timeout(STALL)
        .with_connect_timeout(CONNECT);
    let bucket = &*address.bucket;
    match address.kind {
        Kind::S3 => s3(bucket, retry, client, connector).map(Store::from),
        Kind::Google => google(bucket, retry, client, connector).map(Store::from),
        Kind::Azure => azure(bucket, retry, client, connector).map(Store::from),
    }
    .map_err(|error| BucketError::of_store(address.as_str(), &error))
}

/// One thread for requests, called `name`; it calls `on_start` first.
///
/// # Errors
/// If there can be no more threads.
pub fn runtime(
    name: &str,
    on_start: impl Fn() + Send + Sync + 'static,
) -> Result<tokio::runtime::Runtime, BucketError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name(name)
        .on_thread_start(on_start)
        .enable_all()
        .build()
        .map_err(BucketError::Runtime)
}

fn s3(
    bucket: &str,
    retry: RetryConfig,
    client: ClientOptions,
    connector: impl HttpConnector,
) -> object_store::Result<AmazonS3> {
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
            let is_place = matches!(key, AmazonS3ConfigKey::Region | AmazonS3ConfigKey::Endpoint);
            if let Some(value) = profile.get(name)
                && !(is_place && builder.get_config_value(&key).is_some())
            {
                builder = builder.with_config(key, value);
            }
        }
    }
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint).unwrap_or_default();
    builder
        .with_client_options(client.with_allow_http(endpoint.starts_with("http://")))
        .with_retry(retry)
        .with_http_connector(connector)
        .with_bucket_name(bucket)
        .build()
}

fn google(
    bucket: &str,
    retry: RetryConfig,
    client: ClientOptions,
    connector: impl HttpConnector,
) -> object_store::Result<GoogleCloudStorage> {
    GoogleCloudStorageBuilder::from_env()
        .with_client_options(client)
        .with_retry(retry)
        .with_http_connector(connector)
        .with_bucket_name(bucket)
        .build()
}

fn azure(
    container: &str,
    retry: RetryConfig,
    client: ClientOptions,
    connector: impl HttpConnector,
) -> object_store::Result<MicrosoftAzure> {
    MicrosoftAzureBuilder::from_env()
        .with_client_options(client)
        .with_retry(retry)
        .with_http_connector(connector)
        .with_container_name(container)
        .build()
}
