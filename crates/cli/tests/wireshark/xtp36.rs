//! The reconstruction of XTP 3.6 (specs/xtp.md, sections 2 and 6): packets written here from the specification, and the
//! published vectors against the codec.

use crate::tshark::{Capture, Frame, Tshark, colons, hex, variants};
use crate::vectors;
use pinnace_wire::xtp::{Body, Codec, FirstAddress, FirstTraffic};

const AS_XTP36: [&str; 2] = ["-d", "udp.port==7001,xtp36"];

const NOCHECK: u16 = 0x4000;
const SORT: u16 = 0x0200;
const SREQ: u16 = 0x0040;
const RCLOSE: u16 = 0x0010;
const WCLOSE: u16 = 0x0008;
const EOM: u16 = 0x0004;
const END: u16 = 0x0002;
const BTAG: u16 = 0x0001;

const DATA: u8 = 0x20;
const CNTL: u8 = 0x21;
const FIRST: u8 = 0x22;
const DIAG: u8 = 0x28;

const HEADER: usize = 40;
/// RTN, instance 1025, slot 515, context 7.
const KEY: u32 = 1 << 31 | 1025 << 20 | 515 << 8 | 7;

/// CXOR, from its definition.
fn cxor(bytes: &[u8]) -> u32 {
    let (mut xor, mut rxor) = (0u16, 0u16);
    for word in bytes.chunks(2) {
        let word = u16::from(word[0]) << 8 | u16::from(*word.get(1).unwrap_or(&0));
        xor ^= word;
        rxor = rxor.rotate_left(1) ^ word;
    }
    u32::from(xor) << 16 | u32::from(rxor)
}

/// A packet with its padding and both checksums. `dlen` says how many of the segment's bytes are the user's.
fn packet(options: u16, kind: u8, dlen: usize, segment: &[u8]) -> Vec<u8> {
    let sort = if options & SORT == 0 { 0 } else { 11 };
    let mut bytes = options.to_be_bytes().to_vec();
    bytes.extend([0, kind]);
    for word in [KEY, sort, 12, 0xffff_fff0, 0, dlen as u32, 13, 0] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend(cxor(&bytes).to_be_bytes());
    assert_eq!(bytes.len(), HEADER);
    bytes.extend(segment);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let check = if options & NOCHECK == 0 { cxor(&bytes[HEADER..]) } else { 0 };
    bytes.extend(check.to_be_bytes());
    bytes
}

fn address() -> Vec<u8> {
    [&[0, 16, 3, 1][..], &[10, 0, 0, 2], &[10, 0, 0, 1], &7001u16.to_be_bytes(), &40_000u16.to_be_bytes()].concat()
}

fn address_v6() -> Vec<u8> {
    [&[0, 40, 4, 6][..], &[0xfd; 16], &[0xfe; 16], &7001u16.to_be_bytes(), &40_000u16.to_be_bytes()].concat()
}

/// rate, burst, echo, time, techo, xkey, xroute, alloc, rseq, hseq, nspan, reserved; spans.
fn control(spans: &[(u32, u32)]) -> Vec<u8> {
    let words = [1, 2, 3, 4, 5, KEY & !(1 << 31), 0, 1000, 0xffff_fff8, 40, spans.len() as u32, 0];
    let edges = spans.iter().flat_map(|(low, high)| [*low, *high]);
    words.into_iter().chain(edges).flat_map(u32::to_be_bytes).collect()
}

fn diag(code: u32, value: u32, text: &str) -> Vec<u8> {
    [&code.to_be_bytes()[..], &value.to_be_bytes(), text.as_bytes()].concat()
}

/// One of each kind, with and without what is optional; the spans go over the wrap of the numbers.
fn packets() -> Vec<Vec<u8>> {
    let tag = [0xde, 0xad, 0xbe, 0xef, 0, 1, 2, 3];
    vec![
        packet(SREQ | SORT, FIRST, 5, &[&address()[..], b"hello"].concat()),
        packet(BTAG | EOM, FIRST, 4, &[&address_v6()[..], &tag, b"four"].concat()),
        packet(EOM | WCLOSE, FIRST, 0, &address()),
        packet(0, DATA, 11, b"hello world"),
        packet(NOCHECK | EOM, DATA, 8, b"no check"),
        packet(BTAG, DATA, 6, &[&tag[..], b"tagged"].concat()),
        packet(EOM | WCLOSE, DATA, 0, b""),
        packet(0, CNTL, 0, &control(&[])),
        packet(RCLOSE | WCLOSE | END, CNTL, 0, &control(&[(0xffff_fffa, 2), (20, 40)])),
        packet(0, DIAG, 11, &diag(1, 1, "no listener")),
        packet(NOCHECK, DIAG, 0, &diag(3, 0, "")),
    ]
}

