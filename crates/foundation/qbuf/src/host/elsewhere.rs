//! Elsewhere than Linux there are no pools and no channels.

use core::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::Pid;

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "shared memory needs Linux: its files cannot be sealed here; use UDP")
}

pub(crate) fn sealed_file(_name: &str, _bytes: usize, _huge_pages: bool) -> io::Result<OwnedFd> {
    Err(unsupported())
}

#[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
pub(crate) fn sealed_bytes(_file: impl AsFd) -> io::Result<Option<usize>> {
    Ok(None)
}

pub(crate) fn bell() -> io::Result<OwnedFd> {
    Err(unsupported())
}

/// There are no bells.
pub(crate) fn silence(_bell: BorrowedFd<'_>) {}

/// # Safety
///
/// None is needed.
pub(crate) unsafe fn wipe_on_fork(_base: *mut c_void, _bytes: usize) -> io::Result<()> {
    Err(unsupported())
}

/// Of no process here can anybody tell.
#[derive(Debug)]
pub(crate) struct Process;

impl Process {
    pub(crate) fn open(_pid: Pid) -> Result<Self, Errno> {
        Err(Errno::NOSYS)
    }

    pub(crate) fn has_ended(&self) -> bool {
        false
    }
}
