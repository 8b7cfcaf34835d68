//! Messages of types that ROS 2 has changed: by the definition that the bag has, made what ROS 2's own definition
//! says. Fields added in ROS 2 are zero or empty, removed ones are left out, and one with another name and the same
//! type is renamed, as `rosbags-convert` does.

use std::collections::HashMap;

use crate::decode::SchemaError;
use crate::decode::schema::{Count, Field, Kind, Primitive, Schema, package_and_name, parts};
use crate::wire::{Cursor, DecodeError};

/// How a structure is made of another one: for each field, the place of the field that it is made of.
type Plan = Vec<Option<usize>>;

/// CDR of one definition as CDR of another.
#[derive(Clone, Debug)]
pub(super) struct Migration {
    from: Schema,
    to: Schema,
    /// By the places of the two structures.
    plans: HashMap<(usize, usize), Plan>,
}

/// Names of structures, as far as a definition has them.
type Names = Vec<(String, String)>;

impl Migration {
    /// From the definition `from` (`ros2msg`) to `to`; `None` if a field has changed in a way that has no plan.
    pub(super) fn new(type_name: &str, from: &str, to: &str) -> Result<Option<Self>, SchemaError> {
        let names = |text: &str| -> Names {
            parts(package_and_name(type_name), text).into_iter().map(|part| part.name).collect()
        };
        let names = (names(from), names(to));
        let from = Schema::parse(type_name, from, false)?;
        let to = Schema::parse(type_name, to, false)?;
        let mut this = Self { from, to, plans: HashMap::new() };
        Ok(this.plan((0, 0), &names).then_some(this))
    }

    /// Plans a structure and all in it; whether there is a plan. ROS 2's definitions are finite, so this ends.
    fn plan(&mut self, pair: (usize, usize), names: &(Names, Names)) -> bool {
        if self.plans.contains_key(&pair) {
            return true;
        }
        let (from, to) = (self.from.structures[pair.0].clone(), self.to.structures[pair.1].clone());
        let is_same_type = |a: &Field, b: &Field| {
            a.count == b.count
                && match (a.kind, b.kind) {
                    (Kind::Primitive(a), Kind::Primitive(b)) => a == b,
                    (Kind::Structure(a), Kind::Structure(b)) => {
                        names.0.get(a).is_some_and(|name| names.1.get(b) == Some(name))
                    }
                    _ => false,
                }
        };
        let has = |fields: &[Field], name: &str| fields.iter().any(|field| field.name == name);
        let mut removed: Vec<usize> =
            (0..from.len()).filter(|at| !has(&to, &from[*at].name)).collect();
        let mut plan = Plan::new();
        for field in &to {
            let same = from.iter().position(|source| source.name == field.name);
            plan.push(same.or_else(|| {
                let renamed = removed.iter().position(|at| is_same_type(&from[*at], field))?;
                Some(removed.remove(renamed))
            }));
        }
        let mut used = plan.iter().flatten();
        let is_in_order = used.clone().zip(used.by_ref().skip(1)).all(|(a, b)| a < b);
        let pairs = plan.iter().zip(&to).filter_map(|(at, field)| Some((&from[(*at)?], field)));
        let pairs: Vec<_> = pairs.collect();
        let can_be = pairs.iter().all(|(a, b)| {
            a.count == b.count
                && match (a.kind, b.kind) {
                    (Kind::Primitive(a), Kind::Primitive(b)) => a == b,
                    (Kind::Structure(_), Kind::Structure(_)) => true,
                    _ => false,
                }
        });
        if !is_in_order || !can_be {
            return false;
        }
        self.plans.insert(pair, plan);
        pairs.into_iter().all(|(a, b)| match (a.kind, b.kind) {
            (Kind::Structure(a), Kind::Structure(b)) => self.plan((a, b), names),
            _ => true,
        })
    }

    /// Appends the CDR message, little-endian, to `out`.
    pub(super) fn convert(&self, message: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
        out.extend_from_slice(&[0, 1, 0, 0]);
        let origin = out.len();
        let mut copy = Copy { plans: self, from: Cursor::cdr(message)?, origin, out };
        copy.structure((0, 0))
    }
}