/// Whether the checksums are (right, right or not looked at).
fn checks(frame: &Frame) -> (u64, u64) {
    let (header, data) = (frame.number("xtp36.hcheck.status"), frame.number("xtp36.dcheck.status"));
    assert_eq!((header == 0, data == 0), (frame.has("xtp36.hcheck.bad"), frame.has("xtp36.dcheck.bad")));
    (header, data)
}

#[test]
fn every_field_of_every_packet() {
    let Some(tshark) = Tshark::find() else { return };
    let packets = packets();
    let mut capture = Capture::new();
    packets.iter().for_each(|packet| capture.udp(packet));
    let frames = tshark.decode(&capture, &AS_XTP36);
    for (frame, packet) in frames.iter().zip(&packets) {
        assert!(!frame.has("_ws.expert") && !frame.is_malformed(), "{frame:#?}");
        let options = u64::from(packet[0]) << 8 | u64::from(packet[1]);
        assert_eq!(checks(frame), (1, if options & u64::from(NOCHECK) == 0 { 1 } else { 2 }));
        for (field, value) in [
            ("options", options),
            ("offset", 0),
            ("type", u64::from(packet[3])),
            ("key", u64::from(KEY)),
            ("key.rtn", 1),
            ("key.instance", 1025),
            ("key.slot", 515),
            ("key.context", 7),
            ("sort", if options & u64::from(SORT) == 0 { 0 } else { 11 }),
            ("sync", 12),
            ("seq", 0xffff_fff0),
            ("route", 0),
            ("dseq", 13),
            ("ttl", 0),
            ("reserved", 0),
        ] {
            assert_eq!(frame.number(&format!("xtp36.{field}")), value, "{field}");
        }
        for (bit, name) in [
            "btag", "end", "eom", "wclose", "rclose", "dreq", "sreq", "fastnak", "noflow", "sort", "res", "multi",
            "noerr", "edge", "nocheck",
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(frame.number(&format!("xtp36.options.{name}")), options >> bit & 1, "{name}");
        }
    }
    let [first, first6, empty_first, data, nocheck, tagged, empty, cntl, spans, diag, nodiag] = &frames[..] else {
        panic!()
    };
    for (frame, service, words) in [(first, 3, 16), (empty_first, 3, 16), (first6, 4, 40)] {
        assert_eq!((frame.number("xtp36.service"), frame.number("xtp36.address.length")), (service, words));
        assert_eq!((frame.number("xtp36.dstport"), frame.number("xtp36.srcport")), (7001, 40_000));
    }
    assert_eq!((&*first.one("xtp36.dst"), &*first.one("xtp36.src")), ("10.0.0.2", "10.0.0.1"));
    assert!(first6.one("xtp36.dst6").starts_with("fdfd:") && first6.one("xtp36.src6").starts_with("fefe:"));
    assert_eq!((first.one("xtp36.data"), first.one("xtp36.padding")), (colons(b"hello"), "00:00:00".to_owned()));
    assert_eq!((first6.one("xtp36.data"), first6.number("xtp36.btag")), (colons(b"four"), 0xdead_beef_0001_0203));
    assert!(!first6.has("xtp36.padding") && !empty_first.has("xtp36.data"));
    assert_eq!((data.one("xtp36.data"), data.number("xtp36.dlen")), (colons(b"hello world"), 11));
    assert_eq!(nocheck.one("xtp36.data"), colons(b"no check"));
    assert_eq!((tagged.one("xtp36.data"), tagged.number("xtp36.btag")), (colons(b"tagged"), 0xdead_beef_0001_0203));
    assert!(!empty.has("xtp36.data"));
    for (frame, nspan) in [(cntl, 0), (spans, 2)] {
        for (field, value) in [
            ("rate", 1),
            ("burst", 2),
            ("echo", 3),
            ("time", 4),
            ("techo", 5),
            ("xkey", u64::from(KEY) & 0x7fff_ffff),
            ("xkey.rtn", 0),
            ("xkey.instance", 1025),
            ("xkey.slot", 515),
            ("xkey.context", 7),
            ("xroute", 0),
            ("alloc", 1000),
            ("rseq", 0xffff_fff8),
            ("hseq", 40),
            ("nspan", nspan),
            ("cntl.reserved", 0),
        ] {
            assert_eq!(frame.number(&format!("xtp36.{field}")), value, "{field}");
        }
    }
    assert_eq!(spans.numbers("xtp36.span.low"), [0xffff_fffa, 20]);
    assert_eq!(spans.numbers("xtp36.span.high"), [2, 40]);
    assert_eq!((diag.number("xtp36.diag.code"), diag.number("xtp36.diag.value")), (1, 1));
    assert_eq!(diag.one("xtp36.diag.text"), "no listener");
    assert_eq!((nodiag.number("xtp36.diag.code"), nodiag.has("xtp36.diag.text")), (3, false));

    let lines = tshark.lines_of(&capture, &AS_XTP36);
    let key = "key RTN 0x40120307, seq 4294967280, sync 12";
    assert_eq!(lines[0], format!("XTP 3.6 FIRST {key}, len 5 [SORT SREQ], Transaction, port 40000 to 7001"));
    assert_eq!(lines[4], format!("XTP 3.6 DATA {key}, len 8 [NOCHECK EOM]"));
    assert_eq!(
        lines[8],
        format!(
            "XTP 3.6 CNTL {key}, len 0 [RCLOSE WCLOSE END], rseq 4294967288, alloc 1000, echo 3, spans [4294967290,2), [20,40)"
        )
    );
    assert_eq!(lines[9], format!("XTP 3.6 DIAG {key}, len 11, Context refused: No listener"));
}

