//! Writing datagrams. What is written parses.
//!
//! Every writer appends to `out`, and sums if the datagram is checked: of OPEN and REJECT always, of ACCEPT, QOS and
//! QOS_REPLY if their record has the checksum, of the others if [`Header::is_checked`].

use super::header::{CHECKED, HEADER_BYTES, MULTICAST};
use super::{
    Accept, Address, Block, CHANGE_BYTES, CHECK_AT, CHECKSUM, CLOSE_BYTES, COOKIE_REQUIRED, Change, CloseCode, Cookie,
    GROUP_BYTES, Header, Kind, LENGTH_BYTES, Open, QOS_BYTES, Qos, RANGE_BYTES, REJECT_BYTES, RETRANSMISSION, Ranges,
    Reject, SETUP_BYTES,
};
use crate::checksum::Internet;

/// The header of DATA with `length` bytes behind it. To a group it is never marked as retransmitted, and has no edge.
///
/// The checksum is 0; if [`Header::is_checked`], whoever sends the datagram fills it in at [`CHECK_AT`].
///
/// ```
/// use pinnace_wire::a1::{self, Block, Body, CHECK_AT, HEADER_BYTES, Head, Header};
/// use pinnace_wire::checksum::internet;
///
/// let connection = 7.try_into()?;
/// let header =
///     Header { connection, sequence: 9, edge: 4, stamp: 1, is_checked: true, is_retransmitted: false };
/// let block = Block::new(0, 0, 1).unwrap().reliable(true);
/// let mut datagram = [&a1::data(&header, &block, 5)[..], b"hello"].concat();
/// let sum = internet(&datagram);
/// datagram[CHECK_AT..CHECK_AT + 2].copy_from_slice(&sum.to_be_bytes());
///
/// let head = Head::parse(&datagram, datagram.len(), false)?;
/// assert!(head.verify([&datagram[head.summed()]]));
/// assert_eq!(Body::parse(&head, &[])?, Body::Data(block));
/// assert_eq!(&datagram[HEADER_BYTES..], b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn data(header: &Header, block: &Block, length: u32) -> [u8; HEADER_BYTES] {
    header.encode(Kind::Data, 0, Some(block), length)
}

/// A whole OPEN, whose [`Header::edge`] is the opener's window, below [`WINDOW_LIMIT`](super::WINDOW_LIMIT).
pub fn open(header: &Header, open: &Open<'_>, out: &mut impl Extend<u8>) {
    let cookie = open.cookie.map_or(&[][..], Cookie::bytes);
    let has_more = open.cookie.is_some() || open.group.is_some();
    let more = if has_more { LENGTH_BYTES + cookie.len() } else { 0 };
    let length = SETUP_BYTES + more + open.group.map_or(0, |_| GROUP_BYTES);
    datagram(header, Kind::Open, CHECKED, length, out, |put| {
        put_setup(open.destination, open.source, header.connection.get(), &open.qos, put);
        if has_more {
            put(&(cookie.len() as u16).to_be_bytes());
            put(cookie);
        }
        if let Some(group) = &open.group {
            put(&group.identifier().get().to_be_bytes());
            put(&group.socket().ip().octets());
            put(&group.socket().port().to_be_bytes());
        }
    });
}

/// A whole ACCEPT.
pub fn accept(header: &Header, accept: &Accept, out: &mut impl Extend<u8>) {
    let header = Header { is_checked: accept.qos.has_checksum, ..*header };
    let flags = if accept.has_joined { MULTICAST } else { 0 };
    datagram(&header, Kind::Accept, flags, SETUP_BYTES, out, |put| {
        put_setup(accept.destination, accept.source, accept.identifier.get(), &accept.qos, put);
    });
}

/// A whole REJECT, of at most `most` bytes: a text is cut to fit, a cookie is not. The sequence and the edge are 0.
pub fn reject(header: &Header, reject: &Reject<'_>, most: usize, out: &mut impl Extend<u8>) {
    let header = Header { sequence: 0, edge: 0, ..*header };
    let (code, text) = match *reject {
        Reject::Cookie(cookie) => (COOKIE_REQUIRED, cookie.bytes()),
        Reject::Refused { code, text } => {
            let room = most.saturating_sub(HEADER_BYTES + REJECT_BYTES).min(u16::MAX.into());
            (code as u16, &text.as_bytes()[..text.floor_char_boundary(room)])
        }
    };
    datagram(&header, Kind::Reject, CHECKED, REJECT_BYTES + text.len(), out, |put| {
        put(&code.to_be_bytes());
        put(&(text.len() as u16).to_be_bytes());
        put(text);
    });
}

