//! Sockets that wait for others.

use super::arrivals::{self, Arrivals};
use super::{Endpoint, Options, Stream};
use crate::daemon::Arrival;
use crate::network::resolve;
use crate::xtp;
use pinnace_runtime::WakeFd;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A socket that accepts streams. When it is dropped, no more are accepted; those that were go on.
#[derive(Debug)]
pub struct Listener {
    // Before the endpoint, so that it goes first.
    inner: xtp::Listener,
    /// Those who come through shared memory.
    near: Option<Arrivals>,
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
        let address = resolve(address)?;
        let endpoint = Endpoint::bind(address, options)?;
        let port = if address.port() == 0 { endpoint.local_addr().port() } else { address.port() };
        endpoint.listen(port)
    }

    pub(super) fn new(endpoint: Endpoint, inner: xtp::Listener) -> io::Result<Self> {
        let near = Arrivals::begin(inner.local_addr(), &endpoint.options, inner.notifier())?;
        Ok(Self { inner, near, endpoint })
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
            if let Some(stream) = self.accept_until(None)? {
                return Ok(stream);
            }
        }
    }

    /// Like [`Listener::accept`], for at most `timeout`; `None` if nobody has come.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub fn accept_timeout(&self, timeout: Duration) -> io::Result<Option<Stream>> {
        self.accept_until(Instant::now().checked_add(timeout))
    }

    /// Who is here already. Never blocks.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub fn try_accept(&self) -> io::Result<Option<Stream>> {
        self.accept_until(Some(Instant::now()))
    }

    fn accept_until(&self, deadline: Option<Instant>) -> io::Result<Option<Stream>> {
        let near = || self.near.as_ref().and_then(Arrivals::pop);
        Ok(self.inner.accept_or(near, deadline)?.and_then(|found| self.stream(found)))
    }

    /// Like [`Listener::accept`], for tasks.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub async fn accept_async(&self) -> io::Result<Stream> {
        loop {
            let found = self.inner.accept_or_async(|| self.near.as_ref().and_then(Arrivals::pop)).await?;
            if let Some(stream) = self.stream(found) {
                return Ok(stream);
            }
        }
    }

    /// The stream of who has come, from far or near.
    fn stream(&self, found: Result<xtp::Incoming, Arrival>) -> Option<Stream> {
        match found {
            Ok(incoming) => incoming.into_connection().map(|connection| Stream::of(self.endpoint.clone(), connection)),
            Err(arrival) => arrivals::stream(arrival, &self.endpoint.options),
        }
    }

    /// A descriptor that becomes readable when somebody has come. Clear it first, then accept until nobody is there.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn watch(&self) -> io::Result<Arc<WakeFd>> {
        let watch = self.inner.watch()?;
        if let Some(near) = &self.near {
            near.watch(&watch);
        }
        Ok(watch)
    }

    /// Like [`Listener::watch`], with a descriptor that is there already: it is signalled from now on, and now if somebody
    /// has come.
    ///
    /// # Errors
    /// If the background thread cannot be started.
    pub fn watch_on(&self, watch: Arc<WakeFd>) -> io::Result<()> {
        if let Some(near) = &self.near {
            near.watch(&watch);
        }
        Ok(self.inner.watch_on(watch)?)
    }

    /// Whether somebody has come, so that [`Listener::accept`] would not wait.
    pub fn has_arrivals(&self) -> bool {
        self.inner.has_arrivals() || self.near.as_ref().is_some_and(|near| !near.is_empty())
    }
}
