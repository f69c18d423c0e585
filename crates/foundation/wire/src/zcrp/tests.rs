//! Golden vectors, every truncation of every datagram, and lies in every field.

extern crate std;
use super::*;
use std::vec::Vec;

const UNIT: Unit = Unit {
    message: 0x0102_0304,
    unit: 5,
    sequence: 0xFFFF_FFFE,
    next: Some((0x0102_0305, 0)),
    length: 3,
    is_last: true,
    refused: false,
};

fn tail(bytes: &[u8]) -> [u8; TRAILER_BYTES] {
    bytes[bytes.len() - TRAILER_BYTES..].try_into().unwrap()
}

fn control(words: &[u32], kind: u8) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
    bytes.extend([kind, 0, 0, 0]);
    bytes
}

#[test]
fn a_unit_is_a_trailer_behind_its_data() {
    //= Z-5 test
    let golden = [1, 2, 3, 4, 0, 0, 0, 5, 0xFF, 0xFF, 0xFF, 0xFE, 1, 2, 3, 5, 0, 0, 0, 0, 0, 0, 0, 3, 0b11, 0, 0, 0];
    assert_eq!(UNIT.encode(), golden);
    for padding in [0, 7] {
        assert_eq!(Trailer::parse(&golden, 31 + padding), Ok(Trailer::Unit(UNIT)));
    }
    assert_eq!(Trailer::parse(&golden, 30), Err(Malformed::Length));
}

#[test]
fn only_a_last_unit_may_be_short_padded_or_empty() {
    let full = Unit { is_last: false, ..UNIT };
    assert_eq!(Trailer::parse(&full.encode(), 31), Ok(Trailer::Unit(full)));
    assert_eq!(Trailer::parse(&full.encode(), 32), Err(Malformed::Length));
    let empty = Unit { length: 0, is_last: false, ..UNIT };
    assert_eq!(Trailer::parse(&empty.encode(), 28), Err(Malformed::Length));
    let empty_tail = Unit { length: 0, ..UNIT };
    assert_eq!(Trailer::parse(&empty_tail.encode(), 28), Err(Malformed::Contradiction));
    let empty_message = Unit { length: 0, unit: 0, ..UNIT };
    assert_eq!(Trailer::parse(&empty_message.encode(), 28), Ok(Trailer::Unit(empty_message)));
}

#[test]
fn refusals_and_idle_datagrams_are_exact() {
    //= Z-16 test
    //= Z-21 test
    let refusal = Unit { unit: 0, length: 0, refused: true, ..UNIT };
    assert_eq!(Trailer::parse(&refusal.encode(), 28), Ok(Trailer::Unit(refusal)));
    for wrong in
        [Unit { unit: 1, ..refusal }, Unit { length: 1, ..refusal }, Unit { is_last: false, length: 1, ..refusal }]
    {
        assert_eq!(Trailer::parse(&wrong.encode(), 28 + wrong.length as usize), Err(Malformed::Contradiction));
    }
    let idle = encode_idle(9);
    assert_eq!(Trailer::parse(&idle, 28), Ok(Trailer::Idle { message: 9 }));
    assert_eq!(Trailer::parse(&idle, 29), Err(Malformed::Contradiction));
    let mut odd = idle;
    odd[24] |= 1;
    assert_eq!(Trailer::parse(&odd, 28), Err(Malformed::Contradiction));
}

#[test]
fn unknown_flags_are_dropped_and_bit_7_marks_control() {
    //= Z-1 test
    for bit in 4..7 {
        let mut bytes = UNIT.encode();
        bytes[24] |= 1 << bit;
        assert_eq!(Trailer::parse(&bytes, 31), Err(Malformed::Unknown));
    }
    let mut bytes = UNIT.encode();
    bytes[24] |= 0x80;
    assert_eq!(Trailer::parse(&bytes, 31), Ok(Trailer::Control));
    assert_eq!(is_control(&bytes), Some(true));
    assert_eq!(is_control(&UNIT.encode()), Some(false));
    assert_eq!(is_control(&[0x80, 0, 0]), None);
}

#[test]
fn zero_fields_are_ignored_by_the_reader() {
    let mut bytes = UNIT.encode();
    bytes[25..].fill(0xEE);
    assert_eq!(Trailer::parse(&bytes, 31), Ok(Trailer::Unit(UNIT)));
    let mut lonely = Unit { next: None, ..UNIT }.encode();
    lonely[12..20].fill(0xEE);
    assert_eq!(Trailer::parse(&lonely, 31), Ok(Trailer::Unit(Unit { next: None, ..UNIT })));
}

