//! The sinks of a socket: the same messages for all of them (A-15).
//!
//! Always true: a socket has one set of sinks at most, which begins with its first sink; a message under way to it is owned
//! by the socket until every sink has it, or is gone.
//= A-15

use super::exchange::{Exchange, Way};
use super::port::{Call, canonical, deadline, resolve_to};
use super::sending::{Unsendable, copy, has_room, queue};
use super::socket::Inner;
use super::{Connection, Failure, Full, Group, Qos, Refused, Sending, SlowSink, Socket};
use crate::attempts::Attempts;
use crate::lock::lock;
use crate::{Error, Message, Unsent};
use pinnace_a1::CastId;
use pinnace_runtime::Topic;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::Deref;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

/// A destination of a socket's messages. It has a connection of its own, which it derefs to: what the sink sends back can be
/// received there, and its status, facts and result be seen; messages are sent by [`Socket::send`].
///
/// Dropping it does nothing: [`Socket::remove_sink`] ends it.
#[derive(Clone, Debug)]
pub struct Sink {
    connection: Connection,
}

impl Sink {
    /// Its connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }
}

/// A sink whose answer somebody waits for. Without him it is none.
struct Begun<'a> {
    socket: &'a Socket,
    sink: Option<Sink>,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            self.socket.forget_sink(&sink);
        }
    }
}

impl Deref for Sink {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

/// What a socket casts, and to whom.
#[derive(Debug)]
pub(super) struct Casting {
    group: Option<Group>,
    slow_sink: SlowSink,
    cast: Option<CastId>,
    sinks: Vec<Sink>,
}

impl Casting {
    pub(super) fn new(group: Option<Group>, slow_sink: SlowSink) -> Self {
        Self { group, slow_sink, cast: None, sinks: Vec::new() }
    }
}

impl Inner {
    pub(super) fn casting(&self) -> MutexGuard<'_, Casting> {
        lock(&self.casting)
    }

    /// Every sink gets what is queued, and is closed then.
    pub(super) fn end_casting(&self, linger: Duration) -> Vec<Sink> {
        let mut casting = self.casting();
        let (sinks, cast) = (std::mem::take(&mut casting.sinks), casting.cast.take());
        // The call wakes tasks, which may ask for it at once.
        drop(casting);
        if let Some(cast) = cast {
            let _ = self.end.port.call(|Call { now, engine, state, .. }| {
                engine.end_cast(now, cast, linger);
                state.end_cast(cast);
            });
        }
        sinks
    }
}

impl Socket {
    /// Adds a destination of this socket's messages: those that are sent from now on. Waits until it has accepted, or
    /// refused. A block size of 0 is that of the socket's maximum.
    ///
    /// ```
    /// use pinnace::a1::{Full, Socket, reliable};
    /// # fn main() -> Result<(), pinnace::Error> {
    /// let source = Socket::bind("127.0.0.1:0", reliable())?;
    /// let listeners = [Socket::bind("127.0.0.1:0", reliable())?, Socket::bind("127.0.0.1:0", reliable())?];
    /// for listener in &listeners {
    ///     listener.listen(1)?;
    ///     source.add_sink(listener.local_addr(), reliable())?;
    /// }
    /// source.send(b"ahoy, all".to_vec(), Full::Block)?;
    /// for listener in &listeners {
    ///     assert_eq!(listener.accept()?.recv()?.as_deref(), Some(&b"ahoy, all"[..]));
    /// }
    /// source.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::ConnectionFailed`] if it refuses, or does not answer; [`Error::CallRefused`] if the record lies beyond the
    /// maximum, or (with a group) is not that of the first sink; or if the address does not resolve.
    //= A-12, A-15
    pub fn add_sink(&self, address: impl ToSocketAddrs, qos: Qos) -> Result<Sink, Error> {
        let sink = self.begin_sink(address, qos)?;
        let answer = sink.connection.established(None);
        self.settle_sink(sink, answer)
    }

    /// Like [`Socket::add_sink`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Socket::add_sink`], and [`Error::Timeout`].
    pub fn add_sink_timeout(&self, address: impl ToSocketAddrs, qos: Qos, timeout: Duration) -> Result<Sink, Error> {
        let until = deadline(timeout);
        let sink = self.begin_sink(address, qos)?;
        let answer = sink.connection.established(until);
        self.settle_sink(sink, answer)
    }

