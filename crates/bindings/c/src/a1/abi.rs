//! What C sees of A1. The comments here are the header's.
#![allow(non_camel_case_types, reason = "the names are the specification's")]
#![allow(clippy::missing_safety_doc, reason = "the comments are written for C, where nothing is safe")]

use super::socket::{Socket, Sockets};
use super::{receiving, records};
use crate::errors::{Errno, negative};
use crate::kept::Kept;
use libc::{c_int, c_void, sockaddr_in6, ssize_t};
use pinnace::a1::Status;
use std::ptr::NonNull;
use std::time::Duration;

/// The bits of `flags`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum a1_flags {
    /// Do not wait: -EAGAIN instead.
    A1_DONTWAIT = 1,
}

/// The bits of `*status`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum a1_status {
    /// A message starts with these bytes.
    A1_START = 1,
    /// A message ends with these bytes.
    A1_END = 2,
    /// The peer has closed the connection (of several sinks: one of them).
    A1_PEER_CLOSED = 4,
    /// The connection was aborted: by the peer, or because it does not answer (of several sinks: one of them).
    A1_ABORTED = 8,
    /// As many messages as agreed are under way, and there is no room for another.
    A1_WINDOW_FULL = 16,
    /// More is queued than the rate lets leave now.
    A1_RATE_EXCEEDED = 32,
    /// A change of the quality of service is under way: the smaller of old and new holds.
    A1_QOS_PENDING = 64,
    /// The quality of service has changed. Told once.
    A1_QOS_CHANGED = 128,
    /// Without retransmission: data were lost before these bytes, or since the last ones.
    A1_LOST = 256,
}

/// The bits of `options` of a record.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum a1_options {
    /// Datagrams have checksums of their own; without, those of UDP have to do.
    A1_CHECKSUM = 1,
    /// Reliable: what is lost is sent again. Without, raw: it is told (A1_LOST).
    A1_RETRANSMISSION = 2,
}

/// A record of quality of service: what one end of a connection does and bears. Checksum and retransmission must be the same at
/// both ends, and neither may send larger messages than the other receives (-ECONNREFUSED). Set all of it, or `= {0}` first.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct a1_qos {
    /// A1_CHECKSUM, A1_RETRANSMISSION, both, or 0; other bits are -EINVAL.
    pub options: u16,
    /// Which connection of a socket sends first, of its sinks' and of those that it has accepted: 0 is the most urgent, 255 the
    /// least. It shows where a1_set_link has said what the link carries.
    pub priority: u8,
    /// 0, or -EINVAL.
    pub reserved: u8,
    /// Bytes of a block, what a datagram carries: 1 to 65475. 0: as large as the path carries in one piece; where a connection
    /// exists, or its maximum is known, what they have. The smaller of both ends' is in force.
    pub block_size: u32,
    /// Bytes per second that are sent, in the long run. 0: no limit.
    pub send_average: u64,
    /// Bytes that may be sent at once beyond that; at least a block.
    pub send_burst: u32,
    /// Bytes per second that may be received, in the long run. 0: no limit.
    pub receive_average: u64,
    /// Bytes that may be received at once beyond that.
    pub receive_burst: u32,
    /// Bytes of the largest message that is sent; longer ones are -EMSGSIZE.
    pub largest_sent: u32,
    /// Bytes of the largest message that is received.
    pub largest_received: u32,
    /// How many messages of the largest size may be under way and not consumed, each way. That, in blocks, is the window.
    pub outstanding: u32,
    /// Microseconds after which what has not left of a message is dropped. 0: never. With A1_RETRANSMISSION nothing is.
    pub deadline_us: u32,
}

/// A received message, where it arrived. It is yours until you free it: move `data` and `len` as you like, between `base` and
/// `base + size`, and pass it on; whoever is last calls `free_fn`.
#[repr(C)]
#[derive(Debug)]
pub struct a1_buffer {
    /// The memory, or NULL if there is none (of an empty message).
    pub base: *mut c_void,
    /// Its bytes.
    pub size: usize,
    /// The message.
    pub data: *mut c_void,
    /// Its bytes.
    pub len: usize,
    /// What frees it: a1_free_buffer.
    pub free_fn: Option<unsafe extern "C" fn(buffer: *mut a1_buffer)>,
}

