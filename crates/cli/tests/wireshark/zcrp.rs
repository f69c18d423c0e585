//! ZCRP (specs/zcrp.md).

use crate::common::{Listening, run, text};
use crate::tshark::{Capture, Tshark, colons, variants};
use pinnace_wire::zcrp::{Control, ControlWriter, TRAILER_BYTES, Trailer, Unit, encode_idle};

const AS_ZCRP: [&str; 2] = ["-d", "udp.port==7001,zcrp"];

const UNIT: Unit =
    Unit { message: 3, unit: 1, sequence: 70_000, next: Some((3, 2)), length: 5, is_last: false, refused: false };

fn unit(unit: &Unit, data: &[u8], padding: usize) -> Vec<u8> {
    [data, &vec![0; padding], &unit.encode()].concat()
}

fn control(words: &[u32], end: impl FnOnce(ControlWriter<'_>) -> &[u8]) -> Vec<u8> {
    let mut bytes = [0; 128];
    let mut writer = ControlWriter::new(&mut bytes);
    words.iter().for_each(|word| writer.push(*word));
    end(writer).to_vec()
}

/// One of each kind, all of them well-formed.
fn packets() -> Vec<Vec<u8>> {
    vec![
        unit(&UNIT, b"hello", 0),
        unit(&Unit { next: None, is_last: true, length: 2, ..UNIT }, b"hi", 3),
        unit(&Unit { unit: 0, next: None, is_last: true, refused: true, length: 0, ..UNIT }, b"", 0),
        encode_idle(9).to_vec(),
        control(&[10, 14, 15, 15, 20], |writer| writer.acknowledgement(true)),
        control(&[u32::MAX, 1], |writer| writer.acknowledgement(false)),
        control(&[7], |writer| writer.acknowledgement(true)),
        control(&[0, 1000, 1, 0], |writer| writer.request()),
        control(&[8, 1 << 20], |writer| writer.flow()),
        // A request with padding.
        [&[0, 0, 0, 1][..], &[0, 0, 0, 4], &[0, 0, 0, 100], &[0; 8], &[0x83, 0, 0, 0]].concat(),
    ]
}

/// What the codec says of a datagram.
fn parses(datagram: &[u8]) -> bool {
    let Some(head) = datagram.len().checked_sub(4) else { return false };
    if datagram[head] & 0x80 != 0 {
        return Control::parse(datagram).is_ok();
    }
    let tail: Option<&[u8; TRAILER_BYTES]> = datagram.last_chunk();
    tail.is_some_and(|tail| Trailer::parse(tail, datagram.len()).is_ok())
}

#[test]
fn every_field_of_every_datagram() {
    let Some(tshark) = Tshark::find() else { return };
    let mut capture = Capture::new();
    packets().iter().for_each(|packet| capture.udp(packet));
    let frames = tshark.decode(&capture, &AS_ZCRP);
    for (frame, packet) in frames.iter().zip(packets()) {
        assert!(frame.has("zcrp") && !frame.has("zcrp.malformed") && !frame.is_malformed(), "{packet:?} {frame:#?}");
    }
    let [full, last, refused, idle, ack, nack, nothing, request, flow, padded] = &frames[..] else { panic!() };
    for (field, value) in [
        ("zcrp.message", 3),
        ("zcrp.unit", 1),
        ("zcrp.sequence", 70_000),
        ("zcrp.next.message", 3),
        ("zcrp.next.unit", 2),
        ("zcrp.length", 5),
        ("zcrp.flags", 1),
        ("zcrp.flags.has_next", 1),
        ("zcrp.flags.is_last", 0),
    ] {
        assert_eq!(full.number(field), value, "{field}");
    }
    assert_eq!(full.one("zcrp.data"), colons(b"hello"));
    assert!(!full.has("zcrp.padding"));
    assert_eq!((last.one("zcrp.data"), last.one("zcrp.padding")), (colons(b"hi"), "00:00:00".to_owned()));
    assert!(!last.has("zcrp.next.message"));
    assert_eq!((refused.number("zcrp.flags.refused"), refused.number("zcrp.flags.is_last")), (1, 1));
    assert_eq!((idle.number("zcrp.flags.idle"), idle.number("zcrp.message")), (1, 9));
    assert_eq!((ack.number("zcrp.count"), ack.number("zcrp.type")), (4, 0x81));
    assert_eq!(ack.numbers("zcrp.interval.low"), [10, 14, 15, 15]);
    assert_eq!(ack.numbers("zcrp.interval.high"), [14, 15, 15, 20]);
    assert_eq!(ack.numbers("zcrp.interval.sign"), [1, 0, 1, 0]);
    assert_eq!((nack.numbers("zcrp.interval.low"), nack.numbers("zcrp.interval.sign")), (vec![0xffff_ffff], vec![0]));
    assert!(!nothing.has("zcrp.interval"));
    assert_eq!(request.numbers("zcrp.request.message"), [0, 1]);
    assert_eq!(request.numbers("zcrp.request.size"), [1000, 0]);
    assert_eq!((flow.number("zcrp.flow.highest"), flow.number("zcrp.flow.bounce")), (8, 1 << 20));
    assert_eq!((padded.numbers("zcrp.request.message"), padded.all("zcrp.padding").len()), (vec![4], 1));

    let lines = tshark.lines_of(&capture, &AS_ZCRP);
    for (line, wanted) in lines.iter().zip([
        "ZCRP Unit 3/1, 5 bytes, seq 70000, next 3/2",
        "ZCRP Unit 3/1, 2 bytes, seq 70000, last",
        "ZCRP Refusal 3/0, 0 bytes, seq 70000, last",
        "ZCRP Idle, next message 9",
        "ZCRP Ack +[10,14), -[14,15), -[15,20)",
        "ZCRP Ack -[4294967295,1)",
        "ZCRP Ack of nothing",
        "ZCRP Request 0 into 1000 bytes, 1 into 0 bytes",
        "ZCRP Flow: messages up to 8, 1048576 bytes of bounce memory",
        "ZCRP Request 4 into 100 bytes",
    ]) {
        assert_eq!(line, wanted);
    }
}

#[test]
fn whatever_the_bytes_the_dissector_agrees_with_the_codec() {
    let Some(tshark) = Tshark::find() else { return };
    let variants = variants(&packets(), 200);
    let mut capture = Capture::new();
    variants.iter().for_each(|packet| capture.udp(packet));
    let frames = tshark.decode(&capture, &AS_ZCRP);
    let (mut good, mut bad) = (0, 0);
    for (frame, packet) in frames.iter().zip(&variants).filter(|(_, packet)| !packet.is_empty()) {
        assert!(frame.has("zcrp"), "{packet:02x?} {frame:#?}");
        assert_eq!(frame.is_malformed(), frame.has("zcrp.malformed"), "{packet:02x?} {frame:#?}");
        assert_eq!(!frame.has("zcrp.malformed"), parses(packet), "{packet:02x?} {frame:#?}");
        if parses(packet) { good += 1 } else { bad += 1 }
    }
    assert!(good > 500 && bad > 500, "{good} {bad}");
}

#[test]
fn what_the_capture_cut_short_is_not_called_malformed() {
    let Some(tshark) = Tshark::find() else { return };
    let mut capture = Capture::new();
    for packet in packets() {
        (0..packet.len()).for_each(|kept| capture.udp_cut(&packet, kept));
    }
    for frame in tshark.decode(&capture, &AS_ZCRP) {
        assert!(!frame.has("zcrp.malformed"), "{frame:#?}");
    }
}

#[test]
fn a_transfer_is_recognised_without_being_told() {
    let Some(tshark) = Tshark::find() else { return };
    let file = tshark.path("zcrp.pcap");
    let listening = Listening::start(&["zcrp", "listen", "--bind", "127.0.0.1:0", "--count", "3", "--size", "1MiB"]);
    let address = listening.address.clone();
    let sent = run(&[
        "zcrp",
        "send",
        "--to",
        &address,
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
    let mut bytes = [0; 3];
    for frame in &frames {
        assert!(frame.has("zcrp") && !frame.has_lua_error() && !frame.is_malformed(), "{frame:#?}");
        assert!(!frame.has("zcrp.malformed"), "{frame:#?}");
        if frame.has("zcrp.data") {
            bytes[frame.number("zcrp.message") as usize] += frame.number("zcrp.length");
        }
    }
    // Nothing is lost on loopback, but a time-out may repeat a unit.
    assert!(bytes.iter().all(|bytes| *bytes >= 100_000), "{bytes:?}");
    assert!(
        frames.iter().any(|frame| frame.has("zcrp.request")) && frames.iter().any(|frame| frame.has("zcrp.interval"))
    );

    // Told not to look, it is left alone; told the port, it is read all the same.
    let silent = tshark.decode_file(&file, &["-o", "zcrp.guess:FALSE"]);
    assert!(silent.iter().all(|frame| !frame.has("zcrp")));
    let port = format!("zcrp.udp_ports:{}", address.rsplit(':').next().unwrap());
    let told = tshark.decode_file(&file, &["-o", "zcrp.guess:FALSE", "-o", &port]);
    assert!(told.iter().all(|frame| frame.has("zcrp")));
}
