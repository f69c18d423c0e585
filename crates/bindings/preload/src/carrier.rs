//! The way to other hosts: asked of the companion, the process that `pinnace run` leaves beside the command.
//!
//! The companion speaks QMP. What it gives for a connection is one end of a pair of Unix sockets, whose own name says both
//! internet addresses ([`crate::name`]); between the other end and the network it passes the bytes. What is said to it is one
//! line each way, over a SEQPACKET socket of its own:
//!
//! | said | answer |
//! |---|---|
//! | `1 CONNECT FAMILY ADDR:PORT` | `OK` with a descriptor, or `TCP` |
//! | `1 LISTEN FAMILY ADDR:PORT NAME` | `OK`, and the listener lasts as long as the connection; or `TCP` |
//! | `1 BEAR STREAM ON IDLE INTERVAL COUNT USER` | `OK`: how long the other host of a stream (SO_COOKIE) may be silent; or `TCP` |
//!
//! A connection that another host opened comes to the listener's Unix socket as one from a handover name, with the
//! descriptor of the stream on it ([`receive`]).

//= Q-13

use crate::config;
use crate::connect::{self, Refusal};
use crate::epoll::Registration;
use crate::listener::hidden_base;
use crate::name::{Class, Family, Name, UnixAddress};
use crate::patience;
use crate::stream;
use crate::sys::{self, Outcome};
use crate::table;
use core::ffi::c_int;
use core::fmt::{self, Write};
use core::net::SocketAddr;

/// How long the companion may take: longer than it waits for another host.
const PATIENCE: libc::timeval = libc::timeval { tv_sec: 3, tv_usec: 0 };
/// How long whoever hands over a connection may take to do it.
const AT_ONCE: libc::timeval = libc::timeval { tv_sec: 1, tv_usec: 0 };

fn digit(family: Family) -> char {
    if family == Family::V4 { '4' } else { '6' }
}

/// Says a line to the companion, and waits for the answer's first word and descriptor.
fn ask(line: fmt::Arguments<'_>) -> Outcome<(c_int, Option<c_int>)> {
    let address = config::companion().ok_or(libc::ENOENT)?;
    let control = sys::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0)?;
    let answer = (|| {
        // Also where so many wait to be heard by it that there is no room for another.
        sys::set_option(control, libc::SOL_SOCKET, libc::SO_SNDTIMEO, &PATIENCE)?;
        sys::connect(control, address.bytes())?;
        // Whoever has the name may be anybody: what is ours goes to our own user, or root, alone.
        let peer: libc::ucred = sys::option(control, libc::SOL_SOCKET, libc::SO_PEERCRED)?;
        if peer.uid != 0 && peer.uid != sys::euid() {
            return Err(libc::EPERM);
        }
        sys::set_option(control, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &PATIENCE)?;
        let end = sys::milliseconds() + 1000 * PATIENCE.tv_sec;
        let mut text = Text { bytes: [0; 256], len: 0 };
        text.write_fmt(line).map_err(|_| libc::EMSGSIZE)?;
        sys::send(control, &text.bytes[..text.len])?;
        let mut bytes = [0; 64];
        let (count, descriptor) = loop {
            match sys::recv_descriptor(control, &mut bytes) {
                // A call with a time-out is not begun anew after a signal, whatever its handler asks for.
                Err(libc::EINTR) if sys::milliseconds() < end => {}
                outcome => break outcome?,
            }
        };
        if bytes[..count].starts_with(b"OK") { Ok(descriptor) } else { Err(libc::ECONNREFUSED) }
    })();
    match answer {
        Ok(descriptor) => Ok((control, descriptor)),
        Err(error) => {
            sys::close(control);
            Err(error)
        }
    }
}