fn sockets() -> &'static Sockets {
    Sockets::current()
}

fn pointer<T>(at: *const T) -> Result<NonNull<T>, Errno> {
    NonNull::new(at.cast_mut()).ok_or(Errno(libc::EFAULT))
}

/// Whether a call waits.
fn waits(flags: c_int) -> Result<bool, Errno> {
    match flags {
        0 => Ok(true),
        _ if flags == a1_flags::A1_DONTWAIT as c_int => Ok(false),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// Where a status is told, if it is wanted.
struct Told(Option<NonNull<u32>>);

impl Told {
    /// # Safety
    /// `status` is null, or may be written.
    unsafe fn at(status: *mut u32) -> Self {
        let told = Self(NonNull::new(status));
        told.tell(|| Status::NONE);
        told
    }

    fn tell(&self, status: impl FnOnce() -> Status) {
        if let Some(at) = self.0 {
            // SAFETY: C has promised that it may be written.
            unsafe { at.write(status().bits()) };
        }
    }

    /// Tells what is known when a call has failed.
    fn after<R>(&self, socket: &Socket, result: Result<R, Errno>) -> Result<R, Errno> {
        if let Err(Errno(why)) = result {
            self.tell(|| {
                let is_reset = matches!(why, libc::ECONNRESET | libc::ECONNABORTED | libc::ECONNREFUSED | libc::EPROTO);
                socket.status().with_if(is_reset, Status::ABORTED)
            });
        }
        result
    }
}

/// # Safety
/// `record` is null, or a record.
unsafe fn read_qos(record: *const a1_qos) -> Result<pinnace::a1::Qos, Errno> {
    // SAFETY: the same promise.
    records::of_c(unsafe { pointer(record)?.as_ref() })
}

/// Makes a socket, which is nothing yet: a1_bind makes something of it.
///
/// Returns its number, which is none of a descriptor, or -EMFILE: two thousand million were made.
///
///     int s = a1_socket();
#[unsafe(no_mangle)]
pub extern "C" fn a1_socket() -> c_int {
    negative(|| sockets().insert(Socket::default()))
}

/// Binds a socket to an address of this host. `addr` is the host, an IPv4 address or one of a1_map_host, shifted left by 32, and the
/// UDP port. Host 0: all addresses of this host, IPv6 and IPv4; port 0: one is chosen, which a1_name tells. No connection of
/// the socket will have more than `max` says.
///
/// Returns 0, or -EADDRINUSE: somebody has the port; -EADDRNOTAVAIL: not an address of this host; -EACCES: the right is
/// missing; -EINVAL: the socket is bound or was accepted, the port is above 65535, or `max` is impossible: options or reserved
/// that mean nothing, a block size above 65475, or a window of 2^20 blocks or more; -EFAULT: `max` is NULL; -EBADF.
///
///     struct a1_qos max = {.options = A1_CHECKSUM | A1_RETRANSMISSION, .largest_sent = 65536, .largest_received = 65536,
///                          .outstanding = 16};
///     a1_bind(s, (uint64_t)INADDR_LOOPBACK << 32 | 4000, &max);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn a1_bind(s: c_int, addr: u64, max: *const a1_qos) -> c_int {
    negative(|| {
        let socket = sockets().find(s)?;
        // SAFETY: C promises a record, or NULL.
        socket.bind(addr, unsafe { read_qos(max)? })?;
        Ok(0)
    })
}

/// Says what the link carries: all connections of the socket together, those that it accepts too, send no faster than `average`
/// bytes of datagrams a second (0: no limit) and `burst` bytes at once. Before a1_bind. Where that is the bottleneck, connections
/// of a lower priority wait for those of a higher one; without it nobody waits.
///
/// Returns 0, or -EINVAL: the socket is bound or was accepted; -EBADF.
///
///     a1_set_link(s, 2500000, 6000);
#[unsafe(no_mangle)]
pub extern "C" fn a1_set_link(s: c_int, average: u64, burst: u32) -> c_int {
    negative(|| {
        sockets().find(s)?.set_link(average, burst)?;
        Ok(0)
    })
}

/// Tells the address of a socket. Its host is 0 if it is bound to all, or to one of IPv6 that a1_map_host has not named.
///
/// Returns 0, or -EINVAL: it is not bound; -EFAULT: `addr` is NULL; -EBADF.
///
///     uint64_t here;
///     if (a1_name(s, &here) == 0)
///         printf("port %u\n", (unsigned)here);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn a1_name(s: c_int, addr: *mut u64) -> c_int {
    negative(|| {
        let name = sockets().find(s)?.name()?;
        // SAFETY: C promises that it may be written.
        unsafe { pointer(addr)?.write(name) };
        Ok(0)
    })
}

