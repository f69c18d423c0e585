//! What the last train was paid for with, until it is known that it has left.
//!
//! A bucket that a train was paid from may earn nothing before the train leaves ([`Pacer::on_left`](crate::Pacer::on_left)),
//! which is later than when it was paid for: a system call and, on a busy machine, some other program's turn later. Always
//! true: of a train that was dropped instead of leaving nothing is told.
//= A-11
//= X-19

use crate::Train;

/// Who paid how much for the last train. `P` says whose bucket it was.
///
/// ```
/// use pinnace_core::{Departure, Train, TrainLimits};
/// let mut train = Train::new(TrainLimits::SINGLE);
/// let mut departure = Departure::default();
/// departure.begin();
/// departure.add("audio", 100, &mut train);
/// departure.add("audio", 60, &mut train);
/// assert_eq!(departure.drain().collect::<Vec<_>>(), [("audio", 160)]);
/// assert!(train.is_awaited());
/// departure.add("audio", 100, &mut train);
/// departure.begin(); // It was dropped: there was no room for it.
/// assert_eq!(departure.drain().next(), None);
/// ```
#[derive(Debug)]
pub struct Departure<P> {
    /// In the order of the payers, each once: what leaves for a group is paid for by every one of its members.
    paid: Vec<(P, u64)>,
}

impl<P> Default for Departure<P> {
    fn default() -> Self {
        Self { paid: Vec::new() }
    }
}

impl<P: Copy + Ord> Departure<P> {
    /// Another train begins. If nothing was said of the last one, it was dropped.
    pub fn begin(&mut self) {
        self.paid.clear();
    }

    /// `payer` paid for `bytes` that are in `train`, which has to tell when it leaves ([`Train::await_leaving`]).
    pub fn add(&mut self, payer: P, bytes: u64, train: &mut Train) {
        match self.paid.binary_search_by_key(&payer, |paid| paid.0) {
            Ok(at) => self.paid[at].1 = self.paid[at].1.saturating_add(bytes),
            Err(at) => self.paid.insert(at, (payer, bytes)),
        }
        train.await_leaving();
    }

    /// The train has left: who paid, and how many bytes each.
    pub fn drain(&mut self) -> impl Iterator<Item = (P, u64)> {
        self.paid.drain(..)
    }
}
