//! A message's fields as numbers.

use livebag::Topic;
use livebag_format::decode::{DecodeOptions, Decoder};
use serde_json::Value;

use super::rules::Field;

/// Values that one message may have.
const VALUES_MAX: usize = 1 << 20;
/// Numbers that a feature takes of each message.
const NUMBERS_MAX: usize = 1 << 16;

/// Takes the fields of a feature out of a topic's messages.
pub struct Extractor {
    decoder: Decoder,
}

impl Extractor {
    pub fn new(topic: &Topic) -> Result<Self, String> {
        let decoder = Decoder::new(topic).map_err(|error| error.to_string())?;
        Ok(Self { decoder })
    }

    /// Names and numbers, in the order of the rules; an error says why there are none.
    pub fn values(&self, message: &[u8], fields: &[Field]) -> Result<Vec<(String, f32)>, String> {
        let options = DecodeOptions { array_items_max: usize::MAX };
        let decoded = self.decoder.decode_at_most(message, &options, VALUES_MAX);
        let decoded = decoded.map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        for field in fields {
            let mut value = &decoded;
            for name in field.path.split('.') {
                let missing = || format!("it has no field {}", field.path);
                value = value.get(name).ok_or_else(missing)?;
            }
            let Some(items) = &field.items else {
                flatten(&field.path, value, &mut out)?;
                continue;
            };
            for at in items.clone() {
                let name = format!("{}[{at}]", field.path);
                let item = value.get(at).ok_or_else(|| format!("it has no {name}"))?;
                flatten(&name, item, &mut out)?;
            }
        }
        if out.len() > NUMBERS_MAX {
            return Err(format!("its fields have more than {NUMBERS_MAX} numbers"));
        }
        match out.iter().find(|(_, value)| !value.is_finite()) {
            Some((name, _)) => Err(format!("{name} is not a finite number")),
            None => Ok(out),
        }
    }
}

fn flatten(name: &str, value: &Value, out: &mut Vec<(String, f32)>) -> Result<(), String> {
    match value {
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            out.push((name.to_owned(), number as f32));
        }
        Value::Bool(flag) => out.push((name.to_owned(), f32::from(u8::from(*flag)))),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                flatten(&format!("{name}[{at}]"), item, out)?;
            }
        }
        Value::Object(fields) => {
            for (field, value) in fields {
                flatten(&format!("{name}.{field}"), value, out)?;
            }
        }
        Value::String(_) | Value::Null => return Err(format!("{name} is not a finite number")),
    }
    Ok(())
}
