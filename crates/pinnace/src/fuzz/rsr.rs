//! A remote service request: its header, the values of its payload, and the reference that one of them may be.

use super::script::Script;
use crate::rsr::header::{HEADER_BYTES, Header};
use crate::rsr::{ByteOrder, ReadError, Reader, Startpoint};
use std::ops::Range;

/// What parses says nothing that is not in its bytes, and can be said again.
pub fn rsr(input: &[u8]) {
    let Some((&kind, bytes)) = input.split_first() else { return };
    match kind % 4 {
        0 => header(bytes),
        1 => header(&[b"RSR1", bytes].concat()),
        2 => reference(bytes),
        _ => values(bytes),
    }
}

fn header(frame: &[u8]) {
    let Ok((header, len)) = Header::parse(frame) else { return };
    assert!(len <= frame.len());
    assert_eq!(Header::parse(&frame[..len]), Ok((header, len)), "what lies behind the header counts");
    assert!(Header::parse(&frame[..len - 1]).is_err(), "a header without its end is read");
    let mut again = [0; HEADER_BYTES];
    header.write(&mut again);
    assert_eq!(Header::parse(&again), Ok((header, HEADER_BYTES)));
}

fn reference(bytes: &[u8]) {
    let Ok(found) = Startpoint::from_bytes(bytes) else { return };
    let again = found.to_bytes();
    assert!(again.len() <= bytes.len());
    assert_eq!(Startpoint::from_bytes(&again).as_ref().ok(), Some(&found));
    let text = found.to_string();
    assert_eq!(text.parse().ok(), Some(found), "{text}");
}

/// A byte of order and holes, how long the script is, the script (a byte a read), and the payload.
fn values(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let order = if script.byte() & 1 == 0 { ByteOrder::Big } else { ByteOrder::Little };
    let mut cuts = [0; 4].map(|_: u8| usize::from(script.byte()));
    let reads = usize::from(script.byte() % 32);
    let reads = script.take(reads);
    let payload = script.take(usize::MAX);
    cuts.sort_unstable();
    let mut holes = vec![cuts[0]..cuts[1], cuts[2]..cuts[3]];
    holes.retain(|hole: &Range<usize>| !hole.is_empty() && hole.end <= payload.len());
    let mut reader = Reader::new(&payload, &holes, order);
    for read in reads {
        read_one(&mut reader, read, &holes);
    }
}

fn read_one(reader: &mut Reader<'_>, read: u8, holes: &[Range<usize>]) {
    let before = reader.position();
    let (left, len) = (reader.remaining(), usize::from(read / 16));
    // What was read, and how many of its values were lost.
    let result: Result<usize, ReadError> = match read % 16 {
        0 => reader.get_u8().map(|_| 0),
        1 => reader.get_i16().map(|_| 0),
        2 => reader.get_u32().map(|_| 0),
        3 => reader.get_f64().map(|_| 0),
        4 => reader.get_bool().map(|_| 0),
        5 => reader.get_bytes().map(|_| 0),
        6 => reader.get_str().map(|_| 0),
        7 => reader.get_startpoint().map(|_| 0),
        8 => reader.get_u64_array().map(|_| 0),
        9 => reader.get_raw(len).map(|_| 0),
        10 => reader.get_u32_lossy().map(|value| usize::from(value.is_none())),
        11 => reader.get_raw_lossy(len).map(|lossy| lost(&lossy.holes, lossy.values.len())),
        12 => reader.get_bytes_lossy().map(|lossy| lost(&lossy.holes, lossy.values.len())),
        13 => reader.get_u16_array_lossy().map(|lossy| lost(&lossy.holes, lossy.values.len())),
        14 => reader.get_f64_array_lossy().map(|lossy| lost(&lossy.holes, lossy.values.len())),
        _ => {
            reader.seek(before + len);
            Ok(1)
        }
    };
    let after = reader.position();
    assert!(before <= after && after - before <= left && reader.remaining() == left - (after - before));
    let touched = before < after && holes.iter().any(|hole| hole.start < after && before < hole.end);
    match result {
        Err(ReadError::Truncated) => assert_eq!(after, before, "a read that found too little took some"),
        Ok(0) => assert!(!touched, "something was lost of what is passed off as received"),
        _ => {}
    }
}

/// How many of so many values were lost.
fn lost(holes: &[Range<usize>], values: usize) -> usize {
    assert!(holes.iter().all(|hole| hole.start < hole.end && hole.end <= values), "{holes:?} of {values}");
    assert!(holes.windows(2).all(|two| two[0].end < two[1].start || two[0].end <= two[1].start));
    holes.iter().map(Range::len).sum()
}