    /// Like [`Socket::add_sink`], for tasks. (Names are resolved before, and block; addresses do not.)
    ///
    /// # Errors
    /// As [`Socket::add_sink`].
    pub async fn add_sink_async(&self, address: impl ToSocketAddrs, qos: Qos) -> Result<Sink, Error> {
        let sink = self.begin_sink(address, qos)?;
        let mut begun = Begun { socket: self, sink: Some(sink.clone()) };
        let answer = sink.connection.established_async().await;
        begun.sink = None;
        self.settle_sink(sink, answer)
    }

    fn begin_sink(&self, address: impl ToSocketAddrs, qos: Qos) -> Result<Sink, Error> {
        let end = &self.inner.end;
        let (to, name) = resolve_to(address, end.reaches_many(), |to| end.name(to))?;
        let destination = super::to_address(to);
        let begun = end.port.call(|Call { now, engine, state, .. }| {
            // Held in here only: behind it tasks are woken, which may ask for it at once.
            let mut casting = self.inner.casting();
            let known = casting.cast;
            let (group, slow_sink) = (casting.group, casting.slow_sink);
            let qos = end.fill(qos);
            let cast = match known {
                Some(cast) => cast,
                None => {
                    let cast = engine.cast(slow_sink, group.map(|group| (group, qos)))?;
                    state.begin_cast(cast);
                    cast
                }
            };
            match engine.add_sink(now, cast, name, destination, qos) {
                Ok(id) => {
                    let sink = Sink { connection: Connection::new(end, state.insert(id), id, name, destination) };
                    casting.cast = Some(cast);
                    casting.sinks.push(sink.clone());
                    Ok(sink)
                }
                Err(refused) => {
                    if known.is_none() {
                        engine.end_cast(now, cast, Duration::ZERO);
                        state.end_cast(cast);
                    }
                    Err(refused)
                }
            }
        });
        begun?.map_err(Error::CallRefused)
    }

    /// A sink that has not accepted is none.
    fn settle_sink(&self, sink: Sink, answer: Result<(), Error>) -> Result<Sink, Error> {
        if let Err(error) = answer {
            self.forget_sink(&sink);
            return Err(error);
        }
        Ok(sink)
    }

    fn forget_sink(&self, sink: &Sink) -> bool {
        let mut casting = self.inner.casting();
        let before = casting.sinks.len();
        casting.sinks.retain(|known| known.line.id != sink.line.id);
        casting.sinks.len() < before
    }

    /// Ends a destination: it gets what is queued, within `linger`, and nothing after that. Does not wait;
    /// [`Connection::wait_closed`] of the sink does.
    ///
    /// # Errors
    /// [`Error::CallRefused`] if it is none of this socket.
    pub fn remove_sink(&self, sink: &Sink, linger: Duration) -> Result<(), Error> {
        if !self.forget_sink(sink) {
            return Err(Error::CallRefused(Refused::NoConnection));
        }
        // One that is dead needs no end.
        let _ = sink.connection.begin_close(linger);
        Ok(())
    }

    /// Like [`Socket::remove_sink`], for the sink at this address; returns it.
    ///
    /// # Errors
    /// As [`Socket::remove_sink`].
    pub fn remove_sink_at(&self, address: SocketAddr, linger: Duration) -> Result<Sink, Error> {
        let name = self.inner.end.name(canonical(address))?;
        let sink = self.inner.casting().sinks.iter().find(|sink| sink.peer_name() == name).cloned();
        let sink = sink.ok_or(Error::CallRefused(Refused::NoConnection))?;
        self.remove_sink(&sink, linger)?;
        Ok(sink)
    }

    /// The destinations, in the order in which they were added, and also those that have died since
    /// ([`Connection::result`]).
    pub fn sinks(&self) -> Vec<Sink> {
        self.inner.casting().sinks.clone()
    }

