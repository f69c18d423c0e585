//! The published vectors (`specs/vectors/xtp40.txt`, `xtp36.txt`), every truncation, padding and bit flip of every packet,
//! the rules of parsing one by one, and round trips of anything that can be written.

extern crate std;
use super::*;
use crate::Malformed;
use crate::checksum::{cxor, internet};
use crate::vectors::hex;
use crate::{be16, be32};
use core::net::SocketAddr;
use proptest::prelude::*;
use std::string::String;
use std::vec::Vec;
use std::{format, vec};

const CODECS: [Codec; 2] = [Codec::Xtp40, Codec::Xtp36];

/// One of the published vectors.
struct Vector {
    codec: Codec,
    bytes: Vec<u8>,
    exact: bool,
    reading: String,
}

fn vectors() -> Vec<Vector> {
    let of = |codec, name, least| {
        let vectors = crate::vectors::vectors(name, least).into_iter();
        vectors.map(move |it| Vector { codec, bytes: it.bytes, exact: it.exact, reading: it.reading })
    };
    of(Codec::Xtp40, "xtp40", 100).chain(of(Codec::Xtp36, "xtp36", 80)).collect()
}

/// The vectors that are packets.
fn good() -> impl Iterator<Item = Vector> {
    vectors().into_iter().filter(|vector| vector.reading != "malformed")
}

/// Reads a datagram in the three steps, without the checksum: tests that change a byte would otherwise only test that.
fn read_unsummed(codec: Codec, datagram: &[u8]) -> Result<(Head, Body<'_>), Malformed> {
    let head = Head::parse(codec, datagram, datagram.len(), false)?;
    Ok((head, Body::parse(&head, datagram)?))
}

/// Reads a datagram in the three steps; `None` if it is dropped.
fn read(codec: Codec, datagram: &[u8]) -> Option<(Head, Body<'_>)> {
    let (head, body) = read_unsummed(codec, datagram).ok()?;
    // Pieces of three bytes, of which some cross the beginning of padding and trailer.
    head.verify(datagram[head.summed()].chunks(3)).then_some((head, body))
}

fn describe(codec: Codec, datagram: &[u8]) -> String {
    let Some((head, body)) = read(codec, datagram) else { return "malformed".into() };
    let Header { key, options, kind, sort, sync, seq, dseq, .. } = head.header;
    let rtn = if key.rtn { " rtn" } else { "" };
    let dseq = if codec == Codec::Xtp36 { format!(" dseq {dseq}") } else { String::new() };
    let kind = format!("{kind:?}").to_uppercase();
    let body = match body {
        Body::Data { btag, data } => describe_data(datagram, btag, data),
        Body::First { address, traffic, btag, data } => {
            let data = describe_data(datagram, btag, data);
            format!("{}, {}, {data}", describe_address(&address), describe_traffic(&traffic))
        }
        Body::Status(status) => describe_status(&status),
        Body::Join { status, address } => format!("{}, {}", describe_status(&status), describe_address(&address)),
        Body::Diag { code, value, text } => format!("code {code} value {value} text {}", hex(text)),
    };
    format!("{kind} key {:x}{rtn} ({options:?}) sort {sort} sync {sync} seq {seq}{dseq}: {body}", key.value)
}

fn describe_data(datagram: &[u8], btag: Option<[u8; 8]>, data: core::ops::Range<usize>) -> String {
    let tag = btag.map_or(String::new(), |tag| format!("btag {} ", hex(&tag)));
    format!("{tag}data {}", hex(&datagram[data]))
}

fn describe_address(address: &FirstAddress) -> String {
    let FirstAddress::Known(AddressSegment { hosts, destination_port, source_port }) = *address else {
        return "unknown address".into();
    };
    let (to, from) = match hosts {
        HostPair::V4 { destination, source } => (destination.into(), source.into()),
        HostPair::V6 { destination, source } => (destination.into(), source.into()),
    };
    format!("to {} from {}", SocketAddr::new(to, destination_port), SocketAddr::new(from, source_port))
}

fn describe_traffic(traffic: &FirstTraffic) -> String {
    let FirstTraffic::Known(Traffic { service, maxdata, inrate, inburst, outrate, outburst }) = *traffic else {
        return "unknown traffic".into();
    };
    format!("service {service} maxdata {maxdata} in {inrate} {inburst} out {outrate} {outburst}")
}

