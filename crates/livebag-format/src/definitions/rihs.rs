//! RIHS01 type hashes (REP-2016): SHA-256 of a type's description as JSON, with the description of
//! each type that it needs (`type_description_interfaces`, REP-2011).
//!
//! Constants, defaults and comments are no part of it. The JSON is what Python's `json.dumps` makes
//! of it, as `rosidl_generator_type_description` does.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::schema;
use crate::decode::schema::{Part, TypeName, field_words, package_and_name, parts, resolve};

/// Names of types and fields are not longer; so the JSON is not out of proportion to the text.
const NAME_BYTES_MAX: usize = 512;
/// Types that are looked up in the bundle because the text lacks them.
const BUNDLED: [&str; 2] = ["builtin_interfaces/msg/Time", "builtin_interfaces/msg/Duration"];

/// The RIHS01 hash of a type by its definition: `RIHS01_` and 64 hexadecimal digits. `schema_text` is of
/// encoding `ros2msg`, with the definitions of all types that it needs (those of
/// `builtin_interfaces` may be missing).
///
/// `None` if the text is no such definition, or lacks a type.
///
/// ```
/// use livebag_format::definitions;
///
/// let hash = definitions::rihs01("std_msgs/msg/String", "string data # what is said");
/// assert_eq!(hash.as_deref(), definitions::type_hash("std_msgs/msg/String"));
/// ```
pub fn rihs01(type_name: &str, schema_text: &str) -> Option<String> {
    let mut text = schema_text.to_owned();
    for name in BUNDLED {
        let definition = schema(name)?;
        text += &format!("\n{}\nMSG: {name}\n{definition}", "=".repeat(80));
    }
    let parts = parts(package_and_name(type_name), &text);
    let mut by_name = HashMap::new();
    for (index, part) in parts.iter().enumerate() {
        by_name.entry(part.name.clone()).or_insert(index);
    }
    let json = Descriptions { parts: &parts, by_name: &by_name, root: type_name }.json()?;
    let mut hash = "RIHS01_".to_owned();
    for byte in Sha256::digest(json) {
        write!(hash, "{byte:02x}").ok()?;
    }
    Some(hash)
}

struct Descriptions<'a> {
    parts: &'a [Part<'a>],
    by_name: &'a HashMap<TypeName, usize>,
    root: &'a str,
}

impl Descriptions<'_> {
    fn json(&self) -> Option<String> {
        let mut needed = vec![0];
        // By name, which is the order in which the others are listed.
        let mut others = BTreeMap::new();
        let mut root = String::new();
        let mut next = 0;
        while let Some(index) = needed.get(next).copied() {
            next += 1;
            let json = self.structure(index, &mut needed)?;
            match index {
                0 => root = json,
                index => drop(others.insert(self.full_name(index)?, json)),
            }
        }
        let others: Vec<_> = others.into_values().collect();
        Some(format!(
            r#"{{"type_description": {root}, "referenced_type_descriptions": [{}]}}"#,
            others.join(", ")
        ))
    }

    /// `package/msg/Type`, or `srv` or `action` as in the definition.
    fn full_name(&self, index: usize) -> Option<String> {
        let part = &self.parts[index];
        let written = if index == 0 { self.root } else { part.full_name };
        let name = match written.matches('/').count() {
            0 => return None,
            1 => format!("{}/msg/{}", part.name.0, part.name.1),
            _ => written.to_owned(),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '/';
        (name.len() <= NAME_BYTES_MAX && name.chars().all(is_name)).then_some(name)
    }

    fn structure(&self, index: usize, needed: &mut Vec<usize>) -> Option<String> {
        let mut fields = Vec::new();
        for (_, line) in &self.parts[index].lines {
            let (type_text, name) = field_words(line)?;
            if let Some(name) = name.filter(|name| name.len() <= NAME_BYTES_MAX) {
                fields.push(self.field(index, type_text, name, needed)?);
            }
        }
        if fields.is_empty() {
            // IDL has no empty structure: rosidl puts this member there.
            fields.push(field_json("structure_needs_at_least_one_member", 3, 0, 0, ""));
        }
        let name = self.full_name(index)?;
        Some(format!(r#"{{"type_name": "{name}", "fields": [{}]}}"#, fields.join(", ")))
    }

    fn field(
        &self,
        index: usize,
        type_text: &str,
        name: &str,
        needed: &mut Vec<usize>,
    ) -> Option<String> {
        let (base, shape) = match type_text.split_once('[') {
            None => (type_text, None),
            Some((base, rest)) => (base, Some(rest.strip_suffix(']')?)),
        };
        // Added to the type's number: array, sequence with a bound, sequence without.
        let (added, capacity) = match shape {
            None => (0, 0),
            Some("") => (144, 0),
            Some(bound) => match bound.strip_prefix("<=") {
                Some(bound) => (96, bound.trim().parse().ok()?),
                None => (48, bound.trim().parse().ok()?),
            },
        };
        let (base, string_capacity) = match base.split_once("<=") {
            None => (base, 0),
            Some((base, bound)) => (base, bound.parse().ok()?),
        };
        if let Some(number) = primitive_number(base, string_capacity > 0) {
            return Some(field_json(name, added + number, capacity, string_capacity, ""));
        }
        let nested = resolve(base, &self.parts[index], self.by_name).ok()?;
        if !needed.contains(&nested) {
            needed.push(nested);
        }
        let nested = self.full_name(nested)?;
        Some(field_json(name, added + 1, capacity, string_capacity, &nested))
    }
}

fn field_json(
    name: &str,
    type_id: u8,
    capacity: u64,
    string_capacity: u64,
    nested: &str,
) -> String {
    format!(
        r#"{{"name": "{name}", "type": {{"type_id": {type_id}, "capacity": {capacity}, "string_capacity": {string_capacity}, "nested_type_name": "{nested}"}}}}"#
    )
}

/// The number of a type in `type_description_interfaces/msg/FieldType`. rosidl makes IDL of a
/// definition first, where `char` is `uint8` and `byte` is `octet`.
fn primitive_number(name: &str, is_bounded: bool) -> Option<u8> {
    Some(match (name, is_bounded) {
        ("string", false) => 17,
        ("string", true) => 21,
        ("wstring", false) => 18,
        ("wstring", true) => 22,
        (_, true) => return None,
        ("int8", _) => 2,
        ("uint8" | "char", _) => 3,
        ("int16", _) => 4,
        ("uint16", _) => 5,
        ("int32", _) => 6,
        ("uint32", _) => 7,
        ("int64", _) => 8,
        ("uint64", _) => 9,
        ("float32" | "float", _) => 10,
        ("float64" | "double", _) => 11,
        ("bool" | "boolean", _) => 15,
        ("byte" | "octet", _) => 16,
        _ => return None,
    })
}
