//! Sockets of the companion: those it is asked on, and the pairs that it gives.

use super::request::Request;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::net::sockopt::{
    set_socket_oobinline, set_socket_send_buffer_size, set_socket_send_buffer_size_force, socket_peercred,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, accept_with, bind, connect, listen, recv, sendmsg, socket_with, socketpair,
};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Which kind of socket the application made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// How long whoever asks may take to say what.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A socket that somebody asks on.
#[derive(Debug)]
pub(super) struct Control(OwnedFd);

impl Control {
    /// Takes the next, if it is our own user or root.
    pub(super) fn accept(from: &OwnedFd) -> io::Result<Self> {
        let fd = accept_with(from, SocketFlags::CLOEXEC)?;
        check_user(&fd)?;
        rustix::net::sockopt::set_socket_timeout(&fd, rustix::net::sockopt::Timeout::Recv, Some(AT_ONCE))?;
        Ok(Self(fd))
    }

    /// What is asked for. Waits for it a while, or says that nothing has been ([`io::ErrorKind::WouldBlock`]).
    pub(super) fn request(&self, waits: bool) -> io::Result<Request> {
        let mut line = [0_u8; 512];
        let flags = if waits { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        let (count, _) = recv(&self.0, &mut line, flags)?;
        Request::parse(&line[..count]).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The application shall use TCP.
    pub(super) fn refuse(&self) -> io::Result<()> {
        rustix::net::send(&self.0, b"TCP", SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Whether whoever asked is gone. Nothing more is said on it.
    pub(super) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// It is as whoever asked would have it.
    pub(super) fn agree(&self) -> io::Result<()> {
        rustix::net::send(&self.0, b"OK", SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The application has its stream.
    pub(super) fn give(&self, stream: &OwnedFd) -> io::Result<()> {
        pass(self.0.as_fd(), stream)
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What is ours is for our own user and root alone.
fn check_user(fd: &OwnedFd) -> io::Result<()> {
    let peer = socket_peercred(fd)?.uid;
    if peer.is_root() || peer == rustix::process::geteuid() {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

fn pass(to: BorrowedFd<'_>, stream: &OwnedFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [stream.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(to, &[IoSlice::new(b"OK")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// As much room for what the application has not read as the library makes in the other direction: there are the stream's
/// queues besides.
fn make_ready(own: &OwnedFd) -> io::Result<()> {
    const ROOM: usize = 512 << 10;
    if set_socket_send_buffer_size_force(own, ROOM).is_err() {
        let _ = set_socket_send_buffer_size(own, ROOM);
    }
    // A byte that is said to be urgent stays where it is in the stream: this end asks for none, and would lose it.
    Ok(set_socket_oobinline(own, true)?)
}

/// A name that no other socket has.
fn unique(kind: char) -> io::Result<SocketAddrUnix> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // Nobody can guess it, and take it before us.
    let name = format!("pinnace/1{kind}/{:016x}-{number}", RandomState::new().hash_one(number));
    Ok(SocketAddrUnix::new_abstract_name(name.as_bytes())?)
}

/// A pair of sockets: the application's, whose own name says both addresses, and ours. `is_alone`: no other stream has both as
/// long as the application has this one.
///
/// # Errors
/// Also if it is not: [`io::ErrorKind::AddrInUse`].
pub(super) fn make(
    family: Family,
    (local, peer): (SocketAddr, SocketAddr),
    is_alone: bool,
) -> io::Result<(OwnedFd, OwnedFd)> {
    let digit = if family == Family::V4 { '4' } else { '6' };
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let name = format!("pinnace/1R{digit}/{}>{}", plain(local), plain(peer));
    let name = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    if is_alone {
        let (application, own) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        make_ready(&own)?;
        bind(&application, &name)?;
        return Ok((application, own));
    }
    // Streams that one port has opened have one name, in which there is no room for more. What a listener accepts has its name,
    // too, and that is taken only until the listener is gone. So they are made one after the other: it goes before the lock.
    static NAMED: Mutex<()> = Mutex::new(());
    let _named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    let (listener, own) = (socket()?, socket()?);
    make_ready(&own)?;
    bind(&listener, &name)?;
    listen(&listener, 8)?;
    // Strangers who fill the queue do not keep those waiting who want the lock.
    ioctl_fionbio(&own, true)?;
    connect(&own, &name)?;
    ioctl_fionbio(&own, false)?;
    loop {
        let application = accept_with(&listener, SocketFlags::CLOEXEC)?;
        // Somebody else may have come in between.
        if socket_peercred(&application)?.pid == rustix::process::getpid() {
            return Ok((application, own));
        }
    }
}

/// Gives the listener behind an abstract name a stream, as the next that it accepts. Where it has as many as it takes: waits, or
/// says so ([`io::ErrorKind::WouldBlock`]).
pub(super) fn hand_over(name: &str, stream: &OwnedFd, waits: bool) -> io::Result<()> {
    let handover = socket()?;
    bind(&handover, &unique('H')?)?;
    ioctl_fionbio(&handover, !waits)?;
    connect(&handover, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    // While the listener was made anew anybody may have taken its name.
    check_user(&handover)?;
    pass(handover.as_fd(), stream)
}

/// How a stream has ended, where it is no reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All that the other host said has been passed on.
    Whole,
    /// The other host has been silent for too long.
    Silence,
}

/// Marks our end of a pair. The application's calls look for it when they see the end, which without it is a reset: so it is
/// one, too, if this process dies.
pub(super) fn mark(own: &OwnedFd, end: End) {
    if let Ok(name) = unique(if end == End::Whole { 'E' } else { 'T' }) {
        let _ = bind(own, &name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{Shutdown, send, shutdown};
    use std::thread;

    #[test]
    fn an_urgent_byte_is_one_of_the_stream() {
        let [local, peer] = [1, 2].map(|host| SocketAddr::from(([192, 0, 2, host], 7002)));
        let (application, own) = make(Family::V4, (local, peer), true).expect("a pair");
        for (bytes, flags) in [(b"ab", SendFlags::empty()), (b"cd", SendFlags::OOB), (b"ef", SendFlags::empty())] {
            assert_eq!(send(&application, bytes, flags), Ok(2));
        }
        shutdown(&application, Shutdown::Write).expect("it goes on");
        let (mut all, mut buffer) = (Vec::<u8>::new(), [0_u8; 16]);
        while let Ok(count @ 1..) = rustix::io::read(&own, &mut buffer[..]) {
            all.extend(&buffer[..count]);
        }
        assert_eq!(all, *b"abcdef");
    }

    #[test]
    fn a_stream_is_not_handed_over_to_another_user_who_has_the_listeners_name() {
        if !rustix::process::geteuid().is_root() {
            pinnace_testing::skip::host("only root can be two users");
            return;
        }
        let [local, peer] = [1, 2].map(|host| SocketAddr::from(([192, 0, 2, host], 7003)));
        let (stream, _own) = make(Family::V4, (local, peer), true).expect("a pair");
        for (uid, is_given) in [(0, true), (65534, false)] {
            let name = format!("pinnace-test/{}-{uid}", std::process::id());
            let listener = thread::scope(|scope| {
                let listening = scope.spawn(|| {
                    let uid = Some(rustix::thread::Uid::from_raw(uid));
                    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
                    let listener = socket()?;
                    bind(&listener, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
                    listen(&listener, 8)?;
                    io::Result::Ok(listener)
                });
                listening.join().expect("it ends").expect("a listener")
            });
            let given = hand_over(&name, &stream, false).map_err(|error| error.kind());
            assert_eq!(given, if is_given { Ok(()) } else { Err(io::ErrorKind::PermissionDenied) });
            let accepted = accept_with(&listener, SocketFlags::CLOEXEC).expect("it was called");
            let said = recv(&accepted, &mut [0_u8; 4], RecvFlags::empty()).map(|(count, _)| count);
            assert_eq!(said, Ok(if is_given { 2 } else { 0 }));
        }
    }

    #[test]
    fn streams_of_one_port_are_made_at_the_same_moment() {
        let [local, peer] = [1, 2].map(|host| SocketAddr::from(([192, 0, 2, host], 7001)));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for round in 0..2000 {
                        let made = make(Family::V4, (local, peer), false);
                        assert!(made.is_ok(), "round {round}: {made:?}");
                    }
                });
            }
        });
    }
}
