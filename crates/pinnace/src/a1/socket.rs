//! One socket with any number of connections, opened here or accepted from others, and with a set of sinks.

use super::casting::Casting;
use super::exchange::{Arrival, Exchange};
use super::port::{self, Bound, Call, End, canonical, deadline};
use super::{A1Counters, Connection, Options, Qos};
use crate::Error;
use crate::network::route;
use pinnace_link::{Link, LinkCounters};
use pinnace_runtime::{WaitError, WakeFd};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// One UDP socket, and the protocol on it. Clones are the same socket; calls may come from any thread.
///
/// When the last clone is dropped, nobody is accepted any more, and the sinks get what is queued
/// ([`Options::linger`]) and are closed; connections go on. When the last handle of any kind is dropped, what was queued has
/// that time to arrive, and then the peers are told that this end is gone.
#[derive(Clone, Debug)]
pub struct Socket {
    pub(super) inner: Arc<Inner>,
}

/// What the clones share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) end: Arc<End>,
    pub(super) casting: Mutex<Casting>,
}

impl Socket {
    /// Binds to `address`; port 0 picks one. No connection will have more than `max_qos` says; its block size may be 0:
    /// as large as the path carries in one piece (on a loopback address, nearly 64 KiB), or an eighth of a declared burst;
    /// a little less where the longest message is then a whole number of blocks. Of those who connect to it blocks may be
    /// as large as its interfaces carry.
    ///
    /// ```
    /// use pinnace::a1::{Full, Socket, reliable};
    /// # fn main() -> Result<(), pinnace::Error> {
    /// let server = Socket::bind("127.0.0.1:0", reliable())?;
    /// server.listen(16)?;
    /// let client = Socket::bind("127.0.0.1:0", reliable())?;
    /// let connection = client.connect(server.local_addr(), reliable())?;
    /// connection.send(b"ahoy".to_vec(), Full::Block)?;
    /// assert_eq!(server.accept()?.recv()?.as_deref(), Some(&b"ahoy"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the address does not resolve or cannot be bound: it may be taken, or a right may be missing; if the capture
    /// cannot be written; [`Refused::Impossible`](super::Refused::Impossible): a window of the record has 2^20 blocks or
    /// more.
    //= A-12
    pub fn bind(address: impl ToSocketAddrs, max_qos: Qos) -> Result<Self, Error> {
        Self::bind_with(address, max_qos, &Options::default())
    }

    /// As [`Socket::bind`], with other settings.
    ///
    /// # Errors
    /// As [`Socket::bind`].
    pub fn bind_with(address: impl ToSocketAddrs, max_qos: Qos, options: &Options) -> Result<Self, Error> {
        Self::on(Bound::udp(port::resolve(address)?, options)?, max_qos, options)
    }

    /// A socket at a port that the system picks, on every address of this host: for those who only open connections.
    ///
    /// # Errors
    /// As [`Socket::bind`].
    pub fn client(max_qos: Qos, options: &Options) -> Result<Self, Error> {
        let bound = Bound::udp((Ipv6Addr::UNSPECIFIED, 0).into(), options);
        Self::on(bound.or_else(|_| Bound::udp((Ipv4Addr::UNSPECIFIED, 0).into(), options))?, max_qos, options)
    }

    /// A socket at a port that the system picks, on the address of this host that `peer` is reached from: so it is known
    /// whether the path leads over the network, how large blocks may be, and which congestion control is right. (It may
    /// connect to others, too.)
    ///
    /// # Errors
    /// As [`Socket::bind`], and if the system has no way to the peer.
    pub fn client_of(peer: impl ToSocketAddrs, max_qos: Qos, options: &Options) -> Result<Self, Error> {
        let peer = canonical(port::resolve_peer(peer)?);
        let local = route(peer).map_err(|error| Error::io(format!("cannot reach {peer}"), error))?;
        Self::on(Bound::udp(local, options)?, max_qos, options)
    }

