//! What the fuzz target of A1's codec does with its bytes. Shared by `fuzz/` and by the test that replays its corpus.
//!
//! The first byte says whether the link pads, and whether checksum and length are put right first, without which next to
//! nothing would get past them. The rest is a datagram.

use pinnace_wire::a1::{
    self, Body, CHECK_AT, Cookie, HEADER_BYTES, Head, Kind, MAX_BLOCK_BYTES, MIN_OPEN_BYTES, Open, Ranges, Reject,
};
use pinnace_wire::checksum::internet;

/// The byte that says what to do with the others: a link that pads, and a checksum and a length that are put right.
const PADDED: u8 = 1;
pub(crate) const SEALED: u8 = 2;

const CHECKED: u8 = 8;

/// The target: a datagram that parses says what it says within its bytes, and can be said again.
pub(crate) fn codec(input: &[u8]) {
    let Some((flags, datagram)) = input.split_first() else { return };
    let is_padded = flags & PADDED != 0;
    let mut datagram = datagram.to_vec();
    if flags & SEALED != 0 {
        seal(&mut datagram);
    }
    let Ok(head) = Head::parse(&datagram, datagram.len(), is_padded) else { return };
    let len = head.datagram_bytes();
    assert!(len <= datagram.len() && (is_padded || len == datagram.len()));
    assert!(Head::parse(&datagram[..len - 1], len - 1, is_padded).is_err(), "a datagram without its end is read");
    let body = Body::parse(&head, &datagram[HEADER_BYTES..]);
    let datagram = &datagram[..len];
    assert_eq!(body, Body::parse(&head, &datagram[HEADER_BYTES..]), "what lies behind the datagram counts");
    let is_right = head.verify([&datagram[head.summed()]]);
    assert_eq!(is_right, head.verify(datagram[head.summed()].chunks(5)), "it matters how the pieces are cut");
    let Ok(body) = body else { return };
    check_rules(&head, &body);
    if is_right {
        check_again(&head, datagram, &body);
    }
}

/// What an engine relies on.
fn check_rules(head: &Head, body: &Body<'_>) {
    assert_eq!(head.kind == Kind::Data, head.block().is_some());
    match body {
        Body::Open(open) => {
            assert!(head.header.is_checked);
            assert!(head.datagram_bytes() >= MIN_OPEN_BYTES);
            check_cookie(open.cookie);
            assert!(open.group.is_none_or(|group| group.socket().ip().is_multicast()));
        }
        Body::Accept(accept) => assert_eq!(head.header.is_checked, accept.qos.has_checksum),
        Body::Reject(reject) => {
            assert!(head.header.is_checked && head.header.sequence == 0);
            if let Reject::Cookie(cookie) = reject {
                check_cookie(Some(*cookie));
            }
        }
        Body::Data(block) => {
            assert!(block.index() < block.count() && head.body_bytes() <= MAX_BLOCK_BYTES as usize);
            assert!(!block.is_group() || head.header.edge == 0);
        }
        Body::Ack(ranges) => check_ranges(head, *ranges, 1),
        Body::Nack(ranges) => check_ranges(head, *ranges, 0),
        Body::Qos(change) | Body::QosReply(change) => {
            assert_eq!(head.header.is_checked, change.qos.has_checksum);
        }
        Body::Sync | Body::SyncReply | Body::Close(_) | Body::CloseReply(_) => {}
    }
}

fn check_cookie(cookie: Option<Cookie<'_>>) {
    assert!(cookie.is_none_or(|cookie| (16..=64).contains(&cookie.bytes().len())));
}

/// Each lies so many blocks behind the sequence or farther on.
fn check_ranges(head: &Head, ranges: Ranges<'_>, least: u32) {
    assert!(ranges.len() <= Ranges::max_count(head.datagram_bytes()));
    for (low, high) in ranges {
        let [low, high] = [low, high].map(|number| number.wrapping_sub(head.header.sequence));
        assert!(least <= low && low < high && high < 1 << 31, "{ranges:?} of {:?}", head.header);
    }
}

/// What was read is written again, byte by byte.
fn check_again(head: &Head, datagram: &[u8], body: &Body<'_>) {
    let header = &head.header;
    let mut out = Vec::new();
    match body {
        Body::Open(open) => a1::open(header, open, &mut out),
        Body::Accept(accept) => a1::accept(header, accept, &mut out),
        Body::Reject(reject) => a1::reject(header, reject, datagram.len(), &mut out),
        Body::Data(block) => {
            out.extend(a1::data(header, block, head.body_bytes() as u32));
            out.extend(&datagram[HEADER_BYTES..]);
            if header.is_checked {
                sum(&mut out);
            }
        }
        Body::Ack(ranges) => a1::ack(header, *ranges, &mut out),
        Body::Nack(ranges) => a1::nack(header, *ranges, &mut out),
        Body::Sync => a1::sync(header, &mut out),
        Body::SyncReply => a1::sync_reply(header, &mut out),
        Body::Close(code) => a1::close(header, *code, &mut out),
        Body::CloseReply(code) => a1::close_reply(header, *code, &mut out),
        Body::Qos(change) => a1::qos(header, change, &mut out),
        Body::QosReply(change) => a1::qos_reply(header, change, &mut out),
    }
    let again = Head::parse(&out, out.len(), false).expect("what was parsed can be said again");
    assert!(again.verify([&out[again.summed()]]));
    assert_eq!(Body::parse(&again, &out[HEADER_BYTES..]).as_ref(), Ok(body));
    assert_eq!(again.header, head.header);
    // There are two zeros of the one's complement, and two ways to say that there is no cookie.
    let says_no_cookie = matches!(body, Body::Open(Open { cookie: None, group: None, .. }));
    if !says_no_cookie {
        assert_eq!((&out[..CHECK_AT], &out[4..]), (&datagram[..CHECK_AT], &datagram[4..]));
    }
}

/// Puts the length right, and the checksum, if there is one.
fn seal(datagram: &mut [u8]) {
    if datagram.len() < HEADER_BYTES {
        return;
    }
    let length = (datagram.len() - HEADER_BYTES) as u32;
    datagram[28..32].copy_from_slice(&length.to_be_bytes());
    if datagram[1] & CHECKED != 0 {
        sum(datagram);
    } else {
        datagram[CHECK_AT..CHECK_AT + 2].fill(0);
    }
}

fn sum(datagram: &mut [u8]) {
    datagram[CHECK_AT..CHECK_AT + 2].fill(0);
    let sum = internet(datagram);
    datagram[CHECK_AT..CHECK_AT + 2].copy_from_slice(&sum.to_be_bytes());
}
