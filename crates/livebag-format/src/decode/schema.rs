//! Message definitions as text (`ros2msg`, `ros1msg`), parsed into the form that a decoder uses.
//!
//! The first part defines the type itself; each further one stands after a line of `=` and a line
//! `MSG: package/Type`. Constants and defaults are not in messages and are skipped.

use std::collections::HashMap;

use crate::definitions;

/// Why a topic's messages cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// Neither the recording nor the bundled types have a definition.
    #[error("there is no definition of {type_name:?}, in the recording or bundled")]
    None {
        /// The type.
        type_name: String,
    },
    /// Encodings that are not decoded.
    #[error(
        "messages of encoding {message_encoding:?} with schemas of encoding {schema_encoding:?} are \
         not decoded; cdr with ros2msg, ros1 with ros1msg, and json are"
    )]
    Encoding {
        /// The topic's message encoding.
        message_encoding: String,
        /// The topic's schema encoding.
        schema_encoding: String,
    },
    /// A line that is neither a field nor a constant.
    #[error("line {line} of the definition is neither a field nor a constant: {text:?}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// Types within types without end, where columns are made of all of them.
    #[error("the definition nests its types deeper than {depth_max} levels")]
    Depth {
        /// How many are followed.
        depth_max: usize,
    },
    /// More columns than make sense.
    #[error("the definition makes more than {columns_max} columns")]
    Columns {
        /// How many are made.
        columns_max: usize,
    },
    /// A type that columns cannot have.
    #[error("the field {field} is a wstring, which is not decoded")]
    WideString {
        /// Name of the field.
        field: String,
    },
    /// An array that Arrow cannot have.
    #[error("{reason}")]
    Arrow {
        /// What Arrow says.
        reason: String,
    },
    /// A type that is used but not defined.
    #[error("the definition uses the type {name:?} and does not define it")]
    UnknownType {
        /// The type as it is written.
        name: String,
    },
}

/// A parsed definition; the first structure is the root.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub(crate) structures: Vec<Vec<Field>>,
    pub(crate) is_ros1: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) count: Count,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Primitive(Primitive),
    /// Index into [`Schema::structures`].
    Structure(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    One,
    Fixed(usize),
    Sequence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Primitive {
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F32,
    F64,
    String,
    WideString,
    /// ROS 1's time: two u32.
    Time,
    /// ROS 1's duration: two i32.
    Duration,
}

impl Primitive {
    fn named(name: &str, is_ros1: bool) -> Option<Self> {
        Some(match name {
            "bool" | "boolean" => Primitive::Bool,
            // ROS 1's byte is signed, ROS 2's is an octet.
            "byte" if is_ros1 => Primitive::I8,
            "uint8" | "byte" | "char" | "octet" => Primitive::U8,
            "int8" => Primitive::I8,
            "uint16" => Primitive::U16,
            "int16" => Primitive::I16,
            "uint32" => Primitive::U32,
            "int32" => Primitive::I32,
            "uint64" => Primitive::U64,
            "int64" => Primitive::I64,
            "float32" | "float" => Primitive::F32,
            "float64" | "double" => Primitive::F64,
            "string" => Primitive::String,
            "wstring" => Primitive::WideString,
            "time" if is_ros1 => Primitive::Time,
            "duration" if is_ros1 => Primitive::Duration,
            _ => return None,
        })
    }

    /// Size and alignment of what always has the same size.
    pub(crate) fn bytes_and_alignment(self) -> Option<(usize, usize)> {
        Some(match self {
            Primitive::Bool | Primitive::U8 | Primitive::I8 => (1, 1),
            Primitive::U16 | Primitive::I16 => (2, 2),
            Primitive::U32 | Primitive::I32 | Primitive::F32 => (4, 4),
            Primitive::U64 | Primitive::I64 | Primitive::F64 => (8, 8),
            Primitive::Time | Primitive::Duration => (8, 4),
            Primitive::String | Primitive::WideString => return None,
        })
    }
}

/// A type's package and name.
pub(crate) type TypeName = (String, String);

/// The definition of one type, by lines; names in it are relative to its package.
pub(crate) struct Part<'a> {
    pub(crate) name: TypeName,
    /// As it is written after `MSG:`; empty for the root.
    pub(crate) full_name: &'a str,
    /// Number and text, comments taken off.
    pub(crate) lines: Vec<(usize, &'a str)>,
}

impl Schema {
    pub(crate) fn parse(type_name: &str, text: &str, is_ros1: bool) -> Result<Self, SchemaError> {
        let event = if is_ros1 { None } else { service_event(type_name, text) };
        let mut text = event.unwrap_or_else(|| text.to_owned());
        if !is_ros1 {
            // Some writers leave these out. Where they do not, the first definition holds.
            for name in ["builtin_interfaces/msg/Time", "builtin_interfaces/msg/Duration"] {
                let definition = definitions::schema(name).unwrap_or_default();
                text += &format!("\n{}\nMSG: {name}\n{definition}", "=".repeat(80));
            }
        }
        let parts = parts(package_and_name(type_name), &text);
        let mut by_name = HashMap::new();
        for (index, part) in parts.iter().enumerate() {
            by_name.entry(part.name.clone()).or_insert(index);
        }
        let mut structures = Vec::with_capacity(parts.len());
        for part in &parts {
            let mut fields = Vec::new();
            for (line, text) in &part.lines {
                let Some((type_text, name)) = field_words(text) else {
                    return Err(SchemaError::Line { line: *line, text: (*text).to_owned() });
                };
                let Some(name) = name else { continue };
                let Some((base, count)) = base_and_count(type_text) else {
                    return Err(SchemaError::Line { line: *line, text: (*text).to_owned() });
                };
                let kind = match Primitive::named(base, is_ros1) {
                    Some(primitive) => Kind::Primitive(primitive),
                    None => Kind::Structure(resolve(base, part, &by_name)?),
                };
                fields.push(Field { name: name.to_owned(), kind, count });
            }
            structures.push(fields);
        }
        Ok(Schema { structures, is_ros1 })
    }
}

/// The type that rosidl generates for a service's events (REP-2012), if `text` is the service's own definition, which
/// rosbag2 stores for them: request, `---`, response, and the types that they use.
fn service_event(type_name: &str, text: &str) -> Option<String> {
    let service = type_name.strip_suffix("_Event").filter(|name| name.contains("/srv/"))?;
    text.lines().find(|line| line.trim() == "---")?;
    let is_separator =
        |line: &str| line.trim().len() >= 10 && line.trim().bytes().all(|b| b == b'=');
    let mut parts = [String::new(), String::new(), String::new()];
    let mut at = 0;
    for line in text.lines() {
        match line.trim() {
            "---" if at == 0 => at = 1,
            _ => {
                at = if is_separator(line) { 2 } else { at };
                parts[at] += line;
                parts[at].push('\n');
            }
        }
    }
    let [request, response, rest] = parts;
    let separator = "=".repeat(80);
    let info = definitions::schema("service_msgs/msg/ServiceEventInfo").unwrap_or_default();
    Some(format!(
        "service_msgs/ServiceEventInfo info\n{service}_Request[<=1] request\n\
         {service}_Response[<=1] response\n\
         {separator}\nMSG: {service}_Request\n{request}\
         {separator}\nMSG: {service}_Response\n{response}{rest}\
         {separator}\nMSG: service_msgs/ServiceEventInfo\n{info}"
    ))
}

/// The root and each type after it, comments and empty lines left out.
pub(crate) fn parts(root: TypeName, text: &str) -> Vec<Part<'_>> {
    let mut parts = vec![Part { name: root, full_name: "", lines: Vec::new() }];
    let mut is_after_separator = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.len() >= 10 && line.bytes().all(|byte| byte == b'=') {
            is_after_separator = true;
        } else if let (true, Some(name)) = (is_after_separator, line.strip_prefix("MSG:")) {
            let full_name = name.trim();
            parts.push(Part { name: package_and_name(full_name), full_name, lines: Vec::new() });
            is_after_separator = false;
        } else {
            let code = without_comment(line);
            if let (false, Some(part)) = (code.is_empty(), parts.last_mut()) {
                part.lines.push((index + 1, code));
            }
        }
    }
    parts
}

