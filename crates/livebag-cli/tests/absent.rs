//! A build knows the features it lacks, and names each in one sentence.
#![expect(clippy::disallowed_methods, reason = "tests look at files as users do")]

use std::process::Command;

/// A feature, whether this build has it, and a command line that needs it.
type Case = (&'static str, bool, &'static [&'static str]);

const CASES: &[Case] = &[
    ("bench", cfg!(feature = "bench"), &["bench", "--profile", "automotive", "--quick"]),
    ("bench", cfg!(feature = "bench"), &["bench", "--help"]),
    ("bucket", cfg!(feature = "bucket"), &["push", "run1", "s3://bucket/prefix"]),
    ("bucket", cfg!(feature = "bucket"), &["find", "s3://bucket/prefix"]),
    ("bucket", cfg!(feature = "bucket"), &["ls", "s3://bucket/prefix"]),
    ("demo", cfg!(feature = "demo"), &["demo", "--seconds", "1"]),
    ("http", cfg!(feature = "http"), &["serve", "."]),
    ("http", cfg!(feature = "http"), &["record", "--all", "--serve"]),
    ("http", cfg!(feature = "http"), &["ls", "http://127.0.0.1:1"]),
    ("http", cfg!(feature = "http"), &["query", "http://127.0.0.1:1/run1", "latest"]),
    ("parquet", cfg!(feature = "parquet"), &["export", "run1", "out", "--parquet"]),
    ("parquet", cfg!(feature = "parquet"), &["export", "run1", "--lerobot", "out", "--rules", "r"]),
    ("ros2-dds", cfg!(feature = "ros2-dds"), &["record", "--ros2", "dds", "--all"]),
    ("ros2-dds", cfg!(feature = "ros2-dds"), &["bridge", "--ros2", "dds", "--to-ros2"]),
    ("ros2-zenoh", cfg!(feature = "ros2-zenoh"), &["record", "--ros2", "zenoh", "--all"]),
    ("sqlite3", cfg!(feature = "sqlite3"), &["record", "--all", "--storage", "sqlite3"]),
    ("sqlite3", cfg!(feature = "sqlite3"), &["info", "bag.db3"]),
    ("sqlite3", cfg!(feature = "sqlite3"), &["verify", "bag.db3"]),
    ("zenoh", cfg!(feature = "zenoh"), &["robots"]),
    ("zenoh", cfg!(feature = "zenoh"), &["ls", "zenoh"]),
    ("zenoh", cfg!(feature = "zenoh"), &["record", "--all", "--serve", "--zenoh"]),
];

#[test]
fn a_verb_or_flag_that_was_not_built_says_how_to_have_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bag.db3"), b"SQLite format 3\0 and so on").unwrap();
    for (feature, is_built, arguments) in CASES {
        if *is_built {
            continue;
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_livebag"));
        let output = command.args(*arguments).current_dir(folder.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
        for words in ["this livebag was built without", "cargo install", feature] {
            assert!(text.contains(words), "no `{words}`: {arguments:?}: {text}");
        }
    }
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "something was made beside bag.db3");
}
