//! A small seedable generator: the randomness of simulations, jitter and starting numbers.
//!
//! xoshiro256** (Blackman and Vigna), its state filled from the seed by SplitMix64. Always true: the same seed gives
//! the same numbers on every machine, and no seed is bad.
//!
//! **Not cryptographic**: whoever sees some of its output can compute the rest. What must not be guessed by someone
//! who sees our packets (keys, cookies) has to be fed with fresh bits of the operating system by the driver; a driver
//! also takes the seed from there. A simulation passes a fixed one.

/// A deterministic generator of pseudo-random numbers. Not for secrets.
///
/// ```
/// use pinnace_core::Random;
/// let (mut a, mut b) = (Random::from_seed(7), Random::from_seed(7));
/// assert_eq!(a.next_u64(), b.next_u64());
/// assert!(a.below(6) < 6);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Random {
    state: [u64; 4],
}

/// One step of SplitMix64: spreads `value` over all 64 bits. A bijection, good for making seeds differ.
pub const fn mix64(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Random {
    /// A generator whose whole future is decided by `seed`.
    pub const fn from_seed(seed: u64) -> Self {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        // Four outputs of SplitMix64 in a row: never all zero, which is the one state xoshiro cannot leave.
        Self {
            state: [
                mix64(seed),
                mix64(seed.wrapping_add(STEP)),
                mix64(seed.wrapping_add(STEP.wrapping_mul(2))),
                mix64(seed.wrapping_add(STEP.wrapping_mul(3))),
            ],
        }
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = self.state;
        let result = s1.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let (s2, s3) = (s2 ^ s0, s3 ^ s1);
        self.state = [s0 ^ s3, s1 ^ s2, s2 ^ (s1 << 17), s3.rotate_left(45)];
        result
    }

    /// The next 32 bits.
    pub const fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// A number in `0..bound`, each equally likely; 0 if `bound` is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        // Lemire's multiplication; what would make some results likelier than others is drawn again.
        let unfair = bound.wrapping_neg() % bound;
        loop {
            let product = self.next_u64() as u128 * bound as u128;
            if product as u64 >= unfair {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number in `[0, 1)`, a multiple of 2^-53.
    pub const fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with probability `probability`: never for 0 and below, always for 1 and above.
    pub const fn chance(&mut self, probability: f64) -> bool {
        self.unit_f64() < probability
    }

    /// A generator with a future of its own; this one moves on by one step.
    pub const fn fork(&mut self) -> Self {
        Self::from_seed(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_published_algorithms() {
        // SplitMix64 from seed 0, and xoshiro256** from the state 1, 2, 3, 4: the authors' reference code.
        assert_eq!(mix64(0), 0xe220_a839_7b1d_cdaf);
        let mut random = Random { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..5).map(|_| random.next_u64()).collect();
        assert_eq!(first, [11520, 0, 1_509_978_240, 1_215_971_899_390_074_240, 1_216_172_134_540_287_360]);
    }

    #[test]
    fn below_is_fair_and_in_range() {
        let mut random = Random::from_seed(1);
        let mut hits = [0_u32; 6];
        for _ in 0..60_000 {
            hits[random.below(6) as usize] += 1;
        }
        assert!(hits.iter().all(|hits| (9_500..10_500).contains(hits)), "{hits:?}");
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
        assert!((0..1000).all(|_| random.below((1 << 63) + 1) <= 1 << 63));
    }

    #[test]
    fn chance_keeps_its_odds_and_its_ends() {
        let mut random = Random::from_seed(2);
        let hits = (0..100_000).filter(|_| random.chance(0.15)).count();
        assert!((14_500..15_500).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| !random.chance(0.0) && random.chance(1.0) && !random.chance(-1.0)));
        assert!(!random.chance(f64::NAN));
    }

    #[test]
    fn forks_differ_from_their_parent_and_each_other() {
        let mut parent = Random::from_seed(3);
        let (mut a, mut b) = (parent.fork(), parent.fork());
        let numbers = [a.next_u64(), b.next_u64(), parent.next_u64()];
        assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2]);
    }
}
