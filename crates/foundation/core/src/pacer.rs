//! Pacing: a token bucket with an average rate and a burst.
//!
//! Credit is kept in billionths of a byte, so a nanosecond at `r` bytes a second is worth exactly `r` of them: nothing is
//! rounded and the average cannot drift. Always true, while every send waits for [`Pacer::ready_at`]: in any interval
//! of `t` seconds at most `max(burst, largest send) + rate * t` bytes are paid for; and as many leave, where
//! [`Pacer::on_left`] is told of that. (Of who follows a congestion controller the burst is
//! what [`Pacer::follow`] says.)
//!
//! A send larger than the burst counts as one burst: it may go when the bucket is full, and its excess is paid back
//! before the next.
//= A-11
//= X-19

use crate::Time;
use core::num::NonZeroU64;
use core::time::Duration;

const NANOS: i128 = 1_000_000_000;

/// A token bucket.
///
/// ```
/// use core::time::Duration;
/// use pinnace_core::{Pacer, Time};
/// let mut pacer = Pacer::new(Some(1_000_000), 3_000); // 1 MB/s, bursts of 3 kB
/// let now = Time::ZERO;
/// assert_eq!(pacer.ready_at(now, 3_000), now);
/// pacer.take(now, 3_000);
/// assert_eq!(pacer.ready_at(now, 1_000), now + Duration::from_millis(1));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pacer {
    rate: Option<NonZeroU64>,
    burst: u64,
    /// In billionths of a byte; below zero after a send larger than the burst.
    credit: i128,
    updated_at: Time,
    /// Of who follows a congestion controller: what a datagram weighs, and what is waited for when not even that may go; 0:
    /// one datagram.
    datagram: u16,
    grain: u32,
    is_spent: bool,
}

/// Nobody who waits wakes up more exactly; whoever sent with each datagram's credit would make a system call for each.
const GRAINS_A_SECOND: u64 = 5000;
/// Whoever waits for a processor on a busy machine waits for some milliseconds, and would only ever send what a burst is.
const LATENESSES_A_SECOND: u64 = 100;
/// No more bursts than this are made up for,
const MOST_BURSTS_LATE: u64 = 10;
/// and no more bytes.
const MOST_LATE: u64 = 1 << 19;
/// Whoever has sent nothing for so long has had nothing to send.
const IDLE_NANOS: u64 = 50_000_000;

impl Pacer {
    /// A full bucket: on average `rate` bytes a second, at most `burst` bytes at once.
    ///
    /// `None` or 0 is no limit.
    pub fn new(rate: Option<u64>, burst: u64) -> Self {
        let (rate, credit) = (rate.and_then(NonZeroU64::new), full(burst));
        Self { rate, burst, credit, updated_at: Time::ZERO, datagram: 0, grain: 0, is_spent: false }
    }

    /// A bucket that lets everything through.
    pub fn unlimited() -> Self {
        Self::new(None, 0)
    }

    /// Changes the average, in bytes a second, from `now` on. Credit earned so far is kept.
    pub fn set_rate(&mut self, now: Time, rate: Option<u64>) {
        self.earn(now);
        self.rate = rate.and_then(NonZeroU64::new);
    }

    /// Changes the burst, in bytes, from `now` on.
    pub fn set_burst(&mut self, now: Time, burst: u64) {
        self.earn(now);
        self.burst = burst;
        self.credit = self.credit.min(full(burst));
    }

    /// Takes over the pace of a congestion controller: bursts of a millisecond, of at least two datagrams of `datagram` bytes,
    /// and at most `most` bytes. When it is used up, what may be sent in 200 microseconds is waited for: at a gigabit a second
    /// datagrams leave in trains of seventeen, and below 116 Mbit/s, 1,450 bytes each, one by one. Whoever waits for that and
    /// comes late makes up for up to 10 milliseconds, ten bursts, and 512 KiB.
    pub fn follow(&mut self, now: Time, rate: Option<u64>, datagram: u64, most: u64) {
        if rate != self.rate() {
            self.set_rate(now, rate);
            let second = rate.unwrap_or(u64::MAX);
            self.burst = (second / 1000).clamp(2 * datagram, most.max(2 * datagram));
            self.credit = self.credit.min(full(self.late()));
            let grain = (second / GRAINS_A_SECOND).min(self.burst);
            self.grain = if grain < 2 * datagram { 0 } else { u32::try_from(grain).unwrap_or(u32::MAX) };
            self.datagram = u16::try_from(datagram).unwrap_or(u16::MAX);
        }
    }

