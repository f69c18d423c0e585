//! The round trip of a group: of all who answer while it counts, their delays included.
//= X-12

use core::time::Duration;

/// Jacobson's estimate with the gains of the control block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    smoothed: Option<Duration>,
    deviation: Duration,
    gain: u32,
    deviation_gain: u32,
    /// What is longer counts as so long: whoever always answers last would make everybody wait longer and longer.
    most: Duration,
}

impl Estimate {
    /// Gains as 1/2^n; 0: 1/8 and 1/4.
    pub(super) fn new(gain: u16, deviation_gain: u16, most: Duration) -> Self {
        let shift = |gain: u16, default| if gain == 0 { default } else { u32::from(gain.min(16)) };
        let (gain, deviation_gain) = (shift(gain, 3), shift(deviation_gain, 2));
        Self { smoothed: None, deviation: Duration::ZERO, gain, deviation_gain, most }
    }

    pub(super) fn on_sample(&mut self, sample: Duration) {
        let sample = sample.min(self.most);
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.deviation) = (Some(sample), sample / 2);
            return;
        };
        let (part, deviation_part) = (1 << self.gain, 1 << self.deviation_gain);
        self.deviation = self.deviation - self.deviation / deviation_part + smoothed.abs_diff(sample) / deviation_part;
        self.smoothed = Some(smoothed - smoothed / part + sample / part);
    }

    pub(super) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// The round trip and four deviations.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.smoothed.map(|smoothed| smoothed + 4 * self.deviation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= X-22 test
    #[test]
    fn the_control_block_sets_the_gains() {
        let millis = Duration::from_millis;
        let after = |gain, deviation_gain| {
            let mut estimate = Estimate::new(gain, deviation_gain, millis(1000));
            assert_eq!(estimate.timeout(), None);
            estimate.on_sample(millis(80));
            assert_eq!(estimate.timeout(), Some(millis(80 + 4 * 40)));
            estimate.on_sample(millis(160));
            (estimate.smoothed().expect("a sample"), estimate.deviation)
        };
        assert_eq!(after(0, 0), (millis(90), millis(50)), "1/8 and 1/4");
        assert_eq!(after(3, 2), after(0, 0));
        assert_eq!(after(1, 1), (millis(120), millis(60)));
        assert_eq!(after(2, 3), (millis(100), millis(45)));
    }

    //= X-22 test
    #[test]
    fn whoever_always_answers_last_is_not_waited_for_longer_and_longer() {
        let mut estimate = Estimate::new(0, 0, Duration::from_secs(1));
        estimate.on_sample(Duration::from_millis(10));
        for _ in 0..1000 {
            let (slot, wtimer) = (estimate.smoothed().expect("a sample"), estimate.timeout().expect("a sample"));
            estimate.on_sample(slot + wtimer);
            assert!(slot <= Duration::from_secs(1) && wtimer <= Duration::from_secs(3), "{slot:?} {wtimer:?}");
        }
    }
}
