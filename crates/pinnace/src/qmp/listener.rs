//! Sockets that wait for others.

use super::{Endpoint, Options, Stream};
use crate::xtp;
use pinnace_runtime::WakeFd;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// A socket that accepts streams. When it is dropped, no more are accepted; those that were go on.
#[derive(Debug)]
pub struct Listener {
    // Before the endpoint, so that it goes first.
    inner: xtp::Listener,
    endpoint: Endpoint,
}

impl Listener {
    /// Listens at `address`; port 0 picks one.
    ///
    /// ```
    /// use pinnace::qmp::{Listener, Options};
    /// # fn main() -> std::io::Result<()> {
    /// let listener = Listener::bind("127.0.0.1:0", &Options::default())?;
    /// assert!(listener.local_addr().port() > 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the address does not resolve or cannot be bound: it may be taken, or a right may be missing.
    pub fn bind(address: impl ToSocketAddrs, options: &Options) -> io::Result<Self> {
        let none = || io::Error::new(io::ErrorKind::AddrNotAvailable, "the name has no address");
        let address = address.to_socket_addrs()?.next().ok_or_else(none)?;
        let endpoint = Endpoint::bind(address, options)?;
        let port = if address.port() == 0 { endpoint.local_addr().port() } else { address.port() };
        endpoint.listen(port)
    }

    pub(super) fn new(endpoint: Endpoint, inner: xtp::Listener) -> Self {
        Self { inner, endpoint }
    }

    /// Where others reach it.
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    /// What its sockets share.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Waits for the next stream. The waiting thread does the protocol's work.
    ///
    /// # Errors
    /// If the endpoint is of no use any more.
    pub fn accept(&self) -> io::Result<Stream> {
        loop {
            if let Some(connection) = self.inner.accept()?.into_connection() {
                return Ok(self.stream(connection));
            }
        }
    }

    /// Like [`Listener::accept`], for at most `timeout`; `None` if nobody has come.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub fn accept_timeout(&self, timeout: Duration) -> io::Result<Option<Stream>> {
        let incoming = self.inner.accept_timeout(timeout)?;
        Ok(incoming.and_then(xtp::Incoming::into_connection).map(|connection| self.stream(connection)))
    }

    /// Who is here already. Never blocks.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub fn try_accept(&self) -> io::Result<Option<Stream>> {
        let incoming = self.inner.try_accept()?;
        Ok(incoming.and_then(xtp::Incoming::into_connection).map(|connection| self.stream(connection)))
    }

    /// Like [`Listener::accept`], for tasks.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub async fn accept_async(&self) -> io::Result<Stream> {
        loop {
            if let Some(connection) = self.inner.accept_async().await?.into_connection() {
                return Ok(self.stream(connection));
            }
        }
    }

    fn stream(&self, connection: xtp::Connection) -> Stream {
        Stream::of(self.endpoint.clone(), connection)
    }

    /// A descriptor that becomes readable when somebody has come. Clear it first, then accept until nobody is there.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn watch(&self) -> io::Result<Arc<WakeFd>> {
        Ok(self.inner.watch()?)
    }

    /// Like [`Listener::watch`], with a descriptor that is there already: it is signalled from now on, and now if somebody
    /// has come.
    ///
    /// # Errors
    /// If the background thread cannot be started.
    pub fn watch_on(&self, watch: Arc<WakeFd>) -> io::Result<()> {
        Ok(self.inner.watch_on(watch)?)
    }

    /// Whether somebody has come, so that [`Listener::accept`] would not wait.
    pub fn has_arrivals(&self) -> bool {
        self.inner.has_arrivals()
    }
}