    /// The average rate in bytes a second; `None` is no limit.
    pub const fn rate(&self) -> Option<u64> {
        match self.rate {
            Some(rate) => Some(rate.get()),
            None => None,
        }
    }

    /// The burst in bytes.
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// When `bytes` may be sent: `now`, or the first nanosecond later at which the credit is enough.
    pub fn ready_at(&self, now: Time, bytes: u64) -> Time {
        let Some(rate) = self.rate else {
            return now;
        };
        let wanted = if self.is_spent { bytes.max(self.grain.into()) } else { bytes };
        let needed = full(wanted.min(self.burst));
        let short = needed - self.credit_at(now);
        if short <= 0 {
            return now;
        }
        let rate = i128::from(rate.get());
        let wait = u64::try_from((short + rate - 1) / rate).unwrap_or(u64::MAX);
        Time::from_nanos(now.max(self.updated_at).as_nanos().saturating_add(wait))
    }

    /// How many bytes may be sent at once `now`; `u64::MAX` without a limit.
    ///
    /// A bucket that is full also lets one send larger than this through.
    pub fn available(&self, now: Time) -> u64 {
        match self.rate {
            None => u64::MAX,
            Some(_) => u64::try_from((self.credit_at(now).max(0)) / NANOS).unwrap_or(u64::MAX),
        }
    }

    /// Pays for `bytes` sent `now`. Bytes sent before they were ready are a debt that the next send waits for.
    pub fn take(&mut self, now: Time, bytes: u64) {
        self.earn(now);
        if self.rate.is_some() {
            self.credit = self.credit.saturating_sub(full(bytes));
            self.is_spent = self.credit < full(self.datagram.into());
        }
    }

    /// `bytes` that were paid for have left by `now` at the latest, which may be later than when they were paid for. A bucket
    /// that was full then earned nothing until they left: otherwise an interval that begins when they do would hold more than
    /// it may. Returns whether that makes a difference.
    pub fn on_left(&mut self, now: Time, bytes: u64) -> bool {
        let most = full(self.burst) - full(bytes);
        let is_too_much = self.rate.is_some() && self.credit_at(now) > most;
        if is_too_much {
            (self.credit, self.updated_at) = (most, self.updated_at.max(now));
        }
        is_too_much
    }

    /// Whether nothing is lost to whoever waits for [`Pacer::ready_at`] and comes so much `late`: the burst has room for what is
    /// earned meanwhile.
    pub fn bears(&self, late: Duration, bytes: u64) -> bool {
        let nanos = i128::try_from(late.as_nanos()).unwrap_or(i128::MAX);
        let earned = self.rate.map_or(0, |rate| i128::from(rate.get()).saturating_mul(nanos));
        full(bytes.min(self.burst)).saturating_add(earned) <= full(self.late())
    }

    /// Pays for `bytes` if they may be sent `now`.
    ///
    /// # Errors
    ///
    /// When they may be sent; nothing is paid.
    pub fn try_take(&mut self, now: Time, bytes: u64) -> Result<(), Time> {
        let ready_at = self.ready_at(now, bytes);
        if ready_at > now {
            return Err(ready_at);
        }
        self.take(now, bytes);
        Ok(())
    }

    /// What may be made up for at once by whoever follows a controller and wakes up too late, in bytes; otherwise a burst.
    fn late(&self) -> u64 {
        match self.rate {
            Some(rate) if self.datagram > 0 => {
                let late = (rate.get() / LATENESSES_A_SECOND).min(self.burst.saturating_mul(MOST_BURSTS_LATE));
                late.clamp(self.burst, MOST_LATE.max(self.burst))
            }
            _ => self.burst,
        }
    }

