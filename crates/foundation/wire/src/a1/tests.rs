//! The published vectors (`specs/vectors/a1.txt`), every truncation, padding and bit flip of every datagram, and the rules
//! of parsing one by one.

extern crate std;

mod round_trips;

use super::*;
use crate::checksum::internet;
use crate::vectors::{Vector, hex};
use crate::{Malformed, be16, be32};
use core::net::SocketAddrV4;
use core::num::NonZeroU32;
use std::string::String;
use std::vec::Vec;
use std::{format, vec};

const KINDS: [Kind; 12] = [
    Kind::Open,
    Kind::Accept,
    Kind::Reject,
    Kind::Data,
    Kind::Ack,
    Kind::Nack,
    Kind::Sync,
    Kind::SyncReply,
    Kind::Close,
    Kind::CloseReply,
    Kind::Qos,
    Kind::QosReply,
];

/// Names of the flags, from bit 0 on.
const FLAGS: [&str; 6] = ["RETRANSMITTED", "START", "END", "CHECKED", "RELIABLE", "MULTICAST"];

fn vectors() -> Vec<Vector> {
    crate::vectors::vectors("a1", 251)
}

/// The vectors that are datagrams.
fn good() -> Vec<Vector> {
    let good: Vec<Vector> = vectors().into_iter().filter(|vector| vector.reading != "malformed").collect();
    assert!(good.len() > 50);
    good
}

/// Reads a datagram without the checksum: tests that change a byte would otherwise only test that.
fn read_unsummed(datagram: &[u8]) -> Result<(Head, Body<'_>), Malformed> {
    let head = Head::parse(datagram, datagram.len(), false)?;
    Ok((head, Body::parse(&head, &datagram[HEADER_BYTES..])?))
}

/// Reads a datagram in the three steps; `None` if it is dropped.
fn read(datagram: &[u8]) -> Option<(Head, Body<'_>)> {
    let (head, body) = read_unsummed(datagram).ok()?;
    head.verify(datagram[head.summed()].chunks(3)).then_some((head, body))
}

fn describe(datagram: &[u8]) -> String {
    let Some((head, body)) = read(datagram) else { return "malformed".into() };
    let Header { connection, sequence, edge, stamp, .. } = head.header;
    let kind = match head.kind {
        Kind::SyncReply => "SYNC_REPLY".into(),
        Kind::CloseReply => "CLOSE_REPLY".into(),
        Kind::QosReply => "QOS_REPLY".into(),
        kind => format!("{kind:?}").to_uppercase(),
    };
    let body = match body {
        Body::Open(Open { destination, source, qos, cookie, group }) => {
            let mut text = describe_setup(destination, source, connection, &qos);
            text += &cookie.map_or(String::new(), |cookie| format!(" cookie {}", hex(cookie.bytes())));
            text += &group.map_or(String::new(), |group| format!(" group {} {}", group.identifier(), group.socket()));
            text
        }
        Body::Accept(Accept { destination, source, identifier, qos, .. }) => {
            describe_setup(destination, source, identifier, &qos)
        }
        Body::Reject(Reject::Cookie(cookie)) => format!("code 4 cookie {}", hex(cookie.bytes())),
        Body::Reject(Reject::Refused { code, text }) => format!("code {} text {}", code as u16, hex(text.as_bytes())),
        Body::Data(block) => {
            let data = hex(&datagram[HEADER_BYTES..head.datagram_bytes()]);
            format!("message {} block {} of {} data {data}", block.message(), block.index(), block.count())
        }
        Body::Ack(ranges) => format!("received {}", describe_ranges(ranges)),
        Body::Nack(ranges) => format!("missing {}", describe_ranges(ranges)),
        Body::Sync | Body::SyncReply => String::new(),
        Body::Close(code) | Body::CloseReply(code) => format!("code {}", code as u16),
        Body::Qos(change) | Body::QosReply(change) => format!("epoch {} {}", change.epoch, describe_qos(&change.qos)),
    };
    let colon = if body.is_empty() { "" } else { ": " };
    let flags = describe_flags(&head, datagram);
    format!("{kind} connection {connection} seq {sequence} edge {edge} stamp {stamp} ({flags}){colon}{body}")
}

