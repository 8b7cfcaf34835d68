//! Output on a terminal: colour for problems, and lines that fit its width.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::common::{livebag, run, text};
use crate::names::recording;

/// Runs it on a terminal of that many columns; returns its output.
fn on_terminal(arguments: &[&str], columns: u16, environment: &[(&str, &str)]) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&slave, size).unwrap();
    let mut command = livebag(arguments);
    command.env_remove("NO_COLOR").env("TERM", "xterm").envs(environment.iter().copied());
    command.stdout(Stdio::from(slave.try_clone().unwrap())).stderr(Stdio::from(slave));
    let mut child = command.spawn().unwrap();
    // The command holds the terminal still.
    drop(command);
    let mut shown = Vec::new();
    // Reading fails once the other side is closed.
    let _ = File::from(master).read_to_end(&mut shown);
    child.wait().unwrap();
    String::from_utf8(shown).unwrap()
}

/// A closed recording, and one that is damaged.
fn two_recordings(folder: &Path) -> String {
    let (_, topic) =
        recording(folder, "a_recording_with_a_name_that_takes_much_of_the_line_it_is_on");
    recording(folder, "torn");
    std::fs::write(folder.join("torn/container.yaml"), "]:{").unwrap();
    topic
}

/// Without escape sequences.
fn plain(shown: &str) -> String {
    let mut out = String::new();
    let mut characters = shown.chars();
    while let Some(character) = characters.next() {
        match character {
            '\x1b' => drop(characters.find(|c| c.is_ascii_alphabetic())),
            other => out.push(other),
        }
    }
    out
}

#[test]
fn a_terminal_shows_in_colour_what_is_wrong() {
    const RED: &str = "\x1b[1m\x1b[31m";
    let folder = tempfile::tempdir().unwrap();
    two_recordings(folder.path());
    let ls = ["ls", text(folder.path())];
    let shown = on_terminal(&ls, 120, &[]);
    assert!(shown.contains(&format!("{RED}damaged")), "{shown:?}");
    assert!(shown.contains("\x1b[1mpath"), "{shown:?}");
    for (arguments, environment) in [
        (&[][..], &[("NO_COLOR", "1")][..]),
        (&[], &[("TERM", "dumb")]),
        (&["--color", "never"], &[]),
    ] {
        let shown = on_terminal(&[&ls[..], arguments].concat(), 120, environment);
        assert!(!shown.contains('\x1b') && shown.contains("damaged"), "{shown:?}");
    }
    // Where there is no terminal there is colour only on demand.
    let ended = run(&ls).expect(0, &["torn"]);
    assert!(!ended.out.contains('\x1b') && !ended.err.contains('\x1b'), "{ended:?}");
    let ended = run(&[&ls[..], &["--color=always"]].concat()).expect(0, &[]);
    assert!(ended.out.contains(RED) && ended.err.contains(RED), "{ended:?}");
    let ended = run(&["info", text(&folder.path().join("none")), "--color", "always"]);
    assert!(ended.expect(1, &[]).err.starts_with(&format!("{RED}livebag:")));
    // clap's help and errors obey as well.
    assert!(run(&["--color", "always", "ls", "-h"]).expect(0, &[]).out.contains('\x1b'));
    assert!(!on_terminal(&["ls", "--help", "--color", "never"], 80, &[]).contains('\x1b'));
}

#[test]
fn tables_are_no_wider_than_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let topic = two_recordings(folder.path());
    let long = "a_recording_with_a_name_that_takes_much_of_the_line_it_is_on";
    let (_, _writer) = crate::common::stream(livebag_shm::StreamOptions::bytes(100));
    let bag = folder.path().join(long);
    let bag = text(&bag);
    for columns in [60, 80, 120] {
        for line in [
            &["ls", text(folder.path()), "--color", "never"][..],
            &["query", bag, "history"],
            &["streams"],
        ] {
            let shown = plain(&on_terminal(line, columns, &[]));
            // Below the head there may be streams of others.
            let rows = if line[0] == "streams" { 1 } else { usize::MAX };
            let table = shown.lines().take_while(|line| !line.trim().is_empty()).take(rows);
            for row in table.filter(|row| !row.starts_with("livebag:")) {
                let width = row.trim_end().chars().count();
                assert!(width <= usize::from(columns), "{columns}: {width}: {row}");
            }
        }
    }
    let narrow = plain(&on_terminal(&["ls", text(folder.path())], 80, &[]));
    assert!(narrow.contains('…') && narrow.contains("not shown here: "), "{narrow}");
    // Whole where a program reads it, and where there is room.
    assert!(run(&["ls", text(folder.path())]).out.contains(long));
    assert!(plain(&on_terminal(&["ls", text(folder.path())], 250, &[])).contains(long));
    assert!(run(&["info", bag]).out.contains(&topic));
}