    fn earn(&mut self, now: Time) {
        self.credit = self.credit_at(now);
        self.updated_at = self.updated_at.max(now);
    }

    fn credit_at(&self, now: Time) -> i128 {
        let elapsed = now.as_nanos().saturating_sub(self.updated_at.as_nanos());
        let Some(rate) = self.rate else { return full(self.burst) };
        let most = match elapsed {
            0..=IDLE_NANOS if self.is_spent => full(self.late()),
            // What was made up for is kept until it is used up.
            0..=IDLE_NANOS => full(self.burst).max(self.credit),
            _ => full(self.burst),
        };
        self.credit.saturating_add(i128::from(rate.get()).saturating_mul(i128::from(elapsed))).min(most)
    }
}

/// Pieces of a burst, where their size is ours to choose.
const PIECES_A_BURST: u64 = 8;

/// Bytes of the largest piece of what is sent at a rate: an eighth of the burst. What is earned while a timer is late must find
/// room in the bucket beside the next piece, or the rate is missed. No fewer than `least`, as much as every path carries.
///
/// ```
/// # use pinnace_core::piece_of_burst;
/// assert_eq!((piece_of_burst(65_536, 1_400), piece_of_burst(1_500, 1_400)), (8_192, 1_400));
/// ```
pub fn piece_of_burst(burst: u64, least: u32) -> u32 {
    u32::try_from(burst / PIECES_A_BURST).unwrap_or(u32::MAX).max(least)
}

