//! What threads share here: the standard library's, or loom's where loom runs this crate's own code
//! through every interleaving (`inlet/loom_tests.rs`).

#[cfg(not(all(test, loom)))]
mod real {
    pub use std::sync::atomic::{AtomicBool, AtomicU64};
    pub use std::sync::{Mutex, MutexGuard};

    /// A cell whose users say by themselves when they read and when they write.
    #[derive(Debug)]
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}

#[cfg(not(all(test, loom)))]
pub use real::*;

#[cfg(all(test, loom))]
pub use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicU64},
    sync::{Mutex, MutexGuard},
};
