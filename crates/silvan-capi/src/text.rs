//! Texts of C.

use std::ffi::{CStr, CString, c_char};

use silvan_library::Problem;

/// Reads a text of the caller. `what` names it in errors.
///
/// # Safety
/// The text is null, or ends with a zero, and lives as long as the result is used.
pub unsafe fn read<'a>(text: *const c_char, what: &str) -> Result<&'a str, Problem> {
    if text.is_null() {
        return Err(Problem::Argument(format!("{what} is NULL")));
    }
    // SAFETY: the caller guarantees it.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Problem::Argument(format!("{what} is not valid UTF-8")))
}

/// A text without the zeros inside it.
pub fn shortened(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// Writes a text and a final zero to a buffer of the caller, shortened to whole characters that fit.
///
/// # Safety
/// The buffer is null or has this size.
pub unsafe fn write_shortened(text: &str, buffer: *mut c_char, size: usize) {
    if buffer.is_null() || size == 0 {
        return;
    }
    let text = text.replace('\0', "");
    let length = (0..=text.len().min(size - 1)).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    // SAFETY: the buffer has room for the bytes and the final zero.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, length);
        buffer.add(length).write(0);
    }
}
