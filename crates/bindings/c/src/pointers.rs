//! What C's pointers point to.

use crate::errors::{Errno, Failure, told};
use libc::{c_char, c_int};
use std::ffi::CStr;

/// The text of a C string.
///
/// # Safety
/// It is null, or points to a string.
pub(crate) unsafe fn text<'a>(string: *const c_char) -> Result<&'a str, Failure> {
    if string.is_null() {
        return Err(Errno(libc::EINVAL).into());
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(string) }.to_str().map_err(|_| Errno(libc::EINVAL).into())
}

/// A copy of C's bytes. C may ask for more than there is memory for, and is told so: the process goes on.
pub(crate) fn copied(bytes: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| Errno(libc::ENOMEM))?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Writes to a place of C's, if there is one.
///
/// # Safety
/// It is null, or may be written.
pub(crate) unsafe fn give<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }
}

/// Writes a text to `size` bytes of C's, cut off if it is longer, with a final zero. Returns the length that it has, without
/// the zero.
///
/// # Safety
/// `string` may be written, `size` bytes; or is null.
unsafe fn write_text(text: &str, string: *mut c_char, size: usize) -> Result<c_int, Failure> {
    if size > 0 {
        if string.is_null() {
            return Err(Errno(libc::EINVAL).into());
        }
        let len = text.len().min(size - 1);
        // SAFETY: the caller's promise.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), string, len);
            *string.add(len) = 0;
        }
    }
    c_int::try_from(text.len()).map_err(|_| Errno(libc::EOVERFLOW).into())
}

/// What a call has to say, written to C (see [`write_text`]); -1 if it fails.
///
/// # Safety
/// `string` may be written, `size` bytes; or is null.
pub(crate) unsafe fn told_text(
    string: *mut c_char,
    size: usize,
    say: impl FnOnce() -> Result<String, Failure>,
) -> c_int {
    // SAFETY: the caller's promise.
    told(-1, || unsafe { write_text(&say()?, string, size) })
}
