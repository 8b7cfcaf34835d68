//! Help as a terminal of 80 columns shows it.

use crate::common::{Ended, livebag};

fn help(arguments: &[&str]) -> String {
    let ended: Ended = livebag(arguments).env("COLUMNS", "80").output().unwrap().into();
    ended.expect(0, &[]).out
}

/// The names below `Commands:`.
fn verbs(help: &str) -> Vec<String> {
    let below = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let rows = below.take_while(|line| !line.is_empty());
    let rows = rows.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = rows.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

fn needs_bucket(verb: &str) -> bool {
    ["push", "find", "catalog"].contains(&verb)
}

#[test]
fn examples_need_no_wrapping_and_a_short_help_is_short() {
    for verb in verbs(&help(&["-h"])) {
        if ["bench", "demo"].contains(&&*verb) || needs_bucket(&verb) && !cfg!(feature = "bucket") {
            continue;
        }
        let wide: Ended =
            livebag(&[&verb, "--help"]).env("COLUMNS", "200").output().unwrap().into();
        let examples = wide.out.lines().skip_while(|line| !line.starts_with("Example"));
        for line in examples.take_while(|line| !line.is_empty()) {
            assert!(line.chars().count() <= 80, "{verb}: {line}");
        }
        let lines = help(&[&verb, "-h"]).lines().count();
        assert!(lines <= 75, "{verb}: {lines}");
    }
    // One line for each verb.
    let all = help(&["-h"]);
    let commands = all.lines().skip_while(|line| *line != "Commands:").skip(1);
    for row in commands.take_while(|line| !line.is_empty()) {
        assert!(!row.starts_with("   "), "{row}");
    }
}

#[test]
fn every_verbs_help_fits_80_columns() {
    let mut lines: Vec<Vec<String>> = vec![Vec::new()];
    let mut checked = 0;
    while let Some(line) = lines.pop() {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        for form in ["-h", "--help"] {
            // Verbs that are not in this build have no help.
            let is_absent = |verb: &&str| needs_bucket(verb) && !cfg!(feature = "bucket");
            if words.first().is_some_and(|verb| ["bench", "demo"].contains(verb) || is_absent(verb))
            {
                continue;
            }
            let text = help(&[&words[..], &[form]].concat());
            for row in text.lines() {
                assert!(row.chars().count() <= 80, "{words:?} {form}: {row}");
            }
            checked += 1;
            if form == "-h" {
                let verbs = verbs(&text).into_iter();
                lines.extend(verbs.map(|verb| [&line[..], &[verb]].concat()));
            }
        }
    }
    assert!(checked > 30, "{checked}");
}
