//! Threads on one inlet; Miri runs these too: `cargo +nightly miri test -p livebag --lib queue::inlet`.

use std::sync::Arc;
use std::sync::atomic::AtomicU64 as Count;
use std::thread::Builder;

use livebag_format::index::IndexEntry;

use super::*;

const RECORD_BYTES_MAX: usize = 200;
const WRITERS: u64 = 3;
const MESSAGES: u64 = if cfg!(miri) { 60 } else { 20_000 };

type Gate = Inlet<Box<u64>, ()>;

fn memory(capacity: usize) -> Vec<u8> {
    let mut records = Vec::with_capacity(CHUNK_HEADER_BYTES + capacity);
    records.resize(CHUNK_HEADER_BYTES, 0);
    records
}

fn prepare(outlet: &mut Outlet<'_, Box<u64>, ()>, capacity: usize) -> bool {
    outlet.prepare(memory(capacity), capacity - RECORD_BYTES_MAX + 1, capacity).is_ok()
}

fn bytes_of(sequence: u64) -> Vec<u8> {
    vec![sequence as u8; (sequence * 7 % 150) as usize]
}

fn write(inlet: &Gate, writer: u64, k: u64) -> Result<(), Refused> {
    let sequence = writer << 32 | k;
    if k % 5 == 4 {
        let entry = IndexEntry { sequence, data_bytes: 8, ..IndexEntry::default() };
        inlet.reserve(Gate::OWN_RECORD_BYTES)?.commit_own(&entry, Box::new(sequence));
        return Ok(());
    }
    let data = bytes_of(sequence);
    let data_bytes = data.len() as u32;
    let entry = IndexEntry { sequence, data_bytes, ..IndexEntry::default() };
    inlet.reserve(MESSAGE_HEADER_BYTES + data.len())?.commit(&entry, &data);
    Ok(())
}

/// Checks taken messages: each writer's messages in order, each once, each intact.
fn take_all(outlet: &mut Outlet<'_, Box<u64>, ()>, next: &mut [u64]) -> u64 {
    let mut taken = 0;
    while let Some(mut segment) = outlet.take() {
        taken += segment.published;
        while let Some(record) = segment.next_record() {
            let sequence = match record {
                Record::Own(entry, own) => {
                    assert_eq!(*own, entry.sequence);
                    entry.sequence
                }
                Record::Small(_, range) => {
                    let bytes = &segment.records()[CHUNK_HEADER_BYTES..][range];
                    let (entry, _) = record::parse(bytes).unwrap();
                    assert_eq!(bytes[MESSAGE_HEADER_BYTES..], bytes_of(entry.sequence));
                    entry.sequence
                }
            };
            let next = &mut next[(sequence >> 32) as usize];
            assert!(sequence & 0xFFFF_FFFF >= *next, "in order, and once");
            *next = (sequence & 0xFFFF_FFFF) + 1;
        }
    }
    taken
}

/// Writers drop messages that find no segment; accepted ones come out.
#[test]
fn threads_lose_nothing_that_was_let_in() {
    let inlet: Arc<Gate> = Arc::new(Inlet::new(()));
    let let_in = Arc::new(Count::new(0));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (inlet, let_in) = (inlet.clone(), let_in.clone());
            let name = format!("write-{writer}");
            let run = move || {
                for k in 0..MESSAGES {
                    if write(&inlet, writer, k).is_ok() {
                        let_in.fetch_add(1, Relaxed);
                    } else {
                        std::thread::yield_now();
                    }
                }
            };
            Builder::new().name(name).spawn(run).unwrap()
        })
        .collect();
    let mut next = [0; WRITERS as usize];
    let mut taken = 0;
    let mut rounds = 0_u64;
    while !writers.iter().all(|writer| writer.is_finished()) {
        rounds += 1;
        let mut outlet = inlet.outlet();
        // Sizes change, as those of chunks do.
        while inlet.ahead() < 3
            && prepare(&mut outlet, RECORD_BYTES_MAX * (1 + rounds as usize % 4))
        {}
        if rounds.is_multiple_of(3) {
            outlet.end_open();
        }
        taken += take_all(&mut outlet, &mut next);
        drop(outlet);
        std::thread::yield_now();
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let mut outlet = inlet.outlet();
    outlet.close();
    taken += take_all(&mut outlet, &mut next);
    assert!(outlet.is_drained());
    assert_eq!(taken, let_in.load(Relaxed));
    assert!(taken > 0);
    drop(outlet);
    assert_eq!(write(&inlet, 0, 0), Err(Refused::Closed));
}

