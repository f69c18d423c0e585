//! What seemed to be lost and has arrived after all, by answers that do not say which of its transmissions they are for.
//!
//! Always true: what arrives while it waits to be repeated is late; what arrives when it has been repeated is if no answer to the
//! repetition can be here yet.

use crate::{Reordering, Time};

/// Bytes that seemed to be lost since a time, and have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// When they were taken for lost.
    pub noticed_at: Time,
    /// How many, on the wire.
    pub bytes: u64,
    /// Of those, what had been repeated, and so arrives twice.
    pub doubled: u64,
}

/// What was late in the answer that is taken in.
///
/// ```
/// use core::time::Duration;
/// use pinnace_core::{Late, Latecomers, Reordering, Time};
/// let at = |millis| Time::ZERO + Duration::from_millis(millis);
/// let (mut order, mut latecomers) = (Reordering::default(), Latecomers::default());
/// order.on_round_trip(at(40), Duration::from_millis(40));
///
/// // It seemed lost at 50 ms, was repeated at once, and is acknowledged 5 ms later.
/// latecomers.begin(at(55), &order);
/// latecomers.on_arrived(at(50), 1_400, Some(at(50)));
/// assert_eq!(latecomers.drain().collect::<Vec<_>>(), [Late { noticed_at: at(50), bytes: 1_400, doubled: 1_400 }]);
///
/// // A round trip later it is the repetition, as far as anybody knows.
/// latecomers.begin(at(90), &order);
/// latecomers.on_arrived(at(50), 1_400, Some(at(50)));
/// assert_eq!(latecomers.drain().count(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct Latecomers {
    late: Vec<Late>,
    /// No answer can have come yet to what left after that.
    no_answer_since: Time,
}

impl Default for Latecomers {
    fn default() -> Self {
        Self { late: Vec::new(), no_answer_since: Time::MAX }
    }
}

impl Latecomers {
    /// An answer has come.
    pub fn begin(&mut self, now: Time, order: &Reordering) {
        self.no_answer_since = order.no_answer_since(now);
    }

    /// `bytes` on the wire have arrived, by that answer, that were taken for lost at `noticed_at`, and repeated then, if they have
    /// been.
    pub fn on_arrived(&mut self, noticed_at: Time, bytes: u64, repeated_at: Option<Time>) {
        if repeated_at.is_some_and(|at| at <= self.no_answer_since) {
            return;
        }
        let doubled = if repeated_at.is_some() { bytes } else { 0 };
        match self.late.last_mut().filter(|last| last.noticed_at == noticed_at) {
            Some(last) => (last.bytes, last.doubled) = (last.bytes + bytes, last.doubled + doubled),
            None => self.late.push(Late { noticed_at, bytes, doubled }),
        }
    }

    /// What has turned out to be late.
    pub fn drain(&mut self) -> impl Iterator<Item = Late> + '_ {
        self.late.drain(..)
    }
}
