//! Completions for a shell.

use std::path::Path;
use std::process::Command;

use livebag_shm::StreamOptions;

use crate::common::{run, stream, text};
use crate::names::recording;

/// Completions in a bash that has sourced `livebag completions bash`, for the last word of a line.
fn offered(folder: &Path, line: &[&str]) -> Vec<String> {
    let script = r#"
        source <(livebag completions bash) || exit 1
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9
        _clap_complete_livebag livebag "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let program = Path::new(env!("CARGO_BIN_EXE_livebag"));
    let path = std::env::join_paths(
        std::iter::once(program.parent().unwrap().to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script, "bash", "livebag"]).args(line);
    let ended = bash.current_dir(folder).env("PATH", path.unwrap()).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.stderr.is_empty(), "{ended:?}");
    String::from_utf8(ended.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_offers_recordings_topics_streams_and_values() {
    let folder = tempfile::tempdir().unwrap();
    let (path, topic) = recording(folder.path(), "drive");
    run(&["convert", text(&path), text(&folder.path().join("bag"))]).expect(0, &[]);
    std::fs::create_dir(folder.path().join("drafts")).unwrap();
    std::fs::write(folder.path().join("driver.txt"), "no recording").unwrap();
    let here = |line: &[&str]| offered(folder.path(), line);
    assert_eq!(here(&["info", "dr"]), ["drafts/", "drive"]);
    assert_eq!(here(&["info", "dra"]), ["drafts/"]);
    let whole = format!("{}/dri", text(folder.path()));
    assert_eq!(here(&["verify", &whole]), [text(&path)]);
    // Topics of the recording that the line names, of whatever make it is.
    let begun = &topic[..topic.len() - 1];
    for bag in ["drive", "bag", "bag/bag_0.mcap"] {
        assert_eq!(here(&["query", bag, "latest", "-t", begun]), [&*topic], "{bag}");
        assert_eq!(here(&["convert", bag, "out", "--topic", "/"]), [&*topic], "{bag}");
    }
    assert_eq!(here(&["query", "drive", "latest", "-t", "/none"]), [""]);
    // Streams, by name and by topic.
    let (name, _writer) = stream(StreamOptions::bytes(100));
    assert_eq!(here(&["record", &name]), [&*name]);
    assert_eq!(here(&["record", &format!("/{name}")]), [format!("/{name}")]);
    assert_eq!(here(&["streams", "remove", &name]), [&*name]);
    // Verbs, flags, values.
    let verbs = here(&[""]);
    for verb in ["record", "query", "serve", "info", "streams", "completions"] {
        assert!(verbs.iter().any(|offered| offered == verb), "{verb}: {verbs:?}");
    }
    assert!(verbs.iter().all(|offered| offered != "man"), "hidden: {verbs:?}");
    assert_eq!(here(&["conv"]), ["convert"]);
    assert!(here(&["query", "drive", "latest", "--la"]).contains(&"--last".to_owned()));
    assert_eq!(here(&["convert", "drive", "out", "--storage", "m"]), ["mcap"]);
    assert_eq!(here(&["--color", "a"]), ["auto", "always"]);
}

#[test]
fn every_shell_gets_a_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]).expect(0, &[]).out;
        assert!(script.contains("LIVEBAG_COMPLETE"), "{shell}: {script}");
    }
}
