//! Errors are clear, with the right exit code, and nothing is created or destroyed.

use std::path::Path;
use std::process::Command;

use crate::common::{Ended, livebag, run, text, without_settings};

const VERBS: [&str; 10] = [
    "streams",
    "record",
    "ls",
    "info",
    "query",
    "convert",
    "verify",
    "recover",
    "doctor",
    "completions",
];

#[test]
fn every_verb_has_help_with_an_example() {
    for verb in VERBS {
        let help = run(&[verb, "--help"]).expect(0, &[]).out;
        assert!(help.contains("Example") && help.contains(&format!("livebag {verb}")), "{help}");
    }
    for what in ["latest", "history"] {
        let help = run(&["query", "x", what, "--help"]).expect(0, &[]).out;
        assert!(help.contains("Example"), "{help}");
    }
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("new");
    let new = text(&new);
    run(&[]).expect(2, &["Usage"]);
    run(&["rekord"]).expect(2, &["record"]);
    run(&["record", "-o", new]).expect(2, &["nothing to record", "--all"]);
    run(&["record", "--exclude-regex", "x", "-o", new]).expect(2, &["nothing to record"]);
    run(&["record", "-e", "(", "-o", new]).expect(2, &["regular expression"]);
    run(&["record", "-a", "--duration", "soon"]).expect(2, &["not a duration"]);
    run(&["record", "-a", "--duration", "0"]).expect(2, &["above zero"]);
    run(&["record", "-a", "--max-cache-size", "lots"]).expect(2, &["not a size"]);
    run(&["query", new]).expect(2, &["latest", "history"]);
    run(&["query", new, "history", "--from", "yesterday"]).expect(2, &["RFC 3339"]);
    run(&["query", new, "latest", "--last", "-1s"]).expect(2, &[]);
    run(&["query", new, "latest", "--json", "-o", "x.mcap"]).expect(2, &["cannot be used with"]);
    assert!(!Path::new(new).exists());
}

#[test]
fn names_that_cannot_be_are_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("new");
    let new = text(&new);
    let long = "x".repeat(300);
    let long_topic = format!("/{}", "x".repeat(600));
    let names =
        ["a/b", "../etc", "..", ".hidden", "a..b", "a b", "", "/a/../b", "/", &long, &long_topic];
    for name in names {
        let ended = run(&["record", name, "-o", new]).expect(2, &["livebag:", "name"]);
        assert!(ended.err.lines().count() <= 3, "{ended:?}");
        assert!(!Path::new(new).exists(), "{name}");
        if !name.is_empty() {
            run(&["streams", "remove", name]).expect(1, &["livebag:"]);
        }
    }
}

#[test]
fn a_recording_never_overwrites_and_needs_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    std::fs::create_dir(&there).unwrap();
    std::fs::write(there.join("precious"), "data").unwrap();
    run(&["record", "-a", "-o", text(&there)]).expect(1, &["exists already", "never overwrites"]);
    assert_eq!(std::fs::read_to_string(there.join("precious")).unwrap(), "data");
    let deep = folder.path().join("not/there");
    run(&["record", "-a", "-o", text(&deep)]).expect(1, &["does not exist", "mkdir -p"]);
    assert!(!folder.path().join("not").exists());
    let file = there.join("precious");
    let below = file.join("below");
    run(&["record", "-a", "-o", text(&below)]).expect(1, &["does not exist"]);
}

#[test]
fn what_is_no_container_is_told_apart_from_what_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let foreign = folder.path().join("foreign.txt");
    std::fs::write(&foreign, "no bag at all").unwrap();
    for verb in [&["info"][..], &["query"]] {
        let ask = |path: &Path| {
            let tail: &[&str] = if verb[0] == "query" { &["latest"] } else { &[] };
            run(&[verb, &[text(path)], tail].concat())
        };
        ask(&missing).expect(1, &["missing", "does not exist"]);
        ask(&empty).expect(1, &["empty", "rosbag2"]);
        ask(&foreign).expect(1, &["foreign.txt", "rosbag2"]);
    }
    run(&["doctor", text(&missing)]).expect(1, &["does not exist", "mkdir -p"]);
    assert_eq!(std::fs::read_to_string(&foreign).unwrap(), "no bag at all");
}

