//! One socket with any number of associations, opened here or accepted from others.

use super::exchange::Arrival;
use crate::places::Place;

use super::port::{self, Bound, Call, End, canonical, deadline};
use super::sending;
use super::{
    AddressSegment, Carrier, Close, Connection, ControlBlock, HostPair, Listener, Options, Received, SendOptions,
    Sending, Service, Services, XtpCounters,
};
use crate::{Error, Message, Unsent};
use pinnace_core::Address;
use pinnace_link::{Link, LinkCounters};
use pinnace_xtp::ContextId;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One socket (or one IP address, with protocol 36), and the protocol on it. Clones are the same endpoint; calls may come
/// from any thread.
///
/// It lives as long as any handle of it: connections, listeners and messages under way are handles, too. When the last
/// one is dropped, what was queued has a second to arrive, and then the peers are told that this end is gone. If an
/// association was reset just before ([`Close::Forced`](super::Close::Forced)), that takes a fifth of a second at most: its
/// peer is told several times.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub(super) end: Arc<End>,
}

impl Endpoint {
    /// Binds to `address`; port 0 picks one (not with protocol 36, where the port is XTP's alone).
    ///
    /// ```
    /// use pinnace::xtp::{Endpoint, Options};
    /// # fn main() -> Result<(), pinnace::Error> {
    /// let endpoint = Endpoint::bind("127.0.0.1:0", &Options::default())?;
    /// assert!(endpoint.local_addr().port() > 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the address does not resolve or cannot be bound: it may be taken, or a right may be missing; or if the capture
    /// cannot be written.
    pub fn bind(address: impl ToSocketAddrs, options: &Options) -> Result<Self, Error> {
        Self::on(port::bind(port::resolve(address)?, options)?, options)
    }

    /// An endpoint at a port that the system picks, on every address of this host: for those who only open associations.
    ///
    /// # Errors
    /// If the system has no socket left.
    pub fn client(options: &Options) -> Result<Self, Error> {
        Self::on(port::client(options)?, options)
    }

    /// An endpoint that talks with `peer` alone: it knows the path, and so how large packets may be and which congestion
    /// control is right.
    ///
    /// # Errors
    /// If the address does not resolve, or the system has no way to it.
    pub fn client_of(peer: impl ToSocketAddrs, options: &Options) -> Result<Self, Error> {
        let peer = match options.carrier {
            Carrier::Udp => port::resolve_peer(peer)?,
            Carrier::Ip36 => port::resolve(peer)?,
        };
        Self::on(port::client_of(peer, options)?, options)
    }

