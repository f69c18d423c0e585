//! XTP 4.0 (specs/xtp.md, section 1) by Wireshark's own dissector: what we hold for a packet, it takes for one.
//!
//! Its quirks, each held here so that a change is noticed: it shows the edges of spans with their bytes in reverse, shows no
//! data in a FIRST, and knows no IPv6 address segment.

use crate::tshark::{Capture, Frame, Tshark, colons, variants};
use crate::vectors;
use pinnace_wire::xtp::{Body, Codec, FirstAddress, FirstTraffic, Head, HostPair, Kind, Status};

const NOCHECK: u32 = 0x40_0000;
const SREQ: u32 = 0x00_4000;
const RCLOSE: u32 = 0x00_1000;
const WCLOSE: u32 = 0x00_0800;
const EOM: u32 = 0x00_0400;
const END: u32 = 0x00_0200;
const BTAG: u32 = 0x00_0100;
const RTN: u64 = 1 << 63;

const DATA: u8 = 0;
const CNTL: u8 = 1;
const FIRST: u8 = 2;
const ECNTL: u8 = 3;
const TCNTL: u8 = 5;
const JCNTL: u8 = 7;
const DIAG: u8 = 8;

const SEQ: u64 = 0xffff_ffff_ffff_ff00;

/// The Internet checksum of bytes among which a checksum of 0 stands.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum =
        bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A packet with its checksum.
pub(crate) fn packet(key: u64, options: u32, kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = key.to_be_bytes().to_vec();
    bytes.extend((options << 8 | u32::from(1 << 5 | kind)).to_be_bytes());
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend([0, 0, 0x12, 0x34]); // check, sort
    bytes.extend(77u32.to_be_bytes());
    bytes.extend(SEQ.to_be_bytes());
    bytes.extend(body);
    let covered = if options & NOCHECK == 0 { bytes.len() } else { 32 };
    let check = internet_checksum(&bytes[..covered]);
    bytes[16..18].copy_from_slice(&check.to_be_bytes());
    bytes
}

fn address() -> Vec<u8> {
    [&[0, 16, 1, 1][..], &[10, 0, 0, 2], &[10, 0, 0, 1], &7001u16.to_be_bytes(), &40_000u16.to_be_bytes()].concat()
}

fn address_v6() -> Vec<u8> {
    [&[0, 40, 1, 6][..], &[0xfd; 16], &[0xfe; 16], &7001u16.to_be_bytes(), &40_000u16.to_be_bytes()].concat()
}

fn traffic() -> Vec<u8> {
    let words = [1400u32, 1, 2, 3, 4].map(u32::to_be_bytes).concat();
    [&[0, 24, 4, 1][..], &words].concat()
}

/// rseq, alloc, echo.
fn status() -> Vec<u8> {
    [&0x0102_0304_0506_0708u64.to_be_bytes()[..], &u64::MAX.to_be_bytes(), &4_000_000_000u32.to_be_bytes()].concat()
}

/// What TCNTL and JCNTL begin with.
fn exchange() -> Vec<u8> {
    [&status()[..], &[0; 4], &0x1122_3344_5566_7788u64.to_be_bytes()].concat()
}

fn spans(spans: &[(u64, u64)]) -> Vec<u8> {
    let edges: Vec<u8> =
        spans.iter().flat_map(|(low, high)| [low.to_be_bytes(), high.to_be_bytes()].concat()).collect();
    [&status()[..], &(spans.len() as u32).to_be_bytes(), &edges].concat()
}

fn diag(code: u32, value: u32, text: &str) -> Vec<u8> {
    [&code.to_be_bytes()[..], &value.to_be_bytes(), text.as_bytes()].concat()
}

const BTAG_BYTES: [u8; 8] = [0xde, 0xad, 0xbe, 0xef, 0, 1, 2, 3];