/// A whole ACK. `received` lies beyond [`Header::sequence`].
pub fn ack(header: &Header, received: Ranges<'_>, out: &mut impl Extend<u8>) {
    debug_assert!(received.lie_ahead_of(header.sequence, true), "{received:?} beyond {}", header.sequence);
    ranges(header, Kind::Ack, received, out);
}

/// A whole NACK. `missing` lies from [`Header::sequence`] on.
pub fn nack(header: &Header, missing: Ranges<'_>, out: &mut impl Extend<u8>) {
    debug_assert!(missing.lie_ahead_of(header.sequence, false), "{missing:?} from {}", header.sequence);
    ranges(header, Kind::Nack, missing, out);
}

/// A whole SYNC.
pub fn sync(header: &Header, out: &mut impl Extend<u8>) {
    datagram(header, Kind::Sync, 0, 0, out, |_| {});
}

/// A whole SYNC_REPLY.
pub fn sync_reply(header: &Header, out: &mut impl Extend<u8>) {
    datagram(header, Kind::SyncReply, 0, 0, out, |_| {});
}

/// A whole CLOSE.
pub fn close(header: &Header, code: CloseCode, out: &mut impl Extend<u8>) {
    datagram(header, Kind::Close, 0, CLOSE_BYTES, out, |put| put(&(code as u16).to_be_bytes()));
}

/// A whole CLOSE_REPLY.
pub fn close_reply(header: &Header, code: CloseCode, out: &mut impl Extend<u8>) {
    datagram(header, Kind::CloseReply, 0, CLOSE_BYTES, out, |put| put(&(code as u16).to_be_bytes()));
}

/// A whole QOS.
pub fn qos(header: &Header, change: &Change, out: &mut impl Extend<u8>) {
    self::change(header, Kind::Qos, change, out);
}

/// A whole QOS_REPLY.
pub fn qos_reply(header: &Header, change: &Change, out: &mut impl Extend<u8>) {
    self::change(header, Kind::QosReply, change, out);
}

fn ranges(header: &Header, kind: Kind, ranges: Ranges<'_>, out: &mut impl Extend<u8>) {
    datagram(header, kind, 0, RANGE_BYTES * ranges.len(), out, |put| {
        for (low, high) in ranges {
            put(&(u64::from(low) << 32 | u64::from(high)).to_be_bytes());
        }
    });
}

fn change(header: &Header, kind: Kind, change: &Change, out: &mut impl Extend<u8>) {
    let header = Header { is_checked: change.qos.has_checksum, ..*header };
    datagram(&header, kind, 0, CHANGE_BYTES, out, |put| {
        put(&change.epoch.to_be_bytes());
        put(&record(&change.qos));
    });
}

/// A datagram with a body of `length` bytes, which `put_all` tells piece by piece. It is asked twice, because the checksum
/// stands before the bytes that it sums.
fn datagram(
    header: &Header,
    kind: Kind,
    flags: u8,
    length: usize,
    out: &mut impl Extend<u8>,
    put_all: impl Fn(&mut dyn FnMut(&[u8])),
) {
    let mut head = header.encode(kind, flags, None, length as u32);
    if head[1] & CHECKED != 0 {
        let mut sum = Internet::new();
        sum.add(&head);
        put_all(&mut |bytes| sum.add(bytes));
        head[CHECK_AT..CHECK_AT + 2].copy_from_slice(&sum.finish().to_be_bytes());
    }
    out.extend(head);
    put_all(&mut |bytes| out.extend(bytes.iter().copied()));
}

fn put_setup(destination: Address, source: Address, identifier: u32, qos: &Qos, put: &mut dyn FnMut(&[u8])) {
    put(&destination.bits().to_be_bytes());
    put(&source.bits().to_be_bytes());
    put(&identifier.to_be_bytes());
    put(&record(qos));
}

fn record(qos: &Qos) -> [u8; QOS_BYTES] {
    let options = if qos.has_checksum { CHECKSUM } else { 0 } | if qos.has_retransmission { RETRANSMISSION } else { 0 };
    let (send, receive) = (qos.send_average, qos.receive_average);
    let words = [
        u32::from(options) << 16 | u32::from(qos.priority) << 8,
        qos.block_size,
        (send >> 32) as u32,
        send as u32,
        qos.send_burst,
        (receive >> 32) as u32,
        receive as u32,
        qos.receive_burst,
        qos.largest_sent,
        qos.largest_received,
        qos.outstanding,
        qos.deadline,
    ];
    let mut bytes = [0; QOS_BYTES];
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}
