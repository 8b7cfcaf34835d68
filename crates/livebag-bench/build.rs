//! Stores the commit of the build and the versions of the peers in the benchmarks: figures belong to the code of the
//! binary, not to the files in the working directory when it runs.

use std::path::Path;
use std::process::Command;

/// The sources of the binary, relative to this package.
const SOURCES: [&str; 3] = ["../../crates", "../../Cargo.toml", "../../Cargo.lock"];
/// Here, and in the package as it is published.
const LOCK_FILES: [&str; 2] = ["../../Cargo.lock", "Cargo.lock"];
const PEERS: [&str; 4] = ["iceoryx2", "zenoh", "mcap", "io-uring"];

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
    println!("cargo:rustc-env=LIVEBAG_PEERS={}", peers());
}

/// `NAME VERSION, …` of the peers that the lock file has.
#[expect(clippy::disallowed_methods, reason = "Cargo's file, not a recording")]
fn peers() -> String {
    let lock =
        LOCK_FILES.iter().find_map(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let versions =
        PEERS.iter().filter_map(|name| Some(format!("{name} {}", locked_version(&lock, name)?)));
    versions.collect::<Vec<_>>().join(", ")
}

/// The version of a package: the line after its name.
fn locked_version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let (_, after) = lock.split_once(&format!("\nname = \"{package}\"\nversion = \""))?;
    Some(after.split_once('"')?.0)
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
