//! The numbers of one stream (specs/xtp.md, 3.1).
//!
//! Inside the engine a byte is named by its *offset*, 64 bits from the start of the stream, which never wrap; on the wire
//! by a number of 64 or 32 bits that does.
//= X-10

use pinnace_wire::xtp::Codec;

/// How offsets of a stream look on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    codec: Codec,
    start: u64,
}

impl Space {
    /// A stream whose first byte has the number `start`.
    pub(crate) fn new(codec: Codec, start: u64) -> Self {
        Self { codec, start: cut(codec, start) }
    }

    pub(crate) fn codec(self) -> Codec {
        self.codec
    }

    /// The number of the first byte.
    pub(crate) fn start(self) -> u64 {
        self.start
    }

    /// The number of the byte at `offset`.
    pub(crate) fn number(self, offset: u64) -> u64 {
        cut(self.codec, self.start.wrapping_add(offset))
    }

    /// The offset that `number` stands for: the one that is closest to the offset `near`. `None` if it lies before the
    /// stream.
    pub(crate) fn offset(self, number: u64, near: u64) -> Option<u64> {
        let ahead = match self.codec {
            Codec::Xtp40 => number.wrapping_sub(self.number(near)) as i64,
            Codec::Xtp36 => i64::from((number as u32).wrapping_sub(self.number(near) as u32) as i32),
        };
        near.checked_add_signed(ahead)
    }
}

fn cut(codec: Codec, number: u64) -> u64 {
    match codec {
        Codec::Xtp40 => number,
        Codec::Xtp36 => number & 0xffff_ffff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= X-10 test
    #[test]
    fn offsets_survive_the_wrap_of_their_numbers() {
        for (codec, start) in [(Codec::Xtp36, 0xffff_fff0), (Codec::Xtp40, u64::MAX - 15)] {
            let space = Space::new(codec, start);
            assert_eq!(space.number(16), 0);
            assert_eq!(space.offset(0, 10), Some(16));
            assert_eq!(space.offset(space.number(3), 20), Some(3));
            assert_eq!(space.offset(space.start().wrapping_sub(1), 0), None, "before the stream");
        }
        let long = Space::new(Codec::Xtp36, 7);
        assert_eq!(long.offset(long.number(9 << 32 | 5), 9 << 32), Some(9 << 32 | 5));
    }
}
