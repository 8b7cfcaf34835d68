//! Fuzz targets: discovery data of other nodes. Errors are fine; panics, hanging and memory without bound are not.

use crate::types::Described;

/// A byte for the kind, then the bytes: Zenoh's liveliness tokens and attachments; DDS's names, free texts and
/// `ros_discovery_info`; a node's answer that describes a type; QoS in YAML.
pub fn discovery(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 4 {
        #[cfg(feature = "zenoh")]
        0 => crate::network::zenoh::read_foreign(bytes),
        #[cfg(feature = "dds")]
        1 => crate::network::dds::read_foreign(bytes),
        2 => {
            if let Ok(described) = Described::parse("a_msgs/msg/A", bytes) {
                assert!(!described.texts.is_empty());
            }
        }
        _ => drop(crate::QosOverrides::parse(&String::from_utf8_lossy(bytes))),
    }
}

#[cfg(test)]
mod tests;
