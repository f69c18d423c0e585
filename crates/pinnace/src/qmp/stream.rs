//! Connected sockets.

use super::{Endpoint, Options, lingering};
use crate::xtp::HostPair;
use crate::{Error, xtp};
use pinnace_qmp::socket::{Errno, Linger};
use pinnace_runtime::WakeFd;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Which half of a stream is closed.
pub use std::net::Shutdown;

/// What carries a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// UDP.
    Udp,
    /// IP protocol 36.
    Ip36,
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Udp => "udp",
            Self::Ip36 => "ip36",
        })
    }
}

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
/// that a forced close, and the peer finds its connection reset, as with TCP.
#[derive(Debug)]
pub struct Stream {
    /// There until the stream is closed.
    inner: Option<xtp::Connection>,
    endpoint: Endpoint,
    settings: Mutex<Settings>,
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
    /// tells how it goes.
    ///
    /// # Errors
    /// If the system has no way to the address.
    pub fn begin(address: SocketAddr, options: &Options) -> io::Result<Self> {
        Endpoint::client_of(address, options)?.begin(address)
    }

    /// Like [`Stream::connect`], for tasks. (Names are resolved before, and block; addresses do not.)
    ///
    /// # Errors
    /// As [`Stream::connect`].
    pub async fn connect_async(address: SocketAddr, options: &Options) -> io::Result<Self> {
        let stream = Self::begin(address, options)?;
        stream.connection().establish_async().await?;
        Ok(stream)
    }

    pub(super) fn of(endpoint: Endpoint, connection: xtp::Connection) -> Self {
        Self { inner: Some(connection), endpoint, settings: Mutex::default() }
    }

    /// Waits until the peer has answered, at most `timeout`.
    ///
    /// # Errors
    /// As [`Stream::connect`]; [`io::ErrorKind::TimedOut`] also if `timeout` was not enough, and then it goes on.
    pub fn wait_established(&self, timeout: Option<Duration>) -> io::Result<()> {
        Ok(match timeout {
            Some(timeout) => self.connection().establish_timeout(timeout)?,
            None => self.connection().establish()?,
        })
    }

    /// Whether the peer has answered; `None` while it has not.
    ///
    /// # Errors
    /// As [`Stream::connect`].
    pub fn established(&self) -> Option<io::Result<()>> {
        match self.connection().establish_timeout(Duration::ZERO) {
            Ok(()) => Some(Ok(())),
            Err(Error::Timeout) => None,
            Err(error) => Some(Err(error.into())),
        }
    }

    pub(super) fn connection(&self) -> &xtp::Connection {
        self.inner.as_ref().expect("it is there until it is dropped")
    }

