//! `qmp_poll`: sockets of QMP's, and whatever else the system polls, at once.
//!
//! Always true: nobody sleeps through something that happens. A thread that sleeps has made the descriptors unreadable, and
//! looked, after it had told the sockets that it does; who makes them unreadable meanwhile wakes it.

use super::Socket;
use crate::descriptors::{self, Descriptor};
use crate::errors::Errno;
use libc::{c_int, pollfd};
use pinnace::qmp::WakeFd;
use std::cell::RefCell;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

thread_local! {
    /// What wakes this thread, and the process that made it when it first slept: a child has its parent's descriptor, and
    /// would wake the parent, or be woken instead of it.
    static WAKE: RefCell<Option<(u32, Arc<WakeFd>)>> = const { RefCell::new(None) };
}

/// As many entries as the system takes at most, whatever its limit is now.
const MOST: usize = 1 << 20;

/// Sockets that know of a thread that sleeps.
struct Sleep<'a> {
    wake: Arc<WakeFd>,
    sockets: &'a [(usize, Arc<Socket>)],
}

impl<'a> Sleep<'a> {
    fn begin(sockets: &'a [(usize, Arc<Socket>)]) -> Result<Self, Errno> {
        let wake = WAKE.with_borrow_mut(|wake| -> Result<_, Errno> {
            let process = std::process::id();
            match wake {
                Some((maker, wake)) if *maker == process => Ok(wake.clone()),
                _ => {
                    let made = Arc::new(WakeFd::new().map_err(|error| Errno::from(&error))?);
                    *wake = Some((process, made.clone()));
                    Ok(made)
                }
            }
        })?;
        wake.clear();
        sockets.iter().for_each(|(_, socket)| socket.add_sleeper(&wake));
        Ok(Self { wake, sockets })
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        for (_, socket) in self.sockets {
            socket.remove_sleeper(&self.wake);
            // It was made unreadable, and others may wait for it.
            socket.unsettle();
        }
    }
}

/// Waits until an entry has something, at most `timeout` milliseconds, or for ever if that is negative. Returns how many
/// have.
pub(super) fn poll(entries: &mut [pollfd], timeout: c_int) -> Result<c_int, Errno> {
    if entries.len() > MOST {
        return Err(Errno(libc::EINVAL));
    }
    let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let table = descriptors::current();
    let mut sockets = Vec::new();
    let mut others = Vec::new();
    for (at, entry) in entries.iter_mut().enumerate() {
        entry.revents = 0;
        match table.find(entry.fd) {
            Ok(Descriptor::Socket(socket)) => {
                socket.watch()?;
                sockets.push((at, socket));
            }
            _ => others.push(at),
        }
    }
    let found = look(entries, &sockets) + look_at_others(entries, &others)?;
    if found > 0 || timeout == Some(Duration::ZERO) {
        return Ok(found);
    }
    let sleep = Sleep::begin(&sockets)?;
    // Only those whose descriptor is readable are cleared, or two threads would wake each other for ever.
    let mut readable = vec![true; sockets.len()];
    loop {
        let signalled = sockets.iter().zip(&readable).filter(|(_, readable)| **readable);
        signalled.for_each(|((_, socket), _)| socket.clear(Some(&sleep.wake)));
        let found = look(entries, &sockets);
        if found > 0 {
            return Ok(found + look_at_others(entries, &others)?);
        }
        let rest = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let found = sleep_on(entries, &sleep, &others, &mut readable, rest)?;
        let all = look(entries, &sockets) + found;
        if all > 0 || rest == Some(Duration::ZERO) {
            return Ok(all);
        }
    }
}

/// What the sockets say. Returns how many have something.
fn look(entries: &mut [pollfd], sockets: &[(usize, Arc<Socket>)]) -> c_int {
    let mut found = 0;
    for (at, socket) in sockets {
        let entry = &mut entries[*at];
        entry.revents = socket.events() & (entry.events | libc::POLLERR | libc::POLLHUP);
        found += c_int::from(entry.revents != 0);
    }
    found
}

/// What the system says of the others now.
fn look_at_others(entries: &mut [pollfd], others: &[usize]) -> Result<c_int, Errno> {
    if others.is_empty() {
        return Ok(0);
    }
    let mut asked: Vec<pollfd> = others.iter().map(|at| entries[*at]).collect();
    let found = system(&mut asked, Some(Duration::ZERO))?;
    answer(entries, others, &asked);
    Ok(found)
}

/// Sleeps on everything. Returns how many of the others have something, and which sockets' descriptors are readable.
fn sleep_on(
    entries: &mut [pollfd],
    sleep: &Sleep<'_>,
    others: &[usize],
    readable: &mut [bool],
    rest: Option<Duration>,
) -> Result<c_int, Errno> {
    let entry = |wake: &WakeFd| pollfd { fd: wake.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut asked: Vec<pollfd> = others.iter().map(|at| entries[*at]).collect();
    asked.push(entry(&sleep.wake));
    asked.extend(sleep.sockets.iter().map(|(_, socket)| entry(socket.wake())));
    let found = system(&mut asked, rest)?;
    if asked[others.len()].revents != 0 {
        sleep.wake.clear();
    }
    for (readable, entry) in readable.iter_mut().zip(&asked[others.len() + 1..]) {
        *readable = entry.revents != 0;
    }
    if found == 0 {
        return Ok(0);
    }
    answer(entries, others, &asked);
    Ok(asked[..others.len()].iter().filter(|entry| entry.revents != 0).count() as c_int)
}

fn answer(entries: &mut [pollfd], others: &[usize], asked: &[pollfd]) {
    for (at, entry) in others.iter().zip(asked) {
        entries[*at].revents = entry.revents;
    }
}

fn system(entries: &mut [pollfd], timeout: Option<Duration>) -> Result<c_int, Errno> {
    let failed = || Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO));
    #[cfg(target_os = "linux")]
    let found = {
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().min(1 << 30) as libc::time_t,
            tv_nsec: timeout.subsec_nanos() as _,
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: as many entries as the call is told, a time that lives or null, and no signal mask.
        unsafe { libc::ppoll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout, std::ptr::null()) }
    };
    #[cfg(not(target_os = "linux"))]
    let found = {
        let millis = timeout.map_or(-1, |it| it.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as c_int);
        // SAFETY: as many entries as the call is told.
        unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, millis) }
    };
    if found < 0 { Err(failed()) } else { Ok(found) }
}
