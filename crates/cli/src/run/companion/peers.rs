//! What is known of other hosts: how far away they are, and which do not speak QMP.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long it is remembered that an address does not answer.
const MEMORY: Duration = Duration::from_secs(60);
/// What is waited for an answer at least, and at most.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(1);
/// What is waited for one of whom nothing is known.
const UNKNOWN: Duration = Duration::from_millis(150);
/// A name has addresses of both families, which are tried one after the other, and all of it is to take 200 ms: where the port
/// was silent in the one family so lately, this is waited for it in the other.
const LATELY: Duration = Duration::from_millis(250);
const OTHER_FAMILY: Duration = Duration::from_millis(20);
/// Addresses that are remembered.
const MOST: usize = 4096;

#[derive(Clone, Copy, Debug)]
enum Known {
    Silent {
        until: Instant,
    },
    /// `late`: since when it has not answered, once. Where many connections begin at once, that happens to who is there.
    Speaks {
        round_trip: Duration,
        late: Option<Instant>,
    },
}

#[derive(Debug, Default)]
pub(super) struct Peers {
    known: Mutex<BTreeMap<SocketAddr, Known>>,
    /// The last that was waited for in vain, and until when.
    timed_out: Mutex<Option<(SocketAddr, Instant)>>,
}

impl Peers {
    fn known(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long an answer is waited for; `None` if there will be none.
    pub(super) fn patience(&self, peer: SocketAddr) -> Option<Duration> {
        match self.known().get(&peer) {
            Some(Known::Silent { until }) if *until > Instant::now() => None,
            Some(Known::Speaks { round_trip, .. }) => Some((*round_trip * 2).clamp(SHORTEST, LONGEST)),
            _ if self.was_other_family_silent(peer) => Some(OTHER_FAMILY),
            _ => Some(UNKNOWN),
        }
    }

    fn was_other_family_silent(&self, peer: SocketAddr) -> bool {
        let timed_out = self.timed_out.lock().unwrap_or_else(PoisonError::into_inner);
        timed_out.is_some_and(|(other, at)| {
            other.port() == peer.port() && other.is_ipv4() != peer.is_ipv4() && at.elapsed() < LATELY
        })
    }

    /// It answered, after so long.
    pub(super) fn speaks(&self, peer: SocketAddr, round_trip: Duration) {
        self.note(peer, Known::Speaks { round_trip, late: None });
    }

    /// It did not, for as long as was waited since `begun`, or (`refused`) because nobody is there.
    pub(super) fn is_silent(&self, peer: SocketAddr, refused: bool, begun: Instant) {
        if !refused {
            *self.timed_out.lock().unwrap_or_else(PoisonError::into_inner) = Some((peer, Instant::now()));
        }
        let known = match self.known().get(&peer) {
            Some(&Known::Speaks { round_trip, late }) if !refused && late.is_none_or(|late| begun <= late) => {
                Known::Speaks { round_trip, late: late.or_else(|| Some(Instant::now())) }
            }
            _ => Known::Silent { until: Instant::now() + MEMORY },
        };
        self.note(peer, known);
    }

    fn note(&self, peer: SocketAddr, known: Known) {
        let mut all = self.known();
        if all.len() >= MOST {
            all.pop_first();
        }
        all.insert(peer, known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learnt_decides_how_long_is_waited() {
        let peers = Peers::default();
        let peer = |port| SocketAddr::from(([192, 0, 2, 1], port));
        assert_eq!(peers.patience(peer(1)), Some(UNKNOWN));
        peers.is_silent(peer(1), true, Instant::now());
        assert_eq!(peers.patience(peer(1)), None);
        assert_eq!(peers.patience(peer(2)), Some(UNKNOWN), "another port may have another program");
        for (round_trip, patience) in [(1, SHORTEST), (200, Duration::from_millis(400)), (5000, LONGEST)] {
            peers.speaks(peer(1), Duration::from_millis(round_trip));
            assert_eq!(peers.patience(peer(1)), Some(patience));
        }
        for port in 0..=u16::MAX {
            peers.is_silent(peer(port), true, Instant::now());
        }
        assert!(peers.known().len() <= MOST);
    }

    #[test]
    fn who_has_spoken_and_is_late_once_is_not_silent() {
        let peers = Peers::default();
        let peer = SocketAddr::from(([192, 0, 2, 1], 80));
        let begun = Instant::now();
        peers.speaks(peer, Duration::from_millis(1));
        // A program that opens many connections at once waits for all of them in vain.
        (0..9).for_each(|_| peers.is_silent(peer, false, begun));
        assert_eq!(peers.patience(peer), Some(SHORTEST));
        peers.speaks(peer, Duration::from_millis(1));
        peers.is_silent(peer, false, Instant::now());
        assert_eq!(peers.patience(peer), Some(SHORTEST), "it has spoken since");
        peers.is_silent(peer, false, Instant::now());
        assert_eq!(peers.patience(peer), None, "nor the next time");
        peers.speaks(peer, Duration::from_millis(1));
        peers.is_silent(peer, true, Instant::now());
        assert_eq!(peers.patience(peer), None, "it has refused");
    }

    #[test]
    fn both_addresses_of_a_name_are_done_with_in_200_ms() {
        let peers = Peers::default();
        let [v4, v6] = ["192.0.2.1:80", "[2001:db8::1]:80"].map(|text| text.parse().expect("an address"));
        peers.is_silent(v6, true, Instant::now());
        assert_eq!(peers.patience(v4), Some(UNKNOWN), "the refusal took no time");
        peers.is_silent(v6, false, Instant::now());
        let patience = peers.patience(v4).expect("it is not known");
        assert!(UNKNOWN + patience < Duration::from_millis(200), "{patience:?}");
        assert_eq!(peers.patience(SocketAddr::new(v4.ip(), 81)), Some(UNKNOWN), "another port");
        assert_eq!(
            peers.patience("[2001:db8::2]:80".parse().expect("an address")),
            Some(UNKNOWN),
            "of the same family"
        );
    }
}
