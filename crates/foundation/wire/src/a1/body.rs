//! Bodies: what follows the header.
//!
//! | offset | size | OPEN, ACCEPT |
//! |---|---|---|
//! | 0 | 8 | destination: host in the upper 32 bits, port in the lower |
//! | 8 | 8 | source |
//! | 16 | 4 | connection identifier of this end, not 0; of OPEN the same as in the header |
//! | 20 | 48 | QoS record |
//! | 68 | 2 | OPEN only, or missing: length of the cookie, 0 or 16 to 64 |
//! | 70 | n | OPEN only: the cookie |
//! | 70 + n | 10 | OPEN only, or missing: a group: identifier u32, IPv4 address u32, UDP port u16 |
//!
//! | offset | size | QoS record |
//! |---|---|---|
//! | 0 | 2 | options: bit 0 checksum, bit 1 retransmission |
//! | 2 | 1 | priority |
//! | 3 | 1 | reserved (0) |
//! | 4 | 4 | block size |
//! | 8 | 8 | send average |
//! | 16 | 4 | send burst |
//! | 20 | 8 | receive average |
//! | 28 | 4 | receive burst |
//! | 32 | 4 | largest message sent |
//! | 36 | 4 | largest message received |
//! | 40 | 4 | outstanding messages |
//! | 44 | 4 | deadline, microseconds |
//!
//! | type | body |
//! |---|---|
//! | REJECT | code u16, length u16, text, or a cookie if the code is 4 |
//! | ACK, NACK | ranges, see [`super::Ranges`] |
//! | QOS, QOS_REPLY | epoch u32, QoS record |
//! | CLOSE, CLOSE_REPLY | code u16 |

use super::{
    Accept, Address, Body, CHECKSUM, COOKIE_REQUIRED, Change, CloseCode, Cookie, GROUP_BYTES, Group, Head, Kind,
    LENGTH_BYTES, Open, QOS_BYTES, Qos, REJECT_BYTES, RETRANSMISSION, Ranges, Reject, RejectCode, SETUP_BYTES,
};
use crate::{Malformed, be16, be32};
use core::net::{Ipv4Addr, SocketAddrV4};
use core::num::NonZeroU32;

impl<'a> Body<'a> {
    /// Reads the body: what follows the header, and perhaps bytes of padding behind it. Of DATA nothing of it is looked at,
    /// so it may be missing.
    ///
    /// # Errors
    ///
    /// `bytes` is shorter than [`Head::body_bytes`]; a length lies; a reserved bit or field is not 0; a code is not
    /// defined; ranges do not lie ahead; a text is not UTF-8; an identifier is 0, or not that of the header; a group
    /// is not one of multicast; or the QoS record says of the checksum what the datagram does not.
    #[inline]
    pub fn parse(head: &Head, bytes: &'a [u8]) -> Result<Self, Malformed> {
        // Most datagrams are these, so they are read where this is called.
        if let Some(block) = head.block() {
            return Ok(Body::Data(*block));
        }
        control(head, bytes)
    }
}

/// Reads the body of all but DATA. [`Head::parse`] has checked that the length is possible.
#[inline(never)]
fn control<'a>(head: &Head, bytes: &'a [u8]) -> Result<Body<'a>, Malformed> {
    let bytes = bytes.get(..head.body_bytes()).ok_or(Malformed::Size)?;
    Ok(match head.kind {
        Kind::Open => Body::Open(open(head, bytes)?),
        Kind::Accept => Body::Accept(accept(head, bytes)?),
        Kind::Reject => Body::Reject(reject(bytes)?),
        Kind::Ack => Body::Ack(ranges(head, bytes, true)?),
        Kind::Nack => Body::Nack(ranges(head, bytes, false)?),
        Kind::Sync => Body::Sync,
        Kind::SyncReply => Body::SyncReply,
        Kind::Close => Body::Close(close(bytes)?),
        Kind::CloseReply => Body::CloseReply(close(bytes)?),
        Kind::Qos => Body::Qos(change(head, bytes)?),
        Kind::QosReply => Body::QosReply(change(head, bytes)?),
        // A `Head` of DATA has a block, so this is not reached.
        Kind::Data => return Err(Malformed::Contradiction),
    })
}

fn open<'a>(head: &Head, bytes: &'a [u8]) -> Result<Open<'a>, Malformed> {
    if be32(bytes, 16) != head.header.connection.get() {
        return Err(Malformed::Contradiction);
    }
    let (cookie, group) = match &bytes[SETUP_BYTES..] {
        [] => (None, None),
        more => behind_open(more)?,
    };
    Ok(Open { destination: address(bytes, 0), source: address(bytes, 8), qos: qos(&bytes[20..])?, cookie, group })
}