fn describe_status(status: &Status<'_>) -> String {
    let Status { rseq, alloc, echo, spans, xkey, traffic, clock, hseq } = status;
    let spans: Vec<String> = spans.iter().map(|(low, high)| format!("{low}-{high}")).collect();
    let mut text = format!("rseq {rseq} alloc {alloc} echo {echo} spans ({}) hseq {hseq}", spans.join(" "));
    if traffic.is_some() || clock.is_some() {
        text += &format!(" xkey {xkey:x}");
    }
    if let Some(traffic) = traffic {
        text += &format!(" {}", describe_traffic(traffic));
    }
    if let Some(Clock { rate, burst, time, techo }) = clock {
        text += &format!(" rate {rate} burst {burst} time {time} techo {techo}");
    }
    text
}

/// Fills in both checksums of a packet, as whoever sends it does.
fn seal(codec: Codec, packet: &mut [u8]) {
    match codec {
        Codec::Xtp40 => {
            let is_checked = packet[8] & 0x40 == 0;
            packet[CHECK_AT..CHECK_AT + 2].fill(0);
            let check = internet(if is_checked { packet } else { &packet[..32] });
            packet[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
        }
        Codec::Xtp36 => {
            let end = packet.len() - TRAILER_BYTES;
            let is_checked = packet[0] & 0x40 == 0;
            let check = cxor(&packet[..36]);
            packet[36..40].copy_from_slice(&check.to_be_bytes());
            let check = if is_checked { cxor(&packet[40..end]) } else { 0 };
            packet[end..].copy_from_slice(&check.to_be_bytes());
        }
    }
}

/// A packet with data: prefix, data, tail, and the checksum where the prefix leaves it out.
fn packet_of(codec: Codec, prefix: &Prefix, data: &[u8]) -> Vec<u8> {
    let mut packet = prefix.to_vec();
    packet.extend_from_slice(data);
    packet.resize(packet.len() + codec.tail_bytes(packet.len() - codec.header_bytes()), 0);
    let is_checked = !read_unsummed(codec, &packet).unwrap().0.header.options.contains(Options::NOCHECK);
    if is_checked {
        seal(codec, &mut packet);
    }
    packet
}

/// Writes what was read; `None` if it has a format that nobody knows.
fn write(datagram: &[u8], header: &Header, body: &Body<'_>) -> Option<Vec<u8>> {
    let mut out = vec![0xee];
    match body {
        Body::Data { btag, data } => {
            let prefix = data_prefix(header, *btag, data.len());
            assert_eq!(prefix.len(), data.start);
            return Some(packet_of(header.codec, &prefix, &datagram[data.clone()]));
        }
        Body::First { address, traffic, btag, data } => {
            let (FirstAddress::Known(address), FirstTraffic::Known(traffic)) = (address, traffic) else { return None };
            let prefix = first_prefix(header, address, traffic, *btag, data.len());
            assert_eq!(prefix.len(), data.start);
            return Some(packet_of(header.codec, &prefix, &datagram[data.clone()]));
        }
        Body::Status(Status { traffic: Some(FirstTraffic::Unknown), .. }) => return None,
        Body::Status(told) => status(header, told, &mut out),
        Body::Join { status, address } => {
            let (FirstAddress::Known(address), Some(FirstTraffic::Known(traffic))) = (address, &status.traffic) else {
                return None;
            };
            join(header, status, address, traffic, &mut out);
        }
        Body::Diag { code, value, text } => diag(header, *code, *value, text, &mut out),
    }
    assert_eq!(out.remove(0), 0xee, "a packet is written behind what was there");
    Some(out)
}

#[test]
fn the_published_vectors_are_read() {
    for Vector { codec, bytes, reading, .. } in vectors() {
        assert_eq!(describe(codec, &bytes), reading, "{codec:?} {}", hex(&bytes));
    }
}

#[test]
fn exact_vectors_are_written() {
    for Vector { codec, bytes, .. } in good().filter(|vector| vector.exact) {
        let (head, body) = read(codec, &bytes).unwrap();
        assert_eq!(hex(&write(&bytes, &head.header, &body).unwrap()), hex(&bytes));
    }
}

#[test]
fn the_vectors_show_every_type_and_option() {
    for (codec, kinds) in
        [(Codec::Xtp40, "DATA CNTL FIRST ECNTL TCNTL JCNTL DIAG"), (Codec::Xtp36, "DATA CNTL FIRST DIAG")]
    {
        let vectors: Vec<Vector> = good().filter(|vector| vector.codec == codec && vector.exact).collect();
        for kind in kinds.split(' ') {
            assert!(
                vectors.iter().any(|vector| vector.reading.starts_with(&format!("{kind} "))),
                "{kind} in {codec:?}"
            );
        }
        for bit in (0..15).map(|bit| Options::from_bits(1 << bit).unwrap()) {
            let shown = vectors.iter().any(|vector| vector.reading.contains(&format!("{bit:?}")));
            assert_eq!(shown, codec == Codec::Xtp40 || bit != Options::MULTI, "{bit:?} in {codec:?}");
        }
    }
}

#[test]
fn nothing_that_is_cut_parses() {
    for Vector { codec, bytes, reading, .. } in good() {
        for len in 0..bytes.len() {
            for is_padded in [false, true] {
                let head = Head::parse(codec, &bytes[..len], len, is_padded);
                let result = head.and_then(|head| Body::parse(&head, &bytes[..len]));
                assert!(result.is_err(), "{len} bytes of {reading} make {result:?}");
            }
        }
    }
}

#[test]
fn a_prefix_is_enough_for_packets_with_data_and_too_little_for_others() {
    for Vector { codec, bytes, reading, .. } in good() {
        let head = Head::parse(codec, &bytes, bytes.len(), false).unwrap();
        let whole = Body::parse(&head, &bytes).unwrap();
        for len in 0..bytes.len() {
            let body = Body::parse(&head, &bytes[..len]);
            let has_data = matches!(head.header.kind, Kind::Data | Kind::First);
            if has_data && len >= MAX_PREFIX_BYTES {
                assert_eq!(body.as_ref(), Ok(&whole), "{len} bytes of {reading}");
            } else {
                assert!(body.is_err(), "{len} bytes of {reading}");
            }
        }
        // Only the header is looked at, and the bytes behind the packet are not part of it.
        assert_eq!(Head::parse(codec, &bytes[..codec.header_bytes()], bytes.len(), false), Ok(head));
        assert_eq!(Body::parse(&head, &[&bytes[..], &[0xee; 9]].concat()), Ok(whole));
    }
}

#[test]
fn a_prefix_never_is_longer_than_it_may_be() {
    let hosts = HostPair::V6 { destination: 1.into(), source: 2.into() };
    let address = AddressSegment { hosts, destination_port: 3, source_port: 4 };
    for codec in CODECS {
        let longest = first_prefix(&header(codec, Kind::First), &address, &Traffic::default(), Some([9; 8]), 5000);
        assert!(longest.len() <= MAX_PREFIX_BYTES, "{}", longest.len());
        let head = Head::parse(codec, &longest, longest.len() + 5000 + codec.tail_bytes(5000), false).unwrap();
        // Data of any length: the rest of the packet is not needed.
        let padded = [&longest[..], &[0xee; MAX_PREFIX_BYTES]].concat();
        let Ok(Body::First { btag: Some([9, ..]), data, .. }) = Body::parse(&head, &padded[..MAX_PREFIX_BYTES]) else {
            panic!("{head:?}")
        };
        assert_eq!(data, longest.len()..longest.len() + 5000);
    }
}

#[test]
fn a_datagram_is_longer_than_its_packet_only_where_links_pad() {
    for Vector { codec, bytes, reading, .. } in good() {
        let head = Head::parse(codec, &bytes, bytes.len(), false).unwrap();
        for more in [1, 2, 3, 4, 8, 14, 16, 1000] {
            let longer = [&bytes[..], &vec![0; more]].concat();
            assert!(read_unsummed(codec, &longer).is_err(), "{more} bytes behind {reading}");
            let padded = Head::parse(codec, &longer, longer.len(), true);
            if codec == Codec::Xtp40 || matches!(head.header.kind, Kind::Data | Kind::Diag) {
                assert_eq!(padded, Ok(head), "{more} bytes of padding behind {reading}");
                assert_eq!(Body::parse(&head, &longer), Body::parse(&head, &bytes));
                assert!(head.verify([&longer[head.summed()]]));
            } else {
                let body = padded.and_then(|head| Body::parse(&head, &longer).map(|_| ()));
                assert!(body.is_err(), "{more} bytes of padding behind {reading}");
            }
        }
    }
}

#[test]
fn one_flipped_bit_is_seen() {
    for Vector { codec, bytes, reading, .. } in good() {
        let is_checked = !read(codec, &bytes).unwrap().0.header.options.contains(Options::NOCHECK);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 0x80 >> (bit % 8);
            // With NOCHECK only the header is safe; and the flag itself is in it.
            if is_checked || bit / 8 < codec.header_bytes() {
                assert_eq!(read(codec, &flipped), None, "bit {bit} of {reading}");
            } else if let Some((head, _)) = read(codec, &flipped) {
                assert_eq!(head.header, read(codec, &bytes).unwrap().0.header);
            }
        }
    }
}

