//! How two processes find each other by a name: the first waits at a Unix socket, the second calls there and gets the pool and
//! the channel.
//!
//! The socket has an abstract name, which holds the user's number, and which only one can have; it goes with the process.
//! Whoever has it gives only to processes of the same user, as the kernel names them, and a caller takes only from such.
//!
//! Always true: a peer that is silent, or says what cannot be, costs at most [`HANDSHAKE`], and then the next one is heard.

use crate::errors::Errno;
use crate::qbuf::refused;
use pinnace_qbuf::channel::{Channel, ChannelFds, ChannelOptions, Side};
use pinnace_qbuf::{Pool, PoolOptions};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg, socket_with, sockopt,
};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

/// The longest that a handshake takes.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// Between the end of one who waited and the beginning of the next nobody answers: so long is a look.
const LOOK: Duration = Duration::from_millis(1);
/// What a handshake begins with: the protocol, and its version. Of version 1 nobody keeps the socket that they met by.
const GREETING: [u8; 8] = *b"QBUF\0\0\0\x02";
/// What it ends with.
const THANKS: u8 = 1;
/// The longest name.
const LONGEST: usize = 64;
/// The pool, the channel's memory and its two doorbells.
const DESCRIPTORS: usize = 4;

/// Opens the pool called `name` and one end of a channel in it: as the first, which waits for the other, or as the second. What
/// comes with them is the socket that they met by: it hangs up when the program at the other end is gone.
pub(in crate::qbuf) fn meet(
    name: &[u8],
    options: &PoolOptions,
    slots: u32,
    deadline: Option<Instant>,
) -> Result<(Pool, Channel, OwnedFd), Errno> {
    if name.is_empty() || name.len() > LONGEST {
        return Err(Errno(libc::EINVAL));
    }
    let user = rustix::process::geteuid().as_raw();
    let whole = [format!("pinnace-qbuf/{user}/").as_bytes(), name].concat();
    let address = SocketAddr::from_abstract_name(&whole).map_err(|error| Errno::from(&error))?;
    loop {
        match UnixListener::bind_addr(&address) {
            Ok(listener) => return wait_for_peer(&listener, options, slots, deadline),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => return Err(Errno::from(&error)),
        }
        match connect(&whole) {
            Ok(peer) => {
                if !is_of_user(&peer) {
                    return Err(Errno(libc::EACCES));
                }
                // One that has found its peer meanwhile hangs up: then it is the next one's turn.
                if let Some((pool, channel)) = call(&peer)? {
                    return Ok((pool, channel, peer.into()));
                }
            }
            // It is about to listen, or has just gone; or too many call.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::WouldBlock) => {}
            Err(error) => return Err(Errno::from(&error)),
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Errno(libc::ETIMEDOUT));
        }
        thread::sleep(LOOK);
    }
}

/// Connects to who has this name, if he has room for one who is to be heard; does not wait until he has.
fn connect(name: &[u8]) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
    let peer = UnixStream::from(socket);
    peer.set_nonblocking(false)?;
    Ok(peer)
}

fn is_of_user(peer: &UnixStream) -> bool {
    sockopt::socket_peercred(peer).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

/// The first: makes the pool, and gives it to the next that calls.
fn wait_for_peer(
    listener: &UnixListener,
    options: &PoolOptions,
    slots: u32,
    deadline: Option<Instant>,
) -> Result<(Pool, Channel, OwnedFd), Errno> {
    let pool = Pool::create(options).map_err(|error| Errno::from(&error))?;
    listener.set_nonblocking(true).map_err(|error| Errno::from(&error))?;
    for number in (0..1 << 22).cycle() {
        let peer = next_caller(listener, deadline)?;
        if is_of_user(&peer) {
            let options = ChannelOptions { slots, number, ..ChannelOptions::default() };
            let fds = Channel::create(&pool, &options).map_err(|error| Errno::from(&error))?;
            // Seated before the other is: so that it may send at once.
            let ours = fds.try_clone().map_err(|error| Errno::from(&error))?;
            let channel =
                Channel::attach(&pool, ours, Side::A).map_err(|error| Errno::from(&io::Error::from(error)))?;
            if give(&peer, &pool, &fds).is_ok() {
                return Ok((pool, channel, peer.into()));
            }
        }
        if rest_until(deadline) == Some(Duration::ZERO) {
            break;
        }
    }
    Err(Errno(libc::ETIMEDOUT))
}

fn rest_until(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
}

/// Waits for whoever calls next.
fn next_caller(listener: &UnixListener, deadline: Option<Instant>) -> Result<UnixStream, Errno> {
    loop {
        match listener.accept() {
            Ok((peer, _)) => return Ok(peer),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(Errno::from(&error)),
        }
        let rest = rest_until(deadline);
        if rest == Some(Duration::ZERO) {
            return Err(Errno(libc::ETIMEDOUT));
        }
        let rest = rest.and_then(|rest| Timespec::try_from(rest).ok());
        // A signal is a look too many.
        let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], rest.as_ref());
    }
}