struct Text {
    bytes: [u8; 256],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let place = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

/// Asks for a stream to an address of another host. A call that does not block waits too, for as long as it takes to learn
/// whether the other side speaks QMP: afterwards there is either a stream or a TCP socket, and no third thing.
pub(crate) fn connect(
    fd: c_int,
    registered: Option<Registration>,
    family: Family,
    bound: SocketAddr,
    to: SocketAddr,
) -> Result<(), Refusal> {
    // An address or port of the application's choice is TCP's to give.
    if bound.port() != 0 || !bound.ip().to_canonical().is_unspecified() || config::companion().is_none() {
        return Err(Refusal::Tcp);
    }
    let (control, descriptor) = ask(format_args!("1 CONNECT {} {to}", digit(family)))?;
    sys::close(control);
    let unix = descriptor.ok_or(Refusal::Tcp)?;
    let replaced =
        if stream::find(unix).is_some() { connect::replace(fd, registered, unix) } else { Err(libc::EPROTO) };
    sys::close(unix);
    replaced?;
    table::set_notes(fd, table::notes(fd).with_remote(true));
    patience::born(fd);
    config::say(format_args!("connected to {to} by QMP"));
    Ok(())
}

/// Says a line to which there is no more to answer than that it was heard.
pub(crate) fn tell(line: fmt::Arguments<'_>) -> Outcome<()> {
    let (control, descriptor) = ask(line)?;
    sys::close(control);
    descriptor.map_or(Ok(()), |unexpected| {
        sys::close(unexpected);
        Err(libc::EPROTO)
    })
}

/// Asks for the connections of other hosts to a listener. Answers with the descriptor that is to live as long as it.
pub(crate) fn listen(class: Class, at: SocketAddr, name: &Name, on_exec: bool) -> Outcome {
    if at.ip().is_loopback() || config::companion().is_none() {
        return Err(libc::EADDRNOTAVAIL);
    }
    // Two listeners may have one port, each for a family.
    let takes = if class == Class::Dual { 'D' } else { digit(class.family()) };
    let (control, descriptor) = ask(format_args!("1 LISTEN {takes} {at} {name}"))?;
    if let Some(unexpected) = descriptor {
        sys::close(unexpected);
    }
    let duplicate = if on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    let hidden = sys::fcntl(control, duplicate, hidden_base());
    sys::close(control);
    if hidden.is_ok() {
        config::say(format_args!("listening on {at}: QMP, for other hosts"));
    }
    hidden
}

/// Takes the stream that a handover brings, and closes the handover. `class` and `at` are the listener's.
pub(crate) fn receive(handover: c_int, class: Class, at: SocketAddr, flags: c_int) -> Option<c_int> {
    let trusted = sys::option::<libc::ucred>(handover, libc::SOL_SOCKET, libc::SO_PEERCRED)
        .is_ok_and(|peer| peer.uid == 0 || peer.uid == sys::euid());
    let mut bytes = [0; 64];
    let descriptor = trusted
        .then(|| {
            sys::fcntl(handover, libc::F_SETFL, 0).ok()?;
            sys::set_option(handover, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &AT_ONCE).ok()?;
            let end = sys::milliseconds() + 1000 * AT_ONCE.tv_sec;
            loop {
                match sys::recv_descriptor(handover, &mut bytes) {
                    // As in `ask`.
                    Err(libc::EINTR) if sys::milliseconds() < end => {}
                    outcome => break outcome.ok()?.1,
                }
            }
        })
        .flatten();
    sys::close(handover);
    let fd = descriptor?;
    let is_right =
        stream::find(fd).is_some_and(|stream| stream.family == class.family() && stream.own.port() == at.port());
    let set = || {
        if flags & libc::SOCK_CLOEXEC == 0 {
            sys::fcntl(fd, libc::F_SETFD, 0)?;
        }
        sys::fcntl(fd, libc::F_SETFL, flags & libc::SOCK_NONBLOCK)
    };
    if is_right && set().is_ok() {
        return Some(fd);
    }
    sys::close(fd);
    None
}

/// Whether a descriptor is a stream of another host, by its own name.
pub(crate) fn is_remote(fd: c_int) -> bool {
    let mut buffer = [0; 128];
    matches!(
        sys::address(fd, sys::End::Own, &mut buffer).map(Name::parse),
        Ok(Some(Name::Connection { remote: true, .. }))
    )
}

/// The error with which the stream to another host, which has just ended, was cut off, if it was. The companion gives its own
/// end a name before it ends a stream of which everything has come; so one that was killed has said nothing of the kind.
fn cut_off(fd: c_int) -> Option<c_int> {
    // The note may be stale: what has no such name of its own is none of ours. An end that the application made is no reset.
    if !is_remote(fd) || is_shut(fd) {
        return None;
    }
    let mut buffer = [0; 128];
    let name = sys::address(fd, sys::End::Peer, &mut buffer).unwrap_or_default();
    let is_named = |beginning| name.starts_with(UnixAddress::new(beginning).bytes());
    match is_named(END) {
        true => None,
        false if is_named(SILENCE) => Some(libc::ETIMEDOUT),
        false => Some(libc::ECONNRESET),
    }
}

/// The error that has ended a stream to another host in both directions, if one has.
pub(crate) fn error(fd: c_int) -> Option<c_int> {
    if !table::notes(fd).is_remote() || sys::poll_now(fd, 0) & libc::POLLHUP == 0 {
        return None;
    }
    cut_off(fd)
}

/// How the name of the companion's end begins when all that the other host said has been passed on.
const END: &str = "pinnace/1E/";
/// And when it has been silent for too long.
const SILENCE: &str = "pinnace/1T/";

/// Notes whether a descriptor, which came through exec, is a stream of another host.
pub(crate) fn learn(fd: c_int) {
    if is_remote(fd) {
        table::set_notes(fd, table::notes(fd).with_remote(true));
    }
}

/// The application is about to shut down a stream: an end that it makes itself is no reset. Its duplicates and children have to
/// know that, too, so it is written in the kernel: in an option that has no meaning for a Unix socket.
pub(crate) fn shutting(fd: c_int, how: c_int) {
    if how != libc::SHUT_WR && table::notes(fd).is_remote() {
        let _ = sys::set_option(fd, libc::SOL_SOCKET, libc::SO_NO_CHECK, &1);
    }
}

fn is_shut(fd: c_int) -> bool {
    sys::option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_NO_CHECK) == Ok(1)
}

/// Reads of a stream that was cut off end with an error, and not as if everything had been said.
pub(crate) fn ended(fd: c_int, count: isize, wanted: usize) -> isize {
    if count == 0
        && wanted > 0
        && table::notes(fd).is_remote()
        && let Some(error) = cut_off(fd)
    {
        sys::set_errno(error);
        return -1;
    }
    count
}
