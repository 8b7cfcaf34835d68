//! Stores, opened with the credentials that are there.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
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
/// If settings of the environment or of a profile cannot be used, or contradict each other.
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
        Kind::S3 => {
            let builder = s3();
            let is_http = check(&builder).map_err(|why| {
                BucketError::Address(format!("{address} cannot be reached: {why}"))
            })?;
            builder
                .with_client_options(client.with_allow_http(is_http))
                .with_retry(retry)
                .with_http_connector(connector)
                .with_bucket_name(bucket)
                .build()
                .map(Store::from)
        }
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

fn s3() -> AmazonS3Builder {
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
    builder
}

/// Refuses settings that the client accepts, but panics on with its first request. Returns whether the endpoint is
/// reached without TLS.
fn check(builder: &AmazonS3Builder) -> Result<bool, String> {
    // Values are never repeated: they may be secrets, and an endpoint may contain some.
    for (key, name) in [
        (AmazonS3ConfigKey::AccessKeyId, "the access key (AWS_ACCESS_KEY_ID, or of a profile)"),
        (AmazonS3ConfigKey::SecretAccessKey, "the secret (AWS_SECRET_ACCESS_KEY, or of a profile)"),
        (AmazonS3ConfigKey::Token, "the session token (AWS_SESSION_TOKEN, or of a profile)"),
        (AmazonS3ConfigKey::Region, "the region (AWS_REGION, or of a profile)"),
    ] {
        let value = builder.get_config_value(&key).unwrap_or_default();
        if !value.chars().all(|c| c.is_ascii_graphic()) {
            return Err(format!(
                "{name} has a line break, a blank or another character that none has: set it without"
            ));
        }
    }
    let key = AmazonS3ConfigKey::S3Endpoint;
    let (endpoint, name) = match builder.get_config_value(&key) {
        Some(endpoint) => (endpoint, "AWS_ENDPOINT_URL_S3"),
        None => match builder.get_config_value(&AmazonS3ConfigKey::Endpoint) {
            Some(endpoint) => (endpoint, "AWS_ENDPOINT_URL (or endpoint_url of a profile)"),
            None => return Ok(false),
        },
    };
    // The client uses both parsers, and each accepts texts that the other one refuses.
    let is_url = reqwest::Url::parse(&endpoint).is_ok();
    let uri = endpoint.parse::<http::Uri>().ok().filter(|uri| is_url && uri.host().is_some());
    match uri.as_ref().and_then(http::Uri::scheme_str) {
        Some("http") => Ok(true),
        Some("https") => Ok(false),
        _ => Err(format!(
            "{name} is not the address of a store: expected https://HOST or http://HOST:PORT"
        )),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(key: AmazonS3ConfigKey, value: &str) -> Result<bool, String> {
        check(&AmazonS3Builder::new().with_config(key, value))
    }

    #[test]
    fn an_endpoint_that_no_request_can_be_sent_to_is_refused() {
        let endpoint = |value| checked(AmazonS3ConfigKey::Endpoint, value);
        assert_eq!(check(&AmazonS3Builder::new()), Ok(false));
        assert_eq!(endpoint("https://minio.example/path"), Ok(false));
        assert_eq!(endpoint("http://127.0.0.1:9000/"), Ok(true));
        assert_eq!(endpoint("HTTP://[::1]:9000"), Ok(true));
        for wrong in [
            "",
            "127.0.0.1:9000",
            "localhost:9000",
            "minio",
            "http://",
            "http://minio ",
            "http://minio:99999",
            "ftp://minio",
        ] {
            assert!(endpoint(wrong).unwrap_err().contains("expected https://HOST"), "{wrong}");
        }
    }

    /// It takes precedence over the general one.
    #[test]
    fn the_endpoint_of_s3_alone_is_checked_too() {
        let key = AmazonS3ConfigKey::S3Endpoint;
        assert!(checked(key, "localhost:9000").unwrap_err().contains("AWS_ENDPOINT_URL_S3"));
        let general = AmazonS3ConfigKey::Endpoint;
        let both = AmazonS3Builder::new().with_config(general, "https://minio");
        assert_eq!(check(&both.with_config(key, "http://minio")), Ok(true));
    }

    #[test]
    fn settings_that_no_header_can_carry_are_refused_without_repeating_them() {
        for key in [
            AmazonS3ConfigKey::AccessKeyId,
            AmazonS3ConfigKey::SecretAccessKey,
            AmazonS3ConfigKey::Token,
            AmazonS3ConfigKey::Region,
        ] {
            for value in ["hidden\n", "hidden ", "hiddén"] {
                let why = checked(key, value).unwrap_err();
                assert!(why.contains("line break") && !why.contains("hidd"), "{why}");
            }
        }
    }
}
