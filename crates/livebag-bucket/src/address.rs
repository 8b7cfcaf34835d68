//! Addresses of buckets.

use object_store::path::Path;

use crate::error::BucketError;

/// Whose store it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    S3,
    Google,
    Azure,
}

/// `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    text: String,
    pub(crate) kind: Kind,
    pub(crate) bucket: String,
    prefix: Path,
}

impl Address {
    /// Whether a text is meant as one, and not as a path.
    pub fn is_one(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| kind(scheme).is_some())
    }

    /// Reads an address.
    ///
    /// # Errors
    /// If it is none. The text does not repeat credentials.
    pub fn parse(text: &str) -> Result<Self, BucketError> {
        let (scheme, rest) = text.split_once("://").unwrap_or((text, ""));
        let wrong = |why: String| BucketError::Address(format!("{scheme}://…: {why}"));
        let kind =
            kind(scheme).ok_or_else(|| wrong("expected s3://, gs:// or az://".to_owned()))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.contains('@') {
            return Err(wrong(
                "credentials do not belong into an address: set them in the environment".to_owned(),
            ));
        }
        // `:` follows the name of a tenant (Ceph), and `$` begins names that Azure itself gives.
        let is_of_names = |c: char| c.is_ascii_alphanumeric() || ".-_:$".contains(c);
        if bucket.is_empty() || !bucket.chars().all(is_of_names) {
            return Err(wrong(format!(
                "expected a bucket and a prefix, as in {scheme}://fleet/robot7"
            )));
        }
        if rest.contains(['?', '#']) {
            return Err(wrong(format!(
                "an address cannot contain `?` or `#`: expected a bucket and a prefix, as in {scheme}://fleet/robot7"
            )));
        }
        let prefix =
            Path::parse(prefix.trim_end_matches('/')).map_err(|error| wrong(error.to_string()))?;
        let text = text.trim_end_matches('/').to_owned();
        Ok(Self { text, kind, bucket: bucket.to_owned(), prefix })
    }

    /// As it was given, without a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The keys of all its objects begin with this.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }
}

/// The object of a key below a prefix.
///
/// # Errors
/// If no object can be called so.
pub fn path_below(prefix: &Path, key: &str) -> Result<Path, BucketError> {
    let path = match prefix.as_ref() {
        "" => Path::parse(key),
        prefix => Path::parse(format!("{prefix}/{key}")),
    };
    path.map_err(|error| {
        BucketError::Address(format!("{key} cannot be the name of an object: {error}"))
    })
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

fn kind(scheme: &str) -> Option<Kind> {
    match scheme {
        "s3" | "s3a" => Some(Kind::S3),
        "gs" => Some(Kind::Google),
        "az" | "azure" | "abfs" => Some(Kind::Azure),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(address: &str) -> String {
        Address::parse(address).unwrap_err().to_string()
    }

    #[test]
    fn addresses_that_make_no_sense_are_refused_without_repeating_secrets() {
        assert!(refusal("s3://KEY:SECRET@bucket/x").contains("do not belong"));
        assert!(!refusal("s3://KEY:SECRET@bucket/x").contains("SECRET"));
        assert!(!refusal("az://container/x?sig=SECRET").contains("SECRET"));
        assert!(refusal("s3:///x").contains("expected a bucket"));
        assert!(refusal("s3://fl eet/x").contains("expected a bucket"));
        assert!(refusal("s3://fleet\n/x").contains("expected a bucket"));
        assert!(refusal("s3://fleet/run?1").contains("cannot contain `?`"));
        assert!(Address::parse("s3://tenant:fleet_1/x").is_ok());
        assert!(refusal("ftp://host/x").contains("expected s3://"));
    }

    #[test]
    fn keys_are_below_the_prefix() {
        let address = Address::parse("s3://fleet/robot7/").unwrap();
        assert_eq!(address.as_str(), "s3://fleet/robot7");
        let path = |address: &Address, key| path_below(address.prefix(), key).unwrap().to_string();
        assert_eq!(path(&address, "run1/imu.idx"), "robot7/run1/imu.idx");
        assert_eq!(path(&Address::parse("gs://fleet").unwrap(), "run1"), "run1");
    }
}
