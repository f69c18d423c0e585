//! What runs on a host beside the engine: the application, and its hands.

use crate::HostId;
use crate::host::Host;
use core::time::Duration;
use pinnace_core::{Address, BufferId, Engine, Random, Time};

/// The program on a host that uses the engine.
pub trait Application<E: Engine> {
    /// The simulation begins, or the host started again.
    fn on_start(&mut self, now: Time, host: &mut HostHandle<'_, E>) {
        let _ = (now, host);
    }

    /// The engine reported something.
    fn on_event(&mut self, now: Time, event: E::Event, host: &mut HostHandle<'_, E>);

    /// A moment has come for which it called [`HostHandle::wake_at`] with this token.
    fn on_wake(&mut self, now: Time, token: u64, host: &mut HostHandle<'_, E>) {
        let _ = (now, token, host);
    }

    /// Whether it has done all that it wanted: a run ends when all applications on living hosts have.
    fn is_done(&self) -> bool {
        false
    }
}

impl<E: Engine, A: Application<E> + ?Sized> Application<E> for Box<A> {
    fn on_start(&mut self, now: Time, host: &mut HostHandle<'_, E>) {
        (**self).on_start(now, host);
    }
    fn on_event(&mut self, now: Time, event: E::Event, host: &mut HostHandle<'_, E>) {
        (**self).on_event(now, event, host);
    }
    fn on_wake(&mut self, now: Time, token: u64, host: &mut HostHandle<'_, E>) {
        (**self).on_wake(now, token, host);
    }
    fn is_done(&self) -> bool {
        (**self).is_done()
    }
}

/// An application that keeps every event with its time, and does nothing.
#[derive(Clone, Debug)]
pub struct Inbox<V> {
    /// The events, in order.
    pub events: Vec<(Time, V)>,
}

impl<V> Default for Inbox<V> {
    fn default() -> Self {
        Self { events: Vec::new() }
    }
}

impl<E: Engine> Application<E> for Inbox<E::Event> {
    fn on_event(&mut self, now: Time, event: E::Event, _: &mut HostHandle<'_, E>) {
        self.events.push((now, event));
    }
}

/// An application that is one closure. See [`on_event`].
#[derive(Clone, Debug)]
pub struct OnEvent<F>(F);

/// An application that hands every event to a closure.
pub fn on_event<E, F>(closure: F) -> OnEvent<F>
where
    E: Engine,
    F: FnMut(Time, E::Event, &mut HostHandle<'_, E>),
{
    OnEvent(closure)
}

impl<E: Engine, F: FnMut(Time, E::Event, &mut HostHandle<'_, E>)> Application<E> for OnEvent<F> {
    fn on_event(&mut self, now: Time, event: E::Event, host: &mut HostHandle<'_, E>) {
        (self.0)(now, event, host);
    }
}

/// What an application can do on its host.
pub struct HostHandle<'s, E: Engine> {
    now: Time,
    host: &'s mut Host<E>,
}

impl<E: Engine> core::fmt::Debug for HostHandle<'_, E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("HostHandle").field("now", &self.now).field("id", &self.host.id).finish_non_exhaustive()
    }
}

impl<'s, E: Engine> HostHandle<'s, E> {
    pub(crate) fn new(now: Time, host: &'s mut Host<E>) -> Self {
        Self { now, host }
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The host.
    pub fn id(&self) -> HostId {
        self.host.id
    }

    /// The host's address.
    pub fn address(&self) -> Address {
        self.host.address
    }

    /// Calls the engine, and drains it afterwards. On a dead host it still does, but nothing leaves.
    pub fn call<R>(&mut self, call: impl FnOnce(&mut E) -> R) -> R {
        let result = self.host.driven.call(call);
        self.host.drain(self.now);
        result
    }

    /// The engine, to look at.
    pub fn engine(&self) -> &E {
        self.host.driven.engine()
    }

    /// Gives the host a buffer. Its name is never used again.
    pub fn add_buffer(&mut self, buffer: Vec<u8>) -> BufferId {
        self.host.memory.insert(buffer)
    }

    /// A buffer's bytes; empty if there is none of this name.
    pub fn buffer(&self, id: BufferId) -> &[u8] {
        self.host.memory.buffer(id).unwrap_or_default()
    }

    /// A buffer's bytes, to change; empty if there is none of this name.
    pub fn buffer_mut(&mut self, id: BufferId) -> &mut [u8] {
        self.host.memory.buffer_mut(id).unwrap_or_default()
    }

    /// Takes a buffer back, be it one that was given or one that the engine allocated; empty if there is none of this
    /// name. What was not received into an allocated one is unspecified: never zeros, so that nobody counts on them.
    pub fn take_buffer(&mut self, id: BufferId) -> Vec<u8> {
        self.host.memory.take(id).unwrap_or_default()
    }

    /// Calls [`Application::on_wake`] with `token` at `time`.
    pub fn wake_at(&mut self, time: Time, token: u64) {
        self.host.wake_count += 1;
        self.host.wakes.insert((time, self.host.wake_count), token);
    }

    /// Calls [`Application::on_wake`] with `token` after a time.
    pub fn wake_after(&mut self, after: Duration, token: u64) {
        self.wake_at(self.now + after, token);
    }

    /// Random numbers for the application, which follow from the seed.
    pub fn random(&mut self) -> &mut Random {
        &mut self.host.random
    }
}
