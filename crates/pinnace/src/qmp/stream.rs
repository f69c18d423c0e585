//! Connected sockets.

use super::shared::{End, Shared};
use super::{Carrier, Endpoint, Options, Patience, Standing, carried, lingering};
use crate::daemon::{Arrival, Client};
use crate::lock::lock;
pub(super) use crate::network::deadline;
use crate::network::{canonical, with_port};
use crate::places::Place;
use crate::xtp::HostPair;
use crate::{Error, memory, xtp};
use pinnace_qbuf::channel::Interest;
use pinnace_qmp::State;
use pinnace_qmp::socket::{Errno, Linger};
use pinnace_runtime::WakeFd;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Which half of a stream is closed.
pub use std::net::Shutdown;

/// What [`Stream::try_show`] has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shown {
    /// So many bytes were used.
    Used(usize),
    /// The stream has ended.
    End,
}

/// What carries a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// UDP.
    Udp,
    /// IP protocol 36.
    Ip36,
    /// Ethernet frames.
    Ether,
    /// Memory shared with a process of this host.
    SharedMemory,
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Udp => "udp",
            Self::Ip36 => "ip36",
            Self::Ether => "ether",
            Self::SharedMemory => "shm",
        })
    }
}

/// A stream of an endpoint, as [`Endpoint::wait_any`] names it. Once it is dropped another may have its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(Place);

impl StreamId {
    pub(super) fn of(place: Place) -> Self {
        Self(place)
    }
}

/// How long the end of a stream over shared memory waits for room to say so.
const AT_ONCE: Duration = Duration::from_millis(1);

/// What a program sets on a socket.
#[derive(Clone, Copy, Debug, Default)]
struct Settings {
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
    linger: Option<Duration>,
}

/// A connected socket: a reliable stream of bytes each way.
///
/// Calls may come from any thread. Dropping it closes both streams in the background; what was received and not read makes
/// that a forced close, and the peer finds its connection reset, as with TCP. Unlike TCP the background is a thread of this
/// process: who ends right after, calls [`settle`](super::settle) first, or sets a linger ([`Stream::set_linger`]).
#[derive(Debug)]
pub struct Stream {
    /// There until the stream is closed.
    inner: Option<Inner>,
    settings: Mutex<Settings>,
}

/// What a stream stands on.
#[derive(Debug)]
pub(super) enum Inner {
    /// The protocol.
    Engine(xtp::Connection, Endpoint),
    /// A channel to a process of this host.
    Shared(Arc<Shared>),
}

impl Stream {
    /// Connects to `address`: tries each that the name resolves to, in order.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionRefused`] if nobody listens there, [`io::ErrorKind::TimedOut`] if nobody answers; the
    /// last address's if there are several.
    pub fn connect(address: impl ToSocketAddrs, options: &Options) -> io::Result<Self> {
        Self::connect_each(address, options, None)
    }

    /// Like [`Stream::connect`], each address for at most `timeout`.
    ///
    /// # Errors
    /// As [`Stream::connect`].
    pub fn connect_timeout(address: impl ToSocketAddrs, options: &Options, timeout: Duration) -> io::Result<Self> {
        Self::connect_each(address, options, Some(timeout))
    }

