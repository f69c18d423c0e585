//! The published vectors (`specs/vectors/vrp.txt`), every truncation of every packet, the rules of parsing one by one, and
//! round trips of anything that can be written.

extern crate std;
use super::*;
use crate::vectors::{Vector, hex};
use proptest::prelude::*;
use std::string::String;
use std::vec::Vec;
use std::{format, vec};

fn vectors() -> Vec<Vector> {
    crate::vectors::vectors("vrp", 51)
}

fn describe(datagram: &[u8]) -> String {
    let Some(head) = datagram.first_chunk() else { return "malformed".into() };
    if let Header::Data { frame, packet } = Header::parse(head) {
        return format!("data {frame} {packet} {}", hex(&datagram[HEADER_BYTES..]));
    }
    let Ok(control) = Control::parse(datagram) else { return "malformed".into() };
    let mut parts: Vec<String> = control.tags().map(describe_tag).collect();
    if control.is_cut() {
        parts.push("cut".into());
    }
    let colon = if parts.is_empty() { "" } else { ": " };
    format!("control {}{colon}{}", control.frame(), parts.join("; "))
}

fn describe_tag(tag: Tag<'_>) -> String {
    match tag {
        Tag::Ping(stamp) => format!("PING {}", hex(&stamp)),
        Tag::Pong(stamp) => format!("PONG {}", hex(&stamp)),
        Tag::Ack(packet) => format!("ACK {packet}"),
        Tag::SingleAck(packet) => format!("SINGLE_ACK {packet}"),
        Tag::Nack(packet) => format!("NACK {packet}"),
        Tag::FrameCreate { frame, size, packet_bytes } => format!("FRAME_CREATE {frame} {size} {packet_bytes}"),
        Tag::ConsLoss(run) => format!("CONS_LOSS {run}"),
        Tag::LossRate(rate) => format!("LOSS_RATE {rate}"),
        Tag::FrameOk(frame) => format!("FRAME_OK {frame}"),
        Tag::FrameRefused(frame) => format!("FRAME_REFUSED {frame}"),
        Tag::FrameClose(frame) => format!("FRAME_CLOSE {frame}"),
        Tag::MissingHeader(frame) => format!("MISSING_HDR {frame}"),
        Tag::CriticalPacket(packet) => format!("CRITICAL_PACKET {packet}"),
        Tag::CriticalInterval { first, last } => format!("CRITICAL_INTERVAL {first} {last}"),
        Tag::Window(window) => format!("WINDOW {window}"),
        Tag::InlineData(inline) => format!("INLINE_DATA {}", hex(inline.bytes)),
        Tag::LossReport(ranges) if ranges.iter().len() == 0 => "LOSS_REPORT (empty)".into(),
        Tag::LossReport(ranges) => {
            let ranges: Vec<String> = ranges.iter().map(|(first, count)| format!("{first}+{count}")).collect();
            format!("LOSS_REPORT {}", ranges.join(" "))
        }
        Tag::LossRateFloor(rate) => format!("LOSS_RATE_FLOOR {rate}"),
        Tag::LossRateNow { count, rate } => format!("LOSS_RATE_NOW {count} {rate}"),
        Tag::EcnEcho(count) => format!("ECN_ECHO {count}"),
        Tag::Epoch(epoch) => format!("EPOCH {epoch}"),
    }
}

