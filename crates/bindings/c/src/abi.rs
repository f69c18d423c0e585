//! What C sees. `include/zcrp.h` is generated from this file: the comments here are its comments.
//!
//! Every function only finds out whom it concerns, and catches what goes wrong.
#![allow(non_camel_case_types, reason = "the names are C's")]
#![allow(clippy::missing_safety_doc, reason = "the comments are written for C, where nothing is safe")]
#![allow(missing_debug_implementations, reason = "opaque to C, and nobody else sees them")]

use crate::errors::{Errno, guard};
use crate::message::Block;
use crate::process::{self, Half, Process, Role};
use crate::settings::{self, Unset};
use libc::{c_char, c_int, c_long, c_uchar, c_void};
use pinnace::zcrp::{Receiver, Sender};
use std::ffi::CStr;
use std::sync::Arc;

/// A byte; also a truth value, 1 or 0.
pub type nbyte = c_uchar;

/// A size or a number.
pub type nlong = u32;

/// A message: a buffer, and what became of it.
///
/// Made by zcrp_alloc_msg, never by hand, and never copied. Between zcrp_send or zcrp_rcv and the end (zcrp_wait has
/// returned, or zcrp_probe said 1) the message is under way: do not write to its buffer then, nor read it if it is being
/// received into.
#[repr(C)]
pub struct zcrp_msg {
    /// The bytes. Yours to fill and to read while the message is not under way.
    pub buffer: *mut nbyte,
    /// Set by zcrp_send and zcrp_rcv: the n-th message sent goes into the n-th received, counting from 0.
    pub number: nlong,
    /// The size that was asked of zcrp_alloc_msg; after a receive, the size that was received.
    pub message_size: nlong,
    /// Bytes behind `buffer`: more than the message may have, for the protocol's trailer.
    pub buffer_size: nlong,
    /// The library's own.
    pub private_: [*mut c_void; 4],
}

/// A sender of its own: for programs that need more than the one of zcrp_send_init.
pub struct zcrp_sender {
    process: &'static Process,
    role: Arc<Role<Sender>>,
}

/// See zcrp_sender_open.
pub type zcrp_sender_t = zcrp_sender;

/// A receiver of its own: for programs that need more than the one of zcrp_rcv_init.
pub struct zcrp_receiver {
    process: &'static Process,
    role: Arc<Role<Receiver>>,
}

/// See zcrp_receiver_open.
pub type zcrp_receiver_t = zcrp_receiver;

/// Allocates a message of `size` bytes, all zero. It can be used again and again, for sending and receiving anything that
/// is no longer than that; `size` may be 0.
///
/// Returns NULL if there is no memory.
#[unsafe(no_mangle)]
pub extern "C" fn zcrp_alloc_msg(size: nlong) -> *mut zcrp_msg {
    guard(std::ptr::null_mut(), || Block::allocate(size).ok_or(Errno(libc::ENOMEM)))
}

/// Frees a message. One that is under way goes on, and its memory is kept until it ends; nobody can wait for it any more.
/// NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_free_msg(message: *mut zcrp_msg) {
    if !message.is_null() {
        // SAFETY: C promises a message, which it uses no more.
        guard((), || unsafe { Block::free(message) });
    }
}

/// Makes this process a sender. Two descriptors of connected datagram sockets (UDP, or AF_UNIX): `file_descriptors[0]` is
/// the control channel, which the sender reads; `file_descriptors[1]` is the unit channel, which it writes. The same
/// descriptor twice is one duplex channel.
///
/// The sockets stay yours: their flags and options are not changed, and you close them, whenever you like, since the
/// library uses duplicates. Do not read or write them yourself meanwhile.
///
/// Returns 1, or 0 if the process is a sender already (EALREADY), if a descriptor is none of a connected datagram socket
/// (EBADF, ENOTSOCK, EINVAL), or if another sender or receiver reads the same socket and cannot share it (EBUSY).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_send_init(file_descriptors: *mut c_int) -> nbyte {
    // SAFETY: C promises two descriptors.
    guard(0, || process::current().init::<Sender>(unsafe { pair(file_descriptors)? }).map(|()| 1))
}