#[test]
fn a_block_alternates_its_sign() {
    let bytes = control(&[3, 10, 14, 15, 20], 0x81);
    let Ok(Control::Acknowledgement(block)) = Control::parse(&bytes) else { panic!("a valid block") };
    assert_eq!(block.intervals().collect::<Vec<_>>(), [(10, 14, true), (14, 15, false), (15, 20, true)]);
    let bytes = control(&[1, u32::MAX, 3], 0x82);
    let Ok(Control::Acknowledgement(block)) = Control::parse(&bytes) else { panic!("a block over the wrap") };
    assert_eq!(block.intervals().collect::<Vec<_>>(), [(u32::MAX, 3, false)]);
    let nothing = control(&[0, 7], 0x81);
    let Ok(Control::Acknowledgement(block)) = Control::parse(&nothing) else { panic!("length 0 is valid") };
    assert_eq!(block.intervals().count(), 0);
}

#[test]
fn blocks_that_descend_or_span_too_much_do_not_parse() {
    assert_eq!(Control::parse(&control(&[1, 10, 9], 0x81)), Err(Malformed::Contradiction));
    assert_eq!(Control::parse(&control(&[1, 0, 1 << 16], 0x81)), Err(Malformed::Contradiction));
    assert!(Control::parse(&control(&[1, 5, 4 + (1 << 16)], 0x81)).is_ok());
    assert!(Control::parse(&control(&[2, 5, 5, 5], 0x82)).is_ok(), "empty intervals are valid");
}

#[test]
fn lengths_that_lie_do_not_parse() {
    for length in [2, 3, 0x3FFF_FFFF, 0x4000_0000, 0x7FFF_FFFF, 0x8000_0000, u32::MAX] {
        for kind in [0x81, 0x82, 0x83, 0x84] {
            assert_eq!(Control::parse(&control(&[length, 1, 2], kind)), Err(Malformed::Length), "{length} {kind:#x}");
        }
    }
    assert_eq!(Control::parse(&control(&[0, 1, 2], 0x83)), Err(Malformed::Length), "a request without a pair");
    assert_eq!(Control::parse(&control(&[0, 1, 2], 0x84)), Err(Malformed::Length));
    assert_eq!(Control::parse(&control(&[1, 1, 2], 0x85)), Err(Malformed::Unknown));
}

#[test]
fn requests_and_flow_hints_carry_pairs() {
    //= Z-3 test
    let bytes = control(&[2, 7, 1000, 8, 2000, 0, 0], 0x83);
    let Ok(Control::Request(pairs)) = Control::parse(&bytes) else { panic!("a valid request") };
    assert_eq!(pairs.iter().collect::<Vec<_>>(), [(7, 1000), (8, 2000)]);
    let flow = control(&[1, 99, 65_536], 0x84);
    assert_eq!(Control::parse(&flow), Ok(Control::Flow { highest: 99, bounce: 65_536 }));
}

#[test]
fn every_truncation_is_an_error_or_a_shorter_valid_datagram() {
    for full in [control(&[3, 10, 14, 15, 20], 0x81), control(&[2, 7, 1000, 8, 2000], 0x83), control(&[1, 9, 9], 0x84)]
    {
        for len in 0..full.len() {
            assert!(Control::parse(&full[..len]).is_err(), "{len} bytes of {full:?}");
        }
    }
    for size in 0..TRAILER_BYTES {
        assert!(Trailer::parse(&UNIT.encode(), size).is_err());
    }
    assert_eq!(Trailer::parse(&UNIT.encode(), MAX_UNIT_BYTES + 1), Err(Malformed::Size));
    assert_eq!(tail(&UNIT.encode()).len(), TRAILER_BYTES);
}

#[test]
fn the_writer_writes_what_the_parser_reads() {
    let mut space = [0xEE; 24];
    let mut writer = ControlWriter::new(&mut space);
    for word in [10, 14, 15] {
        assert!(writer.has_room(1));
        writer.push(word);
    }
    assert!(writer.has_room(1) && !writer.has_room(2));
    assert_eq!(writer.acknowledgement(false), control(&[2, 10, 14, 15], 0x82));
    let mut writer = ControlWriter::new(&mut space);
    writer.push(7);
    writer.push(1000);
    assert_eq!(writer.request(), control(&[1, 7, 1000], 0x83));
    let mut writer = ControlWriter::new(&mut space);
    writer.push(7);
    writer.push(1000);
    assert_eq!(writer.flow(), control(&[1, 7, 1000], 0x84));
}
