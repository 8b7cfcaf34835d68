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

/// The default benchmark, as a document.
const BENCHMARK: (&str, &str) = ("benchmark", include_str!("profiles/benchmark.yaml"));

/// The producers of this name.
pub fn producers(name: &str) -> Result<Producers, CliError> {
    let text = find(&ALL, name)?;
    Producers::parse(&format!("the profile {name}"), name, text)
}

/// The document of this name: producers, or `benchmark`.
pub fn document(name: &str) -> Result<&'static str, CliError> {
    find(&[&ALL[..], &[BENCHMARK]].concat(), name)
}

fn find(among: &[(&str, &'static str)], name: &str) -> Result<&'static str, CliError> {
    let found = among.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text).ok_or_else(|| {
        let known: Vec<_> = among.iter().map(|(known, _)| *known).collect();
        let known = known.join(", ");
        CliError::usage(format!("there is no profile {name:?}; there are {known}"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::benchmark::Benchmark;
    use super::*;

    #[test]
    fn the_benchmark_that_is_shown_is_the_one_that_is_run() {
        let shown = Benchmark::parse("b.yaml", "b", document("benchmark").unwrap()).unwrap();
        let usual = Benchmark::default();
        assert_eq!(shown.parameters, usual.parameters);
        assert_eq!(
            (shown.repeat_each, shown.no_transport, shown.preserve_bags, shown.bag_root),
            (usual.repeat_each, usual.no_transport, usual.preserve_bags, usual.bag_root)
        );
        assert!(document("automotive").unwrap().contains("camera"));
        assert!(document("none").unwrap_err().to_string().contains("low_pubs, benchmark"));
    }

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
