//! Stream names of topics.

use std::collections::HashSet;

/// Longest name given here: leaves room for the suffixes within the 200 bytes of a stream name.
const BYTES_MAX: usize = 180;

/// Names used so far, so that two topics never share one by accident.
#[derive(Default)]
pub(super) struct StreamNames(HashSet<String>);

impl StreamNames {
    /// A stream name for `topic`: `/camera/front` becomes `camera.front`.
    pub fn give(&mut self, topic: &str) -> String {
        let stem = stem(topic);
        let numbered = (2u32..).map(|number| format!("{stem}-{number}"));
        let mut names = std::iter::once(stem.clone()).chain(numbered);
        let name = names.find(|name| !self.0.contains(name)).unwrap_or(stem.clone());
        self.0.insert(name.clone());
        name
    }
}

fn stem(topic: &str) -> String {
    let mut name = String::new();
    for c in topic.trim_start_matches(['/', '.']).chars().take(BYTES_MAX) {
        let c = if c == '/' { '.' } else { c };
        match c {
            '.' if name.ends_with('.') => {}
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' | '.' => name.push(c),
            _ => name.push('_'),
        }
    }
    name.truncate(name.trim_end_matches('.').len());
    match name.as_str() {
        "" => "topic".to_owned(),
        // The objects behind a stream's wake-ups end so.
        _ if name.ends_with(".wake") => format!("{name}_"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_topics_and_the_rules_of_streams() {
        let mut names = StreamNames::default();
        assert_eq!(names.give("/camera/front"), "camera.front");
        assert_eq!(names.give("/camera.front"), "camera.front-2");
        assert_eq!(names.give("/camera/front"), "camera.front-3");
        assert_eq!(names.give("/../etc//passwd"), "etc.passwd");
        assert_eq!(names.give("~private/köln"), "_private.k_ln");
        assert_eq!(names.give("/a.wake"), "a.wake_");
        assert_eq!(names.give("/"), "topic");
        assert_eq!(names.give("///"), "topic-2");
        assert!(names.give(&"x/".repeat(1000)).len() <= BYTES_MAX);
    }
}
