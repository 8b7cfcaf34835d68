//! What can go wrong with a store, in words.

use std::error::Error;
use std::io;

use crate::limits::{LISTED_MAX, OBJECTS_MAX};

/// Why something was not read from a store, or not written to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BucketError {
    /// The address makes no sense.
    #[error("{0}")]
    Address(String),
    /// The store refused something or did not answer.
    #[error("{address}: {} ({said})", words_at(address, *failure))]
    Store {
        /// The object, or the bucket and the prefix.
        address: String,
        /// What it means.
        failure: StoreFailure,
        /// The store's own words, without secrets.
        said: String,
    },
    /// No recording is there.
    #[error(
        "{0}: the store has no recording of that name, and no folder: check the address (`livebag push` says where it \
         puts recordings)"
    )]
    Nothing(String),
    /// Its manifest, which is written last, is not there.
    #[error(
        "{0} is not complete: its push is under way or was interrupted; the same `livebag push` goes on with it"
    )]
    Incomplete(String),
    /// More than one recording has.
    #[error("{0} has more than {OBJECTS_MAX} objects: give the address of one recording")]
    TooManyObjects(String),
    /// More than can be listed.
    #[error(
        "{0} has more than {LISTED_MAX} objects below it: give a longer address, such as that of one robot"
    )]
    TooManyListed(String),
    /// The runtime for requests could not be started.
    #[error("the network's thread cannot be started: {0}")]
    Runtime(io::Error),
}

/// What a store's failure means, and its cure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreFailure {
    /// None were found.
    NoCredentials,
    /// They are wrong or expired.
    Credentials,
    /// They do not allow this.
    Forbidden,
    /// This machine's user may not read or write a folder.
    Folder,
    /// There is no such bucket.
    NoBucket,
    /// This machine's clock is wrong.
    Clock,
    /// The store or the account is full.
    Full,
    /// The store answers, but that it is busy or broken.
    Unavailable,
    /// The store does not answer.
    Unreachable,
    /// Anything else.
    Other,
}

impl std::fmt::Display for StoreFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoCredentials => {
                "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE with \
                 ~/.aws/credentials, or run on an instance with a role"
            }
            Self::Credentials => "the store does not accept the credentials: check the key and its secret, or renew them",
            Self::Forbidden => "the credentials do not allow this: the key needs the rights to list and read there, and for a push also to write",
            Self::Folder => "this user may not read or write there: change the folder's rights, or mount its drive for writing",
            Self::NoBucket => "there is no such bucket: make it, or check the address, the region and AWS_ENDPOINT_URL",
            Self::Clock => "this machine's clock is wrong: set it (`timedatectl`), then try again",
            Self::Full => "the store is full, or a quota is used up: free some space there, then try again",
            Self::Unavailable => "the store is busy or broken, and was asked again in vain: try again later",
            Self::Unreachable => "the store does not answer: check the network and the address, then try again",
            Self::Other => "the store refused the request",
        })
    }
}

/// A failure's words, with the settings of that store.
fn words_at(address: &str, failure: StoreFailure) -> String {
    match (failure, address.split_once("://").map(|(scheme, _)| scheme)) {
        (StoreFailure::NoCredentials, Some("gs")) => {
            "no credentials were found: set GOOGLE_APPLICATION_CREDENTIALS, or run on an instance with a service account"
                .to_owned()
        }
        (StoreFailure::NoCredentials, Some("az" | "azure" | "abfs")) => {
            "no credentials were found: set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or run on an \
             instance with a managed identity"
                .to_owned()
        }
        _ => failure.to_string(),
    }
}

impl BucketError {
    /// Without the address, where the caller names it.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Store { address, failure, said } => {
                format!("{} ({said})", words_at(address, *failure))
            }
            error => error.to_string(),
        }
    }

    /// What a store's error means for `address`.
    pub fn of_store(address: impl Into<String>, error: &object_store::Error) -> Self {
        let text = chain(error);
        let failure = meaning(error, &text);
        Self::Store { address: address.into(), failure, said: said(&text) }
    }
}

