//! YAML whose length may grow with a recording's topics.

use serde::de::DeserializeOwned;

/// Reads YAML. The reader's limits follow from the text's length, which its caller limits: a recording of 65,535
/// topics, each with its definition, exceeds the defaults of the YAML library (250,000 nodes, 64 MiB). The target of an
/// alias counts too, so that short text cannot expand without limit.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, serde_saphyr::Error> {
    let defaults = serde_saphyr::Budget::default();
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: defaults.max_nodes.max(text.len()),
            max_events: defaults.max_events.max(text.len().saturating_mul(2)),
            max_total_scalar_bytes: defaults.max_total_scalar_bytes.max(text.len()),
        },
    };
    serde_saphyr::from_str_with_options(text, options)
}
