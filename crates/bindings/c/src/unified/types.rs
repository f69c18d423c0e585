//! What C and the library tell each other in structures.
//!
//! Always true: the first member of what may grow is its size, as C was compiled with it; what C does not know is not written,
//! and what the library does not know must be 0.

#![allow(non_camel_case_types, reason = "the names are C's")]

use crate::errors::Failure;
use libc::{c_char, c_int, c_uint, c_void};
use std::ops::Range;

/// Bytes from `offset` on, `length` of them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct pinnace_range {
    /// The first.
    pub offset: u64,
    /// How many.
    pub length: u64,
}

impl From<&Range<usize>> for pinnace_range {
    fn from(range: &Range<usize>) -> Self {
        Self { offset: range.start as u64, length: range.len() as u64 }
    }
}

/// Where connections begin: an address to listen at, and settings. See pinnace_endpoint_open.
#[derive(Debug)]
pub struct pinnace_endpoint {
    _private: (),
}

/// See pinnace_endpoint_open.
pub type pinnace_endpoint_t = pinnace_endpoint;

/// Who accepts connections. See pinnace_listen.
#[derive(Debug)]
pub struct pinnace_listener {
    _private: (),
}

/// See pinnace_listen.
pub type pinnace_listener_t = pinnace_listener;

/// Messages to a peer and back, by the method that was chosen. See pinnace_connect.
#[derive(Debug)]
pub struct pinnace_connection {
    _private: (),
}

/// See pinnace_connect.
pub type pinnace_connection_t = pinnace_connection;

/// A message on its way, whose memory is the library's. See pinnace_sendv.
#[derive(Debug)]
pub struct pinnace_delivery {
    _private: (),
}

/// See pinnace_sendv.
pub type pinnace_delivery_t = pinnace_delivery;

/// Settings of an endpoint. Begin with PINNACE_OPTIONS_INIT, which is the defaults; what is 0 is the default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct pinnace_options {
    /// sizeof(struct pinnace_options).
    pub size: usize,
    /// This method or none: "shared-memory", "zcrp", "vrp", "xtp", "qmp", "a1". NULL: whichever is cheapest. The string is
    /// yours again when the call returns.
    pub force: *const c_char,
    /// None of these methods, separated by commas; or NULL.
    pub exclude: *const c_char,
    /// The longest message that is received, in bytes. 0: 1 GiB.
    pub longest_message: u64,
    /// When a silent peer counts as gone, in milliseconds. 0: 10,000.
    pub peer_timeout_ms: c_uint,
    /// Connections that wait to be accepted, and those that are being set up; more are turned away. 0: 128.
    pub backlog: c_uint,
    /// When one receiver of several (pinnace_endpoint_connect_all) that holds up the others is cut off, in milliseconds. 0: 2,000.
    pub slow_receiver_ms: c_uint,
    /// Not 0: it is not cut off, but messages that it has no room for, and others have, are left out for it (`skipped` of struct
    /// pinnace_receiver counts them).
    pub slow_receiver_skips: c_int,
    /// How long pinnace_endpoint_connect and pinnace_endpoint_connect_all may take, in milliseconds, without the resolving of names.
    /// 0: as long as it takes, which is some 7 seconds where nobody answers.
    pub connect_timeout_ms: c_uint,
    /// What bounds the bytes in transit: "bbr", "bbr:30%" (the path itself loses up to 30 %), "cubic", "fixed". NULL: by the path.
    pub congestion: *const c_char,
}

/// `loss_percent`, `run_bytes`, ... of struct pinnace_send_options count: the message has a loss contract of its own.
pub const PINNACE_OWN_CONTRACT: c_uint = 1;

/// A message that is sent must not wait for room: without it the call fails with EAGAIN, and the memory is yours.
pub const PINNACE_DONT_WAIT: c_uint = 2;

