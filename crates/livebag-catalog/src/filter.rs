//! Which rows are wanted.

use std::collections::HashSet;

use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_schema::ArrowError;

use crate::table;

/// A name in which `*` stands for anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(Vec<String>);

impl NamePattern {
    /// Reads it.
    pub fn new(text: &str) -> Self {
        Self(text.split('*').map(str::to_owned).collect())
    }

    /// Whether it is this name.
    pub fn fits(&self, name: &str) -> bool {
        let [first, between @ .., last] = self.0.as_slice() else {
            return self.0.first().is_some_and(|whole| whole == name);
        };
        let Some(mut rest) = name.strip_prefix(&**first) else { return false };
        for piece in between {
            let Some(at) = rest.find(&**piece) else { return false };
            rest = &rest[at + piece.len()..];
        }
        rest.ends_with(&**last)
    }
}

/// All that is set must fit a row.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Filter {
    /// One of these robots.
    pub robots: Vec<NamePattern>,
    /// One of these recordings.
    pub recordings: Vec<NamePattern>,
    /// One of these topics; the leading `/` may be left out.
    pub topics: Vec<NamePattern>,
    /// One of these types.
    pub types: Vec<NamePattern>,
    /// A message at this log time or later, nanoseconds since the Unix epoch.
    pub from_nanos: Option<u64>,
    /// A message at this log time or earlier.
    pub to_nanos: Option<u64>,
    /// Messages are missing.
    pub has_lost: bool,
    /// One of these recordings, by ID.
    pub recording_ids: Option<HashSet<String>>,
}

impl Filter {
    /// The columns that it needs.
    pub(crate) fn columns(&self) -> Vec<&'static str> {
        [
            (table::ROBOT, !self.robots.is_empty()),
            (table::RECORDING, !self.recordings.is_empty()),
            (table::TOPIC, !self.topics.is_empty()),
            (table::TYPE, !self.types.is_empty()),
            (table::START, self.to_nanos.is_some()),
            (table::END, self.from_nanos.is_some()),
            (table::LOST, self.has_lost),
            (table::RECORDING_ID, self.recording_ids.is_some()),
        ]
        .into_iter()
        .filter_map(|(column, is_needed)| is_needed.then_some(column))
        .collect()
    }

    /// Which rows of a batch with these columns fit.
    pub(crate) fn chosen(&self, batch: &RecordBatch) -> Result<BooleanArray, ArrowError> {
        let mut chosen = vec![true; batch.num_rows()];
        let mut names = |column, patterns: &[NamePattern]| {
            if patterns.is_empty() {
                return Ok(());
            }
            let values = table::texts(batch, column)?;
            let mut before: Option<(&str, bool)> = None;
            for (row, is_chosen) in chosen.iter_mut().enumerate() {
                let value = if values.is_null(row) { None } else { Some(values.value(row)) };
                let fits = |value: &str| match before {
                    Some((known, fits)) if known == value => fits,
                    _ => patterns.iter().any(|pattern| fits_name(column, pattern, value)),
                };
                let is_fitting = value.is_some_and(fits);
                before = value.map(|value| (value, is_fitting));
                *is_chosen &= is_fitting;
            }
            Ok::<_, ArrowError>(())
        };
        names(table::ROBOT, &self.robots)?;
        names(table::RECORDING, &self.recordings)?;
        names(table::TOPIC, &self.topics)?;
        names(table::TYPE, &self.types)?;
        if let Some(ids) = &self.recording_ids {
            let values = table::texts(batch, table::RECORDING_ID)?;
            for (row, is_chosen) in chosen.iter_mut().enumerate() {
                *is_chosen &= ids.contains(values.value(row));
            }
        }
        let mut numbers = |column, fits: &dyn Fn(i64) -> bool| {
            let values = table::numbers(batch, column)?;
            for (row, is_chosen) in chosen.iter_mut().enumerate() {
                *is_chosen &= values[row].is_some_and(fits);
            }
            Ok::<_, ArrowError>(())
        };
        let nanos = |nanos: u64| i64::try_from(nanos).unwrap_or(i64::MAX);
        if let Some(from) = self.from_nanos {
            numbers(table::END, &|end| end >= nanos(from))?;
        }
        if let Some(to) = self.to_nanos {
            numbers(table::START, &|start| start <= nanos(to))?;
        }
        if self.has_lost {
            numbers(table::LOST, &|lost| lost > 0)?;
        }
        Ok(chosen.into())
    }
}

fn fits_name(column: &str, pattern: &NamePattern, name: &str) -> bool {
    pattern.fits(name)
        || (column == table::TOPIC && name.strip_prefix('/').is_some_and(|name| pattern.fits(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, fits) in [
            ("/imu", "/imu", true),
            ("/imu", "/imu2", false),
            ("*", "", true),
            ("/camera/*", "/camera/front/image", true),
            ("*/image", "/camera/front/image", true),
            ("/camera/*/image", "/camera/image", false),
            ("a*b*a", "aba", true),
            ("a*a", "a", false),
            ("*front*", "/camera/front/image", true),
        ] {
            assert_eq!(NamePattern::new(pattern).fits(name), fits, "{pattern} {name}");
        }
        assert!(fits_name(table::TOPIC, &NamePattern::new("imu"), "/imu"));
        assert!(!fits_name(table::ROBOT, &NamePattern::new("imu"), "/imu"));
    }
}
