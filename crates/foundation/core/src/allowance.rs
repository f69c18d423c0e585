//! What may be sent to an address at which nobody has shown yet that it receives (specs/README.md).
//!
//! Anybody can write anybody's address into a datagram. Always true: what has left is at most [`Allowance::TIMES`] what has
//! come, each datagram counted with its [`Allowance::LOWER_HEADERS`], if everything that leaves is [spent](Allowance::spend)
//! and nothing leaves that the allowance does not [cover](Allowance::covers). What proves an address is the engine's to say.

/// The bytes that may still leave for an unproven address.
///
/// ```
/// use pinnace_core::Allowance;
///
/// let mut allowance = Allowance::default();
/// assert!(!allowance.covers(1, 0));
/// allowance.earn(1, 100);
/// assert_eq!(allowance.largest(), 3 * (100 + 28) - 28);
/// allowance.spend(2, 200);
/// assert_eq!(allowance.largest(), 3 * (100 + 28) - (200 + 2 * 28) - 28);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    bytes: u64,
}

impl Allowance {
    /// So many bytes may leave for each that came.
    pub const TIMES: u64 = 3;
    /// Bytes of IPv4 and UDP, as every datagram is counted with them.
    pub const LOWER_HEADERS: u64 = 28;

    /// What so many datagrams count that hold `bytes` bytes together.
    #[must_use]
    pub const fn cost(datagrams: usize, bytes: usize) -> u64 {
        (datagrams as u64).saturating_mul(Self::LOWER_HEADERS).saturating_add(bytes as u64)
    }

    /// So many datagrams have come from the address, with `bytes` bytes together.
    pub const fn earn(&mut self, datagrams: usize, bytes: usize) {
        let earned = Self::cost(datagrams, bytes).saturating_mul(Self::TIMES);
        self.bytes = self.bytes.saturating_add(earned);
    }

    /// So many datagrams leave for the address, with `bytes` bytes together. What exceeds the allowance is not owed.
    pub const fn spend(&mut self, datagrams: usize, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(Self::cost(datagrams, bytes));
    }

    /// Whether so many datagrams may leave, with `bytes` bytes together.
    #[must_use]
    pub const fn covers(&self, datagrams: usize, bytes: usize) -> bool {
        Self::cost(datagrams, bytes) <= self.bytes
    }

    /// Whether they may leave; if so, they are [spent](Self::spend).
    #[must_use]
    pub const fn try_spend(&mut self, datagrams: usize, bytes: usize) -> bool {
        let covers = self.covers(datagrams, bytes);
        if covers {
            self.spend(datagrams, bytes);
        }
        covers
    }

    /// How many datagrams may leave that hold `bytes` bytes each.
    #[must_use]
    pub const fn count(&self, bytes: usize) -> u64 {
        self.bytes / Self::cost(1, bytes)
    }

    /// Bytes of the largest datagram that may leave. Zero also when none may: see [`covers`](Self::covers).
    #[must_use]
    pub const fn largest(&self) -> usize {
        let bytes = self.bytes.saturating_sub(Self::LOWER_HEADERS);
        if bytes > usize::MAX as u64 { usize::MAX } else { bytes as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_datagram_counts_with_its_headers_even_if_it_is_empty() {
        let mut allowance = Allowance::default();
        assert!(!allowance.try_spend(1, 0));
        allowance.earn(1, 0);
        assert_eq!(allowance.largest(), 2 * 28);
        assert!(allowance.covers(3, 0) && !allowance.covers(3, 1) && !allowance.covers(4, 0));
        assert!(allowance.try_spend(3, 0));
        assert_eq!(allowance, Allowance::default());
    }

    #[test]
    fn the_largest_numbers_do_not_wrap() {
        let mut allowance = Allowance::default();
        for _ in 0..2 {
            allowance.earn(usize::MAX, usize::MAX);
        }
        assert!(allowance.covers(usize::MAX, usize::MAX));
        allowance.spend(usize::MAX, usize::MAX);
        assert_eq!(allowance, Allowance::default());
    }

    proptest! {
        #[test]
        fn never_more_than_three_times_leaves(steps in proptest::collection::vec((any::<bool>(), 1..20_usize, 0..3000_usize), 0..200)) {
            let (mut allowance, mut came, mut left) = (Allowance::default(), 0, 0);
            for (comes, datagrams, bytes) in steps {
                if comes {
                    allowance.earn(datagrams, bytes);
                    came += Allowance::cost(datagrams, bytes);
                } else if allowance.try_spend(datagrams, bytes) {
                    left += Allowance::cost(datagrams, bytes);
                } else {
                    prop_assert!(left + Allowance::cost(datagrams, bytes) > 3 * came);
                }
                prop_assert!(left <= 3 * came);
                prop_assert_eq!(allowance.count(bytes), (3 * came - left) / (bytes as u64 + 28));
                let largest = allowance.largest();
                prop_assert!(!allowance.covers(1, largest + 1));
                prop_assert!(largest == 0 || allowance.covers(1, largest));
            }
        }
    }
}
