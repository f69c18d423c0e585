//! Receiving: messages where the method has put them, or in memory of C's; requests; a stream of bytes.

#![allow(clippy::missing_safety_doc, reason = "the comments are written for C, where nothing is safe")]

use super::abi::find;
use super::handles;
use super::line::Line;
use super::sending::{bytes, copied};
use super::types::{self, pinnace_connection_t, pinnace_range, pinnace_received};
use crate::errors::{Failure, told};
use libc::{c_int, c_void};
use pinnace::{Received, ReceivedInto};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// A message that C has not given back.
#[derive(Debug)]
pub(super) struct Held {
    _data: Option<Received>,
    holes: Vec<pinnace_range>,
}

/// A structure that holds nothing.
const EMPTY: pinnace_received = pinnace_received {
    size: size_of::<pinnace_received>(),
    data: null_mut(),
    length: 0,
    holes: null(),
    hole_count: 0,
    message: 0,
    missed: 0,
    is_late: 0,
};

/// Fills C's structure.
///
/// # Safety
/// `received` was checked.
unsafe fn hand_out(
    received: *mut pinnace_received,
    data: Option<Received>,
    base: *mut u8,
    said: &ReceivedInto,
) -> Result<(), Failure> {
    let ReceivedInto { len: length, holes, missed, is_late } = said;
    let held = Arc::new(Held { _data: data, holes: holes.iter().map(pinnace_range::from).collect() });
    let (pointer, count) = (held.holes.as_ptr(), held.holes.len());
    let needs_handle = held._data.is_some() || count > 0;
    let message = if needs_handle { handles::current().add(held)? } else { 0 };
    let filled = pinnace_received {
        data: if *length > 0 { base.cast() } else { c"".as_ptr().cast_mut().cast() },
        length: *length,
        holes: if count > 0 { pointer } else { null() },
        hole_count: count,
        message,
        missed: *missed,
        is_late: c_int::from(*is_late),
        ..EMPTY
    };
    // SAFETY: the caller's promise.
    unsafe { types::write(received, &filled) };
    Ok(())
}

/// A message where the method has put it.
///
/// # Safety
/// `received` was checked.
unsafe fn hand_out_message(received: *mut pinnace_received, mut message: Received) -> Result<(), Failure> {
    // Before it moves: the bytes do not.
    let base = message.as_mut_ptr();
    let said = message.told();
    // SAFETY: the caller's promise.
    unsafe { hand_out(received, Some(message), base, &said) }
}

/// Empties C's structure.
///
/// # Safety
/// `received` was checked.
unsafe fn empty(received: *mut pinnace_received) {
    // SAFETY: the caller's promise.
    unsafe { types::write(received, &EMPTY) };
}

/// Whether C's structure can take a message.
///
/// # Safety
/// It is null, or points to one of its size.
unsafe fn check(received: *const pinnace_received) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let message = unsafe {
        types::check(received)?;
        (*received).message
    };
    if handles::current().has::<Held>(message) {
        let text = "the struct pinnace_received still holds a message: give that back with pinnace_received_free";
        return Err(Failure::new(libc::EBUSY, text));
    }
    Ok(())
}

/// Memory of C's to receive into.
///
/// # Safety
/// It is null, or may be written, `size` bytes.
unsafe fn room<'a>(buffer: *mut c_void, size: usize) -> Result<&'a mut [u8], Failure> {
    if size == 0 {
        return Ok(&mut []);
    }
    if buffer.is_null() || size > isize::MAX as usize {
        return Err(Failure::new(libc::EINVAL, format!("there is no memory of {size} bytes at {buffer:p}")));
    }
    // SAFETY: the caller's promise; it is not null, and not too long.
    Ok(unsafe { std::slice::from_raw_parts_mut(buffer.cast(), size) })
}

