//! Descriptors of listeners: closed, duplicated, inherited; their members follow.

use crate::sys::{self, Outcome};
use crate::table;
use crate::{config, listener, real};
use core::ffi::{c_int, c_uint, c_void};

fn outcome(value: c_int) -> Outcome {
    if value == -1 { Err(sys::errno()) } else { Ok(value) }
}

/// close().
pub(crate) fn close(fd: c_int) -> Outcome {
    if !table::is_special(fd) {
        // SAFETY: no pointers.
        return outcome(unsafe { real::close(fd) });
    }
    if table::is_member(fd) || table::is_kept(fd) {
        // The application never opened it: it closes whatever there is.
        return Err(libc::EBADF);
    }
    let members = table::listener(fd);
    table::reset(fd);
    // SAFETY: no pointers.
    let closed = outcome(unsafe { real::close(fd) });
    if let Some(members) = members {
        listener::release(members);
    }
    closed
}

/// A number was given out anew, so what it was before is closed, though nobody has told this library: libuv closes by a system
/// call of its own.
pub(crate) fn given(fd: c_int) {
    let members = table::listener(fd);
    table::reset(fd);
    if let Some(members) = members {
        listener::release(members);
    }
}

/// close_range(): what is in the range, save what is the library's own, and members whose listener is not.
pub(crate) fn close_range(first: c_uint, last: c_uint, flags: c_int) -> Outcome {
    let only_marks = flags & libc::CLOSE_RANGE_CLOEXEC as c_int != 0;
    let low = c_int::try_from(first).unwrap_or(c_int::MAX);
    let high = c_int::try_from(last).unwrap_or(c_int::MAX);
    let inside = |fd: c_int| (low..=high).contains(&fd);
    let mut cursor = first;
    for member in table::hidden(low, high) {
        let kept = table::is_kept(member)
            || table::listeners().any(|(fd, members)| !inside(fd) && members.all().any(|other| other == member));
        if kept {
            let member = member as c_uint;
            if cursor < member {
                // SAFETY: no pointers.
                outcome(unsafe { real::close_range(cursor, member - 1, flags) })?;
            }
            cursor = member + 1;
        }
    }
    let closed = if cursor <= last || first > last {
        // SAFETY: no pointers.
        outcome(unsafe { real::close_range(cursor, last, flags) })?
    } else {
        0
    };
    if only_marks {
        table::listeners().filter(|&(fd, _)| inside(fd)).for_each(|(_, members)| listener::follow_on_exec(members));
        return Ok(closed);
    }
    // Those that were in the range are closed already, and their numbers may have been given out again.
    for fd in table::hidden(low, high) {
        if sys::fcntl(fd, libc::F_GETFD, 0).is_err() {
            table::reset(fd);
        }
    }
    let mut next = 0;
    while let Some((fd, members)) = table::listeners().find(|&(fd, _)| fd >= next && inside(fd)) {
        table::reset(fd);
        listener::release(members);
        next = fd + 1;
    }
    Ok(closed)
}

/// dup().
pub(crate) fn dup(fd: c_int) -> Outcome {
    // SAFETY: no pointers.
    let new = outcome(unsafe { real::dup(fd) })?;
    table::copy(fd, new);
    set_on_exec(fd);
    Ok(new)
}

/// dup2() and dup3(), whichever `make` is.
pub(crate) fn dup_to(old: c_int, new: c_int, make: impl FnOnce() -> c_int) -> Outcome {
    if old != new {
        if table::is_member(new) {
            listener::make_room(new);
        } else if table::is_kept(new) {
            config::make_room(new);
        }
    }
    let replaced = if old == new { None } else { table::listener(new) };
    let made = outcome(make())?;
    if old != new {
        table::copy(old, new);
        if let Some(members) = replaced {
            listener::release(members);
        }
        set_on_exec(old);
    }
    Ok(made)
}