/// One of each kind, with and without what is optional.
fn packets() -> Vec<(u8, Vec<u8>)> {
    let bodies = [
        (SREQ, FIRST, [address(), traffic(), b"hello".to_vec()].concat()),
        (NOCHECK | BTAG | EOM, FIRST, [address(), traffic(), BTAG_BYTES.to_vec(), b"hello".to_vec()].concat()),
        (EOM | WCLOSE | SREQ, FIRST, [address(), traffic()].concat()),
        (0, DATA, b"hello world".to_vec()),
        (NOCHECK | EOM, DATA, b"hello world".to_vec()),
        (BTAG, DATA, [&BTAG_BYTES[..], b"tagged"].concat()),
        (EOM | WCLOSE, DATA, Vec::new()),
        (0, CNTL, status()),
        (RCLOSE | WCLOSE | END | NOCHECK, CNTL, status()),
        (0, ECNTL, spans(&[(1, 2), (0x0102_0304_0506_0708, 0x0102_0304_0506_0709)])),
        (NOCHECK, ECNTL, spans(&[(1, 2)])),
        (0, TCNTL, [exchange(), traffic()].concat()),
        (0, JCNTL, [exchange(), address(), traffic()].concat()),
        (0, DIAG, diag(1, 1, "no listener at port 7001")),
        (NOCHECK, DIAG, diag(3, 0, "")),
    ];
    bodies.into_iter().map(|(options, kind, body)| (kind, packet(RTN | 5, options, kind, &body))).collect()
}

fn is_checksum_right(frame: &Frame) -> bool {
    let status = frame.number("xtp.checksum.status");
    assert!(status <= 1, "unverified");
    assert_eq!(status == 0, frame.has("xtp.bad_checksum"));
    status == 1
}

/// Nothing that the dissector objects to: it says so in the text of items only.
fn assert_fine(frame: &Frame) {
    assert!(frame.has("xtp") && !frame.is_malformed() && is_checksum_right(frame), "{frame:#?}");
}

