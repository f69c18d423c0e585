//! The application's structure shows the state of the machine after every call (paper, Appendix A).

use super::{Context, Role, moment};
use crate::xtp::machine::Machine;
use crate::xtp::types::*;
use pinnace_xtp::{Facts, Service};
use std::ptr::{self, NonNull};

impl Context {
    /// A call ends: the structure says how things are.
    pub(in crate::xtp) fn mirror(&mut self) {
        let soc = self.socket.descriptor();
        let sort = if self.block.mode_flags & XTP_SORT != 0 { self.block.sort_value } else { 0 };
        let role = self.role;
        let service = self.service();
        let (lying, Some(machine)) = (self.datagram, &self.machine) else {
            self.structure().soc = soc;
            return;
        };
        let facts = machine.facts();
        let (code, value) = machine.diag();
        let is_over = machine.end().is_some();
        let holes = match (&facts, service) {
            (Some(facts), Service::IsoStream) => {
                Some(machine.holes(machine.distance(facts.dseq, facts.rseq))).filter(|holes| !holes.is_empty())
            }
            _ => None,
        };
        let spans = match (&facts, holes) {
            (Some(facts), Some(holes)) => arrived(machine, facts, &holes),
            (Some(facts), None) if service != Service::IsoStream => facts.spans.clone(),
            _ => Vec::new(),
        };
        let end = lying.map(|lying| machine.number(lying.start, lying.len));
        let one_before = facts.as_ref().map(|facts| machine.number(facts.sent, u64::MAX));
        let lseq = facts.as_ref().map(|facts| machine.number(facts.sent, facts.queued));
        let spans_changed = !self.spans.iter().map(|span| (span.low, span.high)).eq(spans.iter().copied());
        if spans_changed {
            self.link_spans(&spans);
        }
        let first = self.spans.as_mut_ptr();
        let nspans = self.spans.len() as u32;
        let structure = self.structure();
        structure.soc = soc;
        structure.sort = sort;
        structure.nspans = nspans;
        structure.span = if nspans == 0 { ptr::null_mut() } else { first };
        structure.cstate = match &facts {
            _ if role == Role::Undecided => XTP_QUIESCENT,
            None => XTP_LISTENING,
            Some(facts) if facts.is_in_time_wait => XTP_TIME_WAIT,
            Some(facts) if facts.is_over || is_over => XTP_ENDED,
            Some(_) => XTP_ACTIVE,
        };
        if let Some(facts) = facts {
            if facts.acked != structure.bseq && facts.acked != facts.start {
                structure.t_end = moment();
            }
            structure.saved_sync = facts.sync;
            structure.recv_sync = facts.recv_sync;
            structure.should_xkey = facts.tells_key.into();
            structure.my_key = facts.my_key;
            structure.rem_key = facts.peer_key;
            (structure.hseq, structure.rseq, structure.dseq) = (facts.hseq, facts.rseq, facts.dseq);
            structure.bseq = facts.acked;
            structure.last_sent = one_before.unwrap_or(0);
            structure.xseq = facts.lost.unwrap_or(facts.acked);
            structure.lseq = lseq.unwrap_or(facts.sent);
            (structure.first_seq, structure.init_seq) = (facts.start.cast_signed(), facts.start);
        } else if let (Some(lying), Some(end)) = (lying, end) {
            (structure.hseq, structure.rseq) = (end, end);
            structure.dseq = if lying.is_taken { end } else { lying.start };
            (structure.first_seq, structure.init_seq) = (lying.start.cast_signed(), lying.start);
        }
        if (code, value) != (0, 0)
            && let Some(mut at) = NonNull::new(structure.cbloc)
        {
            // SAFETY: the application has promised a control block, and that nobody else uses it now.
            let block = unsafe { at.as_mut() };
            (block.code, block.value) = (code, value);
            (self.block.code, self.block.value) = (code, value);
        }
    }

    fn link_spans(&mut self, spans: &[(u64, u64)]) {
        let link =
            |(low, high): &(u64, u64)| xtpspan { low: *low, high: *high, next: ptr::null_mut(), prev: ptr::null_mut() };
        self.spans.clear();
        self.spans.extend(spans.iter().map(link));
        let (first, count) = (self.spans.as_mut_ptr(), self.spans.len());
        for (index, span) in self.spans.iter_mut().enumerate() {
            if index + 1 < count {
                span.next = first.wrapping_add(index + 1);
            }
            if index > 0 {
                span.prev = first.wrapping_add(index - 1);
            }
        }
    }
}

/// What has arrived of the bytes that can be read, of a stream without errors that has holes.
//= X-15
fn arrived(machine: &Machine, facts: &Facts, holes: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut spans = Vec::new();
    let mut low = 0;
    for (at, bytes) in holes {
        if *at > low {
            spans.push((machine.number(facts.dseq, low), machine.number(facts.dseq, *at)));
        }
        low = at + bytes;
    }
    if low < machine.distance(facts.dseq, facts.rseq) {
        spans.push((machine.number(facts.dseq, low), facts.rseq));
    }
    spans
}
