//! An application's place on the cycle board.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use crate::errors::{self, python};

/// Tells recorders when this application computes.
#[pyclass(frozen, module = "livebag._livebag")]
pub struct Cycle {
    place: Mutex<Option<livebag_shm::Cycle>>,
}

impl Cycle {
    fn with(&self, act: impl FnOnce(&mut livebag_shm::Cycle)) -> PyResult<()> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let place = place.as_mut();
        act(place.ok_or_else(|| python::StreamError::new_err("the cycle has been closed"))?);
        Ok(())
    }
}

#[pymethods]
impl Cycle {
    #[new]
    #[pyo3(signature = (name, board = None))]
    fn join(name: &str, board: Option<&str>) -> PyResult<Self> {
        let place = match board {
            Some(board) => livebag_shm::Cycle::join_on(board, name),
            None => livebag_shm::Cycle::join(name),
        };
        Ok(Self { place: Mutex::new(Some(place.map_err(errors::stream)?)) })
    }

    fn begin(&self, weight: u32) -> PyResult<()> {
        self.with(|cycle| cycle.begin(weight))
    }

    fn end(&self) -> PyResult<()> {
        self.with(livebag_shm::Cycle::end)
    }

    fn close(&self) {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
