//! A1 (specs/a1.md).

use crate::tshark::{Capture, Frame, Tshark, colons, hex, variants};
use pinnace_wire::a1::{Address, Block, Body, HEADER_BYTES, Head, Qos, Ranges, Reject};

const AS_A1: [&str; 2] = ["-d", "udp.port==7001,a1"];

/// The published datagrams (`specs/vectors/a1.txt`); those that do not parse, and those that do.
fn vectors() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let lines = include_str!("../../../../specs/vectors/a1.txt").lines();
    let (bad, good): (Vec<_>, Vec<_>) = lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" -> "))
        .filter(|(datagram, _)| *datagram != "(empty)")
        .partition(|(_, reading)| *reading == "malformed");
    assert!(bad.len() > 150 && good.len() > 50);
    let bytes = |lines: Vec<(&str, &str)>| lines.into_iter().map(|(datagram, _)| hex(datagram)).collect();
    (bytes(bad), bytes(good))
}

/// What the codec reads, and whether the checksum is right.
fn read(datagram: &[u8]) -> Option<(Head, Body<'_>, bool)> {
    let head = Head::parse(datagram, datagram.len(), false).ok()?;
    let body = Body::parse(&head, &datagram[HEADER_BYTES..]).ok()?;
    Some((head, body, head.verify([&datagram[head.summed()]])))
}

fn has_flag(frame: &Frame, name: &str) -> bool {
    ["1", "true", "True"].contains(&&*frame.one(&format!("a1.flags.{name}")))
}

/// Holds every field of the header and of the body against tshark's.
fn check(frame: &Frame, datagram: &[u8]) {
    let (head, body, _) = read(datagram).expect("it parses");
    let header = head.header;
    assert_eq!(frame.number("a1.type"), head.kind as u64);
    assert_eq!(frame.number("a1.connection"), u64::from(header.connection.get()));
    assert_eq!(frame.number("a1.seq"), u64::from(header.sequence));
    assert_eq!(frame.number("a1.edge"), u64::from(header.edge));
    assert_eq!(frame.number("a1.stamp"), u64::from(header.stamp));
    assert_eq!(frame.number("a1.length"), head.body_bytes() as u64);
    assert_eq!(frame.number("a1.checksum.status"), if header.is_checked { 1 } else { 2 });
    assert_eq!(has_flag(frame, "checked"), header.is_checked);
    assert_eq!(has_flag(frame, "retransmitted"), header.is_retransmitted);
    let block = head.block();
    assert_eq!(has_flag(frame, "start"), block.is_some_and(Block::is_start));
    assert_eq!(has_flag(frame, "end"), block.is_some_and(Block::is_end));
    assert_eq!(has_flag(frame, "reliable"), block.is_some_and(Block::is_reliable));
    assert_eq!(frame.number("a1.message"), u64::from(block.map_or(0, Block::message)));
    assert_eq!(frame.number("a1.block.index"), u64::from(block.map_or(0, Block::index)));
    assert_eq!(frame.number("a1.block.count"), u64::from(block.map_or(0, Block::count)));
    match body {
        Body::Open(open) => {
            check_setup(frame, open.destination, open.source, header.connection.get(), &open.qos);
            let cookie = open.cookie.map(|cookie| colons(cookie.bytes()));
            assert_eq!(frame.all("a1.cookie"), cookie.into_iter().collect::<Vec<_>>());
            let group = open
                .group
                .map(|group| (u64::from(group.identifier().get()), *group.socket().ip(), group.socket().port()));
            assert_eq!(frame.has("a1.group"), group.is_some());
            if let Some((identifier, address, port)) = group {
                assert_eq!((frame.number("a1.group"), frame.number("a1.group.port")), (identifier, u64::from(port)));
                assert_eq!(frame.one("a1.group.address"), address.to_string());
            }
        }
        Body::Accept(accept) => {
            check_setup(frame, accept.destination, accept.source, accept.identifier.get(), &accept.qos);
            assert_eq!(has_flag(frame, "multicast"), accept.has_joined);
        }
        Body::Reject(Reject::Cookie(cookie)) => {
            assert_eq!((frame.number("a1.reject.code"), frame.one("a1.cookie")), (4, colons(cookie.bytes())));
        }
        Body::Reject(Reject::Refused { code, text }) => {
            assert_eq!(frame.number("a1.reject.code"), code as u64);
            let shown = if text.is_empty() { vec![] } else { vec![text.to_owned()] };
            assert_eq!(frame.all("a1.reject.text"), shown);
        }
        Body::Data(block) => {
            assert_eq!(has_flag(frame, "multicast"), block.is_group());
            let data = &datagram[HEADER_BYTES..];
            let shown = if data.is_empty() { vec![] } else { vec![colons(data)] };
            assert_eq!(frame.all("a1.data"), shown);
        }
        Body::Ack(ranges) | Body::Nack(ranges) => check_ranges(frame, ranges),
        Body::Close(code) | Body::CloseReply(code) => assert_eq!(frame.number("a1.close.code"), code as u64),
        Body::Qos(change) | Body::QosReply(change) => {
            assert_eq!(frame.number("a1.epoch"), u64::from(change.epoch));
            check_qos(frame, &change.qos);
        }
        Body::Sync | Body::SyncReply => {}
    }
}

fn check_setup(frame: &Frame, destination: Address, source: Address, identifier: u32, qos: &Qos) {
    for (name, address) in [("dst", destination), ("src", source)] {
        assert_eq!(frame.one(&format!("a1.{name}")), std::net::Ipv4Addr::from(address.host).to_string());
        assert_eq!(frame.number(&format!("a1.{name}port")), u64::from(address.port));
    }
    assert_eq!(frame.number("a1.identifier"), u64::from(identifier));
    check_qos(frame, qos);
}