/// Records nothing into a new container.
fn empty_container(folder: &Path) -> std::path::PathBuf {
    let bag = folder.join("bag");
    run(&["record", "-e", "^no such stream$", "--duration", "0.05", "-o", text(&bag)])
        .expect(3, &[]);
    bag
}

#[test]
fn a_damaged_container_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let bag = empty_container(folder.path());
    let manifest = bag.join("container.yaml");
    let whole = std::fs::read_to_string(&manifest).unwrap();
    let newer = whole.replacen("\"livebag_container\": 1", "\"livebag_container\": 99", 1);
    assert_ne!(whole, newer);
    for (written, said) in
        [("", "damaged"), ("]:{", "damaged"), ("a: b", "damaged"), (&newer, "newer")]
    {
        std::fs::write(&manifest, written).unwrap();
        run(&["info", text(&bag)]).expect(1, &[text(&bag), said]);
        run(&["query", text(&bag), "latest"]).expect(1, &[said]);
        assert_eq!(std::fs::read_to_string(&manifest).unwrap(), written);
    }
}

#[test]
fn a_query_says_what_it_cannot_do() {
    let folder = tempfile::tempdir().unwrap();
    let bag = empty_container(folder.path());
    let bag = text(&bag);
    run(&["query", bag, "latest", "-t", "/none"]).expect(1, &["no topic /none"]);
    let swapped = ["query", bag, "history", "--from", "+2s", "--to", "+1s"];
    run(&swapped).expect(2, &["after", "exchange"]);
    let nowhere = folder.path().join("no/out.mcap");
    run(&["query", bag, "latest", "-o", text(&nowhere)]).expect(1, &["no/out.mcap", "mkdir -p"]);
    let here = folder.path().to_owned();
    run(&["query", bag, "latest", "-o", text(&here)]).expect(1, &["exists already"]);
}

/// Runs `livebag` as the user nobody; `None`, with the reason printed, where that is not possible.
fn run_as_nobody(arguments: &[&str]) -> Option<Ended> {
    if !rustix::process::geteuid().is_root() {
        return Some(run(arguments));
    }
    let ids = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut possible = Command::new("setpriv");
    possible.args(ids).arg(env!("CARGO_BIN_EXE_livebag")).arg("--version");
    if !possible.output().is_ok_and(|output| output.status.success()) {
        crate::lacks_right::lacks_right("setpriv is not here, or nobody may not run the command");
        return None;
    }
    let mut command = Command::new("setpriv");
    command.args(ids).arg(env!("CARGO_BIN_EXE_livebag")).args(arguments);
    without_settings(&mut command);
    Some(command.output().expect("setpriv runs").into())
}

#[test]
fn missing_rights_are_told() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let bag = empty_container(folder.path());
    set(folder.path(), 0o555);
    let new = folder.path().join("new");
    let Some(ended) = run_as_nobody(&["record", "-a", "-o", text(&new)]) else { return };
    ended.expect(1, &["no right to write", "choose another folder"]);
    let export = folder.path().join("out.mcap");
    let ended = run_as_nobody(&["query", text(&bag), "latest", "-o", text(&export)]).unwrap();
    ended.expect(1, &["out.mcap", "no right to write"]);
    let ended = run_as_nobody(&["doctor", text(folder.path())]).unwrap().expect(0, &[]);
    assert!(ended.out.contains("warn") && ended.out.contains("owner"), "{ended:?}");
    set(&bag.join("container.yaml"), 0o000);
    let ended = run_as_nobody(&["info", text(&bag)]).unwrap();
    ended.expect(1, &["container.yaml", "ermission"]);
    set(folder.path(), 0o755);
}

#[test]
fn doctor_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let checks = run(&["doctor", "--json", "--no-disk-speed", text(folder.path())]);
    let checks = checks.expect(0, &[]).json();
    let named = |name: &str| checks.as_array().unwrap().iter().any(|check| check["check"] == name);
    for name in ["kernel", "futex", "io_uring", "direct I/O", "free space", "open files"] {
        assert!(named(name), "{name} in {checks}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn output_that_nobody_reads_is_no_failure() {
    use std::process::Stdio;
    let mut command = livebag(&["completions", "bash"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended: Ended = child.wait_with_output().unwrap().into();
    ended.expect(0, &[]);
}
