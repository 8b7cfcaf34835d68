//! Definitions of the types that nodes publish.
//!
//! A node announces the name of a type and, since Iron, its hash (RIHS01: REP-2016). The definition comes
//! from the first of these that has one of that hash:
//!
//! 1. an installed ROS ([`Installed`], `AMENT_PREFIX_PATH`),
//! 2. the bundled common interfaces,
//! 3. the node itself, by its service `~/get_type_description`.
//!
//! An equal hash proves an equal definition, so the node is asked last. Humble sends no type hashes: there the
//! type is looked up by name.

use livebag_format::definitions;

mod assemble;
mod described;
mod installed;
mod resolver;

pub use described::{Described, SERVICE_SUFFIX, SERVICE_TYPE, request};
pub use installed::Installed;
pub use resolver::{Answer, TypeResolver, Wanted};

/// A type's definition, as recordings keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// `ros2msg`, or empty if there is no definition.
    pub schema_encoding: String,
    /// The definition, with those of all types it needs.
    pub schema: Vec<u8>,
    /// RIHS01 hash: as announced, or of the definition; empty if neither is known.
    pub type_hash: String,
    /// A warning, as a sentence.
    pub warning: Option<String>,
}

/// The requirements for accepting a definition.
pub(crate) fn is_right(type_name: &str, text: &str, told: Option<&str>) -> bool {
    match told {
        Some(told) => definitions::rihs01(type_name, text).as_deref() == Some(told),
        None => true,
    }
}

impl Definition {
    /// A definition that was found.
    pub(crate) fn found(type_name: &str, text: String, told: Option<&str>) -> Self {
        let type_hash = told.map(str::to_owned).or_else(|| definitions::rihs01(type_name, &text));
        Self {
            schema_encoding: "ros2msg".to_owned(),
            schema: text.into_bytes(),
            type_hash: type_hash.unwrap_or_default(),
            warning: None,
        }
    }

    /// No definition: messages are recorded as the bytes they are.
    pub(crate) fn unknown(told: Option<&str>, warning: String) -> Self {
        Self {
            schema_encoding: String::new(),
            schema: Vec::new(),
            type_hash: told.unwrap_or_default().to_owned(),
            warning: Some(warning),
        }
    }
}

/// The definition on this machine: installed, or bundled.
pub(crate) fn of_this_machine(
    installed: &Installed,
    type_name: &str,
    told: Option<&str>,
) -> Option<Definition> {
    let found = [installed.schema(type_name), definitions::schema(type_name)];
    let text = found.into_iter().flatten().find(|text| is_right(type_name, text, told))?;
    Some(Definition::found(type_name, text, told))
}