/// Whether sending the same bytes again may help, because they were damaged on their way.
pub fn is_damaged_on_the_way(error: &object_store::Error) -> bool {
    let text = chain(error);
    let code = element(&text, "Code").unwrap_or_default();
    // A changed body no longer fits its signature, either.
    [
        "BadDigest",
        "XAmzContentSHA256Mismatch",
        "SignatureDoesNotMatch",
        "IncompleteBody",
        "InvalidDigest",
    ]
    .contains(&code)
}

/// Whether the store no longer knows an upload, or a part of it.
pub fn is_forgotten(error: &object_store::Error) -> bool {
    let text = chain(error);
    matches!(error, object_store::Error::NotFound { .. })
        || ["NoSuchUpload", "InvalidPart"].contains(&element(&text, "Code").unwrap_or_default())
}

/// Whether the reply, or the request, was lost on its way.
pub fn is_lost_on_the_way(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::Generic { .. })
        && meaning(error, &chain(error)) == StoreFailure::Unreachable
}

fn meaning(error: &object_store::Error, text: &str) -> StoreFailure {
    let code = element(text, "Code").unwrap_or_default();
    match code {
        "RequestTimeTooSkewed" | "RequestExpired" => return StoreFailure::Clock,
        "NoSuchBucket" | "ContainerNotFound" | "InvalidBucketName" => {
            return StoreFailure::NoBucket;
        }
        "InvalidAccessKeyId"
        | "XAdminUserNotFound"
        | "SignatureDoesNotMatch"
        | "InvalidToken"
        | "ExpiredToken"
        | "TokenRefreshRequired"
        | "AuthenticationFailed"
        | "NotSignedUp"
        | "InvalidSecurity" => return StoreFailure::Credentials,
        "AccessDenied" | "AllAccessDisabled" | "AuthorizationFailure" => {
            return StoreFailure::Forbidden;
        }
        "QuotaExceeded"
        | "StorageFull"
        | "XMinioStorageFull"
        | "InsufficientStorage"
        | "BucketQuotaExceeded"
        | "XAmzQuotaExceeded" => return StoreFailure::Full,
        _ => {}
    }
    if let Some(kind) = io_kind(error) {
        match kind {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => return StoreFailure::Full,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                return StoreFailure::Folder;
            }
            _ => {}
        }
    }
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&[
        "169.254.169.254",
        "metadata.google.internal",
        "MissingAccessKeyId",
        "MissingSecretAccessKey",
    ]) {
        return StoreFailure::NoCredentials;
    }
    if has(&["507 Insufficient Storage"]) {
        return StoreFailure::Full;
    }
    if has(&["status code: 5", "429 Too Many", "SlowDown"]) {
        return StoreFailure::Unavailable;
    }
    if has(&["HTTP error", "error sending request", "connection"]) {
        return StoreFailure::Unreachable;
    }
    match error {
        object_store::Error::Unauthenticated { .. } => StoreFailure::Credentials,
        object_store::Error::PermissionDenied { .. } => StoreFailure::Forbidden,
        _ => StoreFailure::Other,
    }
}

fn io_kind(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        next = error.source();
    }
    None
}

/// The error and its causes, each once.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = cause.source();
    }
    text
}