#[test]
fn pieces_may_be_cut_anywhere() {
    for Vector { codec, bytes, reading, .. } in good() {
        let head = Head::parse(codec, &bytes, bytes.len(), false).unwrap();
        let summed = &bytes[head.summed()];
        for at in 0..=summed.len() {
            let (left, right) = summed.split_at(at);
            assert!(head.verify([left, &[], right]), "{reading} cut at {at}");
            // Too few bytes are no packet, whatever they sum up to.
            assert!(at == summed.len() || !head.verify([left]), "{at} bytes of {reading}");
        }
        assert!(!head.verify([summed, &[0, 0]]), "more than was asked for, of {reading}");
    }
}

#[test]
fn without_a_checksum_little_is_left_to_check() {
    let header = |codec| Header { options: Options::NOCHECK, ..header(codec, Kind::Data) };
    for (n, padding) in [(0, 0), (1, 3), (2, 2), (3, 1), (4, 0)] {
        let packet = packet_of(Codec::Xtp36, &data_prefix(&header(Codec::Xtp36), None, n), &vec![1; n]);
        let head = Head::parse(Codec::Xtp36, &packet, packet.len(), false).unwrap();
        assert_eq!(head.summed(), 40 + n..40 + n + padding);
        assert!(head.summed().is_empty() || !head.verify([&[1, 0, 0][..padding]]));
        let packet = packet_of(Codec::Xtp40, &data_prefix(&header(Codec::Xtp40), None, n), &vec![1; n]);
        let head = Head::parse(Codec::Xtp40, &packet, packet.len(), false).unwrap();
        assert_eq!(head.summed(), 0..32);
        assert!(head.verify([&packet[..32]]));
    }
}

