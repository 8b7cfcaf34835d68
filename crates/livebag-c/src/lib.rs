//! livebag's recorder and queries for C; `cpp/include/livebag/recording.hpp` makes C++ of them.
//!
//! [`recording`] opens and asks, [`recorder`] records, [`outcome`] turns errors and panics into a
//! [`Status`]. The header `cpp/include/livebag/livebag.h` is made from this crate.
#![expect(
    unsafe_code,
    reason = "C gives and takes pointers; each is checked or its contract is stated"
)]

mod failure;
mod outcome;
mod recorder;
mod recording;
mod text;

pub use failure::Status;
pub use outcome::livebag_last_error;
pub use recorder::*;
pub use recording::*;

use std::ffi::{CStr, c_char};

/// Rises when a program that was built for an earlier version would break.
pub const LIVEBAG_ABI_VERSION: u32 = 1;

/// The `LIVEBAG_ABI_VERSION` of the library that is running: compare it with that of the header.
#[unsafe(no_mangle)]
pub extern "C" fn livebag_abi_version() -> u32 {
    LIVEBAG_ABI_VERSION
}

/// The version of livebag, for example "0.1.0"; never freed.
#[unsafe(no_mangle)]
pub extern "C" fn livebag_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version has no zero"),
        };
    VERSION.as_ptr()
}