#[test]
fn every_field_of_every_packet() {
    let Some(tshark) = Tshark::find() else { return };
    let packets = packets();
    let mut capture = Capture::new();
    packets.iter().for_each(|(_, packet)| capture.ip36(packet));
    let frames = tshark.decode(&capture, &[]);
    for (frame, (kind, packet)) in frames.iter().zip(&packets) {
        assert_fine(frame);
        assert_eq!(frame.number("xtp.key"), RTN | 5);
        assert_eq!(frame.number("xtp.cmd.ptype.ver"), 1);
        assert_eq!(frame.number("xtp.cmd.ptype.pformat"), u64::from(*kind));
        assert_eq!(frame.number("xtp.dlen"), packet.len() as u64 - 32);
        assert_eq!((frame.number("xtp.sort"), frame.number("xtp.sync"), frame.number("xtp.seq")), (0x1234, 77, SEQ));
        let options = u64::from(packet[8]) << 16 | u64::from(packet[9]) << 8;
        assert_eq!(frame.number("xtp.cmd.options"), options);
        for (bit, name) in (8..23).zip([
            "btag", "end", "eom", "wclose", "rclose", "dreq", "sreq", "fastnak", "noflow", "sort", "res", "multi",
            "noerr", "edge", "nocheck",
        ]) {
            assert_eq!(frame.number(&format!("xtp.cmd.options.{name}")), options >> bit & 1, "{name}");
        }
        let is_status = |part: &str| {
            assert_eq!(frame.number(&format!("xtp.{part}.rseq")), 0x0102_0304_0506_0708);
            assert_eq!(frame.number(&format!("xtp.{part}.alloc")), u64::MAX);
            assert_eq!(frame.number(&format!("xtp.{part}.echo")), 4_000_000_000);
        };
        let is_exchange = || {
            is_status("tcntl");
            assert_eq!(frame.number("xtp.tcntl.rsvd"), 0);
            assert_eq!(frame.number("xtp.tcntl.xkey"), 0x1122_3344_5566_7788);
        };
        let is_addressed = || {
            assert_eq!(["alen", "adomain", "aformat"].map(|f| frame.number(&format!("xtp.aseg.{f}"))), [16, 1, 1]);
            assert_eq!(frame.one("xtp.aseg.dsthost"), "10.0.0.2");
            assert_eq!(frame.one("xtp.aseg.srchost"), "10.0.0.1");
            assert_eq!(["dstport", "srcport"].map(|f| frame.number(&format!("xtp.aseg.{f}"))), [7001, 40_000]);
        };
        let is_specified = || {
            assert_eq!(["tlen", "service", "format"].map(|f| frame.number(&format!("xtp.tspec.{f}"))), [24, 4, 1]);
            let limits = ["maxdata", "inrate", "inburst", "outrate", "outburst"];
            assert_eq!(limits.map(|f| frame.number(&format!("xtp.tspec.{f}"))), [1400, 1, 2, 3, 4]);
        };
        match *kind {
            DATA => {
                let tag = if options & u64::from(BTAG) != 0 { 8 } else { 0 };
                assert_eq!(frame.numbers("xtp.data.btag").len(), tag / 8);
                let data = &packet[32 + tag..];
                assert_eq!(frame.all("xtp.data").pop().unwrap_or_default(), colons(data));
            }
            CNTL => is_status("cntl"),
            FIRST => {
                is_addressed();
                is_specified();
                assert!(!frame.has("xtp.data") && !frame.has("xtp.data.btag"), "it shows no data in a FIRST");
            }
            ECNTL => {
                is_status("ecntl");
                let spans: Vec<&[u8]> = packet[56..].chunks_exact(16).collect();
                assert_eq!(frame.number("xtp.ecntl.nspan"), spans.len() as u64);
                // The bytes of the edges in reverse.
                let edges = |at| spans.iter().map(|s| u64::from_le_bytes(s[at..at + 8].try_into().unwrap())).collect();
                let (low, high): (Vec<u64>, Vec<u64>) = (edges(0), edges(8));
                assert_eq!((frame.numbers("xtp.ecntl.span_le"), frame.numbers("xtp.ecntl.span_re")), (low, high));
            }
            TCNTL => {
                is_exchange();
                is_specified();
            }
            JCNTL => {
                is_exchange();
                is_addressed();
                is_specified();
            }
            DIAG => {
                let (code, value) = (u64::from(packet[35]), u64::from(packet[39]));
                assert_eq!((frame.number("xtp.diag.code"), frame.number("xtp.diag.val")), (code, value));
                assert_eq!(frame.one("xtp.diag.msg").as_bytes(), &packet[40..]);
            }
            other => panic!("{other}"),
        }
    }
    // What it objects to it says in the text of an item.
    let text = tshark.text(&capture, &[]);
    assert!(!text.contains("bogus") && !text.contains("Unsupported") && !text.contains("incorrect"), "{text}");
}

#[test]
fn a_wrong_checksum_is_wrong_and_no_other() {
    let Some(tshark) = Tshark::find() else { return };
    let (mut capture, mut wanted) = (Capture::new(), Vec::new());
    for (_, packet) in packets() {
        for at in 0..packet.len() {
            if (8..16).contains(&at) || (52..56).contains(&at) && packet[11] == 0x20 | ECNTL {
                continue; // options, type, dlen, nspan: they change more than the checksum
            }
            let mut packet = packet.clone();
            packet[at] ^= 0x10;
            // NOCHECK leaves the body out.
            wanted.push(at >= 32 && packet[8] & 0x40 != 0);
            capture.ip36(&packet);
        }
    }
    // 0 is a value like any other.
    let filler = &packet(5, 0, DATA, &[0, 0])[16..18];
    let zero = packet(5, 0, DATA, filler);
    assert_eq!(zero[16..18], [0, 0]);
    capture.ip36(&zero);
    wanted.push(true);
    for (frame, right) in tshark.decode(&capture, &[]).iter().zip(wanted) {
        assert_eq!(is_checksum_right(frame), right, "{frame:#?}");
    }
}

