//! Recordings made by older versions are read: `tests/older/COMMIT.tar.gz` has them as that commit wrote them.

use std::path::Path;
use std::process::Command;

use crate::common::{livebag, text};

/// Recordings of 03c6097 (2026-11-22) with their messages.
const RECORDINGS: [(&str, u64); 7] = [
    ("plain", 6),
    ("checksum", 10),
    ("zstd", 47),
    ("splits", 9),
    ("one_file", 9),
    ("sqlite3", 10),
    ("killed", 57),
];

fn messages_of(recording: &Path) -> u64 {
    let counted =
        livebag(&["query", text(recording), "history", "--count", "--json"]).output().unwrap();
    assert!(
        matches!(counted.status.code(), Some(0 | 3)),
        "{}",
        String::from_utf8_lossy(&counted.stderr)
    );
    let counts: serde_json::Value = serde_json::from_slice(&counted.stdout).unwrap();
    counts["message_count"].as_u64().unwrap()
}

#[test]
fn recordings_of_older_versions_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
        .join("tests/older/03c6097.tar.gz");
    let unpacked =
        Command::new("tar").args(["-xzf", text(&archive), "-C", text(folder.path())]).status();
    assert!(unpacked.unwrap().success());
    for (name, messages) in RECORDINGS {
        let recording = folder.path().join("older").join(name);
        assert_eq!(messages_of(&recording), messages, "{name}");
        let verified = livebag(&["verify", text(&recording)]).output().unwrap();
        assert!(verified.status.success(), "{name}: {}", String::from_utf8_lossy(&verified.stdout));
        let converted = folder.path().join(format!("{name}.new"));
        let done =
            livebag(&["convert", text(&recording), "-o", text(&converted)]).output().unwrap();
        // 3: the losses of a kill are unknown.
        let is_done = matches!(done.status.code(), Some(0 | 3));
        assert!(is_done, "{name}: {}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(messages_of(&converted), messages, "{name}, converted");
    }
}
