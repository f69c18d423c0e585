//! What seemed to be lost and has arrived after all.

use super::{Flights, Run, State};
use pinnace_core::Time;

/// Bytes that seemed to be lost, and have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Late {
    pub(in super::super) lost_at: Time,
    /// On the wire.
    pub(in super::super) bytes: u64,
}

/// What was late since this was last asked.
#[derive(Debug)]
pub(super) struct Latecomers {
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
    /// So many bytes on the wire of `run` have arrived.
    pub(super) fn on_arrived(&mut self, run: &Run, bytes: u64) {
        let is_late = match run.state {
            State::UnderWay => run.is_repetition && run.stamp.sent_at > self.no_answer_since,
            State::Lost => bytes > 0,
            State::Acked => false,
        };
        match self.late.last_mut().filter(|last| is_late && last.lost_at == run.lost_at) {
            Some(last) => last.bytes += bytes,
            None if is_late => self.late.push(Late { lost_at: run.lost_at, bytes }),
            None => {}
        }
    }
}

impl Flights {
    /// Before a status is taken in: no answer to what left after that can be in it.
    pub(in super::super) fn expect_no_answer_since(&mut self, at: Time) {
        self.latecomers.no_answer_since = at;
    }

    /// What has turned out to be late.
    pub(in super::super) fn drain_late(&mut self) -> impl Iterator<Item = Late> + '_ {
        self.latecomers.late.drain(..)
    }

    /// When the byte at `offset` was last taken for lost.
    pub(super) fn lost_at(&self, offset: u64) -> Time {
        self.runs.get(self.find(offset)).map_or(Time::ZERO, |run| run.lost_at)
    }
}