/// Makes this process a receiver, which reads units from `file_descriptors[1]` and writes to the control channel,
/// `file_descriptors[0]`. Otherwise as zcrp_send_init. A process may be both, also on one duplex channel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_rcv_init(file_descriptors: *mut c_int) -> nbyte {
    // SAFETY: C promises two descriptors.
    guard(0, || process::current().init::<Receiver>(unsafe { pair(file_descriptors)? }).map(|()| 1))
}

/// Begins to send the first `size` bytes of a message, and returns at once. They travel when the receiver has called
/// zcrp_rcv as often. Many messages may be under way.
///
/// Returns 1, or 0 without taking a number: if `size` is more than the message was allocated for (EMSGSIZE), if the
/// message is under way (EBUSY), before zcrp_send_init and after zcrp_send_close (ENOTCONN), or if the peer has
/// disappeared (ETIMEDOUT).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_send(message: *mut zcrp_msg, size: nlong) -> nbyte {
    // SAFETY: C promises a message.
    guard(0, || unsafe { begin_standing::<Sender>(message, size) })
}

/// Begins to receive at most `size` bytes into a message, and returns at once. Bytes of the buffer beyond `size` are not
/// touched. Returns as zcrp_send does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_rcv(message: *mut zcrp_msg, size: nlong) -> nbyte {
    // SAFETY: C promises a message.
    guard(0, || unsafe { begin_standing::<Receiver>(message, size) })
}

/// Another name of zcrp_rcv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_recv(message: *mut zcrp_msg, size: nlong) -> nbyte {
    // SAFETY: C promises a message.
    guard(0, || unsafe { begin_standing::<Receiver>(message, size) })
}

/// Waits until a message is acknowledged in full, if it is being sent, or is here in full, if it is being received; the
/// thread that waits does the protocol's work. Several threads may wait for one message, and once it has ended, waiting
/// again gives the same answer.
///
/// Returns 1, or 0 if it failed: it is longer than the receiver's `size` (EMSGSIZE; both ends are told, and later messages
/// go on), the peer has not been heard of for too long (ETIMEDOUT), the sender or receiver was closed (ECANCELED), the
/// socket failed (its error), or the message was never sent or received (EINVAL). A send that failed is not known to have
/// arrived.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_wait(message: *mut zcrp_msg) -> nlong {
    // SAFETY: C promises a message.
    guard(0, || unsafe { Block::of(message)? }.wait().map(|()| 1))
}

/// Whether a message has ended, well or not (zcrp_wait then returns at once and says which). Never blocks, but moves the
/// protocol on, so asking in a loop is enough. Returns 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_probe(message: *mut zcrp_msg) -> nbyte {
    // SAFETY: C promises a message.
    guard(0, || unsafe { Block::of(message)? }.probe().map(nbyte::from))
}

/// Ends the sender of zcrp_send_init; what is under way fails (ECANCELED). It may be opened again afterwards. Also done
/// when the process exits. Returns 1, or 0 if there is none (ENOTCONN).
#[unsafe(no_mangle)]
pub extern "C" fn zcrp_send_close() -> nbyte {
    guard(0, || process::current().finish::<Sender>().map(|()| 1))
}

/// Ends the receiver of zcrp_rcv_init; what is under way fails (ECANCELED). For 40 ms more it repeats its newest
/// acknowledgement, which may have been lost, and answers repetitions; then the call returns. The receiver may be opened
/// again afterwards. Also done when the process exits. Returns 1, or 0 if there is none (ENOTCONN).
#[unsafe(no_mangle)]
pub extern "C" fn zcrp_rcv_close() -> nbyte {
    guard(0, || process::current().finish::<Receiver>().map(|()| 1))
}

