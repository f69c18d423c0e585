//! The sender of a stream to a group: its buckets, and what it concludes from them.
//!
//! Always true: the buckets are in the order of the asks, and close in that order; while an answer could still change
//! something, either a bucket is open, or packets leave that ask, or `next` is set.
//= X-22

use super::bucket::Bucket;
use super::estimate::Estimate;
use super::{AGREEING, SLOT, tell_too_late};
use crate::context::{Context, Phase};
use crate::outgoing::{Asking, GroupHeard};
use crate::shared::Shared;
use crate::{ControlBlock, Event, Failure, Service};
use core::time::Duration;
use pinnace_core::{Address, Time};
use pinnace_wire::xtp::{Code, Header, Options, Status, Value};
use std::collections::VecDeque;

/// Buckets that are open at a time. An ask beyond has none, and its answers say nothing.
const MAX_BUCKETS: usize = 256;
/// WTIMER is never shorter.
const FLOOR: Duration = Duration::from_millis(10);
/// No round trip counts as longer than so many times the WTIMER that waits for the first of them.
const MOST_WAITS: u32 = 4;
/// WTIMER doubles at most so often.
const MOST_DOUBLINGS: u32 = 4;
/// END is sent so often: nobody answers it.
const ENDS: u32 = 3;

/// The sender's side of a stream to a group.
#[derive(Debug)]
pub(super) struct Sender {
    buckets: VecDeque<Bucket>,
    /// The newest ask that has, or had, a bucket.
    asked: u32,
    round_trip: Estimate,
    /// When the last answered buckets were asked for, and their rseq: as many as have to agree.
    agreed: VecDeque<(Time, u64)>,
    /// Expiries in a row.
    silent: u32,
    /// What buckets that were asked before this show in vain counts no more: they are all of one round.
    judged_at: Time,
    /// The stream has ended; so many buckets have shown nothing new since.
    fruitless: u32,
    /// The best that was shown since: base, rseq, bytes missing.
    shown: (u64, u64, u64),
    /// The most bytes that were missing since, and how many were to be repeated.
    most_missing: u64,
    repeated: u64,
    /// So many rounds in a row nothing has gone on: the largest of the buckets' rseq, and the largest rseq and alloc that
    /// anybody has shown meanwhile.
    stuck: u32,
    hindmost: u64,
    foremost: (u64, u64),
    ends_left: u32,
    /// When END may be said again to somebody who has not heard it.
    quiet_until: Time,
    /// When something is to be said of itself.
    next: Option<Time>,
    /// What had been sent when `next` was put off last, and whether the end was.
    seen_sent: (u64, bool),
    pub(super) date: Option<Time>,
}

/// So many answered buckets in a row have to agree: as X-22 says, no more than `retry_count`.
fn agreeing(context: &Context) -> usize {
    AGREEING.min(context.block.retry_count.max(1) as usize)
}

impl Sender {
    pub(super) fn new(block: &ControlBlock, sync: u32) -> Self {
        // No honest round trip is longer than an hour, and no sum of such overflows.
        let most = block.wtimer.max(FLOOR).saturating_mul(MOST_WAITS).min(Duration::from_secs(3600));
        Self {
            buckets: VecDeque::new(),
            asked: sync,
            round_trip: Estimate::new(block.mc_rttgain, block.mc_rttvgain, most),
            agreed: VecDeque::new(),
            silent: 0,
            judged_at: Time::ZERO,
            fruitless: 0,
            shown: (0, 0, u64::MAX),
            most_missing: 0,
            repeated: 0,
            stuck: 0,
            hindmost: 0,
            foremost: (0, 0),
            ends_left: 0,
            quiet_until: Time::ZERO,
            next: None,
            seen_sent: (0, false),
            date: None,
        }
    }

    fn slot(&self) -> Duration {
        self.round_trip.smoothed().unwrap_or(SLOT).max(SLOT)
    }

    fn wtimer(&self, context: &Context) -> Duration {
        self.round_trip.timeout().unwrap_or(context.block.wtimer).max(FLOOR)
    }

    /// How long a bucket is open.
    fn wait(&self, context: &Context) -> Duration {
        self.slot().saturating_add(self.wtimer(context)).saturating_mul(1 << self.silent.min(MOST_DOUBLINGS))
    }

    /// Buckets in a row without an answer, or without progress, before that has consequences.
    fn patience(context: &Context) -> u32 {
        match context.block.mc_drops {
            0 => context.block.retry_count.max(1),
            drops => drops.into(),
        }
    }