#[test]
fn its_cxor_is_that_of_the_vectors() {
    let Some(tshark) = Tshark::find() else { return };
    let mut capture = Capture::new();
    for line in include_str!("../../../../specs/vectors/cxor.txt").lines().filter(|line| !line.starts_with('#')) {
        let (block, sums) = line.split_once(" -> ").expect("an arrow");
        let block = if block == "(empty)" { Vec::new() } else { hex(block) };
        if !block.len().is_multiple_of(4) {
            continue; // padding would be summed too
        }
        let mut packet = packet(0, DATA, block.len(), &block);
        let end = packet.len() - 4;
        packet[end..].copy_from_slice(&hex(sums));
        capture.udp(&packet);
    }
    assert!(capture.len() > 10);
    for frame in tshark.decode(&capture, &AS_XTP36) {
        assert_eq!(checks(&frame), (1, 1), "{frame:#?}");
    }
}

#[test]
fn a_checksum_is_bad_exactly_where_it_was_made_bad() {
    let Some(tshark) = Tshark::find() else { return };
    let (mut capture, mut wanted) = (Capture::new(), Vec::new());
    for packet in packets() {
        let nocheck = packet[0] & 0x40 != 0;
        for at in 0..packet.len() {
            if matches!(at, 0 | 3) {
                continue; // whether there is a data checksum, and what it covers
            }
            let mut packet = packet.clone();
            packet[at] ^= 0x10;
            capture.udp(&packet);
            wanted.push((u64::from(at >= HEADER), if nocheck { 2 } else { u64::from(at < HEADER) }));
        }
    }
    for (frame, wanted) in tshark.decode(&capture, &AS_XTP36).iter().zip(wanted) {
        assert_eq!(checks(frame), wanted, "{frame:#?}");
    }
}

