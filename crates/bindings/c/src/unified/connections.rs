//! What is known of a connection, and its end.

#![allow(clippy::missing_safety_doc, reason = "the comments are written for C, where nothing is safe")]

use super::abi::{find, service_of};
use super::line::Line;
use super::types::pinnace_connection_t;
use super::{handles, report, waiting};
use crate::errors::{Failure, told};
use crate::pointers::told_text;
use libc::{c_char, c_int};
use std::ptr::null;
use std::sync::Arc;

/// What carries a connection: "shared-memory", "zcrp", "vrp", "xtp", "qmp" or "a1"; valid for ever. NULL if it is none (EBADF).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_method(connection: *mut pinnace_connection_t) -> *const c_char {
    told(null(), || {
        let line: Arc<Line> = find(connection)?;
        Ok(line.method().as_ptr())
    })
}

/// Where the peer's socket is, of the method that was chosen, as text. Writes as pinnace_service_text does, and returns the
/// length, or -1 (EBADF).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_peer(
    connection: *mut pinnace_connection_t,
    string: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: C promises room for `size` bytes.
    unsafe { told_text(string, size, || Ok(find::<Line, _>(connection)?.connection.peer_addr().to_string())) }
}

/// The service with which messages are sent, as text. Writes as pinnace_service_text does, and returns the length, or -1
/// (EBADF).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_service(
    connection: *mut pinnace_connection_t,
    string: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: C promises room for `size` bytes.
    unsafe { told_text(string, size, || Ok(find::<Line, _>(connection)?.connection.service().to_string())) }
}

/// Sends with another service from now on: `service` is as in pinnace_service_text, and what it does not say is the default.
/// The method stays, and so do direction, order, receivers and pattern.
///
/// Returns 0; or -1, and nothing has changed, if the service is not understood (EINVAL), or the method does not meet it here
/// or cannot change to it (ENOTSUP: pinnace_error says why).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_set_service(connection: *mut pinnace_connection_t, service: *const c_char) -> c_int {
    told(-1, || {
        let line: Arc<Line> = find(connection)?;
        // SAFETY: C promises a string, or NULL.
        let (service, _) = unsafe { service_of(service)? };
        line.connection.set_service(&service)?;
        Ok(0)
    })
}

/// Says why it is this method: its offer, and those of the others, a line each. Writes as pinnace_service_text does, and
/// returns the length; or -1 if it is none (EBADF), or the service, as it is now, would not be carried by it (ENOTSUP: on the
/// accepting side the peer has chosen, by what it knew).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_explain_connection(
    connection: *mut pinnace_connection_t,
    string: *mut c_char,
    size: usize,
) -> c_int {
    let explain = || {
        let choice = find::<Line, _>(connection)?.connection.explain();
        let why = "by what this end knows, the method would not carry the service: the peer has chosen";
        Ok(report::of_choice(&choice.ok_or_else(|| Failure::new(libc::ENOTSUP, why))?))
    };
    // SAFETY: C promises room for `size` bytes.
    unsafe { told_text(string, size, explain) }
}

/// A descriptor for poll, select and epoll: readable (POLLIN) when a message may have come, or the end of them; also without
/// a reason. Go on with pinnace_recv and a timeout of 0 until that fails with EAGAIN: then it is not readable any more until
/// something comes. Do so once when you have asked for it: what has come before need not make it readable. It is the
/// connection's: valid until that is closed, not to be read from, and not to be closed. Returns -1 if there is none (EBADF,
/// EMFILE), or nothing comes this way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_fd(connection: *mut pinnace_connection_t) -> c_int {
    told(-1, || find::<Line, _>(connection)?.descriptor())
}

/// Waits until everything that was sent has arrived; without a limit of time, but that of a peer that is silent
/// (peer_timeout_ms of struct pinnace_options). As pinnace_flush_within with less than 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_flush(connection: *mut pinnace_connection_t) -> c_int {
    told(-1, || {
        find::<Line, _>(connection)?.flush(-1)?;
        Ok(0)
    })
}

/// Waits until everything that was sent has arrived, at most `timeout_ms` milliseconds (0 does not wait, less than 0 waits as
/// long as it takes). What the peer has acknowledged stays acknowledged, whatever has become of it since.
///
/// Returns 0; or -1 if it has not arrived in this time (EAGAIN: it goes on, and a later call waits again), another thread closes
/// the connection (ECANCELED), or something does not arrive: the peer has closed (EPIPE), has broken off (ECONNRESET), or does
/// not answer any more (ETIMEDOUT).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_flush_within(connection: *mut pinnace_connection_t, timeout_ms: c_int) -> c_int {
    told(-1, || {
        find::<Line, _>(connection)?.flush(timeout_ms)?;
        Ok(0)
    })
}

/// Tells whether the peer is there, as far as is known, and waits for nothing: for whoever neither sends nor receives for
/// long, but waits for input from elsewhere. A peer that has been silent for two seconds is asked, and a later call tells: call
/// it every second or so. Whoever sends or receives finds out by that.
///
/// Returns 0; or -1 if the peer has closed and takes nothing any more (EPIPE), has broken off (ECONNRESET), or does not answer
/// (ETIMEDOUT: after peer_timeout_ms of struct pinnace_options). What has come before can still be received.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_check(connection: *mut pinnace_connection_t) -> c_int {
    told(-1, || {
        find::<Line, _>(connection)?.connection.check()?;
        Ok(0)
    })
}

/// Sends no more: waits at most `linger_ms` milliseconds (less than 0: as long as it takes) for what was sent to arrive, and
/// tells the peer, whose pinnace_recv returns 0 behind the last message. What the peer sends can still be received.
///
/// Returns 0; or -1 if not everything has arrived, or nobody knows. With ETIMEDOUT the end follows what was sent as long as the
/// connection is there, and a second call waits again: so a `linger_ms` of 0 ends what is sent and waits for nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_shutdown(connection: *mut pinnace_connection_t, linger_ms: c_int) -> c_int {
    told(-1, || {
        find::<Line, _>(connection)?.shutdown(waiting::time(linger_ms))?;
        Ok(0)
    })
}

/// Closes a connection whose content is not complete: what was sent and has not arrived is given up, and the peer, who could
/// not know otherwise that something is missing, gets an error (ECONNRESET, ...) behind what has come, and not 0. The handle is
/// gone, as with pinnace_close. May take a fifth of a second, and over a slow path two seconds.
///
/// Returns 0; or -1 if it is none (EBADF) or NULL (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_abort(connection: *mut pinnace_connection_t) -> c_int {
    told(-1, || {
        let handles = handles::current();
        let line = handles.remove::<Line>(connection.addr())?;
        line.abort();
        part(line);
        Ok(0)
    })
}

/// Closes a connection: pinnace_shutdown, and the handle is gone, however that ended. Who waits in pinnace_recv is told
/// (ECANCELED) soon. Messages that were received stay until they are freed; of messages that were sent the completions
/// still come. Of what is given up then the peer is told as by pinnace_abort, which may take as long beyond `linger_ms`.
///
/// Returns 0; or -1 if not everything has arrived, or nobody knows (ETIMEDOUT, ...), if it is none (EBADF) or NULL (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_close(connection: *mut pinnace_connection_t, linger_ms: c_int) -> c_int {
    told(-1, || {
        let handles = handles::current();
        let line = handles.remove::<Line>(connection.addr())?;
        let result = line.close(waiting::time(linger_ms));
        part(line);
        result.map(|()| 0)
    })
}

/// It is gone for C, and for a while not for its peer.
fn part(line: Arc<Line>) {
    if !line.is_sink() {
        handles::current().part(line);
    }
}
