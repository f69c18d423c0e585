//! The numbers of one direction (specs/a1.md, 1.1, Numbers).
//!
//! Inside the engine a block is named by its place in the direction, from 0, in 64 bits, which never wraps; on the wire by
//! a number of 32 bits that begins anywhere and does.

/// How the blocks of a direction are numbered on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    start: u32,
}

impl Numbers {
    /// A direction whose first block has the number `start`.
    pub(crate) fn new(start: u32) -> Self {
        Self { start }
    }

    /// The number of the block at `place`.
    pub(crate) fn wire(self, place: u64) -> u32 {
        self.start.wrapping_add(place as u32)
    }

    /// The place that `number` stands for: the one that is closest to `near`. `None` if it lies before the direction.
    pub(crate) fn place(self, number: u32, near: u64) -> Option<u64> {
        let ahead = number.wrapping_sub(self.wire(near)) as i32;
        near.checked_add_signed(ahead.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_survive_the_wrap_of_their_numbers() {
        let numbers = Numbers::new(u32::MAX - 3);
        assert_eq!(numbers.wire(4), 0);
        assert_eq!(numbers.place(0, 2), Some(4));
        assert_eq!(numbers.place(u32::MAX - 4, 0), None, "before the first");
        let far = 9 << 32 | 7;
        assert_eq!(numbers.place(numbers.wire(far), far - 1000), Some(far));
    }
}
