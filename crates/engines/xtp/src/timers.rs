//! What happens of itself: WTIMER, CTIMER and CTIMEOUT, time-wait, and the rest (specs/xtp.md, 3.5, 3.8, 3.9).

use crate::Failure;
use crate::context::{Context, Phase, Role};
use crate::ended::EndedBy;
use crate::engine::Xtp;
use crate::outgoing::Asking;
use crate::shared::Shared;
use pinnace_core::Time;
use pinnace_wire::xtp::{Code, Header, Kind, Options, Value};

impl Xtp {
    //= X-9
    //= X-24
    pub(crate) fn expire(&mut self, now: Time) {
        while let Some(key) = self.shared.wheel.poll_expired(now) {
            let Some(context) = self.contexts.lookup_mut(key) else { continue };
            context.timer = None;
            context.on_timer(now, &mut self.shared);
            self.settle(now, key);
        }
        while let Some(key) = self.shared.paced.pop_due(now) {
            let Some(context) = self.contexts.lookup_mut(key) else { continue };
            context.on_timer(now, &mut self.shared);
            self.settle(now, key);
        }
        self.expire_groups(now);
    }
}

impl Context {
    fn on_timer(&mut self, now: Time, shared: &mut Shared) {
        self.is_blocked = false;
        let is_over = |date: Option<Time>| date.is_some_and(|date| date <= now);
        if is_over(self.ring_idle_since.map(|since| since + shared.config.limits.ring_idle)) {
            self.ring_idle_since = None;
            while self.ring_bytes > 0
                && let Some(buffer) = self.incoming.take_ring()
            {
                self.give_back(shared, buffer);
            }
        }
        match self.phase {
            Phase::TimeWait(until) if until <= now => self.phase = Phase::Over,
            Phase::Active => {
                if is_over(self.rest_at) {
                    self.rest_at = None;
                    if self.waiting.is_none() {
                        self.outgoing.rest();
                    }
                }
                if is_over(self.answer_by) {
                    self.is_answering = false;
                    self.owe_unasked();
                }
                if is_over(self.paced_until) {
                    self.wait_for_pace(None, shared);
                }
                if is_over(self.wait_until()) {
                    self.on_wait_over(now, shared);
                }
                if self.phase == Phase::Active && !self.is_group() && self.silent_until() <= now {
                    self.on_silence(now, shared);
                }
                if self.phase == Phase::Active && is_over(self.overdue_at()) {
                    self.abandon(now, shared);
                }
            }
            _ => {}
        }
    }

    /// WTIMER has expired.
    //= X-11
    fn on_wait_over(&mut self, now: Time, shared: &mut Shared) {
        shared.counters.timeouts += 1;
        if let Some(silence) = &mut self.silence {
            silence.wait_no_longer(now);
        }
        if self.expiries >= self.block.retry_count && !(shared.config.is_patient && self.heard) {
            self.abandon(now, shared);
            return;
        }
        // Who may not ask has not been left without an answer: CTIMER ends that.
        self.expiries = self.expiries.saturating_add(u32::from(self.may_ask(shared)));
        self.waiting = Some(now);
        self.ask_again();
    }

    /// What an expiry makes leave: the FIRST again for who has heard nothing, and a question from everybody else.
    fn ask_again(&mut self) {
        if self.role == Role::Initiator && !self.heard {
            self.first.is_due = true;
        } else {
            self.ask_due = Some(Asking::Expiry);
        }
    }

    /// CTIMER has expired: is anybody there? Or CTIMEOUT: nobody is.
    //= X-11
    fn on_silence(&mut self, now: Time, shared: &mut Shared) {
        if self.handshake_since().is_some() {
            self.abandon(now, shared);
        } else {
            self.silence.get_or_insert_default().handshake_since = Some(now);
            self.ask_again();
        }
    }

    /// The peer is given up: DIAG to it, and an error here.
    fn abandon(&mut self, now: Time, shared: &mut Shared) {
        let is_unheard = self.role == Role::Initiator && !self.heard;
        self.abandon_for(now, shared, if is_unheard { Failure::Unanswered } else { Failure::Abandoned });
    }

    /// The same for a peer that answers, where nothing else gets through to it.
    pub(crate) fn give_up_path(&mut self, now: Time, shared: &mut Shared) {
        self.abandon_for(now, shared, Failure::Swallowed);
    }

    fn abandon_for(&mut self, now: Time, shared: &mut Shared, failure: Failure) {
        self.say(now, shared, Code::ContextAbandoned, Value::Unspecified);
        self.remember_first(shared, now, EndedBy::Us);
        self.phase = Phase::Over;
        self.conclude(shared, Err(failure));
    }

    /// A DIAG that answers no packet.
    pub(crate) fn say(&mut self, now: Time, shared: &mut Shared, code: Code, value: Value) {
        let header = Header {
            options: shared.config.diag_options,
            sort: 0,
            ..self.header(Kind::Diag, Options::NONE, self.outgoing.sync(), self.space.number(self.outgoing.sent()))
        };
        if self.may_diagnose(shared) {
            shared.send_diag(now, (self.peer, self.from), &header, code, value);
        } else {
            shared.counters.diags_withheld += 1;
        }
    }
}