#[test]
fn it_objects_to_lengths_that_lie_and_to_ipv6_addresses() {
    let Some(tshark) = Tshark::find() else { return };
    let text_of = |packet: &[u8]| {
        let mut capture = Capture::new();
        capture.ip36(packet);
        tshark.text(&capture, &[])
    };
    let mut long = packet(5, 0, CNTL, &status());
    long.push(0);
    assert!(text_of(&long).contains("bogus length"));
    assert!(text_of(&packet(5, 0, CNTL, &status()[1..])).contains("bogus length"));
    let ipv6 = text_of(&packet(5, 0, FIRST, &[address_v6(), traffic()].concat()));
    assert!(ipv6.contains("Unsupported aformat") && ipv6.contains("bogus"), "{ipv6}");
    let mut capture = Capture::new();
    let mut spans = spans(&[(1, 2)]);
    spans[23] = 2;
    capture.ip36(&packet(5, 0, ECNTL, &spans));
    assert!(tshark.decode(&capture, &[])[0].is_malformed());
}

/// Whether the dissector follows us into this body: it knows no formats but IPv4's and traffic format 1.
fn is_followed(body: &Body<'_>) -> bool {
    let is_known = |address: &FirstAddress, traffic: &Option<FirstTraffic>| {
        let FirstAddress::Known(segment) = address else { return false };
        matches!(segment.hosts, HostPair::V4 { .. }) && matches!(traffic, Some(FirstTraffic::Known(_)))
    };
    match body {
        Body::First { address, traffic, .. } => is_known(address, &Some(*traffic)),
        Body::Join { address, status } => is_known(address, &status.traffic),
        Body::Status(Status { traffic: Some(FirstTraffic::Unknown), .. }) => false,
        _ => true,
    }
}

fn check_traffic(frame: &Frame, traffic: &FirstTraffic) {
    let FirstTraffic::Known(traffic) = traffic else { return };
    for (field, value) in [
        ("tlen", 24),
        ("service", traffic.service.into()),
        ("format", 1),
        ("maxdata", traffic.maxdata),
        ("inrate", traffic.inrate),
        ("inburst", traffic.inburst),
        ("outrate", traffic.outrate),
        ("outburst", traffic.outburst),
    ] {
        assert_eq!(frame.number(&format!("xtp.tspec.{field}")), u64::from(value), "{field} {frame:#?}");
    }
}

#[test]
fn every_vector_is_read_as_the_codec_reads_it() {
    let Some(tshark) = Tshark::find() else { return };
    let (_, good) = vectors::xtp(Codec::Xtp40);
    let mut capture = Capture::new();
    good.iter().for_each(|packet| capture.ip36(packet));
    let mut followed = Capture::new();
    for (frame, packet) in tshark.decode(&capture, &[]).iter().zip(&good) {
        assert!(is_checksum_right(frame), "{frame:#?}");
        let (head, body) = vectors::read(Codec::Xtp40, packet).expect("it parses");
        let header = &head.header;
        assert_eq!(frame.number("xtp.key"), u64::from(header.key.rtn) << 63 | header.key.value);
        assert_eq!(frame.number("xtp.cmd.options"), u64::from(header.options.bits()) << 8);
        assert_eq!(frame.number("xtp.cmd.ptype.pformat"), header.kind as u64);
        for (field, value) in [("sort", header.sort.into()), ("sync", header.sync.into()), ("seq", header.seq)] {
            assert_eq!(frame.number(&format!("xtp.{field}")), value);
        }
        if !is_followed(&body) {
            continue;
        }
        assert_fine(frame);
        followed.ip36(packet);
        match &body {
            Body::Data { btag, data } => {
                assert_eq!(frame.numbers("xtp.data.btag"), Vec::from_iter(btag.map(u64::from_be_bytes)));
                vectors::check_bytes(frame, "xtp.data", &packet[data.clone()]);
            }
            Body::First { address, traffic, .. } => {
                vectors::check_address(frame, "xtp.aseg.", ["dsthost", "srchost"], address);
                check_traffic(frame, traffic);
            }
            Body::Status(status) => {
                let part = match header.kind {
                    Kind::Ecntl => "xtp.ecntl.",
                    Kind::Tcntl => "xtp.tcntl.",
                    _ => "xtp.cntl.",
                };
                vectors::check_status(frame, part, status);
                let (low, high): (Vec<u64>, Vec<u64>) =
                    status.spans.iter().map(|(low, high)| (low.swap_bytes(), high.swap_bytes())).unzip();
                assert_eq!((frame.numbers("xtp.ecntl.span_le"), frame.numbers("xtp.ecntl.span_re")), (low, high));
                if let Some(traffic) = &status.traffic {
                    assert_eq!(frame.number("xtp.tcntl.xkey") & !RTN, status.xkey);
                    check_traffic(frame, traffic);
                }
            }
            Body::Join { status, address } => {
                vectors::check_status(frame, "xtp.tcntl.", status);
                vectors::check_address(frame, "xtp.aseg.", ["dsthost", "srchost"], address);
                check_traffic(frame, status.traffic.as_ref().expect("JCNTL has one"));
            }
            Body::Diag { code, value, text } => {
                assert_eq!(frame.number("xtp.diag.code"), u64::from(*code));
                assert_eq!(frame.number("xtp.diag.val"), u64::from(*value));
                if text.is_ascii() {
                    assert_eq!(frame.one("xtp.diag.msg").as_bytes(), *text);
                }
            }
        }
    }
    assert!(followed.len() > good.len() / 2);
    let text = tshark.text(&followed, &[]);
    for objection in ["bogus", "Unsupported", "incorrect"] {
        assert!(!text.contains(objection), "{text}");
    }
}

