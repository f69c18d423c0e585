//! What C sees of QMP. The comments here are the header's.
#![allow(clippy::missing_safety_doc, reason = "the comments are written for C, where nothing is safe")]

use super::conversation::{Conversation, Lack, Wait};
use super::{Socket, names, polling, vectors};
use crate::descriptors::{self, Descriptor, Number};
use crate::errors::{Errno, guard};
use crate::xtp::address;
use libc::{c_int, c_ulong, c_void, msghdr, nfds_t, pollfd, sockaddr, sockaddr_storage, socklen_t, ssize_t};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Makes a socket. `domain` is AF_INET or AF_INET6, `type` SOCK_STREAM, with SOCK_NONBLOCK or SOCK_CLOEXEC or both added if
/// you like (every socket is closed on exec), and `protocol` 0 (or IPPROTO_TCP, which is the same here).
///
/// Returns its number, or -1: EAFNOSUPPORT, ESOCKTNOSUPPORT, EPROTONOSUPPORT for another domain, type, protocol; EMFILE or
/// ENFILE: there are no descriptors left.
///
///     int fd = qmp_socket(AF_INET, SOCK_STREAM, 0);
///     if (fd < 0)
///         perror("qmp_socket");
#[unsafe(no_mangle)]
pub extern "C" fn qmp_socket(domain: c_int, r#type: c_int, protocol: c_int) -> c_int {
    guard(-1, || {
        let flags = names::SOCK_NONBLOCK | names::SOCK_CLOEXEC;
        if !matches!(domain, libc::AF_INET | libc::AF_INET6) {
            return Err(Errno(libc::EAFNOSUPPORT));
        }
        if r#type & !flags != libc::SOCK_STREAM {
            return Err(Errno(libc::ESOCKTNOSUPPORT));
        }
        if !matches!(protocol, 0 | libc::IPPROTO_TCP) {
            return Err(Errno(libc::EPROTONOSUPPORT));
        }
        Ok(Socket::new(domain, r#type & names::SOCK_NONBLOCK == 0)?.publish())
    })
}

/// Gives a socket an address; port 0 picks one, which qmp_getsockname tells. Options of QMP's own cannot be set any more.
///
/// Returns 0, or -1: EADDRINUSE: somebody has the port; EADDRNOTAVAIL: not an address of this host; EAFNOSUPPORT: not one of
/// the socket's domain; EINVAL: the socket has an address, or `length` is too small; EACCES, EPERM: the right is missing;
/// EFAULT, EBADF, ENOTSOCK.
///
///     struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(4000)};
///     if (qmp_bind(fd, (struct sockaddr *)&here, sizeof here) != 0)
///         perror("qmp_bind");
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qmp_bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    guard(-1, || {
        let socket = descriptors::current().socket(fd)?;
        // SAFETY: C promises an address of this length.
        socket.bind(unsafe { read_address(address, length)? })?;
        Ok(0)
    })
}

/// Waits for others from now on. `backlog` is not looked at: how many may wait to be accepted is limited by memory. A socket
/// without an address gets one.
///
/// Returns 0, or -1: EADDRINUSE: somebody listens there; EINVAL: the socket is connected; EBADF, ENOTSOCK.
///
///     qmp_listen(fd, SOMAXCONN);
#[unsafe(no_mangle)]
pub extern "C" fn qmp_listen(fd: c_int, backlog: c_int) -> c_int {
    let _ = backlog;
    guard(-1, || {
        descriptors::current().socket(fd)?.listen()?;
        Ok(0)
    })
}

/// Takes the next that has come, and waits for it (SO_RCVTIMEO). `address` and `length` may be NULL; otherwise they are told
/// who it is. The new socket has the options of the listening one, but blocks.
///
/// Returns its number, or -1: EAGAIN: nobody is there, and the socket does not block, or the time is over; EINVAL: it does not
/// listen; EMFILE, ENFILE: no descriptors left, and who came is turned away; EFAULT, EBADF, ENOTSOCK.
///
///     int peer = qmp_accept(fd, NULL, NULL);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qmp_accept(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: the same promises.
    unsafe { qmp_accept4(fd, address, length, 0) }
}