    /// An endpoint on a link of one's own, for middlewares such as [`Fault`](crate::link::Fault). `local` is where it is
    /// bound to, its port the one that others name; `peer` is the only one that the link talks with, if it is such a link
    /// (port 0: any name for it is right).
    ///
    /// ```
    /// use pinnace::link::{MemoryLink, MemoryOptions};
    /// use pinnace::xtp::{Endpoint, Options, Services};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (here, there) = MemoryLink::pair(&MemoryOptions::default())?;
    /// let any = "[::]:0".parse()?;
    /// let client = Endpoint::over(Box::new(here), "[::]:1".parse()?, Some(any), &Options::default())?;
    /// let server = Endpoint::over(Box::new(there), "[::]:2".parse()?, Some(any), &Options::default())?;
    /// let listener = server.listen(Services::ALL)?;
    /// client.datagram("[::1]:2", b"ahoy".to_vec())?;
    /// assert_eq!(listener.accept()?.into_datagram().map(|datagram| datagram.data), Some(b"ahoy".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn over(
        link: Box<dyn Link>,
        local: SocketAddr,
        peer: Option<SocketAddr>,
        options: &Options,
    ) -> Result<Self, Error> {
        Self::on(Bound::over(link, local, peer, options.carrier), options)
    }

    fn on(bound: Bound, options: &Options) -> Result<Self, Error> {
        Ok(Self::at(port::start(bound, options)?))
    }

    pub(super) fn at(end: End) -> Self {
        Self { end: Arc::new(end) }
    }

    /// Whether others than this handle need it: connections, listeners, messages under way.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.end) > 1
    }

    /// Whether both are handles of one endpoint.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.end, &other.end)
    }

    /// Whether an association goes on that nobody has a handle of, or the end of one is still to be said again.
    pub(crate) fn is_lingering(&self) -> bool {
        self.end.port.inspect(|engine, _, state| state.is_lingering() || engine.farewells() > 0)
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.end.local
    }

    /// What the socket could not be given, with the command that would help.
    pub fn warnings(&self) -> &[String] {
        &self.end.warnings
    }

    /// The control block of associations for which none is given, to be changed and given.
    pub fn block(&self, service: Service) -> ControlBlock {
        let block = ControlBlock { service, ..self.end.block.clone() };
        match self.end.group_queue {
            Some(wbufsize) if service == Service::Multicast => ControlBlock { wbufsize, ..block },
            _ => block,
        }
    }

    /// Listens at the endpoint's own port for these services.
    ///
    /// # Errors
    /// [`Error::ContextRefused`] if the port is 0 or somebody listens there already.
    pub fn listen(&self, services: impl Into<Services>) -> Result<Listener, Error> {
        self.listen_on(self.end.local.port(), services, self.block(Service::Connection))
    }

    /// Listens at `port` of XTP's. What `block` says besides service and address holds for all that is accepted.
    ///
    /// # Errors
    /// As [`Endpoint::listen`].
    pub fn listen_on(
        &self,
        port: u16,
        services: impl Into<Services>,
        mut block: ControlBlock,
    ) -> Result<Listener, Error> {
        let services = services.into();
        block.address_segment.destination_port = port;
        block.service = Service::Connection;
        let id = self.end.port.call(|Call { engine, state, .. }| {
            let id = engine.listen(block, services)?;
            state.listen(id);
            Ok::<_, Error>(id)
        })??;
        Ok(Listener::new(&self.end, id, port))
    }

    /// A stream to a station that is known by its link address; `to` says the port, and nothing else.
    pub(crate) fn connect_station(&self, station: Address, to: SocketAddr) -> Result<Connection, Error> {
        let block = self.addressed(to, self.block(Service::Connection), Service::Connection);
        let address = block.address_segment;
        let opened = self.end.port.call(|mut call| Self::open(&mut call, station, block))??;
        Ok(Connection::new(&self.end, opened, Service::Connection, station, address))
    }

    /// The way to `to`, and the block with its address.
    pub(super) fn target(
        &self,
        to: impl ToSocketAddrs,
        block: ControlBlock,
        service: Service,
    ) -> Result<(Address, ControlBlock), Error> {
        let (to, name) = port::resolve_to(to, self.end.is_udp(), |to| self.end.name(to))?;
        Ok((name, self.addressed(to, block, service)))
    }

    /// The block with the addresses of a FIRST to `to`.
    pub(super) fn addressed(&self, to: SocketAddr, mut block: ControlBlock, service: Service) -> ControlBlock {
        let hosts = match (to, canonical(self.end.local).ip()) {
            (SocketAddr::V4(to), source) => HostPair::V4 {
                destination: *to.ip(),
                source: if let std::net::IpAddr::V4(source) = source { source } else { [0; 4].into() },
            },
            (SocketAddr::V6(to), source) => HostPair::V6 {
                destination: *to.ip(),
                source: if let std::net::IpAddr::V6(source) = source { source } else { [0; 16].into() },
            },
        };
        let source_port = self.end.local.port();
        block.address_segment = AddressSegment { hosts, destination_port: to.port(), source_port };
        block.service = service;
        block
    }

    /// A new context, in the midst of a call.
    fn open(call: &mut Call<'_>, to: Address, block: ControlBlock) -> Result<(Place, ContextId), Error> {
        let id = call.engine.open(call.now, to, block).map_err(Error::ContextRefused)?;
        Ok((call.state.insert(id), id))
    }

    fn stream(&self, to: impl ToSocketAddrs, block: ControlBlock, service: Service) -> Result<Connection, Error> {
        let (to, block) = self.target(to, block, service)?;
        self.open_stream(to, block, service)
    }

    pub(super) fn open_stream(&self, to: Address, block: ControlBlock, service: Service) -> Result<Connection, Error> {
        let address = block.address_segment;
        let opened = self.end.port.call(|mut call| Self::open(&mut call, to, block))??;
        Ok(Connection::new(&self.end, opened, service, to, address))
    }

    /// A reliable stream each way to whoever listens at `to`. Nothing is sent before the first message, which sets the
    /// association up as it goes; [`Connection::establish`] waits for the answer.
    ///
    /// # Errors
    /// If the address does not resolve, or there are too many contexts.
    pub fn connect(&self, to: impl ToSocketAddrs) -> Result<Connection, Error> {
        self.connect_with(to, self.block(Service::Connection))
    }

    /// As [`Endpoint::connect`], programmed by `block`, whose service (one of the three streams) counts, and whose address
    /// does not.
    ///
    /// # Errors
    /// As [`Endpoint::connect`]; also if the service is no stream.
    pub fn connect_with(&self, to: impl ToSocketAddrs, block: ControlBlock) -> Result<Connection, Error> {
        let service = block.service;
        match service {
            Service::Connection | Service::IsoStream | Service::BulkData => self.stream(to, block, service),
            _ => Err(Error::ContextRefused(super::Refused::Unsupported)),
        }
    }

    /// A stream to `to` of which nothing is repeated: what is lost reads as zeros there, and is told
    /// ([`Received::holes`]).
    ///
    /// # Errors
    /// As [`Endpoint::connect`].
    pub fn iso_stream(&self, to: impl ToSocketAddrs) -> Result<Connection, Error> {
        self.connect_with(to, self.block(Service::IsoStream))
    }

    /// A reliable stream to `to` that goes straight into buffers which the application there posts
    /// ([`Connection::post`]).
    ///
    /// # Errors
    /// As [`Endpoint::connect`].
    pub fn bulk(&self, to: impl ToSocketAddrs) -> Result<Connection, Error> {
        self.connect_with(to, self.block(Service::BulkData))
    }

    /// A context of one message, which is queued at once.
    fn single(
        &self,
        to: impl ToSocketAddrs,
        message: Message,
        block: ControlBlock,
        service: Service,
        options: &SendOptions,
    ) -> Result<(Connection, u64), Unsent> {
        let (to, block) = match self.target(to, block, service) {
            Ok(target) => target,
            Err(error) => return Err(Unsent::new(message, error)),
        };
        let address = block.address_segment;
        let options = SendOptions { eom: true, ..*options };
        let opened = self.end.port.call(|mut call| {
            let (place, id) = match Self::open(&mut call, to, block) {
                Ok(opened) => opened,
                Err(error) => return Err(Unsent::new(message, error)),
            };
            let queued = sending::queue(&mut call, place, id, message, &options);
            if queued.is_err() || service.is_datagram() {
                // It goes on by itself, or has never begun.
                call.engine.release(call.now, id);
                call.state.release(place);
            }
            let number = queued.map_err(|unqueued| Unsent::new(unqueued.message, unqueued.error))?;
            if service == Service::Transaction {
                // The response says that it has arrived.
                call.state.abandon(place, number);
            }
            Ok((place, id, number))
        });
        let (place, id, number) = opened.map_err(|error| Unsent::new(None, error))??;
        Ok((Connection::new(&self.end, (place, id), service, to, address), number))
    }

    fn request(
        &self,
        to: impl ToSocketAddrs,
        request: impl Into<Message>,
        block: ControlBlock,
    ) -> Result<Connection, Error> {
        let (connection, _) = self.single(to, request.into(), block, Service::Transaction, &SendOptions::MESSAGE)?;
        Ok(connection)
    }

    /// Sends a request to `to` and waits for the response: one round trip, with set-up and close.
    ///
    /// ```
    /// use pinnace::xtp::{Endpoint, Incoming, Options, Services};
    /// # fn main() -> Result<(), pinnace::Error> {
    /// let server = Endpoint::bind("127.0.0.1:0", &Options::default())?;
    /// let (address, listener) = (server.local_addr(), server.listen(Services::ALL)?);
    /// let serving = std::thread::spawn(move || -> Result<(), pinnace::Error> {
    ///     if let Incoming::Transaction(transaction) = listener.accept()? {
    ///         let request = transaction.request()?;
    ///         transaction.respond(request.to_ascii_uppercase())?.wait()?;
    ///     }
    ///     Ok(())
    /// });
    /// let client = Endpoint::client_of(address, &Options::default())?;
    /// assert_eq!(&*client.transact(address, b"ahoy".to_vec())?, b"AHOY");
    /// serving.join().expect("the server does not panic")
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::ContextFailed`] if the peer refuses or does not answer, [`Error::NoResponse`] if it ended without.
    pub fn transact(&self, to: impl ToSocketAddrs, request: impl Into<Message>) -> Result<Received, Error> {
        self.transact_with(to, request, self.block(Service::Transaction))
    }

    /// As [`Endpoint::transact`], programmed by `block`.
    ///
    /// # Errors
    /// As [`Endpoint::transact`].
    pub fn transact_with(
        &self,
        to: impl ToSocketAddrs,
        request: impl Into<Message>,
        block: ControlBlock,
    ) -> Result<Received, Error> {
        answer(self.request(to, request, block)?.recv_until(None))
    }

    /// As [`Endpoint::transact`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Endpoint::transact`], and [`Error::Timeout`].
    pub fn transact_timeout(
        &self,
        to: impl ToSocketAddrs,
        request: impl Into<Message>,
        timeout: Duration,
    ) -> Result<Received, Error> {
        let until = deadline(timeout);
        answer(self.request(to, request, self.block(Service::Transaction))?.recv_until(until))
    }

    /// As [`Endpoint::transact`], for tasks. (Names are resolved before, and block; addresses do not.)
    ///
    /// # Errors
    /// As [`Endpoint::transact`].
    pub async fn transact_async(&self, to: impl ToSocketAddrs, request: impl Into<Message>) -> Result<Received, Error> {
        let connection = self.request(to, request, self.block(Service::Transaction))?;
        answer(connection.recv_async().await)
    }

    /// Sends a message in one packet to `to`, and keeps nothing: it arrives or not.
    ///
    /// # Errors
    /// [`Refused::TooLarge`](super::Refused::TooLarge) if it does not fit one packet.
    pub fn datagram(&self, to: impl ToSocketAddrs, message: impl Into<Message>) -> Result<(), Unsent> {
        let block = self.block(Service::UnackDgram);
        self.datagram_with(to, message, block, &SendOptions::MESSAGE).map(drop)
    }

    /// Sends a message in one packet to `to`, again and again until it is acknowledged.
    ///
    /// ```
    /// use pinnace::xtp::{Endpoint, Options, Services};
    /// # fn main() -> Result<(), pinnace::Error> {
    /// let server = Endpoint::bind("127.0.0.1:0", &Options::default())?;
    /// let listener = server.listen(Services::ALL)?;
    /// let client = Endpoint::client_of(server.local_addr(), &Options::default())?;
    /// client.acked_datagram(server.local_addr(), b"ahoy".to_vec())?.wait()?;
    /// let datagram = listener.accept()?.into_datagram().expect("nothing else was sent");
    /// assert_eq!(datagram.data, b"ahoy");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Endpoint::datagram`]; what is waited for says whether it arrived.
    pub fn acked_datagram(&self, to: impl ToSocketAddrs, message: impl Into<Message>) -> Result<Sending, Unsent> {
        let block = self.block(Service::AckDgram);
        self.datagram_with(to, message, block, &SendOptions::MESSAGE)
    }

    /// A datagram of the block's service ([`Service::AckDgram`] or [`Service::UnackDgram`]), programmed by `block`. With
    /// [`SendOptions::dreq`] it is acknowledged when the peer's application takes it.
    ///
    /// # Errors
    /// As [`Endpoint::datagram`]; also if the service is none of the two.
    pub fn datagram_with(
        &self,
        to: impl ToSocketAddrs,
        message: impl Into<Message>,
        block: ControlBlock,
        options: &SendOptions,
    ) -> Result<Sending, Unsent> {
        let (message, service) = (message.into(), block.service);
        if !service.is_datagram() {
            return Err(Unsent::new(message, Error::ContextRefused(super::Refused::Unsupported)));
        }
        let (connection, number) = self.single(to, message, block, service, options)?;
        Ok(connection.into_sending(number))
    }

    /// What the protocol has seen.
    pub fn counters(&self) -> XtpCounters {
        self.end.port.inspect(|engine, _, _| engine.counters())
    }

    /// What the link has seen.
    pub fn link_counters(&self) -> LinkCounters {
        self.end.port.link_counters()
    }

    /// Contexts, also those that others opened and those that only wait for late packets.
    pub fn contexts(&self) -> usize {
        self.end.port.inspect(|engine, _, _| engine.contexts())
    }

    /// Waits until nothing is under way: every association has closed, whether its handle was dropped or not.
    ///
    /// # Errors
    /// [`Error::Timeout`], or if the endpoint is of no use any more.
    pub fn wait_quiet(&self, timeout: Duration) -> Result<(), Error> {
        Ok(self.end.port.wait_until(|state| state.is_quiet().then_some(()), deadline(timeout))?)
    }

    /// Waits until the peers of associations that were reset ([`Close::Forced`](super::Close::Forced)) have been told as
    /// often as they are, at most `timeout`: a reset that is lost finds nobody who asks for it. It never takes longer than
    /// 140 ms. True if all have been told. Before [`Endpoint::abort`], or the end of a process.
    pub fn settle(&self, timeout: Duration) -> bool {
        self.end.say_farewell(timeout)
    }

    /// Says the END of associations that have just ended well a few times more: nobody acknowledges it, and a peer that has
    /// not heard it would find nobody to ask. Before the end of a process. It takes three round trips and 30 ms, a second at
    /// most; no time if the last END came from the peers.
    pub fn part(&self) {
        self.end.part();
    }

    /// Tells all peers that this end goes down, and ends every association.
    pub fn shut_down(&self) {
        let _ = self.end.port.call(|Call { now, engine, .. }| engine.shut_down(now));
        // What waits finds out, and what is left of the good-byes is sent.
        let _ = self.end.port.wait_until(|state| state.is_quiet().then_some(()), Some(Instant::now()));
        self.end.port.notify();
    }

    /// Stops at once, and tells nobody: every call and every wait fails from now on.
    pub fn abort(&self) {
        self.end.port.shutdown();
    }
}

/// What has come of a request.
fn answer(received: Result<Option<Received>, Error>) -> Result<Received, Error> {
    received?.filter(|received| received.eom).ok_or(Error::NoResponse)
}

/// Gives back what an arrival holds of the engine, when nobody takes it.
pub(super) fn turn_away(call: &mut Call<'_>, arrival: Arrival) {
    match arrival {
        Arrival::Context { place, id, .. } => {
            // Nobody has taken what was said, so its end is none in order.
            let _ = call.engine.close(call.now, id, Close::Forced);
            call.engine.release(call.now, id);
            call.state.release(place);
        }
        Arrival::Datagram { bytes, deferred, .. } => {
            call.engine.release_datagrams(1, bytes.len() as u64);
            if let Some(context) = deferred {
                // Nobody will take it: its sender finds out when it asks again.
                call.engine.not_taken(context);
            }
        }
    }
}
