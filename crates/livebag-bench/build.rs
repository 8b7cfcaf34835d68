//! Bakes the commit that the benchmark was built from into it: figures belong to the code of the binary, not to
//! what lies in the working directory when it runs.

use std::path::Path;
use std::process::Command;

/// What the binary is made of, relative to this package.
const SOURCES: [&str; 3] = ["../../crates", "../../Cargo.toml", "../../Cargo.lock"];

fn main() {
    SOURCES.iter().for_each(|path| println!("cargo:rerun-if-changed={path}"));
    for name in ["HEAD", "index", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name])
            && Path::new(&path).exists()
        {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    println!("cargo:rustc-env=LIVEBAG_COMMIT={}", commit());
}

/// `0123456789ab`, `0123456789ab-dirty` if the sources differ from it, or `unknown`: without git, or outside of
/// livebag's repository.
fn commit() -> String {
    let unknown = || "unknown".to_owned();
    // Below another repository, the commit would be that one's.
    let prefix = git(&["rev-parse", "--show-prefix"]);
    if !prefix.is_some_and(|prefix| prefix.starts_with("crates/livebag-")) {
        return unknown();
    }
    let mut status = vec!["status", "--porcelain", "--"];
    status.extend(SOURCES);
    match (git(&["rev-parse", "--short=12", "HEAD"]), git(&status)) {
        (Some(commit), Some(changed)) if changed.is_empty() => commit,
        (Some(commit), Some(_)) => format!("{commit}-dirty"),
        _ => unknown(),
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
