//! Headers: what every packet begins with, how long it is, and how it is summed.
//!
//! | offset | size | xtp40 |
//! |---|---|---|
//! | 0 | 8 | key; bit 63 is RTN |
//! | 8 | 3 | options; the low 8 bits are 0 |
//! | 11 | 1 | version (1) in bits 7..5, type in bits 4..0 |
//! | 12 | 4 | dlen: bytes after the header |
//! | 16 | 2 | check |
//! | 18 | 2 | sort |
//! | 20 | 4 | sync |
//! | 24 | 8 | seq |
//!
//! | offset | size | xtp36 |
//! |---|---|---|
//! | 0 | 2 | options |
//! | 2 | 1 | offset (0) |
//! | 3 | 1 | version (1) in bits 7..5, type in bits 4..0 |
//! | 4 | 4 | key; bit 31 is RTN |
//! | 8 | 4 | sort |
//! | 12 | 4 | sync |
//! | 16 | 4 | seq |
//! | 20 | 4 | route (0) |
//! | 24 | 4 | dlen: the user's bytes |
//! | 28 | 4 | dseq |
//! | 32 | 4 | ttl (0) and reserved (0) |
//! | 36 | 4 | hcheck: CXOR of bytes 0..36 |

use super::{
    ADDRESS4_BYTES, BTAG_BYTES, CNTL_BYTES, CNTL36_BYTES, Codec, DIAG_BYTES, ECNTL_BYTES, Header, Key, Kind, Options,
    TCNTL_BYTES, TRAFFIC_BYTES, be64,
};
use crate::checksum::{Cxor, Internet, cxor};
use crate::{Malformed, be16, be32};
use core::ops::Range;

/// Where `check` lies in a packet of xtp40.
pub const CHECK_AT: usize = 16;
/// Bytes of the trailer of xtp36.
pub const TRAILER_BYTES: usize = 4;

const HEADER40_BYTES: usize = 32;
const HEADER36_BYTES: usize = 40;
const HCHECK_AT: usize = 36;
/// The shortest address segment and the shortest traffic specifier, of whatever format: the length and two bytes more.
const MIN_PART_BYTES: usize = 4;
const VERSION: u8 = 1;
const RTN40: u64 = 1 << 63;
const RTN36: u32 = 1 << 31;

impl Codec {
    /// Bytes of the header.
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Xtp40 => HEADER40_BYTES,
            Self::Xtp36 => HEADER36_BYTES,
        }
    }

    /// Bytes behind a segment of so many bytes: padding and trailer. A segment is what lies between the header and these:
    /// address, traffic specifier, tag and data.
    pub const fn tail_bytes(self, segment: usize) -> usize {
        match self {
            Self::Xtp40 => 0,
            Self::Xtp36 => padding(segment) + TRAILER_BYTES,
        }
    }

    /// The most bytes of a segment, whose beginning is whole words, that fit `room` with what follows them.
    pub const fn data_before_tail(self, room: usize) -> usize {
        match self {
            Self::Xtp40 => room,
            Self::Xtp36 => room.saturating_sub(TRAILER_BYTES) / 4 * 4,
        }
    }

    /// Bytes of the traffic specifier of a FIRST.
    pub const fn traffic_bytes(self) -> usize {
        match self {
            Self::Xtp40 => TRAFFIC_BYTES,
            Self::Xtp36 => 0,
        }
    }

    /// The bits of a key without RTN.
    pub const fn key_mask(self) -> u64 {
        match self {
            Self::Xtp40 => RTN40 - 1,
            Self::Xtp36 => RTN36 as u64 - 1,
        }
    }

    /// How many spans a status of at most `packet_bytes` has room for.
    pub const fn max_spans(self, packet_bytes: usize) -> usize {
        match self {
            Self::Xtp40 => packet_bytes.saturating_sub(HEADER40_BYTES + ECNTL_BYTES) / 16,
            Self::Xtp36 => packet_bytes.saturating_sub(HEADER36_BYTES + CNTL36_BYTES + TRAILER_BYTES) / 8,
        }
    }
}