/// A header that a test changes.
fn header(codec: Codec, kind: Kind) -> Header {
    let key = Key { rtn: false, value: 7 };
    Header { codec, key, options: Options::NONE, kind, sort: 0, sync: 1, seq: 100, dseq: 0 }
}

/// Every 16-bit length at `at` of a packet whose own one is right: others do not parse, save `also`.
fn every_length(codec: Codec, packet: &[u8], at: usize, also: &[u16]) {
    let right = be16(packet, at);
    for length in 0..=u16::MAX {
        let mut lying = packet.to_vec();
        lying[at..at + 2].copy_from_slice(&length.to_be_bytes());
        seal(codec, &mut lying);
        assert_eq!(
            read(codec, &lying).is_some(),
            length == right || also.contains(&length),
            "{length} at {at} of {}",
            hex(packet)
        );
    }
}

#[test]
fn every_lying_alen_and_tlen_is_refused() {
    for Vector { codec, bytes, reading, .. } in good() {
        let kind = reading.split(' ').next().unwrap();
        let (head, body) = read(codec, &bytes).unwrap();
        let at = match kind {
            "FIRST" => codec.header_bytes(),
            "JCNTL" | "TCNTL" => codec.header_bytes() + TCNTL_BYTES,
            _ => continue,
        };
        let is_known = !reading.contains("unknown");
        if !is_known || head.header.options.contains(Options::NOCHECK) {
            continue;
        }
        let alen = usize::from(be16(&bytes, at));
        every_length(codec, &bytes, at, &[]);
        if kind != "TCNTL" && codec == Codec::Xtp40 {
            every_length(codec, &bytes, at + alen, &[]);
        }
        // Of a format that nobody knows, any length may be right that leaves room for the rest.
        let Body::First { btag, .. } = body else { continue };
        let mut unknown = bytes.clone();
        unknown[at + 3] = 200;
        let room = bytes.len() - at - btag.map_or(0, |_| 8);
        let fits = |length: &u16| match codec {
            Codec::Xtp40 => {
                (4..=room - 4).contains(&usize::from(*length)) && {
                    let traffic_at = at + usize::from(*length);
                    let tlen = usize::from(be16(&unknown, traffic_at));
                    let format = unknown[traffic_at + 3];
                    tlen >= 4 && traffic_at + tlen <= at + room && (format != TRAFFIC || tlen == TRAFFIC_BYTES)
                }
            }
            Codec::Xtp36 => usize::from(*length) == alen,
        };
        let also: Vec<u16> = (0..=u16::MAX).filter(fits).collect();
        every_length(codec, &unknown, at, &also);
    }
}

