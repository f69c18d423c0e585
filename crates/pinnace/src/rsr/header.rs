//! The header of a remote service request (specs/vrp.md, section 8), big-endian:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | magic, `"RSR1"` |
//! | 4 | 2 | handler id |
//! | 6 | 2 | flags |
//! | 8 | 4 | header length: bytes of the header, all of them |
//! | 12 | 8 | the endpoint's id, if the flag ENDPOINT is set |
//!
//! The specification leaves the flags and the bytes from 12 on to us. Bits 0 to 7 change how the request is to be read: a
//! receiver drops a request with one that it does not know. Bits 8 to 15 may be ignored. Header bytes behind those that
//! are known are skipped.
//!
//! | bit | name | meaning |
//! |---|---|---|
//! | 0 | LITTLE_ENDIAN | the payload's numbers are little-endian; otherwise they are big-endian |
//! | 1 | ENDPOINT | bytes 12 to 19 are the id of the endpoint that is meant |

use super::ByteOrder;

/// Bytes of the header as the specification has it.
const KNOWN_BYTES: usize = 12;

/// Bytes of the header that we write: always the same, so that it can be put before a payload that is there already.
pub(crate) const HEADER_BYTES: usize = 20;

const MAGIC: [u8; 4] = *b"RSR1";
const LITTLE_ENDIAN: u16 = 1;
const ENDPOINT: u16 = 2;
/// Flags that must be understood, and those of them that are.
const CRITICAL_FLAGS: u16 = 0x00FF;
const KNOWN_FLAGS: u16 = LITTLE_ENDIAN | ENDPOINT;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) handler: u16,
    pub(crate) order: ByteOrder,
    /// The endpoint that is meant; `None` is whichever listens.
    pub(crate) endpoint: Option<u64>,
}

/// Why a header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It is none, or not whole.
    Malformed,
    /// It asks for something that is not known here.
    Unsupported,
}

impl Header {
    pub(crate) fn write(&self, bytes: &mut [u8; HEADER_BYTES]) {
        let mut flags = 0;
        if self.order == ByteOrder::Little {
            flags |= LITTLE_ENDIAN;
        }
        if self.endpoint.is_some() {
            flags |= ENDPOINT;
        }
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&self.handler.to_be_bytes());
        bytes[6..8].copy_from_slice(&flags.to_be_bytes());
        bytes[8..12].copy_from_slice(&(HEADER_BYTES as u32).to_be_bytes());
        bytes[12..].copy_from_slice(&self.endpoint.unwrap_or(0).to_be_bytes());
    }

    /// The header that a frame begins with, and its length.
    pub(crate) fn parse(frame: &[u8]) -> Result<(Self, usize), Unusable> {
        let Some((known, rest)) = frame.split_first_chunk::<KNOWN_BYTES>() else { return Err(Unusable::Malformed) };
        let [m0, m1, m2, m3, h0, h1, f0, f1, l0, l1, l2, l3] = *known;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(Unusable::Malformed);
        }
        let flags = u16::from_be_bytes([f0, f1]);
        let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        let extension =
            length.checked_sub(KNOWN_BYTES).and_then(|bytes| rest.get(..bytes)).ok_or(Unusable::Malformed)?;
        if flags & CRITICAL_FLAGS & !KNOWN_FLAGS != 0 {
            return Err(Unusable::Unsupported);
        }
        let endpoint = if flags & ENDPOINT != 0 {
            Some(u64::from_be_bytes(*extension.first_chunk().ok_or(Unusable::Malformed)?))
        } else {
            None
        };
        let order = if flags & LITTLE_ENDIAN != 0 { ByteOrder::Little } else { ByteOrder::Big };
        Ok((Self { handler: u16::from_be_bytes([h0, h1]), order, endpoint }, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_these() {
        let mut bytes = [0xEE; HEADER_BYTES];
        let header = Header { handler: 0x1234, order: ByteOrder::Little, endpoint: Some(0x0102_0304_0506_0708) };
        header.write(&mut bytes);
        assert_eq!(bytes, *b"RSR1\x12\x34\x00\x03\x00\x00\x00\x14\x01\x02\x03\x04\x05\x06\x07\x08");
        assert_eq!(Header::parse(&bytes), Ok((header, 20)));
        let header = Header { handler: 7, order: ByteOrder::Big, endpoint: None };
        header.write(&mut bytes);
        assert_eq!(bytes, *b"RSR1\x00\x07\x00\x00\x00\x00\x00\x14\0\0\0\0\0\0\0\0");
        assert_eq!(Header::parse(&bytes), Ok((header, 20)));
        for short in 0..bytes.len() {
            assert_eq!(Header::parse(&bytes[..short]), Err(Unusable::Malformed));
        }
    }

    #[test]
    fn the_plain_header_will_do_and_what_is_behind_it_is_skipped() {
        let header = Header { handler: 9, order: ByteOrder::Big, endpoint: None };
        assert_eq!(Header::parse(b"RSR1\x00\x09\x00\x00\x00\x00\x00\x0Cpayload"), Ok((header, 12)));
        assert_eq!(Header::parse(b"RSR1\x00\x09\xFF\x00\x00\x00\x00\x0E??payload"), Ok((header, 14)));
    }

    #[test]
    fn what_is_no_header_is_none() {
        for bad in [
            &b"RSR2\x00\x09\x00\x00\x00\x00\x00\x0C"[..],
            b"RSR1\x00\x09\x00\x00\x00\x00\x00\x0B",
            b"RSR1\x00\x09\x00\x00\x00\x00\x00\x0D",
            b"RSR1\x00\x09\x00\x00\xFF\xFF\xFF\xFF",
            b"RSR1\x00\x09\x00\x02\x00\x00\x00\x13\0\0\0\0\0\0\0",
            b"",
        ] {
            assert_eq!(Header::parse(bad), Err(Unusable::Malformed), "{bad:?}");
        }
        assert_eq!(Header::parse(b"RSR1\x00\x09\x00\x04\x00\x00\x00\x0C"), Err(Unusable::Unsupported));
    }
}
