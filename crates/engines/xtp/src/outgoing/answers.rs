//! What statuses say.

use super::asks::Named;
use super::{Active, Outgoing};
use core::time::Duration;
use pinnace_core::Time;

/// A status, its numbers as stream offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard<'a> {
    pub(crate) rseq: u64,
    pub(crate) alloc: u64,
    pub(crate) echo: u32,
    pub(crate) spans: &'a [(u64, u64)],
    /// The sync of its packet is older than the newest one: it can only raise rseq and alloc.
    pub(crate) is_old: bool,
    /// Its packet asks, too: it left when its sender wanted to know something, not when it was asked.
    pub(crate) is_question: bool,
}

/// What a status has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// User bytes that it is the first to acknowledge.
    pub(crate) acked: u64,
    /// User bytes that are to be repeated because of it; or were lost, where nothing is repeated.
    pub(crate) lost: u64,
    /// It speaks of what was never sent; nothing of it has been used.
    pub(crate) is_invalid: bool,
    /// It names an expiry's packet or a later one: the series ends.
    pub(crate) echoes_expiry: bool,
    /// It said something new: of rseq, of a span, of alloc, or the answer to an ask.
    pub(crate) progressed: bool,
    /// What has to leave next was beyond alloc, and no longer is.
    pub(crate) opened: bool,
    /// What has to leave next is beyond alloc, as before, and nothing has changed but that an ask is answered.
    pub(crate) is_still_shut: bool,
}

impl Outgoing {
    /// A status came.
    //= X-8
    pub(crate) fn on_status(&mut self, now: Time, heard: &Heard<'_>) -> Outcome {
        let named = self.asks.named(heard.echo);
        let speaks_of_unsent = |&(low, high): &(u64, u64)| low >= high || high > self.sent;
        if heard.rseq > self.sent || heard.spans.iter().any(speaks_of_unsent) || named == Named::Nothing {
            return Outcome { is_invalid: true, ..Outcome::default() };
        }
        let mut outcome = Outcome::default();
        let was_shut = self.is_shut();
        let alloc = self.alloc;
        // The first one replaces the allowance for the time before it.
        if !self.has_status || heard.alloc > self.alloc {
            outcome.progressed = self.alloc != heard.alloc;
            self.has_status = true;
            self.alloc = heard.alloc;
        }
        match named {
            Named::Ask { number, asked_at, is_newer } if !heard.is_old => {
                outcome.echoes_expiry = self.asks.answered(heard.echo);
                outcome.progressed |= is_newer;
                // No answer asks (specs/xtp.md, 3.4): the echo of a question may name what was answered long ago, in vain.
                let rtt = asked_at.filter(|_| !heard.is_question).map(|asked_at| now.since(asked_at));
                if let Some(rtt) = rtt {
                    self.rtt.on_sample(rtt);
                }
                self.use_status(now, heard, number, rtt, &mut outcome);
            }
            _ => outcome.acked = self.ack_below(now, heard.rseq),
        }
        outcome.progressed |= outcome.acked > 0;
        outcome.opened = was_shut && !self.is_shut();
        let is_news = self.alloc != alloc || outcome.acked > 0 || outcome.lost > 0;
        outcome.is_still_shut = !is_news && self.is_beyond_alloc();
        outcome
    }

    /// Whether what has to leave next is beyond alloc.
    fn is_shut(&self) -> bool {
        self.next_offset().unwrap_or(self.sent) >= self.alloc
    }

    /// Whether something has to leave and is beyond alloc.
    pub(crate) fn is_beyond_alloc(&self) -> bool {
        self.next_offset().is_some_and(|offset| offset >= self.alloc)
    }

    /// Raises rseq; returns how many bytes are new.
    pub(super) fn ack_below(&mut self, now: Time, rseq: u64) -> u64 {
        let mut acked = 0;
        if let Some(active) = self.active.as_deref_mut().filter(|_| rseq > self.acked) {
            let Active { flights, path, doubt, .. } = active;
            flights.latecomers.begin(now, &path.order);
            acked = flights.ack_below(rseq, 0, |bytes, stamp| path.delivery.on_packet_acked(now, bytes, stamp));
            doubt.on_arrived(flights.take_largest_acked());
            path.on_late(now, flights.latecomers.drain());
            let ack = path.delivery.finish(now, None, flights.bytes());
            path.on_feedback(now, ack, flights.bytes());
        }
        self.acked = self.acked.max(rseq);
        acked
    }

    /// Takes all that a status says: what arrived first, then what was overtaken by it or by the packet that asked, which
    /// is the transmission `asker`.
    //= X-11
    //= X-13
    fn use_status(&mut self, now: Time, heard: &Heard<'_>, asker: u64, rtt: Option<Duration>, outcome: &mut Outcome) {
        self.acked = self.acked.max(heard.rseq);
        let Some(active) = self.active.as_deref_mut() else { return };
        let Active { flights, path, doubt, .. } = active;
        flights.latecomers.begin(now, &path.order);
        let mut deliver = |bytes: u64, stamp: &_| path.delivery.on_packet_acked(now, bytes, stamp);
        let before = self.asks.first_unanswered();
        outcome.acked = flights.ack_below(heard.rseq, before, &mut deliver);
        for &span in heard.spans {
            outcome.acked += flights.ack_span(span, before, &mut deliver);
        }
        doubt.on_arrived(flights.take_largest_acked());
        path.on_late(now, flights.latecomers.drain());
        let mut lost = flights.overtake(now, asker.max(flights.newest_acked()), !self.no_error);
        if self.go_back_n && !self.no_error {
            flights.go_back(&mut lost);
        }
        outcome.lost = lost.bytes;
        let in_flight_after = flights.bytes();
        path.on_noticed(now, lost.wire, lost.sent_at);
        let ack = path.delivery.finish(now, rtt, in_flight_after);
        path.on_feedback(now, ack, in_flight_after);
    }
}