/// Zero bytes from the end of a segment to a multiple of 4.
pub(super) const fn padding(segment: usize) -> usize {
    segment.wrapping_neg() % 4
}

impl Kind {
    /// The kind of a number on the wire, if the codec has it.
    const fn from_wire(codec: Codec, number: u8) -> Option<Self> {
        Some(match (number, codec) {
            (0, _) => Self::Data,
            (1, _) => Self::Cntl,
            (2, _) => Self::First,
            (3, Codec::Xtp40) => Self::Ecntl,
            (5, Codec::Xtp40) => Self::Tcntl,
            (7, Codec::Xtp40) => Self::Jcntl,
            (8, _) => Self::Diag,
            _ => return None,
        })
    }
}

/// A header that was read, and what is needed to check its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The header.
    pub header: Header,
    /// Bytes of the packet.
    len: usize,
    /// xtp40: bytes after the header. xtp36: the user's. Not more than `len` in either.
    dlen: usize,
}

impl Head {
    /// Reads the first [`Codec::header_bytes`] of a datagram of `datagram` bytes; what else is in `head` is ignored.
    /// `is_padded`: the link may have added bytes behind the packet (Ethernet); otherwise lengths agree exactly. (In xtp36
    /// only DATA and DIAG may be followed by such bytes: the others do not tell their length in the header, and are never
    /// short enough for Ethernet to pad them.)
    ///
    /// # Errors
    ///
    /// Version, type or an option is not defined, a reserved field is not 0, the key is 0, sort is not 0 without SORT,
    /// the packet's length is not the datagram's or is impossible for its type, or xtp36's hcheck is wrong.
    #[inline]
    pub fn parse(codec: Codec, head: &[u8], datagram: usize, is_padded: bool) -> Result<Self, Malformed> {
        let (header, dlen) = match codec {
            Codec::Xtp40 => read40(head.first_chunk().ok_or(Malformed::Size)?)?,
            Codec::Xtp36 => read36(head.first_chunk().ok_or(Malformed::Size)?)?,
        };
        if header.key.value == 0 || (header.sort != 0 && !header.options.contains(Options::SORT)) {
            return Err(Malformed::Contradiction);
        }
        let len = match codec {
            Codec::Xtp40 => length40(&header, dlen)?,
            Codec::Xtp36 => length36(&header, dlen, datagram)?,
        };
        // Widened, so that no length wraps where `usize` has 32 bits.
        if len > datagram as u64 || (len < datagram as u64 && !is_padded) {
            return Err(Malformed::Length);
        }
        Ok(Self { header, len: len as usize, dlen: dlen as usize })
    }

    /// Bytes of the packet. What lies behind them in the datagram is not part of it.
    #[inline]
    pub const fn packet_bytes(&self) -> usize {
        self.len
    }

    /// The `dlen` of the header.
    pub(super) const fn dlen(&self) -> usize {
        self.dlen
    }

    /// Where the trailer of xtp36 begins.
    pub(super) const fn trailer_at(&self) -> usize {
        self.len - TRAILER_BYTES
    }

    /// Bytes of padding before the trailer of xtp36. All that lies before the text of a DIAG, or before the user's bytes,
    /// is a multiple of 4, also an address of a format that we do not know: [`super::Body::parse`] sees to that.
    const fn padding(&self) -> usize {
        padding(self.dlen)
    }

    /// The bytes of the datagram that [`Head::verify`] wants: empty if nothing is left to check. With NOCHECK that is the
    /// header in xtp40 and the padding in xtp36.
    #[inline]
    pub const fn summed(&self) -> Range<usize> {
        let is_checked = !self.header.options.contains(Options::NOCHECK);
        match (self.header.codec, is_checked) {
            (Codec::Xtp40, true) => 0..self.len,
            (Codec::Xtp40, false) => 0..HEADER40_BYTES,
            (Codec::Xtp36, true) => HEADER36_BYTES..self.len,
            (Codec::Xtp36, false) => self.trailer_at() - self.padding()..self.trailer_at(),
        }
    }

