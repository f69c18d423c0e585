//! accept(): from the TCP member or from the Unix member of a listener, in turn.

//= Q-13

use crate::listener;
use crate::name::{Class, Family, Name};
use crate::sys::{self, End, Outcome};
use crate::table::{self, Members, Notes};
use crate::{carrier, descriptor, internet, patience, real, stream};
use core::ffi::{c_int, c_long};
use core::net::{IpAddr, SocketAddr};
use core::ptr::null;
use core::sync::atomic::{AtomicBool, Ordering};
use libc::{sockaddr, socklen_t};

/// accept4().
///
/// # Safety
///
/// `address` and `len` are as for accept4().
pub(crate) unsafe fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> Outcome {
    let mut known = table::listener(fd);
    loop {
        let members = match known {
            Some(members) => members,
            None => {
                // SAFETY: the caller's promise.
                let accepted = unsafe { real::accept4(fd, address, len, flags) };
                if accepted >= 0 {
                    descriptor::given(accepted);
                    return Ok(accepted);
                }
                let error = sys::errno();
                if error != libc::ENOTSOCK {
                    return Err(error);
                }
                listener::learn(fd).ok_or(error)?
            }
        };
        // SAFETY: the caller's promise.
        match unsafe { accept_either(fd, members, address, len, flags) } {
            // The members were closed behind our back: look again.
            Err(libc::EBADF | libc::ENOTSOCK) if known.is_some() => {
                table::reset(fd);
                known = None;
            }
            outcome => return outcome,
        }
    }
}

/// Which member was asked first the last time: neither keeps the other waiting.
static TURN: AtomicBool = AtomicBool::new(false);