#[test]
fn every_lying_dlen_is_refused() {
    for Vector { codec, bytes, reading, .. } in good() {
        let at = if codec == Codec::Xtp40 { 12 } else { 24 };
        let right = be32(&bytes, at);
        let near = right.saturating_sub(2000)..right + 2000;
        let far = (0..32).flat_map(|bit| [1 << bit, (1u32 << bit) - 1, u32::MAX << bit, right ^ 1 << bit]);
        for dlen in near.chain(far).filter(|dlen| *dlen != right) {
            let mut lying = bytes.clone();
            lying[at..at + 4].copy_from_slice(&dlen.to_be_bytes());
            seal(codec, &mut lying);
            // In xtp36 dlen also says where the padding begins: fewer bytes of data in the same length would be zeros.
            let (same_words, zeros) = match read(codec, &bytes).unwrap().1 {
                Body::Data { data, .. } | Body::First { data, .. } if !reading.contains("unknown") => {
                    let len = data.len() as u32;
                    (
                        dlen.div_ceil(4) == len.div_ceil(4),
                        dlen > len || bytes[data][dlen as usize..].iter().all(|b| *b == 0),
                    )
                }
                Body::Diag { text, .. } => {
                    let len = text.len() as u32;
                    (dlen.div_ceil(4) == len.div_ceil(4), dlen > len || text[dlen as usize..].iter().all(|b| *b == 0))
                }
                Body::First { .. } => (dlen.div_ceil(4) == right.div_ceil(4), dlen > right),
                _ => (false, false),
            };
            let may = codec == Codec::Xtp36 && same_words && zeros;
            assert_eq!(read(codec, &lying).is_some(), may, "dlen {dlen} of {reading}");
        }
    }
}

#[test]
fn every_lying_nspan_is_refused() {
    for Vector { codec, bytes, reading, .. } in good() {
        let at = match (codec, reading.split(' ').next().unwrap()) {
            (Codec::Xtp40, "ECNTL") => 32 + 20,
            (Codec::Xtp36, "CNTL") => 40 + 40,
            _ => continue,
        };
        let right = be32(&bytes, at);
        // Those of the second half are right modulo 2^32 where a span has 8 or 16 bytes.
        let lies = (0..2000).chain((0..32).flat_map(|bit| [u32::MAX << bit, right.wrapping_add(1 << bit)]));
        for nspan in lies.filter(|nspan| *nspan != right) {
            let mut lying = bytes.clone();
            lying[at..at + 4].copy_from_slice(&nspan.to_be_bytes());
            seal(codec, &mut lying);
            assert_eq!(read(codec, &lying), None, "nspan {nspan} of {reading}");
        }
    }
}

#[test]
fn every_type_and_version_is_known_or_refused() {
    for codec in CODECS {
        let at = if codec == Codec::Xtp40 { 11 } else { 3 };
        let mut status_packet = Vec::new();
        status(&header(codec, Kind::Cntl), &told(&[]), &mut status_packet);
        for ptype in 0..=255u8 {
            let mut packet = status_packet.clone();
            packet[at] = ptype;
            seal(codec, &mut packet);
            let known: &[u8] = if codec == Codec::Xtp40 { &[0, 1, 2, 3, 5, 7, 8] } else { &[0, 1, 2, 8] };
            let is_known = ptype >> 5 == 1 && known.contains(&(ptype & 31));
            let head = Head::parse(codec, &packet, packet.len(), false);
            assert_eq!(head == Err(Malformed::Unknown), !is_known, "{codec:?} {ptype:#x}: {head:?}");
        }
    }
}

#[test]
fn every_option_is_known_or_refused() {
    for codec in CODECS {
        let (at, bits) = if codec == Codec::Xtp40 { (8, 24) } else { (0, 16) };
        let data = packet_of(codec, &data_prefix(&header(codec, Kind::Data), None, 8), &[0; 8]);
        for bit in 0..bits {
            let mut packet = data.clone();
            packet[at + bit / 8] |= 0x80 >> (bit % 8);
            seal(codec, &mut packet);
            if codec == Codec::Xtp36 && bit == 15 {
                // A tag of xtp36 is not counted, so these would be 16 bytes.
                continue;
            }
            let is_defined = (1..16).contains(&bit) && (codec == Codec::Xtp40 || bit != 4);
            assert_eq!(read(codec, &packet).is_some(), is_defined, "{codec:?} bit {bit}");
        }
    }
}