/// qmp_accept with SOCK_NONBLOCK or SOCK_CLOEXEC or both in `flags`.
///
/// Returns as qmp_accept; EINVAL also for other flags.
///
///     int peer = qmp_accept4(fd, NULL, NULL, SOCK_NONBLOCK);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qmp_accept4(fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int {
    guard(-1, || {
        let socket = descriptors::current().socket(fd)?;
        if flags & !(names::SOCK_NONBLOCK | names::SOCK_CLOEXEC) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        if !address.is_null() && length.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        let (accepted, peer) = socket.accept(flags & names::SOCK_NONBLOCK == 0)?;
        if !address.is_null() {
            // SAFETY: C promises so much room.
            unsafe { write_address(peer, address, length)? };
        }
        Ok(accepted.publish())
    })
}

/// Connects to a listening socket, and waits for its answer (SO_SNDTIMEO). A socket that does not block returns EINPROGRESS
/// at once, and becomes writable when it is known how it went: SO_ERROR, or the next qmp_connect, tells. Data may be sent
/// before. When it has failed it may be tried again.
///
/// Returns 0, or -1: ECONNREFUSED: nobody listens there; ETIMEDOUT: nobody answers; EINPROGRESS: it goes on; EALREADY: it went
/// on already; EISCONN: the socket is connected, or listens; ENETUNREACH, EHOSTUNREACH: there is no way; EAFNOSUPPORT: not an
/// address of the socket's domain; EINVAL: `length` is too small; EFAULT, EBADF, ENOTSOCK.
///
///     if (qmp_connect(fd, (struct sockaddr *)&there, sizeof there) != 0 && errno != EINPROGRESS)
///         perror("qmp_connect");
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qmp_connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    guard(-1, || {
        let socket = descriptors::current().socket(fd)?;
        // SAFETY: C promises an address of this length.
        socket.connect(unsafe { read_address(address, length)? })?;
        Ok(0)
    })
}

/// Sends bytes: they are copied, and acknowledged later (qb_write of qbuf.h does not copy). Waits until all of them are taken;
/// a socket that does not block takes what there is room for, and so does MSG_DONTWAIT. SO_SNDTIMEO is how long it waits while
/// nothing is taken. MSG_NOSIGNAL: no SIGPIPE with EPIPE. MSG_MORE, MSG_DONTROUTE and MSG_CONFIRM do nothing.
///
/// Returns how many bytes were taken, or -1: EAGAIN: no room now; EPIPE: the stream has ended here, and SIGPIPE is raised;
/// ECONNRESET: the peer has ended it; ETIMEDOUT: the peer is gone; ECONNREFUSED: nobody listened; ENOTCONN; EOPNOTSUPP: another
/// flag; EINVAL: too long; EFAULT, EBADF, ENOTSOCK. An error of the connection is told once; after that, sending is EPIPE.
///
///     ssize_t sent = qmp_send(fd, data, size, MSG_NOSIGNAL);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qmp_send(fd: c_int, data: *const c_void, size: usize, flags: c_int) -> ssize_t {
    sending(flags, || {
        let call = Sending::new(fd, flags)?;
        let piece = vectors::piece(data, size)?;
        // SAFETY: C promises so many bytes, which nobody changes during the call.
        call.run(&[unsafe { vectors::bytes(piece) }])
    })
}

/// Receives what is there, and waits for the first byte (SO_RCVTIMEO), but not with MSG_DONTWAIT or if the socket does not
/// block. MSG_PEEK: it stays there. MSG_WAITALL: waits until `data` is full (without MSG_PEEK).
///
/// Returns how many bytes, 0 at the end of the stream, or -1: EAGAIN: nothing is there, or the time is over; ECONNRESET: the
/// peer has ended it in the middle; ETIMEDOUT: the peer is gone; ECONNREFUSED: nobody listened; ENOTCONN; EOPNOTSUPP: another
/// flag; EINVAL: too long; EFAULT, EBADF, ENOTSOCK. An error of the connection is told once; after that, the stream has ended.
///
///     while ((size = qmp_recv(fd, data, sizeof data, 0)) > 0)
///         take(data, (size_t)size);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qmp_recv(fd: c_int, data: *mut c_void, size: usize, flags: c_int) -> ssize_t {
    guard(-1, || {
        let call = Receiving::new(fd, flags)?;
        let piece = vectors::piece(data, size)?;
        // SAFETY: C promises so much room, which nobody else uses during the call.
        call.run(&mut [unsafe { vectors::room(piece) }])
    })
}

