//! The buffers of a message, as `struct msghdr` lists them.
//!
//! Always true: a list has at most [`MOST`] buffers and at most `isize::MAX` bytes, and none of them is null.

use crate::errors::Errno;
use libc::{c_void, iovec, msghdr};
use std::ptr::NonNull;

/// IOV_MAX.
const MOST: usize = 1024;

/// Memory of C's: where, and how many bytes.
pub(super) type Piece = (NonNull<u8>, usize);

/// One buffer; C promises that it is there.
pub(super) fn piece(base: *const c_void, len: usize) -> Result<Piece, Errno> {
    if len > isize::MAX as usize {
        return Err(Errno(libc::EINVAL));
    }
    match NonNull::new(base.cast_mut().cast()) {
        Some(base) => Ok((base, len)),
        None if len == 0 => Ok((NonNull::dangling(), 0)),
        None => Err(Errno(libc::EFAULT)),
    }
}

/// The buffers of a message.
///
/// # Safety
/// `message` points to a message, or is null.
pub(super) unsafe fn pieces(message: *const msghdr) -> Result<Vec<Piece>, Errno> {
    // SAFETY: the caller's promise.
    let message = unsafe { message.as_ref() }.ok_or(Errno(libc::EFAULT))?;
    #[allow(clippy::unnecessary_cast, reason = "not every system has it as long")]
    let count = message.msg_iovlen as usize;
    if count > MOST {
        return Err(Errno(libc::EMSGSIZE));
    }
    if message.msg_iov.is_null() && count > 0 {
        return Err(Errno(libc::EFAULT));
    }
    let mut total = 0usize;
    let mut pieces = Vec::with_capacity(count);
    for at in 0..count {
        // SAFETY: the message says that there are so many.
        let iovec { iov_base, iov_len } = unsafe { message.msg_iov.add(at).read() };
        total = total.checked_add(iov_len).filter(|total| *total <= isize::MAX as usize).ok_or(Errno(libc::EINVAL))?;
        pieces.push(piece(iov_base, iov_len)?);
    }
    Ok(pieces)
}

/// Bytes to send.
///
/// # Safety
/// The memory is there, and nobody changes it, as long as the result is used.
pub(super) unsafe fn bytes<'a>((base, len): Piece) -> &'a [u8] {
    // SAFETY: the caller's promise; it is not null, and not too long.
    unsafe { std::slice::from_raw_parts(base.as_ptr(), len) }
}

/// Room to receive into.
///
/// # Safety
/// The memory is there, and nobody else uses it, as long as the result is used.
pub(super) unsafe fn room<'a>((base, len): Piece) -> &'a mut [u8] {
    // SAFETY: the caller's promise; it is not null, and not too long.
    unsafe { std::slice::from_raw_parts_mut(base.as_ptr(), len) }
}
