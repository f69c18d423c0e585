//! Losses that may be none: what was overtaken is taken for lost, and then arrives after all.
//!
//! When an engine takes a transmission for lost is fixed by its protocol. What congestion control is told of it is decided
//! here: at once on a path that keeps the order; and once something has arrived that had been taken for lost, not before as
//! much time has passed as that took, at most a round trip and a quarter (like RACK's reordering window, RFC 8985, 6.2). What arrives
//! meanwhile is never told; for what arrives later, the controller is told that it was for nothing
//! ([`Congestion::on_spurious_loss`](super::Congestion::on_spurious_loss), as RFC 4015 does).
//!
//! Always true: losses are told in the order in which they were noticed, each byte once at most; no more than
//! [`MOST_DOUBTED`] of them are remembered; without reordering nothing waits.

use core::time::Duration;
use std::collections::VecDeque;

use super::{LossSample, SpuriousLoss};
use crate::{Time, Windowed};

/// Losses that are doubted at a time; more of them count as noticed together.
const MOST_DOUBTED: usize = 1024;
/// A path that has brought nothing late for so many round trips keeps the order again.
const ROUND_TRIPS: u32 = 64;
/// For how long the shortest round trip is remembered.
const SHORTEST_WINDOW: Duration = Duration::from_secs(10);

/// What was noticed at one time and not told yet.
#[derive(Clone, Copy, Debug)]
struct Doubted {
    noticed_at: Time,
    sent_at: Time,
    bytes: u64,
}

/// What a sender knows of the order that its path keeps, and the losses that it doubts because of that.
///
/// ```
/// use core::time::Duration;
/// use pinnace_core::{Reordering, Time};
/// let at = |millis| Time::ZERO + Duration::from_millis(millis);
/// let mut order = Reordering::default();
/// order.on_round_trip(at(40), Duration::from_millis(40));
///
/// // A path that keeps the order: what seems lost, is.
/// order.on_noticed(at(50), 1_400, at(10));
/// assert_eq!(order.poll(at(50), 0).map(|loss| loss.lost_bytes), Some(1_400));
///
/// // That one was only late, by 20 ms, and has been told; the next is waited for, and comes.
/// assert!(order.on_late(at(70), at(50), 1_400).is_some());
/// order.on_noticed(at(80), 1_400, at(40));
/// assert_eq!(order.poll(at(80), 0), None);
/// assert_eq!(order.on_late(at(100), at(80), 1_400), None);
/// assert_eq!(order.poll(at(200), 0), None);
/// ```
#[derive(Clone, Debug)]
pub struct Reordering {
    /// For how long a loss is doubted, but for the bound by the round trip; 0: the path keeps the order.
    window: Duration,
    /// When something arrived last that had been taken for lost.
    late_at: Time,
    /// Smoothed.
    round_trip: Option<Duration>,
    shortest: Windowed<Duration>,
    doubted: VecDeque<Doubted>,
}

impl Default for Reordering {
    fn default() -> Self {
        Self {
            window: Duration::ZERO,
            late_at: Time::ZERO,
            round_trip: None,
            shortest: Windowed::smallest(SHORTEST_WINDOW.as_nanos() as u64),
            doubted: VecDeque::new(),
        }
    }
}

impl Reordering {
    /// A round trip was measured, of something that was sent once and not taken for lost.
    pub fn on_round_trip(&mut self, now: Time, sample: Duration) {
        self.round_trip = Some(self.round_trip.map_or(sample, |old| (old * 7 + sample) / 8));
        self.shortest.insert(now.as_nanos(), sample);
    }

    /// `bytes` seem to be lost, the newest of which left at `sent_at`.
    pub fn on_noticed(&mut self, now: Time, bytes: u64, sent_at: Time) {
        let is_full = self.doubted.len() >= MOST_DOUBTED;
        match self.doubted.back_mut() {
            Some(last) if last.noticed_at == now || is_full => {
                last.bytes = last.bytes.saturating_add(bytes);
                last.sent_at = last.sent_at.max(sent_at);
            }
            _ => self.doubted.push_back(Doubted { noticed_at: now, sent_at, bytes }),
        }
    }

    /// What has to be told now of what seemed lost; as long as there is something. `in_flight_after`: as in the answer.
    pub fn poll(&mut self, now: Time, in_flight_after: u64) -> Option<LossSample> {
        let patience = self.patience(now);
        while let Some(&Doubted { noticed_at, sent_at, bytes }) = self.doubted.front()
            && noticed_at + patience <= now
        {
            self.doubted.pop_front();
            if bytes > 0 {
                return Some(LossSample { now, noticed_at, lost_bytes: bytes, sent_at, in_flight_after });
            }
        }
        None
    }