/// qmp_send of several buffers in a row. An address and control data have no meaning here.
///
/// Returns as qmp_send; EISCONN: there is an address; EMSGSIZE: more than 1024 buffers.
///
///     struct iovec parts[2] = {{&header, sizeof header}, {body, length}};
///     struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
///     ssize_t sent = qmp_sendmsg(fd, &message, 0);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qmp_sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    sending(flags, || {
        let call = Sending::new(fd, flags)?;
        // SAFETY: C promises a message, or NULL.
        let pieces = unsafe { vectors::pieces(message)? };
        // SAFETY: as above, and it is not NULL.
        if unsafe { !(*message).msg_name.is_null() && (*message).msg_namelen > 0 } {
            return Err(Errno(libc::EISCONN));
        }
        // SAFETY: C promises these bytes, which nobody changes during the call.
        let parts: Vec<&[u8]> = pieces.into_iter().map(|piece| unsafe { vectors::bytes(piece) }).collect();
        call.run(&parts)
    })
}

/// qmp_recv into several buffers in a row. `msg_namelen`, `msg_controllen` and `msg_flags` become 0.
///
/// Returns as qmp_recv; EMSGSIZE: more than 1024 buffers.
///
///     ssize_t size = qmp_recvmsg(fd, &message, MSG_WAITALL);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qmp_recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    guard(-1, || {
        let call = Receiving::new(fd, flags)?;
        // SAFETY: C promises a message, or NULL.
        let pieces = unsafe { vectors::pieces(message)? };
        // SAFETY: C promises this room, which nobody else uses during the call.
        let mut rooms: Vec<&mut [u8]> = pieces.into_iter().map(|piece| unsafe { vectors::room(piece) }).collect();
        let taken = call.run(&mut rooms)?;
        // SAFETY: as above, and it is not NULL.
        unsafe {
            (*message).msg_namelen = 0;
            (*message).msg_controllen = 0;
            (*message).msg_flags = 0;
        }
        Ok(taken)
    })
}

/// Ends one half of the connection, or both: SHUT_WR: the peer reads what was sent, and then the end of the stream; SHUT_RD:
/// what comes is read by nobody, and the peer is not told; SHUT_RDWR.
///
/// Returns 0, or -1: ENOTCONN; EINVAL: another `how`; EBADF, ENOTSOCK.
///
///     qmp_shutdown(fd, SHUT_WR);
#[unsafe(no_mangle)]
pub extern "C" fn qmp_shutdown(fd: c_int, how: c_int) -> c_int {
    guard(-1, || {
        descriptors::current().socket(fd)?.shut(how)?;
        Ok(0)
    })
}

/// Closes a socket. What was sent still arrives, in the background; what has come and was not read, or SO_LINGER with 0 seconds,
/// makes that a reset (the peer gets ECONNRESET); SO_LINGER with more seconds waits so long for everything to be acknowledged. A
/// process that exits waits at most 5 s for its closed sockets. A call of another thread that waits on this socket goes on
/// waiting, and the socket is open until it returns.
///
/// Returns 0, or -1: EBADF, ENOTSOCK: no socket.
///
///     qmp_close(fd);
#[unsafe(no_mangle)]
pub extern "C" fn qmp_close(fd: c_int) -> c_int {
    guard(-1, || {
        let table = descriptors::current();
        table.socket(fd)?;
        drop::<Descriptor>(table.remove(fd)?);
        Ok(0)
    })
}

/// Reads an option. Of SOL_SOCKET: SO_ERROR (what the connection has failed with, once), SO_TYPE, SO_DOMAIN, SO_PROTOCOL,
/// SO_ACCEPTCONN, SO_LINGER, SO_RCVTIMEO, SO_SNDTIMEO, SO_REUSEADDR, SO_REUSEPORT, SO_KEEPALIVE, SO_RCVBUF, SO_SNDBUF; of
/// IPPROTO_TCP: TCP_NODELAY (1), TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT; of SOL_QMP: all.
///
/// Returns 0, or -1: ENOPROTOOPT: no such option; EINVAL: `*length` is negative; EFAULT, EBADF, ENOTSOCK.
///
///     int why;
///     socklen_t length = sizeof why;
///     qmp_getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &length);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qmp_getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    guard(-1, || {
        let socket = descriptors::current().socket(fd)?;
        if value.is_null() || length.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        // SAFETY: C promises a length.
        let room = unsafe { length.read() };
        if room > socklen_t::MAX / 2 {
            return Err(Errno(libc::EINVAL));
        }
        let option = socket.option(level, name)?;
        let taken = option.len().min(room as usize);
        // SAFETY: C promises so much room at `value`.
        unsafe {
            std::ptr::copy_nonoverlapping(option.as_ptr(), value.cast::<u8>(), taken);
            length.write(taken as socklen_t);
        }
        Ok(0)
    })
}

