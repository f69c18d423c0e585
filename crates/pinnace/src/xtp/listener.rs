//! What others begin: associations, requests and datagrams that come for a listener.

use super::endpoint::turn_away;
use super::exchange::{Arrival, Exchange};
use super::port::{Call, End, deadline};
use super::{AddressSegment, Connection, Facts, Received, SendOptions, Sending, Service};
use crate::network::with_port;
use crate::{Error, Message, Unsent};
use pinnace_runtime::{WaitError, WakeFd};
use pinnace_xtp::{ListenerId, Refused};
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Datagrams that were taken count in the engine until so many bytes have come together: a call costs more than they do.
const DATAGRAMS_TOLD_AT: u64 = 256 << 10;
/// Or so many datagrams.
const MOST_UNTOLD: u64 = 256;

/// Waits for others at one port of XTP's, or for streams to a group ([`Endpoint::join`](super::Endpoint::join)). When it is
/// dropped, no more are accepted; those that were accepted go on.
#[derive(Debug)]
pub struct Listener {
    end: Arc<End>,
    id: ListenerId,
    port: u16,
    group: Option<SocketAddrV4>,
}

/// What somebody has begun.
#[derive(Debug)]
pub enum Incoming {
    /// A stream each way: Connection, IsoStream or BulkData.
    Connection(Connection),
    /// A request that wants a response.
    Transaction(Transaction),
    /// A datagram, acknowledged or not.
    Datagram(Datagram),
}

impl Incoming {
    /// The service.
    pub fn service(&self) -> Service {
        match self {
            Self::Connection(connection) => connection.service(),
            Self::Transaction(_) => Service::Transaction,
            Self::Datagram(datagram) => datagram.service,
        }
    }

    /// Who began; `[::]:0` if the link has no internet addresses.
    pub fn peer(&self) -> SocketAddr {
        match self {
            Self::Connection(connection) => connection.peer(),
            Self::Transaction(transaction) => transaction.peer(),
            Self::Datagram(datagram) => datagram.peer,
        }
    }

    /// The addresses and ports that the FIRST said.
    pub fn address(&self) -> AddressSegment {
        match self {
            Self::Connection(connection) => connection.address(),
            Self::Transaction(transaction) => transaction.connection.address(),
            Self::Datagram(datagram) => datagram.address,
        }
    }

    /// The stream, if it is one.
    pub fn into_connection(self) -> Option<Connection> {
        if let Self::Connection(connection) = self { Some(connection) } else { None }
    }

    /// The request, if it is one.
    pub fn into_transaction(self) -> Option<Transaction> {
        if let Self::Transaction(transaction) = self { Some(transaction) } else { None }
    }

    /// The datagram, if it is one.
    pub fn into_datagram(self) -> Option<Datagram> {
        if let Self::Datagram(datagram) = self { Some(datagram) } else { None }
    }
}

/// A datagram that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Its bytes.
    pub data: Vec<u8>,
    /// The tag of its sender.
    pub btag: Option<[u8; 8]>,
    /// Who sent it; `[::]:0` if the link has no internet addresses.
    pub peer: SocketAddr,
    /// The addresses and ports that it said.
    pub address: AddressSegment,
    /// [`Service::UnackDgram`] or [`Service::AckDgram`].
    pub service: Service,
}

/// A request that wants a response. Dropped without one, it is refused.
#[derive(Debug)]
pub struct Transaction {
    connection: Connection,
}

impl Transaction {
    /// Who asks.
    pub fn peer(&self) -> SocketAddr {
        self.connection.peer()
    }

    /// Keys, sequence numbers and spans, as [`Connection::facts`] has them.
    ///
    /// # Errors
    /// If the context is gone.
    pub fn facts(&self) -> Result<Facts, Error> {
        self.connection.facts()
    }

    /// Waits for the request to come whole.
    ///
    /// # Errors
    /// [`Error::ContextFailed`] if the peer is gone before.
    pub fn request(&self) -> Result<Received, Error> {
        whole(self.connection.recv())
    }

