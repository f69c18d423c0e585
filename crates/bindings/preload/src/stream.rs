//! Converted streams: Unix sockets that the application takes for TCP connections.

use crate::name::{Family, Name};
use crate::sys::{self, End};
use crate::table::{self, Notes};
use crate::{carrier, patience};
use core::ffi::c_int;
use core::net::SocketAddr;

/// How the application sees a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) family: Family,
    pub(crate) own: SocketAddr,
    pub(crate) peer: SocketAddr,
}

fn name(fd: c_int, end: End) -> Option<Name> {
    let mut buffer = [0; 128];
    sys::address(fd, end, &mut buffer).ok().and_then(Name::parse)
}

/// Asks the kernel whether a descriptor is a stream of ours.
pub(crate) fn find(fd: c_int) -> Option<Stream> {
    match name(fd, End::Own)? {
        Name::Connection { family, from, to, .. } => Some(Stream { family, own: from, peer: to }),
        Name::Listener { class, .. } => match name(fd, End::Peer)? {
            Name::Connection { from, to, .. } => Some(Stream { family: class.family(), own: to, peer: from }),
            Name::Listener { .. } | Name::Handover => None,
        },
        Name::Handover => None,
    }
}

/// Whether an address that the kernel gave names one of our sockets.
pub(crate) fn is_ours(address: &[u8]) -> bool {
    Name::parse(address).is_some()
}

/// Gives a stream the options of the TCP socket that it replaces, or that it was accepted from. Answers with what is to be
/// noted of it, and whether every option was as the kernel makes it, but for the times of [`patience`].
pub(crate) fn carry_options(tcp: c_int, unix: c_int) -> (Notes, bool) {
    let mut plain = true;
    for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        if let Ok(time) = sys::option::<libc::timeval>(tcp, libc::SOL_SOCKET, name)
            && (time.tv_sec, time.tv_usec) != (0, 0)
        {
            plain = false;
            let _ = sys::set_option(unix, libc::SOL_SOCKET, name, &time);
        }
    }
    if let Ok(linger) = sys::option::<libc::linger>(tcp, libc::SOL_SOCKET, libc::SO_LINGER)
        && linger.l_onoff != 0
    {
        plain = false;
        let _ = sys::set_option(unix, libc::SOL_SOCKET, libc::SO_LINGER, &linger);
    }
    for name in [libc::SO_KEEPALIVE, libc::SO_OOBINLINE] {
        if let Ok(1) = sys::option::<c_int>(tcp, libc::SOL_SOCKET, name) {
            plain = false;
            let _ = sys::set_option(unix, libc::SOL_SOCKET, name, &1);
        }
    }
    // Sizes of buffers that the application chose; the kernel answers with twice what it was given.
    let chosen = sys::option::<c_int>(tcp, libc::SOL_SOCKET, SO_BUF_LOCK).unwrap_or(0);
    for (bit, name) in [(1, libc::SO_SNDBUF), (2, libc::SO_RCVBUF)] {
        if chosen & bit != 0
            && let Ok(size) = sys::option::<c_int>(tcp, libc::SOL_SOCKET, name)
        {
            plain = false;
            let _ = sys::set_option(unix, libc::SOL_SOCKET, name, &(size / 2));
        }
    }
    if chosen & 1 == 0 {
        make_room(unix);
    }
    let no_delay = sys::option::<c_int>(tcp, libc::IPPROTO_TCP, libc::TCP_NODELAY) == Ok(1);
    (patience::of_tcp(tcp).with_no_delay(no_delay), plain && !no_delay)
}

/// Which buffers have sizes that were set (Linux 5.14).
const SO_BUF_LOCK: c_int = 72;

/// Between two TCP sockets there is room for megabytes, because both grow; a Unix socket has what it was given, and the
/// receiver adds nothing.
const ROOM: c_int = 4 << 20;
/// To another host there are the companions' queues besides.
const ROOM_BEFORE_QUEUES: c_int = 512 << 10;

/// Gives a stream as much room for what is not yet read as TCP would find; as much as the system allows, if that is less.
pub(crate) fn make_room(unix: c_int) {
    let room = if carrier::is_remote(unix) { ROOM_BEFORE_QUEUES } else { ROOM };
    if sys::set_option(unix, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &room).is_err() {
        let _ = sys::set_option(unix, libc::SOL_SOCKET, libc::SO_SNDBUF, &room);
    }
}

/// The end of making a stream: what is noted of it.
pub(crate) fn born(fd: c_int, notes: Notes) {
    table::reset(fd);
    table::set_notes(fd, notes);
}
