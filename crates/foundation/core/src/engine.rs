//! The contract between an engine and whoever drives it.
//!
//! An engine is a pure state machine. Time, datagrams and calls of the application go in; trains, a receive plan, the
//! date of the next timer and events come out. The names say the direction: `handle_*` in, `poll_*` and `plan_*` out.
//!
//! **Drain rule**: after any `handle_*` and after any call of the application, poll until nothing comes:
//! [`Engine::poll_transmit`] until it returns false, [`Engine::poll_event`] until it returns `None`; then ask
//! [`Engine::poll_at`]. [`Driven`] wraps an engine and asserts the rule in debug builds. The runtime and the simulator are
//! the only two drivers.

use crate::{Address, Placed, ReceivePlan, RxMeta, Time, Train};
use core::time::Duration;

/// When an engine wants to be called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollAt {
    /// At once: there is something to send or to report.
    Now,
    /// At this moment, if nothing arrives before.
    Time(Time),
    /// Only when something arrives.
    Ingress,
}

impl PollAt {
    /// The earlier of two.
    pub fn min(self, other: Self) -> Self {
        match (self, other) {
            (Self::Now, _) | (_, Self::Now) => Self::Now,
            (Self::Time(a), Self::Time(b)) => Self::Time(if a < b { a } else { b }),
            (Self::Ingress, x) | (x, Self::Ingress) => x,
        }
    }

    /// At `time`, or only on arrival if there is none.
    pub fn at(time: Option<Time>) -> Self {
        time.map_or(Self::Ingress, Self::Time)
    }
}

/// What the network said about a path, outside any datagram of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEvent {
    /// An ICMP error came back (port or host unreachable): a hint, anybody can forge it.
    Unreachable,
    /// A datagram of ours was larger than its path carries: says nothing of the paths to others.
    TooLarge {
        /// The destination of the train that it was part of.
        to: Address,
        /// The largest that fits, where it is known, in bytes of UDP payload. Behind it may be ICMP, which anybody can forge.
        fits: Option<u32>,
    },
}

/// A protocol as a pure state machine. The driver polls until nothing comes after every input (the drain rule of [`Driven`]).
pub trait Engine {
    /// What the engine tells the application.
    type Event;

    /// In: the datagrams of one read, and where their payload lies. The driver carries out the moves that the engine
    /// notes before it calls anything else.
    fn handle_datagrams(&mut self, now: Time, meta: &RxMeta, rx: &mut Placed<'_>);

    /// In: the time of [`Engine::poll_at`] has come. Calling it early is harmless.
    fn handle_timeout(&mut self, now: Time);

    /// In: the network reports about the path.
    fn handle_path_event(&mut self, now: Time, event: PathEvent) {
        let _ = (now, event);
    }

    /// Out: whether the network may cut what is too large for it, as if that had been reported
    /// ([`PathEvent::TooLarge`]): it seems to be lost in silence. Drivers look before they send, and do not take it back.
    fn may_be_cut(&self) -> bool {
        false
    }

    /// In: whether the application is still queueing. While held, only full trains leave, unless nothing is in transit;
    /// so small messages that are queued one after the other share trains. The driver releases as soon as a thread
    /// waits or the background worker takes over, and polls for what was held back. An engine may ignore it.
    fn handle_hold(&mut self, held: bool) {
        let _ = held;
    }

    /// Out: where the next payloads should land. Leaves the plan empty where it expects none.
    fn plan_receive(&self, plan: &mut ReceivePlan);

    /// Out: the next train. Returns false, and leaves the train empty, when there is nothing to send now.
    fn poll_transmit(&mut self, now: Time, train: &mut Train) -> bool;

    /// In: the train that [`Engine::poll_transmit`] gave last, and that asked for this ([`Train::await_leaving`]), has left by
    /// `now`, which may be later than the time of the next calls: between reading the clock and sending anything may come.
    /// Nothing is said of one that is dropped instead.
    fn handle_left(&mut self, now: Time) {
        let _ = now;
    }

    /// Out: when to call again if nothing arrives.
    fn poll_at(&self) -> PollAt;

    /// Out: whether whoever comes so much `late` at the date of [`Engine::poll_at`] loses nothing. Where not, a driver may
    /// rather stay awake than oversleep.
    fn bears(&self, late: Duration) -> bool {
        let _ = late;
        true
    }

    /// Out: the next event for the application.
    fn poll_event(&mut self) -> Option<Self::Event>;
}

/// An engine under the drain rule.
///
/// In debug builds a `handle_*` or an application call on an engine that has not been drained panics, because it would
/// mean lost wake-ups in production.
#[derive(Debug)]
pub struct Driven<E> {
    engine: E,
    untransmitted: bool,
    unreported: bool,
}

impl<E: Engine> Driven<E> {
    /// Wraps a new engine.
    pub fn new(engine: E) -> Self {
        Self { engine, untransmitted: false, unreported: false }
    }

