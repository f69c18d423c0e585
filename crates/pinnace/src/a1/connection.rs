//! A connection, for applications: its life.

use super::exchange::{Association, Exchange};
use super::port::{About, Call, End, deadline};
use super::reading::Partial;
use super::{Address, Facts, Failure, Qos, Refused, Status, Stream};
use crate::Error;
use crate::places::{Place, topic};
use pinnace_a1::ConnectionId;
use pinnace_core::Address as Name;
use pinnace_runtime::{WaitError, WakeFd};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Messages each way, under the records of quality of service that both ends have agreed on.
///
/// Clones are the same connection, and calls may come from any thread. Dropping the last one closes it in the background:
/// what was queued is still sent, within [`Options::linger`](super::Options::linger), what was not read is dropped.
#[derive(Clone)]
pub struct Connection {
    pub(super) line: Arc<Line>,
}

/// What the clones share.
pub(super) struct Line {
    pub(super) end: Arc<End>,
    pub(super) place: Place,
    pub(super) id: ConnectionId,
    peer: Name,
    source: Address,
    pub(super) partial: Mutex<Partial>,
}

impl Line {
    /// The socket, to wait for something of this connection.
    pub(super) fn about(&self) -> About<'_> {
        self.end.port.about(topic(self.place))
    }
}

/// How much longer than linger a close is waited for: CLOSE itself takes a round trip.
const FAREWELL: Duration = Duration::from_millis(500);

impl Connection {
    pub(super) fn new(end: &Arc<End>, place: Place, id: ConnectionId, peer: Name, source: Address) -> Self {
        Self { line: Arc::new(Line { end: Arc::clone(end), place, id, peer, source, partial: Mutex::default() }) }
    }

    /// Who is at the other end; `[::]:0` if the link has no internet addresses.
    pub fn peer_addr(&self) -> SocketAddr {
        self.line.end.address_of(self.line.peer)
    }

    /// The address that the link knows the other end by.
    pub(super) fn peer_name(&self) -> Name {
        self.line.peer
    }

    /// What the peer calls itself; of a connection that was opened here, what it was called. The host is informative.
    pub fn peer_address(&self) -> Address {
        self.line.source
    }

