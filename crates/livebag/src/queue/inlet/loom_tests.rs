//! loom runs the inlet itself through the interleavings of small models:
//! `RUSTFLAGS="--cfg loom" cargo test -p livebag --lib --release loom`.
//!
//! A segment has room for one message beyond the size at which it is ended, so that nearly every message
//! meets an end. Each byte of a segment's memory is a cell that loom watches.

use std::collections::BTreeMap;

use livebag_format::index::IndexEntry;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use super::*;

const RECORD_BYTES: usize = MESSAGE_HEADER_BYTES + 1;

type Gate = Inlet<Box<u64>, ()>;

fn inlet(segments: usize) -> Arc<Gate> {
    let inlet = Inlet::new(());
    prepare(&inlet, segments);
    Arc::new(inlet)
}

fn prepare_one(outlet: &mut Outlet<'_, Box<u64>, ()>) -> bool {
    let capacity = RECORD_BYTES + Gate::OWN_RECORD_BYTES;
    let mut records = Vec::with_capacity(CHUNK_HEADER_BYTES + capacity);
    records.resize(CHUNK_HEADER_BYTES, 0);
    outlet.prepare(records, RECORD_BYTES + 1, capacity).is_ok()
}

fn prepare(inlet: &Gate, segments: usize) {
    for _ in 0..segments {
        prepare_one(&mut inlet.outlet());
    }
}

fn entry(sequence: u64, data_bytes: u32) -> IndexEntry {
    IndexEntry { sequence, data_bytes, ..IndexEntry::default() }
}

fn write(inlet: &Gate, sequence: u64) -> Result<(), Refused> {
    inlet.reserve(RECORD_BYTES)?.commit(&entry(sequence, 1), &[sequence as u8]);
    Ok(())
}

fn write_own(inlet: &Gate, sequence: u64) -> Result<(), Refused> {
    inlet.reserve(Gate::OWN_RECORD_BYTES)?.commit_own(&entry(sequence, 8), Box::new(sequence));
    Ok(())
}

/// Sequences of all messages that can be taken; each has the right contents.
fn taken(outlet: &mut Outlet<'_, Box<u64>, ()>, into: &mut Vec<u64>) {
    while let Some(mut segment) = outlet.take() {
        let mut published = 0;
        while let Some(record) = segment.next_record() {
            published += 1;
            match record {
                Record::Small(told, range) => {
                    let bytes = &segment.records()[CHUNK_HEADER_BYTES..][range];
                    let (entry, kind) = record::parse(bytes).unwrap();
                    assert!(kind == Kind::Here && told == entry);
                    assert_eq!(bytes[MESSAGE_HEADER_BYTES..], [entry.sequence as u8]);
                    into.push(entry.sequence);
                }
                Record::Own(entry, own) => {
                    assert_eq!(*own, entry.sequence);
                    into.push(entry.sequence);
                }
            }
        }
        assert_eq!(segment.published, published);
    }
}

/// Sequences are 16 times the writer and the number of its message: each in its writer's order, each once.
fn check(sequences: &[u64], counts: &[u64]) {
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    for sequence in sequences {
        let next = next.entry(sequence / 16).or_insert(0);
        assert_eq!(sequence % 16, *next, "{sequences:?}");
        *next += 1;
    }
    for (writer, count) in counts.iter().enumerate() {
        assert_eq!(next.get(&(writer as u64)).copied().unwrap_or(0), *count, "{sequences:?}");
    }
}

fn model(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(run);
}

/// Two writers, three segments, and all that was taken is all that was let in.
#[test]
fn loom_two_writers_fill_segments() {
    model(3, || {
        let inlet = inlet(3);
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let inlet = inlet.clone();
                thread::spawn(move || {
                    (0..2).filter(|k| write(&inlet, 16 * writer + k).is_ok()).count() as u64
                })
            })
            .collect();
        let counts: Vec<u64> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        let mut sequences = Vec::new();
        let mut outlet = inlet.outlet();
        outlet.close();
        taken(&mut outlet, &mut sequences);
        assert!(outlet.is_drained());
        assert_eq!(counts, [2, 2], "three segments hold four messages");
        check(&sequences, &counts);
    });
}