/// A control packet of `frame` with these tags.
fn write(frame: u16, tags: &[Tag<'_>]) -> Vec<u8> {
    let mut space = vec![0xEE; 70_000];
    let mut writer = ControlWriter::new(&mut space, frame);
    assert!(writer.is_empty());
    let mut bytes = ControlWriter::EMPTY_BYTES;
    for tag in tags {
        assert!(writer.push(tag));
        bytes += tag_bytes(tag);
        assert_eq!(writer.len(), bytes, "tag_bytes of {tag:?}");
    }
    let len = writer.finish();
    assert_eq!(len, bytes);
    space.truncate(len);
    space
}

/// A control packet of frame 7, from the bytes behind the header.
fn control(rest: &[u8]) -> Vec<u8> {
    [&[0x80, 7, 0, 0, 0, 0], rest].concat()
}

fn read(datagram: &[u8]) -> Result<(Vec<Tag<'_>>, bool), Malformed> {
    Control::parse(datagram).map(|control| (control.tags().collect(), control.is_cut()))
}

const CREATE: [u8; 9] = [6, 0, 7, 0, 0, 0, 9, 0, 4];
const CREATED: Tag<'static> = Tag::FrameCreate { frame: 7, size: 9, packet_bytes: 4 };

#[test]
fn the_published_vectors_are_read() {
    for Vector { bytes, reading, .. } in vectors() {
        assert_eq!(describe(&bytes), reading, "{}", hex(&bytes));
    }
}

#[test]
fn exact_vectors_are_written() {
    for Vector { bytes, .. } in vectors().iter().filter(|vector| vector.exact) {
        let head = bytes.first_chunk().unwrap();
        assert_eq!(Header::parse(head).encode(), *head);
        if let Ok(control) = Control::parse(bytes) {
            assert_eq!(hex(&write(control.frame(), &control.tags().collect::<Vec<_>>())), hex(bytes));
        }
    }
}

#[test]
fn the_vectors_show_every_tag() {
    let all: String = vectors().iter().map(|vector| format!("{}; ", vector.reading)).collect();
    let tags = "PING PONG ACK SINGLE_ACK NACK FRAME_CREATE CONS_LOSS LOSS_RATE FRAME_OK FRAME_REFUSED FRAME_CLOSE \
                MISSING_HDR CRITICAL_PACKET CRITICAL_INTERVAL WINDOW INLINE_DATA LOSS_REPORT LOSS_RATE_FLOOR \
                LOSS_RATE_NOW ECN_ECHO EPOCH";
    for tag in tags.split_whitespace() {
        assert!(all.contains(&format!(" {tag} ")), "{tag} is in no vector");
    }
}

#[test]
fn a_truncated_control_packet_does_not_parse() {
    for Vector { bytes, reading, .. } in vectors() {
        let Ok(whole) = Control::parse(&bytes) else { continue };
        let end = whole.bytes.len() + 1;
        for len in 0..bytes.len() {
            let result = Control::parse(&bytes[..len]);
            if len < end {
                assert!(result.is_err(), "{len} bytes of {reading}");
            } else {
                assert_eq!(result, Ok(whole), "what stands behind the end of {reading} is ignored");
            }
        }
    }
}

#[test]
fn kinds_are_told_apart() {
    assert_eq!(Header::parse(&[0x80, 7, 1, 2, 3, 4]), Header::Control { frame: 7 });
    assert_eq!(Header::parse(&[0x7F, 0xFF, 1, 2, 3, 4]), Header::Data { frame: 0x7FFF, packet: 0x0102_0304 });
    assert_eq!(Control::parse(&[0, 7, 0, 0, 0, 0, 0]), Err(Malformed::Unknown));
    // A number of more than 15 bits does not become another kind of packet.
    assert_eq!(Header::Data { frame: 0x8007, packet: 1 }.encode(), [0, 7, 0, 0, 0, 1]);
    assert_eq!(Header::Control { frame: 0x8007 }.encode(), [0x80, 7, 0, 0, 0, 0]);
}

#[test]
fn a_frame_is_created_once_under_its_own_number() {
    assert_eq!(read(&control(&[&CREATE[..], &END].concat())), Ok((vec![CREATED], false)));
    let twice = control(&[&CREATE[..], &[3, 0, 0, 0, 1], &CREATE, &END].concat());
    assert_eq!(read(&twice), Err(Malformed::Contradiction));
    for other in [[0, 8], [0x80, 7], [0, 0]] {
        let mut wrong = control(&[&CREATE[..], &END].concat());
        wrong[7..9].copy_from_slice(&other);
        assert_eq!(read(&wrong), Err(Malformed::Contradiction), "{other:?}");
    }
    // The other tags that name a frame may name any.
    for tag in 9..=12 {
        assert!(read(&control(&[tag, 0x12, 0x34, 0])).is_ok(), "{tag}");
    }
}

#[test]
fn only_an_empty_frame_may_have_empty_packets() {
    let of = |size: u8, packet: u8| control(&[6, 0, 7, 0, 0, 0, size, 0, packet, 0]);
    assert_eq!(read(&of(1, 0)), Err(Malformed::Contradiction));
    for (size, packet) in [(0, 0), (0, 1), (1, 1)] {
        assert!(read(&of(size, packet)).is_ok(), "{size} {packet}");
    }
}

#[test]
fn a_fault_behind_good_tags_makes_the_whole_packet_malformed() {
    let good = [&CREATE[..], &[11, 0, 6]].concat();
    assert_eq!(read(&control(&good)), Err(Malformed::Size), "LAST is missing");
    for tag in (1..=15).chain(64..=255) {
        let inside = control(&[&good[..], &[tag]].concat());
        assert_eq!(read(&inside), Err(Malformed::Size), "the packet ends in the operand of {tag}");
    }
}

#[test]
fn bytes_behind_last_are_ignored() {
    for rest in [&[0xFF][..], &[0, 0, 0], &CREATE, &[3, 0]] {
        let datagram = control(&[&CREATE[..], &END, rest].concat());
        assert_eq!(read(&datagram), Ok((vec![CREATED], false)), "{rest:?}");
    }
}

#[test]
fn an_unknown_tag_below_64_ends_the_reading() {
    for unknown in 16..64 {
        // Behind it stands what would not parse: another header, and no end.
        let datagram = control(&[&CREATE[..], &[unknown], &CREATE, &[3]].concat());
        assert_eq!(read(&datagram), Ok((vec![CREATED], true)), "{unknown}");
        assert_eq!(read(&control(&[unknown])), Ok((vec![], true)));
        // What is wrong before it counts.
        let twice = control(&[&CREATE[..], &CREATE, &[unknown]].concat());
        assert_eq!(read(&twice), Err(Malformed::Contradiction));
    }
}

#[test]
fn unknown_extensions_are_skipped() {
    for unknown in 71..=255 {
        for len in [0, 1, 8, 255] {
            let operand = vec![unknown; len];
            let datagram = control(&[&[unknown, len as u8][..], &operand, &CREATE, &END].concat());
            assert_eq!(read(&datagram), Ok((vec![CREATED], false)), "{unknown} of {len} bytes");
        }
    }
}

#[test]
fn extensions_of_a_wrong_length_are_skipped() {
    for tag in 64..=70u8 {
        for len in 0..=255u8 {
            let operand = vec![1; usize::from(len)];
            let datagram = control(&[&[tag, len][..], &operand, &END].concat());
            let right = match tag {
                WINDOW | LOSS_RATE_NOW => len == 2,
                INLINE_DATA => true,
                LOSS_REPORT => len % 8 == 0,
                LOSS_RATE_FLOOR => len == 1,
                _ => len == 4,
            };
            let (tags, is_cut) = read(&datagram).unwrap();
            assert_eq!((tags.len(), is_cut), (usize::from(right), false), "{tag} of {len} bytes");
        }
    }
}

#[test]
fn a_window_is_any_number_but_0() {
    for window in [1, 3, 64, 16_384, 16_385, u16::MAX] {
        let [high, low] = window.to_be_bytes();
        assert_eq!(read(&control(&[64, 2, high, low, 0])), Ok((vec![Tag::Window(window)], false)));
    }
    assert_eq!(read(&control(&[64, 2, 0, 0, 0])), Ok((vec![], false)));
}

#[test]
fn inline_data_know_their_place() {
    let datagram = control(&[&CREATE[..], &[65, 9], b"ninebytes", &END].concat());
    let (tags, _) = read(&datagram).unwrap();
    let inline = Inline { bytes: b"ninebytes", at: 17 };
    assert_eq!(tags, [CREATED, Tag::InlineData(inline)]);
    assert_eq!(&datagram[inline.at..][..9], inline.bytes);
    // A writer that only names the data writes the same.
    let mut space = [0xEE; 64];
    let mut writer = ControlWriter::new(&mut space, 7);
    assert!(writer.push(&CREATED));
    let len = writer.finish_before_inline(9);
    assert_eq!([&space[..len], b"ninebytes", &END].concat(), datagram);
    let too_long = Inline { bytes: &[0; 256], at: 0 };
    let mut space = [0; 400];
    let mut writer = ControlWriter::new(&mut space, 7);
    assert!(!writer.push(&Tag::InlineData(too_long)) && writer.is_empty());
}

#[test]
fn a_report_has_at_most_31_ranges() {
    let ranges: Vec<(u32, u32)> = (0..32).map(|i| (i * 10, i)).collect();
    let mut space = [0xEE; 298];
    let mut writer = ControlWriter::new(&mut space, 7);
    assert!(!writer.push_report(&ranges) && writer.is_empty());
    assert!(writer.push_report(&ranges[..31]));
    assert_eq!(writer.len(), 7 + 2 + 248);
    assert!(!writer.push_report(&ranges[..5]), "no room");
    assert!(writer.push_report(&ranges[..4]) && writer.room() == 7);
    let len = writer.finish();
    let (tags, _) = read(&space[..len]).unwrap();
    let [Tag::LossReport(first), Tag::LossReport(second)] = tags[..] else { panic!("{tags:?}") };
    assert_eq!(first.iter().chain(second.iter()).collect::<Vec<_>>(), [&ranges[..31], &ranges[..4]].concat());
}

#[test]
fn last_always_has_room() {
    for space in 7..40 {
        let mut bytes = vec![0xEE; space];
        let mut writer = ControlWriter::new(&mut bytes, 7);
        let mut pushed = 0;
        while writer.push(&Tag::Ack(pushed)) {
            pushed += 1;
        }
        assert_eq!(pushed as usize, (space - 7) / 5);
        let len = writer.finish();
        assert_eq!(read(&bytes[..len]).unwrap().0.len(), pushed as usize);
        assert!(bytes[len..].iter().all(|&byte| byte == 0xEE), "bytes behind the packet were touched");
    }
}

#[test]
#[should_panic(expected = "no room for a control packet")]
fn a_control_packet_takes_seven_bytes() {
    ControlWriter::new(&mut [0; 5], 7);
}

#[test]
fn padding_reaches_the_size_asked_for() {
    //= V-S3 test
    //= V-S4 test
    let tags = [Tag::Ping([9; 8])];
    let bare = write(0, &tags).len();
    for space in bare..bare + 40 {
        for least in [0, bare, bare + 1, bare + 2, bare + 3, bare + 4, bare + 30, 1000] {
            let mut bytes = vec![0xEE; space];
            let mut writer = ControlWriter::new(&mut bytes, 0);
            assert!(writer.push(&tags[0]));
            writer.pad_to(least);
            let expected = writer.len();
            let len = writer.finish();
            assert_eq!(len, expected);
            assert!(len >= least.min(space) && len <= least.max(bare) + 2, "{len} bytes of {space}, for {least}");
            if space == least {
                assert_eq!(len, least, "a PING has exactly 6 + P bytes");
            }
            assert_eq!(read(&bytes[..len]), Ok((tags.to_vec(), false)));
            assert!(bytes[len..].iter().all(|&byte| byte == 0xEE), "bytes behind the packet were touched");
        }
    }
    // The largest datagram there is, and a caller with more memory than that.
    for space in [65_507, 65_600, 70_000] {
        let mut bytes = vec![0xEE; space];
        let mut writer = ControlWriter::new(&mut bytes, 0);
        assert!(writer.push(&tags[0]));
        writer.pad_to(space);
        assert_eq!(writer.finish(), space);
        assert_eq!(read(&bytes), Ok((tags.to_vec(), false)));
    }
}

#[test]
fn tags_may_follow_padding() {
    let mut bytes = [0xEE; 40];
    let mut writer = ControlWriter::new(&mut bytes, 7);
    writer.pad_to(20);
    assert_eq!(writer.len(), 20);
    assert!(writer.push(&Tag::Ack(1)));
    writer.pad_to(40);
    assert!(writer.push(&Tag::Ack(2)) || writer.room() < 5);
    assert_eq!(writer.finish(), 40);
    assert_eq!(read(&bytes).unwrap().0[0], Tag::Ack(1));
}

/// A tag with an operand of its own, from what proptest found. FRAME_CREATE comes once, from the test.
#[derive(Clone, Debug)]
enum Any {
    Fixed(u8, u32, u32),
    Inline(Vec<u8>),
    Report(Vec<(u32, u32)>),
}

impl Any {
    fn push(&self, writer: &mut ControlWriter<'_>) -> bool {
        match self {
            Self::Fixed(kind, a, b) => writer.push(&fixed(*kind, *a, *b)),
            Self::Inline(bytes) => writer.push(&Tag::InlineData(Inline { bytes, at: 0 })),
            Self::Report(ranges) => writer.push_report(ranges),
        }
    }

    fn is(&self, tag: &Tag<'_>) -> bool {
        match (self, tag) {
            (Self::Fixed(kind, a, b), tag) => fixed(*kind, *a, *b) == *tag,
            (Self::Inline(bytes), Tag::InlineData(inline)) => inline.bytes == bytes,
            (Self::Report(ranges), Tag::LossReport(read)) => read.iter().eq(ranges.iter().copied()),
            _ => false,
        }
    }
}

fn fixed(kind: u8, a: u32, b: u32) -> Tag<'static> {
    let stamp = (u64::from(a) << 32 | u64::from(b)).to_be_bytes();
    match kind % 18 {
        0 => Tag::Ping(stamp),
        1 => Tag::Pong(stamp),
        2 => Tag::Ack(a),
        3 => Tag::SingleAck(a),
        4 => Tag::Nack(a),
        5 => Tag::ConsLoss(a as u8),
        6 => Tag::LossRate(a as u8),
        7 => Tag::FrameOk(a as u16),
        8 => Tag::FrameRefused(a as u16),
        9 => Tag::FrameClose(a as u16),
        10 => Tag::MissingHeader(a as u16),
        11 => Tag::CriticalPacket(a),
        12 => Tag::CriticalInterval { first: a, last: b },
        13 => Tag::Window((a as u16).max(1)),
        14 => Tag::LossRateFloor(a as u8),
        15 => Tag::LossRateNow { count: a as u8, rate: b as u8 },
        16 => Tag::EcnEcho(a),
        _ => Tag::Epoch(a),
    }
}