struct Copy<'a> {
    plans: &'a Migration,
    from: Cursor<'a>,
    /// Where alignment is counted from.
    origin: usize,
    out: &'a mut Vec<u8>,
}

impl Copy<'_> {
    fn structure(&mut self, pair: (usize, usize)) -> Result<(), DecodeError> {
        let Migration { from, to, plans } = self.plans;
        let (from, to) = (&from.structures[pair.0], &to.structures[pair.1]);
        if from.is_empty() {
            self.from.take(1)?;
        }
        if to.is_empty() {
            self.out.push(0);
        }
        let mut next = 0;
        for (source, field) in plans[&pair].iter().zip(to) {
            let Some(source) = source else {
                self.default(field);
                continue;
            };
            for passed in &from[next..*source] {
                self.field(passed, None)?;
            }
            self.field(&from[*source], Some(field))?;
            next = source + 1;
        }
        from[next..].iter().try_for_each(|passed| self.field(passed, None))
    }

    /// Reads a field, and writes it as `to`, if that is given.
    fn field(&mut self, from: &Field, to: Option<&Field>) -> Result<(), DecodeError> {
        let count = match from.count {
            Count::One => 1,
            Count::Fixed(count) => count,
            Count::Sequence => {
                let count = self.from.u32()?;
                if to.is_some() {
                    self.number(&count.to_le_bytes());
                }
                count as usize
            }
        };
        match (from.kind, to.map(|to| to.kind)) {
            _ if count == 0 => Ok(()),
            (Kind::Structure(a), Some(Kind::Structure(b))) => {
                (0..count).try_for_each(|_| self.structure((a, b)))
            }
            (Kind::Structure(a), _) => {
                let fields = &self.plans.from.structures[a];
                for _ in 0..count {
                    if fields.is_empty() {
                        self.from.take(1)?;
                    }
                    fields.iter().try_for_each(|field| self.field(field, None))?;
                }
                Ok(())
            }
            (Kind::Primitive(primitive), to) => self.primitives(primitive, count, to.is_some()),
        }
    }

    fn primitives(
        &mut self,
        primitive: Primitive,
        count: usize,
        is_kept: bool,
    ) -> Result<(), DecodeError> {
        if let Some((size, alignment)) = primitive.bytes_and_alignment() {
            self.from.align(alignment)?;
            let values = self.from.take(count.saturating_mul(size))?;
            if is_kept {
                self.align(alignment);
                self.out.extend_from_slice(values);
            }
            return Ok(());
        }
        for _ in 0..count {
            let text = self.from.string_bytes()?;
            if is_kept {
                self.text(text);
            }
        }
        Ok(())
    }

    /// Zero, or empty.
    fn default(&mut self, field: &Field) {
        let count = match field.count {
            Count::One => 1,
            Count::Fixed(count) => count,
            Count::Sequence => return self.number(&[0; 4]),
        };
        for _ in 0..count {
            match field.kind {
                Kind::Structure(index) => {
                    let fields = &self.plans.to.structures[index];
                    if fields.is_empty() {
                        self.out.push(0);
                    }
                    fields.iter().for_each(|field| self.default(field));
                }
                Kind::Primitive(primitive) => match primitive.bytes_and_alignment() {
                    Some((size, alignment)) => {
                        self.align(alignment);
                        self.out.resize(self.out.len() + size, 0);
                    }
                    None => self.text(&[]),
                },
            }
        }
    }

    fn text(&mut self, text: &[u8]) {
        self.number(&(text.len() as u32 + 1).to_le_bytes());
        self.out.extend_from_slice(text);
        self.out.push(0);
    }

    fn number(&mut self, bytes: &[u8; 4]) {
        self.align(4);
        self.out.extend_from_slice(bytes);
    }

    fn align(&mut self, alignment: usize) {
        let past = self.out.len() - self.origin;
        self.out.resize(self.origin + past.next_multiple_of(alignment), 0);
    }
}
