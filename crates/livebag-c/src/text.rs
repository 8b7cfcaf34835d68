//! Text and lists that C gives and gets.

use std::ffi::{CStr, CString, c_char};

use crate::failure::{Failure, invalid};

/// `text` up to its first zero, which no name or error of livebag's has.
pub(crate) fn c_string(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

/// # Safety
/// `text` is NULL or ends with a zero, and does not change meanwhile.
pub(crate) unsafe fn optional<'a>(
    text: *const c_char,
    what: &str,
) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller says.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| invalid(format!("{what} is not UTF-8")))
}

/// # Safety
/// As of [`optional`].
pub(crate) unsafe fn required<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: as the caller says.
    unsafe { optional(text, what) }?.ok_or_else(|| invalid(format!("{what} is NULL")))
}

/// # Safety
/// `list` is NULL or has `count` texts as of [`optional`].
pub(crate) unsafe fn names(
    list: *const *const c_char,
    count: usize,
) -> Result<Vec<String>, Failure> {
    if list.is_null() {
        return if count == 0 {
            Ok(Vec::new())
        } else {
            Err(invalid("the list of topics is NULL"))
        };
    }
    // SAFETY: as the caller says.
    let list = unsafe { std::slice::from_raw_parts(list, count) };
    // SAFETY: as the caller says.
    list.iter().map(|&name| unsafe { required(name, "a topic") }.map(str::to_owned)).collect()
}

/// # Safety
/// `data` is NULL or has `bytes` bytes, which do not change meanwhile.
pub(crate) unsafe fn bytes<'a>(
    data: *const u8,
    bytes: usize,
    what: &str,
) -> Result<&'a [u8], Failure> {
    match (data.is_null(), bytes) {
        (true, 0) => Ok(&[]),
        (true, _) => Err(invalid(format!("{what} is NULL"))),
        // SAFETY: as the caller says.
        (false, bytes) => Ok(unsafe { std::slice::from_raw_parts(data, bytes) }),
    }
}

/// The object of a handle.
///
/// # Safety
/// `handle` is NULL or comes from this library and has not been freed.
pub(crate) unsafe fn handle<'a, T>(handle: *const T) -> Result<&'a T, Failure> {
    // SAFETY: as the caller says.
    unsafe { handle.as_ref() }.ok_or_else(|| invalid("the handle is NULL"))
}

/// # Safety
/// As for [`handle`], and no other thread uses it meanwhile.
pub(crate) unsafe fn handle_mut<'a, T>(handle: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: as the caller says.
    unsafe { handle.as_mut() }.ok_or_else(|| invalid("the handle is NULL"))
}

/// # Safety
/// `out` is NULL or may be written.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Failure> {
    if out.is_null() {
        return Err(invalid("`out` is NULL"));
    }
    // SAFETY: as the caller says.
    unsafe { out.write(value) };
    Ok(())
}

/// # Safety
/// `handle` is NULL or comes from `Box::into_raw` and is freed once.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: as the caller says.
        drop(unsafe { Box::from_raw(handle) });
    }
}