/// Lets others add this socket as a sink. At most `backlog` of them (at least one) wait for a1_accept; those beyond are refused.
///
/// Returns 0, or -EADDRINUSE: it listens already; -EINVAL: it is not bound, or was accepted; -EBADF.
///
///     a1_listen(s, 16);
#[unsafe(no_mangle)]
pub extern "C" fn a1_listen(s: c_int, backlog: c_int) -> c_int {
    negative(|| {
        sockets().find(s)?.listen(backlog)?;
        Ok(0)
    })
}

/// Takes the next that has come, and waits for it, but not with A1_DONTWAIT. `peer` is told its address (host 0: an IPv6 host that
/// a1_map_host has not named), `status` what is known of it; both may be NULL. The new socket sends to that peer, and receives
/// from it; a1_close it. It goes on when the listening one is closed.
///
/// Returns its number, or -EAGAIN: nobody is there; -EINVAL: the socket does not listen, or another thread has closed it
/// meanwhile, or other flags; -EMFILE; -EBADF.
///
///     uint64_t peer;
///     int c = a1_accept(s, &peer, 0, NULL);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn a1_accept(s: c_int, peer: *mut u64, flags: c_int, status: *mut u32) -> c_int {
    negative(|| {
        // SAFETY: C promises that it may be written, or NULL.
        let told = unsafe { Told::at(status) };
        let (accepted, address) = sockets().find(s)?.accept(waits(flags)?)?;
        told.tell(|| accepted.status());
        let number = sockets().insert(accepted)?;
        if let Some(peer) = NonNull::new(peer) {
            // SAFETY: C promises that it may be written.
            unsafe { peer.write(address) };
        }
        Ok(number)
    })
}

/// Adds a destination of what a1_send sends from now on; the first one opens, each further one gets the same messages. Waits until
/// the listener at `addr` has accepted or refused. `initial`, within the socket's maximum, is this end's record. Each sink
/// has a connection of its own, and what it sends is received with a1_recv. `status` may be NULL.
///
/// Returns 0, or -ECONNREFUSED: nobody listens there, or with too different a quality of service, or without room;
/// -ETIMEDOUT: nobody has answered for 128 s; -EPERM: beyond the maximum; -EEXIST: it is a sink already (one that has died is replaced);
/// -EHOSTUNREACH: a host of 240.0.0.0/4 that a1_map_host does not know; -EINVAL: the socket is not bound, or was accepted, host
/// or port are 0, the port is above 65535, or the record is impossible; -ENOBUFS: too many connections; -EFAULT: `initial` is
/// NULL; -EBADF.
///
///     if (a1_add_sink(s, (uint64_t)INADDR_LOOPBACK << 32 | 4000, &max, NULL) == -ECONNREFUSED)
///         fputs("nobody listens\n", stderr);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn a1_add_sink(s: c_int, addr: u64, initial: *const a1_qos, status: *mut u32) -> c_int {
    negative(|| {
        // SAFETY: C promises that it may be written, or NULL.
        let told = unsafe { Told::at(status) };
        let socket = sockets().find(s)?;
        // SAFETY: C promises a record, or NULL.
        let initial = unsafe { read_qos(initial)? };
        let added = socket.add_sink(addr, initial);
        let now = told.after(&socket, added)?;
        told.tell(|| now);
        Ok(0)
    })
}