unsafe fn accept_either(
    fd: c_int,
    members: Members,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> Outcome {
    loop {
        let tcp_first = TURN.fetch_xor(true, Ordering::Relaxed);
        let mut nobody = libc::EAGAIN;
        for tcp in [tcp_first, !tcp_first] {
            let outcome = if tcp {
                // SAFETY: the caller's promise.
                match unsafe { real::accept4(members.tcp, address, len, flags) } {
                    -1 => Err(sys::errno()),
                    accepted => {
                        descriptor::given(accepted);
                        Ok(accepted)
                    }
                }
            } else {
                // SAFETY: the caller's promise.
                unsafe { accept_unix(members, address, len, flags) }
            };
            match outcome {
                Err(libc::EAGAIN) => {}
                // First it is TCP's turn.
                Err(libc::ECONNABORTED) if !tcp => nobody = libc::ECONNABORTED,
                outcome => return outcome,
            }
        }
        if sys::fcntl(fd, libc::F_GETFL, 0)? & libc::O_NONBLOCK != 0 {
            return Err(nobody);
        }
        wait(fd, members)?;
    }
}

/// How many are passed over in one call: who comes again and again keeps neither TCP nor the program waiting.
const PASSED_OVER: usize = 64;

/// Takes a connection of this host, passing over whoever is not entitled to what it says of itself. Where that is many, it is as
/// if the last had gone again (ECONNABORTED): others may wait behind them, of whom no event would tell any more.
unsafe fn accept_unix(members: Members, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> Outcome {
    for _ in 0..PASSED_OVER {
        let mut buffer = [0; 128];
        let (accepted, peer) = match sys::accept4(members.unix, &mut buffer, flags) {
            // It was shut down; whether the listener is, TCP says.
            Err(libc::EINVAL) if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) == 0 => return Err(libc::EAGAIN),
            outcome => outcome?,
        };
        let Some((accepted, family, from)) = welcome(accepted, peer, flags) else { continue };
        // Without room for an address the kernel does not look at the length either.
        if !address.is_null() {
            let (bytes, count) = internet::format(family, from);
            // SAFETY: the caller's promise.
            if let Err(error) = unsafe { internet::store(&bytes[..count], address, len) } {
                sys::close(accepted);
                return Err(error);
            }
        }
        let mut notes = Notes::default();
        let listening = table::notes(members.unix);
        if listening.is_plain() {
            stream::make_room(accepted);
        } else {
            let (carried, plain) = stream::carry_options(members.tcp, accepted);
            notes = carried;
            table::set_notes(members.unix, listening.with_plain(plain && patience::is_usual(carried, family)));
        }
        stream::born(accepted, notes);
        carrier::learn(accepted);
        patience::born(accepted);
        return Ok(accepted);
    }
    Err(libc::ECONNABORTED)
}

/// Takes who connects, if it may say what its name says: then, the descriptor, and how the application sees it.
///
/// Anybody on this host may connect to an abstract name, as to a TCP port, and may choose a name of its own. So a name is
/// believed as far as TCP would make it true: both addresses are this host's own, and only root comes from a port below
/// 1024. A connection of another host can only be handed over by root or by the listener's own user.
fn welcome(accepted: c_int, peer: &[u8], flags: c_int) -> Option<(c_int, Family, SocketAddr)> {
    let mut buffer = [0; 128];
    let listening = sys::address(accepted, End::Own, &mut buffer).ok().and_then(Name::parse);
    let (class, at) = match listening {
        Some(Name::Listener { class, at, .. }) => (class, at),
        _ => {
            sys::close(accepted);
            return None;
        }
    };
    match Name::parse(peer) {
        Some(Name::Connection { from, to, remote: false, .. }) if is_entitled(accepted, class, at, from, to) => {
            Some((accepted, class.family(), from))
        }
        Some(Name::Handover) => {
            let stream = carrier::receive(accepted, class, at, flags)?;
            let from = stream::find(stream)?.peer;
            Some((stream, class.family(), from))
        }
        _ => {
            sys::close(accepted);
            None
        }
    }
}

fn is_entitled(accepted: c_int, class: Class, at: SocketAddr, from: SocketAddr, to: SocketAddr) -> bool {
    let aimed = to.port() == at.port() && (at.ip().is_unspecified() || at.ip() == to.ip());
    let kind = match class {
        Class::V4 | Class::Mapped => from.is_ipv4(),
        Class::V6 => from.is_ipv6(),
        Class::Dual => true,
    };
    let user =
        || sys::option::<libc::ucred>(accepted, libc::SOL_SOCKET, libc::SO_PEERCRED).map_or(u32::MAX, |peer| peer.uid);
    let is_own = |ip: IpAddr| {
        ip.is_loopback()
            || match internet::source(ip) {
                Ok(source) => source == ip,
                // Nothing is left to ask with, because the connection has it. These may come from anywhere (see `carrier`).
                Err(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS) => [0, sys::euid()].contains(&user()),
                Err(_) => false,
            }
    };
    aimed
        && kind
        && (from.port() >= 1024 || user() == 0)
        && is_own(from.ip())
        && (to.ip() == from.ip() || is_own(to.ip()))
}

/// Waits until one of the members has a connection, as long as the listener's time-out allows.
fn wait(fd: c_int, members: Members) -> Outcome {
    let limit: libc::timeval = sys::option(members.tcp, libc::SOL_SOCKET, libc::SO_RCVTIMEO)?;
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let time = libc::timespec { tv_sec: limit.tv_sec, tv_nsec: limit.tv_usec as c_long * 1000 };
    let forever = (limit.tv_sec, limit.tv_usec) == (0, 0);
    loop {
        // The C library's function, not the bare call: accept() is a point where a thread may be cancelled.
        // SAFETY: both structures live through the call.
        match unsafe { libc::ppoll(&raw mut poll, 1, if forever { null() } else { &raw const time }, null()) } {
            0 => return Err(libc::EAGAIN),
            -1 if sys::errno() == libc::EINTR && restarts() => {}
            -1 => return Err(sys::errno()),
            _ if poll.revents & libc::POLLNVAL != 0 => return Err(libc::EBADF),
            ready => return Ok(ready),
        }
    }
}

/// Whether an interrupted call goes on: poll() never does, accept() and recv() do if the handler was installed so. Which handler
/// ran is not known: it goes on if all of them say so.
pub(crate) fn restarts() -> bool {
    (1..=libc::SIGRTMAX()).all(|signal| {
        // SAFETY: a zeroed structure to be filled, which lives through the call.
        let action = unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            if libc::sigaction(signal, null(), &raw mut action) != 0 {
                return true;
            }
            action
        };
        matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) || action.sa_flags & libc::SA_RESTART != 0
    })
}
