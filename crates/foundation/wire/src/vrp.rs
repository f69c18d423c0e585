//! VRP packets (specs/vrp.md, section 1): one in a datagram, behind a header of 6 bytes.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 2 | bit 15: kind (0 data, 1 control); bits 14..0: frame number |
//! | 2 | 4 | packet number (data: index of the packet in the frame; control: 0) |
//!
//! A data packet goes on with the data. A control packet goes on with tags, the last of which is LAST:
//!
//! | value | tag | operand |
//! |---|---|---|
//! | 0 | LAST | none |
//! | 1, 2 | PING, PONG | eight bytes |
//! | 3, 4, 5 | ACK, SINGLE_ACK, NACK | packet u32 |
//! | 6 | FRAME_CREATE | frame u16, size u32, P u16 |
//! | 7, 8 | CONS_LOSS, LOSS_RATE | u8 |
//! | 9, 10, 11, 12 | FRAME_OK, FRAME_REFUSED, FRAME_CLOSE, MISSING_HDR | frame u16 |
//! | 13 | CRITICAL_PACKET | packet u32 |
//! | 14 | CRITICAL_INTERVAL | first u32, last u32 |
//! | 15 | PADDING | size u16, then that many bytes |
//! | 64..255 | extensions | length u8, then that many bytes |
//!
//! A [`Control`] was read to its end before it exists, so [`Control::tags`] cannot fail. Always true: at most one
//! FRAME_CREATE is in it, of the packet's own frame.

use crate::{Malformed, be16, be32};

/// Bytes of the header of every packet.
pub const HEADER_BYTES: usize = 6;
/// The largest packet data size `P`: UDP's payload over IPv4, less the header.
pub const MAX_PACKET_BYTES: usize = 65_501;
/// Frame numbers are below this.
pub const FRAME_NUMBERS: u16 = 1 << 15;
/// The largest window of a sender, in packets.
pub const MAX_WINDOW: u16 = 16_384;
/// A control packet of a receiver never is larger.
pub const MAX_ANSWER_BYTES: usize = 1472;
/// A frame header is padded to at least this.
pub const MIN_FRAME_HEADER_BYTES: usize = 64;
/// The most data that INLINE_DATA carries.
pub const MAX_INLINE_BYTES: usize = 255;
/// The most ranges in one LOSS_REPORT.
pub const MAX_REPORT_RANGES: usize = 31;
/// The first number of a loss range that stands for all that did not fit: its count is the packets lost in all.
pub const REPORT_OVERFLOW: u32 = u32::MAX;

/// The end of a control packet (LAST), for those that are written in parts.
pub const END: [u8; 1] = [LAST];

const CONTROL: u16 = 1 << 15;

const LAST: u8 = 0;
const PING: u8 = 1;
const PONG: u8 = 2;
const ACK: u8 = 3;
const SINGLE_ACK: u8 = 4;
const NACK: u8 = 5;
const FRAME_CREATE: u8 = 6;
const CONS_LOSS: u8 = 7;
const LOSS_RATE: u8 = 8;
const FRAME_OK: u8 = 9;
const FRAME_REFUSED: u8 = 10;
const FRAME_CLOSE: u8 = 11;
const MISSING_HDR: u8 = 12;
const CRITICAL_PACKET: u8 = 13;
const CRITICAL_INTERVAL: u8 = 14;
const PADDING: u8 = 15;
const FIRST_EXTENSION: u8 = 64;
const WINDOW: u8 = 64;
const INLINE_DATA: u8 = 65;
const LOSS_REPORT: u8 = 66;
const LOSS_RATE_FLOOR: u8 = 67;
const LOSS_RATE_NOW: u8 = 68;
const ECN_ECHO: u8 = 69;
const EPOCH: u8 = 70;

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// A data packet; the rest of the datagram is data.
    Data {
        /// Frame number.
        frame: u16,
        /// Index of the packet in the frame.
        packet: u32,
    },
    /// A control packet: parse it whole with [`Control::parse`].
    Control {
        /// Frame number.
        frame: u16,
    },
}

