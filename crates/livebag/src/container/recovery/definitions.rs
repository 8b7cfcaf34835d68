//! Schemas and channels of a brick: which have been seen, and where missing ones go.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use livebag_format::mcap::{RECORD_HEADER_BYTES, put_channel, put_schema, schema_id};

use super::survey::{Member, Survey};

/// The schemas and channels of a brick's members.
pub(super) struct Definitions<'a> {
    members: &'a [Member],
    /// Opcode and member of those that have been seen.
    announced: BTreeSet<(u8, usize)>,
    /// Records by member, made when they are first asked for.
    records: Vec<OnceCell<Rc<[Vec<u8>]>>>,
    /// How many stretches have had no room for one, by member and record.
    tried: HashMap<(usize, usize), usize>,
}

impl<'a> Definitions<'a> {
    pub fn new(members: &'a [Member]) -> Self {
        Self {
            members,
            announced: BTreeSet::new(),
            records: vec![OnceCell::new(); members.len()],
            tried: HashMap::new(),
        }
    }

    /// A topic's schema record, if it has a schema, and its channel record.
    fn of(&self, place: usize) -> &Rc<[Vec<u8>]> {
        self.records[place].get_or_init(|| definitions(&self.members[place]).into())
    }

    /// Whether `record` is a topic's schema or channel. A topic without a schema once had an empty one.
    pub fn is_definition_of(&self, place: usize, record: &[u8]) -> bool {
        let Member { channel_id: id, ref topic, .. } = self.members[place];
        if self.of(place).iter().any(|wanted| wanted == record) {
            return true;
        }
        let (mut schema, mut channel) = (Vec::new(), Vec::new());
        if !topic.has_schema() {
            put_schema(&mut schema, id, topic);
            put_channel(&mut channel, id, id, topic);
        }
        schema == record || channel == record
    }

    /// Notes that a record of this opcode stands in the brick.
    pub fn note(&mut self, opcode: u8, place: usize) {
        self.announced.insert((opcode, place));
    }

    /// Notes a topic of a chunk whose schema and channel have not been seen before it: a stretch in front of
    /// it had them, and gets them again if it has the room.
    pub fn require(&mut self, place: usize, survey: &mut Survey) {
        for (nth, record) in self.of(place).clone().iter().enumerate() {
            if self.announced.contains(&(record[0], place)) {
                continue;
            }
            // Stretches that had no room for it have none later.
            let tried = self.tried.entry((place, nth)).or_default();
            let first = std::mem::replace(tried, survey.stretches.len());
            let mut new = survey.stretches[first..].iter_mut();
            let stretch = new.find(|stretch| {
                let room = stretch.range.end - stretch.range.start;
                let taken = (stretch.records.len() + record.len()) as u64;
                room == taken || room >= taken + RECORD_HEADER_BYTES as u64
            });
            if let Some(stretch) = stretch {
                self.announced.insert((record[0], place));
                let at = stretch.range.start + stretch.records.len() as u64;
                stretch.records.extend_from_slice(record);
                survey.announce(at, self.members[place].channel_id);
            }
        }
    }

    /// A brick of which nothing is left but its name still tells of its topics.
    pub fn define_empty_brick(&self, survey: &mut Survey) {
        let Survey { stretches, announced, chunks, tail, .. } = survey;
        let [stretch] = stretches.as_mut_slice() else { return };
        if chunks.is_empty() && stretch.range.end == *tail {
            for member in self.members {
                let at = stretch.range.start + stretch.records.len() as u64;
                announced.entry(member.channel_id).or_insert(at);
                stretch.records.extend(definitions(member).concat());
            }
            let end = stretch.range.start + stretch.records.len() as u64;
            if end + RECORD_HEADER_BYTES as u64 > stretch.range.end {
                stretch.range.end = end;
            }
            *tail = stretch.range.end;
        }
    }
}

/// A topic's schema record, if it has a schema, and its channel record.
fn definitions(member: &Member) -> Vec<Vec<u8>> {
    let (id, topic) = (member.channel_id, &member.topic);
    let mut records = Vec::new();
    if topic.has_schema() {
        records.push(Vec::new());
        put_schema(&mut records[0], id, topic);
    }
    records.push(Vec::new());
    put_channel(records.last_mut().expect("just pushed"), id, schema_id(id, topic), topic);
    records
}