/// Sets a setting, for every sender and receiver that is opened from now on; 0 goes back to the default, which mostly
/// depends on the path. Survives fork().
///
///   unit_bytes                size of unit datagrams, 29 to 65,507; by default what the path carries
///   control_bytes             size of control datagrams at most, 16 to 65,504
///   window_units              units in transit at most
///   window_bytes              bytes in transit at most
///   rate                      bytes of unit datagrams a second at most; by default what the path takes
///   congestion_fixed          a fixed window of so many bytes, and no congestion control: for closed networks
///   congestion_cubic          1: the CUBIC congestion controller
///   congestion_bbr            1: the BBR congestion controller; 2 to 50: of a path that loses up to so many percent
///                             of what is sent by itself
///   profile_internet          1: behave as on a shared network; by default loopback addresses and AF_UNIX are not
///   profile_cluster           1: behave as on a network of our own
///   peer_timeout_ms           when a silent peer counts as gone; 10,000 by default
///   ack_units, ack_bytes      acknowledge when so much is unreported ...
///   ack_delay_us              ... or after this time
///   reorder_units             a gap counts as loss when so many later units have come ...
///   reorder_delay_us          ... or after this time
///   request_interval_ms       first repetition of a request, doubled up to request_interval_max_ms
///   request_interval_max_ms
///   idle_interval_ms          how often a sender says that it waits for a receiver
///   timeout_floor_us          shortest retransmission time-out
///   max_messages              messages under way at most, in each direction
///   spin_us                   how long a waiting thread looks again before it sleeps; -1: for ever, 0: not at all
///
/// Returns 1, or 0 if there is no such setting (ENOENT) or it cannot have this value (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_set(name: *const c_char, value: c_long) -> c_int {
    guard(0, || {
        // SAFETY: C promises a string.
        let name = unsafe { text(name)? };
        #[allow(clippy::useless_conversion, reason = "a long has 32 bits elsewhere")]
        match settings::set(name, i64::from(value)) {
            Ok(()) => Ok(1),
            Err(Unset::Unknown) => Err(Errno(libc::ENOENT)),
            Err(Unset::OutOfRange) => Err(Errno(libc::EINVAL)),
        }
    })
}

/// Tells a setting (see zcrp_set) or a counter by its name. A setting is told as it is in force at the sender of
/// zcrp_send_init, or else at the receiver of zcrp_rcv_init; if there is neither, as it was set, or 0.
///
/// Counters are those of that sender and that receiver, or the last of them: messages_sent, units_sent, units_resent,
/// timeouts, messages_received, bytes_received, units_in_place, units_copied, bytes_copied, units_duplicate, and whatever
/// else the documentation lists. A name that both count is told as their sum; "sender.messages_failed" and
/// "receiver.messages_failed" are told apart.
///
/// Returns -1 if there is no such name (ENOENT).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_get(name: *const c_char) -> c_long {
    // SAFETY: C promises a string.
    guard(-1, || value(process::current(), unsafe { text(name)? }).ok_or(Errno(libc::ENOENT)))
}

/// Opens another sender, as zcrp_send_init does. Messages are sent by zcrp_sender_send, and waited for by zcrp_wait and
/// zcrp_probe. Returns NULL where zcrp_send_init returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_sender_open(file_descriptors: *const c_int) -> *mut zcrp_sender_t {
    guard(std::ptr::null_mut(), || {
        let process = process::current();
        // SAFETY: C promises two descriptors.
        let role = process.open::<Sender>(unsafe { pair(file_descriptors)? })?;
        Ok(Box::into_raw(Box::new(zcrp_sender { process, role })))
    })
}

/// As zcrp_send, with this sender.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_sender_send(sender: *mut zcrp_sender_t, message: *mut zcrp_msg, size: nlong) -> nbyte {
    guard(0, || {
        // SAFETY: C promises an open sender.
        let sender = unsafe { sender.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        // SAFETY: C promises a message.
        unsafe { begin(sender.process, &sender.role, message, size) }
    })
}

/// As zcrp_get, of this sender alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_sender_get(sender: *const zcrp_sender_t, name: *const c_char) -> c_long {
    guard(-1, || {
        // SAFETY: C promises an open sender, and a string.
        let (sender, name) = unsafe { (sender.as_ref().ok_or(Errno(libc::EINVAL))?, text(name)?) };
        ours(sender.process)?;
        sender.role.value(name).ok_or(Errno(libc::ENOENT))
    })
}

/// As zcrp_send_close, with this sender, which is of no use any more. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_sender_close(sender: *mut zcrp_sender_t) {
    guard((), || {
        if !sender.is_null() {
            // SAFETY: C promises an open sender, which it uses no more; `zcrp_sender_open` made the box.
            let sender = unsafe { Box::from_raw(sender) };
            leave(sender.process, sender.role);
        }
        Ok(())
    });
}

