//! The answer of a node's service `~/get_type_description` (REP-2016; Iron and later).

use livebag_format::Topic;
use livebag_format::decode::{DecodeOptions, Decoder};
use serde_json::Value;

use super::assemble;

/// Suffix after a node's name.
pub const SERVICE_SUFFIX: &str = "/get_type_description";
/// The service's type.
pub const SERVICE_TYPE: &str = "type_description_interfaces/srv/GetTypeDescription";

/// Types that an answer may describe, fields that a type may have, and sources that may be sent.
const ITEMS_MAX: usize = 4096;

/// The answer's definition, type by type as in `type_description_interfaces` of Jazzy.
const RESPONSE: &str = "\
bool successful
string failure_reason
type_description_interfaces/TypeDescription type_description
type_description_interfaces/TypeSource[] type_sources
type_description_interfaces/KeyValue[] extra_information
====
MSG: type_description_interfaces/TypeDescription
type_description_interfaces/IndividualTypeDescription type_description
type_description_interfaces/IndividualTypeDescription[] referenced_type_descriptions
====
MSG: type_description_interfaces/IndividualTypeDescription
string<=255 type_name
type_description_interfaces/Field[] fields
====
MSG: type_description_interfaces/Field
string name
type_description_interfaces/FieldType type
string default_value
====
MSG: type_description_interfaces/FieldType
uint8 type_id
uint64 capacity
uint64 string_capacity
string<=255 nested_type_name
====
MSG: type_description_interfaces/TypeSource
string type_name
string encoding
string raw_file_contents
====
MSG: type_description_interfaces/KeyValue
string key
string value
";

/// The request for a type: CDR.
pub fn request(type_name: &str, type_hash: &str) -> Vec<u8> {
    let mut cdr = vec![0, 1, 0, 0];
    for text in [type_name, type_hash] {
        cdr.resize(cdr.len().next_multiple_of(4), 0);
        cdr.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
        cdr.extend_from_slice(text.as_bytes());
        cdr.push(0);
    }
    // include_type_sources: they have the constants.
    cdr.push(1);
    cdr
}

/// A node's description of a type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// Schema texts of encoding `ros2msg` to choose from, the best first: the files that the type was
    /// made from, with constants and comments; then what its description says.
    pub texts: Vec<String>,
}

