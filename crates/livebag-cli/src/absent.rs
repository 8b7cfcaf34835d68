//! Verbs and options that this build lacks: they are listed, and name the feature that adds them.

#[cfg(not(all(feature = "bench", feature = "bucket", feature = "demo")))]
use std::ffi::OsString;

use crate::features::{FEATURES, cure};
use crate::outcome::CliError;

/// The arguments of a verb that is not in this build: whatever they are.
#[cfg(not(all(feature = "bench", feature = "bucket", feature = "demo")))]
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