/// Ends a destination. It has 5 s to get what is queued, in the background, and gets nothing that is sent from now on.
///
/// Returns 0, or -ENOENT: no sink has this address; -EINVAL, -EHOSTUNREACH: as a1_add_sink; -EBADF.
///
///     a1_remove_sink(s, (uint64_t)INADDR_LOOPBACK << 32 | 4000);
#[unsafe(no_mangle)]
pub extern "C" fn a1_remove_sink(s: c_int, addr: u64) -> c_int {
    negative(|| {
        sockets().find(s)?.remove_sink(addr)?;
        Ok(0)
    })
}

/// Sends one message: of a socket with sinks, to all of them; of one that was accepted, to its peer. It is copied, and
/// goes on by itself. If the window is full, waits until there is room; with A1_DONTWAIT that is -EAGAIN, and `status` says why:
/// A1_WINDOW_FULL, A1_RATE_EXCEEDED, or both. A sink that dies does not stop the others; A1_PEER_CLOSED and A1_ABORTED tell that one
/// has ended, until it is removed. `status` may be NULL.
///
/// Returns `len`, or -EAGAIN; -EMSGSIZE: longer than the largest message, or more than 65535 blocks; -ENOMEM: there is no
/// memory for the copy; -ENOTCONN: there is no sink, or another thread has closed the socket meanwhile; -EPIPE: the peer (or the
/// last sink) has closed; -ECONNRESET, -ETIMEDOUT, -ECONNABORTED: it was aborted; -EINVAL: other flags; -EFAULT: `buf` is NULL, and
/// `len` not 0; -EBADF.
///
///     uint32_t status;
///     if (a1_send(s, data, size, A1_DONTWAIT, &status) == -EAGAIN && (status & A1_WINDOW_FULL))
///         skip(data);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn a1_send(s: c_int, buf: *const c_void, len: usize, flags: c_int, status: *mut u32) -> ssize_t {
    negative(|| {
        // SAFETY: C promises that it may be written, or NULL.
        let told = unsafe { Told::at(status) };
        let socket = sockets().find(s)?;
        let waits = waits(flags)?;
        let bytes = match len {
            0 => &[][..],
            _ if len > isize::MAX as usize => return Err(Errno(libc::EMSGSIZE)),
            // SAFETY: C promises so many bytes, which nobody changes during the call.
            _ => unsafe { std::slice::from_raw_parts(pointer(buf.cast::<u8>())?.as_ptr(), len) },
        };
        match socket.send(bytes, waits) {
            Ok(()) => {
                told.tell(|| socket.status());
                Ok(len as isize)
            }
            Err(Errno(libc::EAGAIN)) => {
                told.tell(|| {
                    let status = socket.status();
                    // Room that has come since is for the next call.
                    status.with_if(!status.contains(Status::RATE_EXCEEDED), Status::WINDOW_FULL)
                });
                Err(Errno(libc::EAGAIN))
            }
            Err(error) => told.after(&socket, Err(error)),
        }
    })
}

/// Receives bytes of one message, and waits for it, but not with A1_DONTWAIT: the whole message if there is room for it, otherwise
/// as much as there is room for, and the rest with the next calls. A1_START comes with its first bytes, A1_END with its last. Without
/// retransmission less may come, without A1_END, where something was lost; A1_LOST comes with what stands behind. Of several sinks,
/// one message after the other, in turn. `status` may be NULL, but only it tells an empty message from the end.
///
/// Returns how many bytes; 0 with A1_PEER_CLOSED and without A1_START: the peer has closed (all sinks have), and everything was
/// read; or -EAGAIN: nothing is there, or not all of what would fill `buf`; -ECONNRESET: the peer has aborted, or closed before
/// everything had come; -ETIMEDOUT: it does not answer any more; -EPROTO: it broke the protocol; -ECONNABORTED: the connection was
/// ended here; -ENOTCONN: there is no sink; -EINVAL: `len` is 0 or too large, or other flags; -EFAULT: `buf` is NULL; -EBADF.
///
///     uint32_t status;
///     ssize_t size = a1_recv(c, data, sizeof data, 0, &status);
///     if (size == 0 && !(status & A1_START))
///         puts("closed");
///     else if (size >= 0 && (status & A1_END))
///         take(data, (size_t)size);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn a1_recv(s: c_int, buf: *mut c_void, len: usize, flags: c_int, status: *mut u32) -> ssize_t {
    negative(|| {
        // SAFETY: C promises that it may be written, or NULL.
        let told = unsafe { Told::at(status) };
        let socket = sockets().find(s)?;
        let waits = waits(flags)?;
        if len == 0 || len > isize::MAX as usize {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: C promises so many bytes, which nobody else uses during the call.
        let into = unsafe { std::slice::from_raw_parts_mut(pointer(buf.cast::<u8>())?.as_ptr(), len) };
        let received = socket.receive(into, waits);
        let taken = told.after(&socket, received)?;
        told.tell(|| receiving_status(&taken, &socket));
        Ok(taken.len as isize)
    })
}