/// The cookie and the group.
fn behind_open(bytes: &[u8]) -> Result<(Option<Cookie<'_>>, Option<Group>), Malformed> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>().ok_or(Malformed::Length)?;
    let (cookie, rest) = rest.split_at_checked(be16(length, 0).into()).ok_or(Malformed::Length)?;
    let cookie = match cookie {
        [] => None,
        bytes => Some(Cookie::new(bytes).ok_or(Malformed::Length)?),
    };
    let group = match rest.len() {
        0 => None,
        GROUP_BYTES => {
            let identifier = NonZeroU32::new(be32(rest, 0)).ok_or(Malformed::Contradiction)?;
            let socket = SocketAddrV4::new(Ipv4Addr::from(be32(rest, 4)), be16(rest, 8));
            Some(Group::new(identifier, socket).ok_or(Malformed::Contradiction)?)
        }
        _ => return Err(Malformed::Length),
    };
    Ok((cookie, group))
}

fn accept(head: &Head, bytes: &[u8]) -> Result<Accept, Malformed> {
    Ok(Accept {
        destination: address(bytes, 0),
        source: address(bytes, 8),
        identifier: NonZeroU32::new(be32(bytes, 16)).ok_or(Malformed::Contradiction)?,
        qos: qos_of(head, &bytes[20..])?,
        has_joined: head.has_joined(),
    })
}

fn reject(bytes: &[u8]) -> Result<Reject<'_>, Malformed> {
    let text = &bytes[REJECT_BYTES..];
    if usize::from(be16(bytes, 2)) != text.len() {
        return Err(Malformed::Length);
    }
    let code = be16(bytes, 0);
    if code == COOKIE_REQUIRED {
        return Cookie::new(text).map(Reject::Cookie).ok_or(Malformed::Length);
    }
    let code = RejectCode::from_wire(code).ok_or(Malformed::Unknown)?;
    let text = core::str::from_utf8(text).map_err(|_| Malformed::Contradiction)?;
    Ok(Reject::Refused { code, text })
}

fn ranges<'a>(head: &Head, bytes: &'a [u8], is_beyond: bool) -> Result<Ranges<'a>, Malformed> {
    // The header has seen to it that nothing is left over.
    let ranges = Ranges::from_wire(bytes.as_chunks().0);
    if ranges.lie_ahead_of(head.header.sequence, is_beyond) { Ok(ranges) } else { Err(Malformed::Contradiction) }
}

fn close(bytes: &[u8]) -> Result<CloseCode, Malformed> {
    CloseCode::from_wire(be16(bytes, 0)).ok_or(Malformed::Unknown)
}

fn change(head: &Head, bytes: &[u8]) -> Result<Change, Malformed> {
    Ok(Change { epoch: be32(bytes, 0), qos: qos_of(head, &bytes[4..])? })
}

fn address(bytes: &[u8], at: usize) -> Address {
    Address { host: be32(bytes, at), port: be32(bytes, at + 4) }
}

/// The record that is in force: it has a checksum exactly if its datagram has.
fn qos_of(head: &Head, bytes: &[u8]) -> Result<Qos, Malformed> {
    let qos = qos(bytes)?;
    if qos.has_checksum == head.header.is_checked { Ok(qos) } else { Err(Malformed::Contradiction) }
}

/// The record at the beginning of `bytes`. The caller has checked the length.
fn qos(bytes: &[u8]) -> Result<Qos, Malformed> {
    let bytes = &bytes[..QOS_BYTES];
    let options = be16(bytes, 0);
    if options & !(CHECKSUM | RETRANSMISSION) != 0 {
        return Err(Malformed::Unknown);
    }
    if bytes[3] != 0 {
        return Err(Malformed::Contradiction);
    }
    let long = |at| u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4));
    Ok(Qos {
        has_checksum: options & CHECKSUM != 0,
        has_retransmission: options & RETRANSMISSION != 0,
        priority: bytes[2],
        block_size: be32(bytes, 4),
        send_average: long(8),
        send_burst: be32(bytes, 16),
        receive_average: long(20),
        receive_burst: be32(bytes, 28),
        largest_sent: be32(bytes, 32),
        largest_received: be32(bytes, 36),
        outstanding: be32(bytes, 40),
        deadline: be32(bytes, 44),
    })
}
