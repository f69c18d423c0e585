//! Sockets that wait for others.

use super::arrivals::Arrivals;
use super::carried::Carried;
use super::{Endpoint, Options, Stream};
use crate::daemon::Arrival;
use crate::network::{deadline, resolve};
use crate::xtp;
use pinnace_runtime::WakeFd;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A socket that accepts streams. When it is dropped, no more are accepted; those that were go on.
#[derive(Debug)]
pub struct Listener {
    inner: Inner,
    options: Arc<Options>,
}

#[derive(Debug)]
enum Inner {
    Own {
        // Before the endpoint, so that it goes first.
        inner: xtp::Listener,
        /// Those who come through shared memory.
        near: Option<Arrivals>,
        endpoint: Endpoint,
    },
    /// On a link that only the daemon may use.
    Carried(Carried),
}

impl Listener {
    /// Listens at `address`; port 0 picks one. On a link that only a daemon of this host has the right to use (protocol 36,
    /// Ethernet), the daemon listens for it.
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
        let endpoint = match Endpoint::bind(address, options) {
            Ok(endpoint) => endpoint,
            Err(error) => {
                let inner = Inner::Carried(Carried::listen(address, options, error)?);
                return Ok(Self { inner, options: Arc::new(options.clone()) });
            }
        };
        let port = if address.port() == 0 { endpoint.local_addr().port() } else { address.port() };
        endpoint.listen(port)
    }

    pub(super) fn new(endpoint: Endpoint, inner: xtp::Listener) -> io::Result<Self> {
        let options = Arc::clone(&endpoint.options);
        let near = Arrivals::begin(inner.local_addr(), &options, inner.notifier())?;
        Ok(Self { inner: Inner::Own { inner, near, endpoint }, options })
    }

    /// Where others reach it.
    pub fn local_addr(&self) -> SocketAddr {
        match &self.inner {
            Inner::Own { inner, .. } => inner.local_addr(),
            Inner::Carried(carried) => carried.local,
        }
    }

    /// What its sockets share; `None` on a link of the daemon's.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        match &self.inner {
            Inner::Own { endpoint, .. } => Some(endpoint),
            Inner::Carried(_) => None,
        }
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
        self.accept_until(deadline(timeout))
    }

    /// Who is here already. Never blocks.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub fn try_accept(&self) -> io::Result<Option<Stream>> {
        self.accept_until(Some(Instant::now()))
    }

    fn accept_until(&self, deadline: Option<Instant>) -> io::Result<Option<Stream>> {
        Ok(match &self.inner {
            Inner::Own { inner, near, endpoint } => {
                let near = || near.as_ref().and_then(Arrivals::pop);
                inner.accept_or(near, deadline)?.and_then(|found| self.found(endpoint, found))
            }
            Inner::Carried(carried) => carried.accept(deadline).and_then(|arrival| self.arrived(arrival)),
        })
    }

    /// Like [`Listener::accept`], for tasks.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub async fn accept_async(&self) -> io::Result<Stream> {
        loop {
            let stream = match &self.inner {
                Inner::Own { inner, near, endpoint } => {
                    let found = inner.accept_or_async(|| near.as_ref().and_then(Arrivals::pop)).await?;
                    self.found(endpoint, found)
                }
                Inner::Carried(carried) => self.arrived(carried.accept_async().await),
            };
            if let Some(stream) = stream {
                return Ok(stream);
            }
        }
    }

    /// The stream of who has come, from far or near.
    fn found(&self, endpoint: &Endpoint, found: Result<xtp::Incoming, Arrival>) -> Option<Stream> {
        match found {
            Ok(incoming) => incoming.into_connection().map(|connection| Stream::of(endpoint.clone(), connection)),
            Err(arrival) => self.arrived(arrival),
        }
    }

    /// The stream of an arrival; `None` if it is gone already.
    fn arrived(&self, arrival: Arrival) -> Option<Stream> {
        Stream::over_channel(arrival, &self.options).ok()
    }

    /// A descriptor that becomes readable when somebody has come. Clear it first, then accept until nobody is there.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn watch(&self) -> io::Result<Arc<WakeFd>> {
        let watch = Arc::new(WakeFd::new()?);
        self.watch_on(Arc::clone(&watch))?;
        Ok(watch)
    }

    /// Like [`Listener::watch`], with a descriptor that is there already: it is signalled from now on, and now if somebody
    /// has come.
    ///
    /// # Errors
    /// If the background thread cannot be started.
    pub fn watch_on(&self, watch: Arc<WakeFd>) -> io::Result<()> {
        match &self.inner {
            Inner::Own { inner, near, .. } => {
                if let Some(near) = near {
                    near.watch(&watch);
                }
                inner.watch_on(watch)?;
            }
            Inner::Carried(carried) => carried.watch(&watch),
        }
        Ok(())
    }

    /// Whether somebody has come, so that [`Listener::accept`] would not wait.
    pub fn has_arrivals(&self) -> bool {
        match &self.inner {
            Inner::Own { inner, near, .. } => {
                inner.has_arrivals() || near.as_ref().is_some_and(|near| !near.is_empty())
            }
            Inner::Carried(carried) => carried.has_arrivals(),
        }
    }
}