/// The flags, as a reader tells them.
fn describe_flags(head: &Head, datagram: &[u8]) -> String {
    let block = head.block();
    let has_joined = matches!(read_unsummed(datagram), Ok((_, Body::Accept(Accept { has_joined: true, .. }))));
    let set = [
        head.header.is_retransmitted,
        block.is_some_and(Block::is_start),
        block.is_some_and(Block::is_end),
        head.header.is_checked,
        block.is_some_and(Block::is_reliable),
        block.is_some_and(Block::is_group) || has_joined,
    ];
    let names: Vec<&str> = FLAGS.into_iter().zip(set).filter(|(_, set)| *set).map(|(name, _)| name).collect();
    if names.is_empty() { "none".into() } else { names.join(" ") }
}

fn describe_setup(destination: Address, source: Address, identifier: NonZeroU32, qos: &Qos) -> String {
    let [to, from] = [destination, source].map(|address| {
        assert_eq!(Address::from_bits(address.bits()), address);
        format!("{}:{}", core::net::Ipv4Addr::from(address.host), address.port)
    });
    format!("to {to} from {from} id {identifier} {}", describe_qos(qos))
}

fn describe_qos(qos: &Qos) -> String {
    let Qos { has_checksum, has_retransmission, priority, block_size, send_average, send_burst, .. } = *qos;
    let Qos { receive_average, receive_burst, largest_sent, largest_received, outstanding, deadline, .. } = *qos;
    let options = match (has_checksum, has_retransmission) {
        (false, false) => "none",
        (true, false) => "checksum",
        (false, true) => "retransmission",
        (true, true) => "checksum retransmission",
    };
    format!(
        "options ({options}) priority {priority} block {block_size} send {send_average} {send_burst} receive \
         {receive_average} {receive_burst} largest {largest_sent} {largest_received} outstanding {outstanding} deadline \
         {deadline}"
    )
}

fn describe_ranges(ranges: Ranges<'_>) -> String {
    let ranges: Vec<String> = ranges.iter().map(|(low, high)| format!("{low}-{high}")).collect();
    if ranges.is_empty() { "(none)".into() } else { ranges.join(" ") }
}