/// The store's words in one line: of an answer in XML its code and message.
fn said(text: &str) -> String {
    let words = match (element(text, "Code"), element(text, "Message")) {
        (Some(code), Some(message)) if !message.is_empty() => format!("{code}: {message}"),
        (Some(code), _) => code.to_owned(),
        _ => text.to_owned(),
    };
    let words = match (element(text, "RequestTime"), element(text, "ServerTime")) {
        (Some(here), Some(there)) => {
            format!("{words}; this machine says {here}, the store {there}")
        }
        _ => words,
    };
    let words = without_secrets(&words.split_whitespace().collect::<Vec<_>>().join(" "));
    match words.char_indices().nth(400) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

/// Queries of addresses are cut: Azure's hold signatures.
fn without_secrets(text: &str) -> String {
    let clean = |word: &str| match word.split_once('?') {
        Some((before, query)) if before.contains("://") || query.contains('=') => {
            format!("{before}?…")
        }
        _ => word.to_owned(),
    };
    text.split(' ').map(clean).collect::<Vec<_>>().join(" ")
}

fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: &str, code: &str) -> object_store::Error {
        let text = format!(
            "Server returned non-2xx status code: {status}: <Error><Code>{code}</Code><Message>no</Message></Error>"
        );
        object_store::Error::Generic { store: "S3", source: text.into() }
    }

    #[test]
    fn a_stores_codes_have_words_and_a_cure() {
        for (status, code, failure) in [
            ("403 Forbidden", "InvalidAccessKeyId", StoreFailure::Credentials),
            ("403 Forbidden", "RequestTimeTooSkewed", StoreFailure::Clock),
            ("403 Forbidden", "AccessDenied", StoreFailure::Forbidden),
            ("404 Not Found", "NoSuchBucket", StoreFailure::NoBucket),
            ("403 Forbidden", "QuotaExceeded", StoreFailure::Full),
            ("507 Insufficient Storage", "Other", StoreFailure::Full),
            ("503 Service Unavailable", "SlowDown", StoreFailure::Unavailable),
            ("400 Bad Request", "Malformed", StoreFailure::Other),
        ] {
            let error = BucketError::of_store("s3://b/x", &answer(status, code)).to_string();
            assert!(error.contains(&failure.to_string()), "{error}");
            assert!(error.contains(&format!("({code}: no)")), "{error}");
        }
    }

    #[test]
    fn missing_credentials_are_those_of_the_store() {
        for (address, setting) in [
            ("s3://b", "AWS_ACCESS_KEY_ID"),
            ("gs://b", "GOOGLE_APPLICATION_CREDENTIALS"),
            ("az://b", "AZURE_STORAGE_ACCOUNT_KEY"),
        ] {
            let text = "no answer from http://169.254.169.254/";
            let source = object_store::Error::Generic { store: "x", source: text.into() };
            let words = BucketError::of_store(address, &source).to_string();
            assert!(words.contains(setting), "{words}");
            assert_eq!(words.contains("AWS"), address == "s3://b", "{words}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_no_matter_of_credentials() {
        for kind in [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::PermissionDenied] {
            let source = Box::new(io::Error::from(kind));
            let error = object_store::Error::Generic { store: "folder", source };
            let words = BucketError::of_store("/mnt/nas", &error).to_string();
            assert!(words.contains("mount its drive") && !words.contains("credentials"), "{words}");
        }
    }

    #[test]
    fn signatures_in_addresses_are_not_repeated() {
        let text =
            "Error performing PUT https://a.blob.core.windows.net/c/x?sv=1&sig=SECRET in 1s - gone";
        let source = object_store::Error::Generic { store: "Azure", source: text.into() };
        let words = BucketError::of_store("az://c/x", &source).to_string();
        assert!(!words.contains("SECRET") && words.contains("/c/x?…"), "{words}");
    }

    #[test]
    fn a_wrong_clock_is_told_with_both_times() {
        let text = "<Error><Code>RequestTimeTooSkewed</Code><Message>far off</Message>\
            <RequestTime>20261125T010000Z</RequestTime><ServerTime>2026-11-25T02:00:00Z</ServerTime></Error>";
        let source = object_store::Error::Generic { store: "S3", source: text.into() };
        let words = BucketError::of_store("s3://b", &source).to_string();
        assert!(
            words.contains("this machine says 20261125T010000Z, the store 2026-11-25T02:00:00Z"),
            "{words}"
        );
    }
}
