//! Beginnings: services, endpoints, listeners, errors.

#![allow(clippy::missing_safety_doc, reason = "the comments are written for C, where nothing is safe")]

use super::handles::{self, Kind};
use super::line::{Door, Line};
use super::report;
use super::types::{self, pinnace_connection_t, pinnace_endpoint_t, pinnace_listener_t, pinnace_options};
use crate::errors::{self, Failure, told};
use crate::pointers::{text, told_text};
use libc::{c_char, c_int};
use pinnace::a1::SlowSink;
use pinnace::service::{Method, Selection, Service};
use pinnace::{Connection, Endpoint, EndpointOptions};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

/// The version of the library, "MAJOR.MINOR.PATCH". Compare with PINNACE_VERSION, that of this header.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Why the last call of this thread that failed did, in words: who, by which method, and what may help. "" if none has.
/// Valid until the next one fails; the number is in errno.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_error() -> *const c_char {
    errors::last()
}

/// Reads a service, and writes it as it is understood: in its shortest form, the words in their order. `service` is words
/// ("loss=5% run=4KiB size=2MB"), a URI of which only the service counts, or NULL for the default, which is "".
///
/// Writes at most `size` bytes, with the final zero. Returns the length that the text has, without the zero: if that is not
/// less than `size`, it was cut off. `string` may be NULL if `size` is 0. Returns -1 if it is not understood (EINVAL:
/// pinnace_error says which word, and what may be meant).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_service_text(service: *const c_char, string: *mut c_char, size: usize) -> c_int {
    // SAFETY: C promises a string, or NULL, and room for `size` bytes.
    unsafe { told_text(string, size, || Ok(service_of(service)?.0.to_string())) }
}

/// Says which method would carry a service, at what cost, and why; what every other one offers; and what would change the
/// choice: a line each. Nothing is sent. `service` is as in pinnace_service_text; `peer` is "host" or "host:port", or NULL: the
/// host of the URI, or anywhere on the Internet. That no method can carry it is no error here: the first line says so.
///
/// Writes as pinnace_service_text does, and returns the length. Returns -1 if the service is not understood (EINVAL), or the
/// peer has no address (EADDRNOTAVAIL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_explain(
    service: *const c_char,
    peer: *const c_char,
    string: *mut c_char,
    size: usize,
) -> c_int {
    let explain = || {
        // SAFETY: C promises strings, or NULL.
        let ((service, host), peer) = unsafe { (service_of(service)?, optional(peer)?) };
        let peer = peer.map(str::to_owned).or(host);
        report::explain(&service, peer.as_deref(), &Selection::default())
    };
    // SAFETY: C promises room for `size` bytes.
    unsafe { told_text(string, size, explain) }
}

/// Opens an endpoint. `address` is "host:port", a UDP port of this host to listen at (port 0 picks one, "[::]:4747" is
/// every address); NULL makes one that only connects. `options` may be NULL.
///
/// Returns NULL if the address is taken (EADDRINUSE), is not this host's or does not resolve (EADDRNOTAVAIL), or is none: it has
/// no port, or a scheme (EINVAL); if the options have a wrong size or name an unknown method (EINVAL), or say more than the
/// library knows (E2BIG). To be closed with pinnace_endpoint_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_endpoint_open(
    address: *const c_char,
    options: *const pinnace_options,
) -> *mut pinnace_endpoint_t {
    told(null_mut(), || {
        // SAFETY: C promises a string, or NULL; and options of their size, or NULL.
        let (address, options) = unsafe { (optional(address)?, options_of(options)?) };
        let endpoint = match address {
            Some(address) => Endpoint::bind_with(address, &options)?,
            None => Endpoint::client_with(&options),
        };
        handle(Arc::new(endpoint))
    })
}

/// The address of an endpoint as text, "127.0.0.1:4747", as pinnace_connect takes it; "" if it only connects. Writes as
/// pinnace_service_text does, and returns the length, or -1 (EBADF).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_endpoint_address(
    endpoint: *mut pinnace_endpoint_t,
    string: *mut c_char,
    size: usize,
) -> c_int {
    let address = || {
        let endpoint: Arc<Endpoint> = find(endpoint)?;
        Ok(endpoint.local_addr().map(|address| address.to_string()).unwrap_or_default())
    };
    // SAFETY: C promises room for `size` bytes.
    unsafe { told_text(string, size, address) }
}