    /// `bytes` have arrived that seemed to be lost since `noticed_at`. What of that has been told the controller already is
    /// to be taken back.
    pub fn on_late(&mut self, now: Time, noticed_at: Time, bytes: u64) -> Option<SpuriousLoss> {
        self.on_waited_for(now, noticed_at);
        let index = self.doubted.partition_point(|doubted| doubted.noticed_at <= noticed_at);
        let untold = match index.checked_sub(1).and_then(|index| self.doubted.get_mut(index)) {
            Some(doubted) => {
                let untold = bytes.min(doubted.bytes);
                doubted.bytes -= untold;
                untold
            }
            None => 0,
        };
        (bytes > untold).then_some(SpuriousLoss { now, noticed_at, bytes: bytes - untold })
    }

    /// Something has arrived that seemed to be lost since `noticed_at`, of which nobody has been told.
    pub fn on_waited_for(&mut self, now: Time, noticed_at: Time) {
        self.age(now);
        let late = now.since(noticed_at);
        // A quarter more, because no two are alike.
        self.window = self.window.max(late + late / 4);
        self.late_at = now;
    }

    /// No answer to what left after that can be here at `now`: what is acknowledged of it had arrived before it was repeated.
    pub fn no_answer_since(&self, now: Time) -> Time {
        // An eighth less, because round trips vary. Where none was measured, nobody knows.
        self.shortest.value().map_or(Time::MAX, |shortest| {
            Time::from_nanos(now.as_nanos().saturating_sub((shortest - shortest / 8).as_nanos() as u64))
        })
    }

    /// For how long what seems lost may yet arrive by itself: zero, unless the path is known not to keep the order.
    pub fn patience(&mut self, now: Time) -> Duration {
        self.age(now);
        let round_trip = self.round_trip.unwrap_or_default();
        self.window.min(round_trip + round_trip / 4)
    }

    fn age(&mut self, now: Time) {
        let round_trip = self.round_trip.unwrap_or_default();
        if self.window > Duration::ZERO && now.since(self.late_at) > self.window.max(round_trip) * ROUND_TRIPS {
            self.window = Duration::ZERO;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn of_round_trip(millis: u64) -> Reordering {
        let mut order = Reordering::default();
        order.on_round_trip(at(0), ms(millis));
        order
    }

    #[test]
    fn on_a_path_that_keeps_the_order_losses_are_told_at_once() {
        let mut order = of_round_trip(40);
        for now in 1..2_000 {
            order.on_noticed(at(now), 100, at(now - 1));
            let told = order.poll(at(now), 7).expect("at once");
            let expected = LossSample {
                now: at(now),
                noticed_at: at(now),
                lost_bytes: 100,
                sent_at: at(now - 1),
                in_flight_after: 7,
            };
            assert_eq!(told, expected);
            assert_eq!(order.poll(at(now), 7), None);
        }
    }

    #[test]
    fn what_was_late_once_is_waited_for_up_to_a_round_trip_and_the_patience_ends() {
        let mut order = of_round_trip(40);
        order.on_noticed(at(100), 300, at(60));
        assert!(order.poll(at(100), 0).is_some());
        let late = order.on_late(at(120), at(100), 100);
        assert_eq!(late, Some(SpuriousLoss { now: at(120), noticed_at: at(100), bytes: 100 }));
        assert_eq!(order.patience(at(120)), ms(25), "and a quarter");
        order.on_noticed(at(130), 300, at(90));
        assert_eq!((order.poll(at(154), 0), order.on_late(at(154), at(130), 100)), (None, None));
        assert_eq!(order.poll(at(159), 0), None, "it took longer this time");
        assert_eq!(order.poll(at(160), 0).map(|loss| (loss.lost_bytes, loss.noticed_at)), Some((200, at(130))));
        assert_eq!(order.on_late(at(300), at(130), 200).map(|late| late.bytes), Some(200));
        assert_eq!(order.patience(at(300)), ms(50), "a round trip and a quarter at most");
        order.on_noticed(at(20_000), 100, at(19_000));
        assert!(order.poll(at(20_000), 0).is_some(), "it was long ago");
    }

    #[test]
    fn what_is_doubted_is_bounded_and_told_in_order() {
        let mut order = of_round_trip(10_000);
        order.on_waited_for(at(10_000), at(0));
        let count = 3 * MOST_DOUBTED as u64;
        for step in 0..count {
            order.on_noticed(at(10_000 + step), 1, at(step));
        }
        assert_eq!(order.doubted.len(), MOST_DOUBTED);
        assert_eq!(order.on_late(at(13_100), at(10_000 + count - 1), 2), None, "it counts with those before it");
        let told: Vec<_> = core::iter::from_fn(|| order.poll(at(30_000), 0)).collect();
        assert_eq!(told.iter().map(|loss| loss.lost_bytes).sum::<u64>(), count - 2);
        assert!(told.is_sorted_by_key(|loss| loss.noticed_at));
    }

    #[test]
    fn an_acknowledgement_sooner_than_any_round_trip_is_of_what_left_before() {
        let mut order = Reordering::default();
        assert_eq!(order.no_answer_since(at(10)), Time::MAX, "nobody knows");
        order.on_round_trip(at(50), ms(40));
        order.on_round_trip(at(60), ms(80));
        assert_eq!(order.no_answer_since(at(135)), at(100));
        assert_eq!(order.no_answer_since(at(20)), Time::ZERO);
    }
}
