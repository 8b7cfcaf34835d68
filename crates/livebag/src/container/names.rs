//! Names of a container's files.

use std::collections::BTreeMap;

/// Names of bricks already given, so that two topics never share one by accident.
#[derive(Default)]
pub(crate) struct FileNames(BTreeMap<String, u32>);

impl FileNames {
    /// With the names taken that a container has for something else.
    pub fn of_container() -> Self {
        let mut names = Self::default();
        names.give("attachments");
        names
    }

    /// A file name for `topic`, without extension: `/camera/front` becomes `camera.front`.
    pub fn give(&mut self, topic: &str) -> String {
        let mut name: String = topic
            .trim_start_matches('/')
            .chars()
            .take(200)
            .map(|c| if c == '/' { '.' } else { c })
            .map(|c| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' })
            .collect();
        if name.is_empty() || name.starts_with('.') {
            name.insert_str(0, "topic");
        }
        loop {
            let count = self.0.entry(name.clone()).or_insert(0);
            *count += 1;
            if *count == 1 {
                return name;
            }
            name = format!("{name}-{count}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_stay_in_the_directory_and_apart() {
        let mut names = FileNames::default();
        assert_eq!(names.give("/camera/front"), "camera.front");
        assert_eq!(names.give("/camera.front"), "camera.front-2");
        assert_eq!(names.give("/../etc"), "topic...etc");
        assert_eq!(names.give(""), "topic");
        assert!(names.give(&"x".repeat(1000)).len() <= 210);
    }
}
