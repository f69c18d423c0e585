//! Buffers on their way to a socket of QMP's, and from there.
//!
//! Always true: what a call could not pass, and nothing has happened to the connection, is C's again.

use super::{claim_to_pass, give};
use crate::errors::Errno;
use crate::qmp::Socket;
use pinnace::qmp::Full;
use pinnace_qbuf::{Pool, Qbuf};
use std::ptr::NonNull;
use std::thread;
use std::time::{Duration, Instant};

/// A buffer may be larger than the room that a socket calls writable: then it looks so often.
const LOOK: Duration = Duration::from_millis(1);

/// The pool of a socket.
pub(super) fn pool_of(socket: &Socket) -> Result<Pool, Errno> {
    socket.pool().ok_or(Errno(libc::EOPNOTSUPP))
}

/// Passes `len` bytes at `pointer` to the engine, which frees them when they are acknowledged.
//= B-6, Q-10
pub(super) fn write(socket: &Socket, pointer: NonNull<u8>, len: usize) -> Result<(), Errno> {
    let conversation = socket.conversation()?;
    let mut qbuf = claim_to_pass(&pool_of(socket)?, pointer, len)?;
    let (is_blocking, timeout) = socket.send_wait();
    if is_blocking && timeout.is_none() {
        return conversation.send_qbuf(qbuf);
    }
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        match conversation.try_send_qbuf(qbuf)? {
            Ok(()) => return Ok(()),
            Err(Full(back)) => qbuf = back,
        }
        if !is_blocking || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            give(qbuf);
            socket.settle();
            return Err(Errno(libc::EAGAIN));
        }
        thread::sleep(LOOK);
    }
}

/// The next bytes of the stream; `None` at its end.
//= B-7
pub(super) fn read(socket: &Socket) -> Result<Option<Qbuf>, Errno> {
    let conversation = socket.conversation()?;
    let received = conversation.receive_qbuf(socket.wait(false));
    if !conversation.is_readable() {
        socket.settle();
    }
    received
}