/// Sets an option. Of SOL_SOCKET: SO_LINGER, SO_RCVTIMEO, SO_SNDTIMEO, SO_RCVBUF (QMP_WINDOW, and a wish once the socket is
/// bound), SO_KEEPALIVE; SO_REUSEADDR, SO_REUSEPORT and SO_SNDBUF are kept and do nothing; of IPPROTO_TCP: TCP_NODELAY, which
/// is so anyway, TCP_KEEPIDLE, TCP_KEEPINTVL and TCP_KEEPCNT (at which times of silence keep-alive gives the peer up with
/// ETIMEDOUT) and TCP_USER_TIMEOUT, all of them where that is earlier than QMP_PEER_TIMEOUT; of SOL_QMP: QMP_STATUS_EVERY, QMP_WINDOW, QMP_LINK, QMP_GO_BACK_N, QMP_PEER_TIMEOUT,
/// QMP_SAME_HOST, QMP_POOL.
///
/// Returns 0, or -1: ENOPROTOOPT: no such option, or it is only read; EINVAL: not a value of it, or `length` is too small;
/// EDOM: not a time; EISCONN: too late, the socket is bound or connected; EFAULT, EBADF (also: QMP_POOL is no number of
/// qb_open), ENOTSOCK.
///
///     int every = 4;
///     qmp_setsockopt(fd, SOL_QMP, QMP_STATUS_EVERY, &every, sizeof every);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qmp_setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    guard(-1, || {
        let socket = descriptors::current().socket(fd)?;
        if value.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        // SAFETY: C promises so many bytes; no option has more than a few.
        let value = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), (length as usize).min(64)) };
        socket.set_option(level, name, value)?;
        Ok(0)
    })
}

/// Where the socket is. `*length` is the room at `address`, and then how long the address is, also if it was cut.
///
/// Returns 0, or -1: EFAULT, EBADF, ENOTSOCK.
///
///     struct sockaddr_in here;
///     socklen_t length = sizeof here;
///     qmp_getsockname(fd, (struct sockaddr *)&here, &length);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qmp_getsockname(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    guard(-1, || {
        let socket = descriptors::current().socket(fd)?;
        // SAFETY: C promises a length, and so much room.
        unsafe { write_address(socket.local_addr(), address, length)? };
        Ok(0)
    })
}

/// Where the other end is; otherwise as qmp_getsockname.
///
/// Returns 0, or -1: ENOTCONN; EFAULT, EBADF, ENOTSOCK.
///
///     qmp_getpeername(fd, (struct sockaddr *)&there, &length);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qmp_getpeername(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    guard(-1, || {
        let socket = descriptors::current().socket(fd)?;
        let peer = socket.peer_addr()?;
        // SAFETY: C promises a length, and so much room.
        unsafe { write_address(peer, address, length)? };
        Ok(0)
    })
}

/// poll() for sockets of QMP and any other descriptors, mixed: POLLIN, POLLOUT, POLLRDHUP, POLLERR and POLLHUP are said as of
/// TCP's, and hold for the call that follows, also on sockets that block. Waits at most `timeout` milliseconds, or for ever if
/// that is negative.
///
/// Returns how many entries have something, 0 if the time is over, or -1: EINTR: a signal came; EFAULT: no entries; EINVAL: too
/// many; ENOMEM. A closed number is POLLNVAL.
///
///     struct pollfd entries[2] = {{fd, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
///     int ready = qmp_poll(entries, 2, -1);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qmp_poll(entries: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    guard(-1, || {
        let count = usize::try_from(count).ok().filter(|count| *count <= isize::MAX as usize / size_of::<pollfd>());
        let count = count.ok_or(Errno(libc::EINVAL))?;
        if entries.is_null() && count > 0 {
            return Err(Errno(libc::EFAULT));
        }
        // SAFETY: C promises so many entries.
        let entries = if count == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(entries, count) } };
        polling::poll(entries, timeout)
    })
}