    fn settings(&self) -> Settings {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn read_timeout(&self) -> Option<Duration> {
        self.settings().read_timeout
    }

    pub(super) fn write_timeout(&self) -> Option<Duration> {
        self.settings().write_timeout
    }

    fn set(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The address of this end.
    pub fn local_addr(&self) -> SocketAddr {
        let bound = self.endpoint.local_addr();
        let address = self.connection().address();
        // Who listens on every address has this one for the peer.
        let said: IpAddr = match address.hosts {
            HostPair::V4 { destination, .. } => destination.into(),
            HostPair::V6 { destination, .. } => destination.to_canonical(),
        };
        let is_told = bound.ip().is_unspecified() && self.is_accepted() && !said.is_unspecified();
        SocketAddr::new(if is_told { said } else { bound.ip() }, bound.port())
    }

    /// The address of the other end.
    pub fn peer_addr(&self) -> SocketAddr {
        let (peer, address) = (self.connection().peer(), self.connection().address());
        let said = match self.is_accepted() {
            true => address.source_port,
            false => address.destination_port,
        };
        // Protocol 36 knows no ports; the FIRST does.
        SocketAddr::new(peer.ip(), if peer.port() == 0 { said } else { peer.port() })
    }

    fn is_accepted(&self) -> bool {
        self.connection().address().destination_port == self.endpoint.local_addr().port()
    }

    /// What carries it.
    pub fn way(&self) -> Way {
        self.endpoint.way()
    }

    /// Reads what is there, and waits for the first byte; 0 at the end of the stream.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionReset`] if the peer has ended it in the middle, [`io::ErrorKind::TimedOut`] if it is
    /// gone, [`io::ErrorKind::WouldBlock`] after [`Stream::set_read_timeout`].
    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self.settings().read_timeout {
            None => Ok(self.connection().read(into)?),
            Some(timeout) => would_block(self.connection().read_timeout(into, timeout)),
        }
    }

    /// Like [`Stream::read`], but does not wait: `None` if nothing is there.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match self.connection().read_timeout(into, Duration::ZERO) {
            Ok(taken) => Ok(Some(taken)),
            Err(Error::Timeout) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Like [`Stream::read`], for tasks.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub async fn read_async(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(self.connection().read_async(into).await?)
    }

    /// Copies what is there, and leaves it there; waits for the first byte.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        match self.settings().read_timeout {
            None => Ok(self.connection().peek(into, None)?),
            Some(timeout) => would_block(self.connection().peek(into, Some(timeout))),
        }
    }

    /// Like [`Stream::peek`], but does not wait: `None` if nothing is there.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn try_peek(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match self.connection().peek(into, Some(Duration::ZERO)) {
            Ok(seen) => Ok(Some(seen)),
            Err(Error::Timeout) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Bytes that can be read without waiting.
    pub fn readable_bytes(&self) -> usize {
        self.connection().readable_bytes()
    }

    /// Whether a read would not wait.
    pub fn is_readable(&self) -> bool {
        self.connection().readable_bytes() > 0 || self.connection().is_at_end()
    }

    /// Whether a write would not wait.
    pub fn is_writable(&self) -> bool {
        self.connection().is_writable()
    }

    /// Takes bytes of `bytes` to be sent, and waits for room. Returns how many.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] after the end of the stream, otherwise as [`Stream::read`].
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.settings().write_timeout {
            None => Ok(self.connection().write(bytes)?),
            Some(timeout) => would_block(self.connection().write_timeout(bytes, timeout)),
        }
    }

    /// Like [`Stream::write`], but does not wait: `None` if there is no room.
    ///
    /// # Errors
    /// As [`Stream::write`].
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        Ok(self.connection().try_write(bytes)?)
    }

    /// Like [`Stream::write`], for tasks.
    ///
    /// # Errors
    /// As [`Stream::write`].
    pub async fn write_async(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.connection().write_async(bytes).await?)
    }

    /// Waits until everything that was written has been acknowledged.
    ///
    /// # Errors
    /// As [`Stream::write`].
    pub fn flush(&self) -> io::Result<()> {
        Ok(self.connection().flush()?)
    }

    /// Closes one half, or both. Writing: the stream ends behind what was written. Reading: what comes is dropped; the peer
    /// is not told.
    ///
    /// # Errors
    /// If the association is over.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if matches!(how, Shutdown::Write | Shutdown::Both) {
            self.connection().finish()?;
        }
        if matches!(how, Shutdown::Read | Shutdown::Both) {
            self.connection().shut_reading();
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

    /// What happens when it is dropped: `None` closes in the background, zero resets the connection, anything else waits so
    /// long for the peer to have acknowledged everything (SO_LINGER).
    pub fn set_linger(&self, linger: Option<Duration>) {
        self.set(|settings| settings.linger = linger);
    }

    /// The error that has ended the connection, if there is one (SO_ERROR).
    pub fn failure(&self) -> Option<Errno> {
        self.connection().failure().map(Errno::of)
    }

    /// Its state, as the paper draws it.
    pub fn state(&self) -> pinnace_qmp::State {
        self.connection().qmp_state()
    }

    /// A descriptor that becomes readable when something has happened: see [`xtp::Connection::watch`].
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn watch(&self) -> io::Result<Arc<WakeFd>> {
        Ok(self.connection().watch()?)
    }

    /// Like [`Stream::watch`], with a descriptor that is there already: it is signalled from now on, and now.
    ///
    /// # Errors
    /// If the background thread cannot be started.
    pub fn watch_on(&self, watch: Arc<WakeFd>) -> io::Result<()> {
        Ok(self.connection().watch_on(watch)?)
    }

    /// Keys, sequence numbers and spans, as they look on the wire.
    ///
    /// # Errors
    /// If the association is gone.
    pub fn facts(&self) -> io::Result<xtp::Facts> {
        Ok(self.connection().facts()?)
    }

    /// What the sockets of its endpoint share.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
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
        let Some(connection) = self.inner.take() else { return };
        let wait = match self.settings().linger {
            Some(Duration::ZERO) => {
                connection.close_socket(Linger::Zero);
                return;
            }
            linger => linger,
        };
        if let Some(wait) = wait {
            let _ = connection.finish();
            let _ = connection.flush_timeout(wait);
        }
        connection.close_socket(Linger::Background);
        drop(connection);
        lingering::keep(self.endpoint.clone());
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