fn any_tag() -> impl Strategy<Value = Any> {
    prop_oneof![
        8 => (any::<u8>(), any::<u32>(), any::<u32>()).prop_map(|(kind, a, b)| Any::Fixed(kind, a, b)),
        1 => prop::collection::vec(any::<u8>(), 0..=255).prop_map(Any::Inline),
        1 => prop::collection::vec((any::<u32>(), any::<u32>()), 0..=31).prop_map(Any::Report),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        frame in 0..FRAME_NUMBERS,
        tags in prop::collection::vec(any_tag(), 0..40),
        create in prop::option::of((any::<prop::sample::Index>(), any::<u32>(), any::<u16>())),
        space in 7usize..4000,
        least in 0usize..4000,
    ) {
        let mut bytes = vec![0xEE; space];
        let mut writer = ControlWriter::new(&mut bytes, frame);
        let create = create.map(|(at, size, packet)| (at.index(tags.len() + 1), size, packet.max(1)));
        let mut written = Vec::new();
        for (index, tag) in tags.iter().map(Some).chain([None]).enumerate() {
            if let Some((at, size, packet_bytes)) = create && at == index
                && writer.push(&Tag::FrameCreate { frame, size, packet_bytes })
            {
                written.push(None);
            }
            if let Some(tag) = tag && tag.push(&mut writer) {
                written.push(Some(tag));
            }
        }
        writer.pad_to(least);
        let len = writer.finish();
        prop_assert!(len >= least.min(space) && len <= space);
        let control = Control::parse(&bytes[..len]).unwrap();
        prop_assert_eq!((control.frame(), control.is_cut()), (frame, false));
        prop_assert_eq!(control.tags().count(), written.len());
        for (read, written) in control.tags().zip(written) {
            match (written, create) {
                (Some(tag), _) => prop_assert!(tag.is(&read), "{:?} became {:?}", tag, read),
                (None, Some((_, size, packet_bytes))) => {
                    prop_assert_eq!(read, Tag::FrameCreate { frame, size, packet_bytes });
                }
                (None, None) => prop_assert!(false, "nothing was written"),
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..300), control: bool) {
        if let Some(first) = bytes.first_mut() && control {
            *first |= 0x80;
        }
        check_reading(&bytes);
    }

    // Bytes of few values: tags follow tags.
    #[test]
    fn any_tags_are_read_or_refused(rest in prop::collection::vec(prop_oneof![0u8..17, 64u8..72, 0u8..3], 0..100)) {
        check_reading(&control(&rest));
    }
}

/// What parses says the same when it is written again, and says nothing that is not in its bytes.
fn check_reading(bytes: &[u8]) {
    if let Some(head) = bytes.first_chunk() {
        let is_control = matches!(Header::parse(head), Header::Control { .. });
        assert_eq!(is_control, head[0] & 0x80 != 0);
    }
    let Ok(control) = Control::parse(bytes) else { return };
    let tags: Vec<Tag<'_>> = control.tags().collect();
    assert!(HEADER_BYTES + tags.iter().map(tag_bytes).sum::<usize>() <= bytes.len());
    let mut space = vec![0; bytes.len() + 1];
    let mut writer = ControlWriter::new(&mut space, control.frame());
    for tag in &tags {
        if let Tag::InlineData(inline) = tag {
            assert_eq!(&bytes[inline.at..][..inline.bytes.len()], inline.bytes);
        }
        assert!(writer.push(tag));
    }
    let len = writer.finish();
    assert!(Control::parse(&space[..len]).unwrap().tags().map(describe_tag).eq(tags.into_iter().map(describe_tag)));
}