    /// Whether checksum and padding are right. `pieces` are the bytes of [`Head::summed`], cut in any way.
    #[inline]
    pub fn verify<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> bool {
        match self.header.codec {
            Codec::Xtp40 => self.verify40(pieces),
            Codec::Xtp36 => self.verify36(pieces),
        }
    }

    fn verify40<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> bool {
        let mut sum = Internet::new();
        let mut len = 0;
        for piece in pieces {
            sum.add(piece);
            len += piece.len();
        }
        len == self.summed().len() && sum.finish() == 0
    }

    fn verify36<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> bool {
        let summed = self.summed();
        let trailer_at = self.trailer_at();
        let padding_at = trailer_at - self.padding();
        let is_checked = !self.header.options.contains(Options::NOCHECK);
        let mut sum = Cxor::new();
        let mut padding = 0;
        let mut trailer = 0u32;
        let mut at = summed.start;
        for piece in pieces {
            let (body, rest) = piece.split_at(trailer_at.saturating_sub(at).min(piece.len()));
            if is_checked {
                sum.add(body);
            }
            padding |= body.iter().skip(padding_at.saturating_sub(at)).fold(0, |all, byte| all | byte);
            trailer = rest.iter().fold(trailer, |all, byte| all << 8 | u32::from(*byte));
            at += piece.len();
        }
        at == summed.end && padding == 0 && (!is_checked || sum.finish() == trailer)
    }
}

#[inline]
fn read40(head: &[u8; HEADER40_BYTES]) -> Result<(Header, u32), Malformed> {
    let key = be64(head, 0);
    let word = be32(head, 8);
    let (options, low) = ((word >> 16) as u16, word >> 8 & 0xff);
    if low != 0 {
        return Err(Malformed::Unknown);
    }
    let codec = Codec::Xtp40;
    let header = Header {
        codec,
        key: Key { rtn: key & RTN40 != 0, value: key & codec.key_mask() },
        options: Options::from_bits(options).ok_or(Malformed::Unknown)?,
        kind: read_kind(codec, word as u8)?,
        sort: be16(head, 18).into(),
        sync: be32(head, 20),
        seq: be64(head, 24),
        dseq: 0,
    };
    Ok((header, be32(head, 12)))
}

#[inline]
fn read36(head: &[u8; HEADER36_BYTES]) -> Result<(Header, u32), Malformed> {
    let word = be32(head, 0);
    let key = be32(head, 4);
    let options = Options::from_bits((word >> 16) as u16).ok_or(Malformed::Unknown)?;
    let codec = Codec::Xtp36;
    let kind = read_kind(codec, word as u8)?;
    // There is no multicast in xtp36.
    if options.contains(Options::MULTI) {
        return Err(Malformed::Unknown);
    }
    let reserved = word & 0xff00 | be32(head, 20) | be32(head, 32);
    if reserved != 0 || cxor(&head[..HCHECK_AT]) != be32(head, HCHECK_AT) {
        return Err(Malformed::Contradiction);
    }
    let header = Header {
        codec,
        key: Key { rtn: key & RTN36 != 0, value: u64::from(key) & codec.key_mask() },
        options,
        kind,
        sort: be32(head, 8),
        sync: be32(head, 12),
        seq: be32(head, 16).into(),
        dseq: be32(head, 28),
    };
    Ok((header, be32(head, 24)))
}

#[inline]
fn read_kind(codec: Codec, ptype: u8) -> Result<Kind, Malformed> {
    let kind = Kind::from_wire(codec, ptype & 0x1f).ok_or(Malformed::Unknown)?;
    if ptype >> 5 == VERSION { Ok(kind) } else { Err(Malformed::Unknown) }
}

const fn btag_bytes(header: &Header) -> usize {
    if header.options.contains(Options::BTAG) { BTAG_BYTES } else { 0 }
}