fn check_qos(frame: &Frame, qos: &Qos) {
    let options = u64::from(qos.has_checksum) | u64::from(qos.has_retransmission) << 1;
    let fields = [
        ("options", options),
        ("priority", qos.priority.into()),
        ("block_size", qos.block_size.into()),
        ("send_average", qos.send_average),
        ("send_burst", qos.send_burst.into()),
        ("receive_average", qos.receive_average),
        ("receive_burst", qos.receive_burst.into()),
        ("largest_sent", qos.largest_sent.into()),
        ("largest_received", qos.largest_received.into()),
        ("outstanding", qos.outstanding.into()),
        ("deadline", qos.deadline.into()),
    ];
    for (name, value) in fields {
        assert_eq!(frame.number(&format!("a1.qos.{name}")), value, "{name} {frame:#?}");
    }
}

fn check_ranges(frame: &Frame, ranges: Ranges<'_>) {
    let (low, high): (Vec<u64>, Vec<u64>) = ranges.iter().map(|(low, high)| (u64::from(low), u64::from(high))).unzip();
    assert_eq!((frame.numbers("a1.range.low"), frame.numbers("a1.range.high")), (low, high));
}

#[test]
fn the_published_vectors_read_as_the_codec_reads_them() {
    let Some(tshark) = Tshark::find() else { return };
    let (bad, good) = vectors();
    let mut capture = Capture::new();
    good.iter().chain(&bad).for_each(|datagram| capture.udp(datagram));
    let frames = tshark.decode(&capture, &AS_A1);
    let (of_good, of_bad) = frames.split_at(good.len());
    for (frame, datagram) in of_good.iter().zip(&good) {
        assert!(!frame.has("a1.malformed") && !frame.has("a1.checksum.bad"), "{frame:#?}");
        check(frame, datagram);
    }
    for (frame, datagram) in of_bad.iter().zip(&bad) {
        assert!(frame.has("a1.malformed") || frame.has("a1.checksum.bad"), "{datagram:02x?} {frame:#?}");
    }
}

#[test]
fn whatever_the_bytes_the_dissector_agrees_with_the_codec() {
    let Some(tshark) = Tshark::find() else { return };
    let (bad, good) = vectors();
    let mut datagrams = variants(&good, 40);
    datagrams.extend(variants(&bad, 4));
    datagrams.retain(|datagram| !datagram.is_empty());
    let mut capture = Capture::new();
    datagrams.iter().for_each(|datagram| capture.udp(datagram));
    let (mut parse, mut fail) = (0, 0);
    for (frame, datagram) in tshark.decode(&capture, &AS_A1).iter().zip(&datagrams) {
        assert!(frame.has("a1"), "{datagram:02x?}");
        assert_eq!(frame.is_malformed(), frame.has("a1.malformed"), "{datagram:02x?} {frame:#?}");
        let reading = read(datagram);
        assert_eq!(!frame.has("a1.malformed"), reading.is_some(), "{datagram:02x?} {frame:#?}");
        if let Some((_, _, is_right)) = reading {
            assert_eq!(!frame.has("a1.checksum.bad"), is_right, "{datagram:02x?} {frame:#?}");
            parse += 1;
        } else {
            fail += 1;
        }
    }
    assert!(parse > 500 && fail > 500, "{parse} {fail}");
}

#[test]
fn what_the_capture_cut_short_is_not_called_malformed() {
    let Some(tshark) = Tshark::find() else { return };
    let mut capture = Capture::new();
    for datagram in vectors().1 {
        (0..datagram.len()).for_each(|kept| capture.udp_cut(&datagram, kept));
    }
    for frame in tshark.decode(&capture, &AS_A1) {
        assert!(!frame.has("a1.malformed") && !frame.has("a1.checksum.bad"), "{frame:#?}");
    }
}

#[test]
fn an_open_is_recognised_without_being_told_and_nothing_else_is() {
    let Some(tshark) = Tshark::find() else { return };
    let (bad, good) = vectors();
    let datagrams: Vec<_> = good.into_iter().chain(bad).collect();
    let mut capture = Capture::new();
    datagrams.iter().for_each(|datagram| capture.udp_alone(datagram));
    let mut opens = 0;
    for (frame, datagram) in tshark.decode(&capture, &[]).iter().zip(&datagrams) {
        let is_open = matches!(read(datagram), Some((_, Body::Open(_), true)));
        assert_eq!(frame.has("a1"), is_open, "{datagram:02x?} {frame:#?}");
        opens += usize::from(is_open);
    }
    assert!(opens > 5, "{opens}");
}

#[test]
fn the_info_column_says_what_matters() {
    let Some(tshark) = Tshark::find() else { return };
    let (_, good) = vectors();
    let mut capture = Capture::new();
    good.iter().for_each(|datagram| capture.udp(datagram));
    let lines = tshark.lines_of(&capture, &AS_A1);
    for wanted in [
        "A1 OPEN 0x00000007, seq 100, window 16, port 4000, blocks of 1400, priority 0, reliable [CHECKED]",
        "A1 REJECT 0x00000007, No listener [CHECKED]",
        "A1 DATA 0x00000007, seq 100, edge 116, message 3, block 0/1, 5 bytes [START END CHECKED RELIABLE]",
        "A1 ACK 0x00000007, seq 100, edge 116, received [102,105), [110,116) [CHECKED]",
        "A1 CLOSE 0x00000007, seq 100, edge 116, normal [CHECKED]",
    ] {
        assert!(lines.iter().any(|line| line == wanted), "{wanted} in {lines:#?}");
    }
}
