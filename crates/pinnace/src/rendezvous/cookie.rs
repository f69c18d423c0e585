//! Cookies: what a client can only say that has heard what we sent to its address.
//!
//! Always true: nothing is remembered of a client to know its cookie again; one that is older than a minute is none.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Cookies are good for this time, and at most as long again.
const TURN: Duration = Duration::from_secs(30);

/// Makes cookies, and knows its own.
#[derive(Debug)]
pub(super) struct Cookies {
    keys: RandomState,
    begin: Instant,
}

impl Cookies {
    pub(super) fn new() -> Self {
        Self { keys: RandomState::new(), begin: Instant::now() }
    }

    fn turn(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.begin).as_secs() / TURN.as_secs()
    }

    fn of(&self, client: SocketAddr, nonce: u64, turn: u64) -> u64 {
        // 0 means that there is none.
        self.keys.hash_one((client, nonce, turn)).max(1)
    }

    /// The cookie of this client's attempt.
    pub(super) fn make(&self, client: SocketAddr, nonce: u64, now: Instant) -> u64 {
        self.of(client, nonce, self.turn(now))
    }

    /// Whether it is.
    pub(super) fn knows(&self, cookie: u64, client: SocketAddr, nonce: u64, now: Instant) -> bool {
        let turn = self.turn(now);
        [Some(turn), turn.checked_sub(1)].into_iter().flatten().any(|turn| self.of(client, nonce, turn) == cookie)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_good_for_one_client_one_attempt_and_a_minute() {
        let (cookies, now) = (Cookies::new(), Instant::now());
        let [here, there]: [SocketAddr; 2] = ["10.0.0.1:5", "10.0.0.1:6"].map(|it| it.parse().unwrap());
        let cookie = cookies.make(here, 7, now);
        assert!(cookie != 0 && cookies.knows(cookie, here, 7, now));
        assert!(cookies.knows(cookie, here, 7, now + TURN));
        assert!(!cookies.knows(cookie, here, 7, now + 2 * TURN), "too old");
        assert!(!cookies.knows(cookie, there, 7, now) && !cookies.knows(cookie, here, 8, now));
        assert!(!cookies.knows(0, here, 7, now) && !Cookies::new().knows(cookie, here, 7, now));
    }
}
