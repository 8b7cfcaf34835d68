//! rosbag2's own loads, by name.

use super::producers::Producers;
use crate::outcome::CliError;

/// Names and documents.
const ALL: [(&str, &str); 6] = [
    ("automotive", include_str!("profiles/automotive.yaml")),
    ("100MBs_raw", include_str!("profiles/100MBs_raw.yaml")),
    ("200MBs_raw", include_str!("profiles/200MBs_raw.yaml")),
    ("300MBs_raw", include_str!("profiles/300MBs_raw.yaml")),
    ("mixed_110Mbs", include_str!("profiles/mixed_110Mbs.yaml")),
    ("low_pubs", include_str!("profiles/low_pubs.yaml")),
];

/// The names.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// The producers of this name.
pub fn producers(name: &str) -> Result<Producers, CliError> {
    match ALL.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => Producers::parse(&format!("the profile {name}"), name, text),
        None => {
            let known: Vec<_> = names().collect();
            let known = known.join(", ");
            Err(CliError::usage(format!("there is no profile {name:?}; there are {known}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_read_and_makes_its_load() {
        let expected = [583.2, 100.0, 200.0, 300.0, 110.0, 110.0];
        for (name, megabytes) in names().zip(expected) {
            let producers = producers(name).unwrap();
            let rate = producers.bytes_per_second() / 1e6;
            assert!((rate / megabytes - 1.0).abs() < 0.05, "{name}: {rate} MB/s");
            assert_eq!(producers.seconds(), 10.0, "{name}");
        }
        assert!(producers("none").unwrap_err().to_string().contains("automotive"));
    }
}