/// fcntl() for a socket: F_GETFL and F_SETFL with O_NONBLOCK, and F_GETFD and F_SETFD. It has always three arguments.
///
/// Returns what fcntl() does, or -1: EINVAL: another command; EBADF, ENOTSOCK.
///
///     qmp_fcntl(fd, F_SETFL, O_NONBLOCK);
#[unsafe(no_mangle)]
pub extern "C" fn qmp_fcntl(fd: c_int, command: c_int, argument: c_int) -> c_int {
    guard(-1, || {
        let socket = descriptors::current().socket(fd)?;
        match command {
            libc::F_GETFL => Ok(libc::O_RDWR | if socket.is_blocking() { 0 } else { libc::O_NONBLOCK }),
            libc::F_SETFL => {
                socket.set_blocking(argument & libc::O_NONBLOCK == 0)?;
                Ok(0)
            }
            libc::F_GETFD | libc::F_SETFD => {
                let number: &Number = socket.number();
                // SAFETY: the number is open, or the call says that it is not; both commands take an integer.
                let result = unsafe { libc::fcntl(number.as_raw_fd(), command, argument) };
                let failed = || Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EBADF));
                if result < 0 { Err(failed()) } else { Ok(result) }
            }
            _ => Err(Errno(libc::EINVAL)),
        }
    })
}

/// ioctl() for a socket: FIONREAD: how many bytes can be read; FIONBIO: not 0: it does not block any more.
///
/// Returns 0, or -1: ENOTTY: another request; EINVAL: FIONREAD of a socket that listens; EFAULT, EBADF, ENOTSOCK.
///
///     int size;
///     qmp_ioctl(fd, FIONREAD, &size);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qmp_ioctl(fd: c_int, request: c_ulong, argument: *mut c_int) -> c_int {
    guard(-1, || {
        let socket = descriptors::current().socket(fd)?;
        if argument.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        if request == libc::FIONREAD as c_ulong {
            let readable = socket.readable_bytes()?;
            // SAFETY: C promises an integer.
            unsafe { argument.write(c_int::try_from(readable).unwrap_or(c_int::MAX)) };
        } else if request == libc::FIONBIO as c_ulong {
            // SAFETY: as above.
            socket.set_blocking(unsafe { argument.read() } == 0)?;
        } else {
            return Err(Errno(libc::ENOTTY));
        }
        Ok(0)
    })
}

/// Data on their way out of a call.
struct Sending {
    socket: Arc<Socket>,
    conversation: Arc<Conversation>,
    wait: Wait,
}

impl Sending {
    /// Buffers that are smaller together go in one piece.
    const GATHERED: usize = 64 << 10;

    fn new(fd: c_int, flags: c_int) -> Result<Self, Errno> {
        const KNOWN: c_int =
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | names::MSG_MORE | libc::MSG_DONTROUTE | names::MSG_CONFIRM;
        let socket = descriptors::current().socket(fd)?;
        let conversation = socket.conversation()?;
        if flags & !KNOWN != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let wait = socket.wait(flags & libc::MSG_DONTWAIT != 0);
        Ok(Self { socket, conversation, wait })
    }

    fn run(&self, parts: &[&[u8]]) -> Result<isize, Errno> {
        let wanted = parts.iter().map(|part| part.len()).sum::<usize>();
        let result = match parts {
            [part] => self.conversation.send(part, self.wait),
            _ if wanted <= Self::GATHERED => self.conversation.send(&parts.concat(), self.wait),
            _ => self.each(parts),
        };
        match result {
            Err(Errno(libc::EAGAIN)) if self.wait == Wait::No => self.lacks_room(),
            // The rest has found none.
            Ok(taken) if taken < wanted && self.wait == Wait::No => self.lacks_room(),
            Ok(1..) => self.conversation.had_room(),
            _ => {}
        }
        Ok(result?.cast_signed())
    }

    fn lacks_room(&self) {
        self.conversation.lacks_room(Lack::Copy);
        self.socket.settle();
    }