#[test]
fn in_udp_datagrams_it_is_recognised_and_can_be_chosen() {
    let Some(tshark) = Tshark::find() else { return };
    let packets = packets();
    let mut capture = Capture::new();
    packets.iter().for_each(|(_, packet)| capture.udp(packet));
    for args in [
        &[][..],
        &["-o", "xtp40_udp.guess:FALSE", "-o", "xtp40_udp.udp_ports:7000-7001"],
        &["-o", "xtp40_udp.guess:FALSE", "-d", "udp.port==7001,xtp40_udp"],
    ] {
        let frames = tshark.decode(&capture, args);
        for (frame, (kind, _)) in frames.iter().zip(&packets) {
            assert_fine(frame);
            assert_eq!(frame.number("xtp.cmd.ptype.pformat"), u64::from(*kind));
        }
    }
    for frame in tshark.decode(&capture, &["-o", "xtp40_udp.guess:FALSE"]) {
        assert!(!frame.has("xtp"));
    }
}

#[test]
fn guessing_takes_nothing_that_does_not_parse() {
    let Some(tshark) = Tshark::find() else { return };
    let packets: Vec<_> = packets().into_iter().map(|(_, packet)| packet).collect();
    let variants = variants(&packets, 100);
    let mut capture = Capture::new();
    variants.iter().for_each(|packet| capture.udp_alone(packet));
    let mut taken = 0;
    for (frame, packet) in tshark.decode(&capture, &[]).iter().zip(&variants) {
        let head = Head::parse(Codec::Xtp40, packet, packet.len(), false);
        let is_right = head.is_ok_and(|head| head.verify([&packet[head.summed()]]));
        // It looks at the lengths of the header, but not at those behind it, and not at all that must be 0.
        assert!(!frame.has("xtp") || is_sum_right(packet), "{packet:02x?}");
        assert!(frame.has("xtp") || !is_right, "{packet:02x?}");
        taken += usize::from(frame.has("xtp"));
    }
    assert!(taken >= packets.len() && taken < variants.len() / 4, "{taken}");
}

/// Whether the checksum is right for what the header says.
fn is_sum_right(packet: &[u8]) -> bool {
    let covered = if packet[8] & 0x40 == 0 { packet.len() } else { 32 };
    internet_checksum(&packet[..covered]) == 0
}
