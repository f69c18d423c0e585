//! What [`Bbr`](super::Bbr) does about heavy loss, and what it does not take for it.
//!
//! Three judgements in a row that more than a fifth is lost bound the bytes in flight, as a mark (ECN) does at once; the
//! bound is lifted as soon as the loss goes. A path may be *said* to lose up to some share by itself: as much of that as
//! is really lost, measured over twenty rounds, does not count. Always true: the bound is at least what the path holds by
//! the model.

/// Loss is judged over at least this many packets ...
const EPOCH_PACKETS: u64 = 100;
/// ... and acted upon when this many judgements in a row say congestion.
const CONGESTED_EPOCHS: u32 = 3;
/// Rounds over which the path's own loss is measured, twice as long as the model remembers a rate ...
const MEASURED_ROUNDS: u32 = 20;
/// ... and packets at least.
const MEASURED_PACKETS: u64 = 200;
/// Shares are in 1/256.
const WHOLE: u64 = 256;
/// Of what the path does not lose by itself, one in so many may be lost.
const TOLERATED_DIVISOR: u64 = 5;

/// The bound on the bytes in flight that heavy, lasting loss and marks impose.
#[derive(Clone, Debug)]
pub(super) struct LossBound {
    lost: u64,
    marked: bool,
    /// Bytes delivered when this epoch of counting began.
    delivered: u64,
    congested_epochs: u32,
    /// Bytes lost and sent in the epochs that are congested, in a row, or have set the bound.
    charged: Charge,
    bound: Option<u64>,
    /// What the bound was before losses set or lowered it.
    before: Option<Option<u64>>,
    /// The share that the path is said to lose, in 1/256.
    said: u64,
    /// As much of it as is really lost.
    random: u64,
    measured: Measured,
}

/// Loss that is held against the path.
#[derive(Clone, Copy, Debug, Default)]
struct Charge {
    lost: u64,
    sent: u64,
}

/// Loss over many rounds.
#[derive(Clone, Debug, Default)]
struct Measured {
    rounds: u32,
    lost: u64,
    sent: u64,
}

impl LossBound {
    /// Of a path that loses up to `percent` by itself.
    pub(super) fn new(percent: u8) -> Self {
        let said = u64::from(percent) * WHOLE / 100;
        Self {
            lost: 0,
            marked: false,
            delivered: 0,
            congested_epochs: 0,
            charged: Charge::default(),
            bound: None,
            before: None,
            said,
            random: said,
            measured: Measured::default(),
        }
    }

    pub(super) fn on_loss(&mut self, bytes: u64) {
        self.lost = self.lost.saturating_add(bytes);
    }

    /// So many of the bytes lost have arrived. Returns whether that lifts the bound which they had set.
    pub(super) fn on_late(&mut self, bytes: u64) -> bool {
        let of_epoch = bytes.min(self.lost);
        self.lost -= of_epoch;
        let rest = bytes - of_epoch;
        self.charged.lost = self.charged.lost.saturating_sub(rest);
        self.measured.lost = self.measured.lost.saturating_sub(rest);
        if rest == 0 || self.is_congestion(self.charged) {
            return false;
        }
        self.congested_epochs = 0;
        match self.before.take() {
            Some(before) => self.bound = before,
            None => return false,
        }
        true
    }

    /// Whether more is lost than the path loses by itself, and a fifth of the rest.
    fn is_congestion(&self, Charge { lost, sent }: Charge) -> bool {
        let random = scale(sent, self.random);
        lost > random + (sent - random) / TOLERATED_DIVISOR
    }

    pub(super) fn on_mark(&mut self) {
        self.marked = true;
    }

    /// Bytes in flight at most.
    pub(super) const fn bound(&self) -> Option<u64> {
        self.bound
    }

    /// What a gain (in 1/256) has to be so that the path leaves that much of it.
    pub(super) fn make_up(&self, gain: u32) -> u32 {
        u32::try_from(u64::from(gain) * WHOLE / (WHOLE - self.random)).unwrap_or(u32::MAX)
    }

    /// Judges at the end of a round, and says whether a bound was set or lowered. `delivered` counts from the beginning;
    /// `filled` is what the path holds.
    pub(super) fn on_round(&mut self, delivered: u64, mss: u64, in_flight: u64, filled: u64) -> bool {
        let marked = core::mem::take(&mut self.marked);
        let sent = self.lost.saturating_add(delivered - self.delivered.min(delivered));
        self.measured.rounds += 1;
        let judged = sent >= EPOCH_PACKETS.saturating_mul(mss);
        if judged {
            let congested = self.is_congestion(Charge { lost: self.lost, sent });
            if congested && self.congested_epochs == 0 && self.before.is_none() {
                self.charged = Charge::default();
            }
            self.congested_epochs = if congested { self.congested_epochs + 1 } else { 0 };
            if congested {
                self.charged.lost = self.charged.lost.saturating_add(self.lost);
                self.charged.sent = self.charged.sent.saturating_add(sent);
            }
            self.measure(sent, mss);
            self.lost = 0;
            self.delivered = delivered;
        }
        if marked || (judged && self.congested_epochs >= CONGESTED_EPOCHS) {
            self.congested_epochs = 0;
            // A mark is no loss that could be taken back.
            self.before = if marked { None } else { Some(self.before.take().unwrap_or(self.bound)) };
            let full = self.bound.unwrap_or(u64::MAX).min(in_flight);
            self.bound = Some((full - full / 8).max(filled));
            return true;
        }
        if judged
            && self.congested_epochs == 0
            && let Some(bound) = self.bound
        {
            self.before = None;
            let raised = bound.saturating_add(bound / 8);
            self.bound = (raised < filled.saturating_mul(4)).then_some(raised);
        }
        false
    }

