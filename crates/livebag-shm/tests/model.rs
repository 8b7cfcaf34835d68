//! A reader that takes every frame, compared with a model.
#![cfg(not(loom))]

mod common;

use std::collections::BTreeMap;

use common::{Removed, bytes, unique};
use livebag_shm::{FrameMeta, FrameRef, Reader, StreamOptions, Writer};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Publish(usize),
    Loan(usize),
    Abandon,
    Next,
    CopyLatest,
    Seek(u64),
    Reattach,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0usize..300).prop_map(Step::Publish),
        2 => (0usize..300).prop_map(Step::Loan),
        1 => Just(Step::Abandon),
        5 => Just(Step::Next),
        1 => Just(Step::CopyLatest),
        1 => (0u64..40).prop_map(Step::Seek),
        1 => Just(Step::Reattach),
    ];
    proptest::collection::vec(step, 1..60)
}

/// The expected contents of the stream: intact frames by sequence, at most one per slot.
#[derive(Default)]
struct Model {
    frames: BTreeMap<u64, Vec<u8>>,
    latest: u64,
    slots: u64,
}

impl Model {
    fn begin(&mut self) -> u64 {
        let sequence = self.latest + 1;
        self.frames.remove(&sequence.wrapping_sub(self.slots));
        sequence
    }

    fn publish(&mut self, payload: Vec<u8>) {
        self.latest = self.begin();
        self.frames.insert(self.latest, payload);
    }
}

fn payload(sequence: u64, bytes: usize) -> Vec<u8> {
    let mut payload = vec![0; bytes];
    common::fill(sequence, &mut payload);
    payload
}

fn check_next(reader: &mut Reader, model: &Model, cursor: &mut u64, held: &mut Vec<FrameRef>) {
    let next = reader.next();
    let expected = model.frames.range(*cursor + 1..).next();
    let passed = expected.map_or(model.latest.max(*cursor), |(&sequence, _)| sequence - 1);
    assert_eq!((next.lapped, next.damaged), (passed - *cursor, 0));
    assert_eq!(
        next.frame.as_ref().map(FrameRef::sequence),
        expected.map(|(&sequence, _)| sequence)
    );
    *cursor = passed;
    if let (Some(frame), Some((&sequence, payload))) = (next.frame, expected) {
        let mut copy = vec![0; frame.payload_bytes()];
        assert!(frame.copy_to(&mut copy));
        assert_eq!(&copy, payload);
        *cursor = sequence;
        held.push(frame);
    }
}

fn run(slots: u32, steps: Vec<Step>) {
    let name = unique("model");
    let _removed = Removed(name.clone());
    let options = StreamOptions { remove_on_drop: false, ..bytes(300) }.slots(slots);
    let mut writer = Some(Writer::create(&name, &options).unwrap());
    let mut reader = Reader::open(&name).unwrap();
    let mut model = Model { slots: slots.into(), ..Model::default() };
    let (mut cursor, mut held, mut buffer) = (0, Vec::new(), Vec::new());
    for step in steps {
        let alive = writer.as_mut().expect("there is always one");
        match step {
            Step::Publish(bytes) => {
                let data = payload(model.latest + 1, bytes);
                assert_eq!(alive.publish(&FrameMeta::bytes(), &data), Ok(model.latest + 1));
                model.publish(data);
            }
            Step::Loan(bytes) => {
                let data = payload(model.latest + 1, bytes);
                let mut loan = alive.loan();
                loan[..bytes].copy_from_slice(&data);
                assert_eq!(loan.publish(&FrameMeta::bytes(), bytes), Ok(model.latest + 1));
                model.publish(data);
            }
            Step::Abandon => {
                alive.loan().fill(0xEE);
                model.begin();
            }
            Step::Next => check_next(&mut reader, &model, &mut cursor, &mut held),
            Step::CopyLatest => {
                let header = reader.copy_latest(&mut buffer).unwrap();
                assert_eq!(header.map_or(0, |header| header.sequence), model.latest);
                if model.latest > 0 {
                    assert_eq!(&buffer, &model.frames[&model.latest]);
                }
            }
            Step::Seek(sequence) => {
                reader.seek(sequence);
                cursor = sequence.saturating_sub(1);
            }
            Step::Reattach => {
                drop(writer.take());
                writer = Some(Writer::create(&name, &options).unwrap());
            }
        }
        for frame in &held {
            assert_eq!(frame.is_intact(), model.frames.contains_key(&frame.sequence()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_reader_gets_what_the_model_says(slots in 2u32..6, steps in steps()) {
        run(slots, steps);
    }
}
