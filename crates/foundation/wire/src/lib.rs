//! Wire formats of the Pinnace protocols.
//!
//! A module a protocol. Bytes from outside are parsed once, into a type that cannot be wrong; malformed input is an error
//! value, never a panic. Nothing here allocates.
#![forbid(unsafe_code)]
#![no_std]
#![warn(missing_docs)]

pub mod a1;
pub mod checksum;
#[cfg(test)]
#[path = "tests/vectors.rs"]
mod vectors;
pub mod vrp;
pub mod xtp;
pub mod zcrp;

/// The datagram does not parse. It is dropped and counted, never answered, and changes no state (specs/README.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its fixed part, or longer than the format allows.
    Size,
    /// A type or flag that this version does not know.
    Unknown,
    /// A length that does not agree with the datagram's size.
    Length,
    /// Fields that contradict each other.
    Contradiction,
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Size => "the datagram is too short or too long",
            Self::Unknown => "unknown type or flag",
            Self::Length => "a length does not agree with the size of the datagram",
            Self::Contradiction => "fields contradict each other",
        })
    }
}

impl core::error::Error for Malformed {}

/// Reads a big-endian `u16` at `at`. The caller has checked the length.
fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Reads a big-endian `u32` at `at`. The caller has checked the length.
fn be32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(word)
}