    fn each(&self, parts: &[&[u8]]) -> Result<usize, Errno> {
        let mut sent = 0;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            match self.conversation.send(part, self.wait) {
                Ok(taken) => {
                    sent += taken;
                    if taken < part.len() {
                        break;
                    }
                }
                Err(error) if sent > 0 => {
                    self.conversation.keep_for_later(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }
}

/// The body of a call that sends: who sends into a stream that has ended gets SIGPIPE, unless he has said otherwise.
fn sending(flags: c_int, body: impl FnOnce() -> Result<isize, Errno>) -> isize {
    guard(-1, || {
        let result = body();
        if result == Err(Errno(libc::EPIPE)) && flags & libc::MSG_NOSIGNAL == 0 {
            // SAFETY: it is what the system does for any socket; the signal is this thread's.
            unsafe { libc::raise(libc::SIGPIPE) };
        }
        result
    })
}

/// Room for data on their way into a call.
struct Receiving {
    socket: Arc<Socket>,
    conversation: Arc<Conversation>,
    wait: Wait,
    peek: bool,
    all: bool,
}

impl Receiving {
    fn new(fd: c_int, flags: c_int) -> Result<Self, Errno> {
        const KNOWN: c_int =
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_PEEK | libc::MSG_WAITALL | names::MSG_CMSG_CLOEXEC;
        let socket = descriptors::current().socket(fd)?;
        let conversation = socket.conversation()?;
        if flags & !KNOWN != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let wait = socket.wait(flags & libc::MSG_DONTWAIT != 0);
        let peek = flags & libc::MSG_PEEK != 0;
        let all = flags & libc::MSG_WAITALL != 0 && !peek && wait == Wait::Block;
        Ok(Self { socket, conversation, wait, peek, all })
    }

    fn run(&self, rooms: &mut [&mut [u8]]) -> Result<isize, Errno> {
        let result = match rooms {
            _ if rooms.iter().all(|room| room.is_empty()) => Ok(0),
            _ if self.peek => self.peek(rooms),
            _ => self.fill(rooms),
        };
        if !self.conversation.is_readable() {
            self.socket.settle();
        }
        Ok(result?.cast_signed())
    }

    /// Looks at bytes for all buffers in one look, or the first would be seen again.
    fn peek(&self, rooms: &mut [&mut [u8]]) -> Result<usize, Errno> {
        if let [room] = rooms {
            return self.conversation.receive(room, self.wait, true);
        }
        // No more than this is ever there.
        let wanted = rooms.iter().map(|room| room.len()).sum::<usize>();
        let mut seen = vec![0; wanted.min(self.conversation.stream.readable_bytes().max(64 << 10))];
        let len = self.conversation.receive(&mut seen, self.wait, true)?;
        let mut left = &seen[..len];
        for room in rooms {
            let (now, rest) = left.split_at(left.len().min(room.len()));
            room[..now.len()].copy_from_slice(now);
            left = rest;
        }
        Ok(len)
    }

    fn fill(&self, rooms: &mut [&mut [u8]]) -> Result<usize, Errno> {
        let mut taken = 0;
        for room in rooms {
            let mut at = 0;
            while at < room.len() {
                let wait = if taken == 0 || self.all { self.wait } else { Wait::No };
                match self.conversation.receive(&mut room[at..], wait, false) {
                    Ok(0) => return Ok(taken),
                    Ok(more) => {
                        at += more;
                        taken += more;
                    }
                    Err(error) if taken > 0 => {
                        self.conversation.keep_for_later(error);
                        return Ok(taken);
                    }
                    Err(error) => return Err(error),
                }
                if !self.all && at < room.len() {
                    return Ok(taken);
                }
            }
        }
        Ok(taken)
    }
}

/// # Safety
/// There is an address of this length, or a null pointer.
unsafe fn read_address(at: *const sockaddr, length: socklen_t) -> Result<SocketAddr, Errno> {
    if at.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    let invalid = Errno(libc::EINVAL);
    let length = length as usize;
    if length < size_of::<libc::sa_family_t>() {
        return Err(invalid);
    }
    // SAFETY: all zero is a valid address of no family.
    let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
    let taken = length.min(size_of::<sockaddr_storage>());
    // SAFETY: both have so many bytes.
    unsafe { std::ptr::copy_nonoverlapping(at.cast::<u8>(), (&raw mut storage).cast::<u8>(), taken) };
    let needed = match c_int::from(storage.ss_family) {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => return Err(Errno(libc::EAFNOSUPPORT)),
    };
    if length < needed {
        return Err(invalid);
    }
    address::of_storage(&storage)?.ok_or(Errno(libc::EAFNOSUPPORT))
}

/// # Safety
/// `length` is null or a number, and `at` has room for so many bytes, or is null.
unsafe fn write_address(address: SocketAddr, at: *mut sockaddr, length: *mut socklen_t) -> Result<(), Errno> {
    if at.is_null() || length.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    let (storage, needed) = address::to_storage(address);
    // SAFETY: the caller's promises; the storage has the bytes that it says.
    unsafe {
        let room = length.read().min(needed) as usize;
        std::ptr::copy_nonoverlapping((&raw const storage).cast::<u8>(), at.cast::<u8>(), room);
        length.write(needed);
    }
    Ok(())
}
