//! Endpoints: what several sockets of one process share.

use super::owned::{self, Place};
use super::stream::StreamId;
use super::{Carrier, EtherAddress, Listener, Options, Pool, Stream, Way};
use crate::network::{host_of, resolve, resolve_peer};
use crate::xtp;
use crate::xtp::ether::{interface_of, ipv4_of};
use crate::xtp::qmp::{Stirred, way_to};
use pinnace_link::Link;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// What ended [`Endpoint::wait_any`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Woken {
    /// Something has happened to streams, or somebody has come to a listener.
    Sockets,
    /// The other descriptor is readable.
    Beside,
    /// It was long enough.
    Timeout,
}

/// One UDP socket (or one IP address, with protocol 36), and QMP on it. Clones are the same endpoint.
///
/// [`Listener::bind`] and [`Stream::connect`] make one for themselves; who opens many streams, or listens and connects over
/// a carrier that only one process can own, makes one for all.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub(super) inner: xtp::Endpoint,
    pub(super) options: Arc<Options>,
}

impl Endpoint {
    /// Binds to `address`; port 0 picks one (not with protocol 36 and Ethernet, which have no ports of their own). With
    /// Ethernet the address names the interface that has it. Protocol 36 and Ethernet are shared by all sockets of the
    /// process on the same address or interface; the options of the first count.
    ///
    /// # Errors
    /// If the address does not resolve or cannot be bound.
    pub fn bind(address: impl ToSocketAddrs, options: &Options) -> io::Result<Self> {
        let address = resolve(address)?;
        let place = match options.carrier {
            Carrier::Udp | Carrier::SharedMemory => None,
            Carrier::Ip36 => Some(Place::Host(host_of(address))),
            Carrier::Ether => Some(Place::Interface(interface_of(address.ip())?)),
        };
        owned::get(place, || Ok(Self::of(xtp::Endpoint::bind_qmp(address, options)?, options)))
    }

    /// An endpoint that talks with `peer` alone: it knows the path, and so how large packets may be. With protocol 36 and
    /// Ethernet, the one of this process that leads there.
    ///
    /// # Errors
    /// If the address does not resolve, or the system has no way to it.
    pub fn client_of(peer: impl ToSocketAddrs, options: &Options) -> io::Result<Self> {
        if matches!(options.carrier, Carrier::Udp | Carrier::SharedMemory) {
            return Ok(Self::of(xtp::Endpoint::client_of_qmp(resolve_peer(peer)?, options)?, options));
        }
        let peer = resolve(peer)?;
        let (local, interface) = way_to(peer, &options.carrier)?;
        match interface {
            Some(interface) => Self::on_interface(&interface, local, options),
            None => Self::bind(local, options),
        }
    }

    /// An endpoint on Ethernet, on the interface of this name; `local` is what peers are told of its address.
    ///
    /// # Errors
    /// If there is no such interface, a right is missing, or another process owns it.
    pub fn on_interface(interface: &str, local: SocketAddr, options: &Options) -> io::Result<Self> {
        let options = Options { carrier: Carrier::Ether, ..options.clone() };
        owned::get(Some(Place::Interface(interface.to_owned())), || {
            Ok(Self::of(xtp::Endpoint::on_interface(interface, local, &options)?, &options))
        })
    }

    /// An endpoint on Ethernet, on the interface that a station is seen through; peers are told its first IPv4 address, if it
    /// has one.
    ///
    /// # Errors
    /// As [`Endpoint::on_interface`].
    pub fn client_of_station(station: &EtherAddress, options: &Options) -> io::Result<Self> {
        let local = ipv4_of(&station.interface).unwrap_or(Ipv4Addr::UNSPECIFIED);
        Self::on_interface(&station.interface, (local, 0).into(), options)
    }

    /// Connects to a station of Ethernet that is known by its link address, on the interface of this endpoint.
    ///
    /// # Errors
    /// As [`Endpoint::connect`]; also if there is no such interface.
    pub fn connect_station(&self, station: &EtherAddress, port: u16) -> io::Result<Stream> {
        let stream = self.begin_station(station, port)?;
        stream.wait_established(None)?;
        Ok(stream)
    }

