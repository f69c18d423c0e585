//! Linux: sealed memfds, eventfds, pidfds.

use core::ffi::c_void;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::mm::{Advice, madvise};
use rustix::process::{Pid, PidfdFlags, Resource, getrlimit, pidfd_open};

/// A new file of zeros in memory, whose size nobody can change.
pub(crate) fn sealed_file(name: &str, bytes: usize, huge_pages: bool) -> io::Result<OwnedFd> {
    // A file in memory is one, too: to make it larger than this would end the process (SIGXFSZ).
    if getrlimit(Resource::Fsize).current.is_some_and(|most| bytes as u64 > most) {
        return Err(Errno::FBIG.into());
    }
    let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    if huge_pages {
        flags |= MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    }
    let file = memfd_create(name, flags)?;
    ftruncate(&file, bytes as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// The size of a file that cannot shrink; `None` of any other.
pub(crate) fn sealed_bytes(file: impl AsFd) -> io::Result<Option<usize>> {
    // Not a memfd: it has no seals.
    let Ok(seals) = fcntl_get_seals(&file) else { return Ok(None) };
    let size = fstat(&file)?.st_size;
    Ok(if seals.contains(SealFlags::SHRINK) { usize::try_from(size).ok() } else { None })
}

/// A bell that has not been rung: readable once eight bytes were written.
pub(crate) fn bell() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Silences a bell without waiting, even if a peer took its being non-blocking away.
pub(crate) fn silence(bell: BorrowedFd<'_>) {
    let mut count = [0; 8];
    // The offset that means none.
    let read = rustix::io::preadv2(bell, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT);
    if matches!(read, Err(Errno::OPNOTSUPP | Errno::NOSYS))
        && is_readable(bell)
        && rustix::fs::fcntl_setfl(bell, OFlags::NONBLOCK).is_ok()
    {
        // Kernels before 5.12 do not know it of eventfds.
        let _ = rustix::io::read(bell, &mut count);
    }
}

fn is_readable(file: impl AsFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&now)) == Ok(1)
}

/// Makes children find this memory empty.
///
/// # Safety
///
/// The memory is mapped, private, and nobody's but the caller's.
pub(crate) unsafe fn wipe_on_fork(base: *mut c_void, bytes: usize) -> io::Result<()> {
    // SAFETY: as the caller says.
    unsafe { madvise(base, bytes, Advice::LinuxWipeOnFork) }.map_err(io::Error::from)
}

/// A process that is held, so that its number does not change hands.
#[derive(Debug)]
pub(crate) struct Process(OwnedFd);

impl Process {
    /// # Errors
    ///
    /// [`Errno::SRCH`] if there is no such process; others if nobody can tell.
    pub(crate) fn open(pid: Pid) -> Result<Self, Errno> {
        pidfd_open(pid, PidfdFlags::empty()).map(Self)
    }

    /// Whether every thread of it is gone, reaped or not.
    pub(crate) fn has_ended(&self) -> bool {
        is_readable(&self.0)
    }
}
