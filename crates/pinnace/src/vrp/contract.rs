//! What may be lost of a frame, as an application says it.

use pinnace_vrp::Terms;
use std::ops::Range;

/// What may be lost of a frame. Begins with *nothing*; each call allows or forbids something.
///
/// Loss needs both a rate and a run (V-R5): a rate alone means *any run*, a run alone allows no loss.
///
/// ```
/// use pinnace::vrp::Contract;
/// // The paper's: a quarter, at most 4 kB in a row, and nothing of the first kilobyte.
/// let contract = Contract::new().loss_percent(25.0).run_bytes(4000).critical(0..1000);
/// assert!(contract.allows_loss());
/// assert!(!Contract::new().run_bytes(4000).allows_loss(), "how much in all was not said");
/// assert!(!Contract::reliable().allows_loss());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contract {
    rate: Option<u8>,
    run_bytes: Option<u64>,
    critical: Vec<Range<u64>>,
    floor: Option<u8>,
    /// What was not said is left to the receiver.
    as_said: bool,
}

impl Contract {
    /// Nothing may be lost, unless further calls say so.
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing may be lost.
    pub fn reliable() -> Self {
        Self::default()
    }

    /// As the paper's interface says it (V-R5): a rate in steps of 255ths and a run in bytes, of which the one that is `None`
    /// is not said to the receiver, whose default counts; for this library's that is nothing.
    ///
    /// ```
    /// use pinnace::vrp::Contract;
    /// assert!(Contract::of_rate_and_run(Some(64), Some(4000)).allows_loss());
    /// assert!(!Contract::of_rate_and_run(Some(64), None).allows_loss());
    /// ```
    pub fn of_rate_and_run(rate: Option<u8>, run_bytes: Option<u64>) -> Self {
        Self { rate, run_bytes, as_said: true, ..Self::default() }
    }

    /// The share of the packets in any window that may be lost, 0 to 100. It travels as one of 256 steps, rounded to the
    /// nearest: 0.39 % each, so less than 0.2 % is nothing. What is outside counts as the nearest end, and no number as 0.
    #[must_use]
    pub fn loss_percent(self, percent: f64) -> Self {
        self.loss_rate(step_of(percent))
    }

    /// As [`Contract::loss_percent`], in the protocol's steps: 0 to 255 stands for nothing to everything.
    #[must_use]
    pub fn loss_rate(self, rate: u8) -> Self {
        Self { rate: Some(rate), ..self }
    }

    /// The longest run of bytes that may be lost. It is kept in whole packets, rounded down: less than a packet is nothing.
    /// A receiver can be told of up to 254 packets: where more are allowed it may let any number go, and a frame whose receiver
    /// did has failed.
    #[must_use]
    pub fn run_bytes(self, bytes: u64) -> Self {
        Self { run_bytes: Some(bytes), ..self }
    }

    /// Losses may follow each other without a bound but the rate.
    #[must_use]
    pub fn any_run(self) -> Self {
        self.run_bytes(u64::MAX)
    }

    /// These bytes may not be lost. Call it again for more of them; an empty range is none. What lies outside the frame
    /// makes [`Sender::send`](super::Sender::send) fail, as do more ranges than fit one datagram (some 150 that do not
    /// touch).
    #[must_use]
    pub fn critical(mut self, bytes: Range<u64>) -> Self {
        // The engine refuses what is empty where it cannot be, or ends before it begins.
        if !bytes.is_empty() {
            self.critical.push(bytes);
        }
        self
    }

    /// Makes the rate the upper end of an interval: only this share (at most the rate) may be lost while the path is not
    /// congested, and the more it is, the more of the rate is used.
    #[must_use]
    pub fn adaptive_from_percent(self, percent: f64) -> Self {
        Self { floor: Some(step_of(percent)), ..self }
    }

    /// Whether anything may be lost at all.
    pub fn allows_loss(&self) -> bool {
        self.rate.unwrap_or(0) > 0 && self.run().unwrap_or(0) > 0
    }

    /// The run in force.
    fn run(&self) -> Option<u64> {
        // The protocol takes a missing run for none: whoever says how much may be lost means that some may.
        self.run_bytes.or(self.rate.filter(|_| !self.as_said).map(|_| u64::MAX))
    }

    /// In the engine's words, for whoever drives [`pinnace_vrp`] without this library (`pinnace sim` does).
    ///
    /// ```
    /// use pinnace::vrp::Contract;
    /// let terms = Contract::new().loss_percent(25.0).run_bytes(4000).into_terms();
    /// assert_eq!((terms.rate, terms.run_bytes), (Some(64), Some(4000)));
    /// ```
    pub fn into_terms(self) -> Terms {
        let run_bytes = self.run();
        Terms { rate: self.rate, run_bytes, critical: self.critical, floor: self.floor }
    }
}

/// 0 to 100 in 255ths.
fn step_of(percent: f64) -> u8 {
    // Saturates, and makes 0 of what is no number.
    (percent * 255.0 / 100.0).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_to_the_nearest_step() {
        //= V-S13 test
        let steps = [0.0, 0.1, 0.2, 1.0, 10.0, 25.0, 50.0, 99.9, 100.0].map(step_of);
        assert_eq!(steps, [0, 0, 1, 3, 26, 64, 128, 255, 255]);
        assert_eq!([-3.0, 200.0, f64::NAN, f64::INFINITY].map(step_of), [0, 255, 0, 255]);
    }

    #[test]
    fn a_rate_without_a_run_allows_any_run_and_a_run_without_a_rate_nothing() {
        //= V-R5 test
        let rate_only = Contract::new().loss_rate(26).into_terms().contract(100_000, 1000).unwrap();
        assert_eq!((rate_only.rate, rate_only.run), (26, 255));
        let run_only = Contract::new().run_bytes(5000).into_terms().contract(100_000, 1000).unwrap();
        assert_eq!((run_only.rate, run_only.run), (0, 5));
        let nothing = Contract::reliable().into_terms().contract(100_000, 1000).unwrap();
        assert_eq!((nothing.rate, nothing.run), (0, 0));
        let as_said = Contract::of_rate_and_run(Some(26), None).into_terms();
        assert_eq!((as_said.rate, as_said.run_bytes), (Some(26), None), "and the receiver has its own mind");
        assert!(Contract::new().loss_percent(1.0).allows_loss() && !Contract::new().loss_percent(0.1).allows_loss());
    }
}