impl Header {
    /// Reads the first six bytes of a datagram.
    pub fn parse(head: &[u8; HEADER_BYTES]) -> Self {
        let word = be16(head, 0);
        let frame = word & !CONTROL;
        if word & CONTROL != 0 { Self::Control { frame } } else { Self::Data { frame, packet: be32(head, 2) } }
    }

    /// The header as it travels.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let (word, packet) = match *self {
            Self::Data { frame, packet } => (frame & !CONTROL, packet),
            Self::Control { frame } => (frame | CONTROL, 0),
        };
        let mut bytes = [0; HEADER_BYTES];
        bytes[..2].copy_from_slice(&word.to_be_bytes());
        bytes[2..].copy_from_slice(&packet.to_be_bytes());
        bytes
    }
}

/// A tag of a control packet. Padding is left out, and so are extensions that this version does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag<'a> {
    /// The sender asks for a PONG with these bytes.
    Ping([u8; 8]),
    /// The answer.
    Pong([u8; 8]),
    /// This packet and all before it have come, or may be lost.
    Ack(u32),
    /// This packet has come, or may be lost.
    SingleAck(u32),
    /// This packet must be sent again.
    Nack(u32),
    /// A new frame.
    FrameCreate {
        /// Its number, which is the packet header's.
        frame: u16,
        /// Bytes of the frame.
        size: u32,
        /// Bytes of every packet but the last, `P`.
        packet_bytes: u16,
    },
    /// The longest run of packets that may be lost.
    ConsLoss(u8),
    /// The share of packets that may be lost, 255 for all.
    LossRate(u8),
    /// The frame was created.
    FrameOk(u16),
    /// The frame is not wanted.
    FrameRefused(u16),
    /// The frame has ended at the sender.
    FrameClose(u16),
    /// The receiver does not know this frame.
    MissingHeader(u16),
    /// A packet that may not be lost.
    CriticalPacket(u32),
    /// Packets that may not be lost.
    CriticalInterval {
        /// The first.
        first: u32,
        /// The last, inclusive.
        last: u32,
    },
    /// The history window of the frame, in packets: never 0, and otherwise whatever the sender says. What a sender has
    /// unacknowledged stays within [`MAX_WINDOW`] all the same.
    Window(u16),
    /// The frame's whole data.
    InlineData(Inline<'a>),
    /// What was lost for good.
    LossReport(LossRanges<'a>),
    /// The lower end of an interval of allowed loss.
    LossRateFloor(u8),
    /// The rate of loss in force.
    LossRateNow {
        /// Counts the changes, modulo 256.
        count: u8,
        /// The rate, 255 for everything.
        rate: u8,
    },
    /// Congestion marks seen on this frame.
    EcnEcho(u32),
    /// The life of the sending endpoint.
    Epoch(u32),
}

/// The data of INLINE_DATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inline<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Where they begin in the datagram.
    pub at: usize,
}

/// The ranges of a LOSS_REPORT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossRanges<'a>(&'a [u8]);

impl<'a> LossRanges<'a> {
    /// First packet and count of each range. One that begins at [`REPORT_OVERFLOW`] stands for what did not fit.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, u32)> + use<'a> {
        self.0.chunks_exact(8).map(|range| (be32(range, 0), be32(range, 4)))
    }
}

/// A control packet that has been read to its end.
///
/// ```
/// use pinnace_wire::vrp::{Control, ControlWriter, Tag};
/// let mut bytes = [0; 64];
/// let mut writer = ControlWriter::new(&mut bytes, 7);
/// assert!(writer.push(&Tag::Ack(3)) && writer.push(&Tag::SingleAck(5)));
/// let len = writer.finish();
/// let control = Control::parse(&bytes[..len]).unwrap();
/// assert_eq!(control.frame(), 7);
/// assert!(control.tags().eq([Tag::Ack(3), Tag::SingleAck(5)]));
/// assert!(Control::parse(&bytes[..len - 1]).is_err(), "no LAST");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control<'a> {
    frame: u16,
    /// From the packet's header to the end of what was read, LAST excluded.
    bytes: &'a [u8],
    is_cut: bool,
}