/// Waits for the next message, at most `timeout_ms` milliseconds (0 does not wait, less than 0 waits as long as it takes), and
/// fills `received`: the bytes lie where the method has put them, and are not copied. The waiting thread does the method's
/// work. Give the message back with pinnace_received_free, also after the connection was closed.
///
/// Returns 1; 0 when the peer has closed and everything was received; or -1 if nothing came in this time (EAGAIN), another
/// thread closes the connection (ECANCELED), the message is longer than the endpoint's longest_message (EMSGSIZE), the peer has
/// broken off (ECONNRESET), or does not answer any more (ETIMEDOUT), or `received` still holds a message (EBUSY).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_recv(
    connection: *mut pinnace_connection_t,
    received: *mut pinnace_received,
    timeout_ms: c_int,
) -> c_int {
    told(-1, || {
        // SAFETY: C promises one of its size.
        unsafe { check(received)? };
        let line: Arc<Line> = find(connection)?;
        let message = line.recv(timeout_ms)?;
        // SAFETY: checked above.
        unsafe {
            match message {
                Some(message) => hand_out_message(received, message).map(|()| 1),
                None => {
                    empty(received);
                    Ok(0)
                }
            }
        }
    })
}

/// As pinnace_recv, into `size` bytes of yours at `buffer`, which are `data` then. The holes are the library's until
/// pinnace_received_free, which need not be called if there are none.
///
/// Returns as pinnace_recv does; -1 with EMSGSIZE if the message is longer than that: it is the next to be received again, and
/// pinnace_error says how long it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_recv_into(
    connection: *mut pinnace_connection_t,
    buffer: *mut c_void,
    size: usize,
    received: *mut pinnace_received,
    timeout_ms: c_int,
) -> c_int {
    told(-1, || {
        // SAFETY: C promises one of its size, and memory to write.
        let room = unsafe {
            check(received)?;
            room(buffer, size)?
        };
        let line: Arc<Line> = find(connection)?;
        let message = line.recv_into(room, timeout_ms)?;
        // SAFETY: checked above.
        unsafe {
            match message {
                Some(into) => {
                    hand_out(received, None, buffer.cast(), &into)?;
                    Ok(1)
                }
                None => {
                    empty(received);
                    Ok(0)
                }
            }
        }
    })
}

/// Gives a message back, and empties `received`. One that holds none, or whose message was given back before, is 0 as well.
/// Returns -1 if its size is wrong (EINVAL), or its message is none (EBADF): a copy of it was given back, or it was not
/// initialized.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_received_free(received: *mut pinnace_received) -> c_int {
    told(-1, || {
        // SAFETY: C promises one of its size; it is read before it is emptied.
        let message = unsafe {
            types::check(received)?;
            let message = (*received).message;
            empty(received);
            message
        };
        if message != 0 {
            drop(handles::current().remove::<Held>(message)?);
        }
        Ok(0)
    })
}

/// Sends a request of `length` bytes, which are copied, and waits for the next message, which is the response. One request is
/// under way on a connection at a time: others wait for their turn. The other end receives requests, and sends responses, as
/// messages. The service must have two directions ("direction=duplex").
///
/// Returns 0, and `received` has the response, as of pinnace_recv; or -1 as pinnace_send and pinnace_recv, or if the peer has
/// closed instead (ECONNRESET). After EAGAIN the response may still come: pinnace_recv receives it, and a later call of this
/// passes over it; where it may be lost as well (the service allows loss) that call is refused (ENOTSUP).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_transact(
    connection: *mut pinnace_connection_t,
    request: *const c_void,
    length: usize,
    received: *mut pinnace_received,
    timeout_ms: c_int,
) -> c_int {
    told(-1, || {
        // SAFETY: C promises one of its size, and memory to read.
        let request = unsafe {
            check(received)?;
            bytes(request, length)?
        };
        let line: Arc<Line> = find(connection)?;
        let response = line.transact(copied(&line, request)?, timeout_ms)?;
        // SAFETY: checked above.
        unsafe { hand_out_message(received, response) }.map(|()| 0)
    })
}

/// Reads from a connection as from a stream: what has come, at most `size` bytes; where a message ends says nothing. Waits as
/// pinnace_recv does. Do not mix it with pinnace_recv while a message is read in part.
///
/// Returns the number of bytes; 0 at the end; or -1 as pinnace_recv, or if the service may lose something or does not keep the
/// order (ENOTSUP), or from where messages are missing on (the text says how many): it is never a shorter stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_read(
    connection: *mut pinnace_connection_t,
    buffer: *mut c_void,
    size: usize,
    timeout_ms: c_int,
) -> isize {
    told(-1, || {
        // SAFETY: C promises memory to write.
        let room = unsafe { room(buffer, size)? };
        let line: Arc<Line> = find(connection)?;
        Ok(line.read(room, timeout_ms)?.cast_signed())
    })
}
