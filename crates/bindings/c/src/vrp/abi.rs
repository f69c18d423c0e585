//! What C sees of VRP. The comments here are the header's.
#![allow(non_camel_case_types, reason = "the names are the paper's")]
#![allow(clippy::missing_safety_doc, reason = "the comments are written for C, where nothing is safe")]
#![allow(missing_debug_implementations, reason = "opaque to C, and nobody else sees them")]

use super::incoming::Incoming;
use super::outgoing::{Buffer, Loss, Outgoing};
use super::registry;
use crate::errors::{Errno, guard};
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::sync::Arc;

/// Memory to send, and what of it may be lost.
pub struct vrp_buffer {
    buffer: Buffer,
}

/// See vrp_buffer_construct.
pub type vrp_buffer_t = *mut vrp_buffer;

/// A sender of frames to one destination.
pub struct vrp_outgoing(());

/// See vrp_outgoing_construct.
pub type vrp_outgoing_t = *mut vrp_outgoing;

/// A receiver of frames from everybody.
pub struct vrp_incoming(());

/// See vrp_incoming_construct.
pub type vrp_incoming_t = *mut vrp_incoming;

/// A frame that was received within its contract. It, and everything it points to, is the handler's until that returns.
#[repr(C)]
#[derive(Debug)]
pub struct vrp_in_buffer {
    /// The frame. What was lost of it is zero.
    pub data: *mut c_void,
    /// Its bytes, lost ones included.
    pub size: usize,
    /// What vrp_incoming_set_source was given, or NULL.
    pub source: *mut c_void,
    /// How many packets were lost.
    pub loss_num: c_int,
    /// Where: `loss_num` ascending pointers into `data`, one for each lost packet, also in a run of them. At each,
    /// `loss_granularity` bytes are missing, or as many as there are up to the end of the frame. NULL if nothing was lost.
    pub lost: *mut *mut c_void,
    /// Bytes of a packet of this frame, also if nothing was lost.
    pub loss_granularity: usize,
}

/// See vrp_in_buffer.
pub type vrp_in_buffer_t = *mut vrp_in_buffer;

/// A handler, which is there.
///
/// cbindgen:ignore
pub(super) type vrp_handler_t = unsafe extern "C" fn(vrp_in_buffer_t);

/// Gets ready. Call it once, before the others; if you do not, they work all the same.
#[unsafe(no_mangle)]
pub extern "C" fn vrp_init() {
    guard((), || {
        registry::current().init();
        Ok(())
    });
}

/// Closes every endpoint, as vrp_outgoing_close and vrp_incoming_close do. From then on nothing is constructed (ECANCELED)
/// unless vrp_init is called again.
#[unsafe(no_mangle)]
pub extern "C" fn vrp_shutdown() {
    guard((), || {
        registry::current().shut_down();
        Ok(())
    });
}

/// Describes a frame: `size` bytes of your memory, which is neither copied nor freed. Nothing is said of what may be lost.
/// Returns NULL if `data` is NULL and `size` is not 0 (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrp_buffer_construct(data: *mut c_void, size: usize) -> vrp_buffer_t {
    guard(std::ptr::null_mut(), || Ok(Box::into_raw(Box::new(vrp_buffer { buffer: Buffer::new(data.cast(), size)? }))))
}

/// Frees the description, not the data. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrp_buffer_destroy(buffer: vrp_buffer_t) {
    if !buffer.is_null() {
        // SAFETY: C promises a buffer, which it uses no more; `vrp_buffer_construct` made the box.
        drop(unsafe { Box::from_raw(buffer) });
    }
}

/// Nothing of `size` bytes at `data`, which are a part of the buffer, may be lost. Call it again for more of them. Is no part
/// of the buffer what you give, sending it fails (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrp_buffer_add_critical(buffer: vrp_buffer_t, data: *mut c_void, size: usize) {
    guard((), || {
        // SAFETY: C promises a buffer that nobody else uses meanwhile.
        let buffer = unsafe { buffer.as_mut() }.ok_or(Errno(libc::EINVAL))?;
        buffer.buffer.add_critical(data.cast(), size);
        Ok(())
    });
}

