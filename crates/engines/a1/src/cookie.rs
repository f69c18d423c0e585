//! Cookies: what a stranger repeats to show that it receives at its address, before anything is kept of it
//! (specs/a1.md, 1.1, Set-up).
//!
//! A cookie is the time at which it was made, and a keyed hash (SipHash-2-4, 128 bits) over that, the address and the
//! identifier. Nothing is remembered.

use core::hash::{Hash, Hasher};
use core::num::NonZeroU32;
use core::time::Duration;
use pinnace_core::{Address, Time};
use siphasher::sip128::{Hasher128, SipHasher24};

/// Bytes of a cookie.
pub(crate) const COOKIE_BYTES: usize = 24;
/// How long a cookie is good.
const LIFE: Duration = Duration::from_secs(60);

/// What cookies are made with.
#[derive(Debug)]
pub(crate) struct Baker {
    key: (u64, u64),
}

impl Baker {
    pub(crate) fn new(key: (u64, u64)) -> Self {
        Self { key }
    }

    /// A cookie for whoever sends from `source`, and calls itself `identifier`.
    pub(crate) fn bake(&self, now: Time, source: Address, identifier: NonZeroU32) -> [u8; COOKIE_BYTES] {
        self.bake_at(now.as_nanos(), source, identifier)
    }

    fn bake_at(&self, at: u64, source: Address, identifier: NonZeroU32) -> [u8; COOKIE_BYTES] {
        let mut hasher = SipHasher24::new_with_keys(self.key.0, self.key.1);
        (at, source, identifier).hash(&mut hasher);
        hasher.write_u8(0);
        let mut cookie = [0; COOKIE_BYTES];
        let (time, tag) = cookie.split_at_mut(8);
        time.copy_from_slice(&at.to_be_bytes());
        tag.copy_from_slice(&hasher.finish128().as_bytes());
        cookie
    }

    /// Whether `cookie` is one that we gave to `source` for `identifier`, and not too old.
    pub(crate) fn is_ours(&self, now: Time, source: Address, identifier: NonZeroU32, cookie: &[u8]) -> bool {
        let Some((time, _)) = cookie.split_first_chunk::<8>() else { return false };
        let at = u64::from_be_bytes(*time);
        let baked = self.bake_at(at, source, identifier);
        // Every byte is compared, so that time does not tell how many were right.
        let differs = baked.iter().zip(cookie).fold(0, |sum, (a, b)| sum | (a ^ b));
        let age = now.as_nanos().checked_sub(at);
        cookie.len() == COOKIE_BYTES && differs == 0 && age.is_some_and(|age| age <= LIFE.as_nanos() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_good_for_one_address_one_identifier_and_a_minute() {
        let baker = Baker::new((1, 2));
        let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
        let (me, other) = (Address::Node(1), Address::Node(2));
        let [seven, eight] = [7, 8].map(|number| NonZeroU32::new(number).expect("not 0"));
        let cookie = baker.bake(at(100), me, seven);
        assert!(baker.is_ours(at(100), me, seven, &cookie) && baker.is_ours(at(160), me, seven, &cookie));
        assert!(!baker.is_ours(at(161), me, seven, &cookie), "too old");
        assert!(!baker.is_ours(at(99), me, seven, &cookie), "from the future");
        assert!(!baker.is_ours(at(100), other, seven, &cookie));
        assert!(!baker.is_ours(at(100), me, eight, &cookie));
        assert!(!Baker::new((1, 3)).is_ours(at(100), me, seven, &cookie));
        assert!(!baker.is_ours(at(100), me, seven, &cookie[..23]));
        assert!(!baker.is_ours(at(100), me, seven, &[&cookie[..], &[0]].concat()));
        for at_byte in 0..COOKIE_BYTES {
            let mut forged = cookie;
            forged[at_byte] ^= 1;
            assert!(!baker.is_ours(at(100), me, seven, &forged), "byte {at_byte}");
        }
    }
}