/// The recorder takes and returns memory while a writer continues.
#[test]
fn loom_segments_are_taken_while_others_are_filled() {
    model(3, || {
        let inlet = inlet(1);
        let writer = {
            let inlet = inlet.clone();
            thread::spawn(move || {
                let mut count = 0;
                // A message that found no segment is not in the order of those that did.
                while count < 3 && write(&inlet, count).is_ok() {
                    count += 1;
                }
                count
            })
        };
        let mut sequences = Vec::new();
        for _ in 0..2 {
            prepare(&inlet, 1);
            let mut outlet = inlet.outlet();
            outlet.end_open();
            taken(&mut outlet, &mut sequences);
        }
        let count = writer.join().unwrap();
        let mut outlet = inlet.outlet();
        outlet.close();
        taken(&mut outlet, &mut sequences);
        assert!(outlet.is_drained());
        check(&sequences, &[count]);
    });
}

/// A slot is reused: its old contents are not mistaken for new ones.
#[test]
fn loom_slots_go_round() {
    model(2, || {
        let inlet = inlet(SEGMENTS as usize - 1);
        let mut sequences = Vec::new();
        for k in 0..SEGMENTS - 1 {
            write(&inlet, k).unwrap();
        }
        let mut count = SEGMENTS - 1;
        let writer = {
            let inlet = inlet.clone();
            thread::spawn(move || {
                (0..2).take_while(|k| write(&inlet, 16 + k).is_ok()).count() as u64
            })
        };
        {
            let mut outlet = inlet.outlet();
            taken(&mut outlet, &mut sequences);
        }
        prepare(&inlet, 2);
        if write(&inlet, count).is_ok() {
            count += 1;
        }
        let others = writer.join().unwrap();
        let mut outlet = inlet.outlet();
        outlet.close();
        taken(&mut outlet, &mut sequences);
        check(&sequences, &[count, others]);
    });
}

/// An accepted message comes out after the end; a refused one does not.
#[test]
fn loom_closing_leaves_nothing_between() {
    model(3, || {
        let inlet = inlet(2);
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let inlet = inlet.clone();
                thread::spawn(move || u64::from(write(&inlet, 16 * writer).is_ok()))
            })
            .collect();
        let mut sequences = Vec::new();
        inlet.outlet().close();
        taken(&mut inlet.outlet(), &mut sequences);
        let counts: Vec<u64> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        // Messages that were being copied during the poll.
        taken(&mut inlet.outlet(), &mut sequences);
        assert!(inlet.outlet().is_drained());
        assert_eq!(write(&inlet, 99), Err(Refused::Closed));
        check(&sequences, &counts);
    });
}

/// Large messages keep their place among the small ones, and are dropped with the inlet if they are not taken.
#[test]
fn loom_large_messages_are_moved() {
    model(3, || {
        let inlet = inlet(3);
        let writer = {
            let inlet = inlet.clone();
            thread::spawn(move || {
                write_own(&inlet, 0).unwrap();
                write(&inlet, 1).unwrap();
            })
        };
        write_own(&inlet, 16).unwrap();
        let mut sequences = Vec::new();
        let mut outlet = inlet.outlet();
        outlet.end_open();
        taken(&mut outlet, &mut sequences);
        drop(outlet);
        writer.join().unwrap();
        write_own(&inlet, 17).unwrap();
        let mut outlet = inlet.outlet();
        outlet.close();
        taken(&mut outlet, &mut sequences);
        check(&sequences, &[2, 2]);
    });
}

/// A writer that finds no prepared memory and a free outlet prepares it itself.
#[test]
fn loom_writers_help_themselves() {
    model(2, || {
        let inlet = inlet(0);
        let help = |inlet: &Gate, sequence: u64| {
            for _ in 0..4 {
                match write(inlet, sequence) {
                    Err(Refused::NoSegment) => {
                        if let Some(mut outlet) = inlet.try_outlet()
                            && inlet.ahead() == 0
                        {
                            prepare_one(&mut outlet);
                        }
                    }
                    outcome => return u64::from(outcome.is_ok()),
                }
            }
            0
        };
        let writer = {
            let inlet = inlet.clone();
            thread::spawn(move || help(&inlet, 16))
        };
        let ours = help(&inlet, 0);
        let theirs = writer.join().unwrap();
        let mut sequences = Vec::new();
        let mut outlet = inlet.outlet();
        outlet.close();
        taken(&mut outlet, &mut sequences);
        assert!(outlet.is_drained());
        assert!(ours + theirs > 0);
        check(&sequences, &[ours, theirs]);
    });
}