#[test]
fn a_writer_leaves_out_what_the_codec_has_no_room_for() {
    let key = Key { rtn: true, value: u64::MAX };
    for codec in CODECS {
        let wild = Header {
            codec,
            key,
            options: Options::ALL,
            kind: Kind::Diag,
            sort: u32::MAX,
            sync: 1,
            seq: u64::MAX,
            dseq: 9,
        };
        let mut packet = Vec::new();
        diag(&wild, 1, 2, b"text", &mut packet);
        let (head, _) = read(codec, &packet).unwrap();
        assert_eq!(head.header.key, Key { rtn: true, value: codec.key_mask() });
        assert_eq!(head.header.options.contains(Options::MULTI), codec == Codec::Xtp40);
        assert!(!head.header.options.contains(Options::BTAG));
        let wide = if codec == Codec::Xtp40 { (0xffff, u64::MAX, 0) } else { (u32::MAX, 0xffff_ffff, 9) };
        assert_eq!((head.header.sort, head.header.seq, head.header.dseq), wide);
        // No SORT, no sort.
        let mut packet = Vec::new();
        diag(&Header { options: Options::NONE, ..wild }, 1, 2, b"text", &mut packet);
        assert_eq!(read(codec, &packet).unwrap().0.header.sort, 0);
        // A tag and its option come together.
        for (btag, options) in [(None, Options::BTAG), (Some([1; 8]), Options::NONE)] {
            let prefix = data_prefix(&Header { options, ..wild }, btag, 3);
            let packet = packet_of(codec, &prefix, b"abc");
            let (head, body) = read(codec, &packet).unwrap();
            assert_eq!(head.header.options.contains(Options::BTAG), btag.is_some());
            let Body::Data { btag: found, data } = body else { panic!("{body:?}") };
            assert_eq!((found, &packet[data]), (btag, &b"abc"[..]));
        }
    }
}

/// A status with these spans.
fn told<'a>(spans: &'a [(u64, u64)]) -> Status<'a> {
    let hseq = spans.last().map_or(10, |span| span.1);
    let spans = Spans::from_slice(spans);
    Status { rseq: 10, alloc: 20, echo: 30, spans, xkey: 0, traffic: None, clock: None, hseq }
}

#[test]
fn a_status_is_the_kind_that_its_contents_allow() {
    let write = |codec, kind, spans: &[(u64, u64)]| {
        let mut packet = Vec::new();
        status(&header(codec, kind), &told(spans), &mut packet);
        read(codec, &packet).unwrap().0.header.kind
    };
    for kind in [Kind::Cntl, Kind::Ecntl, Kind::Tcntl] {
        assert_eq!(write(Codec::Xtp40, kind, &[]), if kind == Kind::Ecntl { Kind::Cntl } else { kind });
        assert_eq!(write(Codec::Xtp40, kind, &[(11, 12)]), kind);
        assert_eq!(write(Codec::Xtp36, kind, &[(11, 12)]), Kind::Cntl);
    }
    assert_eq!(write(Codec::Xtp40, Kind::Data, &[]), Kind::Cntl);
    // A JCNTL exists in xtp40 only.
    let address = AddressSegment {
        hosts: HostPair::V4 { destination: 1.into(), source: 2.into() },
        destination_port: 3,
        source_port: 4,
    };
    let mut packet = Vec::new();
    join(&header(Codec::Xtp36, Kind::Jcntl), &told(&[]), &address, &Traffic::default(), &mut packet);
    assert_eq!(read(Codec::Xtp40, &packet).unwrap().0.header.kind, Kind::Jcntl);
}

#[test]
fn spans_fit_as_many_as_promised() {
    let spans: Vec<(u64, u64)> = (0..200).map(|i| (20 + 2 * i, 21 + 2 * i)).collect();
    for codec in CODECS {
        assert_eq!(codec.max_spans(0), 0);
        for room in [56, 71, 72, 92, 99, 100, 576, 1472] {
            let count = codec.max_spans(room);
            for (count, fits) in [(count, true), (count + 1, false)] {
                let mut packet = Vec::new();
                let told = told(&spans[..count]);
                status(&header(codec, Kind::Ecntl), &told, &mut packet);
                assert!(packet.len() <= room || !fits || count == 0, "{count} spans in {room} bytes of {codec:?}");
                assert!(packet.len() > room || fits, "{count} spans in {room} bytes of {codec:?}");
                let Some((_, Body::Status(found))) = read(codec, &packet) else { panic!() };
                assert_eq!(found.spans, told.spans);
                assert_eq!(found.spans.iter().len(), count);
            }
        }
    }
    let all = Spans::from_slice(&spans);
    assert_eq!(all.first(3).iter().collect::<Vec<_>>(), &spans[..3]);
    assert_eq!(all.first(999), all);
    assert!(Spans::EMPTY.is_empty() && Spans::default().iter().next().is_none());
    assert_ne!(all, Spans::EMPTY);
    assert_eq!(format!("{:?}", all.first(1)), "[(20, 21)]");
    let mut left = all.iter();
    assert_eq!((left.next(), left.len(), left.clone().count()), (Some(spans[0]), 199, 199));
}