    /// Something has happened, or has left.
    pub(super) fn settle(&mut self, now: Time, shared: &mut Shared, context: &mut Context) {
        if context.phase != Phase::Active {
            return;
        }
        let is_asking = self.asked != context.outgoing.sync();
        while self.asked != context.outgoing.sync() {
            self.asked = self.asked.wrapping_add(1);
            if self.buckets.len() < MAX_BUCKETS {
                let last = self.buckets.back().map_or(now, |bucket| bucket.closes_at);
                let closes_at = (now + self.wait(context)).max(last);
                self.buckets.push_back(Bucket::new(self.asked, now, closes_at));
            }
        }
        if context.service == Service::UnackMulticast {
            context.heard |= context.first.has_left;
            context.outgoing.forget_sent();
        }
        context.report_sent(shared);
        // The end leaves without data if these have left before it was said.
        let sent = (context.outgoing.sent(), context.wclose_sent);
        if is_asking || sent != self.seen_sent || self.next.is_none() {
            self.seen_sent = sent;
            self.next = Some(now + self.pause(context));
        }
    }

    /// How long nothing may be said. Receivers bear a silence of CTIMER and CTIMEOUT.
    fn pause(&self, context: &Context) -> Duration {
        if context.service == Service::UnackMulticast && context.wclose_sent {
            return SLOT;
        }
        if context.service == Service::Multicast && self.lacks_answer(context) {
            return self.wait(context);
        }
        context.block.ctimer / 2
    }

    /// Whether an answer could still change something.
    fn lacks_answer(&self, context: &Context) -> bool {
        context.first.has_left
            && (context.outgoing.acked() < context.outgoing.sent()
                || context.outgoing.queued() > context.outgoing.sent()
                || context.wclose_sent
                || context.outgoing.is_unheard())
    }

    pub(super) fn next_date(&self, now: Time, context: &Context) -> Option<Time> {
        let next = match (context.phase, self.buckets.front()) {
            (Phase::Active, Some(bucket)) => Some(bucket.closes_at),
            (Phase::Active, None) if context.first.has_left => self.next,
            (Phase::TimeWait(_), _) => self.next.filter(|_| self.ends_left > 0),
            _ => None,
        };
        // What is due now is done when the clock moves on.
        next.map(|at| at.max(now + Duration::from_micros(1)))
    }

    /// Closes the buckets that are due, and asks if nothing else does.
    pub(super) fn tick(&mut self, now: Time, shared: &mut Shared, context: &mut Context) {
        while context.phase == Phase::Active
            && let Some(bucket) = self.buckets.pop_front_if(|bucket| bucket.closes_at <= now)
        {
            self.close(now, shared, context, bucket);
        }
        match context.phase {
            Phase::Active => self.ask(now, shared, context),
            Phase::TimeWait(_) if self.ends_left > 0 && self.next.is_some_and(|at| at <= now) => {
                self.ends_left -= 1;
                self.next = Some(now + self.wait(context));
                context.owe(context.recv_sync);
            }
            _ => {}
        }
    }

    fn ask(&mut self, now: Time, shared: &mut Shared, context: &mut Context) {
        let is_due = self.next.is_some_and(|at| at <= now);
        if is_due {
            self.next = Some(now + self.wait(context));
        }
        if !context.first.has_left || context.first.is_due || context.ask_due.is_some() {
            return;
        }
        if context.service == Service::UnackMulticast {
            if is_due && context.wclose_sent {
                self.fruitless += 1;
                if self.fruitless > 1 {
                    self.end(now, shared, context);
                    return;
                }
            }
            if is_due {
                context.ask_due = Some(Asking::No);
                self.next = Some(now + self.pause(context));
            }
            return;
        }
        if !self.buckets.is_empty() || shared.is_held {
            return;
        }
        let asks_itself = context.outgoing.has_to_send(&context.terms(shared)) && self.silent == 0;
        if is_due || (self.lacks_answer(context) && !asks_itself) {
            if self.silent > 0 && context.outgoing.is_unheard() {
                // Nobody was there, or the FIRST was lost.
                context.first.is_due = true;
            } else {
                context.ask_due = Some(if self.silent > 0 { Asking::Expiry } else { Asking::Status });
            }
        }
    }