    /// As [`Endpoint::connect_station`], without waiting: FIRST is on its way. Data may follow at once.
    ///
    /// # Errors
    /// If there is no such interface, or there are too many contexts.
    pub fn begin_station(&self, station: &EtherAddress, port: u16) -> io::Result<Stream> {
        let to = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
        let connection = self.inner.connect_station(station.resolve()?, to)?;
        connection.begin()?;
        Ok(Stream::of(self.clone(), connection))
    }

    /// An endpoint at a port that the system picks, on every address of this host: for those who only open streams.
    ///
    /// # Errors
    /// If the system has no socket left.
    pub fn client(options: &Options) -> io::Result<Self> {
        Ok(Self::of(xtp::Endpoint::client_qmp(options)?, options))
    }

    /// An endpoint on a link of one's own, for middlewares such as [`Fault`](crate::link::Fault); see
    /// [`xtp::Endpoint::over`].
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn over(
        link: Box<dyn Link>,
        local: SocketAddr,
        peer: Option<SocketAddr>,
        options: &Options,
    ) -> io::Result<Self> {
        Ok(Self::of(xtp::Endpoint::over_qmp(link, local, peer, options)?, options))
    }

    fn of(inner: xtp::Endpoint, options: &Options) -> Self {
        Self { inner, options: Arc::new(options.clone()) }
    }

    /// The pool that its streams' bytes lie in, if they do.
    pub fn pool(&self) -> Option<&Pool> {
        self.options.pool.as_ref()
    }

    pub(super) fn way(&self) -> Way {
        match self.options.carrier {
            Carrier::Udp | Carrier::SharedMemory => Way::Udp,
            Carrier::Ip36 => Way::Ip36,
            Carrier::Ether => Way::Ether,
        }
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    /// Listens at `port`; with UDP that is the endpoint's own.
    ///
    /// # Errors
    /// If somebody listens there already, or the port is 0.
    pub fn listen(&self, port: u16) -> io::Result<Listener> {
        let block = self.inner.block(xtp::Service::Connection);
        let inner = self.inner.listen_on(port, pinnace_qmp::Profile::SERVICES, block)?;
        Listener::new(self.clone(), inner)
    }

    /// Connects to `to`: sends FIRST, and waits for the answer.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionRefused`] if nobody listens there, [`io::ErrorKind::TimedOut`] if nobody answers.
    pub fn connect(&self, to: impl ToSocketAddrs) -> io::Result<Stream> {
        let stream = self.begin(to)?;
        stream.wait_established(None)?;
        Ok(stream)
    }

    /// As [`Endpoint::connect`], without waiting: FIRST is on its way. Data may follow at once.
    ///
    /// # Errors
    /// If the address does not resolve, or there are too many contexts.
    pub fn begin(&self, to: impl ToSocketAddrs) -> io::Result<Stream> {
        let connection = self.inner.connect(to)?;
        connection.begin()?;
        Ok(Stream::of(self.clone(), connection))
    }

    /// As [`Endpoint::begin`], from another port, as far as the other end is told ([`Stream::said_peer_addr`]): the streams of one
    /// endpoint all have its UDP port, and some programs tell their peers apart by their ports.
    ///
    /// ```
    /// use pinnace::qmp::{Endpoint, Listener, Options};
    /// # fn main() -> std::io::Result<()> {
    /// let listener = Listener::bind("127.0.0.1:0", &Options::default())?;
    /// let endpoint = Endpoint::client_of(listener.local_addr(), &Options::default())?;
    /// let stream = endpoint.begin_from(listener.local_addr(), 7001)?;
    /// let accepted = listener.accept()?;
    /// assert_eq!(accepted.said_peer_addr().port(), 7001);
    /// assert_eq!(accepted.peer_addr(), endpoint.local_addr());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there are too many contexts.
    pub fn begin_from(&self, to: SocketAddr, port: u16) -> io::Result<Stream> {
        let connection = self.inner.connect_from(to, port)?;
        connection.begin()?;
        Ok(Stream::of(self.clone(), connection))
    }

    /// For a thread that serves all sockets of this endpoint, and other descriptors as well: waits until something has happened
    /// to a stream (it was established, there is something to read, room to write, or it has ended), or somebody has come
    /// to a listener, or `beside` is readable (an epoll descriptor, say). The waiting thread does the protocol's work. Each
    /// stream that something has happened to since the last time is added to `streams` once; look at it until nothing is there
    /// ([`Stream::try_show`], [`Stream::try_write`]), and look at each once after it was opened or accepted. One thread at a
    /// time; streams through shared memory are not among them.
    ///
    /// ```
    /// use pinnace::qmp::{Endpoint, Listener, Options, Woken};
    /// # fn main() -> std::io::Result<()> {
    /// let listener = Listener::bind("127.0.0.1:0", &Options::default())?;
    /// let endpoint = Endpoint::client_of(listener.local_addr(), &Options::default())?;
    /// let (never, mut told) = (pinnace::qmp::WakeFd::new()?, Vec::new());
    /// let stream = endpoint.begin(listener.local_addr())?;
    /// let accepted = listener.accept()?;
    /// accepted.write(b"ahoy")?;
    /// while stream.readable_bytes() == 0 {
    ///     assert_eq!(endpoint.wait_any(&never, None, &mut told)?, Woken::Sockets);
    /// }
    /// assert_eq!(told.first().copied(), stream.id());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the endpoint is of no use any more.
    pub fn wait_any(
        &self,
        beside: impl AsFd,
        timeout: Option<Duration>,
        streams: &mut Vec<StreamId>,
    ) -> io::Result<Woken> {
        let told = |place| streams.push(StreamId::of(place));
        Ok(match self.inner.wait_stirred(beside.as_fd(), timeout, told)? {
            Stirred::Associations => Woken::Sockets,
            Stirred::Beside => Woken::Beside,
            Stirred::Nothing => Woken::Timeout,
        })
    }

    /// Writes to several of its streams at once, without waiting ([`Stream::try_write`]): what they have to say to one peer leaves
    /// together. How much each has taken, in their order; 0 if there is no room.
    ///
    /// ```
    /// use pinnace::qmp::{Endpoint, Listener, Options};
    /// # fn main() -> std::io::Result<()> {
    /// let listener = Listener::bind("127.0.0.1:0", &Options::default())?;
    /// let endpoint = Endpoint::client_of(listener.local_addr(), &Options::default())?;
    /// let streams = [endpoint.connect(listener.local_addr())?, endpoint.connect(listener.local_addr())?];
    /// let taken = endpoint.write_each(&[(&streams[0], b"ahoy"), (&streams[1], b"hello")])?;
    /// assert_eq!(taken.into_iter().collect::<std::io::Result<Vec<_>>>()?, [4, 5]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The outer one if the endpoint is of no use any more; the inner ones as [`Stream::write`], and
    /// [`io::ErrorKind::InvalidInput`] for a stream of another endpoint.
    pub fn write_each(&self, writes: &[(&Stream, &[u8])]) -> io::Result<Vec<io::Result<usize>>> {
        let known = writes.iter().filter_map(|(stream, bytes)| Some((stream.association()?, *bytes)));
        let known: Vec<_> = known.collect();
        if known.len() < writes.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a stream through shared memory has no endpoint"));
        }
        let taken = self.inner.write_each(&known)?;
        Ok(taken.into_iter().map(|taken| Ok(taken?)).collect())
    }