/// A line up to its comment. A constant string has no comment: it extends to the end of its line.
fn without_comment(line: &str) -> &str {
    let code = line.split('#').next().unwrap_or_default().trim();
    match field_words(line) {
        Some(("string" | "wstring", None)) if !code.is_empty() => line,
        _ => code,
    }
}

/// `package/Type` or `package/msg/Type`; the package is empty if there is none.
pub(crate) fn package_and_name(name: &str) -> TypeName {
    let package = name.split_once('/').map_or("", |(package, _)| package);
    let last = name.rsplit('/').next().unwrap_or_default();
    (package.to_owned(), last.to_owned())
}

/// The type and the name of a field; no name for a constant; `None` if it is neither.
pub(crate) fn field_words(line: &str) -> Option<(&str, Option<&str>)> {
    let (type_text, rest) = line.split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    let name_end =
        rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
    let (name, after) = rest.split_at(name_end);
    if name.is_empty() {
        return None;
    }
    // What follows a field's name is its default.
    Some((type_text, (!after.trim_start().starts_with('=')).then_some(name)))
}

/// A type without its bounds, and how many of it there are.
fn base_and_count(type_text: &str) -> Option<(&str, Count)> {
    let (base, count) = match type_text.split_once('[') {
        None => (type_text, Count::One),
        Some((base, rest)) => match rest.strip_suffix(']')? {
            "" => (base, Count::Sequence),
            bound if bound.starts_with("<=") => (base, Count::Sequence),
            count => (base, Count::Fixed(count.parse().ok()?)),
        },
    };
    // `string<=20`
    let base = base.split_once("<=").map_or(base, |(base, _)| base);
    (!base.is_empty()).then_some((base, count))
}

/// The structure that a name means within `part`.
pub(crate) fn resolve(
    name: &str,
    part: &Part<'_>,
    by_name: &HashMap<TypeName, usize>,
) -> Result<usize, SchemaError> {
    let (package, last) = package_and_name(name);
    let find = |package: &str| by_name.get(&(package.to_owned(), last.clone())).copied();
    let found = if package.is_empty() {
        find(&part.name.0).or_else(|| find("std_msgs")).or_else(|| {
            // A root whose own package is not known.
            let mut all = by_name.iter().filter(|((_, name), _)| *name == last);
            all.next().map(|(_, index)| *index).filter(|_| all.next().is_none())
        })
    } else {
        find(&package)
    };
    found.ok_or_else(|| SchemaError::UnknownType { name: name.to_owned() })
}
