//! What a stream puts in front of every frame: which frame it is, and when it was sent.
//!
//! Always true: what does not say that it is a frame of a stream, of just the length that came, is none.
//!
//! | offset | bytes | field, most significant byte first |
//! |---|---|---|
//! | 0 | 8 | `pinstrm1` |
//! | 8 | 8 | number of the frame, from 0; frames that were left out have one too |
//! | 16 | 8 | when it was handed to the transport: nanoseconds of the sender's CLOCK_REALTIME |
//! | 24 | 8 | the frame's deadline in nanoseconds after that; 0 for none |
//! | 32 | 4 | bytes that follow |
//! | 36 | 4 | bit 0: the end of the stream; what follows are four counts of 8 bytes, see [`Ending`] |

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of a header.
pub(crate) const BYTES: usize = 40;
/// The most bytes that follow one. A receiver has room for 256 MiB: of these the header takes its part, and what is noted of
/// each packet.
pub(super) const MOST: u64 = 255 << 20;
const MAGIC: [u8; 8] = *b"pinstrm1";
const END: u32 = 1;

/// The header of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) number: u64,
    /// Nanoseconds since 1970.
    pub(super) sent_at: u64,
    pub(super) deadline: Option<Duration>,
    /// Bytes that follow.
    pub(super) bytes: u32,
    pub(super) is_end: bool,
}

impl Header {
    /// As bytes.
    pub(super) fn encode(&self) -> [u8; BYTES] {
        let deadline = self.deadline.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1));
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.number.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.sent_at.to_be_bytes());
        bytes[24..32].copy_from_slice(&deadline.to_be_bytes());
        bytes[32..36].copy_from_slice(&self.bytes.to_be_bytes());
        bytes[36..].copy_from_slice(&u32::from(self.is_end).to_be_bytes());
        bytes
    }

    /// The header at the beginning of `frame`, whatever follows.
    pub(super) fn decode(frame: &[u8]) -> Option<Self> {
        let long = |at: usize| Some(u64::from_be_bytes(frame.get(at..at + 8)?.try_into().ok()?));
        let short = |at: usize| Some(u32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?));
        if frame.get(..8)? != MAGIC {
            return None;
        }
        Some(Self {
            number: long(8)?,
            sent_at: long(16)?,
            deadline: Some(long(24)?).filter(|&nanos| nanos > 0).map(Duration::from_nanos),
            bytes: short(32)?,
            is_end: short(36)? & END != 0,
        })
    }

    /// The header of a whole frame, and what follows it.
    pub(super) fn split(frame: &[u8]) -> Option<(Self, &[u8])> {
        let (header, content) = (Self::decode(frame)?, frame.get(BYTES..)?);
        (content.len() == header.bytes as usize).then_some((header, content))
    }
}

/// What the sender says of the whole stream when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct Ending {
    /// Frames that were due.
    #[serde(rename = "frames_offered")]
    pub(super) offered: u64,
    /// Those that were handed to the transport.
    #[serde(rename = "frames_sent")]
    pub(super) sent: u64,
    /// Those that were not, because too many were still under way.
    #[serde(rename = "frames_left_out")]
    pub(super) left_out: u64,
    /// Those that the transport gave up.
    #[serde(rename = "frames_given_up")]
    pub(super) given_up: u64,
}

impl Ending {
    /// As bytes.
    pub(super) fn encode(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (field, value) in bytes.chunks_mut(8).zip([self.offered, self.sent, self.left_out, self.given_up]) {
            field.copy_from_slice(&value.to_be_bytes());
        }
        bytes
    }

    /// What follows the header of the end.
    pub(super) fn decode(content: &[u8]) -> Option<Self> {
        let field = |at: usize| Some(u64::from_be_bytes(content.get(at..at + 8)?.try_into().ok()?));
        Some(Self { offered: field(0)?, sent: field(8)?, left_out: field(16)?, given_up: field(24)? })
    }
}

/// Why a frame cannot have so many bytes, if it cannot.
pub(super) fn check_size(bytes: u64) -> Result<(), String> {
    match bytes {
        0..=MOST => Ok(()),
        _ => Err(format!("{bytes} bytes are too many for a frame, which has at most {MOST} (255 MiB)")),
    }
}

/// Nanoseconds since 1970, by the system's clock.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace_testing::corpus;

    #[test]
    fn headers_come_back_and_nothing_else_is_one() {
        let header =
            Header { number: 7, sent_at: 1 << 60, deadline: Some(Duration::from_millis(80)), bytes: 3, is_end: false };
        let frame = [&header.encode()[..], b"abc"].concat();
        assert_eq!(Header::split(&frame), Some((header, &b"abc"[..])));
        for end in 0..frame.len() {
            assert_eq!(Header::split(&frame[..end]), None, "{end} bytes");
        }
        let mut other = frame.clone();
        other[3] ^= 1;
        assert_eq!(Header::split(&other), None);
        assert_eq!(Header::split(&[&frame[..], b"d"].concat()), None);
    }

    #[test]
    fn the_end_says_how_many_there_were() {
        let ending = Ending { offered: 9, sent: 7, left_out: 2, given_up: 1 };
        assert_eq!(Ending::decode(&ending.encode()), Some(ending));
        assert_eq!(Ending::decode(&ending.encode()[..31]), None);
    }

    /// What is read of a frame is what stands in it, and can be written again.
    fn heard(frame: &[u8]) {
        if let Some(header) = Header::decode(frame) {
            let again = header.encode();
            assert_eq!(
                (&again[..36], again[39]),
                (&frame[..36], frame[39] & END as u8),
                "but for bits that say nothing"
            );
            assert_eq!(Header::decode(&again), Some(header));
        }
        if let Some((header, content)) = Header::split(frame) {
            assert_eq!((frame.len(), content.len()), (BYTES + header.bytes as usize, header.bytes as usize));
            if let Some(ending) = Ending::decode(content) {
                assert_eq!(ending.encode(), content[..32]);
            }
        }
    }

    /// The same, of something that begins as a frame does, and has the length that it says.
    fn heard_as_a_frame(bytes: &[u8]) {
        let mut frame = [&MAGIC[..], bytes].concat();
        if let Some(length) = frame.len().checked_sub(BYTES) {
            frame[32..36].copy_from_slice(&(length as u32).to_be_bytes());
        }
        heard(&frame);
    }

    #[test]
    fn whatever_comes_is_no_frame_or_read_as_it_stands() {
        corpus::random("a frame of a stream", heard_as_a_frame, 50_000, 100);
        let deadline = Some(Duration::from_millis(80));
        let header = Header { number: 7, sent_at: 1 << 60, deadline, bytes: 3, is_end: false };
        let ending = Ending { offered: 9, sent: 7, left_out: 2, given_up: 1 };
        let end = Header { deadline: None, bytes: 32, is_end: true, ..header };
        let inputs = [[&header.encode()[..], b"abc"].concat(), [&end.encode()[..], &ending.encode()].concat()];
        corpus::faulty(heard, &inputs, 20_000);
    }
}