/// Bytes of the packet, if its type can have so many. What is in them is for the body to judge.
#[inline]
fn length40(header: &Header, dlen: u32) -> Result<u64, Malformed> {
    let bytes = dlen as usize;
    let is_possible = match header.kind {
        Kind::Data => bytes >= btag_bytes(header),
        Kind::First => bytes >= 2 * MIN_PART_BYTES + btag_bytes(header),
        Kind::Cntl => bytes == CNTL_BYTES,
        Kind::Ecntl => bytes >= ECNTL_BYTES + 16 && (bytes - ECNTL_BYTES).is_multiple_of(16),
        Kind::Tcntl => bytes >= TCNTL_BYTES + MIN_PART_BYTES,
        Kind::Jcntl => bytes >= TCNTL_BYTES + 2 * MIN_PART_BYTES,
        Kind::Diag => bytes >= DIAG_BYTES,
    };
    if is_possible { Ok(HEADER40_BYTES as u64 + u64::from(dlen)) } else { Err(Malformed::Length) }
}

#[inline]
fn length36(header: &Header, dlen: u32, datagram: usize) -> Result<u64, Malformed> {
    // Of the header and the trailer.
    let fixed = (HEADER36_BYTES + TRAILER_BYTES) as u64;
    let padded = |before: usize| fixed + (before as u64 + u64::from(dlen)).next_multiple_of(4);
    // FIRST and CNTL say only further on how long they are.
    let told = |least: u64| {
        if datagram as u64 >= least && datagram.is_multiple_of(4) {
            Ok(datagram as u64)
        } else {
            Err(Malformed::Length)
        }
    };
    match header.kind {
        Kind::Data => Ok(padded(btag_bytes(header))),
        Kind::Diag => Ok(padded(DIAG_BYTES)),
        Kind::First => told(padded(MIN_PART_BYTES + btag_bytes(header))),
        _ if dlen == 0 => told(fixed + CNTL36_BYTES as u64),
        _ => Err(Malformed::Length),
    }
}

impl Header {
    /// Writes the header, and returns its length. The check of xtp40 is left 0; the hcheck of xtp36 is right. What the
    /// codec has no room for is cut off, and `sort` is 0 without SORT.
    pub(super) fn write(&self, kind: Kind, options: Options, dlen: usize, out: &mut [u8]) -> usize {
        let codec = self.codec;
        let key = self.key.value & codec.key_mask();
        let ptype = VERSION << 5 | kind as u8;
        let sort = if options.contains(Options::SORT) { self.sort } else { 0 };
        let dlen = dlen as u32;
        match codec {
            Codec::Xtp40 => {
                let key = if self.key.rtn { key | RTN40 } else { key };
                let word = u32::from(options.bits()) << 16 | u32::from(ptype);
                let sort = u16::try_from(sort).unwrap_or(u16::MAX);
                out[..8].copy_from_slice(&key.to_be_bytes());
                out[8..12].copy_from_slice(&word.to_be_bytes());
                out[12..16].copy_from_slice(&dlen.to_be_bytes());
                out[CHECK_AT..20].copy_from_slice(&u32::from(sort).to_be_bytes());
                out[20..24].copy_from_slice(&self.sync.to_be_bytes());
                out[24..32].copy_from_slice(&self.seq.to_be_bytes());
            }
            Codec::Xtp36 => {
                let key = if self.key.rtn { key as u32 | RTN36 } else { key as u32 };
                // There is no multicast in xtp36.
                let options = options.without(Options::MULTI);
                let word = u32::from(options.bits()) << 16 | u32::from(ptype);
                let words = [word, key, sort, self.sync, self.seq as u32, 0, dlen, self.dseq, 0];
                for (place, word) in out.chunks_exact_mut(4).zip(words) {
                    place.copy_from_slice(&word.to_be_bytes());
                }
                let check = cxor(&out[..HCHECK_AT]);
                out[HCHECK_AT..HEADER36_BYTES].copy_from_slice(&check.to_be_bytes());
            }
        }
        codec.header_bytes()
    }
}

// The least that can be an address of IPv4 and a traffic specifier is more than what a header lets pass unread.
const _: () = assert!(MIN_PART_BYTES < ADDRESS4_BYTES && MIN_PART_BYTES < TRAFFIC_BYTES);