/// `bytes` as credit.
const fn full(bytes: u64) -> i128 {
    bytes as i128 * NANOS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Sends as fast as allowed for a second after a full burst and returns the bytes.
    fn one_second(rate: u64, burst: u64, size: u64) -> u64 {
        let mut pacer = Pacer::new(Some(rate), burst);
        let (mut now, mut sent) = (Time::ZERO, 0);
        let end = now + SECOND;
        loop {
            now = pacer.ready_at(now, size);
            if now > end {
                return sent;
            }
            pacer.take(now, size);
            sent += size;
        }
    }

    //= A-11 test
    //= X-19 test
    #[test]
    fn the_average_is_within_one_percent_from_a_megabit_to_ten_gigabits() {
        for rate in [125_000_u64, 1_250_000, 12_500_000, 125_000_000, 1_250_000_000] {
            for size in [100_u64, 1_400] {
                let burst = 2 * size;
                let sent = one_second(rate, burst, size);
                assert!(sent <= rate + burst, "{sent} of {rate}");
                assert!(sent + size >= rate + burst, "{sent} of {rate}: less than promised");
            }
        }
    }

    #[test]
    fn a_send_above_the_burst_counts_as_one_and_is_paid_back() {
        let mut pacer = Pacer::new(Some(1_000), 10);
        pacer.try_take(Time::ZERO, 1_000).expect("the bucket is full");
        assert_eq!(pacer.available(Time::ZERO), 0);
        assert_eq!(pacer.try_take(Time::ZERO, 1), Err(Time::from_nanos(991_000_000)));
        let sent = one_second(1_000_000, 10, 1_400);
        assert!((1_000_000 - 1_400..=1_001_400).contains(&sent), "{sent}");
    }

    #[test]
    fn no_limit_is_always_ready() {
        for mut pacer in [Pacer::unlimited(), Pacer::new(Some(0), 5)] {
            let now = Time::from_nanos(3);
            pacer.take(now, u64::MAX);
            pacer.take(now, u64::MAX);
            assert_eq!(pacer.ready_at(now, u64::MAX), now);
            assert_eq!(pacer.available(now), u64::MAX);
        }
    }

    #[test]
    fn a_new_rate_holds_from_its_moment_on() {
        let mut pacer = Pacer::new(Some(1_000), 1_000);
        pacer.take(Time::ZERO, 1_000);
        let half = Time::ZERO + SECOND / 2;
        pacer.set_rate(half, Some(100_000));
        assert_eq!(pacer.available(half), 500, "the first half second was slow");
        assert_eq!(pacer.ready_at(half, 1_000), half + Duration::from_millis(5));
        pacer.set_burst(half, 200);
        assert_eq!(pacer.available(half), 200);
    }

    #[test]
    fn who_follows_a_controller_waits_for_trains_where_the_pace_is_high() {
        let trains = |rate: u64| {
            let mut pacer = Pacer::unlimited();
            pacer.follow(Time::ZERO, Some(rate), 1_450, 65_535);
            let (mut now, mut sent, mut trains) = (Time::ZERO, 0_u64, 0);
            while now < Time::ZERO + SECOND {
                let ready_at = pacer.ready_at(now, 1_450);
                trains += u64::from(ready_at > now);
                now = ready_at;
                pacer.take(now, 1_450);
                sent += 1_450;
            }
            assert!(sent.abs_diff(rate) <= rate / 100 + 65_535, "{sent} of {rate}");
            (sent / 1_450 + trains / 2) / trains
        };
        assert_eq!(trains(125_000_000), 17);
        assert_eq!(trains(12_500_000), 1);
        assert_eq!(trains(1_000_000), 1);
    }

    #[test]
    fn who_follows_a_controller_and_wakes_up_late_makes_up_for_it_and_who_was_idle_does_not() {
        let rate = 25_000_000;
        let millis = |count| Time::ZERO + Duration::from_millis(count);
        // Sends all that it may whenever it has a processor: in a second.
        let sent_every = |pause: u64| {
            let mut pacer = Pacer::unlimited();
            pacer.follow(Time::ZERO, Some(rate), 1_450, 65_535);
            let mut sent = 0;
            for now in (0..1000).step_by(pause as usize).map(millis) {
                while pacer.try_take(now, 1_450).is_ok() {
                    sent += 1_450;
                }
                // The pace changes all the time, and hardly.
                pacer.follow(now, Some(rate + 1), 1_450, 65_535);
                pacer.follow(now, Some(rate), 1_450, 65_535);
            }
            sent
        };
        for pause in [1, 4, 10] {
            assert!(sent_every(pause) * 100 > rate * 97, "every {pause} ms: {} of {rate}", sent_every(pause));
        }
        assert!((rate / 3..rate / 2).contains(&sent_every(25)), "every 25 ms: {}", sent_every(25));
        // A burst every 100 ms, as of who has had nothing to send.
        assert!(sent_every(100) < rate / 50, "every 100 ms: {}", sent_every(100));
        // Not before, either: the first burst is one.
        let mut pacer = Pacer::unlimited();
        pacer.follow(Time::ZERO, Some(rate), 1_450, 65_535);
        assert!(pacer.available(millis(40)) <= rate / 1000);
        pacer.take(millis(40), 25_000);
        assert_eq!(pacer.available(millis(44)), 100_000);
        pacer.take(millis(44), 1_450);
        assert_eq!(pacer.available(millis(45)), 100_000 - 1_450, "it is not used up yet, and does not grow");
        assert_eq!(pacer.available(millis(200)), 25_000);
    }

    #[test]
    fn time_that_stands_or_goes_back_earns_nothing() {
        let mut pacer = Pacer::new(Some(1_000), 100);
        let now = Time::ZERO + SECOND;
        pacer.take(now, 100);
        assert_eq!(pacer.available(Time::ZERO), 0);
        assert!(pacer.ready_at(Time::ZERO, 100) >= now);
        let mut huge = Pacer::new(Some(u64::MAX), u64::MAX);
        huge.take(Time::MAX, u64::MAX);
        huge.take(Time::MAX, u64::MAX);
        assert_eq!(huge.ready_at(Time::MAX, u64::MAX), Time::MAX);
    }

    #[test]
    fn a_full_bucket_earns_nothing_until_what_was_paid_for_has_left() {
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        let mut pacer = Pacer::new(Some(1_000_000), 3_000);
        pacer.take(at(1), 3_000);
        assert!(pacer.on_left(at(3), 3_000));
        assert_eq!(pacer.ready_at(at(3), 1_000), at(4), "and not at 2 ms");
        // A bucket that was not full loses nothing.
        pacer.take(at(4), 1_000);
        assert!(!pacer.on_left(at(5), 1_000));
        assert_eq!(pacer.available(at(5)), 1_000);
        // One that would have become full earns up to that.
        pacer.take(at(6), 1_000);
        assert!(pacer.on_left(at(9), 1_000));
        assert_eq!(pacer.available(at(9)), 2_000);
        assert!(!Pacer::unlimited().on_left(at(1), 1_000));
    }

    #[test]
    fn a_pacer_bears_a_lateness_that_its_burst_has_room_for() {
        let late = Duration::from_micros(100);
        // 1,250 bytes are earned in that time.
        for (burst, bears) in [(1_400, false), (2_649, false), (2_650, true), (64 << 10, true)] {
            let mut pacer = Pacer::new(Some(12_500_000), burst);
            assert_eq!(pacer.bears(late, 1_400), bears, "a burst of {burst}");
            // And so it is.
            pacer.take(Time::ZERO, burst);
            let ready_at = pacer.ready_at(Time::ZERO, 1_400);
            assert_eq!(pacer.available(ready_at + late) >= 2_650, bears, "a burst of {burst}");
        }
        assert!(Pacer::unlimited().bears(late, 1_400));
        let mut follower = Pacer::unlimited();
        follower.follow(Time::ZERO, Some(12_500_000), 1_450, 65_535);
        assert!(follower.bears(late, 1_450), "it makes up for it");
    }

    /// Of what left when, and had how many bytes.
    fn no_interval_holds_more(sent: &[(u64, u64)], burst: u64, rate: u64) -> bool {
        (0..sent.len()).all(|first| {
            let (mut total, mut largest) = (0_u128, 0);
            sent[first..].iter().all(|(at, size)| {
                total += u128::from(*size);
                largest = largest.max(*size);
                let elapsed = u128::from(at - sent[first].0);
                total * 1_000_000_000 <= u128::from(burst.max(largest)) * 1_000_000_000 + u128::from(rate) * elapsed
            })
        })
    }

    proptest! {
        #[test]
        fn no_interval_holds_more_whenever_what_was_paid_for_leaves(
            rate in 1_000_u64..2_000_000_000,
            burst in 1_u64..200_000,
            sends in prop::collection::vec((0_u64..5_000_000, 1_u64..70_000, 0_u64..2_000_000, 0_u64..2_000_000), 1..60),
        ) {
            let mut pacer = Pacer::new(Some(rate), burst);
            let (mut now, mut clock) = (Time::ZERO, Time::ZERO);
            let mut sent: Vec<(u64, u64)> = Vec::new();
            for (idle, size, late, later) in sends {
                now = pacer.ready_at((now + Duration::from_nanos(idle)).max(clock), size);
                pacer.take(now, size);
                let left = now + Duration::from_nanos(late);
                sent.push((left.as_nanos(), size));
                // Whoever looks at the clock behind it may be interrupted, too.
                clock = left + Duration::from_nanos(later);
                pacer.on_left(clock, size);
            }
            prop_assert!(no_interval_holds_more(&sent, burst, rate));
        }

        #[test]
        fn no_interval_holds_more_than_burst_and_rate_allow(
            rate in 1_000_u64..2_000_000_000,
            burst in 1_u64..200_000,
            sends in prop::collection::vec((0_u64..5_000_000, 1_u64..70_000), 1..60),
        ) {
            let mut pacer = Pacer::new(Some(rate), burst);
            let mut now = Time::ZERO;
            let mut sent: Vec<(u64, u64)> = Vec::new();
            for (idle, size) in sends {
                now += Duration::from_nanos(idle);
                let ready_at = pacer.ready_at(now, size);
                if ready_at > now {
                    let early = Time::from_nanos(ready_at.as_nanos() - 1);
                    prop_assert_eq!(pacer.try_take(early, size), Err(ready_at), "not a nanosecond early");
                }
                now = ready_at;
                prop_assert_eq!(pacer.try_take(now, size), Ok(()));
                sent.push((now.as_nanos(), size));
            }
            prop_assert!(no_interval_holds_more(&sent, burst, rate));
        }
    }
}