    /// A socket that talks with `peer` alone. If nothing is bound to the peer's port, its host says so, and connecting fails
    /// at once; no other socket hears of that. It joins no groups.
    ///
    /// ```
    /// use pinnace::Error;
    /// use pinnace::a1::{Failure, Options, Socket, reliable};
    /// # fn main() -> Result<(), Error> {
    /// let client = Socket::connected("127.0.0.1:9", reliable(), &Options::default())?;
    /// let error = client.connect("127.0.0.1:9", reliable()).unwrap_err();
    /// assert!(matches!(error, Error::ConnectionFailed(Failure::Refused { .. })), "{error}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Socket::bind`], and if the system has no way to the peer.
    pub fn connected(peer: impl ToSocketAddrs, max_qos: Qos, options: &Options) -> Result<Self, Error> {
        Self::on(Bound::connected(canonical(port::resolve_peer(peer)?), options)?, max_qos, options)
    }

    /// A socket on a link of one's own, for middlewares such as [`Fault`](crate::link::Fault). `local` is where it is bound
    /// to, its port the one that others name; `peer` is the only one that the link talks with, if it is such a link (port 0:
    /// any name for it is right). It joins no groups.
    ///
    /// ```
    /// use pinnace::a1::{Full, Options, Socket, raw};
    /// use pinnace::link::{MemoryLink, MemoryOptions};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (here, there) = MemoryLink::pair(&MemoryOptions::default())?;
    /// let any = "[::]:0".parse()?;
    /// let client = Socket::over(Box::new(here), "[::]:1".parse()?, Some(any), raw(), &Options::default())?;
    /// let server = Socket::over(Box::new(there), "[::]:2".parse()?, Some(any), raw(), &Options::default())?;
    /// server.listen(1)?;
    /// client.connect("[::1]:2", raw())?.send(b"ahoy".to_vec(), Full::Block)?;
    /// assert_eq!(server.accept()?.recv()?.as_deref(), Some(&b"ahoy"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Socket::bind`].
    pub fn over(
        link: Box<dyn Link>,
        local: SocketAddr,
        peer: Option<SocketAddr>,
        max_qos: Qos,
        options: &Options,
    ) -> Result<Self, Error> {
        Self::on(Bound::over(link, local, peer), max_qos, options)
    }

    fn on(bound: Bound, max_qos: Qos, options: &Options) -> Result<Self, Error> {
        let end = Arc::new(port::start(bound, max_qos, options)?);
        let casting = Mutex::new(Casting::new(options.group, options.slow_sink));
        Ok(Self { inner: Arc::new(Inner { end, casting }) })
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.end.local
    }

    /// The most that any connection may have, with the block size that was chosen.
    pub fn max_qos(&self) -> Qos {
        self.inner.end.max_qos
    }

    /// What the socket could not be given, with the command that would help.
    pub fn warnings(&self) -> &[String] {
        &self.inner.end.warnings
    }

    /// What the protocol has seen.
    pub fn counters(&self) -> A1Counters {
        self.inner.end.port.inspect(|engine, _, _| engine.counters())
    }

    /// What the link has seen.
    pub fn link_counters(&self) -> LinkCounters {
        self.inner.end.port.link_counters()
    }

    /// Connections, also those that others opened and those that only answer CLOSE.
    pub fn connections(&self) -> usize {
        self.inner.end.port.inspect(|engine, _, _| engine.connections())
    }

