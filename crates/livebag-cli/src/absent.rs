//! What this build was made without: each is known, and says how to have it.

#[cfg(not(all(feature = "bench", feature = "demo")))]
use std::ffi::OsString;

use crate::outcome::CliError;

/// The features that a build can be made with, whether this one has them, and what they are in words.
const FEATURES: [(&str, bool, &str); 7] = [
    ("bench", cfg!(feature = "bench"), "`livebag bench`"),
    ("demo", cfg!(feature = "demo"), "`livebag demo`"),
    ("http", cfg!(feature = "http"), "HTTP"),
    ("ros2-dds", cfg!(feature = "ros2-dds"), "ROS 2 over DDS"),
    ("ros2-zenoh", cfg!(feature = "ros2-zenoh"), "ROS 2 over Zenoh"),
    ("sqlite3", cfg!(feature = "sqlite3"), "SQLite"),
    ("zenoh", cfg!(feature = "zenoh"), "Zenoh"),
];

/// The arguments of a verb that is not in this build: whatever they are.
#[cfg(not(all(feature = "bench", feature = "demo")))]
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// That `feature` is not in this build.
pub fn error(feature: &str) -> CliError {
    let words =
        FEATURES.iter().find(|(name, ..)| *name == feature).map_or(feature, |known| known.2);
    CliError::failed(format!("this livebag was built without {words}{}", cure(feature)))
}

/// How to have `feature` besides what this build has.
pub fn cure(feature: &str) -> String {
    let wanted = FEATURES.iter().filter(|(name, is_built, _)| *is_built || *name == feature);
    let wanted: Vec<_> = wanted.map(|(name, ..)| *name).collect();
    let needs = if feature == "ros2-dds" { " (it needs CMake and libclang)" } else { "" };
    format!(
        ": in its sources, run `cargo install --locked --path crates/livebag-cli --features {}`{needs}",
        wanted.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_feature_is_added_to_those_that_are_there() {
        let text = error("ros2-dds").to_string();
        assert!(text.contains("without ROS 2 over DDS"), "{text}");
        assert!(text.contains("CMake and libclang"), "{text}");
        for (name, is_built, _) in FEATURES {
            assert_eq!(text.contains(name), is_built || name == "ros2-dds", "{name}: {text}");
        }
    }
}