/// As `taken` says; at the end also what was lost since the last bytes.
fn receiving_status(taken: &receiving::Taken, socket: &Socket) -> Status {
    let is_end = taken.status.contains(Status::PEER_CLOSED);
    if is_end { taken.told() | socket.status() } else { taken.told() }
}

/// Receives a message without copying it, in the memory that it arrived in, and waits for it, but not with A1_DONTWAIT. `*out` is
/// yours until you free it, also after the socket was closed; it is NULL if there is none. Without retransmission it may be
/// a part, which `status` tells, and after a1_recv with too little room it is the rest.
///
/// Returns its bytes, or as a1_recv; -EFAULT: `out` is NULL.
///
///     struct a1_buffer *b;
///     ssize_t size = a1_recv_buffer(c, &b, 0, &status);
///     if (b != NULL) {
///         take(b->data, b->len);
///         b->free_fn(b);
///     }
#[unsafe(no_mangle)]
pub unsafe extern "C" fn a1_recv_buffer(s: c_int, out: *mut *mut a1_buffer, flags: c_int, status: *mut u32) -> ssize_t {
    negative(|| {
        // SAFETY: C promises that it may be written, or NULL.
        let told = unsafe { Told::at(status) };
        let out = pointer(out)?;
        // SAFETY: C promises that it may be written.
        unsafe { out.write(std::ptr::null_mut()) };
        let socket = sockets().find(s)?;
        let waits = waits(flags)?;
        let message = socket.take(waits);
        let Some(message) = told.after(&socket, message)? else {
            told.tell(|| Status::PEER_CLOSED | socket.status());
            return Ok(0);
        };
        told.tell(|| message.told());
        let recycler = message.recycler();
        let len = message.memory.len() - message.from;
        let buffer = sockets().buffers.give(message.memory, message.from, recycler);
        // SAFETY: as above.
        unsafe { out.write(buffer) };
        Ok(len as isize)
    })
}

/// Frees a buffer of a1_recv_buffer: its memory is used again. NULL, one that is free already, and what is none are nothing.
///
///     a1_free_buffer(b);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn a1_free_buffer(buffer: *mut a1_buffer) {
    // Nothing is returned, and `errno` is not ours.
    let _: c_int = negative(|| {
        sockets().buffers.free(buffer);
        Ok(0)
    });
}

/// Changes this end's record of quality of service, of a socket with sinks for all of them, and does not wait: A1_QOS_PENDING
/// until the peer has accepted it, perhaps with lower rates, and A1_QOS_CHANGED once then. Nothing is lost or reordered. Block
/// size, checksum and retransmission cannot change (block size 0: as it is). `status` may be NULL.
///
/// Returns 0, or -EPERM: beyond the maximum, or in what cannot change: a new connection is needed; -ENOTCONN: there is no sink;
/// -EPIPE, -ECONNRESET, -ETIMEDOUT: the connection has ended; -EINVAL: the record is impossible; -EFAULT: it is NULL; -EBADF.
///
///     struct a1_qos qos;
///     a1_getqos(s, &qos);
///     qos.send_average = 1000000;
///     a1_setqos(s, &qos, NULL);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn a1_setqos(s: c_int, qos: *const a1_qos, status: *mut u32) -> c_int {
    negative(|| {
        // SAFETY: C promises that it may be written, or NULL.
        let told = unsafe { Told::at(status) };
        let socket = sockets().find(s)?;
        // SAFETY: C promises a record, or NULL.
        let set = socket.set_qos(unsafe { read_qos(qos)? });
        told.after(&socket, set)?;
        told.tell(|| socket.status());
        Ok(0)
    })
}

