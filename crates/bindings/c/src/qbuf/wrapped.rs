//! Handles, and buffers as the transport sees them.
//!
//! Always true: a `struct qbuf` that C has is in the table of its handle; any other pointer is refused.

use super::{abi, refused};
use crate::errors::Errno;
use crate::kept::{Numbers, Table, lock};
use libc::{c_int, c_void};
use pinnace_qbuf::{Handle, Pool, Wrapped};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Mutex;

/// What is behind a `struct qbuf`.
#[derive(Debug)]
struct Behind {
    // Freed after what points to it.
    seen: Box<abi::qbuf>,
    _addresses: Vec<*mut c_void>,
    _wrapped: Wrapped,
}

// SAFETY: the addresses are names; what they name is owned, and sent with them.
unsafe impl Send for Behind {}

#[derive(Debug)]
struct Registered {
    handle: Handle,
    buffers: BTreeMap<usize, Behind>,
}

/// The handles of a process.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    table: Table<Mutex<Registered>>,
}

static NUMBERS: Numbers = Numbers::new(1);

/// Under which a handle is in the table; a number that is none is nobody's.
fn key(number: c_int) -> usize {
    usize::try_from(number).unwrap_or(0)
}

impl Handles {
    pub(super) fn register(&self, pool: &Pool) -> Result<c_int, Errno> {
        let number = NUMBERS.give(c_int::MAX as usize).ok_or(Errno(libc::EMFILE))?;
        let registered = Registered { handle: pool.register(), buffers: BTreeMap::new() };
        self.table.insert(number, Mutex::new(registered));
        Ok(number as c_int)
    }

    pub(super) fn unregister(&self, number: c_int) -> Result<(), Errno> {
        let mut entries = self.table.entries();
        let registered = entries.get(&key(number)).ok_or(Errno(libc::EBADF))?;
        if !lock(registered).buffers.is_empty() {
            return Err(Errno(libc::EBUSY));
        }
        entries.remove(&key(number));
        Ok(())
    }

    //= B-10
    pub(super) fn wrap(&self, number: c_int, pointer: NonNull<u8>, len: usize) -> Result<*mut abi::qbuf, Errno> {
        let entries = self.table.entries();
        let mut registered = lock(entries.get(&key(number)).ok_or(Errno(libc::EBADF))?);
        if len == 0 {
            return Err(Errno(libc::EINVAL));
        }
        let wrapped = registered.handle.wrap(pointer, len).map_err(|error| refused(&error))?;
        let mut addresses: Vec<_> = wrapped.block_addresses().map(|at| at.as_ptr().cast::<c_void>()).collect();
        let mut seen = Box::new(abi::qbuf {
            zone: wrapped.zone(),
            blocks: wrapped.blocks(),
            address: wrapped.address().as_ptr().cast(),
            length: wrapped.len(),
            block_address: addresses.as_mut_ptr(),
        });
        let at = &raw mut *seen;
        registered.buffers.insert(at.addr(), Behind { seen, _addresses: addresses, _wrapped: wrapped });
        Ok(at)
    }

    //= B-10
    pub(super) fn free(&self, number: c_int, buffer: *mut abi::qbuf) -> Result<(), Errno> {
        let entries = self.table.entries();
        let mut registered = lock(entries.get(&key(number)).ok_or(Errno(libc::EBADF))?);
        let behind = registered.buffers.remove(&buffer.addr()).ok_or(Errno(libc::EINVAL))?;
        drop(registered);
        drop(entries);
        debug_assert_eq!((&raw const *behind.seen).addr(), buffer.addr());
        Ok(())
    }
}