    /// Lets others connect, within the maximum of this socket; so many may wait for [`Socket::accept`].
    ///
    /// # Errors
    /// [`Refused::Listening`](super::Refused::Listening).
    pub fn listen(&self, backlog: usize) -> Result<(), Error> {
        let listen = |Call { engine, state, .. }: Call<'_>| {
            let joins = engine.joins();
            engine.listen(backlog, joins)?;
            state.backlog.is_listening = true;
            Ok(())
        };
        self.inner.end.port.call(listen)?.map_err(Error::CallRefused)
    }

    /// Accepts nobody any more; who has connected already is refused, unless it was accepted.
    pub fn stop_listening(&self) {
        self.inner.stop_listening();
    }

    /// Waits for somebody to connect. The waiting thread does the work.
    ///
    /// # Errors
    /// If nobody listens ([`Socket::listen`]), or the socket is of no use any more.
    pub fn accept(&self) -> Result<Connection, Error> {
        let arrival = self.inner.end.port.wait_until(take_arrival, None)?;
        self.take(arrival?)
    }

    /// Like [`Socket::accept`], for at most `timeout`; `None` if nobody has come.
    ///
    /// # Errors
    /// As [`Socket::accept`].
    pub fn accept_timeout(&self, timeout: Duration) -> Result<Option<Connection>, Error> {
        self.accept_until(deadline(timeout))
    }

    /// Who is here already, or comes in one look at the socket. Never waits.
    ///
    /// # Errors
    /// As [`Socket::accept`].
    pub fn try_accept(&self) -> Result<Option<Connection>, Error> {
        self.accept_until(Some(Instant::now()))
    }

    fn accept_until(&self, deadline: Option<Instant>) -> Result<Option<Connection>, Error> {
        match self.inner.end.port.wait_until(take_arrival, deadline) {
            Ok(arrival) => self.take(arrival?).map(Some),
            Err(WaitError::Timeout) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Like [`Socket::accept`], for tasks.
    ///
    /// # Errors
    /// As [`Socket::accept`].
    pub async fn accept_async(&self) -> Result<Connection, Error> {
        let arrival = self.inner.end.port.wait(take_arrival).await?;
        self.take(arrival?)
    }

    fn take(&self, arrival: Arrival) -> Result<Connection, Error> {
        let Arrival { place, id, peer, source } = arrival;
        let connection = Connection::new(&self.inner.end, place, id, peer, source);
        self.inner.end.port.call(|Call { now, engine, .. }| {
            // If it came with a group, it is open only then.
            engine.answer(now);
            engine.taken(id);
        })?;
        Ok(connection)
    }

    /// Whether somebody has come, so that [`Socket::accept`] would not wait.
    pub fn has_arrivals(&self) -> bool {
        self.inner.end.port.inspect(|_, _, state| state.has_arrivals())
    }

    /// Opens a connection of its own, both ways, to whoever listens at `to`, and waits for the answer. A block size of 0 is
    /// that of the socket's maximum.
    ///
    /// # Errors
    /// [`Error::ConnectionFailed`] if it refuses, or does not answer; [`Error::CallRefused`] if the record lies beyond the
    /// maximum; or if the address does not resolve.
    pub fn connect(&self, to: impl ToSocketAddrs, qos: Qos) -> Result<Connection, Error> {
        let connection = self.begin(to, qos)?;
        connection.established(None)?;
        Ok(connection)
    }

    /// Like [`Socket::connect`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Socket::connect`], and [`Error::Timeout`].
    pub fn connect_timeout(&self, to: impl ToSocketAddrs, qos: Qos, timeout: Duration) -> Result<Connection, Error> {
        let until = deadline(timeout);
        let connection = self.begin(to, qos)?;
        connection.established(until)?;
        Ok(connection)
    }

    /// Like [`Socket::connect`], for tasks. (Names are resolved before, and block; addresses do not.)
    ///
    /// # Errors
    /// As [`Socket::connect`].
    pub async fn connect_async(&self, to: impl ToSocketAddrs, qos: Qos) -> Result<Connection, Error> {
        let connection = self.begin(to, qos)?;
        connection.established_async().await?;
        Ok(connection)
    }

    fn begin(&self, to: impl ToSocketAddrs, qos: Qos) -> Result<Connection, Error> {
        let end = &self.inner.end;
        let (to, name) = port::resolve_to(to, end.reaches_many(), |to| end.name(to))?;
        let destination = super::to_address(to);
        let opened = end.port.call(|Call { now, engine, state, .. }| {
            let id = engine.open(now, name, destination, end.fill(qos))?;
            Ok((state.insert(id), id))
        });
        let (place, id) = opened?.map_err(Error::CallRefused)?;
        Ok(Connection::new(end, place, id, name, destination))
    }

    /// A descriptor that becomes readable when somebody has connected, when there is room to send to the sinks again, or
    /// when a connection has ended. Clear it first, then look what it was. The socket's background thread works from now
    /// on.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn watch(&self) -> Result<Arc<WakeFd>, Error> {
        let watch = WakeFd::new().map_err(|error| Error::io("cannot watch a socket", error))?;
        let watch = Arc::new(watch);
        self.watch_on(Arc::clone(&watch))?;
        Ok(watch)
    }

    /// Like [`Socket::watch`], with a descriptor that is there already: it is signalled from now on, and now.
    ///
    /// # Errors
    /// If the background thread cannot be started.
    pub fn watch_on(&self, watch: Arc<WakeFd>) -> Result<(), Error> {
        self.inner.end.port.inspect(|_, _, state| state.watch(watch));
        self.inner.end.port.readiness_fd()?;
        Ok(())
    }

    /// Ends it: nobody is accepted any more, the sinks get what is queued, within `linger`, and are closed. Waits for the
    /// sinks. (Connections that were opened or accepted go on.)
    ///
    /// # Errors
    /// As [`Socket::close_sinks`].
    //= A-18
    pub fn close(&self, linger: Duration) -> Result<(), Error> {
        self.stop_listening();
        self.close_sinks(linger)
    }

    /// Waits until nothing is under way: every connection has ended, whether its handle was dropped or not.
    ///
    /// # Errors
    /// [`Error::Timeout`], or if the socket is of no use any more.
    pub fn wait_quiet(&self, timeout: Duration) -> Result<(), Error> {
        Ok(self.inner.end.port.wait_until(|state| state.is_quiet().then_some(()), deadline(timeout))?)
    }

    /// Answers peers that have closed and say so again, because the answer was lost, and tells those again whose connections
    /// were aborted and who have not answered that, at most `timeout`: whoever finds nobody there asks for long, and in vain,
    /// and whoever does not hear of an abort waits for its time-out. It follows the round trip: some 80 ms where that is
    /// short, and never more than some three seconds; no time if nobody has closed or aborted. True if nobody needs either any
    /// more. Before the end of a process.
    ///
    /// ```
    /// use pinnace::a1::{Socket, reliable};
    /// use std::time::Duration;
    /// # fn main() -> Result<(), pinnace::Error> {
    /// let server = Socket::bind("127.0.0.1:0", reliable())?;
    /// server.listen(1)?;
    /// let client = Socket::bind("127.0.0.1:0", reliable())?;
    /// let connection = client.connect(server.local_addr(), reliable())?;
    /// let accepted = server.accept()?;
    /// let served = std::thread::spawn(move || accepted.recv());
    /// connection.close(Duration::from_secs(1))?;
    /// assert!(client.part(Duration::ZERO), "it has its answer, and owes none");
    /// assert!(served.join().expect("no panic")?.is_none());
    /// assert!(server.part(Duration::from_secs(3)));
    /// # Ok(())
    /// # }
    /// ```
    //= A-18
    pub fn part(&self, timeout: Duration) -> bool {
        self.inner.end.part(timeout)
    }

    /// Tells all peers that this end goes down, and ends every connection at once.
    pub fn shut_down(&self) {
        let port = &self.inner.end.port;
        let _ = port.call(|Call { now, engine, .. }| engine.shut_down(now));
        // What waits finds out, and what is left of the good-byes is sent.
        let _ = port.wait_until(|state| state.is_quiet().then_some(()), Some(Instant::now()));
        port.notify();
    }

    /// Stops at once, and tells nobody: every call and every wait fails from now on.
    pub fn abort(&self) {
        self.inner.end.port.shutdown();
    }
}

fn take_arrival(state: &mut Exchange) -> Option<Result<Arrival, Error>> {
    if let Some(arrival) = state.accept() {
        return Some(Ok(arrival));
    }
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, "nobody listens: call Socket::listen before");
    (!state.backlog.is_listening).then(|| Err(Error::io("cannot accept", refused())))
}

impl Inner {
    fn stop_listening(&self) {
        let _ = self.end.port.call(|Call { now, engine, state, .. }| {
            engine.stop_listening();
            state.backlog.is_listening = false;
            while let Some(arrival) = state.accept() {
                engine.release(now, arrival.id);
                state.release(arrival.place);
            }
        });
        // Who waits for them finds out.
        self.end.port.notify();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop_listening();
        drop(self.end_casting(self.end.linger));
    }
}