/// Opens another receiver, as zcrp_rcv_init does. Messages are received by zcrp_receiver_rcv, and waited for by zcrp_wait
/// and zcrp_probe. Returns NULL where zcrp_rcv_init returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_receiver_open(file_descriptors: *const c_int) -> *mut zcrp_receiver_t {
    guard(std::ptr::null_mut(), || {
        let process = process::current();
        // SAFETY: C promises two descriptors.
        let role = process.open::<Receiver>(unsafe { pair(file_descriptors)? })?;
        Ok(Box::into_raw(Box::new(zcrp_receiver { process, role })))
    })
}

/// As zcrp_rcv, with this receiver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_receiver_rcv(
    receiver: *mut zcrp_receiver_t,
    message: *mut zcrp_msg,
    size: nlong,
) -> nbyte {
    guard(0, || {
        // SAFETY: C promises an open receiver.
        let receiver = unsafe { receiver.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        // SAFETY: C promises a message.
        unsafe { begin(receiver.process, &receiver.role, message, size) }
    })
}

/// As zcrp_get, of this receiver alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_receiver_get(receiver: *const zcrp_receiver_t, name: *const c_char) -> c_long {
    guard(-1, || {
        // SAFETY: C promises an open receiver, and a string.
        let (receiver, name) = unsafe { (receiver.as_ref().ok_or(Errno(libc::EINVAL))?, text(name)?) };
        ours(receiver.process)?;
        receiver.role.value(name).ok_or(Errno(libc::ENOENT))
    })
}

/// As zcrp_rcv_close, with this receiver, which is of no use any more. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zcrp_receiver_close(receiver: *mut zcrp_receiver_t) {
    guard((), || {
        if !receiver.is_null() {
            // SAFETY: C promises an open receiver, which it uses no more; `zcrp_receiver_open` made the box.
            let receiver = unsafe { Box::from_raw(receiver) };
            leave(receiver.process, receiver.role);
        }
        Ok(())
    });
}

unsafe fn pair(descriptors: *const c_int) -> Result<[c_int; 2], Errno> {
    if descriptors.is_null() {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: not null, and then the caller promises two descriptors.
    Ok(unsafe { [*descriptors, *descriptors.add(1)] })
}

unsafe fn text<'a>(name: *const c_char) -> Result<&'a str, Errno> {
    if name.is_null() {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: not null, and then the caller promises a string that lives as long as the call.
    unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| Errno(libc::ENOENT))
}

/// A handle that a child process has inherited is of no use to it.
fn ours(process: &'static Process) -> Result<(), Errno> {
    if std::ptr::eq(process, process::current()) { Ok(()) } else { Err(Errno(libc::ENOTCONN)) }
}

unsafe fn begin<H: Half>(
    process: &'static Process,
    role: &Role<H>,
    message: *mut zcrp_msg,
    size: nlong,
) -> Result<nbyte, Errno> {
    ours(process)?;
    // SAFETY: the caller promises a message or null.
    let block = unsafe { Block::of(message)? };
    block.begin(process, size, |message| role.begin(message)).map(|()| 1)
}

unsafe fn begin_standing<H: Half>(message: *mut zcrp_msg, size: nlong) -> Result<nbyte, Errno> {
    let process = process::current();
    // SAFETY: the caller promises a message or null.
    unsafe { begin(process, &*process.role::<H>()?, message, size) }
}

fn leave<H: Half>(process: &'static Process, role: Arc<Role<H>>) {
    if ours(process).is_ok() {
        process.close(&role);
    } else {
        // The parent's: its locks may be held by threads that this process does not have.
        std::mem::forget(role);
    }
}

fn value(process: &'static Process, name: &str) -> Option<c_long> {
    if let Some(name) = name.strip_prefix("sender.") {
        return process.counter::<Sender>(name).map(settings::long);
    }
    if let Some(name) = name.strip_prefix("receiver.") {
        return process.counter::<Receiver>(name).map(settings::long);
    }
    match (process.counter::<Sender>(name), process.counter::<Receiver>(name)) {
        (None, None) => {}
        (sent, received) => return Some(settings::long(sent.unwrap_or(0).saturating_add(received.unwrap_or(0)))),
    }
    let in_force = process.setting::<Sender>(name).or_else(|| process.setting::<Receiver>(name));
    in_force.or_else(|| settings::chosen(name))
}
