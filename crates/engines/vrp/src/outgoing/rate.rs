//! The interval of allowed loss (paper, section 4.3): the rate in force is the floor while the path is not congested, and
//! moves towards the upper end while it is.
//!
//! The sender sees congestion as the paper does, by the round trip: a queue on the path makes it longer; and by marks. The
//! rate moves by a quarter of the interval a round trip, and is told to the receiver (LOSS_RATE_NOW) once a round trip for
//! as long as it is not the floor, because what is told may be lost.

use super::Outgoing;
use super::frame::{OutFrame, State};
use core::time::Duration;
use pinnace_core::Time;

/// Steps from the floor to the upper end.
const STEPS: u32 = 4;
/// The shortest time between two steps.
const SHORTEST_STEP: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct AllowedRate {
    /// Frames under way that have a floor.
    frames: usize,
    due: Option<Time>,
    /// 0: the floor; [`STEPS`]: the upper end.
    step: u32,
    marks_seen: u64,
}

impl AllowedRate {
    pub(super) fn new() -> Self {
        Self { frames: 0, due: None, step: 0, marks_seen: 0 }
    }

    pub(super) fn on_begin(&mut self, frame: &OutFrame) {
        self.frames += usize::from(frame.terms.floor.is_some());
    }

    pub(super) fn on_end(&mut self, frame: &OutFrame) {
        self.frames -= usize::from(frame.terms.floor.is_some());
        if self.frames == 0 {
            self.due = None;
        }
    }

    /// When to look at the path again; nothing is due while no frame has an interval.
    pub(super) fn due_at(&self) -> Option<Time> {
        self.due
    }

    pub(super) fn is_due(&self, now: Time) -> bool {
        self.due.is_some_and(|due| due <= now)
    }
}

/// The rate of a frame, `step` of [`STEPS`] from its floor.
fn rate_at(floor: u8, upper: u8, step: u32) -> u8 {
    let span = u32::from(upper.saturating_sub(floor));
    floor + (span * step / STEPS) as u8
}

impl Outgoing {
    /// Frames with an interval are under way: looks at the path from now on.
    pub(super) fn watch_allowed_rate(&mut self, now: Time) {
        if self.allowed.frames > 0 && self.allowed.due.is_none() {
            self.allowed.due = Some(now + self.rate_interval());
        }
    }

    fn rate_interval(&self) -> Duration {
        self.rtt.smoothed().unwrap_or_default().max(SHORTEST_STEP)
    }

    pub(super) fn update_allowed_rate(&mut self, now: Time) {
        let is_marked = self.counters.congestion_marks > self.allowed.marks_seen;
        self.allowed.marks_seen = self.counters.congestion_marks;
        let has_queue = match (self.rtt.smoothed(), self.rtt.minimum()) {
            (Some(smoothed), Some(least)) => smoothed > least + least / 4 + Duration::from_millis(1),
            _ => false,
        };
        let step = self.allowed.step;
        self.allowed.step = if is_marked || has_queue { (step + 1).min(STEPS) } else { step.saturating_sub(1) };
        self.allowed.due = Some(now + self.rate_interval());
        // What could not leave since the last time is old.
        self.rates.clear();
        for slot in 0..self.slots.len() {
            let Some(frame) = self.slots[slot].as_deref_mut() else { continue };
            let Some(floor) = frame.terms.floor else { continue };
            let rate = rate_at(floor, frame.contract.rate, self.allowed.step);
            if rate != frame.rate_now {
                frame.rate_now = rate;
                frame.rate_count = frame.rate_count.wrapping_add(1);
                frame.rate_has_changed = true;
            }
            // The receiver starts at the floor: nothing to say before the first change, nor before it knows the frame.
            if frame.state == State::Accepted && frame.rate_has_changed {
                self.rates.push_back((slot, frame.ticket));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_moves_between_floor_and_upper_end() {
        assert_eq!([0, 1, 2, 4].map(|step| rate_at(10, 50, step)), [10, 20, 30, 50]);
        assert_eq!(rate_at(0, 255, STEPS), 255);
        assert_eq!(rate_at(9, 9, 3), 9);
    }
}
