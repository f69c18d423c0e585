//! A receiver of a stream to a group: it answers late, and only if nobody has said the same.
//= X-22

use super::{SLOT, is_last};
use crate::context::{Context, Phase};
use crate::receive::{self, Packet};
use crate::shared::Shared;
use crate::{Failure, ListenerId, Service};
use core::time::Duration;
use pinnace_core::{Address, Placed, Segment, Seq32, Time};
use pinnace_wire::xtp::{self, Header, Kind, Options, Spans, Status};
use std::collections::VecDeque;

/// Answers that wait. An ask beyond is not answered: its bucket has the answers of others.
const MAX_ANSWERS: usize = 64;
/// A status is no larger than the smallest path carries.
const STATUS_BYTES: usize = 1232;

/// A status that goes out, if nobody says the same before.
#[derive(Clone, Copy, Debug)]
struct Answer {
    at: Time,
    echo: u32,
}

/// What of a stream tells a FIRST of its own from that of the next stream with the same name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    /// Where it began; `None`: we joined later.
    pub(super) start: Option<u64>,
    /// Its newest sync, if END has come: nothing new of it comes behind.
    pub(super) end: Option<Seq32>,
}

impl Past {
    /// Whether a FIRST begins another stream.
    //= X-10
    pub(super) fn is_before(&self, first: &Header) -> bool {
        self.start.is_some_and(|start| start != first.seq)
            || self.end.is_some_and(|sync| sync.before(Seq32::new(first.sync)))
    }
}

/// The receiver's side of a stream to a group.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) group: Address,
    pub(super) listener: ListenerId,
    answers: VecDeque<Answer>,
    pub(super) past: Past,
    pub(super) date: Option<Time>,
}

impl Member {
    pub(super) fn new(group: Address, listener: ListenerId, past: Past) -> Self {
        Self { group, listener, answers: VecDeque::new(), past, date: None }
    }

    pub(super) fn on_packet(
        &mut self,
        now: Time,
        shared: &mut Shared,
        context: &mut Context,
        rx: &mut Placed<'_>,
        segment: &Segment,
        packet: &Packet<'_>,
    ) {
        if context.phase != Phase::Active {
            return;
        }
        let options = packet.header.options;
        context.last_heard = now;
        // Nothing of ours comes back from a group's sender: it is never proved where it is.
        context.proof.allowance.earn(1, packet.bytes);
        //= X-10
        let is_old = Seq32::new(packet.header.sync).before(Seq32::new(context.recv_sync));
        if !is_old {
            context.recv_sync = packet.header.sync;
        }
        if let Some(data) = &packet.data {
            receive::on_data(context, shared, now, rx, segment, packet, data);
        } else if options.contains(Options::WCLOSE) {
            receive::on_end_told(context, shared, now, rx, packet.header);
        }
        if !is_old && context.service == Service::Multicast {
            //= X-7
            let is_due = options.contains(Options::DREQ) && !receive::is_deferred(context, packet);
            if is_due || options.contains(Options::SREQ) {
                self.owe(now, shared, packet.header.sync);
            }
        }
        if is_last(options) {
            self.past.end = Some(Seq32::new(context.recv_sync));
            let result = if context.incoming.is_complete() { Ok(()) } else { Err(Failure::Forced) };
            context.phase = Phase::Over;
            context.conclude(shared, result);
        }
    }

    /// A status is due within the slot.
    fn owe(&mut self, now: Time, shared: &mut Shared, echo: u32) {
        if self.answers.len() < MAX_ANSWERS && self.answers.iter().all(|answer| answer.echo != echo) {
            let delay = shared.secrets.draw() % (SLOT.as_nanos() as u64 + 1);
            self.answers.push_back(Answer { at: now + Duration::from_nanos(delay), echo });
        }
    }

