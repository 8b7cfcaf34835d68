//! Where every published message is, for Python.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Where every message is that was published::
///
///     published = recorded + removed + damaged - repeated + skipped + lost + unknown
///
/// The same counts as from `livebag info` and servers. Accounts can be added.
#[pyclass(frozen, eq, module = "livebag")]
#[derive(Clone, Copy, PartialEq)]
pub struct Account(pub livebag_format::Account);

#[pymethods]
impl Account {
    /// Messages published; None where that is not known: the recorder died.
    #[getter]
    fn published(&self) -> Option<u64> {
        self.0.is_complete().then(|| self.0.published())
    }

    /// Messages in the recording.
    #[getter]
    fn recorded(&self) -> u64 {
        self.0.recorded
    }

    /// Messages that were recorded, and removed with their splits by retention.
    #[getter]
    fn removed(&self) -> u64 {
        self.0.removed
    }

    /// Messages that were recorded, and that recovery could not prove.
    #[getter]
    fn damaged(&self) -> u64 {
        self.0.damaged
    }

    /// How many of those three were recorded before, and stood at the head of a split once more.
    #[getter]
    fn repeated(&self) -> u64 {
        self.0.repeated
    }

    /// Messages left out on purpose: while paused, above the topic's rate, or dropped from a ring.
    #[getter]
    fn skipped(&self) -> u64 {
        self.0.skipped
    }

    /// Messages lost, by cause: transport, queue, lapped, disk, abandoned.
    #[getter]
    fn lost<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let lost = &self.0.lost;
        let causes = [
            ("transport", lost.transport),
            ("queue", lost.queue),
            ("lapped", lost.lapped),
            ("disk", lost.disk),
            ("abandoned", lost.abandoned),
        ];
        let dict = PyDict::new(py);
        causes.into_iter().try_for_each(|(cause, count)| dict.set_item(cause, count))?;
        Ok(dict)
    }

    /// Since when it is not known what else was published, ns; None if everything is known.
    #[getter]
    fn unknown_since(&self) -> Option<u64> {
        self.0.unknown_since_nanos
    }

    fn __add__(&self, other: &Self) -> Self {
        let mut sum = self.0;
        sum.add(&other.0);
        Self(sum)
    }

    fn __repr__(&self) -> String {
        let Self(account) = self;
        let published = match account.is_complete() {
            true => account.published().to_string(),
            false => "unknown".to_owned(),
        };
        format!(
            "<livebag.Account: published {published}, recorded {}, removed {}, damaged {}, \
             repeated {}, skipped {}, lost {}>",
            account.recorded,
            account.removed,
            account.damaged,
            account.repeated,
            account.skipped,
            account.lost.total(),
        )
    }
}