impl<'a> Control<'a> {
    /// Reads a whole control packet.
    ///
    /// # Errors
    /// [`Malformed`] if it is not a control packet, ends without LAST or inside an operand, has two FRAME_CREATE or
    /// one of another frame, or one of a packet size of 0 for a frame that is not empty.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, Malformed> {
        let Some(head) = datagram.first_chunk::<HEADER_BYTES>() else { return Err(Malformed::Size) };
        let Header::Control { frame } = Header::parse(head) else { return Err(Malformed::Unknown) };
        let mut reader = Reader { bytes: datagram, at: HEADER_BYTES };
        let mut created = false;
        loop {
            let at = reader.at;
            let is_cut = match reader.next()? {
                Read::Tag(Tag::FrameCreate { frame: number, size, packet_bytes }) => {
                    if created || number != frame || (packet_bytes == 0 && size > 0) {
                        return Err(Malformed::Contradiction);
                    }
                    created = true;
                    continue;
                }
                Read::Tag(_) | Read::Skipped => continue,
                Read::Last => false,
                Read::Unknown => true,
            };
            return Ok(Self { frame, bytes: &datagram[..at], is_cut });
        }
    }

    /// The frame that ACK, NACK, loss and critical tags speak of.
    pub const fn frame(&self) -> u16 {
        self.frame
    }

    /// Whether the reading ended at an unknown tag: what followed was not read.
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The tags, in order.
    pub fn tags(&self) -> impl Iterator<Item = Tag<'a>> + use<'a> {
        let mut reader = Reader { bytes: self.bytes, at: HEADER_BYTES };
        core::iter::from_fn(move || {
            loop {
                match reader.next() {
                    Ok(Read::Tag(tag)) => return Some(tag),
                    Ok(Read::Skipped) => {}
                    Ok(Read::Last | Read::Unknown) | Err(_) => return None,
                }
            }
        })
    }
}

enum Read<'a> {
    Tag(Tag<'a>),
    Skipped,
    Last,
    Unknown,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let taken = self.bytes.get(self.at..self.at + len).ok_or(Malformed::Size)?;
        self.at += len;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    fn half(&mut self) -> Result<u16, Malformed> {
        Ok(be16(self.take(2)?, 0))
    }

    fn word(&mut self) -> Result<u32, Malformed> {
        Ok(be32(self.take(4)?, 0))
    }

    fn stamp(&mut self) -> Result<[u8; 8], Malformed> {
        self.take(8)?.try_into().map_err(|_| Malformed::Size)
    }

    fn next(&mut self) -> Result<Read<'a>, Malformed> {
        let tag = match self.byte()? {
            LAST => return Ok(Read::Last),
            PING => Tag::Ping(self.stamp()?),
            PONG => Tag::Pong(self.stamp()?),
            ACK => Tag::Ack(self.word()?),
            SINGLE_ACK => Tag::SingleAck(self.word()?),
            NACK => Tag::Nack(self.word()?),
            FRAME_CREATE => Tag::FrameCreate { frame: self.half()?, size: self.word()?, packet_bytes: self.half()? },
            CONS_LOSS => Tag::ConsLoss(self.byte()?),
            LOSS_RATE => Tag::LossRate(self.byte()?),
            FRAME_OK => Tag::FrameOk(self.half()?),
            FRAME_REFUSED => Tag::FrameRefused(self.half()?),
            FRAME_CLOSE => Tag::FrameClose(self.half()?),
            MISSING_HDR => Tag::MissingHeader(self.half()?),
            CRITICAL_PACKET => Tag::CriticalPacket(self.word()?),
            CRITICAL_INTERVAL => Tag::CriticalInterval { first: self.word()?, last: self.word()? },
            PADDING => {
                let len = self.half()?;
                self.take(usize::from(len))?;
                return Ok(Read::Skipped);
            }
            unknown if unknown < FIRST_EXTENSION => return Ok(Read::Unknown),
            extension => {
                let len = self.byte()?;
                let at = self.at;
                let operand = self.take(usize::from(len))?;
                return Ok(Self::extension(extension, operand, at).map_or(Read::Skipped, Read::Tag));
            }
        };
        Ok(Read::Tag(tag))
    }

    /// A known extension of the right length.
    fn extension(tag: u8, operand: &'a [u8], at: usize) -> Option<Tag<'a>> {
        Some(match (tag, operand) {
            (WINDOW, [_, _]) => match be16(operand, 0) {
                0 => return None,
                window => Tag::Window(window),
            },
            (INLINE_DATA, bytes) => Tag::InlineData(Inline { bytes, at }),
            (LOSS_REPORT, ranges) if ranges.len().is_multiple_of(8) => Tag::LossReport(LossRanges(ranges)),
            (LOSS_RATE_FLOOR, &[rate]) => Tag::LossRateFloor(rate),
            (LOSS_RATE_NOW, &[count, rate]) => Tag::LossRateNow { count, rate },
            (ECN_ECHO, [_, _, _, _]) => Tag::EcnEcho(be32(operand, 0)),
            (EPOCH, [_, _, _, _]) => Tag::Epoch(be32(operand, 0)),
            _ => return None,
        })
    }
}

