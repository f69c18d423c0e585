//! VRP (specs/vrp.md).

use crate::common::{Listening, run, text};
use crate::tshark::{Capture, Frame, Tshark, colons, hex, variants};
use pinnace_wire::vrp::{Control, Header};
use std::collections::BTreeMap;

const AS_VRP: [&str; 2] = ["-d", "udp.port==7001,vrp"];

/// Packets and what a reader makes of them, from specs/vectors/vrp.txt.
fn vectors() -> Vec<(Vec<u8>, String)> {
    let lines = include_str!("../../../../specs/vectors/vrp.txt").lines();
    lines
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| {
            let (packet, meaning) = line.split_once("->").expect("an arrow");
            let packet = if packet.contains("empty") { Vec::new() } else { hex(packet) };
            (packet, meaning.trim().to_owned())
        })
        .collect()
}

/// What the tags of a vector say, field by field.
fn fields_of(tags: &str) -> BTreeMap<&'static str, Vec<u64>> {
    let mut fields = BTreeMap::<_, Vec<u64>>::new();
    for tag in tags.split("; ").filter(|tag| !["", "cut"].contains(tag)) {
        let (name, rest) = tag.split_once(' ').expect("a name and its operand");
        let names: &[&str] = match name {
            "PING" => &["vrp.ping.seconds", "vrp.ping.microseconds"],
            "PONG" => &["vrp.pong.seconds", "vrp.pong.microseconds"],
            "ACK" => &["vrp.ack"],
            "SINGLE_ACK" => &["vrp.single_ack"],
            "NACK" => &["vrp.nack"],
            "FRAME_CREATE" => &["vrp.create.frame", "vrp.create.size", "vrp.create.packet_size"],
            "CONS_LOSS" => &["vrp.cons_loss"],
            "LOSS_RATE" => &["vrp.loss_rate"],
            "FRAME_OK" => &["vrp.frame_ok"],
            "FRAME_REFUSED" => &["vrp.frame_refused"],
            "FRAME_CLOSE" => &["vrp.frame_close"],
            "MISSING_HDR" => &["vrp.missing_hdr"],
            "CRITICAL_PACKET" => &["vrp.critical.packet"],
            "CRITICAL_INTERVAL" => &["vrp.critical.first", "vrp.critical.last"],
            "WINDOW" => &["vrp.window"],
            "LOSS_REPORT" => &["vrp.loss_report.first", "vrp.loss_report.count"],
            "LOSS_RATE_FLOOR" => &["vrp.loss_rate_floor"],
            "LOSS_RATE_NOW" => &["vrp.loss_rate_now.count", "vrp.loss_rate_now.rate"],
            "ECN_ECHO" => &["vrp.ecn_echo"],
            "EPOCH" => &["vrp.epoch"],
            "INLINE_DATA" => continue,
            other => panic!("{other}"),
        };
        let numbers: Vec<u64> = match name {
            "PING" | "PONG" => {
                hex(rest).chunks_exact(4).map(|word| u64::from(u32::from_be_bytes(word.try_into().unwrap()))).collect()
            }
            _ => rest.split([' ', '+']).filter_map(|number| number.parse().ok()).collect(),
        };
        for (at, number) in numbers.iter().enumerate() {
            fields.entry(names[at % names.len()]).or_default().push(*number);
        }
    }
    fields
}

const NUMBERS: [&str; 26] = [
    "vrp.ping.seconds",
    "vrp.ping.microseconds",
    "vrp.pong.seconds",
    "vrp.pong.microseconds",
    "vrp.ack",
    "vrp.single_ack",
    "vrp.nack",
    "vrp.create.frame",
    "vrp.create.size",
    "vrp.create.packet_size",
    "vrp.cons_loss",
    "vrp.loss_rate",
    "vrp.frame_ok",
    "vrp.frame_refused",
    "vrp.frame_close",
    "vrp.missing_hdr",
    "vrp.critical.packet",
    "vrp.critical.first",
    "vrp.critical.last",
    "vrp.window",
    "vrp.loss_report.first",
    "vrp.loss_report.count",
    "vrp.loss_rate_floor",
    "vrp.loss_rate_now.count",
    "vrp.loss_rate_now.rate",
    "vrp.ecn_echo",
];

fn check(frame: &Frame, meaning: &str) {
    let Some((_, meaning)) = meaning.split_once(' ') else {
        assert_eq!(meaning, "malformed");
        assert!(frame.has("vrp.malformed"), "{frame:#?}");
        return;
    };
    assert!(!frame.has("vrp.malformed"), "{meaning}: {frame:#?}");
    if let Some(rest) = meaning.strip_prefix("data ") {
        let words: Vec<&str> = rest.split(' ').collect();
        assert_eq!(frame.one("vrp.kind"), "0");
        assert_eq!([&*frame.one("vrp.frame"), &*frame.one("vrp.packet")], words[..2]);
        let data = if words[2] == "(empty)" { None } else { Some(colons(&hex(words[2]))) };
        assert_eq!(frame.all("vrp.data").pop(), data);
        return;
    }
    let rest = meaning.strip_prefix("control ").expect("data or control");
    let end = rest.find([':', ';']).unwrap_or(rest.len());
    let (number, tags) = (&rest[..end], rest[end..].trim_start_matches([':', ';', ' ']));
    assert_eq!((&*frame.one("vrp.kind"), &*frame.one("vrp.frame")), ("1", number), "{meaning}");
    let mut wanted = fields_of(tags);
    for field in NUMBERS.iter().chain(&["vrp.epoch"]) {
        assert_eq!(frame.numbers(field), wanted.remove(field).unwrap_or_default(), "{field} of {meaning}: {frame:#?}");
    }
    assert!(wanted.is_empty(), "{wanted:?}");
    let data = tags.split("; ").find_map(|tag| tag.strip_prefix("INLINE_DATA ")).filter(|data| *data != "(empty)");
    assert_eq!(frame.all("vrp.inline_data").pop(), data.map(|data| colons(&hex(data))));
    assert_eq!(frame.has("vrp.tag.unknown"), meaning.ends_with("; cut"), "{meaning}");
}

