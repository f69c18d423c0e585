//! Numbers that nobody can guess.

use core::hash::Hasher;
use siphasher::sip::SipHasher24;

/// Numbers that peers cannot foresee, however many of them they have seen: a keyed hash (SipHash) of a counter.
///
/// ```
/// use pinnace_core::Secrets;
/// let (mut a, mut b) = (Secrets::new(7), Secrets::new(7));
/// let first = a.draw();
/// assert_eq!(first, b.draw(), "the seed decides");
/// assert_ne!(first, a.draw());
/// ```
#[derive(Clone, Debug)]
pub struct Secrets {
    seed: u64,
    drawn: u64,
}

impl Secrets {
    /// Those of a seed, which nobody else may know.
    pub const fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// The next one.
    pub fn draw(&mut self) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.seed, !self.seed);
        hasher.write_u64(self.drawn);
        self.drawn += 1;
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_those_of_the_seed() {
        let [a, b, c] = [7, 7, 8].map(|seed| {
            let mut secrets = Secrets::new(seed);
            [secrets.draw(), secrets.draw()]
        });
        assert_eq!(a, b);
        assert!(a != c && a[0] != a[1]);
    }
}