#[test]
fn what_does_not_parse_is_called_so() {
    let Some(tshark) = Tshark::find() else { return };
    // Header checksums are right: the fault itself has to be found.
    let edited = |at: usize, byte: u8| {
        let mut packet = packet(0, DATA, 11, b"hello world");
        packet[at] = byte;
        let check = cxor(&packet[..36]);
        packet[36..40].copy_from_slice(&check.to_be_bytes());
        packet
    };
    let mut control_of = vec![];
    for (word, value) in [(6, 1u32), (10, 1), (10, u32::MAX), (11, 1)] {
        let mut segment = control(&[]);
        segment[4 * word..][..4].copy_from_slice(&value.to_be_bytes());
        control_of.push(packet(0, CNTL, 0, &segment));
    }
    let mut lying_address = address();
    lying_address[1] = 40;
    let mut padded = packet(0, DATA, 11, b"hello worldx");
    padded.extend([0; 4]);
    let bad = [
        vec![
            edited(0, 0x80),
            edited(0, 0x08),
            edited(11, 1),
            edited(2, 1),
            edited(3, 0x40),
            edited(3, 0x24),
            edited(20, 1),
            edited(24, 0xff),
            edited(27, 10),
            edited(27, 13),
            edited(33, 1),
            edited(35, 1),
            packet(0, DATA, 11, b"hello worldx"),
            padded,
            packet(BTAG, DATA, 0, b"four"),
            packet(0, CNTL, 4, &control(&[])),
            packet(0, CNTL, 0, &control(&[])[4..]),
            packet(0, FIRST, 0, &lying_address),
            packet(0, FIRST, 0, &[0, 16]),
            packet(0, DIAG, 5, &diag(1, 1, "no")),
            packet(0, DIAG, 0, &[0; 4]),
        ],
        control_of,
    ]
    .concat();
    let mut capture = Capture::new();
    bad.iter().for_each(|packet| capture.udp(packet));
    for (frame, packet) in tshark.decode(&capture, &AS_XTP36).iter().zip(bad) {
        assert!(frame.has("xtp36.malformed"), "{packet:02x?}");
        assert_eq!(frame.number("xtp36.hcheck.status"), 1);
    }

    // Spans that overlap parse, but say something wrong.
    let spans: [&[(u32, u32)]; 5] =
        [&[(4, 4)], &[(20, 10)], &[(4, 8), (8, 9)], &[(20, 30), (4, 8)], &[(0xffff_fff8, 4)]];
    let mut capture = Capture::new();
    spans.iter().for_each(|spans| capture.udp(&packet(0, CNTL, 0, &control(spans))));
    for frame in tshark.decode(&capture, &AS_XTP36) {
        assert!(frame.has("xtp36.spans.bad") && !frame.has("xtp36.malformed"), "{frame:#?}");
    }
    // An address format that is not known is answered, so it parses.
    let mut capture = Capture::new();
    capture.udp(&packet(0, FIRST, 2, &[0, 8, 4, 5, 1, 2, 3, 4, b'h', b'i']));
    let frame = &tshark.decode(&capture, &AS_XTP36)[0];
    assert!(!frame.has("xtp36.malformed") && frame.one("xtp36.data") == colons(b"hi"), "{frame:#?}");
}

/// Whether the dissector takes it for a packet that an endpoint would take.
fn is_taken(frame: &Frame) -> bool {
    !["malformed", "hcheck.bad", "dcheck.bad"].iter().any(|expert| frame.has(&format!("xtp36.{expert}")))
}

#[test]
fn every_vector_is_read_as_the_codec_reads_it() {
    let Some(tshark) = Tshark::find() else { return };
    let (bad, good) = vectors::xtp(Codec::Xtp36);
    let mut capture = Capture::new();
    good.iter().chain(&bad).for_each(|packet| capture.udp(packet));
    let frames = tshark.decode(&capture, &AS_XTP36);
    for (frame, packet) in frames.iter().zip(&good) {
        assert!(is_taken(frame), "{packet:02x?} {frame:#?}");
        let (head, body) = vectors::read(Codec::Xtp36, packet).expect("it parses");
        let header = &head.header;
        for (field, value) in [
            ("options", header.options.bits().into()),
            ("type", 0x20 + header.kind as u64),
            ("key.rtn", header.key.rtn.into()),
            ("sort", header.sort.into()),
            ("sync", header.sync.into()),
            ("seq", header.seq),
            ("dseq", header.dseq.into()),
        ] {
            assert_eq!(frame.number(&format!("xtp36.{field}")), value, "{field} {frame:#?}");
        }
        assert_eq!(frame.number("xtp36.key") & 0x7fff_ffff, header.key.value);
        match body {
            Body::Data { btag, data } => {
                assert_eq!(frame.numbers("xtp36.btag"), Vec::from_iter(btag.map(u64::from_be_bytes)));
                vectors::check_bytes(frame, "xtp36.data", &packet[data]);
            }
            Body::First { address, traffic, btag, data } => {
                vectors::check_address(frame, "xtp36.", ["dst", "src"], &address);
                let FirstTraffic::Known(traffic) = traffic else { panic!("{traffic:?}") };
                assert_eq!(frame.number("xtp36.service"), u64::from(traffic.service));
                if let FirstAddress::Known(_) = address {
                    assert_eq!(frame.numbers("xtp36.btag"), Vec::from_iter(btag.map(u64::from_be_bytes)));
                    vectors::check_bytes(frame, "xtp36.data", &packet[data]);
                }
            }
            Body::Status(status) => {
                vectors::check_status(frame, "xtp36.", &status);
                let clock = status.clock.expect("xtp36");
                for (field, value) in
                    [("rate", clock.rate), ("burst", clock.burst), ("time", clock.time), ("techo", clock.techo)]
                {
                    assert_eq!(frame.number(&format!("xtp36.{field}")), u64::from(value), "{field} {frame:#?}");
                }
                assert_eq!(frame.number("xtp36.hseq"), status.hseq);
                assert_eq!(frame.number("xtp36.xkey") & 0x7fff_ffff, status.xkey);
                let (low, high): (Vec<u64>, Vec<u64>) = status.spans.iter().unzip();
                assert_eq!((frame.numbers("xtp36.span.low"), frame.numbers("xtp36.span.high")), (low, high));
            }
            Body::Diag { code, value, text } => {
                assert_eq!(frame.number("xtp36.diag.code"), u64::from(code));
                assert_eq!(frame.number("xtp36.diag.value"), u64::from(value));
                if text.is_ascii() {
                    assert_eq!(frame.all("xtp36.diag.text").concat().as_bytes(), text);
                }
            }
            Body::Join { .. } => panic!("there is none in xtp36"),
        }
    }
    for (frame, packet) in frames[good.len()..].iter().zip(&bad) {
        assert!(!is_taken(frame), "{packet:02x?} {frame:#?}");
    }
}