/// Bytes that a tag takes.
pub fn tag_bytes(tag: &Tag<'_>) -> usize {
    match tag {
        Tag::ConsLoss(_) | Tag::LossRate(_) => 2,
        Tag::FrameOk(_) | Tag::FrameRefused(_) | Tag::FrameClose(_) | Tag::MissingHeader(_) | Tag::LossRateFloor(_) => {
            3
        }
        Tag::Window(_) | Tag::LossRateNow { .. } => 4,
        Tag::Ack(_) | Tag::SingleAck(_) | Tag::Nack(_) | Tag::CriticalPacket(_) => 5,
        Tag::EcnEcho(_) | Tag::Epoch(_) => 6,
        Tag::Ping(_) | Tag::Pong(_) | Tag::FrameCreate { .. } | Tag::CriticalInterval { .. } => 9,
        Tag::InlineData(inline) => 2 + inline.bytes.len(),
        Tag::LossReport(LossRanges(ranges)) => 2 + ranges.len(),
    }
}

/// Writes a control packet, in memory of the caller's. There is always room for LAST.
#[derive(Debug)]
pub struct ControlWriter<'a> {
    bytes: &'a mut [u8],
    len: usize,
    /// The packet has so many bytes at least.
    least: usize,
}

impl<'a> ControlWriter<'a> {
    /// Bytes of a packet without tags: header and LAST.
    pub const EMPTY_BYTES: usize = HEADER_BYTES + 1;

    /// Begins a packet of frame `frame` at the start of `bytes`.
    ///
    /// # Panics
    /// If `bytes` has not even room for a packet without tags.
    pub fn new(bytes: &'a mut [u8], frame: u16) -> Self {
        assert!(bytes.len() >= Self::EMPTY_BYTES, "no room for a control packet");
        bytes[..HEADER_BYTES].copy_from_slice(&Header::Control { frame }.encode());
        Self { bytes, len: HEADER_BYTES, least: 0 }
    }

    /// Bytes that tags may still take.
    pub fn room(&self) -> usize {
        self.bytes.len() - self.len - 1
    }

    /// Whether no tag has been written.
    pub fn is_empty(&self) -> bool {
        self.len == HEADER_BYTES
    }

    /// Bytes of the packet if it ends now.
    pub fn len(&self) -> usize {
        self.least.max(self.len + 1)
    }

