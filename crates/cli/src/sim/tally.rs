//! How every message ended, at its sender and at its receiver.
//!
//! Always true: an end is told once; what comes later about the same message changes nothing.

use core::fmt::Display;
use pinnace_core::Time;
use std::cell::RefCell;
use std::rc::Rc;

/// What came of a message where it went well; at a sender the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Got {
    /// Bytes that its contract let go.
    pub(crate) lost: u64,
    /// What is there is not what was sent.
    pub(crate) is_altered: bool,
}

/// Why it did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// The other end has not answered for too long.
    pub(crate) is_peer_gone: bool,
    pub(crate) why: String,
}

impl Failed {
    pub(super) fn new(is_peer_gone: bool, why: impl Display) -> Self {
        Self { is_peer_gone, why: why.to_string() }
    }
}

/// The end of a message at one end.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) at: Time,
    pub(crate) result: Result<Got, Failed>,
}

impl End {
    /// Whether what is there is what was sent, but for what its contract let go.
    pub(crate) fn is_verified(&self) -> bool {
        matches!(self.result, Ok(Got { is_altered: false, .. }))
    }
}

/// Which end tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Sender,
    Receiver,
}

/// Shared by the two programs.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// At the sender, at the receiver.
    ends: Vec<[Option<End>; 2]>,
    missing: usize,
    /// Receivers that will never be told of their messages: nobody knows there that they exist.
    unknown: usize,
}

/// What both programs have.
pub(super) type Shared = Rc<RefCell<Tally>>;

impl Tally {
    pub(super) fn new(messages: usize) -> Self {
        Self { ends: (0..messages).map(|_| [None, None]).collect(), missing: 2 * messages, unknown: 0 }
    }

    /// Message `number` has ended at `side`.
    pub(super) fn end(&mut self, at: Time, side: Side, number: usize, result: Result<Got, Failed>) {
        if let Some(end @ None) = self.ends.get_mut(number).map(|ends| &mut ends[side as usize]) {
            *end = Some(End { at, result });
            self.missing -= 1;
        }
    }

    /// All that has not ended at `side` fails.
    pub(super) fn fail(&mut self, at: Time, side: Side, failed: &Failed) {
        for number in 0..self.ends.len() {
            self.end(at, side, number, Err(failed.clone()));
        }
    }

    /// Nobody will tell the receiver of so many messages more.
    pub(super) fn never_told(&mut self, messages: usize) {
        self.unknown += messages;
    }

    /// Whether `side` knows how message `number` ended.
    pub(super) fn has_ended(&self, side: Side, number: usize) -> bool {
        self.ends.get(number).is_none_or(|ends| ends[side as usize].is_some())
    }

    /// Messages of which `side` has not heard how they ended.
    pub(super) fn open(&self, side: Side) -> usize {
        self.ends.iter().filter(|ends| ends[side as usize].is_none()).count()
    }

    /// The message of `size` that has not ended at the receiver, and of which `is_it` says that it is the one.
    pub(super) fn find(&self, sizes: &[u32], size: u32, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let open =
            self.ends.iter().zip(sizes).enumerate().filter(|(_, (ends, len))| ends[1].is_none() && **len == size);
        open.map(|(number, _)| number).find(|&number| is_it(number))
    }

    /// Whether both ends know of every message.
    pub(super) fn is_complete(&self) -> bool {
        self.missing <= self.unknown
    }

    pub(super) fn into_ends(self) -> Vec<[Option<End>; 2]> {
        self.ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_once_and_the_rest_fails() {
        let mut tally = Tally::new(2);
        let gone = Failed::new(true, "gone");
        tally.end(Time::ZERO, Side::Sender, 0, Ok(Got::default()));
        tally.fail(Time::from_nanos(5), Side::Sender, &gone);
        tally.end(Time::ZERO, Side::Receiver, 1, Ok(Got { lost: 3, is_altered: false }));
        tally.end(Time::ZERO, Side::Receiver, 7, Ok(Got::default()));
        assert_eq!((tally.open(Side::Sender), tally.open(Side::Receiver), tally.is_complete()), (0, 1, false));
        assert_eq!(tally.find(&[4, 4], 4, |_| true), Some(0));
        assert_eq!((tally.find(&[4, 4], 5, |_| true), tally.find(&[4, 4], 4, |number| number > 0)), (None, None));
        tally.never_told(1);
        assert!(tally.is_complete());
        let [[first, none], [second, third]] = tally.into_ends().try_into().expect("two");
        assert!(first.is_some_and(|end| end.is_verified()) && none.is_none());
        assert!(second.is_some_and(|end| end.result == Err(gone)) && third.is_some_and(|end| end.is_verified()));
    }
}
