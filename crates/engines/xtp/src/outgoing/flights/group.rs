//! What a group takes back: bytes that everybody seemed to have, and somebody has not.

use super::{Flights, Lost, State};

impl Flights {
    /// The bytes `[low, high)` are missing somewhere. Of those that counted as arrived, all whose latest transmission has
    /// a number below `number` are to be repeated.
    pub(in crate::outgoing) fn retract(&mut self, low: u64, high: u64, number: u64, found: &mut Lost) {
        let low = low.max(self.base);
        if low >= high {
            return;
        }
        let mut index = self.find(low);
        while let Some(&run) = self.runs.get(index)
            && run.low < high
        {
            let from = run.low.max(low);
            let overtaken =
                run.origin.saturating_add(number.saturating_sub(run.number).saturating_mul(run.size.into()));
            let to = run.high.min(high).min(overtaken);
            if run.state != State::Acked || from >= to {
                index += 1;
                continue;
            }
            found.bytes += to - from;
            found.first = Some(found.first.map_or(from, |first| first.min(from)));
            self.lost.insert(from..to);
            index = self.mark(index, from, to, State::Lost, run.lost_at);
        }
    }
}