/// What may be lost: `max`, the share of the packets in any window of the frame, 0 to 255 for nothing to everything, and
/// `cons`, the longest run of bytes, counted in whole packets. -1 stands for the default of the endpoint that sends it. If
/// either is not said anywhere nothing may be lost (but that is the receiver's decision). With another number, sending fails
/// (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrp_buffer_set_loss_rate(buffer: vrp_buffer_t, max: c_int, cons: c_int) {
    guard((), || {
        // SAFETY: C promises a buffer that nobody else uses meanwhile.
        let buffer = unsafe { buffer.as_mut() }.ok_or(Errno(libc::EINVAL))?;
        buffer.buffer.set_loss(Loss::new(max, cons));
        Ok(())
    });
}

/// Makes a sender of frames to a port of a host. `max` and `cons` are what may be lost of frames that do not say it, as in
/// vrp_buffer_set_loss_rate; -1: nothing is said. `packet_size` is the number of data bytes of a packet, 1 to 65501; -1: 2048,
/// or what the path carries in one piece if that is less. Nothing is sent yet.
///
/// Returns NULL if there is no such host (EHOSTUNREACH, or what the system says), or the port or packet size is none
/// (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrp_outgoing_construct(
    host: *const c_char,
    port: c_int,
    max: c_int,
    cons: c_int,
    packet_size: c_int,
) -> vrp_outgoing_t {
    guard(std::ptr::null_mut(), || {
        if host.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: C promises a string.
        let host = unsafe { CStr::from_ptr(host) }.to_str().map_err(|_| Errno(libc::EINVAL))?;
        let outgoing = Outgoing::new(host, port, Loss::new(max, cons), packet_size)?;
        Ok(std::ptr::without_provenance_mut(registry::current().add(Arc::new(outgoing))?))
    })
}

/// Finds out whether the receiver is there, and how long the way to it and back takes. If you do not call it, the first
/// frame does. Returns 0, or -1 if nobody has answered for 5 s (ETIMEDOUT), or the sender is closed (ECANCELED).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrp_outgoing_connect(outgoing: vrp_outgoing_t) -> c_int {
    guard(-1, || {
        find::<Outgoing>(outgoing.addr())?.connect()?;
        Ok(0)
    })
}

/// The paper's name of vrp_outgoing_connect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrp_outgoing_open(outgoing: vrp_outgoing_t) -> c_int {
    // SAFETY: the same promises.
    unsafe { vrp_outgoing_connect(outgoing) }
}

/// For a loop of your own: from the first call on, the library reads what comes for this sender only in
/// vrp_outgoing_read_callback, which you call whenever the descriptor is readable, and in calls that wait
/// (vrp_outgoing_send_frame, ...), which need no loop; its thread only sends, on time. The descriptor is to be polled and
/// nothing else, and valid until the sender is closed. Returns -1 if the sender is closed (ECANCELED).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrp_outgoing_fd(outgoing: vrp_outgoing_t) -> c_int {
    guard(-1, || find::<Outgoing>(outgoing.addr())?.descriptor())
}

/// Reads what has come, and answers it. Never waits. `fd` is what vrp_outgoing_fd returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrp_outgoing_read_callback(fd: c_int, outgoing: vrp_outgoing_t) {
    // The endpoint knows its descriptor.
    let _ = fd;
    guard((), || find::<Outgoing>(outgoing.addr())?.progress());
}