    /// Like [`Transaction::request`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Transaction::request`], and [`Error::Timeout`].
    pub fn request_timeout(&self, timeout: Duration) -> Result<Received, Error> {
        whole(self.connection.recv_timeout(timeout))
    }

    /// Like [`Transaction::request`], for tasks.
    ///
    /// # Errors
    /// As [`Transaction::request`].
    pub async fn request_async(&self) -> Result<Received, Error> {
        whole(self.connection.recv_async().await)
    }

    /// Sends the response, which goes on by itself; what is waited for says whether it arrived.
    ///
    /// # Errors
    /// [`Unsent`], if the peer is gone.
    pub fn respond(self, response: impl Into<Message>) -> Result<Sending, Unsent> {
        self.respond_with(response, &SendOptions::MESSAGE)
    }

    /// Like [`Transaction::respond`], with a tag. The response is one whole message whatever `options` say.
    ///
    /// # Errors
    /// As [`Transaction::respond`].
    pub fn respond_with(self, response: impl Into<Message>, options: &SendOptions) -> Result<Sending, Unsent> {
        self.connection.try_send(response, &SendOptions { eom: true, ..*options })
    }
}

fn whole(received: Result<Option<Received>, Error>) -> Result<Received, Error> {
    // A request without an end, or a second one, cannot be.
    received?.filter(|received| received.eom).ok_or(Error::ContextRefused(Refused::Closed))
}

impl Listener {
    pub(super) fn new(end: &Arc<End>, id: ListenerId, port: u16) -> Self {
        Self { end: Arc::clone(end), id, port, group: None }
    }

    /// One of streams to a group, which the link has joined for it.
    pub(super) fn of_group(end: &Arc<End>, id: ListenerId, group: SocketAddrV4) -> Self {
        Self { end: Arc::clone(end), id, port: group.port(), group: Some(group) }
    }

    /// Where others reach it: the group, if it joined one.
    pub fn local_addr(&self) -> SocketAddr {
        self.group.map_or_else(|| with_port(self.end.local, self.port), SocketAddr::from)
    }

    /// Waits for the next that comes. The waiting thread does the work.
    ///
    /// # Errors
    /// If the endpoint is of no use any more.
    pub fn accept(&self) -> Result<Incoming, Error> {
        self.take(self.end.port.wait_until(|state| state.accept(self.id), None)?)
    }