    /// The engine, to look at.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// An application call.
    pub fn call<R>(&mut self, call: impl FnOnce(&mut E) -> R) -> R {
        self.enter();
        call(&mut self.engine)
    }

    /// See [`Engine::handle_datagrams`].
    pub fn handle_datagrams(&mut self, now: Time, meta: &RxMeta, rx: &mut Placed<'_>) {
        // Several reads may be handled before the answers leave: they are one batch.
        self.untransmitted = true;
        self.unreported = true;
        self.engine.handle_datagrams(now, meta, rx);
    }

    /// See [`Engine::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Time) {
        self.enter();
        self.engine.handle_timeout(now);
    }

    /// See [`Engine::handle_path_event`].
    pub fn handle_path_event(&mut self, now: Time, event: PathEvent) {
        self.untransmitted = true;
        self.unreported = true;
        self.engine.handle_path_event(now, event);
    }

    /// See [`Engine::handle_hold`].
    pub fn handle_hold(&mut self, held: bool) {
        self.untransmitted |= !held;
        self.engine.handle_hold(held);
    }

    /// See [`Engine::plan_receive`].
    pub fn plan_receive(&self, plan: &mut ReceivePlan) {
        self.engine.plan_receive(plan);
    }

    /// See [`Engine::poll_transmit`].
    pub fn poll_transmit(&mut self, now: Time, train: &mut Train) -> bool {
        let more = self.engine.poll_transmit(now, train);
        debug_assert_eq!(more, !train.is_empty(), "poll_transmit must say what it did");
        self.untransmitted = more;
        more
    }

    /// See [`Engine::handle_left`].
    pub fn handle_left(&mut self, now: Time) {
        self.untransmitted = true;
        self.engine.handle_left(now);
    }

    /// The link cannot take more now; what is left is polled when it can. Suspends the rule for transmission.
    pub fn transmit_blocked(&mut self) {
        self.untransmitted = false;
    }

    /// See [`Engine::poll_event`].
    pub fn poll_event(&mut self) -> Option<E::Event> {
        let event = self.engine.poll_event();
        self.unreported = event.is_some();
        event
    }

    /// See [`Engine::poll_at`].
    pub fn poll_at(&self) -> PollAt {
        self.engine.poll_at()
    }

    /// See [`Engine::bears`].
    pub fn bears(&self, late: Duration) -> bool {
        self.engine.bears(late)
    }

    fn enter(&mut self) {
        debug_assert!(
            !self.untransmitted && !self.unreported,
            "drain rule: poll_transmit and poll_event must come to an end before the next input"
        );
        self.untransmitted = true;
        self.unreported = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrainLimits;

    struct Quiet;
    impl Engine for Quiet {
        type Event = ();
        fn handle_datagrams(&mut self, _: Time, _: &RxMeta, _: &mut Placed<'_>) {}
        fn handle_timeout(&mut self, _: Time) {}
        fn plan_receive(&self, _: &mut ReceivePlan) {}
        fn poll_transmit(&mut self, _: Time, _: &mut Train) -> bool {
            false
        }
        fn poll_at(&self) -> PollAt {
            PollAt::Ingress
        }
        fn poll_event(&mut self) -> Option<()> {
            None
        }
    }

    #[test]
    fn a_drained_engine_takes_input() {
        let mut driven = Driven::new(Quiet);
        let mut train = Train::new(TrainLimits::SINGLE);
        for _ in 0..2 {
            driven.handle_timeout(Time::ZERO);
            assert!(!driven.poll_transmit(Time::ZERO, &mut train));
            assert!(driven.poll_event().is_none());
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "drain rule")]
    fn an_undrained_engine_does_not() {
        let mut driven = Driven::new(Quiet);
        driven.handle_timeout(Time::ZERO);
        driven.handle_timeout(Time::ZERO);
    }

    #[test]
    fn the_earlier_date_wins() {
        let (early, late) = (Time::from_nanos(1), Time::from_nanos(2));
        assert_eq!(PollAt::at(Some(late)).min(PollAt::Time(early)), PollAt::Time(early));
        assert_eq!(PollAt::Ingress.min(PollAt::Time(late)), PollAt::Time(late));
        assert_eq!(PollAt::Now.min(PollAt::Ingress), PollAt::Now);
        assert_eq!(PollAt::at(None), PollAt::Ingress);
    }
}
