//! What the fuzz target of XTP's codecs does with its bytes. Shared by `fuzz/` and by the test that replays its corpus.
//!
//! The first byte says which codec, whether the link pads, and whether the checksums are put right first, without which
//! next to nothing would get past them. The rest is a datagram.

use pinnace_wire::checksum::{cxor, internet};
use pinnace_wire::xtp::{
    Body, CHECK_AT, Codec, FirstAddress, FirstTraffic, Head, Header, Kind, MAX_PREFIX_BYTES, Options, Status,
    TRAILER_BYTES, data_prefix, diag, first_prefix, join, status,
};

/// The byte that says what to do with the others: the codec, a link that pads, and checksums that are put right.
pub(crate) const XTP36: u8 = 1;
const PADDED: u8 = 2;
pub(crate) const SEALED: u8 = 4;

/// The target: a packet that parses says what it says within its bytes, and can be said again.
pub(crate) fn xtp_codec(input: &[u8]) {
    let Some((flags, datagram)) = input.split_first() else { return };
    let codec = if flags & XTP36 != 0 { Codec::Xtp36 } else { Codec::Xtp40 };
    let is_padded = flags & PADDED != 0;
    let mut datagram = datagram.to_vec();
    if flags & SEALED != 0 {
        seal(codec, is_padded, &mut datagram);
    }
    let Ok(head) = Head::parse(codec, &datagram, datagram.len(), is_padded) else { return };
    let len = head.packet_bytes();
    assert!(len <= datagram.len() && (is_padded || len == datagram.len()));
    let packet = &datagram[..len];
    let whole = Body::parse(&head, &datagram);
    assert_eq!(whole, Body::parse(&head, packet), "what lies behind the packet counts");
    let is_right = head.verify([&datagram[head.summed()]]);
    assert_eq!(is_right, head.verify(datagram[head.summed()].chunks(5)), "it matters how the pieces are cut");
    let needed = match head.header.kind {
        Kind::Data | Kind::First => len.min(MAX_PREFIX_BYTES),
        _ => len,
    };
    assert!(Body::parse(&head, &datagram[..needed - 1]).is_err(), "a packet without its end is read");
    let Ok(body) = whole else { return };
    if needed < len {
        check_prefix(&head, &datagram[..needed], &body);
    }
    if is_right {
        check_again(&head, packet, &body);
    }
}

/// The prefix of a packet says the same as all of it, save behind an address that nobody knows.
fn check_prefix(head: &Head, prefix: &[u8], whole: &Body<'_>) {
    let body = Body::parse(head, prefix).expect("a prefix is enough");
    match (&body, whole) {
        (
            Body::First { address: FirstAddress::Unknown, btag: None, data, .. },
            Body::First { address: FirstAddress::Unknown, data: of_whole, .. },
        ) => assert_eq!(data, of_whole),
        _ => assert_eq!(&body, whole),
    }
}

/// What was read is written and read again.
fn check_again(head: &Head, packet: &[u8], body: &Body<'_>) {
    let header = &head.header;
    let mut out = Vec::new();
    match body {
        Body::Data { btag, data } => {
            assert!(data.start <= data.end && data.end <= packet.len());
            out.extend_from_slice(&data_prefix(header, *btag, data.len()));
            finish(header, &packet[data.clone()], &mut out);
        }
        Body::First { address, traffic, btag, data } => {
            assert!(data.start <= data.end && data.end <= packet.len());
            let (FirstAddress::Known(address), FirstTraffic::Known(traffic)) = (address, traffic) else {
                assert!(btag.is_none() && data.is_empty(), "something is told of a FIRST that is only answered");
                return;
            };
            out.extend_from_slice(&first_prefix(header, address, traffic, *btag, data.len()));
            finish(header, &packet[data.clone()], &mut out);
        }
        Body::Status(Status { traffic: Some(FirstTraffic::Unknown), .. }) => return,
        Body::Status(told) => {
            assert!(told.spans.iter().len() <= header.codec.max_spans(packet.len()));
            status(header, told, &mut out);
        }
        Body::Join { status, address } => {
            let (FirstAddress::Known(address), Some(FirstTraffic::Known(traffic))) = (address, &status.traffic) else {
                return;
            };
            join(header, status, address, traffic, &mut out);
        }
        Body::Diag { code, value, text } => diag(header, *code, *value, text, &mut out),
    }
    assert_eq!(out.len(), packet.len());
    let again = Head::parse(header.codec, &out, out.len(), false).expect("what was parsed can be said again");
    assert!(again.verify([&out[again.summed()]]));
    assert_eq!(Body::parse(&again, &out).as_ref(), Ok(body));
    // A tag that is not there is not promised again.
    let has_data = matches!(header.kind, Kind::Data | Kind::First);
    let options = if has_data { header.options } else { header.options.without(Options::BTAG) };
    assert_eq!(again.header, Header { options, ..*header });
}

/// Data, tail and checksum behind a prefix.
fn finish(header: &Header, data: &[u8], out: &mut Vec<u8>) {
    let codec = header.codec;
    out.extend_from_slice(data);
    out.resize(out.len() + codec.tail_bytes(out.len() - codec.header_bytes()), 0);
    if header.options.contains(Options::NOCHECK) {
        return;
    }
    match codec {
        Codec::Xtp40 => {
            let check = internet(out);
            out[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
        }
        Codec::Xtp36 => {
            let end = out.len() - TRAILER_BYTES;
            let check = cxor(&out[codec.header_bytes()..end]);
            out[end..].copy_from_slice(&check.to_be_bytes());
        }
    }
}

/// Puts the checksums right, as far as the datagram has them.
fn seal(codec: Codec, is_padded: bool, datagram: &mut [u8]) {
    if datagram.len() < codec.header_bytes() + codec.tail_bytes(0) {
        return;
    }
    if codec == Codec::Xtp36 {
        let check = cxor(&datagram[..36]);
        datagram[36..40].copy_from_slice(&check.to_be_bytes());
    }
    let Ok(head) = Head::parse(codec, datagram, datagram.len(), is_padded) else { return };
    let summed = head.summed();
    match codec {
        Codec::Xtp40 => {
            datagram[CHECK_AT..CHECK_AT + 2].fill(0);
            let check = internet(&datagram[summed]);
            datagram[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
        }
        Codec::Xtp36 => {
            let end = head.packet_bytes() - TRAILER_BYTES;
            let check = cxor(&datagram[codec.header_bytes()..end]);
            datagram[end..end + TRAILER_BYTES].copy_from_slice(&check.to_be_bytes());
        }
    }
}
