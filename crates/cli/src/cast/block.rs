//! What `pinnace cast` sends and `pinnace tune` receives: one A1 message for each block of a stream, with 40 bytes in front.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | `CAST` |
//! | 4 | 1 | kind: 1 header, 2 data, 3 end |
//! | 5 | 3 | 0 |
//! | 8 | 8 | stream: drawn by the sender when it starts |
//! | 16 | 8 | number: data blocks count from 0; otherwise that of the next one |
//! | 24 | 8 | position: bytes of the medium before this block (header: 0; end: its length) |
//! | 32 | 8 | due: microseconds from the beginning to when this should leave |
//!
//! Numbers are big-endian. The rest is the block; of a header a length of 4 bytes, so many bytes of JSON ([`About`]), and
//! the medium's own header, which is the beginning of the stream. The header is repeated every second and whenever a sink
//! tunes in, so that who comes late, or lost it, has it soon.

use super::media::Format;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Bytes in front of a block.
pub(crate) const FRONT: usize = 40;
const MAGIC: &[u8; 4] = b"CAST";
/// Text from the network is not longer on a screen.
const MOST_TEXT: usize = 100;

/// What is in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What the stream is, and how it begins.
    Header,
    /// Bytes of it.
    Data,
    /// It is over.
    End,
}

/// What stands in front of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Front {
    pub(crate) kind: Kind,
    pub(crate) stream: u64,
    pub(crate) number: u64,
    pub(crate) position: u64,
    pub(crate) due: Duration,
}

/// What a stream is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) format: Format,
    /// Bits a second.
    pub(crate) bit_rate: f64,
    pub(crate) period_us: u64,
    /// Bytes of all of it, if that is known.
    pub(crate) bytes: Option<u64>,
    /// In words.
    pub(crate) text: String,
}

impl std::fmt::Display for About {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { format, bit_rate, text, .. } = self;
        write!(f, "{format}, ")?;
        if !text.is_empty() {
            // It comes from the network: nothing in it may move the cursor.
            write!(f, "{}, ", text.chars().take(MOST_TEXT).flat_map(char::escape_debug).collect::<String>())?;
        }
        f.write_str(&crate::numbers::rate(*bit_rate))
    }
}

impl Front {
    /// The message of a block of these bytes.
    pub(crate) fn message(&self, block: &[u8]) -> Vec<u8> {
        let Self { kind, stream, number, position, due } = *self;
        let mut message = Vec::with_capacity(FRONT + block.len());
        message.extend_from_slice(MAGIC);
        let kind = match kind {
            Kind::Header => 1,
            Kind::Data => 2,
            Kind::End => 3,
        };
        message.extend_from_slice(&[kind, 0, 0, 0]);
        for number in [stream, number, position, u64::try_from(due.as_micros()).unwrap_or(u64::MAX)] {
            message.extend_from_slice(&number.to_be_bytes());
        }
        message.extend_from_slice(block);
        message
    }

    /// What stands in front of a message, and its block; nothing if it is of another kind.
    pub(crate) fn read(message: &[u8]) -> Option<(Self, &[u8])> {
        let (front, block) = message.split_at_checked(FRONT)?;
        let kind = match front.strip_prefix(MAGIC)?.first()? {
            1 => Kind::Header,
            2 => Kind::Data,
            3 => Kind::End,
            _ => return None,
        };
        let number = |at: usize| front[at..at + 8].try_into().map_or(0, u64::from_be_bytes);
        let due = Duration::from_micros(number(32));
        Some((Self { kind, stream: number(8), number: number(16), position: number(24), due }, block))
    }
}

/// The block of a header.
pub(crate) fn header(about: &About, medium: &[u8]) -> Vec<u8> {
    // Numbers and text always become JSON.
    let about = serde_json::to_vec(about).unwrap_or_default();
    let mut block = (about.len() as u32).to_be_bytes().to_vec();
    block.extend_from_slice(&about);
    block.extend_from_slice(medium);
    block
}

/// Reads it: what the stream is, and the header of the medium.
pub(crate) fn read_header(block: &[u8]) -> Option<(About, &[u8])> {
    let (length, rest) = block.split_first_chunk()?;
    let (about, medium) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some((serde_json::from_slice(about).ok()?, medium))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace_testing::corpus;

    fn about() -> About {
        About { format: Format::Wav, bit_rate: 1e6, period_us: 20_000, bytes: None, text: "a\u{1b}[2Jb".into() }
    }

    #[test]
    fn blocks_are_read_as_they_were_written() {
        for kind in [Kind::Header, Kind::Data, Kind::End] {
            let due = Duration::from_micros(77);
            let front = Front { kind, stream: u64::MAX, number: 3, position: 1 << 40, due };
            let message = front.message(b"block");
            assert_eq!(Front::read(&message), Some((front, &b"block"[..])));
            for length in 0..FRONT {
                assert_eq!(Front::read(&message[..length]), None);
            }
            for at in 0..5 {
                let mut wrong = message.clone();
                wrong[at] ^= 0x80;
                assert_eq!(Front::read(&wrong), None, "{at}");
            }
        }
    }

    #[test]
    fn headers_are_read_as_they_were_written() {
        let block = header(&about(), b"RIFF");
        assert_eq!(read_header(&block), Some((about(), &b"RIFF"[..])));
        for length in 0..block.len() - 4 {
            assert_eq!(read_header(&block[..length]), None);
        }
        assert_eq!(read_header(&[0xff; 4]), None);
        assert!(!about().to_string().contains('\u{1b}'));
    }

    /// What is read of a message is what stands in it, and can be written again.
    fn heard(message: &[u8]) {
        let Some((front, block)) = Front::read(message) else { return };
        let again = front.message(block);
        assert_eq!((&again[..5], &again[8..]), (&message[..5], &message[8..]), "but for three bytes that say nothing");
        let Some((about, medium)) = read_header(block) else { return };
        assert!(block.ends_with(medium) && block.len() >= 4 + medium.len());
        // Of a rate the last digit may be another one.
        let whole = |about: About| About { bit_rate: 0.0, ..about };
        let again = header(&about, medium);
        let (once_more, its_medium) = read_header(&again).expect("what was read can be written");
        assert_eq!((whole(once_more), its_medium), (whole(about.clone()), medium));
        assert!(!about.to_string().contains(char::is_control), "{about}");
    }

    /// The same, of something that begins as a message does.
    fn heard_as_a_message(bytes: &[u8]) {
        let Some((kind, rest)) = bytes.split_first() else { return };
        heard(&[&MAGIC[..], &[kind % 4], rest].concat());
    }

    #[test]
    fn whatever_comes_is_refused_or_read_as_it_stands() {
        corpus::random("a block of a cast", heard_as_a_message, 50_000, 100);
        let front = |kind| Front { kind, stream: 7, number: 3, position: 1 << 40, due: Duration::from_micros(77) };
        let inputs = [
            front(Kind::Header).message(&header(&about(), b"RIFF")),
            front(Kind::Header).message(&header(&About { bytes: Some(9), text: "\u{202e}a".into(), ..about() }, b"")),
            front(Kind::Data).message(b"block"),
            front(Kind::End).message(b""),
        ];
        corpus::faulty(heard, &inputs, 20_000);
    }
}
