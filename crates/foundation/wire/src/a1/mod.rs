//! A1 datagrams (specs/a1.md, sections 1 and 1.1): a header of 32 bytes, and what its type says follows.
//!
//! A datagram is read in steps, because its body need not lie where its header lies: [`Head::parse`] takes the first
//! [`HEADER_BYTES`] and the length of the datagram, [`Head::verify`] the bytes that are summed, piece by piece, and
//! [`Body::parse`] the body, of which it never looks at a block of data. A datagram that fails any of the three is dropped
//! in silence. Always true: whatever section 1.1 says of one datagram alone holds of a [`Head`] and a [`Body`], and what a
//! [`Body`] borrows was checked to its end. Not checked here, because it needs a connection: numbers against a window, the
//! checksum and retransmission options against those in force, and block sizes, which REJECT 2 answers.
//!
//! Every type but REJECT, and DATA of a group, may tell an edge: what a receiver takes does not depend on why it speaks.
//!
//! | type | [`Header::sequence`] | [`Header::edge`] | body |
//! |---|---|---|---|
//! | OPEN | the first block of the opener | the window, as a count; it should be below [`WINDOW_LIMIT`] | [`Open`] |
//! | ACCEPT | the first block of the acceptor | yes | [`Accept`] |
//! | REJECT | 0 | 0 | [`Reject`] |
//! | DATA | the block | yes; 0 in a group | [`Block`], and its bytes |
//! | ACK | the next block expected | yes | [`Ranges`] received beyond it; there may be none |
//! | NACK | the next block expected | yes | [`Ranges`] missing from it on; there should be one |
//! | SYNC | the next block never sent | yes | |
//! | SYNC_REPLY | the next block expected | yes | |
//! | QOS, QOS_REPLY | the first block under the record | yes | [`Change`] |
//! | CLOSE | the next block never sent | yes | [`CloseCode`] |
//! | CLOSE_REPLY | the next block expected | yes | [`CloseCode`] |
//!
//! Control datagrams are written whole, with their checksum. Of DATA only the header is written, by [`data`]; where it is
//! checked, whoever sends it fills in the Internet checksum of the whole datagram at [`CHECK_AT`].
//!
//! ```
//! use pinnace_wire::a1::{self, Body, HEADER_BYTES, Head, Header, Ranges};
//! use core::num::NonZeroU32;
//!
//! let header = Header {
//!     connection: NonZeroU32::new(7).unwrap(),
//!     sequence: 100,
//!     edge: 116,
//!     stamp: 5_000,
//!     is_checked: true,
//!     is_retransmitted: false,
//! };
//! let received = Ranges::from_slice(&[(102, 105)]);
//! let mut datagram = Vec::new();
//! a1::ack(&header, received, &mut datagram);
//!
//! let head = Head::parse(&datagram, datagram.len(), false)?;
//! assert_eq!(head.header, header);
//! assert!(head.verify([&datagram[head.summed()]]));
//! assert_eq!(Body::parse(&head, &datagram[HEADER_BYTES..])?, Body::Ack(received));
//! # Ok::<(), pinnace_wire::Malformed>(())
//! ```

mod body;
mod header;
mod model;
mod ranges;
mod write;

pub use header::{CHECK_AT, HEADER_BYTES, Head};
pub use model::{
    Accept, Address, Block, Body, Change, CloseCode, Cookie, Group, Header, Kind, Open, Qos, Reject, RejectCode,
};
pub use ranges::{RangeIter, Ranges};
pub use write::{accept, ack, close, close_reply, data, nack, open, qos, qos_reply, reject, sync, sync_reply};

use core::ops::RangeInclusive;

/// The largest block: UDP's payload over IPv4, less the header.
pub const MAX_BLOCK_BYTES: u32 = 65_475;
/// Windows, in blocks, are below this.
pub const WINDOW_LIMIT: u32 = 1 << 20;
/// Bytes of a cookie.
pub const COOKIE_BYTES: RangeInclusive<usize> = 16..=64;
/// Bytes of a QoS record.
pub const QOS_BYTES: usize = 48;
/// Bytes of the shortest OPEN: a REJECT is never longer than what it answers.
pub const MIN_OPEN_BYTES: usize = HEADER_BYTES + SETUP_BYTES;

/// Bytes of the body of an ACCEPT, and of an OPEN with neither cookie nor group.
const SETUP_BYTES: usize = 20 + QOS_BYTES;
/// Bytes of a length behind which text or a cookie stands.
const LENGTH_BYTES: usize = 2;
/// Bytes of a group, behind the cookie of an OPEN.
const GROUP_BYTES: usize = 10;
/// Bytes of a REJECT before its text.
const REJECT_BYTES: usize = 4;
/// Bytes of a range of an ACK or a NACK.
const RANGE_BYTES: usize = 8;
/// Bytes of the body of QOS and QOS_REPLY.
const CHANGE_BYTES: usize = 4 + QOS_BYTES;
/// Bytes of the body of CLOSE and CLOSE_REPLY.
const CLOSE_BYTES: usize = 2;

/// The options of a QoS record.
const CHECKSUM: u16 = 1;
const RETRANSMISSION: u16 = 2;

/// The code of a REJECT whose text is a cookie.
const COOKIE_REQUIRED: u16 = 4;

#[cfg(test)]
mod tests;
