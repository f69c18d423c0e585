//! What is counted of a stream: ages in percentiles, frames, bytes, losses.
//!
//! Always true: memory does not depend on how many frames there are.

use crate::exit::Error;
use crate::numbers;
use crate::units::count_of;
use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// Whatever took longer took an hour, in microseconds.
const LONGEST: u64 = 3_600_000_000;

/// Times of frames, to the microsecond, in percentiles of three digits.
#[derive(Clone, Debug)]
pub(super) struct Ages {
    histogram: Histogram<u64>,
}

/// The percentiles that are printed, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Percentiles {
    pub(super) min: f64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Ages {
    pub(super) fn new() -> Result<Self, Error> {
        Histogram::new_with_bounds(1, LONGEST, 3)
            .map(|histogram| Self { histogram })
            .map_err(|error| Error::failed(format!("no histogram: {error}")))
    }

    pub(super) fn record(&mut self, age: Duration) {
        self.histogram.saturating_record(u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
    }

    /// Nothing if nothing was recorded.
    pub(super) fn percentiles(&self) -> Option<Percentiles> {
        if self.histogram.is_empty() {
            return None;
        }
        let millis = |micros: u64| micros as f64 / 1e3;
        let at = |share| millis(self.histogram.value_at_quantile(share));
        Some(Percentiles {
            min: millis(self.histogram.min()),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: millis(self.histogram.max()),
        })
    }
}

impl std::fmt::Display for Percentiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { min, p50, p90, p99, max } = self;
        write!(f, "{min:.1} ms at least, {p50:.1} median, {p90:.1} p90, {p99:.1} p99, {max:.1} at most")
    }
}

/// Packets that were lost with permission.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Losses {
    pub(super) frames_with_holes: u64,
    pub(super) packets: u64,
    pub(super) packets_lost: u64,
    pub(super) longest_run: u32,
}

impl Losses {
    /// What one frame has lost.
    pub(super) fn add(&mut self, loss: &pinnace::vrp::Loss) {
        self.packets += u64::from(loss.packets);
        self.packets_lost += u64::from(loss.lost);
        self.frames_with_holes += u64::from(loss.lost > 0);
        self.longest_run = self.longest_run.max(loss.longest_run);
    }

    pub(super) fn rate(&self) -> f64 {
        self.packets_lost as f64 / self.packets.max(1) as f64
    }

    /// As text; `is_all`: nothing but holes can be missing, as every frame has arrived.
    pub(super) fn text(&self, is_all: bool) -> String {
        if self.packets_lost == 0 && !is_all { "none in the frames that arrived".to_owned() } else { self.to_string() }
    }

    /// Puts them into an object.
    pub(super) fn put(&self, object: &mut Value) {
        object["frames_with_holes"] = json!(self.frames_with_holes);
        object["packets"] = json!(self.packets);
        object["packets_lost"] = json!(self.packets_lost);
        object["loss"] = json!(self.rate());
        object["longest_run_packets"] = json!(self.longest_run);
    }
}

impl std::fmt::Display for Losses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { frames_with_holes, packets, packets_lost, longest_run } = self;
        match packets_lost {
            0 => write!(f, "none: nothing is missing"),
            _ => write!(
                f,
                "in {}: {packets_lost} of {} ({:.2} %), at most {longest_run} in a row",
                count_of(*frames_with_holes, "frame"),
                count_of(*packets, "packet"),
                self.rate() * 100.0
            ),
        }
    }
}

/// `40 of 80 (50.0 %)`.
pub(super) fn of(part: u64, whole: u64) -> String {
    format!("{part} of {whole} ({:.1} %)", numbers::share(part, whole) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_become_percentiles() {
        let mut ages = Ages::new().unwrap();
        assert!(ages.percentiles().is_none());
        (1..=100).for_each(|millis| ages.record(Duration::from_millis(millis)));
        ages.record(Duration::from_secs(1 << 40));
        let found = ages.percentiles().unwrap();
        assert!((found.p50 - 51.0).abs() < 0.1 && (found.p90 - 91.0).abs() < 0.1, "{found}");
        assert!(found.max >= 3.5e6 && (found.min - 1.0).abs() < 0.01);
    }

    #[test]
    fn losses_add_up() {
        let mut losses = Losses::default();
        for (lost, longest_run) in [(0, 0), (3, 2), (1, 1)] {
            losses.add(&pinnace::vrp::Loss { packets: 100, lost, longest_run, ..Default::default() });
        }
        assert_eq!((losses.frames_with_holes, losses.packets_lost, losses.longest_run), (2, 4, 2));
        assert!((losses.rate() - 4.0 / 300.0).abs() < 1e-12 && losses.to_string().contains("4 of 300"));
    }
}