    /// How much of what the path is said to lose is lost.
    fn measure(&mut self, sent: u64, mss: u64) {
        let measured = &mut self.measured;
        measured.lost = measured.lost.saturating_add(self.lost);
        measured.sent = measured.sent.saturating_add(sent);
        if measured.rounds >= MEASURED_ROUNDS && measured.sent >= MEASURED_PACKETS.saturating_mul(mss) {
            let share = u128::from(measured.lost) * u128::from(WHOLE) / u128::from(measured.sent.max(1));
            self.random = self.said.min(share as u64);
            self.measured = Measured::default();
        }
    }
}

fn scale(bytes: u64, share: u64) -> u64 {
    (u128::from(bytes) * u128::from(share) / u128::from(WHOLE)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_000;

    /// Rounds of 200 packets of which `lost` are lost, 200 kB in flight over a path that holds 100 kB.
    fn bound_after(rounds: u64, lost: u64, bound: &mut LossBound) -> Option<u64> {
        for _ in 0..rounds {
            bound.on_loss(lost * MSS);
            let delivered = bound.delivered + (200 - lost) * MSS;
            bound.on_round(delivered, MSS, 200_000, 100_000);
        }
        bound.bound()
    }

    #[test]
    fn only_heavy_and_lasting_loss_sets_a_bound_and_its_end_lifts_it() {
        let mut bound = LossBound::new(0);
        assert_eq!(bound_after(50, 30, &mut bound), None, "15 % is random");
        assert_eq!(bound_after(2, 60, &mut bound), None, "30 %, but not for long");
        assert_eq!(bound_after(1, 0, &mut bound), None);
        assert_eq!(bound_after(3, 60, &mut bound), Some(175_000));
        assert_eq!(bound_after(60, 60, &mut bound), Some(100_000), "never below what the path holds");
        assert_eq!(bound_after(1, 0, &mut bound), Some(112_500));
        assert_eq!(bound_after(20, 0, &mut bound), None);
        assert_eq!(bound.make_up(320), 320);
    }

    #[test]
    fn what_the_path_is_said_to_lose_does_not_count_and_is_made_up_for_as_far_as_it_is_lost() {
        let mut bound = LossBound::new(40);
        assert_eq!(bound.make_up(320), 320 * 256 / (256 - 102));
        assert_eq!(bound_after(50, 60, &mut bound), None);
        assert_eq!(bound.make_up(320), 320 * 256 / (256 - 76), "30 % are lost");
        assert_eq!(bound_after(60, 86, &mut bound), None, "of the other 70 %, a fifth may be lost as well");
        assert_eq!(bound.make_up(320), 320 * 256 / (256 - 102), "never more than was said");
        assert_eq!(bound_after(3, 110, &mut bound), Some(175_000));
        bound_after(40, 0, &mut bound);
        assert_eq!((bound.bound(), bound.make_up(320)), (None, 320));
    }

    #[test]
    fn what_arrives_after_all_is_taken_off_and_lifts_the_bound_that_it_had_set() {
        let mut bound = LossBound::new(0);
        for _ in 0..50 {
            bound.on_loss(60 * MSS);
            assert!(!bound.on_late(30 * MSS), "15 % are left");
            assert_eq!(bound_after(1, 0, &mut bound), None);
        }
        assert_eq!(bound_after(3, 60, &mut bound), Some(175_000));
        assert!(!bound.on_late(50 * MSS), "of three times 60");
        assert_eq!(bound.bound(), Some(175_000));
        assert!(bound.on_late(50 * MSS));
        assert_eq!(bound.bound(), None);
        assert_eq!(bound_after(2, 60, &mut bound), None, "judged anew");
        assert_eq!(bound_after(1, 60, &mut bound), Some(175_000));
    }

    #[test]
    fn a_bound_that_a_mark_has_set_is_not_lifted_by_what_arrives_late() {
        let mut bound = LossBound::new(0);
        bound.on_loss(60 * MSS);
        bound.on_mark();
        bound_after(1, 0, &mut bound);
        assert_eq!(bound.bound(), Some(175_000));
        assert!(!bound.on_late(100 * MSS));
        assert_eq!(bound.bound(), Some(175_000));
    }
}