    fn connect_each(address: impl ToSocketAddrs, options: &Options, timeout: Option<Duration>) -> io::Result<Self> {
        let mut result = Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "the name has no address"));
        for address in address.to_socket_addrs()? {
            result = Self::begin(address, options).and_then(|stream| {
                stream.wait_established(timeout)?;
                Ok(stream)
            });
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Begins to connect, and does not wait: FIRST is on its way, and data may follow at once. [`Stream::established`]
    /// tells how it goes. (Over a link of the daemon's the answer is waited for.)
    ///
    /// # Errors
    /// If the system has no way to the address.
    pub fn begin(address: SocketAddr, options: &Options) -> io::Result<Self> {
        if options.takes_shared_memory()
            && let Some(client) = Client::current()
            && let Ok(Some(arrival)) = client.connect(address)
        {
            return Self::over_channel(arrival, options);
        }
        if options.carrier == Carrier::SharedMemory {
            let why = "no daemon that this process may use has a listener there: start one with `pinnace daemon`";
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, why));
        }
        match Endpoint::client_of(address, options) {
            Ok(endpoint) => endpoint.begin(address),
            Err(error) => carried::connect(address, options, error),
        }
    }

    /// Like [`Stream::connect`], for tasks. (Names are resolved before, and block; addresses do not.)
    ///
    /// # Errors
    /// As [`Stream::connect`].
    pub async fn connect_async(address: SocketAddr, options: &Options) -> io::Result<Self> {
        let stream = Self::begin(address, options)?;
        if let Inner::Engine(connection, _) = stream.inner() {
            connection.establish_async().await?;
        }
        Ok(stream)
    }

    pub(super) fn of(endpoint: Endpoint, connection: xtp::Connection) -> Self {
        Self { inner: Some(Inner::Engine(connection, endpoint)), settings: Mutex::default() }
    }

    pub(crate) fn over_channel(arrival: Arrival, options: &Options) -> io::Result<Self> {
        let Arrival { channel, peer, local } = arrival;
        // IPv4 that was mapped into IPv6 is IPv4, as over the other carriers.
        let [local, peer] = [local, peer].map(canonical);
        let shared = Shared::new(channel, (local, peer), options.idle, carried::way(options))?;
        Ok(Self { inner: Some(Inner::Shared(Arc::new(shared))), settings: Mutex::default() })
    }

    /// Waits until the peer has answered, at most `timeout`.
    ///
    /// # Errors
    /// As [`Stream::connect`]; [`io::ErrorKind::TimedOut`] also if `timeout` was not enough, and then it goes on.
    pub fn wait_established(&self, timeout: Option<Duration>) -> io::Result<()> {
        match (self.inner(), timeout) {
            (Inner::Engine(connection, _), Some(timeout)) => connection.establish_timeout(timeout)?,
            (Inner::Engine(connection, _), None) => connection.establish()?,
            (Inner::Shared(_), _) => {}
        }
        Ok(())
    }

    /// Whether the peer has answered; `None` while it has not.
    ///
    /// # Errors
    /// As [`Stream::connect`].
    pub fn established(&self) -> Option<io::Result<()>> {
        let Inner::Engine(connection, _) = self.inner() else { return Some(Ok(())) };
        match connection.establish_timeout(Duration::ZERO) {
            Ok(()) => Some(Ok(())),
            Err(Error::Timeout) => None,
            Err(error) => Some(Err(error.into())),
        }
    }

    pub(super) fn inner(&self) -> &Inner {
        self.inner.as_ref().expect("it is there until it is dropped")
    }

    /// The association that it stands on, unless it goes through shared memory.
    pub(crate) fn association(&self) -> Option<&xtp::Connection> {
        match self.inner() {
            Inner::Engine(connection, _) => Some(connection),
            Inner::Shared(_) => None,
        }
    }

    /// Like [`Stream::read`], until the deadline and whatever is set: `None` if nothing has come.
    pub(crate) fn read_until(&self, into: &mut [u8], deadline: Option<Instant>) -> io::Result<Option<usize>> {
        none_yet(match (self.inner(), deadline) {
            (Inner::Engine(connection, _), None) => return Ok(Some(connection.read(into)?)),
            (Inner::Engine(connection, _), Some(deadline)) => {
                would_block(connection.read_timeout(into, deadline.saturating_duration_since(Instant::now())))
            }
            (Inner::Shared(shared), deadline) => shared.read(into, deadline),
        })
    }

    /// Like [`Stream::write`], until the deadline and whatever is set: `None` if there was no room.
    pub(crate) fn write_until(&self, bytes: &[u8], deadline: Instant) -> io::Result<Option<usize>> {
        none_yet(match self.inner() {
            Inner::Engine(connection, _) => {
                would_block(connection.write_timeout(bytes, deadline.saturating_duration_since(Instant::now())))
            }
            Inner::Shared(shared) => shared.write(bytes, Some(deadline)),
        })
    }

    /// Waits until there may be room in shared memory, as a task.
    pub(crate) async fn writable(&self) {
        if let Inner::Shared(shared) = self.inner() {
            shared.ready(Interest::Writable).await;
        }
    }

    /// Closes the writing half; over shared memory it waits for room to say so. False: there was none until the deadline.
    pub(crate) fn finish_until(&self, deadline: Option<Instant>) -> bool {
        match self.inner() {
            Inner::Engine(connection, _) => connection.finish().is_ok(),
            Inner::Shared(shared) => shared.finish(deadline),
        }
    }

    /// Whether the peer may still read, as far as this host knows: over shared memory it has not closed, and lives.
    pub(crate) fn is_read(&self) -> bool {
        match self.inner() {
            Inner::Engine(..) => true,
            Inner::Shared(shared) => shared.is_read(),
        }
    }

    /// How the peer's stream over shared memory has ended, also if nobody has read that yet; `None`: it has not.
    pub(crate) fn peer_end(&self) -> Option<End> {
        match self.inner() {
            Inner::Engine(..) => None,
            Inner::Shared(shared) => shared.peer_end(),
        }
    }

    fn settings(&self) -> Settings {
        *lock(&self.settings)
    }

    pub(super) fn read_timeout(&self) -> Option<Duration> {
        self.settings().read_timeout
    }

    pub(super) fn write_timeout(&self) -> Option<Duration> {
        self.settings().write_timeout
    }

    fn set(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut lock(&self.settings));
    }

    /// The address of this end.
    pub fn local_addr(&self) -> SocketAddr {
        let (connection, endpoint) = match self.inner() {
            Inner::Engine(connection, endpoint) => (connection, endpoint),
            Inner::Shared(shared) => return shared.local,
        };
        let (address, bound) = (connection.address(), endpoint.local_addr());
        if !connection.is_accepted() {
            // Where only the FIRST knows ports, the endpoint is that of other sockets, too.
            return if endpoint.way() == Way::Udp { bound } else { with_port(bound, address.source_port) };
        }
        let bound = with_port(bound, address.destination_port);
        // Who listens on every address has this one for the peer.
        let said: IpAddr = match address.hosts {
            HostPair::V4 { destination, .. } => destination.into(),
            HostPair::V6 { destination, .. } => destination.to_canonical(),
        };
        if !bound.ip().is_unspecified() || said.is_unspecified() {
            return bound;
        }
        let mut local = SocketAddr::new(said, bound.port());
        // One of a link alone is of the link that the peer is on, of which a FIRST says nothing.
        if let (SocketAddr::V6(local), SocketAddr::V6(peer)) = (&mut local, connection.peer())
            && local.ip().is_unicast_link_local()
        {
            local.set_scope_id(peer.scope_id());
        }
        local
    }

    /// The address of the other end.
    pub fn peer_addr(&self) -> SocketAddr {
        let connection = match self.inner() {
            Inner::Engine(connection, _) => connection,
            Inner::Shared(shared) => return shared.peer,
        };
        let (peer, address, is_accepted) = (connection.peer(), connection.address(), connection.is_accepted());
        // Only UDP knows ports; the FIRST does.
        let said = if is_accepted { address.source_port } else { address.destination_port };
        let port = if peer.port() == 0 { said } else { peer.port() };
        // Ethernet knows no addresses at all; whoever connects says its own.
        let ip: IpAddr = match address.hosts {
            _ if !peer.ip().is_unspecified() => return with_port(peer, port),
            HostPair::V4 { destination, source } => if is_accepted { source } else { destination }.into(),
            HostPair::V6 { destination, source } => if is_accepted { source } else { destination }.to_canonical(),
        };
        SocketAddr::new(ip, port)
    }

    /// The address of the other end, with the port that it says it has: that of its socket, unless it says otherwise
    /// ([`Endpoint::begin_from`]). Anybody can say anything.
    pub fn said_peer_addr(&self) -> SocketAddr {
        let peer = self.peer_addr();
        let Inner::Engine(connection, _) = self.inner() else { return peer };
        let address = connection.address();
        if connection.is_accepted() && address.source_port != 0 { with_port(peer, address.source_port) } else { peer }
    }

    /// Its name among the streams of its endpoint ([`Endpoint::wait_any`]); `None` over shared memory.
    pub fn id(&self) -> Option<StreamId> {
        Some(StreamId(self.association()?.place()))
    }

    /// Whether the peer has shown that it is where its packets come from: until then anybody may have sent what has come, in
    /// anybody's name. It shows that with its first answer; whom this end has connected to, and who comes through shared
    /// memory, has nothing to show.
    ///
    /// ```
    /// use pinnace::qmp::{Listener, Options, Stream};
    /// # fn main() -> std::io::Result<()> {
    /// let listener = Listener::bind("127.0.0.1:0", &Options::default())?;
    /// let client = Stream::connect(listener.local_addr(), &Options::default())?;
    /// assert!(client.is_proved());
    /// client.write(b"ahoy")?;
    /// let server = listener.accept()?;
    /// while !server.is_proved() {
    ///     std::thread::sleep(std::time::Duration::from_millis(1));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_proved(&self) -> bool {
        match self.inner() {
            Inner::Engine(connection, _) => connection.facts().is_ok_and(|facts| facts.is_proved),
            Inner::Shared(_) => true,
        }
    }

    /// What carries it.
    pub fn way(&self) -> Way {
        match self.inner() {
            Inner::Engine(_, endpoint) => endpoint.way(),
            Inner::Shared(shared) => shared.way,
        }
    }

    /// Reads what is there, and waits for the first byte; 0 at the end of the stream.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionReset`] if the peer has ended it in the middle, [`io::ErrorKind::TimedOut`] if it is
    /// gone, [`io::ErrorKind::WouldBlock`] after [`Stream::set_read_timeout`].
    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let timeout = self.settings().read_timeout;
        match (self.inner(), timeout) {
            (Inner::Engine(connection, _), None) => Ok(connection.read(into)?),
            (Inner::Engine(connection, _), Some(timeout)) => would_block(connection.read_timeout(into, timeout)),
            (Inner::Shared(shared), _) => shared.read(into, timeout.and_then(deadline)),
        }
    }

    /// Like [`Stream::read`], but does not wait: `None` if nothing is there.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        none_yet(match self.inner() {
            Inner::Engine(connection, _) => would_block(connection.read_timeout(into, Duration::ZERO)),
            Inner::Shared(shared) => shared.read(into, Some(Instant::now())),
        })
    }

    /// Shows what is there to `view`, where it lies, in one piece or two, without waiting: nothing is copied. `view` says how
    /// many bytes it has used; they are gone then. `None`: nothing is there. The endpoint does nothing else meanwhile: `view`
    /// should be quick, and must not call it.
    ///
    /// ```
    /// use pinnace::qmp::{Listener, Options, Shown, Stream};
    /// # fn main() -> std::io::Result<()> {
    /// let listener = Listener::bind("127.0.0.1:0", &Options::default())?;
    /// let client = Stream::connect(listener.local_addr(), &Options::default())?;
    /// client.write(b"ahoy")?;
    /// let server = listener.accept()?;
    /// server.peek(&mut [0])?;
    /// let mut first = None;
    /// let shown = server.try_show(|parts| {
    ///     first = parts[0].first().copied();
    ///     1
    /// })?;
    /// assert_eq!((shown, first), (Some(Shown::Used(1)), Some(b'a')));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn try_show(&self, mut view: impl FnMut(&[&[u8]]) -> usize) -> io::Result<Option<Shown>> {
        match self.inner() {
            Inner::Engine(connection, _) => Ok(match connection.show(&mut view)? {
                xtp::Look::Found(used) => Some(Shown::Used(used)),
                xtp::Look::Ended => Some(Shown::End),
                xtp::Look::Nothing => None,
            }),
            Inner::Shared(shared) => {
                let mut bytes = memory::zeroed(shared.readable_bytes().max(1) as u64)?;
                let Some(len) = none_yet(shared.peek(&mut bytes, Some(Instant::now())))? else { return Ok(None) };
                if len == 0 {
                    return Ok(Some(Shown::End));
                }
                let used = view(&[&bytes[..len]]).min(len);
                let taken = if used > 0 { shared.read(&mut bytes[..used], Some(Instant::now()))? } else { 0 };
                debug_assert_eq!(taken, used, "it was there");
                Ok(Some(Shown::Used(used)))
            }
        }
    }

    /// Like [`Stream::read`], for tasks.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub async fn read_async(&self, into: &mut [u8]) -> io::Result<usize> {
        match self.inner() {
            Inner::Engine(connection, _) => Ok(connection.read_async(into).await?),
            Inner::Shared(shared) => loop {
                if let Some(taken) = none_yet(shared.read(into, Some(Instant::now())))? {
                    return Ok(taken);
                }
                shared.ready(Interest::Readable).await;
            },
        }
    }

    /// Copies what is there, and leaves it there; waits for the first byte.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        let timeout = self.settings().read_timeout;
        match self.inner() {
            Inner::Engine(connection, _) => would_block(connection.peek(into, timeout)),
            Inner::Shared(shared) => shared.peek(into, timeout.and_then(deadline)),
        }
    }

    /// Like [`Stream::peek`], but does not wait: `None` if nothing is there.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn try_peek(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        none_yet(match self.inner() {
            Inner::Engine(connection, _) => would_block(connection.peek(into, Some(Duration::ZERO))),
            Inner::Shared(shared) => shared.peek(into, Some(Instant::now())),
        })
    }

    /// Bytes that can be read without waiting; over shared memory those of the next message, at least.
    pub fn readable_bytes(&self) -> usize {
        match self.inner() {
            Inner::Engine(connection, _) => connection.qmp_standing().readable_bytes,
            Inner::Shared(shared) => shared.readable_bytes(),
        }
    }

    /// Whether a read would not wait.
    pub fn is_readable(&self) -> bool {
        match self.inner() {
            Inner::Engine(connection, _) => connection.qmp_standing().is_readable(),
            Inner::Shared(shared) => shared.is_readable(),
        }
    }

    /// Whether a write would not wait.
    pub fn is_writable(&self) -> bool {
        match self.inner() {
            Inner::Engine(connection, _) => connection.is_writable(),
            Inner::Shared(shared) => shared.is_writable(),
        }
    }

    /// Takes bytes of `bytes` to be sent, and waits for room. Returns how many.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] after the end of the stream, otherwise as [`Stream::read`].
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let timeout = self.settings().write_timeout;
        match (self.inner(), timeout) {
            (Inner::Engine(connection, _), None) => Ok(connection.write(bytes)?),
            (Inner::Engine(connection, _), Some(timeout)) => would_block(connection.write_timeout(bytes, timeout)),
            (Inner::Shared(shared), _) => shared.write(bytes, timeout.and_then(deadline)),
        }
    }

    /// Like [`Stream::write`], but does not wait: `None` if there is no room.
    ///
    /// # Errors
    /// As [`Stream::write`].
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match self.inner() {
            Inner::Engine(connection, _) => Ok(connection.try_write(bytes)?),
            Inner::Shared(shared) => none_yet(shared.write(bytes, Some(Instant::now()))),
        }
    }

    /// Like [`Stream::write`], for tasks.
    ///
    /// # Errors
    /// As [`Stream::write`].
    pub async fn write_async(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.inner() {
            Inner::Engine(connection, _) => Ok(connection.write_async(bytes).await?),
            Inner::Shared(shared) => loop {
                if let Some(taken) = none_yet(shared.write(bytes, Some(Instant::now())))? {
                    return Ok(taken);
                }
                shared.ready(Interest::Writable).await;
            },
        }
    }

    /// Waits until everything that was written has been acknowledged. What is in shared memory is there.
    ///
    /// # Errors
    /// As [`Stream::write`].
    pub fn flush(&self) -> io::Result<()> {
        match self.inner() {
            Inner::Engine(connection, _) => Ok(connection.flush()?),
            Inner::Shared(_) => Ok(()),
        }
    }

    /// Like [`Stream::flush`], but does not wait: `None` if something has not been acknowledged yet.
    ///
    /// # Errors
    /// As [`Stream::write`]: also if the peer has stopped reading before it had everything, and may go on writing.
    pub fn try_flush(&self) -> Option<io::Result<()>> {
        match self.inner() {
            Inner::Engine(connection, _) => connection.try_flush().map(|flushed| Ok(flushed?)),
            Inner::Shared(_) => Some(Ok(())),
        }
    }

    /// Closes one half, or both. Writing: the stream ends behind what was written. Reading: reads find the end; the peer is
    /// not told, and its writes wait when what nobody reads has filled the room, as over TCP.
    ///
    /// # Errors
    /// If the association is over.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let (reading, writing) = (how != Shutdown::Write, how != Shutdown::Read);
        match self.inner() {
            Inner::Engine(connection, _) => {
                if writing {
                    connection.finish()?;
                }
                if reading {
                    connection.shut_reading();
                }
            }
            Inner::Shared(shared) => {
                if writing {
                    shared.finish_soon();
                }
                if reading {
                    shared.shut_reading();
                }
            }
        }
        Ok(())
    }

    /// How long a read waits; `None`: for ever.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) {
        self.set(|settings| settings.read_timeout = timeout);
    }

    /// How long a write waits; `None`: for ever.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) {
        self.set(|settings| settings.write_timeout = timeout);
    }

    /// How long the peer may be silent from now on (SO_KEEPALIVE, TCP_USER_TIMEOUT), where that is less than
    /// [`Options::peer_timeout`]: then reads and writes fail with [`io::ErrorKind::TimedOut`]. A process of this host, over
    /// shared memory, does not vanish without a word.
    ///
    /// ```
    /// use pinnace::qmp::{KeepAlive, Listener, Options, Patience, Stream};
    /// use std::time::Duration;
    /// # fn main() -> std::io::Result<()> {
    /// let listener = Listener::bind("127.0.0.1:0", &Options::default())?;
    /// let stream = Stream::connect(listener.local_addr(), &Options::default())?;
    /// // Asked after ten seconds without a word, and given up after fifteen more.
    /// let keep_alive = KeepAlive { idle: Duration::from_secs(10), limit: Duration::from_secs(15) };
    /// stream.set_patience(Patience { keep_alive: Some(keep_alive), ..Patience::default() })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the association is over.
    pub fn set_patience(&self, patience: Patience) -> io::Result<()> {
        match self.inner() {
            Inner::Engine(connection, _) => Ok(connection.set_patience(patience)?),
            Inner::Shared(_) => Ok(()),
        }
    }

    /// What happens when it is dropped: `None` closes in the background, zero resets the connection, anything else waits so
    /// long for the peer to have acknowledged everything (SO_LINGER).
    pub fn set_linger(&self, linger: Option<Duration>) {
        self.set(|settings| settings.linger = linger);
    }

    /// Resets the connection: what has not arrived is given up, and the peer is told, as by dropping it with a linger of zero.
    pub fn abort(&self) {
        self.set_linger(Some(Duration::ZERO));
        match self.inner() {
            Inner::Engine(connection, _) => connection.close_socket(Linger::Zero),
            Inner::Shared(shared) => shared.abort(),
        }
    }

    /// The error that has ended the connection, if there is one (SO_ERROR).
    pub fn failure(&self) -> Option<Errno> {
        match self.inner() {
            Inner::Engine(connection, _) => connection.qmp_standing().failure,
            Inner::Shared(shared) => shared.failure(),
        }
    }

    /// All of these at one moment, as poll() tells of them.
    pub fn standing(&self) -> Standing {
        match self.inner() {
            Inner::Engine(connection, _) => connection.qmp_standing(),
            Inner::Shared(shared) => shared.standing(),
        }
    }

    /// Its state, as the paper draws it.
    pub fn state(&self) -> State {
        match self.inner() {
            Inner::Engine(connection, _) => connection.qmp_standing().state,
            Inner::Shared(shared) => shared.state(),
        }
    }

    /// A descriptor that becomes readable when something has happened: it was established, there is something to read, room
    /// to write, or it has ended. Clear it first, then look what it was, until nothing is there.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn watch(&self) -> io::Result<Arc<WakeFd>> {
        match self.inner() {
            Inner::Engine(connection, _) => Ok(connection.watch()?),
            Inner::Shared(shared) => shared.watch(),
        }
    }

    /// Like [`Stream::watch`], with a descriptor that is there already: it is signalled from now on, and now.
    ///
    /// # Errors
    /// If the background thread cannot be started.
    pub fn watch_on(&self, watch: Arc<WakeFd>) -> io::Result<()> {
        match self.inner() {
            Inner::Engine(connection, _) => Ok(connection.watch_on(watch)?),
            Inner::Shared(shared) => shared.watch_on(watch),
        }
    }

    /// Keys, sequence numbers and spans, as they look on the wire.
    ///
    /// # Errors
    /// If the association is gone, or there is no wire.
    pub fn facts(&self) -> io::Result<xtp::Facts> {
        match self.inner() {
            Inner::Engine(connection, _) => Ok(connection.facts()?),
            Inner::Shared(_) => Err(io::Error::new(io::ErrorKind::Unsupported, "shared memory has no wire")),
        }
    }

    /// What the sockets of its endpoint share; `None` over shared memory.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        match self.inner() {
            Inner::Engine(_, endpoint) => Some(endpoint),
            Inner::Shared(_) => None,
        }
    }
}

