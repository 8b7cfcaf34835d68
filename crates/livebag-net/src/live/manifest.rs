//! The manifest of Foxglove's remote data loader: a recording's description, and where its messages are fetched.
//!
//! Source: the crate `foxglove` 0.30 (`src/remote_data_loader_backend/manifest.rs`). A finished recording is a file
//! with ranges. One that is being written grows, so it is a stream of what there is now.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use livebag::{Container, ContainerError, ContainerState};
use serde_json::{Value, json};

/// Schemas of a source, which MCAP's numbers bound.
const SCHEMAS_MAX: usize = u16::MAX as usize;

fn time(nanos: u64) -> String {
    let time = Timestamp::from_nanosecond(nanos.into());
    time.map_or_else(|_| Timestamp::MAX.to_string(), |time| time.to_string())
}

/// The manifest of a recording that is called `name` in addresses. Addresses in it are relative to the server.
///
/// # Errors
/// If the recording's times cannot be read.
pub fn manifest(name: &str, container: &Container) -> Result<Value, ContainerError> {
    let source = match container.state() {
        ContainerState::Live => streamed(name, container)?,
        _ => json!({ "url": format!("/bags/{name}.mcap"), "supportsRangeRequests": true }),
    };
    Ok(json!({ "name": name, "sources": [source] }))
}

fn streamed(name: &str, container: &Container) -> Result<Value, ContainerError> {
    let started = container.started_nanos();
    let (start, end) = container.time_range()?.unwrap_or((started, started));
    let mut schemas: Vec<(&str, &str, &[u8])> = Vec::new();
    let mut topics = Vec::new();
    for topic in container.topics() {
        let topic = topic.topic();
        let mut told = json!({ "name": topic.name, "messageEncoding": topic.message_encoding });
        if !topic.schema_encoding.is_empty() {
            let schema = (&*topic.type_name, &*topic.schema_encoding, &*topic.schema);
            let known = schemas.iter().position(|known| *known == schema);
            let place = known.unwrap_or(schemas.len());
            if place < SCHEMAS_MAX {
                if known.is_none() {
                    schemas.push(schema);
                }
                told["schemaId"] = json!(place + 1);
            }
        }
        topics.push(told);
    }
    let schemas = schemas.into_iter().enumerate().map(|(place, (name, encoding, data))| {
        let data = BASE64_STANDARD.encode(data);
        json!({ "id": place + 1, "name": name, "encoding": encoding, "data": data })
    });
    Ok(json!({
        "url": format!("/v1/bags/{name}/history?to={end}"),
        "id": format!("{name}-{started}-{end}"),
        "topics": topics,
        "schemas": schemas.collect::<Vec<_>>(),
        "startTime": time(start),
        "endTime": time(end),
    }))
}