/// What differs for one message from the connection's service, and who is told of its end. Begin with
/// PINNACE_SEND_OPTIONS_INIT, by which nothing differs and nobody is told.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct pinnace_send_options {
    /// sizeof(struct pinnace_send_options).
    pub size: usize,
    /// 0, or PINNACE_OWN_CONTRACT: the next four members say what may be lost of this message. A method that loses nothing
    /// keeps any contract. With PINNACE_DONT_WAIT the call does not wait for room.
    pub flags: c_uint,
    /// The share that may be lost, in percent: 0 (nothing) to 100. It counts in steps of 0.39.
    pub loss_percent: f64,
    /// The longest run of bytes that may be lost. 0 is nothing, UINT64_MAX any.
    pub run_bytes: u64,
    /// What may not be lost; yours again when the call returns. NULL if there is none.
    pub critical: *const pinnace_range,
    /// How many ranges that is.
    pub critical_count: usize,
    /// So many microseconds after the call the message is of no more use, and what may be lost of it is not repeated any
    /// more. 0: as the service says.
    pub deadline_us: u64,
    /// So many microseconds after the call the sender drops it. 0: as the service says. Only VRP can (ENOTSUP).
    pub lifespan_us: u64,
    /// Called once when the message has ended and its memory is yours again, on a thread of the library's that does nothing
    /// else: it may call any function of this header, and should not wait long. It must not throw, or leave by longjmp. NULL:
    /// ask with pinnace_delivery_wait.
    pub done: Option<unsafe extern "C" fn(completion: *const pinnace_completion, argument: *mut c_void)>,
    /// What `done` is given.
    pub argument: *mut c_void,
}

/// How a message ended. Begin with PINNACE_COMPLETION_INIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct pinnace_completion {
    /// sizeof(struct pinnace_completion).
    pub size: usize,
    /// 0: it has arrived, as whole as was agreed. Otherwise why it has not, or nobody knows, as in errno.
    pub error: c_int,
    /// Whether the receiver has said what it lacks (VRP). If not, nothing can be lost, or nobody knows.
    pub is_reported: c_int,
    /// The error in words; "" if there is none. Valid as `holes` is.
    pub text: *const c_char,
    /// What the receiver lacks, with permission: rising ranges that do not touch. NULL if there is none. In a callback valid
    /// until it returns; of pinnace_delivery_wait until this thread waits for another delivery.
    pub holes: *const pinnace_range,
    /// How many holes.
    pub hole_count: usize,
}

/// A message that was received. Begin with PINNACE_RECEIVED_INIT; give it back with pinnace_received_free before you receive
/// into it again.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct pinnace_received {
    /// sizeof(struct pinnace_received).
    pub size: usize,
    /// The bytes, where the method has put them; never NULL. They are yours, to read and to write, until
    /// pinnace_received_free.
    pub data: *mut c_void,
    /// How many.
    pub length: usize,
    /// What is missing of it, with permission: rising ranges that do not touch. They read as zeros. NULL if there is none.
    pub holes: *const pinnace_range,
    /// How many holes.
    pub hole_count: usize,
    /// The library's.
    pub message: usize,
    /// How many messages before this one were not waited for any longer (VRP, of a service that wants order): each of them
    /// comes later, or was given up by its sender.
    pub missed: u64,
    /// Whether it comes behind messages that were sent after it, although the service wants order (VRP).
    pub is_late: c_int,
}

/// `state` of struct pinnace_receiver: it gets what is sent.
pub const PINNACE_RECEIVER_CONNECTED: c_int = 0;

/// It has closed its connection.
pub const PINNACE_RECEIVER_LEFT: c_int = 1;

/// It has held up the others for too long, and was cut off.
pub const PINNACE_RECEIVER_TOO_SLOW: c_int = 2;

/// It does not answer any more.
pub const PINNACE_RECEIVER_LOST: c_int = 3;

/// What is known of a receiver of a connection to several (pinnace_endpoint_connect_all). Begin with PINNACE_RECEIVER_INIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct pinnace_receiver {
    /// sizeof(struct pinnace_receiver).
    pub size: usize,
    /// Where its listener is, as text: "127.0.0.1:4747".
    pub address: [c_char; 64],
    /// PINNACE_RECEIVER_CONNECTED, or why it is not there any more: PINNACE_RECEIVER_LEFT, PINNACE_RECEIVER_TOO_SLOW or
    /// PINNACE_RECEIVER_LOST.
    pub state: c_int,
    /// Whether it gets the messages from the service's multicast group, and not one by one.
    pub is_in_group: c_int,
    /// Messages that were left out for it (slow_receiver_skips of struct pinnace_options).
    pub skipped: u64,
    /// From the source to it and back, in microseconds. 0: not measured yet.
    pub round_trip_us: u64,
}