#[test]
fn an_unknown_address_may_be_longer_than_the_prefix() {
    // 400 bytes of address, then a traffic specifier, then data.
    let parts = |alen: u16, tlen: u16| {
        let mut body = vec![0; usize::from(alen)];
        body[..2].copy_from_slice(&alen.to_be_bytes());
        body[2..4].copy_from_slice(&[1, 99]);
        body.extend([&tlen.to_be_bytes()[..], &[4, 1], &[0; 20], b"data"].concat());
        let mut packet = vec![0; 32];
        header(Codec::Xtp40, Kind::First).write(Kind::First, Options::NONE, body.len(), &mut packet);
        packet.extend(body);
        seal(Codec::Xtp40, &mut packet);
        packet
    };
    for (alen, known) in [(400, false), (56, true)] {
        let packet = parts(alen, 24);
        let (head, body) = read(Codec::Xtp40, &packet).unwrap();
        let Body::First { address: FirstAddress::Unknown, traffic: FirstTraffic::Known(_), btag: None, data } = body
        else {
            panic!("{body:?}")
        };
        assert_eq!(data, packet.len()..packet.len());
        let Ok(Body::First { address, traffic, .. }) = Body::parse(&head, &packet[..MAX_PREFIX_BYTES]) else {
            panic!()
        };
        assert_eq!(address, FirstAddress::Unknown);
        assert_eq!(matches!(traffic, FirstTraffic::Known(_)), known, "alen {alen}");
    }
    assert_eq!(read(Codec::Xtp40, &parts(400, 23)), None);
    let no_traffic = parts(400, 24);
    let mut cut = no_traffic[..32 + 402].to_vec();
    cut[12..16].copy_from_slice(&402u32.to_be_bytes());
    seal(Codec::Xtp40, &mut cut);
    let head = Head::parse(Codec::Xtp40, &cut, cut.len(), false).unwrap();
    assert_eq!(Body::parse(&head, &cut[..MAX_PREFIX_BYTES]), Err(Malformed::Length));
    assert_eq!(Body::parse(&head, &cut), Err(Malformed::Length));
}

fn any_header() -> impl Strategy<Value = Header> {
    let codec = prop_oneof![Just(Codec::Xtp40), Just(Codec::Xtp36)];
    let numbers = (any::<u32>(), any::<u32>(), any::<u64>(), any::<u32>());
    (codec, any::<bool>(), any::<u64>(), 0..=0x7fffu16, numbers).prop_map(
        |(codec, rtn, value, bits, (sort, sync, seq, dseq))| {
            let options = Options::from_bits(bits).unwrap();
            let is_old = codec == Codec::Xtp36;
            Header {
                codec,
                key: Key { rtn, value: (value & codec.key_mask()).max(1) },
                options: if is_old { options.without(Options::MULTI) } else { options },
                kind: Kind::Data,
                sort: match options.contains(Options::SORT) {
                    true if is_old => sort,
                    true => sort & 0xffff,
                    false => 0,
                },
                sync,
                seq: if is_old { seq & 0xffff_ffff } else { seq },
                dseq: if is_old { dseq } else { 0 },
            }
        },
    )
}

fn any_traffic() -> impl Strategy<Value = Traffic> {
    any::<(u8, [u32; 5])>().prop_map(|(service, [maxdata, inrate, inburst, outrate, outburst])| Traffic {
        service,
        maxdata,
        inrate,
        inburst,
        outrate,
        outburst,
    })
}

fn any_address() -> impl Strategy<Value = AddressSegment> {
    let v4 = any::<(u32, u32)>().prop_map(|(a, b)| HostPair::V4 { destination: a.into(), source: b.into() });
    let v6 = any::<(u128, u128)>().prop_map(|(a, b)| HostPair::V6 { destination: a.into(), source: b.into() });
    (prop_oneof![v4, v6], any::<u16>(), any::<u16>())
        .prop_map(|(hosts, destination_port, source_port)| AddressSegment { hosts, destination_port, source_port })
}