    /// Appends a tag; returns false, and writes nothing, if there is no room for it, or if it is an INLINE_DATA of more
    /// than [`MAX_INLINE_BYTES`].
    pub fn push(&mut self, tag: &Tag<'_>) -> bool {
        let is_too_long = matches!(tag, Tag::InlineData(inline) if inline.bytes.len() > MAX_INLINE_BYTES);
        if is_too_long || tag_bytes(tag) > self.room() {
            return false;
        }
        match *tag {
            Tag::Ping(stamp) => self.put(PING, &[&stamp]),
            Tag::Pong(stamp) => self.put(PONG, &[&stamp]),
            Tag::Ack(packet) => self.put(ACK, &[&packet.to_be_bytes()]),
            Tag::SingleAck(packet) => self.put(SINGLE_ACK, &[&packet.to_be_bytes()]),
            Tag::Nack(packet) => self.put(NACK, &[&packet.to_be_bytes()]),
            Tag::FrameCreate { frame, size, packet_bytes } => {
                self.put(FRAME_CREATE, &[&frame.to_be_bytes(), &size.to_be_bytes(), &packet_bytes.to_be_bytes()]);
            }
            Tag::ConsLoss(run) => self.put(CONS_LOSS, &[&[run]]),
            Tag::LossRate(rate) => self.put(LOSS_RATE, &[&[rate]]),
            Tag::FrameOk(frame) => self.put(FRAME_OK, &[&frame.to_be_bytes()]),
            Tag::FrameRefused(frame) => self.put(FRAME_REFUSED, &[&frame.to_be_bytes()]),
            Tag::FrameClose(frame) => self.put(FRAME_CLOSE, &[&frame.to_be_bytes()]),
            Tag::MissingHeader(frame) => self.put(MISSING_HDR, &[&frame.to_be_bytes()]),
            Tag::CriticalPacket(packet) => self.put(CRITICAL_PACKET, &[&packet.to_be_bytes()]),
            Tag::CriticalInterval { first, last } => {
                self.put(CRITICAL_INTERVAL, &[&first.to_be_bytes(), &last.to_be_bytes()]);
            }
            Tag::Window(window) => self.put(WINDOW, &[&[2], &window.to_be_bytes()]),
            Tag::InlineData(inline) => self.put_extension(INLINE_DATA, inline.bytes),
            Tag::LossReport(LossRanges(ranges)) => self.put_extension(LOSS_REPORT, ranges),
            Tag::LossRateFloor(rate) => self.put(LOSS_RATE_FLOOR, &[&[1, rate]]),
            Tag::LossRateNow { count, rate } => self.put(LOSS_RATE_NOW, &[&[2, count, rate]]),
            Tag::EcnEcho(count) => self.put(ECN_ECHO, &[&[4], &count.to_be_bytes()]),
            Tag::Epoch(epoch) => self.put(EPOCH, &[&[4], &epoch.to_be_bytes()]),
        }
        true
    }

    /// Appends a LOSS_REPORT of `ranges`: first packet and count of each. At most [`MAX_REPORT_RANGES`]; returns false,
    /// and writes nothing, if there is no room for them or they are too many.
    pub fn push_report(&mut self, ranges: &[(u32, u32)]) -> bool {
        if ranges.len() > MAX_REPORT_RANGES || 2 + 8 * ranges.len() > self.room() {
            return false;
        }
        self.put(LOSS_REPORT, &[&[8 * ranges.len() as u8]]);
        for (first, count) in ranges {
            self.put_bytes(&first.to_be_bytes());
            self.put_bytes(&count.to_be_bytes());
        }
        true
    }

    fn put(&mut self, tag: u8, operands: &[&[u8]]) {
        self.put_bytes(&[tag]);
        for operand in operands {
            self.put_bytes(operand);
        }
    }

    fn put_extension(&mut self, tag: u8, operand: &[u8]) {
        self.put(tag, &[&[operand.len() as u8], operand]);
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Pads so that the packet has at least `len` bytes, LAST included, as far as there is memory. It has more only where
    /// fewer than three bytes, which a padding tag takes, are missing and the memory goes on; where it ends, zeros behind
    /// LAST make up for them.
    pub fn pad_to(&mut self, len: usize) {
        let len = len.min(self.bytes.len());
        if self.len() >= len {
            return;
        }
        let padding = (len - self.len()).saturating_sub(3).min(usize::from(u16::MAX));
        if self.room() >= 3 + padding {
            self.put(PADDING, &[&(padding as u16).to_be_bytes()]);
            self.bytes[self.len..self.len + padding].fill(0);
            self.len += padding;
        }
        self.least = len;
    }

    /// Ends with the head of an INLINE_DATA of `len` bytes, and without LAST; returns the bytes so far. The data follow,
    /// which the caller only names, and then [`END`]. Of padding only tags count, not zeros behind LAST.
    ///
    /// # Panics
    /// If there is no room for the head: two bytes and LAST.
    pub fn finish_before_inline(mut self, len: u8) -> usize {
        self.put(INLINE_DATA, &[&[len]]);
        self.len
    }

    /// Writes LAST; returns the bytes of the packet.
    pub fn finish(self) -> usize {
        let len = self.len();
        self.bytes[self.len..len].fill(0);
        self.bytes[self.len] = LAST;
        len
    }
}

#[cfg(test)]
mod tests;