    /// Like [`Listener::accept`], for at most `timeout`; `None` if nothing has come.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub fn accept_timeout(&self, timeout: Duration) -> Result<Option<Incoming>, Error> {
        self.accept_until(deadline(timeout))
    }

    /// What is here already, or comes in one look at the socket. Never blocks.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub fn try_accept(&self) -> Result<Option<Incoming>, Error> {
        self.accept_until(Some(Instant::now()))
    }

    fn accept_until(&self, deadline: Option<Instant>) -> Result<Option<Incoming>, Error> {
        let accepted = self.accept_or(|| None::<std::convert::Infallible>, deadline)?;
        Ok(accepted.and_then(Result::ok))
    }

    /// Waits for the next that comes, or for `other` to find something: who makes it do so calls
    /// [`Listener::notify`].
    pub(crate) fn accept_or<T>(
        &self,
        mut other: impl FnMut() -> Option<T>,
        deadline: Option<Instant>,
    ) -> Result<Option<Result<Incoming, T>>, Error> {
        let look = |state: &mut Exchange| state.accept(self.id).map(Ok).or_else(|| other().map(Err));
        match self.end.port.wait_until(look, deadline) {
            Ok(Ok(arrival)) => self.take(arrival).map(|incoming| Some(Ok(incoming))),
            Ok(Err(found)) => Ok(Some(Err(found))),
            Err(WaitError::Timeout) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`Listener::accept_or`], for tasks.
    pub(crate) async fn accept_or_async<T>(
        &self,
        mut other: impl FnMut() -> Option<T>,
    ) -> Result<Result<Incoming, T>, Error> {
        let look = |state: &mut Exchange| state.accept(self.id).map(Ok).or_else(|| other().map(Err));
        Ok(match self.end.port.wait(look).await? {
            Ok(arrival) => Ok(self.take(arrival)?),
            Err(found) => Err(found),
        })
    }

    /// What makes those who wait here look again, for as long as the endpoint lives.
    pub(crate) fn notifier(&self) -> impl Fn() + Send + use<> {
        let end = Arc::downgrade(&self.end);
        move || {
            if let Some(end) = end.upgrade() {
                end.port.notify();
            }
        }
    }

    /// Like [`Listener::accept`], for tasks.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub async fn accept_async(&self) -> Result<Incoming, Error> {
        self.take(self.end.port.wait(|state: &mut Exchange| state.accept(self.id)).await?)
    }

    /// A descriptor that becomes readable when something has come. Clear it first, then accept until nothing is there. The
    /// endpoint's background thread works from now on.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn watch(&self) -> Result<Arc<WakeFd>, Error> {
        let watch = WakeFd::new().map_err(|error| Error::io("cannot watch a listener", error))?;
        let watch = Arc::new(watch);
        self.watch_on(Arc::clone(&watch))?;
        Ok(watch)
    }

    /// Like [`Listener::watch`], with a descriptor that is there already: it is signalled from now on, and now if something
    /// has come.
    ///
    /// # Errors
    /// If the background thread cannot be started.
    pub fn watch_on(&self, watch: Arc<WakeFd>) -> Result<(), Error> {
        self.end.port.inspect(|_, _, state| state.watch_listener(self.id, watch));
        self.end.port.readiness_fd()?;
        Ok(())
    }

    /// Whether something has come, so that [`Listener::accept`] would not wait.
    pub fn has_arrivals(&self) -> bool {
        self.end.port.inspect(|_, _, state| state.has_arrivals(self.id))
    }

    fn take(&self, arrival: Arrival) -> Result<Incoming, Error> {
        Ok(match arrival {
            Arrival::Context { place, id, peer, address, service } => {
                if let Some(group) = self.group {
                    // It outlives the listener, and needs the group as long.
                    self.end.groups.hold(&self.end.port, group, id);
                }
                let mut connection = Connection::new(&self.end, (place, id), service, peer, address);
                connection.is_accepted = true;
                match service {
                    Service::Transaction => Incoming::Transaction(Transaction { connection }),
                    _ => Incoming::Connection(connection),
                }
            }
            Arrival::Datagram { peer, address, service, bytes, btag, deferred } => {
                self.settle_datagrams(deferred)?;
                let peer = self.end.address_of(peer);
                Incoming::Datagram(Datagram { data: bytes, btag, peer, address, service })
            }
        })
    }

    /// Tells the engine that datagrams were taken.
    fn settle_datagrams(&self, deferred: Option<pinnace_xtp::ContextId>) -> Result<(), Error> {
        let is_due = self.end.port.inspect(|_, _, state| {
            let (count, bytes) = state.taken_datagrams;
            count >= MOST_UNTOLD || bytes >= DATAGRAMS_TOLD_AT
        });
        if is_due || deferred.is_some() {
            self.end.port.call(|Call { now, engine, state, .. }| {
                let (count, bytes) = std::mem::take(&mut state.taken_datagrams);
                engine.release_datagrams(count, bytes);
                if let Some(context) = deferred {
                    engine.delivered(now, context);
                }
            })?;
        }
        Ok(())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.end.port.call(|mut call| {
            call.engine.stop_listening(self.id);
            for arrival in call.state.stop_listening(self.id) {
                turn_away(&mut call, arrival);
            }
        });
        if let Some(group) = self.group {
            self.end.groups.leave(&self.end.port, group);
        }
    }
}