/// Sends a frame, and returns when it has arrived within its contract. Any number of threads may send on one endpoint, also
/// the same buffer: their frames travel side by side.
///
/// Returns 0, or -1 if the receiver has no room, or is closed meanwhile (ECONNREFUSED), nothing was heard of it for 5 s, as of
/// one that was closed before (ETIMEDOUT), it answered what cannot be (EPROTO), the frame is too large, or has too many critical parts for a header (EMSGSIZE), the
/// endpoint was closed (ECANCELED), or buffer or contract are not valid (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrp_outgoing_send_frame(outgoing: vrp_outgoing_t, buffer: vrp_buffer_t) -> c_int {
    guard(-1, || {
        // SAFETY: C promises a buffer that nobody changes meanwhile.
        let buffer = unsafe { buffer.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        let outgoing = find::<Outgoing>(outgoing.addr())?;
        // SAFETY: C has promised its memory.
        unsafe { outgoing.send(&buffer.buffer)? };
        Ok(0)
    })
}

/// Ends a sender: frames under way fail (ECANCELED), the receiver is told, and the handle is good for nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrp_outgoing_close(outgoing: vrp_outgoing_t) {
    guard((), || {
        registry::current().remove::<Outgoing>(outgoing.addr())?.close();
        Ok(())
    });
}

/// Makes a receiver at `*port` of every address of this host, IPv6 and IPv4; 0 picks a port, and `*port` says which. `handler`
/// runs for every frame: on a thread of the library, or in vrp_incoming_read_callback if you have a loop of your own; one at a
/// time. While it runs senders are answered, and further frames wait for it. It may call the library, and must not throw, or
/// leave by longjmp.
///
/// Returns NULL if the port is taken (EADDRINUSE) or none, or a pointer is NULL (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrp_incoming_construct(
    port: *mut c_int,
    handler: Option<unsafe extern "C" fn(buffer: vrp_in_buffer_t)>,
) -> vrp_incoming_t {
    guard(std::ptr::null_mut(), || {
        let invalid = Errno(libc::EINVAL);
        // SAFETY: C promises a number, or NULL.
        let port = unsafe { port.as_mut() }.ok_or(invalid)?;
        let wanted = u16::try_from(*port).map_err(|_| invalid)?;
        let incoming = Incoming::new(wanted, handler.ok_or(invalid)?)?;
        let number = registry::current().add(Arc::clone(&incoming)).inspect_err(|_| incoming.close(true))?;
        *port = c_int::from(incoming.port());
        Ok(std::ptr::without_provenance_mut(number))
    })
}

/// What handlers that begin from now on find in their argument: whatever you like.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrp_incoming_set_source(incoming: vrp_incoming_t, source: *mut c_void) {
    guard((), || {
        find::<Incoming>(incoming.addr())?.set_source(source);
        Ok(())
    });
}

/// For a loop of your own: from the first call on, the library reads what comes for this receiver only in
/// vrp_incoming_read_callback, which you call whenever the descriptor is readable; its thread only sends, on time (and reads
/// while a handler runs). A handler that runs is waited for; those that follow run in the callback. The descriptor is to be
/// polled and nothing else, and valid until the receiver is closed. Returns -1 if the receiver is closed (ECANCELED).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrp_incoming_fd(incoming: vrp_incoming_t) -> c_int {
    guard(-1, || find::<Incoming>(incoming.addr())?.descriptor())
}

/// Reads what has come, answers it, and runs the handler for each frame that is complete. Never waits for more. `fd` is what
/// vrp_incoming_fd returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrp_incoming_read_callback(fd: c_int, incoming: vrp_incoming_t) {
    // The endpoint knows its descriptor.
    let _ = fd;
    guard((), || find::<Incoming>(incoming.addr())?.progress());
}

/// Ends a receiver: frames that are not complete are refused, those that are handled, and the handle is good for nothing. No
/// handler runs any more when this returns, unless it is the handler that calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrp_incoming_close(incoming: vrp_incoming_t) {
    guard((), || {
        registry::current().remove::<Incoming>(incoming.addr())?.close(true);
        Ok(())
    });
}

fn find<K: registry::Kind>(number: usize) -> Result<Arc<K>, Errno> {
    registry::current().find(number)
}