/// posix_spawn_file_actions_adddup2(): answers with an error number. Exec would close the members of a listener that has the
/// flag; in the child they are to follow the duplicate, which has not.
///
/// # Safety
///
/// `actions` is as for posix_spawn_file_actions_adddup2().
pub(crate) unsafe fn spawn_dup2(actions: *mut libc::posix_spawn_file_actions_t, old: c_int, new: c_int) -> c_int {
    let members = table::listener(old).into_iter().flat_map(|members| members.all());
    // A descriptor that is made a duplicate of itself loses the flag (glibc 2.29).
    for (old, new) in core::iter::once((old, new)).chain(members.map(|member| (member, member))) {
        // SAFETY: the caller's promise.
        let error = unsafe { real::posix_spawn_file_actions_adddup2(actions, old, new) };
        if error != 0 {
            return error;
        }
    }
    0
}

/// fcntl().
///
/// # Safety
///
/// `argument` is as for fcntl().
pub(crate) unsafe fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> Outcome {
    if command == libc::F_SETFD && is_hidden(fd) {
        return Ok(0);
    }
    // SAFETY: the caller's promise.
    let value = outcome(unsafe { real::fcntl64(fd, command, argument) })?;
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            table::copy(fd, value);
            set_on_exec(fd);
        }
        libc::F_SETFD => set_on_exec(fd),
        _ => {}
    }
    Ok(value)
}

/// Whether a descriptor is not the application's: who marks it marks whatever there is, before exec. It stays as it is, and the
/// answer is that of one that is there, as F_GETFD has said.
fn is_hidden(fd: c_int) -> bool {
    table::is_member(fd) || table::is_kept(fd)
}

/// The close-on-exec flag of a descriptor, or of a duplicate of it, is another than before.
fn set_on_exec(fd: c_int) {
    if let Some(members) = table::listener(fd) {
        listener::follow_on_exec(members);
    }
}

/// ioctl().
///
/// # Safety
///
/// `argument` is as for ioctl().
pub(crate) unsafe fn ioctl(fd: c_int, request: libc::c_ulong, argument: *mut c_void) -> Outcome {
    let marks = request == libc::FIOCLEX || request == libc::FIONCLEX;
    if marks && is_hidden(fd) {
        return Ok(0);
    }
    // SAFETY: the caller's promise.
    let value = outcome(unsafe { real::ioctl(fd, request, argument) })?;
    if marks {
        set_on_exec(fd);
    }
    Ok(value)
}

/// epoll_ctl().
///
/// # Safety
///
/// `event` is as for epoll_ctl().
pub(crate) unsafe fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut libc::epoll_event) -> Outcome {
    if operation != libc::EPOLL_CTL_DEL && !event.is_null() && table::listener(fd).is_some() {
        // An epoll descriptor cannot be waited for exclusively: more wake up than need to.
        // SAFETY: the caller's promise; the structure is packed.
        let mut changed = unsafe { event.read_unaligned() };
        changed.events &= !(libc::EPOLLEXCLUSIVE as u32);
        // SAFETY: the structure lives through the call.
        return outcome(unsafe { real::epoll_ctl(epoll, operation, fd, &raw mut changed) });
    }
    // SAFETY: the caller's promise.
    let value = outcome(unsafe { real::epoll_ctl(epoll, operation, fd, event) })?;
    let notes = table::notes(fd);
    if notes.is_fresh() {
        let registered = || {
            // SAFETY: the kernel has just read it; the structure is packed.
            let event = unsafe { event.read_unaligned() };
            Some((event.events, event.u64))
        };
        match operation {
            libc::EPOLL_CTL_ADD => {
                table::set_notes(fd, notes.added(epoll));
                table::set_registered(fd, registered());
            }
            libc::EPOLL_CTL_DEL => {
                table::set_notes(fd, notes.deleted(epoll));
                table::set_registered(fd, None);
            }
            _ => table::set_registered(fd, registered()),
        }
    }
    Ok(value)
}