/// Tells this end's record as it is in force: of several sinks, of the first that lives; of a socket without sinks, its
/// maximum, with the block size that was chosen.
///
/// Returns 0, or -EINVAL: the socket is not bound; -EPIPE: nothing is known any more; -EFAULT: `qos` is NULL; -EBADF.
///
///     struct a1_qos qos;
///     a1_getqos(s, &qos);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn a1_getqos(s: c_int, qos: *mut a1_qos) -> c_int {
    negative(|| {
        let record = records::to_c(&sockets().find(s)?.qos()?);
        // SAFETY: C promises that it may be written.
        unsafe { pointer(qos)?.write(record) };
        Ok(0)
    })
}

/// Tells the round trip, smoothed, in microseconds: of several sinks, the longest. It is measured at the beginning, and every 100
/// ms while something is sent.
///
/// Returns 0, or -EAGAIN: it has not been measured yet; -ENOTCONN: there is no sink; -EFAULT: `microseconds` is NULL; -EBADF.
///
///     uint32_t microseconds;
///     if (a1_rtt(s, &microseconds) == 0)
///         printf("%u us\n", (unsigned)microseconds);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn a1_rtt(s: c_int, microseconds: *mut u32) -> c_int {
    negative(|| {
        let found = sockets().find(s)?.round_trip()?;
        let found = u32::try_from(found.as_micros()).unwrap_or(u32::MAX);
        // SAFETY: C promises that it may be written.
        unsafe { pointer(microseconds)?.write(found) };
        Ok(0)
    })
}

/// Lets `host`, one of 240.0.0.0/4, stand for an IPv6 host in this process from now on; the port of `to` does not count. There is one
/// table, for all sockets.
///
/// Returns 0, or -EINVAL: the host is not one of 240.0.0.0/4; -EAFNOSUPPORT: `to` is not AF_INET6; -EFAULT: it is NULL.
///
///     struct sockaddr_in6 to = {.sin6_family = AF_INET6};
///     inet_pton(AF_INET6, "2001:db8::1", &to.sin6_addr);
///     a1_map_host(0xF0000001, &to);
///     a1_add_sink(s, (uint64_t)0xF0000001 << 32 | 4000, &qos, NULL);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn a1_map_host(host: u32, to: *const sockaddr_in6) -> c_int {
    negative(|| {
        // SAFETY: C promises an address, or NULL.
        records::map(host, unsafe { pointer(to)?.as_ref() })?;
        Ok(0)
    })
}

/// Closes a socket: what was sent has `linger_ms` milliseconds to arrive (without retransmission: to leave), which is waited for;
/// then the peer, or all sinks, are told. The number is good for nothing from then on, whatever is returned. Connections that
/// were accepted go on, and keep the port. A process that exits closes what is open, and waits at most 5 s.
///
/// Returns 0, or -ETIMEDOUT: something did not arrive in time; -ECONNRESET, -ECONNABORTED, -EPROTO: the connection had ended
/// otherwise (a sink that had died before does not count); -EBADF: no socket, or closed already.
///
///     a1_close(s, 5000);
#[unsafe(no_mangle)]
pub extern "C" fn a1_close(s: c_int, linger_ms: u32) -> c_int {
    negative(|| {
        sockets().remove(s)?.close(Duration::from_millis(linger_ms.into()))?;
        Ok(0)
    })
}

/// For a loop of your own: a descriptor that is readable (POLLIN) when a1_recv or a1_accept would not wait, and also when
/// something else has happened: there is room again, the quality of service has changed, some but not all of a message has come.
/// So: wait, call with A1_DONTWAIT until -EAGAIN, and wait again. It is to be polled and nothing else, and valid until
/// a1_close.
///
/// Returns it, or -EMFILE, -ENFILE: there are no descriptors left; -EBADF.
///
///     struct pollfd entry = {.fd = a1_fd(c), .events = POLLIN};
///     poll(&entry, 1, -1);
#[unsafe(no_mangle)]
pub extern "C" fn a1_fd(s: c_int) -> c_int {
    negative(|| sockets().find(s)?.descriptor())
}
