//! ROS 1's definitions of messages as ROS 2 writes them.
//!
//! `package/Type` becomes `package/msg/Type`, `time` and `duration` become those of
//! `builtin_interfaces`, `Header` loses its `seq`. A type that is bundled and has the same fields,
//! save for the case of their names (`CameraInfo`: `D` and `d`), is written as ROS 2 defines it.

use crate::decode::SchemaError;
use crate::decode::schema::{
    Field, Kind, Part, Primitive, Schema, field_words, package_and_name, parts,
};
use crate::definitions;

/// ROS 2's name of a ROS 1 type. Only `tf/tfMessage` moved to another package.
pub(super) fn type_name(ros1: &str) -> String {
    let (package, name) = package_and_name(ros1);
    match (&*package, &*name) {
        ("tf", "tfMessage") => "tf2_msgs/msg/TFMessage".to_owned(),
        ("", _) => name,
        _ => format!("{package}/msg/{name}"),
    }
}

/// Whether a structure is `std_msgs/Header` as ROS 1 defines it: the one that begins with `seq`.
pub(super) fn is_header(part: &Part<'_>, fields: &[Field]) -> bool {
    let shape: Vec<_> = fields.iter().map(|field| (&*field.name, field.kind)).collect();
    (&*part.name.0, &*part.name.1) == ("std_msgs", "Header")
        && matches!(
            shape[..],
            [
                ("seq", Kind::Primitive(Primitive::U32)),
                ("stamp", Kind::Primitive(Primitive::Time)),
                ("frame_id", Kind::Primitive(Primitive::String)),
            ]
        )
}

/// The definition `text` (`ros1msg`, with all that it needs) as `ros2msg`.
pub(super) fn to_ros2(ros1_name: &str, text: &str) -> Result<String, SchemaError> {
    let schema = Schema::parse(ros1_name, text, true)?;
    let parts = parts(package_and_name(ros1_name), text);
    let mut written = String::new();
    let mut uses = Uses::default();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            written += &head(part);
        }
        let fields = &schema.structures[index];
        if is_header(part, fields) {
            uses.time = true;
            written += "builtin_interfaces/Time stamp\nstring frame_id\n";
        } else {
            lines(part, fields, &parts, &mut uses, &mut written)?;
        }
    }
    for (is_used, name) in [(uses.time, "Time"), (uses.duration, "Duration")] {
        if is_used {
            let line = "=".repeat(80);
            let fields = "int32 sec\nuint32 nanosec";
            written += &format!("{line}\nMSG: builtin_interfaces/{name}\n{fields}\n");
        }
    }
    with_bundled_parts(&type_name(ros1_name), &written)
}

/// Whether times and durations are used, which are separate types in ROS 2.
#[derive(Default)]
struct Uses {
    time: bool,
    duration: bool,
}

/// The text before every part but the first.
fn head(part: &Part<'_>) -> String {
    format!("{}\nMSG: {}/{}\n", "=".repeat(80), part.name.0, part.name.1)
}

/// Appends a part's constants and fields.
fn lines(
    part: &Part<'_>,
    fields: &[Field],
    parts: &[Part<'_>],
    uses: &mut Uses,
    out: &mut String,
) -> Result<(), SchemaError> {
    let mut fields = fields.iter();
    for (number, line) in &part.lines {
        let wrong = || SchemaError::Line { line: *number, text: (*line).to_owned() };
        let (type_text, name) = field_words(line).ok_or_else(wrong)?;
        let Some(name) = name else {
            let (left, value) = line.split_once('=').ok_or_else(wrong)?;
            let name = left.trim_start_matches(type_text).trim();
            let type_text = if type_text == "char" { "uint8" } else { type_text };
            *out += &format!("{type_text} {name}={}\n", value.trim());
            continue;
        };
        let (base, shape) = type_text.split_at(type_text.find('[').unwrap_or(type_text.len()));
        let base = match fields.next().map(|field| field.kind) {
            Some(Kind::Primitive(Primitive::Time)) => {
                uses.time = true;
                "builtin_interfaces/Time".to_owned()
            }
            Some(Kind::Primitive(Primitive::Duration)) => {
                uses.duration = true;
                "builtin_interfaces/Duration".to_owned()
            }
            Some(Kind::Structure(index)) => {
                let (package, name) = &parts[index].name;
                format!("{package}/{name}")
            }
            // Another word for the same in ROS 1, and to rosidl; not to rosbags, which would find
            // the type's hash wrong.
            _ if base == "char" => "uint8".to_owned(),
            _ => base.to_owned(),
        };
        *out += &format!("{base}{shape} {name}\n");
    }
    Ok(())
}

/// Each part that the bundle has with the same fields, in the bundle's words.
fn with_bundled_parts(type_name: &str, text: &str) -> Result<String, SchemaError> {
    let schema = Schema::parse(type_name, text, false)?;
    let parts = parts(package_and_name(type_name), text);
    let mut written = String::new();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            written += &head(part);
        }
        let name = format!("{}/msg/{}", part.name.0, part.name.1);
        let bundled = definitions::own_text(&name);
        let lines: Vec<_> = match bundled.filter(|_| is_bundled(&name, &schema, &parts, index)) {
            Some(text) => text.lines().collect(),
            None => part.lines.iter().map(|(_, line)| *line).collect(),
        };
        for line in lines {
            written.push_str(line);
            written.push('\n');
        }
    }
    Ok(written)
}

/// Whether the bundled type has the fields of a structure, down to the last.
fn is_bundled(name: &str, schema: &Schema, our_parts: &[Part<'_>], index: usize) -> bool {
    let Some(text) = definitions::schema(name) else { return false };
    let Ok(bundled) = Schema::parse(name, &text, false) else { return false };
    let their_parts = parts(package_and_name(name), &text);
    // Pairs of structures to compare; each once, so that cycles end.
    let mut pairs = vec![(index, 0)];
    let mut next = 0;
    while let Some((ours, theirs)) = pairs.get(next).copied() {
        next += 1;
        let named = (our_parts.get(ours), their_parts.get(theirs));
        let (our_fields, their_fields) = (&schema.structures[ours], &bundled.structures[theirs]);
        if !matches!(named, (Some(our), Some(their)) if our.name == their.name)
            || our_fields.len() != their_fields.len()
        {
            return false;
        }
        for (our, their) in our_fields.iter().zip(their_fields) {
            let is_same = our.count == their.count && our.name.eq_ignore_ascii_case(&their.name);
            match (our.kind, their.kind) {
                (Kind::Primitive(a), Kind::Primitive(b)) if a == b && is_same => {}
                (Kind::Structure(a), Kind::Structure(b)) if is_same => {
                    if !pairs.contains(&(a, b)) {
                        pairs.push((a, b));
                    }
                }
                _ => return false,
            }
        }
    }
    true
}