/// Listens at an endpoint. `most` is what is accepted at most, a service as in pinnace_service_text: larger messages, higher
/// rates and longer bursts than it says are refused; what it does not say is not limited, and NULL limits nothing. That the
/// network is a cluster ("path=cluster") is believed of others if it says so, too.
///
/// Returns NULL if somebody listens at this endpoint already (EADDRINUSE), if it only connects, or the service is not
/// understood (EINVAL). The listener stays when the endpoint is closed. To be closed with pinnace_listener_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_endpoint_listen(
    endpoint: *mut pinnace_endpoint_t,
    most: *const c_char,
) -> *mut pinnace_listener_t {
    told(null_mut(), || {
        let endpoint: Arc<Endpoint> = find(endpoint)?;
        if endpoint.local_addr().is_none() {
            let why =
                "this endpoint only connects: it is not bound, because pinnace_endpoint_open was given no address";
            return Err(Failure::new(libc::EINVAL, why));
        }
        // SAFETY: C promises a string, or NULL.
        let (most, _) = unsafe { service_of(most)? };
        handle(Arc::new(Door::new(&endpoint, &most)?))
    })
}

/// Connects to whoever listens at `peer`: "host:port", or a URI, "pinnace://host:port?loss=5%&run=4KiB", whose service counts
/// if it has one; `service`, as in pinnace_service_text, counts otherwise. Both ends agree on the cheapest method that
/// meets the service. Waits for 7 seconds at most for each address, and for 17 for each method that does not get through.
///
/// Returns NULL if the service, the URI or the address is not understood, has another scheme, no port or port 0 (EINVAL), if
/// the host has no address (EADDRNOTAVAIL), if no method can meet the service here (ENOTSUP), if nobody answers (ETIMEDOUT), or
/// the peer refuses (ECONNREFUSED) or is reached by no method (EHOSTUNREACH). pinnace_error says what was tried. To be closed
/// with pinnace_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_endpoint_connect(
    endpoint: *mut pinnace_endpoint_t,
    peer: *const c_char,
    service: *const c_char,
) -> *mut pinnace_connection_t {
    told(null_mut(), || {
        let endpoint: Arc<Endpoint> = find(endpoint)?;
        // SAFETY: C promises strings; the service may be NULL.
        let (peer, (service, _)) = unsafe { (required(peer, "peer")?, service_of(service)?) };
        connected(endpoint.connect(peer, &service)?)
    })
}

/// Closes an endpoint. Its listener and its connections go on. Returns 0, or -1 if it is none (EBADF) or NULL (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_endpoint_close(endpoint: *mut pinnace_endpoint_t) -> c_int {
    told(-1, || {
        drop(handles::current().remove::<Endpoint>(endpoint.addr())?);
        Ok(0)
    })
}

/// Listens at `address`, "host:port": pinnace_endpoint_open and pinnace_endpoint_listen in one, and returns NULL as they do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_listen(address: *const c_char, most: *const c_char) -> *mut pinnace_listener_t {
    told(null_mut(), || {
        // SAFETY: C promises strings; the service may be NULL.
        let (address, (most, _)) = unsafe { (required(address, "address")?, service_of(most)?) };
        handle(Arc::new(Door::new(&Endpoint::bind(address)?, &most)?))
    })
}

/// Connects to a URI, "pinnace://host:port?loss=5%&run=4KiB", or to "host:port" with the default service, by an endpoint with
/// the default options. As pinnace_endpoint_connect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_connect(peer: *const c_char) -> *mut pinnace_connection_t {
    told(null_mut(), || {
        // SAFETY: C promises a string.
        let peer = unsafe { required(peer, "peer")? };
        connected(pinnace::connect(peer)?)
    })
}

/// The address that is listened at as text, "127.0.0.1:4747", as pinnace_connect takes it. Writes as pinnace_service_text
/// does, and returns the length, or -1 (EBADF).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_listener_address(
    listener: *mut pinnace_listener_t,
    string: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: C promises room for `size` bytes.
    unsafe { told_text(string, size, || Ok(find::<Door, _>(listener)?.address.clone())) }
}

/// The port that is listened at, or -1 (EBADF).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_listener_port(listener: *mut pinnace_listener_t) -> c_int {
    told(-1, || {
        let door: Arc<Door> = find(listener)?;
        Ok(c_int::from(door.port()))
    })
}

/// A descriptor for poll, select and epoll: readable (POLLIN) while somebody waits to be accepted. It is the listener's: valid
/// until that is closed, not to be read from, and not to be closed. Returns -1 if there is none (EBADF, EMFILE).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_listener_fd(listener: *mut pinnace_listener_t) -> c_int {
    told(-1, || find::<Door, _>(listener)?.descriptor())
}