    /// Whether all its streams have come to their ends, those that were closed included, and no reset is to be said again.
    pub fn is_quiet(&self) -> bool {
        self.inner.is_quiet() && !self.inner.is_lingering()
    }

    /// Says the end of streams that have just ended well once more, as it may be lost, without waiting. `said`: how often that
    /// was done before; three times are enough. How long to wait until the next; `None`: there is none to be said any more.
    pub fn say_ends(&self, said: u32) -> Option<Duration> {
        self.inner.say_ends(said)
    }

    /// Says the end of streams that have just ended well a few times more, as it may be lost: see [`xtp::Endpoint::part`].
    pub fn part(&self) {
        self.inner.part();
    }

    /// Waits until its streams, all of which were closed, have come to their ends, at most `timeout`, and then says these ends
    /// a few times more ([`Endpoint::part`]): for whoever lets go of it, as later nobody can be asked for them.
    pub fn leave(&self, timeout: Duration) {
        if self.inner.wait_quiet(timeout).is_ok() {
            self.inner.part();
        }
    }

    /// What the socket could not be given, with the command that would help.
    pub fn warnings(&self) -> &[String] {
        self.inner.warnings()
    }

    /// What the protocol has seen.
    pub fn counters(&self) -> xtp::XtpCounters {
        self.inner.counters()
    }

    /// What the link has seen.
    pub fn link_counters(&self) -> pinnace_link::LinkCounters {
        self.inner.link_counters()
    }
}