/// Gives a caller the pool and the channel, and waits for its thanks.
fn give(mut peer: &UnixStream, pool: &Pool, fds: &ChannelFds) -> io::Result<()> {
    peer.set_nonblocking(false)?;
    peer.set_write_timeout(Some(HANDSHAKE))?;
    peer.set_read_timeout(Some(HANDSHAKE))?;
    let fds = [pool.fd(), fds.region.as_fd(), fds.doorbells[0].as_fd(), fds.doorbells[1].as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    sendmsg(peer, &[IoSlice::new(&GREETING)], &mut control, SendFlags::NOSIGNAL)?;
    let mut answer = [0];
    peer.read_exact(&mut answer)?;
    if answer == [THANKS] { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
}

/// The second: takes the pool and the channel. `None`: the other has hung up, or a signal came while it was waited for.
//= B-13
fn call(mut peer: &UnixStream) -> Result<Option<(Pool, Channel)>, Errno> {
    let system = |error: io::Error| Errno::from(&error);
    peer.set_read_timeout(Some(HANDSHAKE)).map_err(system)?;
    let mut bytes = [0; GREETING.len() + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = match recvmsg(peer, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
        Ok(received) => received,
        Err(rustix::io::Errno::CONNRESET | rustix::io::Errno::INTR) => return Ok(None),
        // Somebody is there, but says nothing.
        Err(rustix::io::Errno::AGAIN) => return Err(Errno(libc::ETIMEDOUT)),
        Err(error) => return Err(Errno(error.raw_os_error())),
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut fds: Vec<OwnedFd> = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(found) = part {
            fds.extend(found);
        }
    }
    let unknown = Errno(libc::EPROTO);
    if received.flags.contains(ReturnFlags::CTRUNC) || bytes[..received.bytes] != GREETING {
        return Err(unknown);
    }
    let [file, region, first, second] = <[OwnedFd; DESCRIPTORS]>::try_from(fds).map_err(|_| unknown)?;
    let pool = Pool::attach(file).map_err(|error| refused(&error))?;
    let fds = ChannelFds { region, doorbells: [first, second] };
    let channel = Channel::attach(&pool, fds, Side::B).map_err(|error| system(error.into()))?;
    match peer.write_all(&[THANKS]) {
        Ok(()) => Ok(Some((pool, channel))),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn callers_who_hang_up_hold_nobody_up_for_longer_than_he_waits() {
        let name = format!("pester-{}", std::process::id());
        let user = rustix::process::geteuid().as_raw();
        let address = SocketAddr::from_abstract_name(format!("pinnace-qbuf/{user}/{name}")).unwrap();
        let is_over = AtomicBool::new(false);
        let (begin, wait) = (Instant::now(), Duration::from_millis(200));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        drop(UnixStream::connect_addr(&address));
                    }
                });
            }
            // So that the test ends, however long they hold it up.
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(10));
                    is_over.fetch_or(begin.elapsed() > Duration::from_secs(5), Ordering::Relaxed);
                }
            });
            let met = meet(name.as_bytes(), &PoolOptions::default(), 16, Some(begin + wait));
            let took = begin.elapsed();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(met.err(), Some(Errno(libc::ETIMEDOUT)));
            assert!(took < Duration::from_secs(3), "{took:?}");
        });
    }
}
