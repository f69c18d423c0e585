//! What happens of itself: repetitions, measurements, and giving up (specs/a1.md, 1.1, Timing).

use crate::Failure;
use crate::connection::{Connection, Phase};
use crate::engine::A1;
use crate::outgoing::Expired;
use crate::shared::Shared;
use core::time::Duration;
use pinnace_core::Time;
use pinnace_wire::a1::CloseCode;

/// Who has not been heard of for so long, and has nothing to send, needs little memory.
const REST: Duration = Duration::from_secs(1);

impl A1 {
    pub(crate) fn expire(&mut self, now: Time) {
        if self.shared.link_at.is_some_and(|at| at <= now) {
            self.shared.link_at = None;
        }
        while let Some(key) = self.shared.paced.pop_due(now) {
            if let Some(connection) = self.connections.lookup_mut(key) {
                connection.paced_at = None;
                self.settle(now, key);
            }
        }
        while let Some(key) = self.shared.wheel.poll_expired(now) {
            let Some(connection) = self.connections.lookup_mut(key) else { continue };
            connection.timer = None;
            connection.on_timer(now, &mut self.shared);
            if connection.phase == Phase::Open && connection.cut_off_at.is_some_and(|at| at <= now) {
                self.end_patience(now, key);
            }
            self.look_again(now, key);
            self.settle(now, key);
        }
    }
}

impl Connection {
    fn on_timer(&mut self, now: Time, shared: &mut Shared) {
        match self.phase {
            Phase::Opening => {
                if !self.open.expire(now) {
                    self.phase = Phase::Over;
                    self.conclude(shared, Err(Failure::TimedOut));
                }
            }
            Phase::Open => self.on_open_timer(now, shared),
            Phase::Closing => {
                if !self.close.expire(now) {
                    self.end_unanswered(now, shared);
                }
            }
            Phase::TimeWait(until) if until <= now => self.phase = Phase::Over,
            Phase::Joining | Phase::TimeWait(_) | Phase::Over => {}
        }
    }

    fn on_open_timer(&mut self, now: Time, shared: &mut Shared) {
        if let Some(said) = self.said.take_if(|said| said.at <= now) {
            self.believe(now, shared, &said);
            if self.phase != Phase::Open {
                return;
            }
        }
        self.outgoing.drop_stale(now);
        if now.since(self.last_heard) >= REST {
            self.outgoing.rest();
            self.incoming.rest();
        }
        let has_expired = self.outgoing.expire(now);
        shared.counters.timeouts += u64::from(has_expired != Expired::Nothing);
        let is_silent = self.silent_at(shared).is_some_and(|at| at <= now);
        let is_futile = self.outgoing.futile_at(shared.config.silence).is_some_and(|at| at <= now);
        // What a set sends is not cut anew for one of its sinks.
        let is_in_vain = self.cast.is_none() && self.outgoing.is_too_large();
        if has_expired == Expired::GivenUp || is_silent || is_futile || is_in_vain || !self.change.qos.expire(now) {
            let is_swallowed = !is_silent && self.outgoing.is_swallowed();
            self.fail(shared, if is_swallowed { Failure::Swallowed } else { Failure::Abandoned });
        }
    }

    /// Nobody answers CLOSE. Whoever it is: everything else has been said; but if the peer's own has come, and its answer was
    /// lost, that comes again.
    pub(crate) fn end_unanswered(&mut self, now: Time, shared: &mut Shared) {
        let is_owed = !self.close_replies_due.is_empty();
        let first = self.close_replied_at.map(|(first, _)| first).or(is_owed.then_some(now));
        let until = first.map(|first| first + shared.config.time_wait).filter(|until| *until > now);
        self.phase = until.map_or(Phase::Over, Phase::TimeWait);
        self.close_is_unanswered = !self.peer_has_closed;
        self.end_closing(shared);
    }

    /// The connection ends at once, and the peer is told.
    pub(crate) fn fail(&mut self, shared: &mut Shared, failure: Failure) {
        match self.phase {
            Phase::Open | Phase::Closing => self.say_close(CloseCode::Aborted),
            Phase::TimeWait(_) => {}
            Phase::Opening | Phase::Joining | Phase::Over => self.phase = Phase::Over,
        }
        self.conclude(shared, Err(failure));
    }
}
