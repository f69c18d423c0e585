//! QBUF for C: `include/qbuf.h` (specs/qbuf.md, B-15).
//!
//! [`abi`] is what C calls, and what the header is made from; [`buffers`] is what a number of `qb_open` stands for: a pool,
//! and perhaps one end of a channel; [`rendezvous`] is how two processes find each other by a name; [`transfer`] passes
//! buffers to QMP's sockets and takes them from there; [`wrapped`] are handles and the buffers as the transport sees them.
//!
//! Always true: a pointer that C may use belongs to C in the pool's books ("raw"); whatever passes it on looks there first,
//! so that passing or freeing twice is an error, and nothing else.
//= B-15

pub mod abi;
mod buffers;
mod rendezvous;
mod transfer;
mod wrapped;

pub(crate) use buffers::Buffers;
pub(crate) use wrapped::Handles;

use crate::errors::Errno;
use pinnace_qbuf::{Pool, PoolError, Qbuf};
use std::ptr::NonNull;

/// Why a pool refused, as an errno.
fn refused(error: &PoolError) -> Errno {
    Errno(match error {
        PoolError::NotInPool => libc::EINVAL,
        PoolError::NotOwner => libc::EPERM,
        PoolError::Forked => libc::EBADF,
        PoolError::Full => libc::EMFILE,
        PoolError::Share => libc::ENOMEM,
        PoolError::Io(error) => return Errno::from(error),
        _ => libc::EPROTO,
    })
}

/// The qbuf at an address that C has, which is ours from now on.
fn claim(pool: &Pool, pointer: NonNull<u8>) -> Result<Qbuf, Errno> {
    pool.from_raw(pointer).map_err(|error| refused(&error))
}

/// Gives a qbuf to C.
fn give(qbuf: Qbuf) -> NonNull<u8> {
    qbuf.into_raw().0
}

/// The qbuf at an address, of which `len` bytes are to be passed on. If they are more than it has, it stays C's.
fn claim_to_pass(pool: &Pool, pointer: NonNull<u8>, len: usize) -> Result<Qbuf, Errno> {
    if len == 0 {
        return Err(Errno(libc::EINVAL));
    }
    let mut qbuf = claim(pool, pointer)?;
    if len > qbuf.capacity() {
        give(qbuf);
        return Err(Errno(libc::EMSGSIZE));
    }
    qbuf.set_len(len);
    Ok(qbuf)
}
