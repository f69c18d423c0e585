//! Attempts to queue something for which there may be no room.
//!
//! Always true: what found no room is attempted again, or comes back with the reason.

use crate::endpoint::ConnectionError;
use crate::{Error, Message, Unsent};
use pinnace_core::Engine;
use pinnace_link::Link;
use pinnace_runtime::{About, Call, EventSink};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Why something was not queued.
pub(crate) struct Unqueued<M, R = u64> {
    pub(crate) message: M,
    pub(crate) error: Error,
    /// Where there was no room, if that is the reason: how often there had been some, say.
    pub(crate) full_at: Option<R>,
}

impl<R> From<Unqueued<Message, R>> for Unsent {
    fn from(unqueued: Unqueued<Message, R>) -> Self {
        Self::new(unqueued.message, unqueued.error)
    }
}

impl<R> From<Unqueued<(), R>> for Error {
    fn from(unqueued: Unqueued<(), R>) -> Self {
        unqueued.error
    }
}

/// How often something is attempted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attempts<'a> {
    /// Whenever there may be room, until the deadline.
    Until(Option<Instant>),
    /// The same, or until somebody sets this and has everybody look again.
    Unless(Option<Instant>, &'a AtomicBool),
    /// Twice: what has been acknowledged meanwhile makes room.
    AtOnce,
    /// The same, if nobody has set this.
    AtOnceUnless(&'a AtomicBool),
}

impl Attempts<'_> {
    fn is_over(self) -> bool {
        matches!(self, Self::Unless(_, is_over) | Self::AtOnceUnless(is_over) if is_over.load(Ordering::SeqCst))
    }

    /// To be called by whoever queues, in the call that does: when whoever has set it has had everybody look again, nothing
    /// more is queued.
    pub(crate) fn check(self) -> Result<(), Error> {
        if self.is_over() { Err(ConnectionError::Closed.into()) } else { Ok(()) }
    }

    /// Queues `message` as `attempt` does, whose outer error is the end of it. `has_room`: whether there may be room again.
    pub(crate) fn queue<E, S, M, R, T, U>(
        self,
        about: &About<'_, E, Box<dyn Link>, S>,
        mut message: M,
        mut attempt: impl FnMut(M) -> Result<Result<T, Unqueued<M, R>>, U>,
        has_room: impl Fn(&mut S, R) -> Option<()>,
    ) -> Result<T, U>
    where
        E: Engine + Send + 'static,
        S: EventSink<E::Event> + Send + 'static,
        R: Copy,
        U: From<Unqueued<M, R>>,
    {
        let mut has_looked = false;
        loop {
            let unqueued = match attempt(message)? {
                Ok(queued) => return Ok(queued),
                Err(unqueued) => unqueued,
            };
            let again = match (unqueued.full_at, self) {
                (Some(room), Self::Until(deadline) | Self::Unless(deadline, _)) => {
                    let look = |state: &mut S| has_room(state, room).or_else(|| self.is_over().then_some(()));
                    about.wait_until(look, deadline).map_err(Error::from).and_then(|()| self.check())
                }
                (Some(_), Self::AtOnce | Self::AtOnceUnless(_)) if !std::mem::replace(&mut has_looked, true) => {
                    about.endpoint().progress().map(drop).map_err(Error::from)
                }
                _ => return Err(unqueued.into()),
            };
            if let Err(error) = again {
                return Err(Unqueued { error, ..unqueued }.into());
            }
            message = unqueued.message;
        }
    }

    /// The same, for tasks, and without a deadline.
    pub(crate) async fn queue_async<E, S, M, R, T, U>(
        self,
        about: &About<'_, E, Box<dyn Link>, S>,
        mut message: M,
        mut attempt: impl FnMut(M) -> Result<Result<T, Unqueued<M, R>>, U>,
        has_room: impl Fn(&mut S, R) -> Option<()>,
    ) -> Result<T, U>
    where
        E: Engine + Send + 'static,
        S: EventSink<E::Event> + Send + 'static,
        R: Copy,
        U: From<Unqueued<M, R>>,
    {
        loop {
            let unqueued = match attempt(message)? {
                Ok(queued) => return Ok(queued),
                Err(unqueued) => unqueued,
            };
            let Some(room) = unqueued.full_at else { return Err(unqueued.into()) };
            let look = |state: &mut S| has_room(state, room).or_else(|| self.is_over().then_some(()));
            let again = about.wait(look).await.map_err(Error::from).and_then(|()| self.check());
            if let Err(error) = again {
                return Err(Unqueued { error, ..unqueued }.into());
            }
            message = unqueued.message;
        }
    }

    /// Queues them one after the other, in few calls. Those that were not queued come back.
    pub(crate) fn queue_all<E, S, R>(
        self,
        about: &About<'_, E, Box<dyn Link>, S>,
        messages: Vec<Message>,
        mut queue: impl FnMut(&mut Call<'_, E, S>, Message) -> Result<(), Unqueued<Message, R>>,
        has_room: impl Fn(&mut S, R) -> Option<()>,
    ) -> Result<(), (Vec<Message>, Error)>
    where
        E: Engine + Send + 'static,
        S: EventSink<E::Event> + Send + 'static,
        R: Copy,
    {
        let mut left = VecDeque::from(messages);
        if left.is_empty() {
            return Ok(());
        }
        let mut many = |mut call: Call<'_, E, S>| {
            while let Some(message) = left.pop_front() {
                if let Err(Unqueued { message, error, full_at }) = queue(&mut call, message) {
                    left.push_front(message);
                    return Err(Unqueued { message: (), error, full_at });
                }
            }
            Ok(())
        };
        let queued = self.queue(about, (), |()| Ok(about.endpoint().call(&mut many)?), has_room);
        queued.map_err(|error: Error| (left.into(), error))
    }
}