    /// A status has come, of one for whom it came from `source`.
    pub(super) fn on_status(
        &mut self,
        now: Time,
        source: Address,
        shared: &mut Shared,
        context: &mut Context,
        header: &Header,
        status: &Status<'_>,
    ) {
        match context.phase {
            Phase::Active => {}
            Phase::TimeWait(_) => {
                if !header.options.contains(Options::END) && now >= self.quiet_until {
                    self.quiet_until = now + SLOT;
                    context.owe(context.recv_sync);
                }
                return;
            }
            Phase::Fresh | Phase::Over => return,
        }
        let (space, acked, sent) = (context.space, context.outgoing.acked(), context.outgoing.sent());
        if !context.outgoing.is_open_ask(status.echo) {
            // Of an answered ask, or a late one, nothing can be learned; of one that never was, less.
            let is_older = status.echo.wrapping_sub(context.outgoing.sync()).cast_signed() <= 0;
            shared.counters.statuses_invalid += u64::from(!is_older);
            return;
        }
        let rseq = space.offset(status.rseq, acked);
        let mut spans = core::mem::take(&mut shared.spans);
        spans.clear();
        let mut low = rseq;
        let mut is_valid = rseq.is_none_or(|rseq| rseq <= sent);
        for span in status.spans {
            let near = low.unwrap_or(acked);
            let Some((span_low, span_high)) = space.offset(span.0, near).zip(space.offset(span.1, near)) else {
                is_valid = false;
                break;
            };
            is_valid &= low.is_none_or(|low| low < span_low) && span_low < span_high && span_high <= sent;
            low = Some(span_high);
            spans.push((span_low, span_high));
        }
        if is_valid {
            self.on_valid_status(now, source, shared, context, header, status, rseq, &spans);
        } else {
            shared.counters.statuses_invalid += 1;
        }
        shared.spans = spans;
    }

    #[expect(clippy::too_many_arguments, reason = "a status with all that was found out about it")]
    fn on_valid_status(
        &mut self,
        now: Time,
        source: Address,
        shared: &mut Shared,
        context: &mut Context,
        header: &Header,
        status: &Status<'_>,
        rseq: Option<u64>,
        spans: &[(u64, u64)],
    ) {
        if !core::mem::replace(&mut context.heard, true) {
            let context = context.id();
            shared.events.push_back(Event::Connected { context });
        }
        context.last_heard = now;
        let Some(rseq) = rseq.filter(|rseq| *rseq >= context.outgoing.acked()) else {
            tell_too_late(now, shared, source, header);
            return;
        };
        let Some(bucket) = self.buckets.iter_mut().find(|bucket| bucket.echo == status.echo) else { return };
        if let Some(sample) = context.outgoing.round_trip_of(now, status.echo) {
            self.round_trip.on_sample(sample);
        }
        let alloc = context.space.offset(status.alloc, rseq).unwrap_or(0);
        bucket.add(rseq, alloc, spans);
    }

    /// Somebody joins; returns where its stream begins. What it lacks counts from now on.
    pub(super) fn on_join(&mut self, context: &Context) -> u64 {
        let start = context.outgoing.joint();
        for bucket in &mut self.buckets {
            bucket.add_guest(start);
        }
        for (_, rseq) in &mut self.agreed {
            *rseq = start.min(*rseq);
        }
        start
    }

    fn close(&mut self, now: Time, shared: &mut Shared, context: &mut Context, mut bucket: Bucket) {
        let sent = context.outgoing.sent();
        if bucket.answers == 0 && context.wclose_sent && self.agreed.back().is_some_and(|(_, rseq)| *rseq == sent) {
            // Who has shown everything may be gone; who lacks something would say so.
            bucket.add(sent, context.outgoing.alloc(), &[]);
        }
        let bucket = &bucket;
        if bucket.answers == 0 {
            self.on_silence(now, shared, context, bucket);
            return;
        }
        self.silent = 0;
        let rseq = bucket.rseq.min(sent);
        self.agreed.push_back((bucket.asked_at, bucket.needed_from().min(sent)));
        while self.do_agree(context, 1) || self.agreed.len() > MAX_BUCKETS {
            self.agreed.pop_front();
        }
        let held_from = if self.do_agree(context, 0) { self.least_needed() } else { 0 };
        let spans: Vec<_> = bucket.spans(sent).map(|span| (span.start, span.end)).collect();
        let alloc_before = context.outgoing.alloc();
        let heard = GroupHeard { rseq, spans: &spans, alloc: bucket.alloc, echo: bucket.echo, held_from };
        let repeated = context.outgoing.on_group(now, &heard);
        let is_new_round = bucket.asked_at >= self.judged_at;
        if is_new_round {
            self.judged_at = now;
        }
        self.pass_by(now, context, bucket, alloc_before, is_new_round);
        context.is_blocked = false;
        if context.wclose_sent {
            self.repeated = self.repeated.saturating_add(repeated);
            self.on_closing(now, shared, context, bucket, is_new_round);
        }
    }

    /// Whether the answered buckets are enough, without the first so many of them.
    fn do_agree(&self, context: &Context, without: usize) -> bool {
        let (Some((first, _)), Some((last, _))) = (self.agreed.get(without), self.agreed.back()) else { return false };
        // A member may have lost what asked for all of them in one burst. That takes one more at the end of a stream.
        let are_spread = last.since(*first) >= self.slot() || context.block.retry_count as usize <= AGREEING;
        self.agreed.len() - without >= agreeing(context) && are_spread
    }