    /// Somebody else has answered. Whoever misses no more, and takes no less, has nothing to add.
    pub(super) fn on_heard(&mut self, context: &mut Context, status: &Status<'_>) {
        if !self.answers.iter().any(|answer| answer.echo == status.echo) || context.phase != Phase::Active {
            return;
        }
        let (space, rseq) = (context.space, context.incoming.rseq());
        // What lies before our stream we do not miss.
        let offset = |number| space.offset(number, rseq).unwrap_or(0);
        let has = |low: u64, high: u64| {
            high <= rseq || context.incoming.spans().any(|span| span.start <= low.max(rseq) && high <= span.end)
        };
        let misses_all =
            offset(status.rseq) <= rseq && status.spans.iter().all(|(low, high)| has(offset(low), offset(high)));
        if misses_all && offset(status.alloc) <= context.incoming.alloc() {
            self.answers.retain(|answer| answer.echo != status.echo);
        }
    }

    /// Does what is due; returns a packet for the group.
    pub(super) fn tick(&mut self, now: Time, shared: &mut Shared, context: &mut Context) -> Option<Vec<u8>> {
        if context.phase != Phase::Active {
            return None;
        }
        if self.patient_until(context) <= now {
            let result = if context.incoming.is_complete() { Ok(()) } else { Err(Failure::Abandoned) };
            context.phase = Phase::Over;
            context.conclude(shared, result);
            return None;
        }
        let index = self.answers.iter().position(|answer| answer.at <= now)?;
        let answer = self.answers.remove(index)?;
        Some(write_answer(shared, context, answer.echo))
    }

    /// How long silence is borne: whoever has everything waits for END only.
    //= X-11
    fn patient_until(&self, context: &Context) -> Time {
        let patience = match context.incoming.is_complete() {
            true => context.time_wait(),
            false => context.block.ctimer.saturating_add(context.block.ctimeout),
        };
        context.last_heard + patience
    }

    pub(super) fn next_date(&self, context: &Context) -> Time {
        let answer = self.answers.iter().map(|answer| answer.at).min();
        answer.into_iter().chain([self.patient_until(context)]).min().unwrap_or(Time::MAX)
    }

    /// Something has happened; what is to be told unasked waits like everything else.
    pub(super) fn settle(&mut self, now: Time, shared: &mut Shared, context: &mut Context) {
        while let Some(sync) = context.pop_deferred() {
            self.owe(now, shared, sync);
        }
        if context.owed.take().is_some() && self.answers.is_empty() && context.service == Service::Multicast {
            self.owe(now, shared, context.recv_sync);
        }
    }
}

/// CNTL or ECNTL, with the sender's key, RTN and MULTI, and RCLOSE once everything is here; our own sync and seq are 0.
fn write_answer(shared: &mut Shared, context: &mut Context, echo: u32) -> Vec<u8> {
    let space = context.space;
    let mut spans = core::mem::take(&mut shared.spans);
    spans.clear();
    let largest = STATUS_BYTES.min(shared.datagram_bytes(context.peer)).min(context.datagram_left(shared));
    let most = context.codec().max_spans(largest);
    spans.extend(context.incoming.spans().take(most).map(|span| (space.number(span.start), space.number(span.end))));
    let kind = if spans.is_empty() { Kind::Cntl } else { Kind::Ecntl };
    let options = Options::NONE.with_if(context.incoming.is_complete(), Options::RCLOSE);
    let header = context.header(kind, options, 0, 0);
    let status = Status {
        rseq: space.number(context.incoming.rseq()),
        alloc: space.number(context.incoming.alloc()),
        echo,
        spans: Spans::from_slice(&spans),
        xkey: 0,
        traffic: None,
        clock: None,
        hseq: space.number(context.incoming.hseq()),
    };
    let mut bytes = Vec::new();
    xtp::status(&header, &status, &mut bytes);
    shared.spans = spans;
    shared.counters.statuses_sent += 1;
    context.on_leaves(bytes.len());
    bytes
}
