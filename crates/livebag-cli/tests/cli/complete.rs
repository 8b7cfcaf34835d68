//! Completions for a shell.

use std::path::Path;
use std::process::Command;

use livebag_shm::StreamOptions;

use crate::common::{run, stream, text, without_settings};
use crate::names::recording;

/// Completions in a bash that has sourced `livebag completions bash`, for the last word of a line.
fn offered(folder: &Path, line: &[&str]) -> Vec<String> {
    let script = r#"
        source <(livebag completions bash) || exit 1
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9
        _clap_complete_livebag livebag "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script, "bash", "livebag"]).args(line);
    said_by(bash, folder)
}

/// What a shell that finds livebag in its PATH prints, line by line.
fn said_by(mut shell: Command, folder: &Path) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_livebag"));
    let path = std::env::join_paths(
        std::iter::once(program.parent().unwrap().to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    without_settings(&mut shell);
    let ended = shell.current_dir(folder).env("PATH", path.unwrap()).output().unwrap();
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
    assert_eq!(here(&["export", "dri"]), ["drive"]);
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

/// What zsh's line editor is given for the last word of a line: values and, behind colons, words about them.
fn offered_by_zsh(folder: &Path, line: &[&str]) -> Vec<String> {
    let script = r#"
        compdef() { }
        _describe() { print -rl -- "${(@P)^3}${5}" }
        source <(livebag completions zsh) || exit 1
        words=("$@"); CURRENT=$#
        _clap_dynamic_completer_livebag; exit 0"#;
    let mut zsh = Command::new("zsh");
    zsh.args(["-f", "-c", script, "zsh", "livebag"]).args(line);
    said_by(zsh, folder)
}

/// The same of fish, which puts tabs between them.
fn offered_by_fish(folder: &Path, line: &[&str]) -> Vec<String> {
    let script = "livebag completions fish | source; complete -C \"$argv\"";
    let mut fish = Command::new("fish");
    fish.args(["--no-config", "-c", script, "livebag"]).args(line);
    fish.env("HOME", folder).env("XDG_RUNTIME_DIR", folder);
    said_by(fish, folder)
}

#[test]
fn zsh_and_fish_offer_the_same_as_bash() {
    let folder = tempfile::tempdir().unwrap();
    let (_, topic) = recording(folder.path(), "drive");
    std::fs::create_dir(folder.path().join("drafts")).unwrap();
    let begun = &topic[..topic.len() - 1];
    type Offered = fn(&Path, &[&str]) -> Vec<String>;
    let shells = [("zsh", ':', offered_by_zsh as Offered), ("fish", '\t', offered_by_fish)];
    for (shell, separator, offered) in shells {
        if Command::new(shell).arg("--version").output().is_err() {
            crate::skipped::skipped(&format!("{shell} is not here"));
            continue;
        }
        let here = |line: &[&str]| {
            let value = |line: &String| line.split(separator).next().unwrap().to_owned();
            let mut values: Vec<_> = offered(folder.path(), line).iter().map(value).collect();
            values.sort();
            values
        };
        assert_eq!(here(&["info", "dr"]), ["drafts/", "drive"], "{shell}");
        assert_eq!(here(&["query", "drive", "latest", "-t", begun]), [&*topic], "{shell}");
        assert_eq!(here(&["conv"]), ["convert"], "{shell}");
        assert_eq!(here(&["convert", "drive", "out", "--storage", "m"]), ["mcap"], "{shell}");
        assert!(here(&["query", "drive", "latest", "--la"]).contains(&"--last".into()), "{shell}");
    }
}

#[test]
fn every_shell_gets_a_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]).expect(0, &[]).out;
        assert!(script.contains("LIVEBAG_COMPLETE"), "{shell}: {script}");
    }
}