/// Fills in the checksum of a datagram, as whoever sends it does.
fn seal(datagram: &mut [u8]) {
    if datagram.len() < HEADER_BYTES || datagram[1] & 8 == 0 {
        return;
    }
    datagram[CHECK_AT..CHECK_AT + 2].fill(0);
    let sum = internet(datagram);
    datagram[CHECK_AT..CHECK_AT + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Writes what was read.
fn write(header: &Header, body: &Body<'_>, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0xee];
    match body {
        Body::Open(told) => open(header, told, &mut out),
        Body::Accept(told) => accept(header, told, &mut out),
        Body::Reject(told) => reject(header, told, 70_000, &mut out),
        Body::Data(block) => {
            let mut datagram = [&data(header, block, bytes.len() as u32)[..], bytes].concat();
            seal(&mut datagram);
            return datagram;
        }
        Body::Ack(ranges) => ack(header, *ranges, &mut out),
        Body::Nack(ranges) => nack(header, *ranges, &mut out),
        Body::Sync => sync(header, &mut out),
        Body::SyncReply => sync_reply(header, &mut out),
        Body::Close(code) => close(header, *code, &mut out),
        Body::CloseReply(code) => close_reply(header, *code, &mut out),
        Body::Qos(change) => qos(header, change, &mut out),
        Body::QosReply(change) => qos_reply(header, change, &mut out),
    }
    assert_eq!(out.remove(0), 0xee, "a datagram is written behind what was there");
    out
}

/// A header that a test changes.
fn header() -> Header {
    let connection = NonZeroU32::new(7).unwrap();
    Header { connection, sequence: 100, edge: 116, stamp: 5, is_checked: true, is_retransmitted: false }
}

/// A datagram of each type, with as much in it as it can have.
fn one_of_each() -> Vec<Vec<u8>> {
    let qos = Qos { has_checksum: true, has_retransmission: true, ..Qos::default() };
    let (destination, source) = (Address { host: 1, port: 2 }, Address { host: 3, port: 4 });
    let group = Group::new(NonZeroU32::MAX, "239.0.0.1:9".parse().unwrap());
    let open = Open { destination, source, qos, cookie: Cookie::new(&[5; 16]), group };
    let accept = Accept { destination, source, identifier: NonZeroU32::MIN, qos, has_joined: true };
    let refused = Reject::Refused { code: RejectCode::Qos, text: "text" };
    let change = Change { epoch: 1, qos };
    let bodies = [
        Body::Open(open),
        Body::Accept(accept),
        Body::Reject(refused),
        Body::Data(Block::new(1, 1, 3).unwrap().reliable(true)),
        Body::Ack(Ranges::from_slice(&[(101, 102), (104, 110)])),
        Body::Nack(Ranges::from_slice(&[(100, 102)])),
        Body::Sync,
        Body::SyncReply,
        Body::Close(CloseCode::Normal),
        Body::CloseReply(CloseCode::Aborted),
        Body::Qos(change),
        Body::QosReply(change),
    ];
    bodies.iter().map(|body| write(&header(), body, b"block")).collect()
}

#[test]
fn the_published_vectors_are_read() {
    for Vector { bytes, reading, .. } in vectors() {
        assert_eq!(describe(&bytes), reading, "{}", hex(&bytes));
    }
}

#[test]
fn exact_vectors_are_written() {
    for Vector { bytes, reading, .. } in good().into_iter().filter(|vector| vector.exact) {
        let (head, body) = read(&bytes).unwrap();
        assert_eq!(hex(&write(&head.header, &body, &bytes[HEADER_BYTES..])), hex(&bytes), "{reading}");
    }
}

#[test]
//= A-5 test
fn the_vectors_show_every_type_flag_and_code() {
    let good = good();
    for kind in KINDS {
        let shown = good.iter().any(|vector| vector.exact && read(&vector.bytes).unwrap().0.kind == kind);
        assert!(shown, "{kind:?}");
    }
    for flag in FLAGS {
        assert!(good.iter().any(|vector| vector.reading.contains(flag)), "{flag}");
    }
    for code in 1..=6 {
        assert!(good.iter().any(|vector| vector.reading.contains(&format!("code {code} "))), "{code}");
    }
    // Every type can be a repetition.
    for datagram in one_of_each() {
        let (head, body) = read(&datagram).unwrap();
        let header = Header { is_retransmitted: true, ..head.header };
        let again = write(&header, &body, &datagram[HEADER_BYTES..]);
        assert_eq!(again[1], datagram[1] | 1);
        assert_eq!(again[4..], datagram[4..]);
        assert_eq!(read(&again).map(|(head, body)| (head.header, body)), Some((header, body)));
    }
}

#[test]
fn nothing_that_is_cut_parses() {
    for Vector { bytes, reading, .. } in good() {
        let head = Head::parse(&bytes, bytes.len(), false).unwrap();
        let whole = Body::parse(&head, &bytes[HEADER_BYTES..]).unwrap();
        for len in 0..bytes.len() {
            for is_padded in [false, true] {
                let result = Head::parse(&bytes[..len], len, is_padded);
                assert!(result.is_err(), "{len} bytes of {reading} make {result:?}");
            }
            // The body without its end; of DATA nothing is wanted.
            let Some(body) = bytes[..len].get(HEADER_BYTES..) else { continue };
            let result = Body::parse(&head, body);
            assert_eq!(result, if head.kind == Kind::Data { Ok(whole) } else { Err(Malformed::Size) }, "{reading}");
        }
        // Only the header is looked at first.
        assert_eq!(Head::parse(&bytes[..HEADER_BYTES], bytes.len(), false), Ok(head));
    }
}

#[test]
fn a_datagram_is_followed_by_something_only_where_links_pad() {
    for Vector { bytes, reading, .. } in good() {
        let head = Head::parse(&bytes, bytes.len(), false).unwrap();
        assert_eq!(head.datagram_bytes(), bytes.len());
        for more in [1, 2, 8, 14, 1000] {
            let longer = [&bytes[..], &vec![0xee; more]].concat();
            assert_eq!(Head::parse(&longer, longer.len(), false), Err(Malformed::Length), "{reading}");
            assert_eq!(Head::parse(&longer, longer.len(), true), Ok(head), "{reading}");
            assert_eq!(Body::parse(&head, &longer[HEADER_BYTES..]), Body::parse(&head, &bytes[HEADER_BYTES..]));
            assert!(head.verify([&longer[head.summed()]]));
        }
    }
}

#[test]
fn one_flipped_bit_is_seen() {
    for Vector { bytes, reading, .. } in good() {
        let is_checked = read(&bytes).unwrap().0.header.is_checked;
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 0x80 >> (bit % 8);
            // Where the checksum is 0 the flag itself is safe only in a connection, which knows it.
            let was_zero = bit == 12 && be16(&bytes, CHECK_AT) == 0;
            assert!(!is_checked || was_zero || read(&flipped).is_none(), "bit {bit} of {reading}");
        }
    }
}

#[test]
fn pieces_may_be_cut_anywhere() {
    for Vector { bytes, reading, .. } in good() {
        let head = Head::parse(&bytes, bytes.len(), false).unwrap();
        let summed = &bytes[head.summed()];
        assert_eq!(summed.len(), if head.header.is_checked { bytes.len() } else { 0 });
        for at in 0..=summed.len() {
            let (left, right) = summed.split_at(at);
            assert!(head.verify([left, &[], right]), "{reading} cut at {at}");
            assert!(at == summed.len() || !head.verify([left]), "{at} bytes of {reading}");
        }
        assert!(!head.verify([summed, &[0, 0]]), "more than was asked for, of {reading}");
    }
}

#[test]
fn every_type_is_known_or_refused() {
    for datagram in one_of_each() {
        for number in 0..=255 {
            let mut changed = datagram.clone();
            changed[0] = number;
            let head = Head::parse(&changed, changed.len(), false);
            assert_eq!(head == Err(Malformed::Unknown), !(1..=12).contains(&number), "{number}: {head:?}");
        }
    }
}

#[test]
fn every_flag_is_where_it_belongs_or_refused() {
    for datagram in one_of_each() {
        let kind = Kind::from_wire(datagram[0]).unwrap();
        for flags in 0..=255u8 {
            let mut changed = datagram.clone();
            changed[1] = flags;
            changed[CHECK_AT..CHECK_AT + 2].fill(0);
            if kind == Kind::Data && flags & 32 != 0 {
                changed[20..24].fill(0);
            }
            seal(&mut changed);
            // The block is in the middle of its message; the records of the others have the checksum.
            let (may, must) = match kind {
                Kind::Data => (if flags & 32 != 0 { 0b11_1000 } else { 0b01_1001 }, 0),
                Kind::Accept => (0b10_1001, 8),
                Kind::Open | Kind::Reject | Kind::Qos | Kind::QosReply => (0b00_1001, 8),
                _ => (0b00_1001, 0),
            };
            let is_right = flags & !may == 0 && flags & must == must;
            assert_eq!(read(&changed).is_some(), is_right, "{kind:?} with {flags:#08b}");
            let is_unknown = read_unsummed(&changed) == Err(Malformed::Unknown);
            assert_eq!(is_unknown, flags & 0xc0 != 0, "{kind:?} with {flags:#08b}");
        }
    }
}

#[test]
fn every_bit_of_a_field_that_is_not_used_is_refused() {
    // The first bit of each field, and how many.
    const SEQUENCE: (usize, usize) = (64, 32);
    const OF_DATA: (usize, usize) = (96, 64);
    const EDGE: (usize, usize) = (160, 32);
    let options = |at: usize| [((HEADER_BYTES + at) * 8, 14), ((HEADER_BYTES + at + 3) * 8, 8)];
    for datagram in one_of_each() {
        let (head, body) = read(&datagram).unwrap();
        let mut unused = match head.kind {
            Kind::Data => vec![],
            Kind::Reject => vec![SEQUENCE, OF_DATA, EDGE],
            _ => vec![OF_DATA],
        };
        match body {
            Body::Open(_) | Body::Accept(_) => unused.extend(options(20)),
            Body::Qos(_) | Body::QosReply(_) => unused.extend(options(4)),
            _ => {}
        }
        for bit in unused.into_iter().flat_map(|(first, count)| first..first + count) {
            let mut changed = datagram.clone();
            changed[bit / 8] ^= 0x80 >> (bit % 8);
            seal(&mut changed);
            assert_eq!(read(&changed), None, "bit {bit} of {:?}", head.kind);
        }
        // The others may be anything, as far as the header goes.
        for bit in (192..224).chain(32..64) {
            let mut changed = datagram.clone();
            changed[bit / 8] ^= 0x80 >> (bit % 8);
            let connection = be32(&changed, 4);
            let changed = Head::parse(&changed, changed.len(), false);
            assert_eq!(changed.map(|head| head.header.connection.get()), Ok(connection), "bit {bit}");
        }
    }
}

#[test]
fn every_lying_length_is_refused() {
    let near = (0..2000).chain(65_000..67_000);
    let far = (0..32).flat_map(|bit| [1u32 << bit, u32::MAX << bit, (1 << bit) + 40]);
    let lengths: Vec<u32> = near.chain(far).collect();
    for datagram in one_of_each() {
        let right = be32(&datagram, 28);
        for length in lengths.iter().copied().filter(|length| *length != right) {
            let mut lying = datagram.clone();
            lying[28..32].copy_from_slice(&length.to_be_bytes());
            seal(&mut lying);
            assert!(Head::parse(&lying, lying.len(), false).is_err(), "length {length} of {}", hex(&datagram));
            // And in a datagram of whatever size, no type has a length that it cannot have.
            let kind = Kind::from_wire(lying[0]).unwrap();
            let least = match kind {
                Kind::Open | Kind::Accept => 68,
                Kind::Reject => 4,
                Kind::Data => 1,
                Kind::Qos | Kind::QosReply => 52,
                Kind::Close | Kind::CloseReply => 2,
                Kind::Ack | Kind::Nack | Kind::Sync | Kind::SyncReply => 0,
            };
            let most = match kind {
                Kind::Open => 144,
                Kind::Reject => 65_539,
                Kind::Data => MAX_BLOCK_BYTES,
                Kind::Ack | Kind::Nack => u32::MAX,
                _ => least,
            };
            let step = if matches!(kind, Kind::Ack | Kind::Nack) { 8 } else { 1 };
            let is_possible = (least..=most).contains(&length) && length % step == 0;
            let whole = HEADER_BYTES as u64 + u64::from(length);
            let Ok(whole) = usize::try_from(whole) else { continue };
            assert_eq!(Head::parse(&lying, whole, false).is_ok(), is_possible, "{kind:?} of {length} bytes");
        }
    }
}

#[test]
fn every_lying_length_of_a_text_or_a_cookie_is_refused() {
    for Vector { bytes, reading, .. } in good() {
        // A group behind a cookie could be more of the cookie.
        let (at, also) = match read(&bytes).unwrap().1 {
            Body::Reject(_) => (HEADER_BYTES + 2, None),
            Body::Open(Open { cookie: Some(cookie), group: Some(_), .. }) => {
                (MIN_OPEN_BYTES, Some((cookie.bytes().len() + GROUP_BYTES) as u16))
            }
            Body::Open(_) if bytes.len() > MIN_OPEN_BYTES => (MIN_OPEN_BYTES, None),
            _ => continue,
        };
        let right = be16(&bytes, at);
        for length in (0..=u16::MAX).filter(|length| *length != right && Some(*length) != also) {
            let mut lying = bytes.clone();
            lying[at..at + 2].copy_from_slice(&length.to_be_bytes());
            assert!(read_unsummed(&lying).is_err(), "{length} in {reading}");
        }
    }
}

#[test]
fn cookies_have_16_to_64_bytes() {
    let space = [0xff; 200];
    for len in 0..=200 {
        let cookie = Cookie::new(&space[..len]);
        assert_eq!(cookie.map(|cookie| cookie.bytes().len()), (16..=64).contains(&len).then_some(len));
        let len = len as u16;
        let text = &space[..len.into()];
        // Not UTF-8, so it is right nowhere else.
        for code in 0..=u16::MAX {
            let mut datagram = Vec::new();
            let refused = Reject::Refused { code: RejectCode::Qos, text: "" };
            reject(&header(), &refused, 100, &mut datagram);
            datagram.truncate(HEADER_BYTES);
            datagram.extend([&code.to_be_bytes()[..], &len.to_be_bytes(), text].concat());
            datagram[28..32].copy_from_slice(&(u32::from(len) + 4).to_be_bytes());
            let is_right = match code {
                4 => cookie.is_some(),
                1..=6 => len == 0,
                _ => false,
            };
            assert_eq!(read_unsummed(&datagram).is_ok(), is_right, "code {code} with {len} bytes");
            if code > 8 && len > 20 {
                break;
            }
        }
    }
    assert_eq!(format!("{:?}", Cookie::new(&space[..16]).unwrap()), "ff".repeat(16));
}

#[test]
fn a_reject_fits_where_it_is_told() {
    for text in ["", "nobody listens", "zu viele Schlüssel und noch mehr davon"] {
        for most in 0..140 {
            let mut datagram = Vec::new();
            reject(&header(), &Reject::Refused { code: RejectCode::NoListener, text }, most, &mut datagram);
            assert!(datagram.len() <= most.max(HEADER_BYTES + REJECT_BYTES));
            let Some((head, Body::Reject(Reject::Refused { code: RejectCode::NoListener, text: cut }))) =
                read(&datagram)
            else {
                panic!("{}", describe(&datagram))
            };
            assert_eq!((head.header.sequence, head.header.edge), (0, 0));
            assert!(text.starts_with(cut) && (cut == text || datagram.len() + 1 >= most));
        }
    }
    let long = "x".repeat(70_000);
    let mut datagram = Vec::new();
    reject(&header(), &Reject::Refused { code: RejectCode::Malformed, text: &long }, usize::MAX, &mut datagram);
    assert_eq!(datagram.len(), HEADER_BYTES + REJECT_BYTES + 65_535);
    assert!(read(&datagram).is_some());
    // The longest cookie is no longer than the shortest OPEN.
    let mut datagram = Vec::new();
    reject(&header(), &Reject::Cookie(Cookie::new(&[1; 64]).unwrap()), 0, &mut datagram);
    assert_eq!(datagram.len(), MIN_OPEN_BYTES);
}

#[test]
fn a_writer_leaves_out_what_the_type_does_not_have() {
    let wild = Header { edge: u32::MAX, is_retransmitted: true, is_checked: false, ..header() };
    let mut datagram = Vec::new();
    let (destination, source, qos) = (Address::default(), Address::default(), Qos::default());
    open(&wild, &Open { destination, source, qos, cookie: None, group: None }, &mut datagram);
    assert_eq!(datagram.len(), MIN_OPEN_BYTES);
    let (head, _) = read(&datagram).unwrap();
    assert!(head.header.is_checked);
    let block = Block::new(1, 0, 2).unwrap().to_group(true);
    let datagram = write(&wild, &Body::Data(block), b"block");
    let (head, body) = read(&datagram).unwrap();
    assert_eq!((head.header.edge, head.header.is_retransmitted, body), (0, false, Body::Data(block)));
    // The record says whether there is a checksum.
    for has_checksum in [false, true] {
        let qos = Qos { has_checksum, ..Qos::default() };
        let wild = Header { is_checked: !has_checksum, ..wild };
        let mut datagrams = [Vec::new(), Vec::new(), Vec::new()];
        let identifier = NonZeroU32::MIN;
        accept(&wild, &Accept { destination, source, identifier, qos, has_joined: false }, &mut datagrams[0]);
        self::qos(&wild, &Change { epoch: 1, qos }, &mut datagrams[1]);
        qos_reply(&wild, &Change { epoch: 1, qos }, &mut datagrams[2]);
        for datagram in &datagrams {
            assert_eq!(read(datagram).unwrap().0.header.is_checked, has_checksum);
        }
    }
}

#[test]
fn a_block_is_in_its_message() {
    for (index, count) in [(0, 0), (1, 0), (1, 1), (5, 5), (u16::MAX, u16::MAX), (6, 5)] {
        assert_eq!(Block::new(0, index, count), None);
    }
    for (index, count, ends) in
        [(0, 1, (true, true)), (0, 2, (true, false)), (1, 2, (false, true)), (1, 3, (false, false))]
    {
        let block = Block::new(9, index, count).unwrap();
        assert_eq!((block.is_start(), block.is_end()), ends);
        assert_eq!((block.message(), block.index(), block.count()), (9, index, count));
        assert!(!block.is_reliable() && !block.is_group());
    }
    assert!(Block::new(0, u16::MAX - 1, u16::MAX).unwrap().is_end());
}

#[test]
fn ranges_lie_ahead_of_the_sequence_in_any_order() {
    let are_ahead =
        |sequence, ranges: &[(u32, u32)], is_beyond| Ranges::from_slice(ranges).lie_ahead_of(sequence, is_beyond);
    for sequence in [0, 100, (1 << 31) - 1, 1 << 31, u32::MAX - 5, u32::MAX] {
        let at = |offset: u32| sequence.wrapping_add(offset);
        for is_beyond in [false, true] {
            assert!(are_ahead(sequence, &[], is_beyond));
            assert!(are_ahead(sequence, &[(at(1), at(2)), (at(2), at(3)), (at(9), at((1 << 31) - 1))], is_beyond));
            assert_eq!(are_ahead(sequence, &[(at(0), at(1))], is_beyond), !is_beyond);
            for bad in [(1, 1), (2, 1), (1, 1 << 31), (1 << 31, (1 << 31) + 1), (u32::MAX, 1), (5, u32::MAX)] {
                let bad = (at(bad.0), at(bad.1));
                assert!(!are_ahead(sequence, &[bad], is_beyond), "{bad:?} from {sequence}");
                assert!(!are_ahead(sequence, &[(at(5), at(7)), bad], is_beyond), "{bad:?} from {sequence}");
            }
            // Nothing is said of their order, nor that they do not overlap.
            assert!(are_ahead(sequence, &[(at(5), at(7)), (at(6), at(8))], is_beyond));
            assert!(are_ahead(sequence, &[(at(5), at(7)), (at(1), at(2))], is_beyond));
        }
    }
}

#[test]
fn lists_that_fall_or_overlap_are_read() {
    let ranges = [(120, 121), (105, 106), (104, 110), (104, 110)];
    for kind in [Kind::Ack, Kind::Nack] {
        let mut datagram = Vec::new();
        match kind {
            Kind::Ack => ack(&header(), Ranges::from_slice(&ranges), &mut datagram),
            _ => nack(&header(), Ranges::from_slice(&ranges), &mut datagram),
        }
        let Some((_, Body::Ack(found) | Body::Nack(found))) = read(&datagram) else { panic!("{kind:?}") };
        assert!(found.iter().eq(ranges));
    }
}

#[test]
fn ranges_fit_as_many_as_promised() {
    let ranges: Vec<(u32, u32)> = (0..200).map(|i| (102 + 2 * i, 103 + 2 * i)).collect();
    for room in [0, 31, 32, 39, 40, 100, 576, 1472] {
        let count = Ranges::max_count(room);
        let mut datagram = Vec::new();
        ack(&header(), Ranges::from_slice(&ranges).first(count), &mut datagram);
        assert!(datagram.len() <= room.max(HEADER_BYTES) && datagram.len() + 8 > room);
        let Some((_, Body::Ack(found))) = read(&datagram) else { panic!() };
        assert_eq!(found, Ranges::from_slice(&ranges[..count]));
        assert_eq!(found.iter().len(), count);
        assert_eq!(found.first(1), Ranges::from_slice(&ranges[..count.min(1)]));
    }
    let all = Ranges::from_slice(&ranges);
    assert_eq!(all.first(999), all);
    assert!(Ranges::EMPTY.is_empty() && Ranges::default().iter().next().is_none());
    assert_ne!(all, Ranges::EMPTY);
    assert_eq!(format!("{:?}", all.first(1)), "[(102, 103)]");
    let mut left = all.iter();
    assert_eq!((left.next(), left.len(), left.clone().count()), (Some(ranges[0]), 199, 199));
}

#[test]
//= A-14 test
fn addresses_have_a_host_and_a_port() {
    let address = Address::from_bits(0x0a00_0002_0000_0fa0);
    assert_eq!(address, Address { host: 0x0a00_0002, port: 4000 });
    assert_eq!(address.bits(), 0x0a00_0002_0000_0fa0);
    let socket: SocketAddrV4 = "10.0.0.2:4000".parse().unwrap();
    assert_eq!((address.socket(), Address::from(socket)), (Some(socket), address));
    // Ports that UDP does not have, and hosts that are names.
    assert_eq!(Address { port: 65_536, ..address }.socket(), None);
    assert_eq!(Address { port: 65_535, ..address }.socket().map(|socket| socket.port()), Some(65_535));
    for (host, is_mapped) in [(0, false), (0xefff_ffff, false), (0xf000_0000, true), (u32::MAX, true)] {
        let address = Address { host, port: 1 };
        assert_eq!((address.is_mapped(), address.socket().is_none()), (is_mapped, is_mapped), "{host:x}");
    }
}

#[test]
fn a_group_is_one_of_multicast() {
    let group = |socket: &str| Group::new(NonZeroU32::MIN, socket.parse().unwrap());
    assert_eq!(group("224.0.0.0:1").map(|group| group.socket()), Some("224.0.0.0:1".parse().unwrap()));
    assert!(group("239.255.255.255:65535").is_some());
    for socket in ["223.255.255.255:1", "240.0.0.0:1", "239.0.0.1:0", "0.0.0.0:1"] {
        assert_eq!(group(socket), None);
    }
}