impl Described {
    /// Reads the answer for a type (CDR).
    ///
    /// # Errors
    /// The error in it, in words.
    pub fn parse(type_name: &str, response: &[u8]) -> Result<Self, String> {
        let topic = Topic {
            type_name: "type_description_interfaces/srv/GetTypeDescription_Response".to_owned(),
            message_encoding: "cdr".to_owned(),
            schema_encoding: "ros2msg".to_owned(),
            schema: RESPONSE.replace("====", &"=".repeat(80)).into_bytes(),
            ..Topic::default()
        };
        let decoder = Decoder::new(&topic).map_err(|error| error.to_string())?;
        let options = DecodeOptions { array_items_max: ITEMS_MAX };
        let answer = decoder.decode(response, &options).map_err(|error| error.to_string())?;
        if answer["successful"] != Value::Bool(true) {
            return Err(format!("the node refused: {}", text(&answer["failure_reason"])));
        }
        let sources = assemble::schema(type_name, &|name| source(&answer["type_sources"], name));
        let described =
            assemble::schema(type_name, &|name| structure(&answer["type_description"], name));
        let texts: Vec<_> = [sources, described].into_iter().flatten().collect();
        match texts.is_empty() {
            true => Err(format!("the node's answer does not describe {type_name}")),
            false => Ok(Self { texts }),
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The file of a message type.
fn source(sources: &Value, type_name: &str) -> Option<String> {
    let is_it = |source: &&Value| {
        text(&source["type_name"]) == type_name && text(&source["encoding"]) == "msg"
    };
    let found = sources.as_array()?.iter().find(is_it)?;
    Some(text(&found["raw_file_contents"]).to_owned())
}

/// A type's fields as lines of a `.msg` file.
fn structure(description: &Value, type_name: &str) -> Option<String> {
    let others = description["referenced_type_descriptions"].as_array()?;
    let all = std::iter::once(&description["type_description"]).chain(others);
    let found = all.into_iter().find(|one| text(&one["type_name"]) == type_name)?;
    let fields = found["fields"].as_array()?.iter();
    let fields =
        fields.filter(|field| text(&field["name"]) != "structure_needs_at_least_one_member");
    fields.map(line).collect()
}

/// Names of the types by their number, from 2 on; `type_description_interfaces/msg/FieldType`.
const PRIMITIVES: [&str; 21] = [
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64",
    "", "uint8", "", "bool", "byte", "string", "wstring", "", "", "string", "wstring",
];

fn line(field: &Value) -> Option<String> {
    let of_type = &field["type"];
    let number = of_type["type_id"].as_u64()?;
    let (shape, base) = (number / 48, usize::try_from(number % 48).ok()?);
    let capacity = of_type["capacity"].as_u64()?;
    let name = match base {
        1 => text(&of_type["nested_type_name"]).replacen("/msg/", "/", 1),
        _ => (*PRIMITIVES.get(base.checked_sub(2)?)?).to_owned(),
    };
    let bound = match base {
        21 | 22 => format!("<={}", of_type["string_capacity"].as_u64()?),
        _ => String::new(),
    };
    let array = match shape {
        0 => String::new(),
        1 => format!("[{capacity}]"),
        2 => format!("[<={capacity}]"),
        3 => "[]".to_owned(),
        _ => return None,
    };
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_/".contains(&b))
    };
    let field_name = text(&field["name"]);
    (is_word(&name) && is_word(field_name)).then(|| format!("{name}{bound}{array} {field_name}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes CDR as rosidl does; enough of it for answers.
    #[derive(Default)]
    struct Cdr(Vec<u8>);

    impl Cdr {
        fn u32(&mut self, value: usize) {
            self.0.resize(self.0.len().next_multiple_of(4), 0);
            self.0.extend((value as u32).to_le_bytes());
        }

        fn u64(&mut self, value: u64) {
            self.0.resize(self.0.len().next_multiple_of(8), 0);
            self.0.extend(value.to_le_bytes());
        }

        fn string(&mut self, text: &str) {
            self.u32(text.len() + 1);
            self.0.extend(text.as_bytes());
            self.0.push(0);
        }

        fn structure(&mut self, name: &str, fields: &[(&str, u8, u64, u64, &str)]) {
            self.string(name);
            self.u32(fields.len());
            for (name, type_id, capacity, string_capacity, nested) in fields {
                self.string(name);
                self.0.push(*type_id);
                self.u64(*capacity);
                self.u64(*string_capacity);
                self.string(nested);
                self.string("");
            }
        }

        fn finish(self) -> Vec<u8> {
            [&[0, 1, 0, 0], &self.0[..]].concat()
        }
    }

    fn answer(with_sources: bool) -> Vec<u8> {
        let mut cdr = Cdr::default();
        cdr.0.push(1);
        cdr.string("");
        cdr.structure(
            "my_msgs/msg/Thing",
            &[
                ("header", 1, 0, 0, "std_msgs/msg/Header"),
                ("name", 21, 0, 10, ""),
                ("points", 1 + 144, 0, 0, "my_msgs/msg/Point"),
                ("matrix", 11 + 48, 9, 0, ""),
                ("few", 3 + 96, 5, 0, ""),
            ],
        );
        cdr.u32(3);
        cdr.structure("my_msgs/msg/Point", &[("x", 10, 0, 0, ""), ("is_set", 15, 0, 0, "")]);
        cdr.structure(
            "std_msgs/msg/Header",
            &[("stamp", 1, 0, 0, "builtin_interfaces/msg/Time"), ("frame_id", 17, 0, 0, "")],
        );
        cdr.structure(
            "builtin_interfaces/msg/Time",
            &[("sec", 6, 0, 0, ""), ("nanosec", 7, 0, 0, "")],
        );
        if with_sources {
            cdr.u32(4);
            for (name, text) in [
                (
                    "my_msgs/msg/Thing",
                    "uint8 A=1\nstd_msgs/Header header\nstring<=10 name\nPoint[] points\nfloat64[9] matrix\nuint8[<=5] few",
                ),
                ("my_msgs/msg/Point", "float32 x # m\nbool is_set"),
                ("std_msgs/msg/Header", "builtin_interfaces/Time stamp\nstring frame_id"),
                ("builtin_interfaces/msg/Time", "int32 sec\nuint32 nanosec"),
            ] {
                cdr.string(name);
                cdr.string("msg");
                cdr.string(text);
            }
        } else {
            cdr.u32(0);
        }
        cdr.u32(0);
        cdr.finish()
    }

    #[test]
    fn a_description_becomes_a_definition_of_the_same_hash() {
        let type_name = "my_msgs/msg/Thing";
        let described = Described::parse(type_name, &answer(false)).unwrap();
        let with_sources = Described::parse(type_name, &answer(true)).unwrap();
        assert_eq!((described.texts.len(), with_sources.texts.len()), (1, 2));
        assert!(with_sources.texts[0].contains("uint8 A=1"));
        let hash = |text: &str| livebag_format::definitions::rihs01(type_name, text).unwrap();
        assert_eq!(hash(&described.texts[0]), hash(&with_sources.texts[0]));
    }

    #[test]
    fn answers_that_say_nothing_are_refused_in_words() {
        let mut refusal = Cdr::default();
        refusal.0.push(0);
        refusal.string("no such type");
        for _ in 0..2 {
            refusal.string("");
            refusal.u32(0);
            refusal.u32(0);
        }
        let error = Described::parse("a/msg/B", &refusal.finish()).unwrap_err();
        assert!(!error.is_empty());
        let whole = answer(true);
        assert!(Described::parse("other_msgs/msg/Thing", &whole).is_err());
        for cut in 0..whole.len() {
            let _ = Described::parse("my_msgs/msg/Thing", &whole[..cut]);
        }
    }

    #[test]
    fn a_request_is_cdr() {
        let cdr = request("a/msg/B", "RIHS01_0");
        assert_eq!(&cdr[4..8], &8_u32.to_le_bytes());
        assert_eq!(&cdr[8..16], b"a/msg/B\0");
        assert_eq!(cdr.last(), Some(&1));
    }
}
