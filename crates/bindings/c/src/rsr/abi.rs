//! What C sees of endpoints, startpoints and requests. The comments here are the header's.
#![allow(non_camel_case_types, reason = "the names are C's")]
#![allow(clippy::missing_safety_doc, reason = "the comments are written for C, where nothing is safe")]
#![allow(missing_debug_implementations, reason = "opaque to C, and nobody else sees them")]

use super::{Failure, context, guard};
use crate::errors::{self, Errno};
use crate::pointers::told_text;
pub(super) use crate::pointers::{give, text};
use libc::{c_char, c_int, c_void};
use pinnace::rsr::{Buffer, Endpoint, Reader, Request, Startpoint, Way};
use std::ffi::CString;

/// Numbers from `low` on, below `high`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rsr_range {
    /// The first.
    pub low: usize,
    /// The first behind.
    pub high: usize,
}

impl From<std::ops::Range<usize>> for rsr_range {
    fn from(range: std::ops::Range<usize>) -> Self {
        Self { low: range.start, high: range.end }
    }
}

/// A table of handlers that others can reach.
pub struct rsr_endpoint {
    pub(super) endpoint: Endpoint,
}

/// See rsr_endpoint_open.
pub type rsr_endpoint_t = rsr_endpoint;

/// A reference to an endpoint: the methods that lead to it, in order of preference, with their addresses.
pub struct rsr_startpoint {
    pub(super) startpoint: Startpoint,
}

/// See rsr_startpoint_from_string.
pub type rsr_startpoint_t = rsr_startpoint;

/// What a request carries: filled value by value, and sent as often as you like.
pub struct rsr_buffer {
    pub(super) buffer: Buffer,
    /// Where the critical part that has begun begins, and how often it was begun.
    pub(super) critical: Option<(usize, usize)>,
}

/// See rsr_buffer_create.
pub type rsr_buffer_t = rsr_buffer;

/// A request that has arrived: read value by value, in the order in which they were put.
pub struct rsr_request {
    pub(super) request: Request,
    pub(super) position: usize,
    holes: Vec<rsr_range>,
    /// Of the value that was read last.
    pub(super) lost: Vec<rsr_range>,
    pub(super) texts: Vec<CString>,
    source: CString,
    method: CString,
}

/// See rsr_handler.
pub type rsr_request_t = rsr_request;

impl rsr_request {
    fn new(request: Request) -> Self {
        let text = |text: &str| CString::new(text).unwrap_or_default();
        let (source, method) = (text(request.source()), text(request.method()));
        let holes = request.holes().iter().cloned().map(rsr_range::from).collect();
        Self { request, position: 0, holes, lost: Vec::new(), texts: Vec::new(), source, method }
    }

    /// Reads from where the last read ended.
    pub(super) fn reader(&self) -> Reader<'_> {
        let mut reader = self.request.reader();
        reader.seek(self.position);
        reader
    }
}

/// A handler, and what asks for it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rsr_handler {
    /// The number that senders give.
    pub id: u16,
    /// What runs, on a thread of the library, with the request and `argument`. The request and whatever was read of it is
    /// gone when it returns. It may send requests. It must not throw, or leave by longjmp.
    pub run: Option<unsafe extern "C" fn(request: *mut rsr_request_t, argument: *mut c_void)>,
    /// Whatever you like.
    pub argument: *mut c_void,
}

/// What a handler is, of which C promises that it may run anywhere.
struct Runner {
    run: unsafe extern "C" fn(*mut rsr_request_t, *mut c_void),
    argument: *mut c_void,
}

// SAFETY: C gave a function to run on the library's threads, and the argument for it.
unsafe impl Send for Runner {}
// SAFETY: as above.
unsafe impl Sync for Runner {}

impl Runner {
    fn of(handler: &rsr_handler) -> Result<Self, Errno> {
        Ok(Self { run: handler.run.ok_or(Errno(libc::EINVAL))?, argument: handler.argument })
    }

    fn run(&self, request: Request) {
        let mut request = rsr_request::new(request);
        // SAFETY: C promises such a function; the request lives until it returns.
        unsafe { (self.run)(&raw mut request, self.argument) };
    }
}