/// Waits for the next connection, at most `timeout_ms` milliseconds; 0 does not wait, and less than 0 waits as long as it takes.
///
/// Returns NULL if nobody has come in this time (EAGAIN), or another thread closes the listener (ECANCELED). To be closed with
/// pinnace_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_accept(
    listener: *mut pinnace_listener_t,
    timeout_ms: c_int,
) -> *mut pinnace_connection_t {
    told(null_mut(), || {
        let door: Arc<Door> = find(listener)?;
        connected(door.accept(timeout_ms)?)
    })
}

/// Accepts no more. Connections that were accepted go on; who waits in pinnace_accept is told (ECANCELED) soon. Returns 0, or
/// -1 if it is none (EBADF) or NULL (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_listener_close(listener: *mut pinnace_listener_t) -> c_int {
    told(-1, || {
        handles::current().remove::<Door>(listener.addr())?.close();
        Ok(0)
    })
}

/// A handle for C.
pub(super) fn handle<K: Kind, T>(it: Arc<K>) -> Result<*mut T, Failure> {
    Ok(std::ptr::without_provenance_mut(handles::current().add(it)?))
}

/// A handle for a new connection.
pub(super) fn connected(connection: Connection) -> Result<*mut pinnace_connection_t, Failure> {
    handle(Arc::new(Line::new(connection)))
}

/// What has this handle.
pub(super) fn find<K: Kind, T>(handle: *mut T) -> Result<Arc<K>, Failure> {
    handles::current().find(handle.addr())
}

/// A text, or none.
///
/// # Safety
/// It is null, or points to a string.
unsafe fn optional<'a>(string: *const c_char) -> Result<Option<&'a str>, Failure> {
    if string.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { text(string) }.map(Some).map_err(|_| Failure::new(libc::EINVAL, "a text is no UTF-8"))
}

/// A text that must be there.
///
/// # Safety
/// It is null, or points to a string.
pub(super) unsafe fn required<'a>(string: *const c_char, name: &str) -> Result<&'a str, Failure> {
    // SAFETY: the caller's promise.
    unsafe { optional(string)? }.ok_or_else(|| Failure::new(libc::EINVAL, format!("the {name} is NULL")))
}

/// A service, and the host of its URI.
///
/// # Safety
/// It is null, or points to a string.
pub(super) unsafe fn service_of(string: *const c_char) -> Result<(Service, Option<String>), Failure> {
    // SAFETY: the caller's promise.
    report::service_of(unsafe { optional(string)? })
}

/// The options of an endpoint.
///
/// # Safety
/// It is null, or points to options of their size, with strings in them.
unsafe fn options_of(options: *const pinnace_options) -> Result<EndpointOptions, Failure> {
    let mut result = EndpointOptions::default();
    if options.is_null() {
        return Ok(result);
    }
    // SAFETY: the caller's promise.
    let options = unsafe { types::read(options)? };
    // SAFETY: as above.
    let (force, exclude) = unsafe { (optional(options.force)?, optional(options.exclude)?) };
    let method = |name: &str| {
        let method: Result<Method, String> = name.trim().parse();
        method.map_err(|why| Failure::new(libc::EINVAL, format!("`{name}`: {why}")))
    };
    result.selection.forced = force.map(method).transpose()?;
    let excluded = exclude.unwrap_or_default().split(',').filter(|name| !name.trim().is_empty());
    result.selection.excluded = excluded.map(method).collect::<Result<_, _>>()?;
    // SAFETY: as above.
    if let Some(name) = unsafe { optional(options.congestion)? } {
        let control = name.parse().map_err(|why| Failure::new(libc::EINVAL, format!("`{name}`: {why}")));
        result.congestion = Some(control?);
    }
    if options.longest_message != 0 {
        result.longest_message = options.longest_message;
    }
    if options.peer_timeout_ms != 0 {
        result.peer_timeout = Duration::from_millis(u64::from(options.peer_timeout_ms));
    }
    if options.connect_timeout_ms != 0 {
        result.connect_timeout = Some(Duration::from_millis(u64::from(options.connect_timeout_ms)));
    }
    if options.backlog != 0 {
        result.backlog = options.backlog as usize;
    }
    if options.slow_receiver_skips != 0 {
        result.slow_receiver = SlowSink::Degrade;
    } else if options.slow_receiver_ms != 0 {
        result.slow_receiver = SlowSink::Drop { patience: Duration::from_millis(u64::from(options.slow_receiver_ms)) };
    }
    Ok(result)
}
