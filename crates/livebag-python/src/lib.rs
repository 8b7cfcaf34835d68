//! The native part of the Python package `livebag`: what Python code in `python/src/livebag` builds on.
//!
//! A [`recording`] of any kind is opened, on this machine, in an object store ([`stored`]), on a server ([`remote`]) or on [`robots`]. [`walk`] iterates
//! over its messages, which become [`message`]s or [`columns`]. [`stream`], [`cycle`] and [`recorder`] are separate
//! from that. Whatever waits for a disk or another process does so without holding Python's lock. NumPy gets views of
//! shared memory as addresses, with an object that keeps the memory mapped.

mod account;
mod arriving;
mod attachment;
mod channel;
mod columns;
mod convert;
mod cycle;
mod errors;
mod event;
mod mapping;
mod message;
mod recorder;
mod recording;
mod remote;
mod robots;
mod stored;
mod stream;
mod waiting;
mod walk;

use pyo3::prelude::*;

/// The names that the package's Python code imports.
#[pymodule]
fn _livebag(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<account::Account>()?;
    module.add_class::<attachment::Attachment>()?;
    module.add_class::<channel::Channel>()?;
    module.add_class::<columns::ColumnReader>()?;
    module.add_class::<cycle::Cycle>()?;
    module.add_class::<message::Message>()?;
    module.add_class::<recorder::Recorder>()?;
    module.add_class::<recorder::TopicWriter>()?;
    module.add_class::<recording::Recording>()?;
    module.add_class::<remote::RemoteRecording>()?;
    module.add_class::<robots::RobotsRecording>()?;
    module.add_class::<stream::Frame>()?;
    module.add_class::<stream::Publisher>()?;
    module.add_class::<stream::Reader>()?;
    module.add_class::<stream::Slot>()?;
    module.add_class::<walk::Messages>()?;
    module.add_function(wrap_pyfunction!(channel::image_prefix, module)?)?;
    module.add_function(wrap_pyfunction!(channel::points_prefix, module)?)?;
    module.add_function(wrap_pyfunction!(convert::convert, module)?)?;
    module.add_function(wrap_pyfunction!(stored::stored_recordings, module)?)?;
    module.add_function(wrap_pyfunction!(stream::streams, module)?)?;
    module.add_function(wrap_pyfunction!(stream::remove_stream, module)?)?;
    Ok(())
}