/// A thread that stops during its copy delays later messages, but no other thread's call.
#[test]
fn a_stopped_writer_stops_no_other() {
    let inlet: Gate = Inlet::new(());
    while prepare(&mut inlet.outlet(), 2 * RECORD_BYTES_MAX) {}
    write(&inlet, 0, 0).unwrap();
    let sequence = 1 << 32;
    let data = bytes_of(sequence);
    let stopped = inlet.reserve(MESSAGE_HEADER_BYTES + data.len()).unwrap();
    let mut let_in = 1;
    while write(&inlet, 0, let_in).is_ok() {
        let_in += 1;
    }
    assert!(let_in > SEGMENTS, "the others fill what there is");
    let mut next = [0; 2];
    let mut outlet = inlet.outlet();
    // The segment without room at the very beginning is over.
    assert_eq!(take_all(&mut outlet, &mut next), 0);
    drop(outlet);
    let data_bytes = data.len() as u32;
    stopped.commit(&IndexEntry { sequence, data_bytes, ..IndexEntry::default() }, &data);
    let mut outlet = inlet.outlet();
    outlet.close();
    assert_eq!(take_all(&mut outlet, &mut next), let_in + 1);
    assert_eq!(next, [let_in, 1]);
}

/// Large messages that are not taken are dropped with the inlet, and with a segment.
#[test]
fn nothing_leaks() {
    let inlet: Inlet<Arc<()>, ()> = Inlet::new(());
    let own = Arc::new(());
    let mut outlet = inlet.outlet();
    for _ in 0..3 {
        assert!(outlet.prepare(memory(100), 100, 100).is_ok());
    }
    drop(outlet);
    for _ in 0..4 {
        let reserved = inlet.reserve(Inlet::<Arc<()>, ()>::OWN_RECORD_BYTES).unwrap();
        reserved.commit_own(&IndexEntry::default(), own.clone());
    }
    let mut outlet = inlet.outlet();
    assert!(outlet.end_open());
    while let Some(segment) = outlet.take() {
        drop(segment.into_records());
    }
    drop(outlet);
    assert_eq!(Arc::strong_count(&own), 1);
    let reserved = inlet.reserve(Inlet::<Arc<()>, ()>::OWN_RECORD_BYTES).unwrap();
    reserved.commit_own(&IndexEntry::default(), own.clone());
    drop(inlet);
    assert_eq!(Arc::strong_count(&own), 1);
}

/// A thread that panics between reserving and committing delays no other: its place is skipped.
#[test]
fn a_writer_that_panics_leaves_a_hole() {
    let inlet: Gate = Inlet::new(());
    assert!(prepare(&mut inlet.outlet(), 1000));
    write(&inlet, 0, 1).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let reserved = inlet.reserve(MESSAGE_HEADER_BYTES + 50).unwrap();
        // The record is longer than its reservation.
        reserved.commit(&IndexEntry::default(), &[1; 51]);
    }));
    assert!(panicked.is_err());
    drop(inlet.reserve(Gate::OWN_RECORD_BYTES).unwrap());
    write(&inlet, 0, 2).unwrap();
    let mut outlet = inlet.outlet();
    outlet.close();
    let mut next = [0];
    assert_eq!(take_all(&mut outlet, &mut next), 2);
    assert_eq!(next, [3]);
}