/// Opens an endpoint with these handlers (`count` may be 0). `listen` says by which methods it can be reached, at which
/// addresses of this host, in order of preference: "vrp=0.0.0.0:4000,zcrp=192.0.2.1:4001,local="; where no address is
/// given the method finds one. NULL is every method: local (this process), vrp, zcrp, pinnace (whichever the one
/// interface chooses). One handler runs at a time.
///
/// Returns NULL if a method is not there (EPROTONOSUPPORT) or cannot listen (its error), if `listen` is not well-formed or
/// a handler is NULL (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_endpoint_open(
    listen: *const c_char,
    handlers: *const rsr_handler,
    count: usize,
) -> *mut rsr_endpoint_t {
    guard(std::ptr::null_mut(), || {
        let mut builder = Endpoint::builder().context(context());
        if !listen.is_null() {
            // SAFETY: C promises a string.
            for way in unsafe { text(listen)? }.split(',') {
                let way: Way = way.parse()?;
                builder = builder.listen(way.method(), way.address());
            }
        }
        if handlers.is_null() && count > 0 {
            return Err(Errno(libc::EINVAL).into());
        }
        for index in 0..count {
            // SAFETY: C promises so many handlers.
            let handler = unsafe { &*handlers.add(index) };
            let runner = Runner::of(handler)?;
            builder = builder.handler(handler.id, move |request| runner.run(request));
        }
        Ok(Box::into_raw(Box::new(rsr_endpoint { endpoint: builder.open()? })))
    })
}

/// Adds a handler, or puts it in the place of the one that has its id. Returns 0, or -1 if it is NULL (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_endpoint_set_handler(endpoint: *mut rsr_endpoint_t, handler: rsr_handler) -> c_int {
    guard(-1, || {
        // SAFETY: C promises an open endpoint.
        let endpoint = unsafe { shared(endpoint)? };
        let runner = Runner::of(&handler)?;
        endpoint.endpoint.set_handler(handler.id, move |request| runner.run(request));
        Ok(0)
    })
}

/// The reference to give to others, to be freed with rsr_startpoint_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_endpoint_startpoint(endpoint: *const rsr_endpoint_t) -> *mut rsr_startpoint_t {
    guard(std::ptr::null_mut(), || {
        // SAFETY: C promises an open endpoint.
        let endpoint = unsafe { shared(endpoint)? };
        Ok(boxed(endpoint.endpoint.startpoint().clone()))
    })
}

/// What the endpoint has seen: requests, payload_bytes, requests_with_holes, lost_bytes, unknown_handlers,
/// malformed_headers, unsupported_flags, other_endpoints. Returns -1 if there is no such name (ENOENT).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_endpoint_counter(endpoint: *const rsr_endpoint_t, name: *const c_char) -> i64 {
    guard(-1, || {
        // SAFETY: C promises an open endpoint, and a string.
        let (endpoint, name) = unsafe { (shared(endpoint)?, text(name)?) };
        let value = endpoint.endpoint.counters().value(name).ok_or(Errno(libc::ENOENT))?;
        Ok(i64::try_from(value).unwrap_or(i64::MAX))
    })
}

/// Takes no more requests, waits for the handlers of those that were taken, and frees the endpoint. In a handler of its
/// own it does not wait. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_endpoint_close(endpoint: *mut rsr_endpoint_t) {
    guard((), || {
        if !endpoint.is_null() {
            // SAFETY: C promises an open endpoint, which it uses no more; `rsr_endpoint_open` made the box.
            drop(unsafe { Box::from_raw(endpoint) });
        }
        Ok(())
    });
}

/// Reads a reference: "rsr:METHOD=ADDRESS,...;id=HEX", as rsr_startpoint_to_string writes it. Without the id it is
/// whichever endpoint is found there. Returns NULL if the text is none (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_startpoint_from_string(string: *const c_char) -> *mut rsr_startpoint_t {
    // SAFETY: C promises a string.
    guard(std::ptr::null_mut(), || Ok(boxed(unsafe { text(string)? }.parse()?)))
}

/// Writes a reference down: at most `size` bytes with the final zero. Returns the length that it has, without the zero: if
/// that is not less than `size`, the text was cut off. `string` may be NULL if `size` is 0. Returns -1 if `startpoint` is
/// NULL (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_startpoint_to_string(
    startpoint: *const rsr_startpoint_t,
    string: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: C promises a startpoint, and `size` bytes.
    unsafe { told_text(string, size, || Ok(shared(startpoint)?.startpoint.to_string())) }
}

/// The same endpoint, reached by this method and no other. Returns NULL if the startpoint does not list it
/// (EPROTONOSUPPORT).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_startpoint_via(
    startpoint: *const rsr_startpoint_t,
    method: *const c_char,
) -> *mut rsr_startpoint_t {
    guard(std::ptr::null_mut(), || {
        // SAFETY: C promises a startpoint, and a string.
        let (startpoint, method) = unsafe { (shared(startpoint)?, text(method)?) };
        Ok(boxed(startpoint.startpoint.via(method)?))
    })
}

/// Another reference to the same endpoint. NULL if `startpoint` is (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_startpoint_copy(startpoint: *const rsr_startpoint_t) -> *mut rsr_startpoint_t {
    guard(std::ptr::null_mut(), || {
        // SAFETY: C promises a startpoint.
        Ok(boxed(unsafe { shared(startpoint)? }.startpoint.clone()))
    })
}

