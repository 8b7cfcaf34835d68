//! Credentials from the profile files that AWS's tools share (`~/.aws/credentials`, `~/.aws/config`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use livebag::{KernelDisk, ReadDisk};

/// What a profile says.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Profile {
    values: BTreeMap<String, String>,
}

impl Profile {
    /// The profile that the environment names, or `default`. `None` if no file has it.
    pub fn find() -> Option<Self> {
        let name = std::env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned());
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let path = |variable: &str, file: &str| {
            std::env::var_os(variable).map_or_else(|| home.join(".aws").join(file), PathBuf::from)
        };
        let config = read(&path("AWS_CONFIG_FILE", "config"));
        let credentials = read(&path("AWS_SHARED_CREDENTIALS_FILE", "credentials"));
        Self::of(&name, &config, &credentials)
    }

    /// The same from the files' contents; credentials win over config, as with AWS's tools.
    pub fn of(name: &str, config: &str, credentials: &str) -> Option<Self> {
        let mut sections = sections(config, true);
        let mut values = sections.remove(name);
        if let Some(more) = self::sections(credentials, false).remove(name) {
            values.get_or_insert_default().extend(more);
        }
        values.map(|values| Self { values })
    }

    /// The value of a key, such as `aws_access_key_id`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }
}

fn read(path: &Path) -> String {
    let bytes = KernelDisk::for_reading().read(path).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

/// In `config` sections are called `profile NAME`, but `default`.
fn sections(text: &str, is_config: bool) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut sections: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        // Indented lines belong to a nested value.
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        if let Some(name) = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let name = name.trim();
            let name = if is_config { name.strip_prefix("profile ").unwrap_or(name) } else { name };
            current = Some(name.trim().to_owned());
            sections.entry(name.trim().to_owned()).or_default();
        } else if let (Some(section), Some((key, value))) = (&current, line.split_once('=')) {
            let section = sections.entry(section.clone()).or_default();
            section.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "[default]\nregion = eu-west-1\n\n[profile fleet]\nregion=us-east-2\n\
        endpoint_url = http://127.0.0.1:7070\ns3 =\n  addressing_style = path\n";
    const CREDENTIALS: &str = "# of the fleet\n[default]\naws_access_key_id = A\naws_secret_access_key = s=1/2\n\
        [fleet]\nAWS_ACCESS_KEY_ID=B\naws_secret_access_key=t\naws_session_token=u\n";

    #[test]
    fn a_profile_has_what_both_files_say() {
        let fleet = Profile::of("fleet", CONFIG, CREDENTIALS).unwrap();
        assert_eq!(fleet.get("aws_access_key_id"), Some("B"));
        assert_eq!(fleet.get("aws_session_token"), Some("u"));
        assert_eq!(fleet.get("region"), Some("us-east-2"));
        assert_eq!(fleet.get("endpoint_url"), Some("http://127.0.0.1:7070"));
        assert_eq!(fleet.get("addressing_style"), None, "a nested value");
        let default = Profile::of("default", CONFIG, CREDENTIALS).unwrap();
        assert_eq!(default.get("aws_secret_access_key"), Some("s=1/2"));
        assert!(Profile::of("none", CONFIG, CREDENTIALS).is_none());
    }
}