    /// The group that sinks can get their data from, as far as they can join it: for the first sink that is added.
    ///
    /// # Errors
    /// If there are sinks already.
    pub fn set_group(&self, group: Option<Group>) -> Result<(), Error> {
        let mut casting = self.inner.casting();
        if casting.cast.is_some() {
            let why = "the socket has sinks: say this before the first one";
            return Err(Error::io("cannot change the cast", io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        casting.group = group;
        Ok(())
    }

    /// Changes the quality of service of every sink that lives, as [`Connection::set_qos`] does.
    ///
    /// # Errors
    /// As [`Connection::set_qos`]; of the first that refuses. Those before it have changed.
    //= A-12
    pub fn set_qos(&self, qos: Qos) -> Result<(), Error> {
        for sink in self.sinks() {
            match sink.set_qos(qos) {
                Err(Error::ConnectionFailed(_) | Error::CallRefused(Refused::NoConnection | Refused::NotConnected)) => {
                }
                result => result?,
            }
        }
        Ok(())
    }

    /// Queues a message (its first [`Message::len`] bytes, which are not copied) to every sink that has accepted, and lets
    /// it go on by itself. If a sink has no room, [`Full`] and [`SlowSink`] say what happens. A sink that dies does not
    /// stop the others.
    ///
    /// # Errors
    /// [`Unsent`] gives the message back: [`Error::WindowFull`] ([`Full::Report`]); [`Refused::TooLarge`];
    /// [`Refused::NotConnected`]: there is no sink, or none that lives.
    //= A-15, A-16
    pub fn send(&self, message: impl Into<Message>, full: Full) -> Result<(), Unsent> {
        self.send_until(message.into(), false, full.into()).map(drop)
    }

    /// Like [`Socket::send`]; what it returns tells when the message has arrived at every sink that lives then, and gives
    /// its memory back. If none of them has it, that is an [`Error::Io`] ([`io::ErrorKind::NotConnected`]).
    ///
    /// ```
    /// use pinnace::a1::{Full, Socket, reliable};
    /// # fn main() -> Result<(), pinnace::Error> {
    /// let source = Socket::bind("127.0.0.1:0", reliable())?;
    /// let listener = Socket::bind("127.0.0.1:0", reliable())?;
    /// listener.listen(1)?;
    /// source.add_sink(listener.local_addr(), reliable())?;
    /// let sending = source.send_tracked(b"ahoy, all".to_vec(), Full::Block)?;
    /// assert_eq!(&*sending.wait()?, b"ahoy, all");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Socket::send`].
    //= A-15, A-16
    pub fn send_tracked(&self, message: impl Into<Message>, full: Full) -> Result<Sending, Unsent> {
        let sent = self.send_until(message.into(), true, full.into())?;
        Ok(self.sending(sent))
    }

    /// The same, with other attempts.
    pub(crate) fn send_attempting(&self, message: Message, attempts: Attempts<'_>) -> Result<Sending, Unsent> {
        let sent = self.send_until(message, true, attempts)?;
        Ok(self.sending(sent))
    }

    /// The same, for tasks.
    pub(crate) async fn send_attempting_async(
        &self,
        message: Message,
        attempts: Attempts<'_>,
    ) -> Result<Sending, Unsent> {
        let sent = self.send_until_async(message, true, attempts).await?;
        Ok(self.sending(sent))
    }

    /// Has everybody who waits look again whether it is over. Behind this nothing is queued unless it was set.
    pub(crate) fn look_again(&self) {
        self.inner.end.port.notify();
    }

    fn sending(&self, (cast, ticket): (CastId, u64)) -> Sending {
        Sending::new(&self.inner.end, Way::Many(cast), ticket)
    }

    /// Like [`Socket::send`], waiting for at most `timeout`.
    ///
    /// # Errors
    /// As [`Socket::send`], and [`Error::Timeout`].
    pub fn send_timeout(&self, message: impl Into<Message>, timeout: Duration) -> Result<(), Unsent> {
        self.send_until(message.into(), false, Attempts::Until(deadline(timeout))).map(drop)
    }

    /// Returns the set of sinks, and the message's ticket there.
    pub(crate) fn send_until(
        &self,
        message: Message,
        is_tracked: bool,
        attempts: Attempts<'_>,
    ) -> Result<(CastId, u64), Unsent> {
        attempts.queue(
            &self.inner.end.port.about(Topic::ANYTHING),
            message,
            |message| self.cast(message, is_tracked, attempts),
            has_room,
        )
    }

    /// Like [`Socket::send`], for tasks: the future waits for room.
    ///
    /// # Errors
    /// As [`Socket::send`].
    pub async fn send_async(&self, message: impl Into<Message>) -> Result<(), Unsent> {
        self.send_until_async(message.into(), false, Attempts::Until(None)).await.map(drop)
    }

    /// Like [`Socket::send_tracked`], for tasks: the future waits for room.
    ///
    /// # Errors
    /// As [`Socket::send`].
    pub async fn send_tracked_async(&self, message: impl Into<Message>) -> Result<Sending, Unsent> {
        let sent = self.send_until_async(message.into(), true, Attempts::Until(None)).await?;
        Ok(self.sending(sent))
    }

    async fn send_until_async(
        &self,
        message: Message,
        is_tracked: bool,
        attempts: Attempts<'_>,
    ) -> Result<(CastId, u64), Unsent> {
        attempts
            .queue_async(
                &self.inner.end.port.about(Topic::ANYTHING),
                message,
                |message| self.cast(message, is_tracked, attempts),
                has_room,
            )
            .await
    }

    /// Queues a copy of `bytes`, as [`Connection::send_copy`] does.
    ///
    /// # Errors
    /// As [`Socket::send`].
    pub fn send_copy(&self, bytes: &[u8], full: Full) -> Result<(), Error> {
        Attempts::from(full).queue(
            &self.inner.end.port.about(Topic::ANYTHING),
            (),
            |()| self.cast_copy(bytes),
            has_room,
        )
    }

    /// Queues a message; the inner error says what was in its way.
    fn cast(
        &self,
        message: Message,
        is_tracked: bool,
        attempts: Attempts<'_>,
    ) -> Result<Result<(CastId, u64), Unsendable<Message>>, Unsent> {
        let Some(cast) = self.inner.casting().cast else {
            return Err(Unsent::new(message, Error::CallRefused(Refused::NotConnected)));
        };
        let queued =
            self.inner.end.port.call(|mut call| queue(&mut call, Way::Many(cast), message, is_tracked, attempts));
        Ok(queued.map_err(|error| Unsent::new(None, error))?.map(|ticket| (cast, ticket)))
    }

    /// Queues a copy, in storage of the socket's.
    fn cast_copy(&self, bytes: &[u8]) -> Result<Result<(), Unsendable<()>>, Error> {
        let cast = self.inner.casting().cast.ok_or(Error::CallRefused(Refused::NotConnected))?;
        Ok(self.inner.end.port.call(|mut call| copy(&mut call, Way::Many(cast), bytes))?)
    }

    /// Waits until every message has arrived at every sink that lives.
    ///
    /// # Errors
    /// If the socket is of no use any more.
    pub fn flush(&self) -> Result<(), Error> {
        self.flush_until(None)
    }

    /// Like [`Socket::flush`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Socket::flush`], and [`Error::Timeout`].
    pub fn flush_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.flush_until(deadline(timeout))
    }

    pub(crate) fn flush_until(&self, deadline: Option<Instant>) -> Result<(), Error> {
        let Some(cast) = self.inner.casting().cast else { return Ok(()) };
        Ok(self.inner.end.port.wait_until(|state| is_flushed(state, cast), deadline)?)
    }

    /// Like [`Socket::flush`], for tasks.
    ///
    /// # Errors
    /// As [`Socket::flush`].
    pub async fn flush_async(&self) -> Result<(), Error> {
        let Some(cast) = self.inner.casting().cast else { return Ok(()) };
        Ok(self.inner.end.port.wait(|state| is_flushed(state, cast)).await?)
    }

    /// Messages that have not arrived at every sink that they were meant for, of those that are over: the sink has died, or
    /// (without retransmission) they were too old before they left.
    pub fn undelivered(&self) -> u64 {
        let Some(cast) = self.inner.casting().cast else { return 0 };
        self.inner.end.port.inspect(|_, _, state| state.cast(cast).map_or(0, |lane| lane.undelivered()))
    }

    /// Ends all sinks: each gets what is queued, within `linger`, and is closed. Waits for that. (Connections that were
    /// opened or accepted go on, and somebody may be added again.)
    ///
    /// # Errors
    /// [`Error::ConnectionFailed`] of the first sink that did not end well, after all have ended; sinks that had died
    /// before do not count.
    //= A-18
    pub fn close_sinks(&self, linger: Duration) -> Result<(), Error> {
        let until = deadline(linger);
        let mut sinks = self.sinks();
        sinks.retain(|sink| sink.result().is_none());
        drop(self.inner.end_casting(linger));
        let mut failure: Option<Failure> = None;
        for sink in sinks {
            let left = until.map_or(linger, |until| until.saturating_duration_since(Instant::now()));
            match sink.wait_closed(left.saturating_add(Duration::from_millis(500))) {
                Ok(()) => {}
                Err(Error::ConnectionFailed(why)) => failure = failure.or(Some(why)),
                Err(error) => return Err(error),
            }
        }
        failure.map_or(Ok(()), |failure| Err(Error::ConnectionFailed(failure)))
    }
}

fn is_flushed(state: &mut Exchange, cast: CastId) -> Option<()> {
    state.cast(cast).is_none_or(|lane| lane.is_quiet()).then_some(())
}