/// What has a size as its first member.
///
/// # Safety
/// All bits 0 is a value of it, and its first member is `size: usize`.
pub(super) unsafe trait Growing: Copy {
    /// How it is called in the header.
    const NAME: &'static str;
    /// Its size in the first version: whatever was added since is behind it.
    const FIRST: usize = size_of::<Self>();
}

/// More than any structure will ever have: what is above was not initialized.
const LARGEST: usize = 4096;

macro_rules! sized {
    ($($name:ident)*) => {
        $(
            // SAFETY: numbers, null pointers and `None` are all bits 0; `size` is the first member.
            unsafe impl Growing for $name {
                const NAME: &'static str = stringify!($name);
            }
        )*
    };
}

sized!(pinnace_send_options pinnace_completion pinnace_receiver);

// SAFETY: numbers, null pointers; `size` is the first member.
unsafe impl Growing for pinnace_options {
    const NAME: &'static str = stringify!(pinnace_options);
    const FIRST: usize = std::mem::offset_of!(Self, slow_receiver_ms);
}

// SAFETY: numbers, null pointers; `size` is the first member.
unsafe impl Growing for pinnace_received {
    const NAME: &'static str = stringify!(pinnace_received);
    const FIRST: usize = std::mem::offset_of!(Self, missed);
}

/// The size that C says, if it can be one.
///
/// # Safety
/// `it` is null, or points to one whose `size` can be read.
unsafe fn size_of_theirs<T: Growing>(it: *const T) -> Result<usize, Failure> {
    let name = T::NAME;
    if it.is_null() {
        return Err(Failure::new(libc::EINVAL, format!("the struct {name} is NULL")));
    }
    // SAFETY: the caller's promise.
    let size = unsafe { it.cast::<usize>().read() };
    if !(T::FIRST..=LARGEST).contains(&size) {
        let init = name.to_uppercase();
        let text = format!("the size of a struct {name} is {size}, not {}: begin with {init}_INIT", size_of::<T>());
        return Err(Failure::new(libc::EINVAL, text));
    }
    Ok(size)
}

/// What C says in a structure.
///
/// # Safety
/// `it` is null, or points to as many bytes as its `size` says.
pub(super) unsafe fn read<T: Growing>(it: *const T) -> Result<T, Failure> {
    // SAFETY: the caller's promise.
    let size = unsafe { size_of_theirs(it)? };
    for at in size_of::<T>()..size {
        // SAFETY: it has `size` bytes.
        if unsafe { it.cast::<u8>().add(at).read() } != 0 {
            let text = format!("the struct {} says something that this version of the library does not know", T::NAME);
            return Err(Failure::new(libc::E2BIG, text));
        }
    }
    let mut known = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: it has `size` bytes, and there is room for as many as are known; what it does not say stays 0, which is a value
    // of it.
    unsafe {
        it.cast::<u8>().copy_to_nonoverlapping(known.as_mut_ptr().cast(), size.min(size_of::<T>()));
        Ok(known.assume_init())
    }
}

/// Whether a structure can be written, with its size.
///
/// # Safety
/// `it` is null, or points to as many bytes as its `size` says.
pub(super) unsafe fn check<T: Growing>(it: *const T) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { size_of_theirs(it) }.map(drop)
}

/// Writes a structure, but for its size, and for what C does not know.
///
/// # Safety
/// `it` was checked.
pub(super) unsafe fn write<T: Growing>(it: *mut T, value: &T) {
    let first = size_of::<usize>();
    // SAFETY: it has as many bytes as its size says, and so many of `value` are there; the size stays as it is.
    unsafe {
        let size = it.cast::<usize>().read().min(size_of::<T>());
        let from = std::ptr::from_ref(value).cast::<u8>().add(first);
        it.cast::<u8>().add(first).copy_from_nonoverlapping(from, size.saturating_sub(first));
    }
}
