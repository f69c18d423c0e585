//! Unix sockets that keep the bounds of messages, and pass descriptors along.
//!
//! Always true: what is received has the close-on-exec flag; descriptors that were not asked for are closed by the kernel, and
//! never become ours.

use super::protocol::{BYTES, Message};
use pinnace_qbuf::channel::ChannelFds;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A socket of the kind that both sides use.
pub(crate) fn new(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags | SocketFlags::CLOEXEC, None)?)
}

/// Two that are connected.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Sends a message, with descriptors.
pub(super) fn send(socket: BorrowedFd<'_>, message: &Message, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_with(socket, message, fds, SendFlags::empty())
}

/// Sends a message if that takes no time.
pub(super) fn send_now(socket: BorrowedFd<'_>, message: &Message) -> io::Result<()> {
    send_with(socket, message, &[], SendFlags::DONTWAIT)
}

fn send_with(socket: BorrowedFd<'_>, message: &Message, fds: &[BorrowedFd<'_>], flags: SendFlags) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    loop {
        match sendmsg(socket, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL | flags) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What a receive found.
#[derive(Debug)]
pub(crate) enum Received {
    /// Bytes, perhaps a message.
    Bytes(usize),
    /// Too many bytes, or descriptors that nobody asked for.
    Unwanted,
    /// A message that came without some of its descriptors: this process may not have more.
    Incomplete(usize),
    /// The other side has closed.
    Closed,
    /// Nothing, now.
    Nothing,
}

/// Receives into `message` what may bring no descriptors.
pub(super) fn receive(socket: BorrowedFd<'_>, message: &mut Message) -> io::Result<Received> {
    match receive_with(socket, message, &mut RecvAncillaryBuffer::default())? {
        (_, true) => Ok(Received::Unwanted),
        (received, false) => Ok(received),
    }
}

/// Receives into `message` what may bring the descriptors of a channel, or fewer.
pub(crate) fn receive_fds(socket: BorrowedFd<'_>, message: &mut Message) -> io::Result<(Received, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = match receive_with(socket, message, &mut control)? {
        (Received::Bytes(len), true) => Received::Incomplete(len),
        (received, _) => received,
    };
    let mut fds = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(found) = part {
            fds.extend(found);
        }
    }
    Ok((received, fds))
}

/// And whether descriptors were left out.
fn receive_with(
    socket: BorrowedFd<'_>,
    message: &mut Message,
    control: &mut RecvAncillaryBuffer<'_>,
) -> io::Result<(Received, bool)> {
    // Who closes without having read everything resets the socket; what it had sent before can be read afterwards.
    let mut resets = 0;
    loop {
        match recvmsg(socket, &mut [IoSliceMut::new(message)], control, RecvFlags::CMSG_CLOEXEC) {
            Ok(found) if found.flags.contains(ReturnFlags::TRUNC) => return Ok((Received::Unwanted, false)),
            // A message of no bytes looks like the end; nobody who keeps to the protocol sends one.
            Ok(found) if found.bytes == 0 => return Ok((Received::Closed, false)),
            Ok(found) => {
                return Ok((Received::Bytes(found.bytes.min(BYTES)), found.flags.contains(ReturnFlags::CTRUNC)));
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok((Received::Nothing, false)),
            Err(Errno::CONNRESET) if resets == 0 => resets += 1,
            Err(Errno::CONNRESET | Errno::PIPE | Errno::NOTCONN) => return Ok((Received::Closed, false)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The descriptors of a channel, as they are sent.
pub(super) fn of_channel(fds: &ChannelFds) -> [BorrowedFd<'_>; 3] {
    [fds.region.as_fd(), fds.doorbells[0].as_fd(), fds.doorbells[1].as_fd()]
}

/// The descriptors of a channel, if there are as many.
pub(super) fn channel(fds: Vec<OwnedFd>) -> io::Result<ChannelFds> {
    let [region, first, second] = <[OwnedFd; 3]>::try_from(fds).map_err(|_| no_descriptors())?;
    Ok(ChannelFds { region, doorbells: [first, second] })
}

/// Descriptors that should have come did not: this process has as many as it may have.
pub(super) fn no_descriptors() -> io::Error {
    io::Error::other("the descriptors from the daemon did not arrive; this process may have too many open")
}

/// Who is on the other side: who connected, or who called `listen`, as they were then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// 0: of a pid namespace that we do not see.
    pub(super) pid: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// Asks the kernel who is on the other side.
pub(super) fn peer(socket: BorrowedFd<'_>) -> io::Result<Peer> {
    let mut found = [0u32; 3];
    option(socket, libc::SO_PEERCRED, &mut found)?;
    let [pid, uid, gid] = found;
    Ok(Peer { pid, uid, gid })
}

/// The process on the other side, as a descriptor that becomes readable when it is dead.
pub(super) fn peer_process(socket: BorrowedFd<'_>, pid: u32) -> io::Result<OwnedFd> {
    let mut fd = [u32::MAX];
    match option(socket, libc::SO_PEERPIDFD, &mut fd) {
        // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
        Ok(()) if fd[0] <= i32::MAX as u32 => Ok(unsafe { OwnedFd::from_raw_fd(fd[0].cast_signed()) }),
        // Before Linux 6.5: the number may mean another process by now, which would then be watched in its place. The socket
        // of the one that is meant is closed all the same when it ends.
        _ => {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).ok_or(io::ErrorKind::NotFound)?;
            Ok(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?)
        }
    }
}

/// The network namespace that a socket belongs to (Linux 5.14). What `accept` returns belongs to that of the socket that
/// connected.
pub(super) fn network_namespace(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut cookie = [0u32; 2];
    option(socket, libc::SO_NETNS_COOKIE, &mut cookie)?;
    Ok(u64::from(cookie[0]) << 32 | u64::from(cookie[1]))
}

/// Asks for an option of a socket that consists of words.
fn option<const N: usize>(socket: BorrowedFd<'_>, name: libc::c_int, value: &mut [u32; N]) -> io::Result<()> {
    let mut len = size_of_val(value) as libc::socklen_t;
    let place = value.as_mut_ptr().cast();
    // SAFETY: `value` has room for `len` bytes, and any bytes are values of it.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, place, &raw mut len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
