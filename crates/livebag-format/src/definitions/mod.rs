//! Bundled definitions of the common ROS 2 interfaces, for topics that come without one.
//!
//! One `.msgs` file per package, as of Jazzy: a line `MSG: type RIHS01-hash`, then the type's
//! constants and fields. Defaults and comments are left out; neither is part of the hash (REP-2016).

mod rihs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use rihs::rihs01;

/// The files, one per package.
const PACKAGES: [&str; 16] = [
    include_str!("action_msgs.msgs"),
    include_str!("builtin_interfaces.msgs"),
    include_str!("diagnostic_msgs.msgs"),
    include_str!("geometry_msgs.msgs"),
    include_str!("nav_msgs.msgs"),
    include_str!("rcl_interfaces.msgs"),
    include_str!("rosgraph_msgs.msgs"),
    include_str!("sensor_msgs.msgs"),
    include_str!("service_msgs.msgs"),
    include_str!("shape_msgs.msgs"),
    include_str!("std_msgs.msgs"),
    include_str!("stereo_msgs.msgs"),
    include_str!("tf2_msgs.msgs"),
    include_str!("trajectory_msgs.msgs"),
    include_str!("unique_identifier_msgs.msgs"),
    include_str!("visualization_msgs.msgs"),
];

struct Definition {
    type_hash: &'static str,
    text: &'static str,
}

static DEFINITIONS: LazyLock<BTreeMap<&'static str, Definition>> = LazyLock::new(|| {
    let entries = PACKAGES.iter().flat_map(|package| package.split("MSG: ").skip(1));
    entries
        .map(|entry| {
            let (head, text) = entry.split_once('\n').unwrap_or((entry, ""));
            let (type_name, type_hash) = head.split_once(' ').unwrap_or((head, ""));
            (type_name, Definition { type_hash, text: text.trim_end() })
        })
        .collect()
});

/// The names of the bundled types, sorted: `builtin_interfaces/msg/Time`, …
pub fn type_names() -> impl Iterator<Item = &'static str> {
    DEFINITIONS.keys().copied()
}

/// The RIHS01 hash of a bundled type: `RIHS01_` and 64 hexadecimal digits.
pub fn type_hash(type_name: &str) -> Option<&'static str> {
    DEFINITIONS.get(type_name).map(|definition| definition.type_hash)
}

/// A bundled type's own constants and fields.
pub(crate) fn own_text(type_name: &str) -> Option<&'static str> {
    DEFINITIONS.get(type_name).map(|definition| definition.text)
}

/// A bundled type's definition as schema text of encoding `ros2msg`: the type itself, then each type it needs, once,
/// after a line of 80 `=` and a line `MSG: package/Type`. This is rosbag2's form, and the only one in which Foxglove's
/// parser finds the types.
///
/// ```
/// let schema = livebag_format::definitions::schema("sensor_msgs/msg/Image").unwrap();
/// assert!(schema.starts_with("std_msgs/Header header\nuint32 height\n"));
/// assert!(schema.contains("\nMSG: builtin_interfaces/Time\n"));
/// ```
pub fn schema(type_name: &str) -> Option<String> {
    let root = DEFINITIONS.get(type_name)?;
    let mut text = format!("{}\n", root.text);
    let mut needed = dependencies(root.text);
    let mut next = 0;
    while let Some(type_name) = needed.get(next).cloned() {
        next += 1;
        let definition = DEFINITIONS.get(type_name.as_str())?;
        let short_name = type_name.replacen("/msg/", "/", 1);
        text += &format!("{}\nMSG: {short_name}\n{}\n", "=".repeat(80), definition.text);
        for deeper in dependencies(definition.text) {
            if !needed.contains(&deeper) {
                needed.push(deeper);
            }
        }
    }
    Some(text)
}

/// The message types named in a definition, in the order of their first appearance.
fn dependencies(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let type_text = line.split([' ', '[']).next().unwrap_or_default();
        if let Some((package, name)) = type_text.split_once('/') {
            let type_name = format!("{package}/msg/{name}");
            if !found.contains(&type_name) {
                found.push(type_name);
            }
        }
    }
    found
}
