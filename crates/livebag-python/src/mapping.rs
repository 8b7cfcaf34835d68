//! Files of finished containers as memory, for those who ask for it.
//!
//! A file that is cut while it is mapped kills the process that looks behind the cut (SIGBUS). livebag
//! never cuts what is finished, but others can; that is why nothing is mapped unless asked for.

#![expect(unsafe_code, reason = "mapping a file, and a view of it")]

use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::Arc;

use livebag::storage::DiskFile;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A whole file, mapped read-only.
pub struct Mapping {
    start: NonNull<u8>,
    bytes: NonZeroUsize,
}

// SAFETY: the memory is mapped read-only, and unmapped by nobody but `drop`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn of(file: &dyn DiskFile) -> Option<Self> {
        let descriptor = file.descriptor()?;
        let bytes = NonZeroUsize::new(usize::try_from(file.length().ok()?).ok()?)?;
        // SAFETY: a new mapping at a place of the kernel's choice concerns no memory of ours.
        let start = unsafe {
            let (at, flags) = (std::ptr::null_mut(), MapFlags::SHARED);
            mmap(at, bytes.get(), ProtFlags::READ, flags, descriptor, 0)
        };
        Some(Self { start: NonNull::new(start.ok()?.cast())?, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `of` with this length; every view holds the mapping by its `Arc`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes.get()) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A message's bytes within a mapped file.
#[derive(Clone)]
pub struct View {
    mapping: Arc<Mapping>,
    start: usize,
    bytes: usize,
}

impl View {
    /// The bytes, as long as nobody changes the file.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the range lies within the mapping (checked in `Maps::view`), which lives as long as
        // this. Whoever asked for mapping has promised that nobody changes the file meanwhile.
        unsafe {
            std::slice::from_raw_parts(self.mapping.start.as_ptr().add(self.start), self.bytes)
        }
    }
}

/// The mappings of one walk over a container.
#[derive(Default)]
pub struct Maps {
    /// By the file's own address, which stays as long as the container is open.
    known: Vec<(usize, Option<Arc<Mapping>>)>,
}

impl Maps {
    /// A view of `bytes` bytes of `file`; `None` where it cannot be mapped, or ends before them.
    pub fn view(&mut self, file: &Arc<dyn DiskFile>, offset: u64, bytes: u32) -> Option<View> {
        let address = Arc::as_ptr(file).cast::<u8>().addr();
        let known = self.known.iter().position(|(known, _)| *known == address);
        let at = known.unwrap_or_else(|| {
            self.known.push((address, Mapping::of(&**file).map(Arc::new)));
            self.known.len() - 1
        });
        let mapping = self.known[at].1.as_ref()?;
        let (start, bytes) = (usize::try_from(offset).ok()?, bytes as usize);
        let is_inside = start.checked_add(bytes).is_some_and(|end| end <= mapping.bytes.get());
        is_inside.then(|| View { mapping: mapping.clone(), start, bytes })
    }
}

/// A view, for NumPy (`__array_interface__`): keeps the file mapped.
#[pyclass(frozen, module = "livebag._livebag")]
pub struct Mapped(pub View);

#[pymethods]
impl Mapped {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let bytes = self.0.as_slice();
        let interface = PyDict::new(py);
        interface.set_item("shape", (bytes.len(),))?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("data", (bytes.as_ptr().addr(), true))?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }
}