#[test]
fn whatever_the_bytes_the_dissector_agrees_with_the_codec() {
    let Some(tshark) = Tshark::find() else { return };
    let mut packets = packets();
    packets.extend(vectors::xtp(Codec::Xtp36).1);
    let (mut capture, mut cut) = (Capture::new(), Capture::new());
    let mut variants = variants(&packets, 15);
    // The header's checksum would hide most of what is changed behind it: here it is made right again.
    for at in 0..variants.len() {
        let mut packet = variants[at].clone();
        if packet.len() >= HEADER {
            let check = cxor(&packet[..36]);
            packet[36..HEADER].copy_from_slice(&check.to_be_bytes());
            variants.push(packet);
        }
    }
    variants.retain(|packet| !packet.is_empty());
    variants.iter().for_each(|packet| capture.udp(packet));
    let (mut good, mut bad) = (0, 0);
    for (frame, packet) in tshark.decode(&capture, &AS_XTP36).iter().zip(&variants) {
        assert!(frame.has("xtp36"), "{packet:02x?} {frame:#?}");
        let parses = vectors::read(Codec::Xtp36, packet).is_some();
        assert_eq!(is_taken(frame), parses, "{packet:02x?} {frame:#?}");
        if parses { good += 1 } else { bad += 1 }
    }
    assert!(good > 200 && bad > 500, "{good} {bad}");

    for packet in &packets {
        (0..packet.len()).for_each(|kept| cut.udp_cut(packet, kept));
    }
    for frame in tshark.decode(&cut, &AS_XTP36) {
        assert!(is_taken(&frame), "cut short by the capture: {frame:#?}");
    }
}

#[test]
fn it_is_recognised_by_its_header_and_can_be_chosen() {
    let Some(tshark) = Tshark::find() else { return };
    let packets = packets();
    let (mut udp, mut ip, mut noise) = (Capture::new(), Capture::new(), Capture::new());
    for packet in &packets {
        udp.udp(packet);
        ip.ip36(packet);
        let mut wrong = packet.clone();
        wrong[39] ^= 1;
        noise.udp(&wrong);
    }
    let ports = ["-o", "xtp36.guess:FALSE", "-o", "xtp36.udp_ports:7001"];
    let decoded =
        [tshark.decode(&udp, &[]), tshark.decode(&udp, &ports), tshark.decode(&ip, &["-d", "ip.proto==36,xtp36"])];
    for frame in decoded.iter().flatten() {
        assert!(frame.has("xtp36") && !frame.has("_ws.expert"), "{frame:#?}");
    }
    for frame in tshark.decode(&noise, &[]) {
        assert!(!frame.has("xtp36"), "{frame:#?}");
    }
}