    /// The address that this end is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.line.end.local
    }

    /// What `look` finds in the association, which is here as long as this handle.
    fn of<R>(&self, state: &mut Exchange, look: impl FnOnce(&mut Association) -> Option<R>) -> Option<R> {
        state.association(self.line.place).and_then(look)
    }

    /// A call that the engine may refuse.
    fn call<R>(&self, call: impl FnOnce(Call<'_>) -> Result<R, Refused>) -> Result<R, Error> {
        let call = |this: Call<'_>| {
            let failure = this.state.association(self.line.place).and_then(|association| association.failure());
            // What has happened says more than that it is over.
            call(this).map_err(|refused| match (refused, failure) {
                (Refused::NoConnection, Some(failure)) => Error::ConnectionFailed(failure),
                _ => Error::CallRefused(refused),
            })
        };
        self.line.end.port.call(call)?
    }

    /// Waits for the answer to OPEN.
    pub(super) fn established(&self, deadline: Option<Instant>) -> Result<(), Error> {
        self.line.about().wait_until(|state| self.is_established(state), deadline)?
    }

    /// As [`Connection::established`], for tasks.
    pub(super) async fn established_async(&self) -> Result<(), Error> {
        self.line.about().wait(|state| self.is_established(state)).await?
    }

    fn is_established(&self, state: &mut Exchange) -> Option<Result<(), Error>> {
        self.of(state, |association| match &association.closed {
            Some(Err(failure)) => Some(Err(Error::ConnectionFailed(failure.clone()))),
            Some(Ok(())) => Some(Ok(())),
            None => association.is_connected.then_some(Ok(())),
        })
    }

    /// Changes the quality of service, within the maximum of the socket, and does not wait: [`Status::QOS_PENDING`] until
    /// the peer has accepted it, perhaps with lower rates, and [`Status::QOS_CHANGED`] once then. A block size of 0 is the
    /// one in force.
    ///
    /// ```
    /// use pinnace::a1::{Qos, Socket, Status, reliable};
    /// # fn main() -> Result<(), pinnace::Error> {
    /// let server = Socket::bind("127.0.0.1:0", reliable())?;
    /// server.listen(1)?;
    /// let client = Socket::bind("127.0.0.1:0", reliable())?;
    /// let connection = client.connect(server.local_addr(), reliable())?;
    /// connection.set_qos(Qos { send_average: 1_000_000, send_burst: 65_536, ..reliable() })?;
    /// while !connection.status().contains(Status::QOS_CHANGED) {
    ///     connection.wait_for_change(std::time::Duration::from_secs(1))?;
    /// }
    /// assert_eq!(connection.qos()?.send_average, 1_000_000);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Refused::BeyondMaximum`]: a new connection is needed, as also for another block size, checksum or retransmission;
    /// [`Refused::Impossible`]; or the connection has ended.
    //= A-12
    pub fn set_qos(&self, qos: Qos) -> Result<(), Error> {
        self.call(|Call { now, engine, .. }| {
            let block_size = match qos.block_size {
                0 => engine.facts(now, self.line.id).map_or(0, |facts| facts.qos.block_size),
                size => size,
            };
            engine.set_qos(now, self.line.id, Qos { block_size, ..qos })
        })
    }

    /// From now on nobody receives here: what has come and what comes is dropped, and the peer has room as if it had been
    /// read. There is no way back.
    pub(crate) fn discard_incoming(&self) -> Result<(), Error> {
        self.line.end.port.call(|Call { now, engine, .. }| engine.discard_incoming(now, self.line.id))?;
        Ok(())
    }

    /// Waits until something happens on this socket, at most so long: for those who look at [`Connection::status`] or
    /// [`Connection::facts`] until they say what is waited for.
    ///
    /// # Errors
    /// If the socket is of no use any more.
    pub fn wait_for_change(&self, timeout: Duration) -> Result<(), Error> {
        let mut is_first = true;
        let look = |_: &mut Exchange| (!std::mem::take(&mut is_first)).then_some(());
        match self.line.end.port.wait_until(look, deadline(timeout)) {
            Ok(()) | Err(WaitError::Timeout) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// This end's record, as it is in force.
    ///
    /// # Errors
    /// If nothing is known of the connection any more.
    pub fn qos(&self) -> Result<Qos, Error> {
        Ok(self.facts()?.qos)
    }

    /// The peer's record.
    ///
    /// # Errors
    /// If nothing is known of the connection any more.
    pub fn peer_qos(&self) -> Result<Qos, Error> {
        Ok(self.facts()?.peer_qos)
    }

    /// The status that belongs to no block. [`Status::QOS_CHANGED`] is told once, [`Status::LOST`] as long as what was
    /// lost stands before whatever is read next.
    //= A-17
    pub fn status(&self) -> Status {
        let look = |Call { now, engine, .. }: Call<'_>| {
            let is_lost = engine.is_lost(self.line.id);
            engine.status(now, self.line.id).with_if(is_lost, Status::LOST)
        };
        self.line.end.port.call(look).unwrap_or(Status::ABORTED)
    }

    /// What is known of the connection.
    ///
    /// # Errors
    /// If nothing is any more.
    pub fn facts(&self) -> Result<Facts, Error> {
        let facts = self.line.end.port.call(|Call { now, engine, .. }| engine.facts(now, self.line.id))?;
        facts.ok_or(Error::CallRefused(Refused::NoConnection))
    }

    /// The smoothed round trip, once it has been measured.
    //= A-8
    pub fn round_trip(&self) -> Option<Duration> {
        self.facts().ok()?.round_trip
    }

    /// Asks the peer whether it is there: one that does not answer is given up.
    pub(crate) fn ask(&self) {
        // Of a socket that is of no use any more, whoever receives finds out.
        let _ = self.line.end.port.call(|Call { now, engine, .. }| engine.ask(now, self.line.id));
    }

    /// How the connection has ended, if it has.
    pub fn result(&self) -> Option<Result<(), Failure>> {
        self.line.end.port.inspect(|_, _, state| self.of(state, |association| association.closed.clone()))
    }

    /// Ends the connection when everything queued has been acknowledged (without retransmission: has left), or `linger` is
    /// over, and waits for that. What the peer has not sent by then is dropped there.
    ///
    /// # Errors
    /// [`Error::ConnectionFailed`], if it did not end well: not everything has arrived then. [`Error::Timeout`], if the
    /// peer does not answer: the connection ends by itself.
    //= A-18
    pub fn close(&self, linger: Duration) -> Result<(), Error> {
        self.begin_close(linger)?;
        self.wait_closed_until(deadline(linger.saturating_add(FAREWELL)))
    }

    /// Like [`Connection::close`], for tasks (without an end to the waiting: bound it yourself).
    ///
    /// # Errors
    /// As [`Connection::close`].
    pub async fn close_async(&self, linger: Duration) -> Result<(), Error> {
        self.begin_close(linger)?;
        self.line.about().wait(|state| self.closed(state)).await?
    }

    /// Like [`Connection::close`], but does not wait.
    ///
    /// # Errors
    /// [`Error::ConnectionFailed`], if it has ended, and not well.
    pub fn begin_close(&self, linger: Duration) -> Result<(), Error> {
        match self.call(|Call { now, engine, .. }| engine.close(now, self.line.id, linger)) {
            // It is closed.
            Err(Error::CallRefused(Refused::NoConnection)) => Ok(()),
            result => result,
        }
    }

    /// Waits until the connection has ended, by whomever.
    ///
    /// # Errors
    /// [`Error::ConnectionFailed`] if it did not end well; [`Error::Timeout`].
    pub fn wait_closed(&self, timeout: Duration) -> Result<(), Error> {
        self.wait_closed_until(deadline(timeout))
    }

    fn wait_closed_until(&self, deadline: Option<Instant>) -> Result<(), Error> {
        self.line.about().wait_until(|state| self.closed(state), deadline)?
    }

    fn closed(&self, state: &mut Exchange) -> Option<Result<(), Error>> {
        self.of(state, |association| {
            let result = association.closed.clone()?;
            // The peer closed in order, and took nothing more: what had not been sent is lost. (Without retransmission it may
            // have been too old.)
            let is_cut_off = self.line.end.max_qos.has_retransmission && association.lane.undelivered() > 0;
            let result = if is_cut_off { result.and(Err(Failure::AbortedByPeer)) } else { result };
            Some(result.map_err(Error::ConnectionFailed))
        })
    }

    /// Ends the connection at once: what has not been acknowledged is dropped, and the peer is told.
    pub fn abort(&self) {
        // What has ended already needs no end.
        let _ = self.call(|Call { now, engine, .. }| engine.abort(now, self.line.id));
    }

    /// A stream of bytes on top of the messages (A-6), for [`std::io`]. It is a handle of the connection, as a clone is.
    pub fn stream(&self) -> Stream {
        Stream::new(self.clone())
    }

    /// A descriptor that becomes readable when something has happened to this connection: there is something to read, room
    /// to write, a new quality of service, or it has ended. Clear it first, then look what it was. The socket's background
    /// thread works from now on.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn watch(&self) -> Result<Arc<WakeFd>, Error> {
        let watch = WakeFd::new().map_err(|error| Error::io("cannot watch a connection", error))?;
        let watch = Arc::new(watch);
        self.watch_on(Arc::clone(&watch))?;
        Ok(watch)
    }

    /// Like [`Connection::watch`], with a descriptor that is there already: it is signalled from now on, and now.
    ///
    /// # Errors
    /// If the background thread cannot be started.
    pub fn watch_on(&self, watch: Arc<WakeFd>) -> Result<(), Error> {
        watch.signal();
        self.line.end.port.inspect(|_, _, state| {
            if let Some(association) = state.association(self.line.place) {
                association.watch = Some(watch);
            }
        });
        self.line.end.port.readiness_fd()?;
        Ok(())
    }

    /// Where the memory of received messages can be given back, to be used again.
    //= A-19
    pub fn recycler(&self) -> Recycler {
        Recycler { end: Arc::downgrade(&self.line.end) }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let linger = self.end.linger;
        let _ = self.end.port.call(|Call { now, engine, state, .. }| {
            engine.abandon(now, self.id, linger);
            state.release(self.place);
        });
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("peer", &self.line.peer).field("id", &self.line.id).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Takes memory back for the socket that it came from, and outlives it.
///
/// ```
/// use pinnace::a1::{Full, Socket, reliable};
/// # fn main() -> Result<(), pinnace::Error> {
/// # let server = Socket::bind("127.0.0.1:0", reliable())?;
/// # server.listen(1)?;
/// # let client = Socket::bind("127.0.0.1:0", reliable())?;
/// # let connection = client.connect(server.local_addr(), reliable())?;
/// # connection.send(b"ahoy".to_vec(), Full::Block)?;
/// let accepted = server.accept()?;
/// let recycler = accepted.recycler();
/// let message = accepted.recv()?.expect("not closed");
/// assert_eq!(&*message, b"ahoy");
/// recycler.recycle(message.data);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Recycler {
    end: Weak<End>,
}

impl Recycler {
    /// Memory that a message was received in.
    pub fn recycle(&self, data: Vec<u8>) {
        if let Some(end) = self.end.upgrade() {
            end.port.inspect(|_, memory, _| memory.recycle(data));
        }
    }
}
