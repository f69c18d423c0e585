//! One source and several receivers.

#![allow(clippy::missing_safety_doc, reason = "the comments are written for C, where nothing is safe")]

use super::abi::{connected, find, required, service_of};
use super::line::Line;
use super::types::{self, pinnace_connection_t, pinnace_endpoint_t, pinnace_receiver};
use super::types::{
    PINNACE_RECEIVER_CONNECTED, PINNACE_RECEIVER_LEFT, PINNACE_RECEIVER_LOST, PINNACE_RECEIVER_TOO_SLOW,
};
use super::waiting;
use crate::errors::{Failure, told};
use libc::{c_char, c_int};
use pinnace::{Connection, Endpoint, ReceiverState, ReceiverStatus};
use std::net::SocketAddr;
use std::ptr::null_mut;
use std::sync::Arc;

/// Connects to several receivers at once: what is sent goes to all of them. `peers` are `count` strings, "host:port" or URIs
/// that say the same; each is that of an ordinary listener, which accepts an ordinary connection to receive from. Messages go
/// one way, by A1.
///
/// `service` says how many receivers there are ("multicast=3"), and then so many have to be named; or through which IP
/// multicast group they may get the messages ("multicast=239.1.2.3:7000"), where those that cannot join it get them one by
/// one, as all do without a group. One that says nothing is taken to mean those that are named. A single one is connected to
/// as by pinnace_endpoint_connect.
///
/// A message has arrived when all that are there then have it. A receiver that dies, or is too slow (struct pinnace_options),
/// is cut off, and pinnace_receiver_at says so; the others do not notice.
///
/// Returns NULL as pinnace_endpoint_connect does, with the words for the receiver that does not answer or refuses, and then
/// nobody is connected; also if not as many are named as the service says, or one is named twice (ENOTSUP), or `peers` or one of
/// them is NULL (EINVAL). To be closed with pinnace_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_endpoint_connect_all(
    endpoint: *mut pinnace_endpoint_t,
    peers: *const *const c_char,
    count: usize,
    service: *const c_char,
) -> *mut pinnace_connection_t {
    told(null_mut(), || {
        let endpoint: Arc<Endpoint> = find(endpoint)?;
        // SAFETY: C promises strings, as many as it says.
        connected(unsafe { connection_to_all(&endpoint, peers, count, service)? })
    })
}

/// Connects to several receivers at once, by an endpoint with the default options. As pinnace_endpoint_connect_all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_connect_all(
    peers: *const *const c_char,
    count: usize,
    service: *const c_char,
) -> *mut pinnace_connection_t {
    told(null_mut(), || {
        // SAFETY: C promises strings, as many as it says.
        connected(unsafe { connection_to_all(&Endpoint::client(), peers, count, service)? })
    })
}

/// Writes what is known of the receiver number `index`, from 0, in the order in which they were added, to `receiver`. Of a
/// connection with one peer there are none.
///
/// Returns 1; 0 if there are not so many; or -1 (EBADF, or EINVAL: the size of `receiver` is wrong).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_receiver_at(
    connection: *mut pinnace_connection_t,
    index: usize,
    receiver: *mut pinnace_receiver,
) -> c_int {
    told(-1, || {
        let line: Arc<Line> = find(connection)?;
        // SAFETY: C promises one of its size, or NULL.
        unsafe { types::check(receiver)? };
        let receivers = line.connection.receivers();
        let Some(status) = receivers.get(index) else { return Ok(0) };
        // SAFETY: it was checked.
        unsafe { types::write(receiver, &told_of(status)) };
        Ok(1)
    })
}

/// Adds a receiver, "host:port", to a connection that pinnace_connect_all has made to several; what is sent from then on goes to
/// it, too. One that is gone may be added again. Waits until it has accepted; other threads may send meanwhile.
///
/// Returns 0; or -1 as pinnace_endpoint_connect_all, or if the connection has one peer (ENOTSUP).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_add_receiver(connection: *mut pinnace_connection_t, peer: *const c_char) -> c_int {
    told(-1, || {
        let line: Arc<Line> = find(connection)?;
        // SAFETY: C promises a string.
        let peer = unsafe { required(peer, "peer")? };
        if !line.is_source {
            let why = "a connection with one peer gets no others: pinnace_connect_all connects to several";
            return Err(Failure::new(libc::ENOTSUP, why));
        }
        line.connection.add_receiver(peer)?;
        Ok(0)
    })
}

/// Removes the receiver with this address, as pinnace_receiver_at says it: it gets what was sent, within `linger_ms`
/// milliseconds (less than 0: as long as it takes), and then its connection ends; if there is not the time for that, not in
/// order. Waits for it.
///
/// Returns 0; or -1 if there is none at this address (ENOTSUP), the address is none (EINVAL), or it did not get everything
/// (ETIMEDOUT, ...).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_remove_receiver(
    connection: *mut pinnace_connection_t,
    address: *const c_char,
    linger_ms: c_int,
) -> c_int {
    told(-1, || {
        let line: Arc<Line> = find(connection)?;
        // SAFETY: C promises a string.
        let address = unsafe { required(address, "address")? };
        let parsed: Result<SocketAddr, _> = address.parse();
        let parsed =
            parsed.map_err(|_| Failure::new(libc::EINVAL, format!("`{address}` is no address of a receiver")))?;
        line.connection.remove_receiver(parsed, waiting::time(linger_ms))?;
        Ok(0)
    })
}

/// Connects to all of them.
///
/// # Safety
/// `peers` is null, or points to `count` pointers that are null, or point to strings; `service` is null, or points to a string.
unsafe fn connection_to_all(
    endpoint: &Endpoint,
    peers: *const *const c_char,
    count: usize,
    service: *const c_char,
) -> Result<Connection, Failure> {
    if peers.is_null() && count > 0 {
        return Err(Failure::new(libc::EINVAL, "the peers are NULL"));
    }
    let mut names = Vec::new();
    for at in 0..count {
        // SAFETY: there are `count` of them, and each is a string, or NULL.
        names.push(unsafe { required(peers.add(at).read(), &format!("peer {at}"))? });
    }
    // SAFETY: the caller's promise.
    let (service, _) = unsafe { service_of(service)? };
    Ok(endpoint.connect_all(&names, &service)?)
}

/// As C is told.
fn told_of(status: &ReceiverStatus) -> pinnace_receiver {
    let text = status.address.to_string();
    let mut address = [0; 64];
    // The longest address, with a scope, is shorter.
    for (to, from) in address.iter_mut().take(63).zip(text.bytes()) {
        *to = from as c_char;
    }
    let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
    pinnace_receiver {
        size: 0,
        address,
        state: match &status.state {
            ReceiverState::Connected => PINNACE_RECEIVER_CONNECTED,
            ReceiverState::Left => PINNACE_RECEIVER_LEFT,
            ReceiverState::TooSlow => PINNACE_RECEIVER_TOO_SLOW,
            ReceiverState::Lost(_) => PINNACE_RECEIVER_LOST,
        },
        is_in_group: c_int::from(status.in_group),
        skipped: status.skipped,
        round_trip_us: status.round_trip.map_or(0, micros),
    }
}
