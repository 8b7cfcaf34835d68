//! Schema text of encoding `ros2msg`: a type, and each type that it needs after a line of `=`.

/// Types that one definition may need.
const TYPES_MAX: usize = 1000;
/// Longest schema text that is made.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// The types of `.msg` files that are not structures.
const PRIMITIVES: [&str; 17] = [
    "bool", "byte", "char", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32",
    "uint32", "int64", "uint64", "string", "wstring", "time", "duration",
];

/// The schema text of `type_name`, with the definitions that `text_of` has; `None` if one is missing.
pub(super) fn schema(type_name: &str, text_of: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let root = text_of(type_name)?;
    let mut needed = dependencies(type_name, &root);
    let mut text = format!("{}\n", root.trim_end());
    let mut next = 0;
    while let Some(name) = needed.get(next).cloned() {
        next += 1;
        let definition = text_of(&name)?;
        // rosbag2 leaves `/msg` out.
        let short_name = name.replacen("/msg/", "/", 1);
        text += &format!("{}\nMSG: {short_name}\n{}\n", "=".repeat(80), definition.trim_end());
        for deeper in dependencies(&name, &definition) {
            if !needed.contains(&deeper) {
                needed.push(deeper);
            }
        }
        if needed.len() > TYPES_MAX || text.len() > TEXT_BYTES_MAX {
            return None;
        }
    }
    Some(text)
}

/// The structures that a definition names, in the order of their first appearance.
fn dependencies(type_name: &str, text: &str) -> Vec<String> {
    let package = type_name.split('/').next().unwrap_or_default();
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let word = line.split_whitespace().next().unwrap_or_default();
        let base = word.split(['[', '<']).next().unwrap_or_default();
        if base.is_empty() || PRIMITIVES.contains(&base) {
            continue;
        }
        let name = match base.split('/').collect::<Vec<_>>()[..] {
            ["Header"] => "std_msgs/msg/Header".to_owned(),
            [name] => format!("{package}/msg/{name}"),
            [package, name] => format!("{package}/msg/{name}"),
            _ => base.to_owned(),
        };
        if name != type_name && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_needed_type_comes_once() {
        let text_of = |name: &str| {
            let text = match name {
                "a/msg/A" => "B b\nc/D[<=3] d # x/Y\nstring<=4 s\nbyte X=1\nHeader h\n",
                "a/msg/B" => "c/D d\n",
                "c/msg/D" => "int8 x\n",
                "std_msgs/msg/Header" => "string frame_id",
                _ => return None,
            };
            Some(text.to_owned())
        };
        let text = schema("a/msg/A", &text_of).unwrap();
        let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("MSG: ")).collect();
        assert_eq!(names, ["a/B", "c/D", "std_msgs/Header"]);
        assert_eq!(schema("a/msg/Missing", &text_of), None);
    }
}