/// What would wait is nothing yet.
pub(super) fn none_yet<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        result => result.map(Some),
    }
}

/// Sockets say so of a time-out that was set on them.
pub(super) fn would_block<T>(result: Result<T, Error>) -> io::Result<T> {
    match result {
        Err(Error::Timeout) => Err(io::ErrorKind::WouldBlock.into()),
        result => Ok(result?),
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let linger = self.settings().linger;
        match self.inner.take() {
            Some(Inner::Engine(connection, endpoint)) => {
                let is_reset = linger == Some(Duration::ZERO);
                if let Some(wait) = linger.filter(|_| !is_reset) {
                    let _ = connection.finish();
                    let _ = connection.flush_until(deadline(wait));
                }
                connection.close_socket(if is_reset { Linger::Zero } else { Linger::Background });
                drop(connection);
                lingering::keep(endpoint);
            }
            Some(Inner::Shared(shared)) if linger != Some(Duration::ZERO) && !shared.is_unread() => {
                let wait = linger.unwrap_or(AT_ONCE);
                if !shared.finish(deadline(wait)) && linger.is_none() {
                    shared.finish_in_background();
                }
            }
            // Without an end in order it is a reset. Also if one was asked for before: it may still wait for room.
            Some(Inner::Shared(shared)) => shared.abort(),
            None => {}
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Self::read(self, into)
    }
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Stream::read(self, into)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::write(self, bytes)
    }

    /// Does nothing, as with TCP: [`Stream::flush`] waits.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Stream::write(self, bytes)
    }

    /// Does nothing, as with TCP: [`Stream::flush`] waits.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
