//! Buffers on their way to a socket of QMP's, and from there.
//!
//! Always true: what a call could not pass, and nothing has happened to the connection, is C's again.

use super::{claim_to_pass, give};
use crate::errors::Errno;
use crate::qmp::{Lack, Socket};
use pinnace::qmp::Full;
use pinnace_qbuf::{Pool, Qbuf};
use std::ptr::NonNull;

/// The pool of a socket.
pub(super) fn pool_of(socket: &Socket) -> Result<Pool, Errno> {
    socket.pool().ok_or(Errno(libc::EOPNOTSUPP))
}

/// Passes `len` bytes at `pointer` to the engine, which frees them when they are acknowledged.
//= B-6, Q-10
pub(super) fn write(socket: &Socket, pointer: NonNull<u8>, len: usize) -> Result<(), Errno> {
    let conversation = socket.conversation()?;
    let qbuf = claim_to_pass(&pool_of(socket)?, pointer, len)?;
    let len = qbuf.len();
    let (is_blocking, timeout) = socket.send_wait();
    let sent = if is_blocking { conversation.send_qbuf(qbuf, timeout)? } else { conversation.try_send_qbuf(qbuf)? };
    match sent {
        Ok(()) => {
            conversation.had_room();
            Ok(())
        }
        Err(Full(back)) => {
            give(back);
            if !is_blocking {
                conversation.lacks_room(Lack::Buffer(len));
                socket.settle();
            }
            Err(Errno(libc::EAGAIN))
        }
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
