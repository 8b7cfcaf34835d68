//! The features that this build was made with.

/// The optional features of a build, whether this build has them, and their descriptions.
pub const FEATURES: [(&str, bool, &str); 9] = [
    ("bench", cfg!(feature = "bench"), "`livebag bench`"),
    ("bucket", cfg!(feature = "bucket"), "object stores"),
    ("demo", cfg!(feature = "demo"), "`livebag demo`"),
    ("http", cfg!(feature = "http"), "HTTP"),
    ("parquet", cfg!(feature = "parquet"), "`livebag export --parquet` and `--lerobot`"),
    ("ros2-dds", cfg!(feature = "ros2-dds"), "ROS 2 over DDS"),
    ("ros2-zenoh", cfg!(feature = "ros2-zenoh"), "ROS 2 over Zenoh"),
    ("sqlite3", cfg!(feature = "sqlite3"), "SQLite"),
    ("zenoh", cfg!(feature = "zenoh"), "Zenoh"),
];

/// How to get `feature` in addition to this build's features.
pub fn cure(feature: &str) -> String {
    let wanted = FEATURES.iter().filter(|(name, is_built, _)| *is_built || *name == feature);
    let wanted: Vec<_> = wanted.map(|(name, ..)| *name).collect();
    let needs = if feature == "ros2-dds" { " (it needs CMake and libclang)" } else { "" };
    format!(
        ": in its sources, run `cargo install --locked --path crates/livebag-cli --features {}`{needs}",
        wanted.join(",")
    )
}
