//! Serial numbers: 32-bit sequence numbers that wrap.
//!
//! All comparison is modular (specs/README.md): `a < b` iff `0 < (b - a) mod 2^32 < 2^31`. `Seq32` is deliberately not
//! `Ord`: the relation is not transitive over the whole circle, so nothing may sort or key a tree by it.

/// A 32-bit sequence number, compared by serial arithmetic.
///
/// ```
/// use pinnace_core::Seq32;
/// let last = Seq32::new(u32::MAX);
/// assert!(last.before(last + 1));
/// assert_eq!((last + 1) - last, 1);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq32(u32);

impl Seq32 {
    /// The number `value`.
    pub const fn new(value: u32) -> Self {
        Self(value)
    }

    /// The number as it travels.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Serial `<`: `other` is 1 to 2^31 - 1 steps ahead.
    pub const fn before(self, other: Self) -> bool {
        let ahead = other.0.wrapping_sub(self.0);
        ahead != 0 && ahead < 1 << 31
    }

    /// Serial `<=`.
    pub const fn at_or_before(self, other: Self) -> bool {
        other.0.wrapping_sub(self.0) < 1 << 31
    }

    /// Steps forward from `earlier` to this number, modulo 2^32.
    pub const fn steps_from(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Steps between the two in whichever direction is shorter.
    pub const fn distance(self, other: Self) -> u32 {
        (self.0.wrapping_sub(other.0) as i32).unsigned_abs()
    }
}

impl core::ops::Add<u32> for Seq32 {
    type Output = Self;
    fn add(self, rhs: u32) -> Self {
        Self(self.0.wrapping_add(rhs))
    }
}

impl core::ops::AddAssign<u32> for Seq32 {
    fn add_assign(&mut self, rhs: u32) {
        *self = *self + rhs;
    }
}

impl core::ops::Sub<u32> for Seq32 {
    type Output = Self;
    fn sub(self, rhs: u32) -> Self {
        Self(self.0.wrapping_sub(rhs))
    }
}

impl core::ops::Sub for Seq32 {
    type Output = u32;
    fn sub(self, rhs: Self) -> u32 {
        self.steps_from(rhs)
    }
}

impl core::fmt::Debug for Seq32 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "#{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_is_modular_and_excludes_equality() {
        let (a, b) = (Seq32::new(u32::MAX - 1), Seq32::new(3));
        assert!(a.before(b) && !b.before(a) && !a.before(a));
        assert!(a.at_or_before(a) && a.at_or_before(b));
        assert_eq!(b - a, 5);
        assert_eq!(a.distance(b), 5);
        assert_eq!(b.distance(a), 5);
    }

    #[test]
    fn numbers_half_a_circle_apart_are_in_no_order() {
        let (a, b) = (Seq32::new(0), Seq32::new(1 << 31));
        assert!(!a.before(b) && !b.before(a));
    }
}