    /// Where what somebody needs begins, as far as anybody has said: what those say whose asks came later counts, too.
    fn least_needed(&self) -> u64 {
        let agreed = self.agreed.iter().map(|(_, rseq)| *rseq);
        agreed.chain(self.buckets.iter().map(Bucket::needed_from)).min().unwrap_or(0)
    }

    /// Nobody waits for one receiver: if nothing goes on because of what the last ones say, the foremost one has its way.
    fn pass_by(&mut self, now: Time, context: &mut Context, bucket: &Bucket, alloc_before: u64, is_new_round: bool) {
        let (acked, sent) = (context.outgoing.acked(), context.outgoing.sent());
        let goes_on = bucket.needed_from() > self.hindmost || context.outgoing.alloc() > alloc_before;
        let is_all = acked == sent && context.outgoing.queued() == sent;
        if goes_on || is_all {
            self.hindmost = self.hindmost.max(bucket.needed_from());
            (self.stuck, self.foremost) = (0, (0, 0));
            return;
        }
        self.foremost = (self.foremost.0.max(bucket.most_rseq), self.foremost.1.max(bucket.most_alloc));
        self.stuck += u32::from(is_new_round);
        let (rseq, alloc) = self.foremost;
        if self.stuck < Self::patience(context) || (rseq <= acked && alloc <= context.outgoing.alloc()) {
            return;
        }
        (self.stuck, self.foremost) = (0, (0, 0));
        self.hindmost = rseq;
        let rseq = rseq.min(sent);
        self.agreed.iter_mut().for_each(|(_, agreed)| *agreed = rseq.max(*agreed));
        let heard = GroupHeard { rseq, spans: &[], alloc, echo: bucket.echo, held_from: rseq };
        context.outgoing.on_group(now, &heard);
    }

    /// The stream has ended: do all have it? While they get on, more buckets are asked for than `retry_count`, but no more is
    /// repeated than in so many if all of them showed the same: who says that he lacks a byte less each time has no right to more.
    fn on_closing(
        &mut self,
        now: Time,
        shared: &mut Shared,
        context: &mut Context,
        bucket: &Bucket,
        is_new_round: bool,
    ) {
        let (acked, sent) = (context.outgoing.acked(), context.outgoing.sent());
        let retries = context.block.retry_count.max(1);
        if acked == sent && self.do_agree(context, 0) && self.agreed.iter().all(|(_, rseq)| *rseq == sent) {
            self.end(now, shared, context);
            return;
        }
        self.most_missing = self.most_missing.max(bucket.missing(sent));
        let is_spent = self.repeated > self.most_missing.saturating_mul(retries.into());
        let (base, rseq, missing) = self.shown;
        let needed_from = bucket.needed_from().min(sent);
        let shown = (acked.max(base), needed_from.max(rseq), bucket.missing(sent).min(missing));
        if shown != self.shown && !is_spent {
            (self.shown, self.fruitless) = (shown, 0);
            return;
        }
        self.fruitless += u32::from(is_new_round);
        if self.fruitless >= retries || is_spent {
            // Nobody waits for one receiver.
            let is_left_behind = is_spent && bucket.most_rseq >= sent;
            context.failure = if is_left_behind { None } else { Some(Failure::Abandoned) };
            self.end(now, shared, context);
        }
    }

    fn end(&mut self, now: Time, shared: &mut Shared, context: &mut Context) {
        self.ends_left = ENDS - 1;
        self.next = Some(now + self.wait(context));
        self.quiet_until = now + SLOT;
        self.buckets.clear();
        context.ask_due = None;
        let echo = context.recv_sync;
        context.end_with_status(now, shared, echo);
        context.heard = true;
    }

    /// Nobody has answered: an expiry of WTIMER, which is one timer however many buckets are open.
    //= X-11
    fn on_silence(&mut self, now: Time, shared: &mut Shared, context: &mut Context, bucket: &Bucket) {
        if bucket.asked_at < self.judged_at {
            return;
        }
        self.judged_at = now;
        self.silent += 1;
        shared.counters.timeouts += 1;
        if self.silent < Self::patience(context) {
            return;
        }
        if context.wclose_sent && context.heard {
            context.failure = Some(silence(context));
            self.end(now, shared, context);
        } else {
            context.say(now, shared, Code::ContextAbandoned, Value::Unspecified);
            context.phase = Phase::Over;
            context.conclude(shared, Err(silence(context)));
        }
    }
}

/// What it means that nobody answers.
fn silence(context: &Context) -> Failure {
    if context.outgoing.is_unheard() { Failure::Unanswered } else { Failure::Abandoned }
}