/// Frees a reference. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_startpoint_free(startpoint: *mut rsr_startpoint_t) {
    if !startpoint.is_null() {
        // SAFETY: C promises a startpoint, which it uses no more; `boxed` made the box.
        drop(unsafe { Box::from_raw(startpoint) });
    }
}

/// Runs a handler of an endpoint with what the buffer holds, and returns when the request is there; not when the handler
/// has run. The first method is taken that the startpoint lists, this library has, and whose probe does not fail. The
/// buffer stays yours, as it is.
///
/// Returns 0, or -1 if no method leads to the endpoint (its error; EPROTONOSUPPORT if none is known here), if the request
/// may not have arrived (ETIMEDOUT, ECONNRESET, ...), or is too large (EMSGSIZE). rsr_error says what was tried.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_send(
    startpoint: *const rsr_startpoint_t,
    handler: u16,
    buffer: *mut rsr_buffer_t,
) -> c_int {
    guard(-1, || {
        // SAFETY: C promises a startpoint, and a buffer.
        let (startpoint, buffer) = unsafe { (shared(startpoint)?, some(buffer)?) };
        if let Some((from, _)) = buffer.critical {
            let end = buffer.buffer.len();
            buffer.buffer.mark_critical(from..end);
        }
        context().send(&startpoint.startpoint, handler, &mut buffer.buffer)?;
        Ok(0)
    })
}

/// Why the last call of this thread that failed did, in words. Valid until the next one fails.
#[unsafe(no_mangle)]
pub extern "C" fn rsr_error() -> *const c_char {
    errors::last()
}

/// The handler that was asked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_handler(request: *const rsr_request_t) -> u16 {
    // SAFETY: C promises a request.
    guard(0, || Ok(unsafe { shared(request)? }.request.handler()))
}

/// Who sent it, as the method writes it. Nobody vouches for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_source(request: *const rsr_request_t) -> *const c_char {
    // SAFETY: C promises a request.
    guard(std::ptr::null(), || Ok(unsafe { shared(request)? }.source.as_ptr()))
}

/// The method that brought it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_method(request: *const rsr_request_t) -> *const c_char {
    // SAFETY: C promises a request.
    guard(std::ptr::null(), || Ok(unsafe { shared(request)? }.method.as_ptr()))
}

/// All bytes of a request, and how many: the values as they were put, in the sender's byte order. Those in holes mean
/// nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_payload(request: *const rsr_request_t, size: *mut usize) -> *const c_void {
    guard(std::ptr::null(), || {
        // SAFETY: C promises a request, and a place for the size, or none.
        let payload = unsafe { shared(request)? }.request.payload();
        // SAFETY: as above.
        unsafe { give(size, payload.len()) };
        Ok(payload.as_ptr().cast())
    })
}

/// What of the payload was lost, in bytes: ascending, disjoint ranges. Returns how many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_holes(request: *const rsr_request_t, holes: *mut *const rsr_range) -> usize {
    guard(0, || {
        // SAFETY: C promises a request, and a place for the holes, or none.
        let request = unsafe { shared(request)? };
        // SAFETY: as above.
        unsafe { give(holes, request.holes.as_ptr()) };
        Ok(request.holes.len())
    })
}

/// What was lost of the value that was read last, if reading it failed with ENODATA: ranges of the indices of an array, or
/// of bytes. Returns how many. Valid until the next value is read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_lost(request: *const rsr_request_t, holes: *mut *const rsr_range) -> usize {
    guard(0, || {
        // SAFETY: C promises a request, and a place for the holes, or none.
        let request = unsafe { shared(request)? };
        // SAFETY: as above.
        unsafe { give(holes, request.lost.as_ptr()) };
        Ok(request.lost.len())
    })
}

/// Bytes that were not read yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_remaining(request: *const rsr_request_t) -> usize {
    // SAFETY: C promises a request.
    guard(0, || Ok(unsafe { shared(request)? }.reader().remaining()))
}

fn boxed(startpoint: Startpoint) -> *mut rsr_startpoint_t {
    Box::into_raw(Box::new(rsr_startpoint { startpoint }))
}

/// What a pointer points to, to be changed.
///
/// # Safety
/// It is null, or points to a live one, that nobody else uses meanwhile.
pub(super) unsafe fn some<'a, T>(pointer: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(missing)
}

/// What a pointer points to, also of several threads at once.
///
/// # Safety
/// It is null, or points to a live one, that nobody changes meanwhile.
pub(super) unsafe fn shared<'a, T>(pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(missing)
}

fn missing() -> Failure {
    Failure::new(libc::EINVAL, "an argument is NULL that must not be")
}
