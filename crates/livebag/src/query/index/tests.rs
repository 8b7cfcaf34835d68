use std::path::Path;

use livebag_format::index::{IndexEntry, index_header};
use proptest::prelude::*;

use super::*;
use crate::storage::{Access, Disk, SimulatedDisk};

/// An index of entries at these times; those at `spoilt` places are damaged.
fn index(times: &[u64], spoilt: &[usize]) -> IndexReader {
    let disk = SimulatedDisk::new(1);
    let path = Path::new("/a.idx");
    let file = disk.create(path, Access::Buffered).unwrap();
    let mut bytes = index_header().to_vec();
    for (at, &log_time_nanos) in times.iter().enumerate() {
        let mut entry = IndexEntry { log_time_nanos, ..IndexEntry::default() }.encode();
        entry[0] ^= u8::from(spoilt.contains(&at));
        bytes.extend_from_slice(&entry);
    }
    file.write_at(&bytes, 0).unwrap();
    IndexReader::new(path.to_owned(), file, false)
}

/// Gaps between messages: even ones, bursts, and a long silence.
fn gaps() -> impl Strategy<Value = Vec<u64>> {
    let gap =
        prop_oneof![10 => Just(1_000_000), 3 => Just(0), 2 => 0..5_000_000u64, 1 => Just(1 << 50)];
    prop::collection::vec(gap, 0..1500)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_time_is_found_where_counting_finds_it(gaps in gaps(), start in 0..3u64, picks in prop::collection::vec((any::<prop::sample::Index>(), 0..3u64), 8)) {
        let times: Vec<u64> = gaps.iter().scan(start, |at, gap| { *at += gap; Some(*at) }).collect();
        let index = index(&times, &[]);
        for (pick, off) in picks {
            let near = if times.is_empty() { 5 } else { *pick.get(&times) };
            let nanos = (near + off).saturating_sub(1);
            let expected = times.partition_point(|&time| time < nanos) as u64;
            prop_assert_eq!(index.lower_bound(times.len() as u64, nanos).unwrap(), expected);
        }
        for nanos in [0, u64::MAX] {
            let expected = times.partition_point(|&time| time < nanos) as u64;
            prop_assert_eq!(index.lower_bound(times.len() as u64, nanos).unwrap(), expected);
        }
    }

    #[test]
    fn damaged_entries_hide_no_others(spoilt in prop::collection::vec(0..400usize, 0..60), wanted in 0..401u64) {
        let times: Vec<u64> = (0..400).map(|at| 1_000 + at * 10).collect();
        let index = index(&times, &spoilt);
        let found = index.lower_bound(400, 1_000 + wanted * 10).unwrap();
        // Whole ones before it are too early, whole ones from it on are not.
        for at in (0..400u64).filter(|at| !spoilt.contains(&(*at as usize))) {
            prop_assert_eq!(at < found, at < wanted);
        }
    }
}