proptest! {
    #[test]
    fn data_that_are_written_are_read(
        header in any_header(),
        tag in any::<[u8; 8]>(),
        data in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let btag = header.options.contains(Options::BTAG).then_some(tag);
        let packet = packet_of(header.codec, &data_prefix(&header, btag, data.len()), &data);
        let (head, body) = read(header.codec, &packet).unwrap();
        prop_assert_eq!(head.header, header);
        let low = packet.len() - header.codec.tail_bytes(data.len()) - data.len();
        prop_assert_eq!(body, Body::Data { btag, data: low..low + data.len() });
        prop_assert_eq!(&packet[low..low + data.len()], &data);
    }

    #[test]
    fn a_first_that_is_written_is_read(
        header in any_header(),
        address in any_address(),
        traffic in any_traffic(),
        tag in any::<[u8; 8]>(),
        data in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let header = Header { kind: Kind::First, ..header };
        let btag = header.options.contains(Options::BTAG).then_some(tag);
        let packet = packet_of(header.codec, &first_prefix(&header, &address, &traffic, btag, data.len()), &data);
        let (head, body) = read(header.codec, &packet).unwrap();
        prop_assert_eq!(head.header, header);
        let low = packet.len() - header.codec.tail_bytes(data.len()) - data.len();
        let traffic = match header.codec {
            Codec::Xtp40 => traffic,
            Codec::Xtp36 => Traffic { service: traffic.service, ..Traffic::default() },
        };
        let (address, traffic) = (FirstAddress::Known(address), FirstTraffic::Known(traffic));
        prop_assert_eq!(body, Body::First { address, traffic, btag, data: low..low + data.len() });
        prop_assert_eq!(&packet[low..low + data.len()], &data);
    }

    #[test]
    fn a_status_that_is_written_is_read(
        header in any_header(),
        kind in prop_oneof![Just(Kind::Cntl), Just(Kind::Ecntl), Just(Kind::Tcntl)],
        numbers in any::<(u64, u64, u32, u64, u64)>(),
        spans in prop::collection::vec(any::<(u64, u64)>(), 1..20),
        traffic in any_traffic(),
        clock in any::<[u32; 4]>(),
    ) {
        let is_old = header.codec == Codec::Xtp36;
        let kind = if is_old { Kind::Cntl } else { kind };
        let header = Header { kind, options: header.options.without(Options::BTAG), ..header };
        let cut = |number: u64| if is_old { number & 0xffff_ffff } else { number };
        let spans: Vec<(u64, u64)> = spans.into_iter().map(|(low, high)| (cut(low), cut(high))).collect();
        let spans = if is_old || kind == Kind::Ecntl { Spans::from_slice(&spans) } else { Spans::EMPTY };
        let (rseq, alloc, echo, xkey, hseq) = numbers;
        let [rate, burst, time, techo] = clock;
        let hseq = if is_old { cut(hseq) } else { spans.iter().last().map_or(rseq, |span| span.1) };
        let told = Status {
            rseq: cut(rseq),
            alloc: cut(alloc),
            echo,
            spans,
            xkey: if is_old || kind == Kind::Tcntl { xkey & header.codec.key_mask() } else { 0 },
            traffic: (kind == Kind::Tcntl).then_some(FirstTraffic::Known(traffic)),
            clock: is_old.then_some(Clock { rate, burst, time, techo }),
            hseq,
        };
        let mut packet = Vec::new();
        status(&header, &told, &mut packet);
        let (head, body) = read(header.codec, &packet).unwrap();
        prop_assert_eq!(head.header, header);
        prop_assert_eq!(body, Body::Status(told));
    }

    #[test]
    fn a_join_that_is_written_is_read(
        header in any_header(),
        address in any_address(),
        traffic in any_traffic(),
        numbers in any::<(u64, u64, u32, u64)>(),
    ) {
        prop_assume!(header.codec == Codec::Xtp40);
        let header = Header { kind: Kind::Jcntl, options: header.options.without(Options::BTAG), ..header };
        let (rseq, alloc, echo, xkey) = numbers;
        let told = Status {
            rseq, alloc, echo, spans: Spans::EMPTY, xkey: xkey >> 1, traffic: Some(FirstTraffic::Known(traffic)), clock: None, hseq: rseq,
        };
        let mut packet = Vec::new();
        join(&header, &told, &address, &traffic, &mut packet);
        let (head, body) = read(header.codec, &packet).unwrap();
        prop_assert_eq!(head.header, header);
        prop_assert_eq!(body, Body::Join { status: told, address: FirstAddress::Known(address) });
    }

    #[test]
    fn a_diagnosis_that_is_written_is_read(
        header in any_header(),
        code in any::<u32>(),
        value in any::<u32>(),
        text in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let header = Header { kind: Kind::Diag, options: header.options.without(Options::BTAG), ..header };
        let mut packet = Vec::new();
        diag(&header, code, value, &text, &mut packet);
        let (head, body) = read(header.codec, &packet).unwrap();
        prop_assert_eq!(head.header, header);
        prop_assert_eq!(body, Body::Diag { code, value, text: &text });
    }
}