#[test]
fn every_vector_means_what_the_specification_says() {
    let Some(tshark) = Tshark::find() else { return };
    let vectors: Vec<_> = vectors().into_iter().filter(|(packet, _)| !packet.is_empty()).collect();
    assert!(vectors.len() > 50);
    let mut capture = Capture::new();
    vectors.iter().for_each(|(packet, _)| capture.udp(packet));
    for (frame, (_, meaning)) in tshark.decode(&capture, &AS_VRP).iter().zip(&vectors) {
        check(frame, meaning);
    }
    let lines = tshark.lines_of(&capture, &AS_VRP);
    let line_of = |meaning: &str| &*lines[vectors.iter().position(|(_, m)| m == meaning).expect(meaning)];
    assert_eq!(line_of("exact data 258 50595078 68656c6c6f"), "VRP Frame 258: packet 50595078, 5 bytes");
    assert_eq!(line_of("exact control 7: NACK 6; SINGLE_ACK 7; ACK 5"), "VRP Frame 7: NACK 6, SINGLE_ACK 7, ACK 5");
    assert_eq!(
        line_of("exact control 8: FRAME_CREATE 8 5 1000; EPOCH 3735928559; INLINE_DATA 68656c6c6f"),
        "VRP Frame 8: FRAME_CREATE 8 (5 bytes in packets of 1000), INLINE_DATA of 5 bytes"
    );
}

#[test]
fn whatever_the_bytes_the_dissector_agrees_with_the_codec() {
    let Some(tshark) = Tshark::find() else { return };
    let packets: Vec<_> = vectors().into_iter().map(|(packet, _)| packet).collect();
    let variants: Vec<_> = variants(&packets, 40).into_iter().filter(|packet| !packet.is_empty()).collect();
    let mut capture = Capture::new();
    variants.iter().for_each(|packet| capture.udp(packet));
    let (mut good, mut bad) = (0, 0);
    for (frame, packet) in tshark.decode(&capture, &AS_VRP).iter().zip(&variants) {
        assert!(frame.has("vrp"), "{packet:02x?}");
        assert_eq!(frame.is_malformed(), frame.has("vrp.malformed"), "{packet:02x?} {frame:#?}");
        let parses = packet.first_chunk().is_some_and(|head| match Header::parse(head) {
            Header::Data { .. } => true,
            Header::Control { .. } => Control::parse(packet).is_ok(),
        });
        assert_eq!(!frame.has("vrp.malformed"), parses, "{packet:02x?} {frame:#?}");
        if parses { good += 1 } else { bad += 1 }
    }
    assert!(good > 500 && bad > 500, "{good} {bad}");
}

#[test]
fn what_the_capture_cut_short_is_not_called_malformed() {
    let Some(tshark) = Tshark::find() else { return };
    let mut capture = Capture::new();
    for (packet, _) in vectors().into_iter().filter(|(_, meaning)| meaning.starts_with("exact")) {
        (0..packet.len()).for_each(|kept| capture.udp_cut(&packet, kept));
    }
    for frame in tshark.decode(&capture, &AS_VRP) {
        assert!(!frame.has("vrp.malformed"), "{frame:#?}");
    }
}

#[test]
fn a_transfer_is_recognised_without_being_told() {
    let Some(tshark) = Tshark::find() else { return };
    let file = tshark.path("vrp.pcap");
    let listening = Listening::start(&["vrp", "listen", "--bind", "127.0.0.1:0", "--count", "3"]);
    let sent = run(&[
        "vrp",
        "send",
        "--to",
        &listening.address.clone(),
        "--size",
        "100000",
        "--count",
        "3",
        "--capture",
        file.to_str().unwrap(),
    ]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert_eq!(listening.finish().0, Some(0));
    let frames = tshark.decode_file(&file, &[]);
    for frame in &frames {
        assert!(frame.has("vrp") && !frame.has_lua_error() && !frame.is_malformed(), "{frame:#?}");
        assert!(!frame.has("vrp.malformed") && !frame.has("vrp.tag.skipped"), "{frame:#?}");
    }
    for field in ["vrp.ping.seconds", "vrp.pong.seconds", "vrp.create.size", "vrp.frame_ok", "vrp.data", "vrp.ack"] {
        assert!(frames.iter().any(|frame| frame.has(field)), "{field}");
    }
    let sizes: Vec<u64> = frames.iter().flat_map(|frame| frame.numbers("vrp.create.size")).collect();
    assert!(sizes.len() >= 3 && sizes.iter().all(|size| *size == 100_000), "{sizes:?}");
}
